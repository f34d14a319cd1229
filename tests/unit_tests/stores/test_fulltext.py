"""Lexical search on SQLite."""

from __future__ import annotations

import functools
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document

from langchain_rse import SQLDocStore
from langchain_rse.errors import FullTextError
from langchain_rse.stores import databases
from langchain_rse.stores.fulltext_sqlite import SQLiteIndex
from tests.unit_tests import fakes
from tests.unit_tests.stores.fulltext_suite import (
    LexicalSuite,
    MakeStore,
    document,
    indexer,
    key_of_chunk,
)

way = fakes.way


class TestFile(LexicalSuite):
    @pytest.fixture
    def url(self, tmp_path: Path) -> str:
        return f"sqlite:///{tmp_path}/chunks.db"

    @pytest.fixture
    def make_store(self, url: str) -> MakeStore:
        return functools.partial(SQLDocStore, url, lexical=True)


def test_common_words_are_left_out_only_beside_rarer_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SQLiteIndex, "_most_ranked", 5)
    store = SQLDocStore("sqlite://", lexical=True)
    texts = [f"common number{n}" for n in range(20)] + ["rare common", "rare"]
    indexer(store).add_documents([document("a", *texts)])
    found = store.lexical_search("common rare", 50)
    assert sorted(chunk.metadata["chunk_index"] for chunk, _ in found) == [20, 21]
    assert len(store.lexical_search("common missing", 50)) == 21


@pytest.mark.parametrize("number", ["2.3.10", "v1.4.0", "5.3"])
def test_a_number_of_several_parts_is_found_as_a_whole(number: str) -> None:
    store = SQLDocStore("sqlite://", lexical=True)
    parts = " or ".join(reversed(number.split(".")))
    indexer(store).add_documents([document("a", *[f"{parts} or {parts}"] * 3, f"release {number}")])
    found = store.lexical_search(f"What is new in {number}?", 1)
    assert [chunk.metadata["chunk_index"] for chunk, _ in found] == [3]


def test_the_index_is_there_by_default(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/chunks.db"
    without = SQLDocStore(url, lexical=False)
    indexer(without).add_documents([document("a", "zulu")])
    assert not without.lexical
    store = SQLDocStore(url)
    assert store.lexical
    assert len(store.lexical_search("zulu", 1)) == 1


def read_only(path: Path, **arguments: Any) -> SQLDocStore:
    return SQLDocStore(f"sqlite:///file:{path}?mode=ro&uri=true", **arguments)


def test_a_read_only_database_is_searched(tmp_path: Path) -> None:
    path = tmp_path / "chunks.db"
    store = SQLDocStore(f"sqlite:///{path}")
    indexer(store).add_documents([document("a", "zulu")])
    store.close()
    assert len(read_only(path).lexical_search("zulu", 1)) == 1
    assert len(read_only(path, lexical=True).lexical_search("zulu", 1)) == 1


@fakes.both_ways
def test_a_read_only_database_without_an_index(tmp_path: Path, way: fakes.Way) -> None:
    path = tmp_path / "chunks.db"
    store = SQLDocStore(f"sqlite:///{path}", lexical=False)
    store.mset([("a", Document("text"))])
    store.close()

    reader = read_only(path)

    with pytest.warns(UserWarning, match="no full-text index.* with write access") as caught:
        assert way.read(reader, ["a"]) == {"a": Document("text")}
    assert len(caught) == 1
    if not way.is_async:  # in a thread, the caller's line is not known
        assert caught[0].filename == fakes.__file__  # which makes the call
    assert not reader.lexical
    assert reader.mget(["a"]) == [Document("text")]  # warns once
    with pytest.raises(FullTextError, match="needs a docstore with a full-text index"):
        reader.lexical_search("text", 1)
    assert reader.index_problems() == []

    silent = read_only(path, lexical=False)
    assert silent.mget(["a"]) == [Document("text")]


def test_a_search_that_learns_that_there_is_no_index(tmp_path: Path) -> None:
    path = tmp_path / "chunks.db"
    SQLDocStore(f"sqlite:///{path}", lexical=False).mset([("a", Document("text"))])
    reader = read_only(path)
    with pytest.warns(UserWarning, match="no full-text index"), pytest.raises(FullTextError):
        reader.lexical_search("text", 1)
    assert not reader.lexical


def test_a_sqlite_without_fts5(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    creation = [each.replace("USING fts5", "USING fts9") for each in SQLiteIndex._creation]
    monkeypatch.setattr(SQLiteIndex, "_creation", tuple(creation))
    monkeypatch.setattr(databases, "_NO_FTS5", "no such module: fts9")
    store = SQLDocStore(f"sqlite:///{tmp_path}/chunks.db")
    with pytest.warns(UserWarning, match="no such module"):
        store.mset([("a", Document("text"))])
    assert store.mget(["a"]) == [Document("text")]
    assert not store.lexical


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE langchain_rse_lexical_data SET block = x'ff' WHERE id > 10",
        "DELETE FROM langchain_rse_lexical_data WHERE id = 10",
        "UPDATE langchain_rse_lexical_config SET v = 99",
        "DROP TABLE langchain_rse_lexical",
        "DROP TABLE langchain_rse_lexical_keys",
    ],
)
@fakes.both_ways
def test_a_damaged_index_is_named_and_repaired(tmp_path: Path, way: fakes.Way, damage: str) -> None:
    path = tmp_path / "chunks.db"
    store = SQLDocStore(f"sqlite:///{path}")
    index = indexer(store)
    index.add_documents([document("a", "zulu")])
    store.close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(damage)
    with pytest.raises(FullTextError, match=r"damaged or missing \(.*check\(repair=True\)"):
        store.lexical_search("zulu", 5)
    assert store.mget([key_of_chunk(store)]) != [None]  # all else works
    assert store.index_problems() != []
    assert way.call(index.check, index.acheck, repair=True).ok
    assert len(store.lexical_search("zulu", 5)) == 1


def test_another_programs_writes_are_refused(tmp_path: Path) -> None:
    """Else the index would no longer fit."""
    path = tmp_path / "chunks.db"
    SQLDocStore(f"sqlite:///{path}").mset([("a", Document("text"))])
    with closing(sqlite3.connect(path)) as connection:
        with pytest.raises(sqlite3.OperationalError, match="no such function"):
            connection.execute("DELETE FROM langchain_rse")
        assert connection.execute("SELECT count(*) FROM langchain_rse").fetchone() == (1,)
