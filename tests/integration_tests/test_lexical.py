"""Lexical search on PostgreSQL, and on a SQLite file that several processes share."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from langchain_core.documents import Document

from langchain_rse import SQLDocStore
from langchain_rse.errors import FullTextError
from langchain_rse.stores.fulltext_postgres import PostgresIndex
from tests.integration_tests.processes import run_at_once
from tests.unit_tests import fakes
from tests.unit_tests.stores.fulltext_suite import (
    LexicalSuite,
    MakeStore,
    document,
    execute,
    indexer,
    key_of_chunk,
)

way = fakes.way
_numbers = itertools.count()


class TestPostgres(LexicalSuite):
    @pytest.fixture
    def url(self, postgres_url: str) -> str:
        return postgres_url

    @pytest.fixture
    def table(self) -> str:
        return f"Lexical_{next(_numbers)}"

    @pytest.fixture
    def make_store(self, url: str, table: str) -> Iterator[MakeStore]:
        stores = []

        def make(**kwargs: Any) -> SQLDocStore:
            stores.append(SQLDocStore(url, **{"lexical": True, "table_name": table, **kwargs}))
            return stores[-1]

        yield make
        for store in stores:
            store.close()


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM damaged_lexical WHERE key LIKE '%/3'",
        "UPDATE damaged_lexical SET words = to_tsvector('simple', 'wrong') WHERE key LIKE '%/3'",
    ],
)
@fakes.both_ways
def test_check_compares_the_index_with_the_chunks(
    postgres_url: str, way: fakes.Way, statement: str
) -> None:
    store = SQLDocStore(postgres_url, table_name="damaged", lexical=True)
    pair = indexer(store)
    way.add(pair, [document("a", *(f"number{n}" for n in range(6)))])
    execute(postgres_url, statement)
    assert store.lexical_search("number3", 5) == []
    assert way.call(pair.check, pair.acheck).problems == {"indexes": 1}
    report = way.call(pair.check, pair.acheck, repair=True)
    assert (report.ok, report.repaired) == (True, {"indexes": 1})
    assert way.call(pair.check, pair.acheck).ok
    [(chunk, _)] = store.lexical_search("number3", 5)
    assert chunk.metadata["chunk_index"] == 3
    way.delete(pair, ["a"])
    store.close()


def test_common_words_are_left_out_beside_rarer_ones(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PostgresIndex, "_most_ranked", 50)
    store = SQLDocStore(postgres_url, table_name="common", lexical=True)
    texts = [f"common number{n}" + " rare" * (n < 3) for n in range(100)]
    indexer(store).add_documents([document("a", *texts)])
    found = store.lexical_search("common rare", 10)
    assert sorted(chunk.metadata["chunk_index"] for chunk, _ in found) == [0, 1, 2]
    assert len(store.lexical_search("common missing", 200)) == 100
    store.close()


@pytest.mark.nightly
def test_more_words_than_an_index_holds(postgres_url: str) -> None:
    """PostgreSQL's limit for the words of a text is a megabyte; pairs of characters count twice."""
    chance = random.Random(1)  # noqa: S311 - reproducible
    characters = "".join(chr(chance.randint(0x4E00, 0x9FFF)) for _ in range(200_000))
    text = f"zulu {characters}"
    plain = SQLDocStore(postgres_url, table_name="megabyte", lexical=False)
    indexer(plain).add_documents([Document(text, metadata={"doc_id": "a"})])
    plain.close()

    store = SQLDocStore(postgres_url, table_name="megabyte", lexical=True)  # makes the index
    documents = [Document(text, metadata={"doc_id": "b"}), document("c", "zulu")]
    indexer(store).add_documents(documents)
    found = store.lexical_search("zulu", 5)
    assert sorted(chunk.metadata["doc_id"] for chunk, _ in found) == ["a", "b", "c"]
    assert store.index_problems() == []
    store.close()


