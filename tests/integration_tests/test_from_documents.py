"""Retrievers that keep Chroma and SQLite in a folder of their own."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
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


def test_an_empty_folder_is_a_warning(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="there are none in") as caught:
        RSERetriever.from_documents([], fakes.BagOfWords(), persist_directory=tmp_path / "typo")
    assert caught[0].filename == __file__


def test_a_folder_needs_chroma(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "langchain_chroma", None)
    with pytest.raises(ImportError, match=r"persist_directory=.*pip install 'langchain-rse\[chr"):
        RSERetriever.from_documents(PAGES, fakes.BagOfWords(), persist_directory=tmp_path / "kb")
    assert not (tmp_path / "kb").exists()
