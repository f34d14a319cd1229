from __future__ import annotations

import weakref
from collections.abc import Iterator

import pytest
from langchain_core.documents import Document
from langchain_core.stores import InMemoryByteStore
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_rse import JSONDocStore
from langchain_rse._steps import arun, run
from langchain_rse.splitting import Span
from langchain_rse.writing import Spans, Writer
from tests.unit_tests import fakes
from tests.unit_tests.fakes import BagOfWords, Way

way = fakes.way


class Making:
    """Makes Documents, and notes how many of those made before are there at each second one."""

    def __init__(self) -> None:
        self.left: list[int] = []
        self._made: list[weakref.ref[Document]] = []

    def documents(self) -> Iterator[Document]:
        return map(self._document, range(6))

    def _document(self, number: int) -> Document:
        if number % 2 == 0:
            self.left.append(sum(made() is not None for made in self._made))
        document = Document("text", id=str(number))
        self._made.append(weakref.ref(document))
        return document


@pytest.mark.parametrize("what", ["records", "vectors"])
def test_a_batch_is_let_go_before_the_next_one_is_made(way: Way, what: str) -> None:
    store = InMemoryVectorStore(BagOfWords())
    writer = Writer(store, JSONDocStore(InMemoryByteStore()), batch_size=2)
    making = Making()
    if what == "records":
        steps = writer.set_records(map(lambda made: ("key", made), making.documents()))  # noqa: C417
    else:
        steps = writer._add_vectors(making.documents())
    way.call(run, arun, steps)
    assert making.left == [0, 0, 0]


@pytest.mark.parametrize("count", [0, 1, 3])
def test_spans_in_columns_are_the_spans(count: int) -> None:
    spans = [Span(n, n + 1, str(n), {"n": n}) for n in range(count)]
    columns = Spans.of(spans)
    assert len(columns) == count
    assert list(columns) == spans
    assert [columns[n] for n in range(-count, count)] == spans * 2
    for some in (slice(None), slice(1, None), slice(0, -1), slice(None, None, -1)):
        assert columns[some] == spans[some]
    assert columns == Spans.of(list(columns))
    with pytest.raises(IndexError):
        columns[count]
