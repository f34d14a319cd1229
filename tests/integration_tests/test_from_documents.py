"""Retrievers that keep Chroma and SQLite in a folder of their own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from chromadb import Collection
from chromadb.errors import InternalError
from langchain_core.documents import Document

from langchain_rse import RSERetriever
from langchain_rse.errors import StoreMismatchError
from tests.unit_tests import fakes

way = fakes.way

PAGES = [
    Document("Steel prices drove the margin.\n", metadata={"source": "a.pdf", "page": 0}),
    Document("Seals were sold.\n", metadata={"source": "a.pdf", "page": 1}),
]


@fakes.both_ways
def test_a_folder_is_found_again(way: fakes.Way, tmp_path: Path) -> None:
    folder = tmp_path / "a folder, 100%"

    def open_folder(documents: list[Document]) -> tuple[RSERetriever, list[int]]:
        embedding = fakes.BagOfWords()
        retriever = way.call(
            RSERetriever.from_documents,
            RSERetriever.afrom_documents,
            documents,
            embedding,
            persist_directory=folder,
        )
        return retriever, embedding.batches

    written, _ = open_folder(PAGES)
    expected = way.invoke(written, "steel margin")
    assert expected[0].page_content == written.text("a.pdf")

    unchanged, embedded = open_folder(PAGES)
    assert sum(embedded) <= 1  # at most the text that tells models apart
    assert way.invoke(unchanged, "steel margin") == expected

    opened, embedded = open_folder([])
    assert sum(embedded) <= 1
    assert way.invoke(opened, "steel margin") == expected
    assert not opened.indexer.check().problems


def test_a_folder_belongs_to_its_model(tmp_path: Path) -> None:
    RSERetriever.from_documents(PAGES, fakes.BagOfWords(64), persist_directory=tmp_path)
    with pytest.raises(StoreMismatchError):
        RSERetriever.from_documents(PAGES, fakes.BagOfWords(32), persist_directory=tmp_path)


@fakes.both_ways
def test_a_search_that_met_a_deleted_chunk_is_repeated(
    way: fakes.Way, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chroma fails if another thread deletes a chunk that it has just found."""
    retriever = RSERetriever.from_documents(PAGES, fakes.BagOfWords(), persist_directory=tmp_path)
    expected = way.invoke(retriever, "steel margin")
    search = Collection.query
    failures = ["Error executing plan: Internal error: Error finding id"] * 2

    def query(*args: Any, **kwargs: Any) -> Any:
        if failures:
            raise InternalError(failures.pop())
        return search(*args, **kwargs)

    monkeypatch.setattr(Collection, "query", query)
    assert way.invoke(retriever, "steel margin") == expected
    failures.append("Internal error: the disk is full")
    with pytest.raises(InternalError, match="the disk"):
        way.invoke(retriever, "steel margin")


def open_files(folder: Path) -> int:
    """Count the open files of this process in a folder, deleted ones included."""
    found = 0
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            found += descriptor.readlink().is_relative_to(folder.resolve())
        except FileNotFoundError:  # the descriptor that lists the others
            continue
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="counts open files in /proc")
def test_closing_closes_all_files(tmp_path: Path) -> None:
    with RSERetriever.from_documents(
        PAGES, fakes.BagOfWords(), persist_directory=tmp_path
    ) as retriever:
        expected = retriever.invoke("steel margin")
        again = RSERetriever.from_documents([], fakes.BagOfWords(), persist_directory=tmp_path)
    assert again.invoke("steel margin") == expected  # closing one does not close the other
    again.close()
    again.close()
    assert open_files(tmp_path) == 0
    with RSERetriever.from_documents(
        [], fakes.BagOfWords(), persist_directory=tmp_path
    ) as retriever:
        assert retriever.invoke("steel margin") == expected


def test_a_closed_retriever_says_so(tmp_path: Path) -> None:
    with RSERetriever.from_documents(
        PAGES, fakes.BagOfWords(), persist_directory=tmp_path
    ) as retriever:
        pass
    for use in (
        lambda: retriever.invoke("steel"),
        lambda: retriever.add_documents(PAGES),
        retriever.documents,
        retriever.__enter__,
    ):
        with pytest.raises(RuntimeError, match="is closed: open its folder again"):
            use()


@pytest.mark.skipif(sys.platform != "linux", reason="counts open files in /proc")
def test_a_failed_call_leaves_no_file_open(tmp_path: Path) -> None:
    class Broken(fakes.BagOfWords):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:  # noqa: ARG002
            raise ConnectionError("the model is away")

    with pytest.raises(ConnectionError):
        RSERetriever.from_documents(PAGES, Broken(), persist_directory=tmp_path)
    assert open_files(tmp_path) == 0
