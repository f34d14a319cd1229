"""What each process of a bulk ingest does; `tests/integration_tests/test_ray.py` has a cluster."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from langchain_core.documents import Document
from langchain_core.stores import InMemoryByteStore
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_rse import RSEIndexer, ray
from langchain_rse.ray import row_to_documents
from tests.unit_tests import fakes


class Failing(fakes.BagOfWords):
    """Fails in the first calls, or for a text; notes how long was waited.

    Attributes:
        failures: Calls that fail, from the first on.
    """

    def __init__(self, failures: int = 0) -> None:
        super().__init__()
        self.failures = failures

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        if any("poison" in text for text in texts):
            raise OverflowError("the model cannot embed this")
        if self.failures:
            self.failures -= 1
            raise ConnectionError("the model does not answer")
        return super().embed_documents(texts)


def make_indexer(model: fakes.BagOfWords | None = None) -> RSEIndexer:
    return RSEIndexer(InMemoryVectorStore(model or fakes.BagOfWords()), InMemoryByteStore())


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    seconds: list[float] = []
    monkeypatch.setattr("langchain_rse.ray.time.sleep", seconds.append)
    return seconds


def work(
    rows: list[dict[str, Any]],
    indexer: RSEIndexer | None = None,
    to_documents: Any = row_to_documents,
    *,
    retries: int = 3,
) -> list[dict[str, str]]:
    made = indexer or make_indexer()
    worker = ray._Worker(lambda: made, to_documents, retries)
    returned: list[dict[str, str]] = worker(pa.Table.from_pylist(rows)).to_pylist()
    return returned


def chunks(indexer: RSEIndexer) -> dict[str, str]:
    return {chunk.metadata["doc_id"]: chunk.page_content for chunk in indexer.chunks()}


def test_columns_become_a_document() -> None:
    row = {
        "text": "herons",
        "id": 7,
        "page": 3,
        "author": None,
        "metadata": {"page": 4, "year": 1999, "gone": None},
    }
    assert row_to_documents(row) == Document("herons", id="7", metadata={"page": 4, "year": 1999})
    assert row_to_documents({"text": "herons"}) == Document("herons")
    document = row_to_documents({"zoo": 1, "text": "herons", "area": 2, "key": 3})
    assert isinstance(document, Document)
    assert list(document.metadata) == ["zoo", "area", "key"]  # in every process


def test_a_row_may_have_several_documents_in_parts() -> None:
    indexer = make_indexer()

    def pages(row: Any) -> list[Document]:
        return [
            Document(text, metadata={"source": row["file"], "page": page})
            for page, text in enumerate(row["pages"])
        ]

    rows = [{"file": "a", "pages": ["one", "two"]}, {"file": "b", "pages": []}]
    assert work(rows, indexer, pages) == [{"doc_id": "a", "origin": "source"}]
    assert chunks(indexer) == {"a": "one\n\ntwo"}
    assert work(rows[1:], indexer, pages) == []


def test_a_row_that_fails_is_named_and_those_before_it_are_added(pauses: list[float]) -> None:
    indexer = make_indexer(Failing())
    rows = [{"id": name, "text": f"{name} text"} for name in ("herons", "poison", "gulls")]
    [returned] = work(rows, indexer, retries=1)
    assert "cannot add document 'poison': OverflowError" in returned["error"]
    assert chunks(indexer)["herons"] == "herons text"
    assert pauses == [1, 1]  # of the batch, and of the document
    [returned] = work([{"id": "a", "content": "herons"}])
    assert "cannot make a document from the row {'id': 'a'" in returned["error"]


def test_a_model_that_does_not_answer_is_asked_again(pauses: list[float]) -> None:
    indexer = make_indexer(Failing(3))
    [returned] = work([{"id": "a", "text": "herons"}], indexer, retries=3)
    assert returned == {"doc_id": "a", "origin": "metadata"}
    assert chunks(indexer) == {"a": "herons"}
    assert pauses == [1, 2, 4]
