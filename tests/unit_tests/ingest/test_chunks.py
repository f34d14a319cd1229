"""All chunks as Documents: for another retriever over the same ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain_classic.storage import LocalFileStore, create_kv_docstore
from langchain_core.documents import Document
from langchain_core.stores import BaseStore, InMemoryByteStore, InMemoryStore
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_rse import DocumentHeaders, ExistingIndex, RSEIndexer, RSERetriever, SQLDocStore
from langchain_rse.stores.records import document_key, manifest_key
from tests.unit_tests import fakes
from tests.unit_tests.fakes import QUERY, Way, lines, make_retriever

way = fakes.way


def chunks_of(source: RSERetriever | RSEIndexer) -> list[Document]:
    indexer = source.indexer if isinstance(source, RSERetriever) else source
    return list(indexer.chunks())


class WithoutWildcard(BaseStore[str, bytes]):
    """As LangChain's RedisStore: a prefix is a whole key."""

    def __init__(self) -> None:
        self.store = InMemoryByteStore()

    def mget(self, keys: Sequence[str]) -> list[bytes | None]:
        return self.store.mget(keys)

    def mset(self, key_value_pairs: Sequence[tuple[str, bytes]]) -> None:
        self.store.mset(key_value_pairs)

    def mdelete(self, keys: Sequence[str]) -> None:
        self.store.mdelete(keys)

    def yield_keys(self, *, prefix: str | None = None) -> Iterator[str]:
        return (key for key in self.store.yield_keys() if prefix in (None, key))


STORES: dict[str, Callable[[Path], Any]] = {
    "memory": lambda _: InMemoryStore(),
    "bytes": lambda _: InMemoryByteStore(),
    "files": LocalFileStore,
    "SQL": lambda folder: SQLDocStore(f"sqlite:///{folder / 'chunks.db'}"),
    "no wildcard": lambda _: WithoutWildcard(),
    "no wildcard, wrapped": lambda _: create_kv_docstore(WithoutWildcard()),
}


@pytest.mark.parametrize("kind", STORES)
@fakes.both_ways
def test_chunks_are_as_in_the_vector_store(way: Way, kind: str, tmp_path: Path) -> None:
    vectorstore = InMemoryVectorStore(fakes.BagOfWords())
    retriever = RSERetriever(
        vectorstore=vectorstore,
        docstore=STORES[kind](tmp_path),
        text_splitter=fakes.Lines(),
        headers=DocumentHeaders(),
    )
    pages = [
        Document(
            f"one {page}\ntwo\0 {page}\n", metadata={"page": page, "title": "A", "tags": ["x"]}
        )
        for page in range(3)
    ]
    way.add(retriever, pages, ids=["a"] * 3)
    way.add(retriever, [Document("gone\n"), Document("kept\n")], ids=["gone", "b"])
    way.add(retriever, [Document("replaced\n")], ids=["b"])
    way.delete(retriever, ["gone"])
    chunks = chunks_of(retriever)
    stored = vectorstore.store
    # White space between chunks is part of them, but most splitters do not embed it.
    assert {chunk.id: (chunk.page_content, chunk.metadata) for chunk in chunks} == {
        name: (vector["text"].strip(), vector["metadata"]) for name, vector in stored.items()
    }
    assert len(chunks) == len(stored) > 4
    indexes = [c.metadata["chunk_index"] for c in chunks if c.metadata["doc_id"] == "a"]
    assert indexes == list(range(len(indexes)))
    assert chunks_of(RSEIndexer(vectorstore, retriever.docstore)) == chunks


def test_chunks_of_an_adopted_index(way: Way) -> None:
    store, docstore = InMemoryVectorStore(fakes.Angles()), InMemoryStore()
    store.add_documents(
        [Document(f"t{n} {n}", metadata={"source": "a", "number": n}) for n in (0, 1, 3)]
    )
    index = ExistingIndex(
        doc_id_key="source", chunk_index_key="number", separator="\n", chunk_overlap=0
    )
    with pytest.warns(UserWarning, match="missing"):
        retriever = RSERetriever.from_existing_index(store, docstore, index)
    chunks = chunks_of(retriever)
    assert [chunk.page_content.strip() for chunk in chunks] == ["t0 0", "t1 1", "t3 3"]
    wrapped = RSERetriever(
        base_retriever=fakes.FixedRetriever(documents=chunks),
        candidates_only=False,
        docstore=docstore,
        config=fakes.EVERYTHING,
    )
    assert len(way.invoke(wrapped, QUERY)) == 2  # before the gap and after it


def test_a_manifest_that_cannot_be_read_costs_one_document() -> None:
    retriever = make_retriever({"a": lines(0), "b": lines(0)})
    key = manifest_key(document_key("a"))
    retriever.docstore.mset([(key, Document("no manifest"))])
    with pytest.warns(UserWarning, match=r"1 document of the docstore with a corrupt record"):
        chunks = chunks_of(retriever)
    assert {chunk.metadata["doc_id"] for chunk in chunks} == {"b"}
