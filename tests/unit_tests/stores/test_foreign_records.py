"""Stores written by somebody else: whatever stands in them, the worst is a clear error.

With SOAK=100 in the environment, a hundred times more examples are tried.
"""

from __future__ import annotations

import copy
import functools
import json
import math
import warnings
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda
from langchain_core.stores import InMemoryStore
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_rse import ExistingIndex, LMBasedHeaders, RSEIndexer, RSERetriever
from langchain_rse.errors import (
    AdoptionError,
    CandidateError,
    CorruptRecordError,
    FormatError,
    MissingRecordError,
    StoreMismatchError,
)
from tests.soaking import SOAK
from tests.unit_tests import fakes
from tests.unit_tests.fakes import EVERYTHING, lines

_EXAMPLES = settings.default.max_examples
soak = settings(max_examples=_EXAMPLES * SOAK)

# What a record may have in place of what belongs there.
NUMBERS = st.sampled_from(
    [
        *(0, 1, -1, 2, 511, 512, 513, 10**5, 2**31, 2**63, -(2**63) - 1, 10**30, 10**400),
        *(0.5, -0.0, 1e308, math.nan, math.inf, -math.inf),
    ]
)
TEXTS = st.sampled_from(["", "a", "0", "../../x", "a/b", "\0", "\ud800", "\x1b[31m\n", "x" * 2_000])
SIMPLE = NUMBERS | TEXTS | st.none() | st.booleans() | st.binary(max_size=2)
NAMES = TEXTS | st.sampled_from(["doc_id", "page", "source", "rse", "chunk_index", "places"])
VALUES = st.recursive(
    SIMPLE,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(NAMES, inner, max_size=3)
    ),
    max_leaves=6,
)

CLEAR = (
    AdoptionError,
    CandidateError,
    CorruptRecordError,
    FormatError,
    MissingRecordError,
    StoreMismatchError,
)


