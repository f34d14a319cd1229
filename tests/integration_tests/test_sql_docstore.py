"""SQLDocStore on databases shared by several processes, and on PostgreSQL."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_tests.integration_tests import BaseStoreAsyncTests, BaseStoreSyncTests

from langchain_rse import RSEIndexer, SQLDocStore
from tests.unit_tests import fakes
from tests.unit_tests.stores.changing_suite import count_up, number_in

_numbers = itertools.count()


@pytest.fixture
def postgres_store(postgres_url: str) -> Iterator[SQLDocStore]:
    """An empty docstore; each test has a table of its own."""
    store = SQLDocStore(postgres_url, table_name=f"chunks_{next(_numbers)}")
    yield store
    store.close()


class TestPostgresSync(fakes.ThreeValues, BaseStoreSyncTests[Document]):
    @pytest.fixture
    def kv_store(self, postgres_store: SQLDocStore) -> SQLDocStore:
        return postgres_store


class TestPostgresAsync(fakes.ThreeValues, BaseStoreAsyncTests[Document]):
    @pytest.fixture
    async def kv_store(self, postgres_store: SQLDocStore) -> SQLDocStore:
        return postgres_store


async def test_postgres_keeps_any_text(postgres_store: SQLDocStore) -> None:
    document = Document(
        "NUL \x00, lone surrogates \ud800 \udfff, emoji 😀, \\u0000",
        metadata={"\x00": "\x00", "\udcff": ["\udcff", "\x00"]},
        id="\x00\ud800",
    )
    postgres_store.mset([("sync", document)])
    await postgres_store.amset([("async", document)])
    keys = ["async", "sync"]
    assert postgres_store.mget(keys) == [document, document]
    assert await postgres_store.amget(keys) == [document, document]


LAST = "\U0010fffe"
KEYS = [
    *("a", "A", "ab", "Ab", "aB", "AB", "a%", "a%b", "a_", "a_b", "a/b", "a-b", "a b", "a.b", "b"),
    *("é", "e", "e\u0301", "éa", "ß", "ss", "\ud7ff", "\ud7ffz", "\ue000", "\uffff", "😀", LAST),
    *("a" + LAST, "a" + LAST + "b", LAST + "a", "", "'", "\\", "a\\"),
]


@pytest.fixture
def linguistic_url(postgres_url: str) -> Iterator[str]:
    """A database whose own order of strings is that of a language, if the machine knows one."""
    server = sa.create_engine(postgres_url, isolation_level="AUTOCOMMIT")
    try:
        with server.connect() as connection:
            locale = connection.exec_driver_sql(
                "SELECT collcollate FROM pg_collation WHERE collprovider = 'c' AND collencoding = "
                "pg_char_to_encoding('UTF8') AND collcollate !~ '^(C|POSIX)' ORDER BY 1 LIMIT 1"
            ).scalar()
            connection.exec_driver_sql(
                f"CREATE DATABASE linguistic TEMPLATE template0 LOCALE '{locale or 'C.UTF-8'}'"
            )
            url = sa.make_url(postgres_url).set(database="linguistic")
            yield url.render_as_string(hide_password=False)
            connection.exec_driver_sql("DROP DATABASE linguistic")
    finally:
        server.dispose()


async def test_postgres_lists_keys_by_bytes_under_any_locale(linguistic_url: str) -> None:
    store = SQLDocStore(linguistic_url)
    store.mset([(key, Document("")) for key in KEYS])

    engine = sa.create_engine(linguistic_url)
    with engine.connect() as connection:
        collation = connection.exec_driver_sql(
            "SELECT collation_name FROM information_schema.columns "
            "WHERE table_name = 'langchain_rse' AND column_name = 'key'"
        ).scalar()
    engine.dispose()
    assert collation == "C"  # and not the database's own, whichever that is

    for prefix in (None, "", "a", "A", "a%", "a_", "e", "é", "ß", "\ud7ff", "a" + LAST, LAST, "x"):
        expected = sorted(key for key in KEYS if key.startswith(prefix or ""))
        assert list(store.yield_keys(prefix=prefix)) == expected
        assert [key async for key in store.ayield_keys(prefix=prefix)] == expected
    many = [f"many/{number}" for number in range(2_100)]
    await store.amset([(key, Document("")) for key in many])
    assert list(store.yield_keys(prefix="many/")) == sorted(many)
    assert await store.amget(many) == [Document("")] * len(many)
    await store.amdelete(many)
    assert list(store.yield_keys(prefix="many/")) == []


def test_serializable_transactions_are_repeated(postgres_url: str) -> None:
    """PostgreSQL ends those that have no serial order, and asks to repeat them."""
    engine_kwargs = {"isolation_level": "SERIALIZABLE"}
    store = SQLDocStore(postgres_url, table_name="serializable", engine_kwargs=engine_kwargs)
    indexer = RSEIndexer(
        vectorstore=InMemoryVectorStore(DeterministicFakeEmbedding(size=8)), docstore=store
    )

    def work(thread: int) -> None:
        for number in range(8):
            text = f"thread {thread}, document {number}"
            indexer.add_documents([Document(text, metadata={"doc_id": text})])
            count_up(store, "counter", 1)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert number_in(store, "counter") == 32
    assert len(list(indexer.chunks())) == 32
    store.close()
