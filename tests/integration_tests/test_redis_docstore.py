"""RedisDocStore on a real server."""

from __future__ import annotations

import asyncio
import itertools
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_tests.integration_tests import BaseStoreAsyncTests, BaseStoreSyncTests

from langchain_rse import RedisDocStore, RSEIndexer
from tests.integration_tests.stores import soon
from tests.unit_tests import fakes

_numbers = itertools.count()
way = fakes.way
Way = fakes.Way


@pytest.fixture
def client(redis_url: str) -> Iterator[Any]:
    with redis.Redis.from_url(redis_url) as client:
        yield client


@pytest.fixture
def store(redis_url: str) -> Iterator[RedisDocStore]:
    """An empty docstore; each test has a prefix of its own, with what patterns know in it."""
    store = RedisDocStore(redis_url, prefix=f"[a-z]*?\\{next(_numbers)}:")
    yield store
    store.close()


class TestSync(fakes.ThreeValues, BaseStoreSyncTests[Document]):
    @pytest.fixture
    def kv_store(self, store: RedisDocStore) -> RedisDocStore:
        return store


class TestAsync(fakes.ThreeValues, BaseStoreAsyncTests[Document]):
    @pytest.fixture
    async def kv_store(self, store: RedisDocStore) -> RedisDocStore:
        return store


@fakes.both_ways
def test_any_text(way: Way, store: RedisDocStore) -> None:
    document = Document("NUL \x00 \ud800 😀", metadata={"\x00": ["\udcff", "\x00"]}, id="\x00")
    way.call(store.mset, store.amset, [("a", document), ("é/*", document)])
    assert way.call(store.mget, store.amget, ["é/*", "b", "a"]) == [document, None, document]


async def test_keys_by_prefix(store: RedisDocStore) -> None:
    keys = [f"{start}{number}" for start in ("a*", "a[b]", "a?", "ab/") for number in range(600)]
    await store.amset([(key, Document("")) for key in keys])
    for prefix in (None, "", "a", "a*", "a*1", "a[b]", "a[", "a?", "ab/", "x", "\\"):
        expected = sorted(key for key in keys if key.startswith(prefix or ""))
        assert sorted(set(store.yield_keys(prefix=prefix))) == expected
        assert sorted({key async for key in store.ayield_keys(prefix=prefix)}) == expected
    await store.amdelete(keys)
    assert list(store.yield_keys()) == []


def test_a_warning_if_records_may_be_evicted(redis_url: str, client: Any) -> None:
    def messages() -> list[str]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            store = RedisDocStore(redis_url)
            for _ in range(2):  # said once
                store.mget(["a"])
            store.close()
        return [str(warning.message) for warning in caught]

    assert messages() == []
    try:
        client.config_set("maxmemory", "100mb")
        assert messages() == []
        client.config_set("maxmemory-policy", "allkeys-lru")
        (message,) = messages()
        assert "'allkeys-lru'" in message
        assert "noeviction" in message
        assert "geheim" not in message
        client.config_set("maxmemory", "0")
        assert messages() == []
    finally:
        client.config_set("maxmemory", "0")
        client.config_set("maxmemory-policy", "noeviction")


def test_a_full_server_lets_documents_be_deleted(redis_url: str, client: Any) -> None:
    store = RedisDocStore(redis_url, prefix="full:")
    vectorstore = InMemoryVectorStore(DeterministicFakeEmbedding(size=8))
    indexer = RSEIndexer(vectorstore=vectorstore, docstore=store)
    documents = [Document(f"text {n}", metadata={"doc_id": f"{n}"}) for n in range(3)]
    indexer.add_documents(documents)
    long = Document("long " * 100)
    try:
        client.config_set("maxmemory", "1")  # byte
        with pytest.raises(redis.exceptions.ResponseError, match="maxmemory"):
            store.mset([("a", Document("text"))])
        with pytest.raises(redis.exceptions.ResponseError, match="maxmemory"):
            store.compare_and_set([("a", None, long)])
        indexer.delete(["0", "1"])
        assert [chunk.metadata["doc_id"] for chunk in indexer.chunks()] == ["2"]
        store.mdelete(list(store.yield_keys()))
    finally:
        client.config_set("maxmemory", "0")
    assert store.compare_and_set([("a", None, long)]) == [True]
    store.mdelete(["a"])
    store.close()


def test_the_password_is_not_shown(redis_url: str) -> None:
    for url in (redis_url, "redis://user:geheim@host:1234/5"):
        store = RedisDocStore(url)
        assert "geheim" not in repr(store) + repr(vars(store))
        assert "/socket" in repr(store) or "host:1234/5" in repr(store)


def test_ended_event_loops_leave_no_connection(redis_url: str, client: Any) -> None:
    store = RedisDocStore(redis_url, prefix="loops:")

    async def work() -> None:
        await asyncio.gather(*(store.amget([f"{number}"]) for number in range(5)))

    before = len(client.client_list())
    for _ in range(20):
        asyncio.run(work())
    assert len(client.client_list()) <= before + 5  # those of the pool, which all loops share
    store.close()
    assert soon(lambda: len(client.client_list()) == before)