def clear(call: Callable[[], object], *said: str) -> None:
    """Make a call, which may raise nothing but clear errors, or a ValueError with these words."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            call()
        except (*CLEAR, ValueError) as error:
            failure: Exception = error
        else:
            return
    shown = str(failure)
    # A ValueError of our own, not one of Python's or a library's.
    known = type(failure) is ValueError and any(words in shown for words in said)
    assert isinstance(failure, CLEAR) or known, shown
    assert "\x1b" not in shown
    assert len(shown) < 10_000


def answering(messages: Any) -> str:
    """A stand-in for a language model, which answers to all that it is asked."""
    del messages
    return json.dumps({"title": "A title", "summary": "A summary"})


DOCUMENTS = [
    Document(f"page {number} 10\nline 20\n", metadata={"doc_id": "a", "page": number, "n": "x"})
    for number in (1, 2)
] + [Document(lines(0, 40, 80), metadata={"doc_id": "b"})]
HEADERS = LMBasedHeaders(llm=RunnableLambda(answering), max_retries=0)
INDEX = ExistingIndex(doc_id_key="file", chunk_index_key="number", chunk_overlap=0)


@functools.cache
def written(*, adopted: bool) -> tuple[dict[str, Document], dict[str, Any]]:
    """The records of a docstore and the rows of a vector store that belong together."""
    vectorstore, docstore = InMemoryVectorStore(fakes.Angles()), InMemoryStore()
    indexer = RSEIndexer(vectorstore, docstore, text_splitter=fakes.Lines())
    if adopted:
        rows = [
            Document(f"c{number} {10 * number}\n", metadata={"file": "a", "number": number})
            for number in range(3)
        ]
        vectorstore.add_documents(rows, ids=["v0", "v1", "v2"])
        indexer.adopt(INDEX)
    else:
        indexer.headers = HEADERS
        indexer.add_documents(DOCUMENTS)
    return dict(docstore.store), dict(vectorstore.store)


class Pair:
    """Copies of `written` stores, and what a user may do with them."""

    def __init__(self, *, adopted: bool = False) -> None:
        records, rows = copy.deepcopy(written(adopted=adopted))
        self.vectorstore, self.docstore = InMemoryVectorStore(fakes.Angles()), InMemoryStore()
        self.docstore.store.update(records)
        self.vectorstore.store.update(rows)
        self.adopted = adopted

    def calls(self) -> Iterator[Callable[[], object]]:
        indexer = RSEIndexer(
            self.vectorstore, self.docstore, text_splitter=fakes.Lines(), headers=HEADERS
        )
        retriever = RSERetriever(
            vectorstore=self.vectorstore,
            docstore=self.docstore,
            config=EVERYTHING,
            include_header=True,
        )
        yield lambda: retriever.invoke("query 0")
        yield lambda: list(indexer.chunks())
        if self.adopted:
            yield lambda: indexer.adopt(INDEX)
        more = Document("page 3 30\n", metadata={"doc_id": "a", "page": 3})
        yield lambda: indexer.add_documents([more], append=True)
        yield lambda: indexer.add_documents(DOCUMENTS)
        yield lambda: indexer.add_documents([Document("new 0\n", metadata={"doc_id": "b"})])
        yield lambda: indexer.delete(["a", "b"])


@st.composite
def changed(draw: st.DrawFn, *, adopted: bool) -> Pair:
    """Stores of which some records are not as they were."""
    pair = Pair(adopted=adopted)
    store = pair.docstore.store
    for _ in range(draw(st.integers(1, 2))):
        key = draw(st.sampled_from(sorted(store)))
        how = draw(st.sampled_from(["field", "fields", "inside", "text", "other", "new"]))
        record = store[key]
        fields = record.metadata
        if how == "field" and fields:
            fields = {**fields, draw(st.sampled_from(sorted(fields))): draw(VALUES)}
        elif how == "fields":
            fields = draw(st.dictionaries(NAMES, VALUES, max_size=3))
        elif how == "inside":
            fields = {name: draw(inside(value)) for name, value in fields.items()}
        elif how == "other":
            record = store[draw(st.sampled_from(sorted(store)))]
            fields = record.metadata
        elif how == "new":
            fields = {**fields, draw(NAMES): draw(VALUES)}
        text = draw(TEXTS) if how == "text" else record.page_content
        store[key] = Document(text, metadata=fields)
    return pair


@st.composite
def inside(draw: st.DrawFn, value: Any) -> Any:
    """A list or dict with one item that is not as it was; other values as they are."""
    if isinstance(value, (list, tuple)) and value:
        place = draw(st.integers(0, len(value) - 1))
        new = draw(inside(value[place]) | VALUES)
        return [*value[:place], new, *value[place + 1 :]]
    if isinstance(value, dict) and value:
        name = draw(st.sampled_from(sorted(value)))
        return {**value, name: draw(inside(value[name]) | VALUES)}
    return value


SAID = ("append=True", "looks like a continuation of it")


@pytest.mark.parametrize("adopted", [False, True])
@soak
@given(data=st.data())
def test_records(data: st.DataObject, *, adopted: bool) -> None:
    pair = data.draw(changed(adopted=adopted))
    calls = list(pair.calls())
    for number in data.draw(st.lists(st.integers(0, len(calls) - 1), min_size=1, max_size=3)):
        clear(calls[number], *SAID)


@soak
@given(data=st.data())
def test_metadata_of_vectors(data: st.DataObject) -> None:
    pair = Pair(adopted=data.draw(st.booleans()))
    for row in pair.vectorstore.store.values():
        if data.draw(st.booleans()):
            names = sorted(row["metadata"])
            row["metadata"][data.draw(st.sampled_from(names) | NAMES)] = data.draw(VALUES)
    calls = list(pair.calls())
    for number in data.draw(st.lists(st.integers(0, len(calls) - 1), min_size=1, max_size=3)):
        clear(calls[number], *SAID)


SCORES = st.sampled_from([Decimal("NaN"), Decimal(10) ** 400, Fraction(10**400), np.float32("nan")])


@soak
@given(scores=st.lists(SIMPLE | SCORES | st.floats() | st.integers(), min_size=6, max_size=6))
def test_scores(scores: list[Any]) -> None:
    pair = Pair()
    retriever = RSERetriever(
        vectorstore=pair.vectorstore, docstore=pair.docstore, config=EVERYTHING
    )
    plain = retriever.invoke("query 0")
    chunks = list(retriever.indexer.chunks())
    for chunk, score in zip(chunks, scores, strict=False):
        chunk.metadata["relevance_score"] = score
    fixed = fakes.FixedRetriever(documents=chunks)
    wrapped = RSERetriever(base_retriever=fixed, docstore=pair.docstore, config=EVERYTHING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = wrapped.invoke("query 0")
    assert {one.metadata["doc_id"] for one in found} == {one.metadata["doc_id"] for one in plain}