@pytest.fixture
def restricted_url(postgres_url: str) -> Iterator[str]:
    """The same database for a role that may not create anything in it."""
    name = f"restricted_{next(_numbers)}"
    execute(postgres_url, f"CREATE ROLE {name} LOGIN")
    execute(postgres_url, "REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    yield sa.make_url(postgres_url).set(username=name).render_as_string(hide_password=False)
    execute(postgres_url, f"DROP OWNED BY {name} CASCADE")
    execute(postgres_url, f"DROP ROLE {name}")


@fakes.both_ways
def test_a_role_that_may_not_create_the_index(
    postgres_url: str, restricted_url: str, way: fakes.Way
) -> None:
    table = f"restricted_{next(_numbers)}"
    role = sa.make_url(restricted_url).username
    owner = SQLDocStore(postgres_url, table_name=table, lexical=False)
    indexer(owner).add_documents([document("a", "zulu")])
    execute(postgres_url, f"GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO {role}")

    store = SQLDocStore(restricted_url, table_name=table)
    with pytest.warns(UserWarning, match=r"cannot create one \(permission denied") as caught:
        assert len(way.read(store, [key_of_chunk(owner)])) == 1
    assert not store.lexical
    with pytest.raises(FullTextError):
        store.lexical_search("zulu", 5)
    way.add(indexer(store), [document("b", "zulu")])  # all else works

    # What the warning names is enough.
    assert "as the owner of the table; on PostgreSQL, also grant this user SELECT" in str(
        caught[0].message
    )
    SQLDocStore(postgres_url, table_name=table).mget(["a"])
    execute(postgres_url, f"GRANT SELECT ON {table}_lexical TO {role}")
    allowed = SQLDocStore(restricted_url, table_name=table)
    found = allowed.lexical_search("zulu", 5)
    assert len(found) == 2
    # The owner's writes keep that index up to date.
    indexer(owner).add_documents([document("c", "zulu")])
    indexer(owner).delete(["a"])
    assert len(allowed.lexical_search("zulu", 5)) == 2
    for each in (owner, store, allowed):
        each.close()
    execute(postgres_url, f"DROP TABLE {table} CASCADE")


def test_a_writers_temporary_table_is_not_taken_for_the_index(
    postgres_url: str, restricted_url: str
) -> None:
    """Its triggers would run with the rights of the owner."""
    table = f"temporary_{next(_numbers)}"
    role = sa.make_url(restricted_url).username
    owner = SQLDocStore(postgres_url, table_name=table)
    indexer(owner).add_documents([document("a", "zulu")])
    execute(postgres_url, f"GRANT INSERT ON {table} TO {role}")
    engine = sa.create_engine(restricted_url)
    with engine.begin() as connection:
        connection.exec_driver_sql(
            f"CREATE TEMPORARY TABLE {table}_lexical (key text PRIMARY KEY, words tsvector)"
        )
        connection.exec_driver_sql(f"INSERT INTO {table} VALUES ('x/y/0', '{{}}')")
        query = f"SELECT count(*) FROM pg_temp.{table}_lexical"
        assert connection.exec_driver_sql(query).scalar() == 0
    engine.dispose()
    assert execute(postgres_url, f"SELECT count(*) FROM {table}_lexical WHERE key = 'x/y/0'") == [
        (1,)
    ]
    owner.close()


def _open_and_write(url: str, number: int, start: Barrier) -> None:
    start.wait(60)
    store = SQLDocStore(url, table_name="shared", lexical=True)
    indexer(store).add_documents([document(f"{number}/{n}", "zulu") for n in range(20)])
    if len(store.lexical_search("zulu", 1_000)) < 20:
        raise AssertionError("chunks are lost")
    store.close()


@pytest.mark.parametrize("backend", ["sqlite", "postgresql"])
def test_processes_that_make_the_index_at_once(
    backend: str, tmp_path: Path, postgres_url: str
) -> None:
    url = postgres_url if backend == "postgresql" else f"sqlite:///{tmp_path}/chunks.db"
    before = SQLDocStore(url, table_name="shared")
    indexer(before).add_documents([document("before", "zulu")])
    run_at_once([_open_and_write] * 3, url)
    after = SQLDocStore(url, table_name="shared", lexical=True)
    found = after.lexical_search("zulu", 1_000)
    assert len({chunk.metadata["doc_id"] for chunk, _ in found}) == len(found) == 61
    before.close()
    after.close()
