"""Bulk ingest on a local Ray cluster of two CPUs, into PostgreSQL."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document

from langchain_rse import RSEIndexer
from tests.integration_tests.postgres_pair import Held, Pair, document
from tests.unit_tests import fakes

NAMES = [f"report {number:02}" for number in range(24)]
DOCUMENTS = [document(name, paragraphs=5 + number) for number, name in enumerate(NAMES)]

# Of Ray, about its own settings.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:ray.data")

MakeIndexer = Callable[[], RSEIndexer]


@pytest.fixture
def pair(postgres_url: str) -> Pair:
    return Pair.create(postgres_url)


@pytest.fixture(scope="module")
def expected(postgres_url: str) -> Held:
    """What one indexer writes in one process."""
    pair = Pair.create(postgres_url)
    with pair.opened() as indexer:
        indexer.add_documents(DOCUMENTS)
    pair.check()
    return pair.held()


def rows(documents: list[Document] = DOCUMENTS) -> list[dict[str, Any]]:
    """As in a table: a text, an id, and metadata in columns."""
    return [
        {"id": each.metadata["source"], "text": each.page_content, **each.metadata}
        for each in documents
    ]


class Dies(fakes.BagOfWords):
    """A model in whose third call a process dies, the first that comes there."""

    def __init__(self, marker: Path) -> None:
        super().__init__()
        self.marker = marker

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        if len(self.batches) == 2:
            try:
                self.marker.touch(exist_ok=False)
            except FileExistsError:
                pass
            else:
                os.kill(os.getpid(), signal.SIGKILL)
        return super().embed_documents(texts)


def make_dying(pair: Pair, marker: Path) -> RSEIndexer:
    return pair.indexer(Dies(marker))


def test_the_result_is_that_of_one_indexer(ray_data: Any, pair: Pair, expected: Held) -> None:
    from langchain_rse.ray import index

    for _ in range(2):  # the second time, all is there
        ids = index(ray_data.from_items(rows()), pair.indexer, concurrency=2, batch_size=4)
        assert sorted(ids) == NAMES
        assert pair.held() == expected
    pair.check()


def test_a_process_that_is_killed_leaves_nothing_undone(
    ray_data: Any, pair: Pair, expected: Held, tmp_path: Path
) -> None:
    from langchain_rse.ray import index

    marker = tmp_path / "died"
    make = partial(make_dying, pair, marker)
    ids = index(ray_data.from_items(rows()), make, concurrency=2, batch_size=4)
    assert marker.exists()
    assert sorted(ids) == NAMES
    pair.repair()
    assert pair.held() == expected
    pair.check()


class Refuses(fakes.BagOfWords):
    """A model that fails for one document."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        if any(NAMES[10] in text for text in texts):
            raise OverflowError("the model cannot embed this")
        return super().embed_documents(texts)


def make_refusing(pair: Pair) -> RSEIndexer:
    return pair.indexer(Refuses())


def test_a_document_that_fails_is_named_and_another_call_completes_the_rest(
    ray_data: Any, pair: Pair, expected: Held
) -> None:
    from langchain_rse.ray import index

    dataset = ray_data.from_items(rows())
    with pytest.raises(RuntimeError, match=f"cannot add document '{NAMES[10]}': Overflow"):
        index(dataset, partial(make_refusing, pair), concurrency=2, batch_size=4, retries=0)
    index(dataset, pair.indexer, concurrency=1, batch_size=4)
    pair.repair()  # of the other worker, which was killed
    assert pair.held() == expected
    pair.check()


def test_a_document_in_two_rows_is_refused(ray_data: Any, pair: Pair) -> None:
    from langchain_rse.ray import index

    twice = rows([*DOCUMENTS[:3], DOCUMENTS[1]])
    with pytest.raises(ValueError, match=f"document '{NAMES[1]}' is in several rows"):
        index(ray_data.from_items(twice), pair.indexer, batch_size=2)
