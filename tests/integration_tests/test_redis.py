"""A docstore in Redis: LangChain's byte store, on a real server."""

from __future__ import annotations

import warnings

from langchain_core.documents import Document
from langchain_core.stores import ByteStore
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_rse import RSERetriever
from tests.unit_tests import fakes

way = fakes.way


def redis_store(url: str) -> ByteStore:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # langchain-community's own
        from langchain_community.storage import RedisStore

    return RedisStore(redis_url=url, namespace="[a]*?")


@fakes.both_ways
def test_documents_are_kept_replaced_and_deleted(way: fakes.Way, redis_url: str) -> None:
    vectorstore = InMemoryVectorStore(fakes.BagOfWords())
    retriever = RSERetriever(vectorstore=vectorstore, docstore=redis_store(redis_url))
    way.add(retriever, [Document("Herons fish \x00 é.", id="a"), Document("Owls sleep.", id="b")])
    way.add(retriever, [Document("Herons fly.", id="a")])
    way.delete(retriever, ["b"])
    again = RSERetriever(vectorstore=vectorstore, docstore=redis_store(redis_url))
    assert [passage.page_content for passage in way.invoke(again, "herons")] == ["Herons fly."]
    assert again.indexer.check().ok
    way.delete(again, ["a"])
