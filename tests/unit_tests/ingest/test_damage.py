"""Damaged bytes: repair leaves no store worse, no text wrong, and says what has to be added again.

With SOAK=n in the environment, n times as many random bytes are damaged; SEED=n for others.
"""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from langchain_classic.storage import LocalFileStore
from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_text_splitters import RecursiveCharacterTextSplitter
from sqlalchemy.exc import DBAPIError

from langchain_rse import RSEIndexer, RSERetriever, SQLDocStore
from langchain_rse.errors import RSEError
from langchain_rse.ingest.checking import CheckReport
from tests.soaking import SOAK
from tests.unit_tests import fakes

way = fakes.way
Way = fakes.Way

NAMES = ("herons", "otters", "pikes")
TEXTS = {name: fakes.text_of(name, 6) for name in NAMES}
QUERIES = [*(f"{name} paragraph 03" for name in NAMES), "paragraph of the text"]
SEED = int(os.environ.get("SEED") or 24)
DAMAGES = 2 * SOAK  # of each kind of docstore


def pages(name: str) -> list[Document]:
    """A document in two pages, which has a record of its parts."""
    paragraphs = TEXTS[name].split("\n\n")
    texts = ["\n\n".join(paragraphs[:3]), "\n\n".join(paragraphs[3:])]
    return [
        Document(text, metadata={"source": name, "page": page}) for page, text in enumerate(texts)
    ]


class Index:
    """A docstore in a file or folder, and its vector store."""

    def __init__(
        self, docstore: Any, way: Way, vectorstore: InMemoryVectorStore | None = None
    ) -> None:
        self.docstore = docstore
        self.vectorstore = InMemoryVectorStore(fakes.BagOfWords())
        if vectorstore is not None:
            self.vectorstore.store.update(vectorstore.store)
        self.way = way
        self.is_lexical = bool(getattr(self.docstore, "lexical", False))

    def indexer(self) -> RSEIndexer:
        splitter = RecursiveCharacterTextSplitter(chunk_size=40, chunk_overlap=0)
        return RSEIndexer(self.vectorstore, self.docstore, text_splitter=splitter)

    def retriever(self) -> RSERetriever:
        return RSERetriever(
            vectorstore=self.vectorstore,
            docstore=self.docstore,
            config=fakes.EVERYTHING,
            max_context_length=None,
        )

    def add(self, *names: str) -> None:
        self.way.add(self.indexer(), [page for name in names for page in pages(name)])

    def check(self, *, repair: bool = False) -> CheckReport:
        indexer = self.indexer()
        return self.way.call(indexer.check, indexer.acheck, repair=repair)

    def check_added(self) -> None:
        """After damaged documents were added again, only full text may have their old words."""
        report = self.check(repair=True)
        assert report.ok, report
        assert report.repaired.keys() <= {"indexes"}

    def ask(self) -> dict[str, list[str] | None]:
        """The texts that each query returns, with and without full text; None for an error."""
        answers: dict[str, list[str] | None] = {}
        for hybrid in [0.0, 0.5] if self.is_lexical else [0.0]:
            for query in QUERIES:
                try:
                    passages = self.way.invoke(self.retriever(), query, hybrid=hybrid)
                except (RSEError, ValueError, DBAPIError, OSError):
                    answers[f"{query} {hybrid}"] = None
                    continue
                for passage in passages:
                    start, end = passage.metadata["start_index"], passage.metadata["end_index"]
                    source = TEXTS[passage.metadata["doc_id"]]
                    assert passage.page_content == source[start:end], "a wrong text"
                answers[f"{query} {hybrid}"] = sorted(one.page_content for one in passages)
        return answers

    def readable_documents(self) -> set[str]:
        readable: set[str] = set()
        for name in NAMES:
            try:
                text = self.retriever().text(name)
            except (RSEError, ValueError, DBAPIError, LookupError, OSError):
                continue
            assert text == TEXTS[name], "a wrong text"
            readable.add(name)
        return readable

    def close(self) -> None:
        if isinstance(self.docstore, SQLDocStore):
            self.docstore.close()


