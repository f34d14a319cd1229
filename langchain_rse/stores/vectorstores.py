"""Lists a vector store's chunks, and reads and writes its vectors, for the kinds known here."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import sqlalchemy as sa
from langchain_core.documents import Document
from langchain_core.runnables import run_in_executor

from langchain_rse._sync import Steps, batches, call, call_to_the_end, compute

if TYPE_CHECKING:  # half a second of imports that docstores do without
    from langchain_core.vectorstores import VectorStore

logger = logging.getLogger(__name__)

# Points in one request to Qdrant, which takes at most 32 MB; langchain-qdrant sends as many.
_QDRANT_BATCH = 64
# Chunks in one request to a server; Chroma Cloud returns at most 300.
_PAGE = 250

Found = Iterable[tuple[Any, Sequence[float]]]
"""Ids and their vectors, in any order, without the ids that are not in the store."""

Row = tuple[str, str, dict[str, Any], list[float]]
"""A chunk in a vector store: id, embedded text, metadata and vector."""

NextChunks = Callable[[], Steps[list[Document]]]
"""Returns the next chunks of a store with each call, without their vectors; none at the end."""


def kind_of(store: VectorStore, known: Container[str] = ()) -> str:
    """The kind of a store: the first class in its MRO that is ``known`` or in this module."""
    names = [kind.__name__ for kind in type(store).__mro__]
    return next((name for name in names if name in known or name in _STORES), names[0])


def name_of(store: Any) -> str:  # noqa: ANN401 - a VectorStore of any kind
    """The name of the collection or index, if the store has it; else empty."""
    # Chroma's documentation uses ``_collection``; there is no other access to the name.
    names = [getattr(getattr(store, "_collection", None), "name", None)]
    names += (getattr(store, name, None) for name in ("collection_name", "index_name"))
    return next((name for name in names if isinstance(name, str)), "")


def gives_vectors(store: VectorStore) -> bool:
    """True if the store is of a kind whose vectors can be read and written."""
    return kind_of(store) in _STORES


def list_chunks(store: VectorStore) -> NextChunks | None:
    """List the chunks of a store with ids and metadata; None if its kind is unknown here."""
    return _STORES[kind_of(store)](store).following() if gives_vectors(store) else None


def read_vectors(store: VectorStore, ids: Iterable[str]) -> Steps[dict[str, list[float]]]:
    """Read vectors by their ids; vectors that do not exist, or cannot be read, are left out."""
    try:
        found = yield from _STORES[kind_of(store)](store).reading(list(dict.fromkeys(ids)))
        return (
            yield from compute(lambda: {str(i): np.asarray(v, float).tolist() for i, v in found})
        )
    except Exception:  # such as an index of FAISS that cannot reconstruct them
        logger.info("no vectors can be read from %s", type(store).__name__, exc_info=True)
        return {}


def write_vectors(store: VectorStore, rows: Sequence[Row]) -> Steps[object]:
    """Write chunks with vectors that were read from the store."""
    return _STORES[kind_of(store)](store).writing(rows)


class _Access:
    """Lists a store of one kind, and reads and writes its vectors."""

    def __init__(self, store: Any) -> None:  # noqa: ANN401 - its package need not be installed
        self.store = store

    def chunks(self) -> Iterator[Document]:
        raise NotImplementedError

    def read(self, ids: list[str]) -> Found:
        raise NotImplementedError

    def write(self, rows: Sequence[Row]) -> None:
        raise NotImplementedError

    # The same as steps; these stores have no async methods of their own.

    def following(self) -> NextChunks:
        found = self.chunks()
        return lambda: compute(lambda: list(itertools.islice(found, _PAGE)))

    def reading(self, ids: list[str]) -> Steps[Found]:
        return compute(self.read, ids)

    def writing(self, rows: Sequence[Row]) -> Steps[object]:
        write = partial(self.write, rows)
        return call_to_the_end(write, partial(run_in_executor, None, write))


class _Chroma(_Access):
    def chunks(self) -> Iterator[Document]:
        for offset in itertools.count(step=_PAGE):
            page = self.store.get(limit=_PAGE, offset=offset, include=["documents", "metadatas"])
            if not page["ids"]:
                return
            for vector, text, metadata in zip(
                page["ids"], page["documents"], page["metadatas"], strict=True
            ):
                yield Document(id=vector, page_content=text or "", metadata=metadata or {})

    def read(self, ids: list[str]) -> Found:
        found = self.store.get(ids=ids, include=["embeddings"])
        return zip(found["ids"], found["embeddings"], strict=True)

    def write(self, rows: Sequence[Row]) -> None:
        ids, texts, metadatas, vectors = map(list, zip(*rows, strict=True))
        # langchain-chroma has no method that takes vectors; its documentation uses the collection.
        self.store._collection.upsert(ids, vectors, metadatas, texts)  # noqa: SLF001


class _FAISS(_Access):
    def chunks(self) -> Iterator[Document]:
        for _, vector in sorted(self.store.index_to_docstore_id.items()):
            yield self.store.docstore.search(vector)

    def read(self, ids: list[str]) -> Found:
        wanted, index = set(ids), self.store.index
        places = self.store.index_to_docstore_id.items()
        return [(one, index.reconstruct(place)) for place, one in places if one in wanted]

    def write(self, rows: Sequence[Row]) -> None:
        ids, texts, metadatas, vectors = map(list, zip(*rows, strict=True))
        self.store.add_embeddings(zip(texts, vectors, strict=True), metadatas, ids)


class _InMemory(_Access):
    def chunks(self) -> Iterator[Document]:
        for one in tuple(self.store.store.values()):
            yield Document(id=one["id"], page_content=one["text"], metadata=one["metadata"])

    def read(self, ids: list[str]) -> Found:
        entries = self.store.store
        return [(one, entries[one]["vector"]) for one in ids if one in entries]

    def write(self, rows: Sequence[Row]) -> None:
        names = ("id", "text", "metadata", "vector")
        self.store.store.update((row[0], dict(zip(names, row, strict=True))) for row in rows)


class _Qdrant(_Access):
    def chunks(self) -> Iterator[Document]:
        store, offset = self.store, None
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

    def read(self, ids: list[str]) -> Found:
        if self.store.retrieval_mode != "dense":  # sparse vectors would be needed as well
            return []
        records = self.store.client.retrieve(self.store.collection_name, ids, with_vectors=True)
        name = self.store.vector_name
        return [(r.id, r.vector[name] if isinstance(r.vector, dict) else r.vector) for r in records]

    def write(self, rows: Sequence[Row]) -> None:
        from qdrant_client.models import PointStruct  # noqa: PLC0415

        name = self.store.vector_name
        content, place = self.store.content_payload_key, self.store.metadata_payload_key
        points = [
            PointStruct(id=one, vector={name: vector}, payload={content: text, place: metadata})
            for one, text, metadata, vector in rows
        ]
        for some in batches(points, _QDRANT_BATCH):
            self.store.client.upsert(self.store.collection_name, some)


class _PGVector(_Access):
    def following(self) -> NextChunks:
        last = ""

        def page(row: Any) -> sa.Select[Any]:  # noqa: ANN401
            columns = sa.select(row.id, row.document, row.cmetadata)
            return columns.where(row.id > last).order_by(row.id).limit(_PAGE)

        def following() -> Steps[list[Document]]:
            nonlocal last
            rows = yield from self._rows(page)
            last = rows[-1][0] if rows else last
            return [Document(id=str(i), page_content=t or "", metadata=m or {}) for i, t, m in rows]

        return following

    def reading(self, ids: list[str]) -> Steps[Found]:
        return self._rows(lambda row: sa.select(row.id, row.embedding).where(row.id.in_(ids)))

    def writing(self, rows: Sequence[Row]) -> Steps[object]:
        ids, texts, metadatas, vectors = map(list, zip(*rows, strict=True))
        add, aadd = self.store.add_embeddings, self.store.aadd_embeddings
        return call_to_the_end(add, aadd, texts, vectors, metadatas, ids)

    def _rows(self, select: Callable[[Any], sa.Select[Any]]) -> Steps[list[Any]]:
        """Read rows of the collection; ``select`` makes the query from the table."""
        store = self.store

        def query(collection: Any) -> sa.Select[Any]:  # noqa: ANN401
            table = store.EmbeddingStore  # exists once the collection does
            return select(table).where(table.collection_id == collection.uuid)

        def read() -> list[Any]:
            with store.session_maker() as session:
                return list(session.execute(query(store.get_collection(session))))

        async def aread() -> list[Any]:
            async with store.session_maker() as session:
                return list(await session.execute(query(await store.aget_collection(session))))

        return call(read, aread) if store.async_mode else compute(read)


_STORES: dict[str, type[_Access]] = {
    "Chroma": _Chroma,
    "FAISS": _FAISS,
    "InMemoryVectorStore": _InMemory,
    "QdrantVectorStore": _Qdrant,
    "PGVector": _PGVector,
}
LISTED = ", ".join([*list(_STORES)[:-1], f"and {list(_STORES)[-1]}"])
"""The kinds of stores that can be listed."""
