"""Listing all chunks of a vector store; LangChain has no method for that."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import sqlalchemy as sa
from langchain_core.documents import Document
from langchain_core.vectorstores import VectorStore

from langchain_rse._sync import Steps, compute
from langchain_rse.ingest.known_vectors import pgvector_rows

# Chunks in one request to a server; Chroma Cloud gives no more than 300.
_PAGE = 250


def list_chunks(
    store: VectorStore, documents: Iterable[Document] | None, *, in_order: bool
) -> Steps[list[Document]]:
    """List the chunks of a vector store with their ids and metadata, without their vectors.

    Raises:
        TypeError: If the store cannot be listed and ``documents``, its chunks, is None.
        ValueError: If the chunks are needed in the order in which they were added, and the store
            does not keep it.
    """
    if documents is not None:
        return (yield from compute(list, documents))
    names = {kind.__name__ for kind in type(store).__mro__}
    if in_order and names & {"PGVector", "QdrantVectorStore"}:
        raise ValueError(
            "in_store_order=True: this store does not list its chunks in the order in which they "
            "were added; give chunk_index_key, start_index_key or page_key; or texts, a store of "
            "the documents' whole texts"
        )
    if "PGVector" in names:
        return (yield from _pgvector(store))
    for name in names & _READERS.keys():
        return (yield from compute(list, _READERS[name](store)))
    raise TypeError(
        f"the chunks of a {type(store).__name__} cannot be listed, only those of "
        f"{', '.join(_READERS)} and PGVector. Read them yourself and pass them: "
        "documents=[Document(id=..., page_content=..., metadata=...), ...], with id, text and "
        "metadata as the store has them"
    )


# Stores are of any type: their packages need not be installed.


def _chroma(store: Any) -> Iterator[Document]:  # noqa: ANN401
    for offset in itertools.count(step=_PAGE):
        page = store.get(limit=_PAGE, offset=offset, include=["documents", "metadatas"])
        if not page["ids"]:
            return
        for vector, text, metadata in zip(
            page["ids"], page["documents"], page["metadatas"], strict=True
        ):
            yield Document(id=vector, page_content=text or "", metadata=metadata or {})


def _faiss(store: Any) -> Iterator[Document]:  # noqa: ANN401
    for _, vector in sorted(store.index_to_docstore_id.items()):
        yield store.docstore.search(vector)


def _in_memory(store: Any) -> Iterator[Document]:  # noqa: ANN401
    for entry in tuple(store.store.values()):
        yield Document(id=entry["id"], page_content=entry["text"], metadata=entry["metadata"])


def _qdrant(store: Any) -> Iterator[Document]:  # noqa: ANN401
    offset = None
    while True:
        records, offset = store.client.scroll(
            store.collection_name, limit=_PAGE, offset=offset, with_payload=True
        )
        for record in records:
            text = record.payload.get(store.content_payload_key) or ""
            metadata = record.payload.get(store.metadata_payload_key) or {}
            yield Document(id=str(record.id), page_content=text, metadata=metadata)
        if offset is None:
            return


_READERS: dict[str, Callable[[Any], Iterator[Document]]] = {
    "Chroma": _chroma,
    "FAISS": _faiss,
    "InMemoryVectorStore": _in_memory,
    "QdrantVectorStore": _qdrant,
}


def _pgvector(store: Any) -> Steps[list[Document]]:  # noqa: ANN401
    rows = yield from pgvector_rows(
        store, lambda row: sa.select(row.id, row.document, row.cmetadata).order_by(row.id)
    )
    return [
        Document(id=str(vector), page_content=text or "", metadata=metadata or {})
        for vector, text, metadata in rows
    ]