class SQLFile:
    """An index whose docstore is a SQLite file with a full-text index."""

    def __init__(self, folder: Path, way: Way) -> None:
        self.file = folder / "chunks.db"
        url = f"sqlite:///{self.file}"
        self.index = Index(SQLDocStore(url, lexical=True), way)
        self.index.add(*NAMES)
        self.answers = self.index.ask()

    def execute(self, statement: str) -> None:
        self.index.close()
        with closing(sqlite3.connect(self.file)) as connection, connection:
            assert connection.execute(statement).rowcount != 0

    def is_repaired(self) -> None:
        """Check finds the damage, repair corrects it, and all is found after adding again."""
        assert not self.index.check().ok
        before = self.index.readable_documents()
        report = self.index.check(repair=True)
        assert bool(report.problems) == bool(report.add_again), report
        assert {*report.add_again} == {*NAMES} - self.index.readable_documents()
        assert before <= self.index.readable_documents(), report
        assert None not in self.index.ask().values()
        self.index.add(*NAMES)
        self.index.check_added()
        assert self.index.ask() == self.answers
        self.index.close()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE langchain_rse_lexical_data SET block = x'ff' WHERE id > 10",
        "UPDATE langchain_rse_lexical_docsize SET sz = x'7f' WHERE id = 3",
        "UPDATE langchain_rse_lexical_keys SET key = 'x' || substr(key, 2) WHERE id = 3",
        "DELETE FROM langchain_rse_lexical_keys WHERE id = 3",
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")
@fakes.both_ways
def test_each_table_of_the_full_text_index(tmp_path: Path, way: Way, statement: str) -> None:
    stores = SQLFile(tmp_path, way)
    stores.execute(statement)
    stores.is_repaired()


# Random places


def outcome(index: Index) -> str:
    """Check, repair, and ask everything before and after."""
    readable_before = index.readable_documents()
    answers_before = index.ask()
    try:
        report = index.check(repair=True)
    except (RSEError, ValueError, DBAPIError, OSError):
        report = None
    readable = index.readable_documents()
    answers = index.ask()
    lost = readable_before - readable
    assert not lost, f"worse than before: {lost}, {report}"
    failing = {query for query, texts in answers.items() if texts is None}
    assert not failing or report is None
    for query in failing:
        assert answers_before[query] is None, "worse than before"
    if report is None:
        return "refused"
    assert bool(report.problems) == bool(report.add_again), report
    index.add(*NAMES)
    assert index.readable_documents() == {*NAMES}
    index.check_added()
    if report.add_again:
        return "added again"
    return "repaired" if report.repaired else "nothing wrong"


def damage_random_bytes(original: Path, tmp_path: Path, reopened: Callable[[Path], Index]) -> None:
    """Damage one byte of a copy of a file or folder, repair it, and again with another copy."""
    outcomes = Counter[str]()
    chance = random.Random(SEED)  # noqa: S311 - has to be the same again
    for number in range(DAMAGES):
        folder = tmp_path / f"copy {number}"
        if original.is_dir():
            shutil.copytree(original, folder)
        else:
            folder.mkdir()
            shutil.copy(original, folder)
        files = sorted(file for file in folder.rglob("*") if file.is_file())
        [file] = chance.choices(files, [file.stat().st_size for file in files])
        content = bytearray(file.read_bytes())
        place = chance.randrange(len(content))
        content[place] ^= 1 << chance.randrange(8)
        file.write_bytes(content)
        index = reopened(folder)
        try:
            outcomes[outcome(index)] += 1
        except Exception as error:
            message = f"damage {number} with SEED={SEED}: byte {place} of {file.name}"
            raise AssertionError(message) from error
        finally:
            index.close()
            shutil.rmtree(folder)
    print(dict(outcomes))  # the figures of a soak


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_random_bytes_of_a_sqlite_file(tmp_path: Path, way: Way) -> None:
    original = SQLFile(tmp_path, way)
    original.index.close()

    def reopened(folder: Path) -> Index:
        url = f"sqlite:///{folder / 'chunks.db'}"
        return Index(SQLDocStore(url, lexical=True), way, original.index.vectorstore)

    damage_random_bytes(original.file, tmp_path, reopened)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_random_bytes_of_a_folder_of_files(tmp_path: Path, way: Way) -> None:
    original = Index(LocalFileStore(tmp_path / "chunks"), way)
    original.add(*NAMES)

    def reopened(folder: Path) -> Index:
        return Index(LocalFileStore(folder), way, original.vectorstore)

    damage_random_bytes(tmp_path / "chunks", tmp_path, reopened)
