"""PGVector: two collections of one database are two indexes."""

from __future__ import annotations

import sqlalchemy as sa
from langchain_core.documents import Document
from langchain_core.stores import InMemoryByteStore
from langchain_postgres import PGVector

from langchain_rse import RSEIndexer, RSERetriever
from tests.unit_tests import fakes


def test_two_collections_have_their_own_vectors(postgres_url: str) -> None:
    """Although PGVector keeps all collections in one table, under one key."""
    engine = sa.create_engine(postgres_url)
    indexers: list[RSEIndexer] = []
    retrievers: list[RSERetriever] = []
    for name in ("first of two", "second of two"):
        store = PGVector(fakes.BagOfWords(), connection=engine, collection_name=name)
        docstore = InMemoryByteStore()
        indexers.append(RSEIndexer(store, docstore))
        retrievers.append(
            RSERetriever(vectorstore=store, docstore=docstore, config=fakes.EVERYTHING)
        )
    for indexer in indexers:
        indexer.add_documents([Document("the same text", metadata={"source": "same.txt"})])
    for indexer, retriever in zip(indexers, retrievers, strict=True):
        assert [passage.page_content for passage in retriever.invoke("text")] == ["the same text"]
        assert indexer.check().ok
    indexers[1].delete(["same.txt"])
    assert [passage.page_content for passage in retrievers[0].invoke("text")] == ["the same text"]
    assert indexers[0].check().ok
    indexers[0].delete(["same.txt"])
    engine.dispose()
