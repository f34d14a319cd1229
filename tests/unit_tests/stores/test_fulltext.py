"""Lexical search on SQLite."""

from __future__ import annotations

import functools
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from langchain_rse import SQLDocStore
from langchain_rse.stores import fulltext as lexical
from tests.unit_tests import fakes
from tests.unit_tests.stores.fulltext_suite import (
    LexicalSuite,
    MakeStore,
    document,
    indexer,
)

way = fakes.way


class TestFile(LexicalSuite):
    @pytest.fixture
    def url(self, tmp_path: Path) -> str:
        return f"sqlite:///{tmp_path}/chunks.db"

    @pytest.fixture
    def make_store(self, url: str) -> MakeStore:
        return functools.partial(SQLDocStore, url, lexical=True)


def test_in_memory() -> None:
    store = SQLDocStore("sqlite://", lexical=True)
    indexer(store).add_documents([document("a", "zulu")])
    [(chunk, score)] = store.lexical_search("zulu", 1)
    assert (chunk.page_content, score > 0) == ("zulu", True)


@pytest.mark.parametrize("name", ["Chunks", "order", "a_b"])
def test_any_table_name(name: str) -> None:
    store = SQLDocStore("sqlite://", lexical=True, table_name=name)
    indexer(store).add_documents([document("a", "zulu")])
    assert len(store.lexical_search("zulu", 1)) == 1
    store.drop_lexical_index()


def test_the_index_lives_through_a_vacuum(tmp_path: Path) -> None:
    path = tmp_path / "chunks.db"
    store = SQLDocStore(f"sqlite:///{path}", lexical=True)
    index = indexer(store)
    index.add_documents([document(f"d{n}", f"zulu{n}") for n in range(9)])
    index.delete(["d0", "d3"])
    connection = sqlite3.connect(path)
    connection.execute("VACUUM")
    connection.close()
    for number in range(9):
        found = store.lexical_search(f"zulu{number}", 5)
        expected = [] if number in {0, 3} else [f"d{number}"]
        assert [chunk.metadata["doc_id"] for chunk, _ in found] == expected


def test_quotes_in_a_tokenizer(tmp_path: Path) -> None:
    for _ in range(2):  # it is recognized
        store = SQLDocStore(
            f"sqlite:///{tmp_path}/c.db", lexical=True, tokenizer="unicode61 tokenchars '-_'"
        )
        indexer(store).add_documents([document("a", "zulu")])
        assert len(store.lexical_search("zulu", 1)) == 1


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("東京都の人口は", 0),
        ("中国最大的城市是哪个", 2),
        ("2023年度の売上高", 3),
        ("首都是北京吗", 1),
        ("capital", 4),
        ("capit", None),
    ],
)
def test_text_without_spaces(query: str, expected: int | None) -> None:
    store = SQLDocStore("sqlite://", lexical=True)
    texts = ["東京都の人口は約千四百万人です。", "北京是中华人民共和国的首都。"]
    texts += ["上海是中国最大的城市。", "当社の2023年度の業績です。", "The capital of France"]
    indexer(store).add_documents([document("a", *texts)])
    found = [chunk.metadata["chunk_index"] for chunk, _ in store.lexical_search(query, 1)]
    assert found == ([] if expected is None else [expected])


def test_common_words_are_left_out_only_beside_rarer_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lexical, "_MOST_RANKED", 5)
    store = SQLDocStore("sqlite://", lexical=True)
    texts = [f"common number{n}" for n in range(20)] + ["rare common", "rare"]
    indexer(store).add_documents([document("a", *texts)])
    found = store.lexical_search("common rare", 50)
    assert sorted(chunk.metadata["chunk_index"] for chunk, _ in found) == [20, 21]
    assert len(store.lexical_search("common missing", 50)) == 21


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"url": "postgresql+psycopg://host/db", "language": "x'; --"}, "language must be"),
        ({"url": "mysql+pymysql://host/db"}, "on SQLite and PostgreSQL; url names 'mysql'"),
    ],
)
def test_bad_arguments_are_named(arguments: dict[str, str], message: str) -> None:
    pytest.importorskip("psycopg")
    with pytest.raises(ValueError, match=message):
        SQLDocStore(**{"url": "sqlite://", "lexical": True, **arguments})  # type: ignore[arg-type]


def test_a_read_only_database_is_searched(tmp_path: Path) -> None:
    path = tmp_path / "chunks.db"
    store = SQLDocStore(f"sqlite:///{path}", lexical=True)
    indexer(store).add_documents([document("a", "zulu")])
    store.close()
    reader = SQLDocStore(f"sqlite:///file:{path}?mode=ro&uri=true", lexical=True)
    assert len(reader.lexical_search("zulu", 1)) == 1


def test_a_read_only_database_without_an_index(tmp_path: Path) -> None:
    path = tmp_path / "chunks.db"
    store = SQLDocStore(f"sqlite:///{path}")
    indexer(store).add_documents([document("a", "zulu")])
    store.close()
    reader = SQLDocStore(f"sqlite:///file:{path}?mode=ro&uri=true", lexical=True)
    with pytest.raises(sa.exc.OperationalError, match="is read-only"):
        reader.lexical_search("zulu", 1)


def test_an_index_of_before_is_built_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It had no words of scripts without spaces, and none of header rows of tables."""
    path = tmp_path / "chunks.db"
    store = SQLDocStore(f"sqlite:///{path}", lexical=True)
    indexer(store).add_documents([document("a", "\u5317\u4eac\u662f\u9996\u90fd\u3002")])
    store.close()
    with closing(sqlite3.connect(path)) as connection, connection:
        (view,) = connection.execute(
            "SELECT sql FROM sqlite_master WHERE name = 'langchain_rse_lexical_texts'"
        ).fetchone()
        earlier_view = view.replace("langchain_rse_words(CAST(", "((").replace(" AS BLOB)", ")")
        earlier_view = earlier_view.replace("metadata.table_header", "metadata.header")
        connection.execute("DROP VIEW langchain_rse_lexical_texts")
        connection.execute(earlier_view)
        connection.execute(
            "INSERT INTO langchain_rse_lexical(langchain_rse_lexical) VALUES('rebuild')"
        )
    store = SQLDocStore(f"sqlite:///{path}", lexical=True)
    with caplog.at_level("INFO", logger="langchain_rse"):
        [(chunk, _)] = store.lexical_search("\u9996\u90fd", 5)
    assert "built again" in caplog.text
    assert chunk.metadata["doc_id"] == "a"


def test_trigrams_are_refused() -> None:
    with pytest.raises(ValueError, match="finds Chinese and Japanese as well"):
        SQLDocStore("sqlite://", lexical=True, tokenizer="trigram")
