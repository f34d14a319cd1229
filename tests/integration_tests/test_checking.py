"""Check and repair on Chroma with SQLite: backups, and lost vectors."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from chromadb.api.shared_system_client import SharedSystemClient
from langchain_core.documents import Document
from langchain_text_splitters import RecursiveCharacterTextSplitter

from langchain_rse import RSEIndexer, RSERetriever, SQLDocStore
from langchain_rse.errors import StoreMismatchError
from tests.integration_tests.stores import open_chroma
from tests.unit_tests import fakes

way = fakes.way
Way = fakes.Way
SPLITTER = RecursiveCharacterTextSplitter(chunk_size=40, chunk_overlap=0)


def documents(*names: str, chunks: int = 6) -> list[Document]:
    return [Document(fakes.text_of(name, chunks), id=name) for name in names]


class Folder:
    """An index in a folder, opened for each step as a new process would."""

    def __init__(self, folder: Path, way: Way) -> None:
        self.folder = folder
        self.way = way

    def use(self, work: Callable[[RSEIndexer], object]) -> None:
        chroma = open_chroma(self.folder, fakes.CountingModel())
        docstore = SQLDocStore(f"sqlite:///{self.folder}/chunks.db")
        try:
            work(RSEIndexer(chroma, docstore, text_splitter=SPLITTER))
        finally:
            docstore.close()
            SharedSystemClient.clear_system_cache()

    def add(self, *names: str, chunks: int = 6) -> None:
        self.use(lambda indexer: self.way.add(indexer, documents(*names, chunks=chunks)))

    def delete(self, *names: str) -> None:
        self.use(lambda indexer: self.way.delete(indexer, names))

    def repair(self, wrong: dict[str, int], answers: int) -> None:
        """Check finds this, repair corrects it, and a query finds all of the documents."""

        def work(indexer: RSEIndexer) -> None:
            report = self.way.call(indexer.check, indexer.acheck)
            assert report.problems == wrong
            report = self.way.call(indexer.check, indexer.acheck, repair=True)
            assert report.ok, report
            assert report.repaired == wrong
            report = self.way.call(indexer.check, indexer.acheck)
            assert report.ok, report
            retriever = RSERetriever(
                vectorstore=indexer.vectorstore,
                docstore=indexer.docstore,
                config=fakes.EVERYTHING,
                max_context_length=None,
            )
            assert len(self.way.invoke(retriever, "paragraph")) == answers

        self.use(work)


@pytest.fixture
def folder(tmp_path: Path, way: Way) -> Folder:
    return Folder(tmp_path, way)


@pytest.mark.parametrize("older", ["chroma", "chunks.db"])
@fakes.both_ways
def test_one_store_is_restored_from_an_older_backup(
    folder: Folder, tmp_path: Path, older: str
) -> None:
    folder.add("a", "b", "c")
    backup = tmp_path / "backup"
    source = tmp_path / older
    (shutil.copytree if source.is_dir() else shutil.copy)(source, backup)
    folder.delete("a")
    folder.add("b", chunks=8)
    folder.add("d")
    for file in [source, *tmp_path.glob("chunks.db-*")]:
        if file.is_dir():
            shutil.rmtree(file)
        elif older == "chunks.db":
            file.unlink()
    (shutil.copytree if backup.is_dir() else shutil.copy)(backup, source)
    # Of an older vector store: a and the former b are too many, the new b and d are missing. Of an
    # older docstore: the new b and d are too many, a and the former b are missing.
    wrong = {"vectors": 14, "leftovers": 12}
    if older == "chunks.db":
        wrong = {"vectors": 12, "leftovers": 14}
    folder.repair(wrong, 3)


def test_the_vector_store_is_lost(folder: Folder, tmp_path: Path) -> None:
    folder.add("a", "b")
    shutil.rmtree(tmp_path / "chroma")

    def refused(indexer: RSEIndexer) -> None:
        retriever = RSERetriever(vectorstore=indexer.vectorstore, docstore=indexer.docstore)
        with pytest.raises(StoreMismatchError, match=r"found nothing.*check\(repair=True\)"):
            folder.way.invoke(retriever, "paragraph")

    folder.use(refused)
    folder.repair({"vectors": 12}, 2)
