"""What LangChain has no method for: listing a store's chunks, reading and writing its vectors."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import sqlalchemy as sa
from langchain_core.documents import Document
from langchain_core.runnables import run_in_executor

from langchain_rse._sync import Steps, batches, call, call_to_the_end, compute

if TYPE_CHECKING:  # half a second of imports that docstores do without
    from langchain_core.vectorstores import VectorStore

logger = logging.getLogger(__name__)

# Points in one request to Qdrant, which has at most 32 MB; langchain-qdrant sends as many.
_QDRANT_BATCH = 64
# Chunks in one request to a server; Chroma Cloud gives no more than 300.
_PAGE = 250

Found = Iterable[tuple[Any, Sequence[float]]]
"""Ids and their vectors, in any order, without the ids that are not in the store."""

Row = tuple[str, str, dict[str, Any], list[float]]
"""A chunk in a vector store: id, embedded text, metadata and vector."""

NextChunks = Callable[[], Steps[list[Document]]]
"""Gives the next chunks of a store with each call, without their vectors; none at the end."""


class _Access(NamedTuple):
    """How one kind of store is listed, and how its vectors are read and written."""

    chunks: Callable[[Any], NextChunks]
    read: Callable[[Any, list[str]], Steps[Found]]
    write: Callable[[Any, Sequence[Row]], Steps[object]]


def kind_of(store: VectorStore, known: Container[str] = ()) -> str:
    """The kind of a store: the first of its classes that is known (here, too), else its own."""
    names = [kind.__name__ for kind in type(store).__mro__]
    return next((name for name in names if name in known or name in _STORES), names[0])


def name_of(store: Any) -> str:  # noqa: ANN401 - a VectorStore of any kind
    """The name of the collection, index or table, if the store tells it; else empty."""
    # Chroma's documentation uses the collection; it has no other way to the name.
    names = [getattr(getattr(store, "_collection", None), "name", None)]
    names += (getattr(store, name, None) for name in ("collection_name", "index_name"))
    return next((name for name in names if isinstance(name, str)), "")


def gives_vectors(store: VectorStore) -> bool:
    """True if the store is of a kind whose vectors can be read and written."""
    return kind_of(store) in _STORES


def list_chunks(store: VectorStore) -> NextChunks | None:
    """List the chunks of a store with ids and metadata; None if it is of no kind known here."""
    return _STORES[kind_of(store)].chunks(store) if gives_vectors(store) else None


def read_vectors(store: VectorStore, ids: Iterable[str]) -> Steps[dict[str, list[float]]]:
    """Read vectors by their ids; those that are not there, or cannot be read, are left out."""
    try:
        found = yield from _STORES[kind_of(store)].read(store, list(dict.fromkeys(ids)))
        return (
            yield from compute(lambda: {str(i): np.asarray(v, float).tolist() for i, v in found})
        )
    except Exception:  # such as an index of FAISS that cannot reconstruct them
        logger.info("no vectors can be read from %s", type(store).__name__, exc_info=True)
        return {}


def write_vectors(store: VectorStore, rows: Sequence[Row]) -> Steps[object]:
    """Write chunks with vectors that were read from the store."""
    return _STORES[kind_of(store)].write(store, rows)


# Stores are of any type: their packages need not be installed.


def _list_chroma(store: Any) -> Iterator[Document]:  # noqa: ANN401
    for offset in itertools.count(step=_PAGE):
        page = store.get(limit=_PAGE, offset=offset, include=["documents", "metadatas"])
        if not page["ids"]:
            return
        for vector, text, metadata in zip(
            page["ids"], page["documents"], page["metadatas"], strict=True
        ):
            yield Document(id=vector, page_content=text or "", metadata=metadata or {})


def _read_chroma(store: Any, ids: list[str]) -> Found:  # noqa: ANN401
    found = store.get(ids=ids, include=["embeddings"])
    return zip(found["ids"], found["embeddings"], strict=True)


def _write_chroma(store: Any, rows: Sequence[Row]) -> None:  # noqa: ANN401
    ids, texts, metadatas, vectors = map(list, zip(*rows, strict=True))
    # langchain-chroma has no method that takes vectors; its documentation uses the collection.
    store._collection.upsert(ids, vectors, metadatas, texts)  # noqa: SLF001


def _list_faiss(store: Any) -> Iterator[Document]:  # noqa: ANN401
    for _, vector in sorted(store.index_to_docstore_id.items()):
        yield store.docstore.search(vector)


def _read_faiss(store: Any, ids: list[str]) -> Found:  # noqa: ANN401
    wanted = set(ids)
    places = store.index_to_docstore_id.items()
    return [(one, store.index.reconstruct(place)) for place, one in places if one in wanted]


def _write_faiss(store: Any, rows: Sequence[Row]) -> None:  # noqa: ANN401
    ids, texts, metadatas, vectors = map(list, zip(*rows, strict=True))
    store.add_embeddings(zip(texts, vectors, strict=True), metadatas, ids)


def _list_in_memory(store: Any) -> Iterator[Document]:  # noqa: ANN401
    for entry in tuple(store.store.values()):
        yield Document(id=entry["id"], page_content=entry["text"], metadata=entry["metadata"])


def _read_in_memory(store: Any, ids: list[str]) -> Found:  # noqa: ANN401
    return [(one, store.store[one]["vector"]) for one in ids if one in store.store]


def _write_in_memory(store: Any, rows: Sequence[Row]) -> None:  # noqa: ANN401
    names = ("id", "text", "metadata", "vector")
    store.store.update((row[0], dict(zip(names, row, strict=True))) for row in rows)


def _list_qdrant(store: Any) -> Iterator[Document]:  # noqa: ANN401
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


def _read_qdrant(store: Any, ids: list[str]) -> Found:  # noqa: ANN401
    if store.retrieval_mode != "dense":  # a sparse vector would be needed as well
        return []
    records = store.client.retrieve(store.collection_name, ids, with_vectors=True)
    name = store.vector_name
    return [(r.id, r.vector[name] if isinstance(r.vector, dict) else r.vector) for r in records]


def _write_qdrant(store: Any, rows: Sequence[Row]) -> None:  # noqa: ANN401
    from qdrant_client.models import PointStruct  # noqa: PLC0415

    content, place = store.content_payload_key, store.metadata_payload_key
    points = [
        PointStruct(id=one, vector={store.vector_name: vector}, payload={content: text, place: m})
        for one, text, m, vector in rows
    ]
    for some in batches(points, _QDRANT_BATCH):
        store.client.upsert(store.collection_name, some)


def _pgvector_rows(store: Any, select: Callable[[Any], sa.Select[Any]]) -> Steps[list[Any]]:  # noqa: ANN401
    """Rows of a PGVector's collection; ``select`` makes the query from the table."""

    def query(collection: Any) -> sa.Select[Any]:  # noqa: ANN401
        table = store.EmbeddingStore  # there once the collection is
        return select(table).where(table.collection_id == collection.uuid)

    def read() -> list[Any]:
        with store.session_maker() as session:
            return list(session.execute(query(store.get_collection(session))))

    async def aread() -> list[Any]:
        async with store.session_maker() as session:
            return list(await session.execute(query(await store.aget_collection(session))))

    return call(read, aread) if store.async_mode else compute(read)


def _list_pgvector(store: Any) -> NextChunks:  # noqa: ANN401
    last = ""

    def page(row: Any) -> sa.Select[Any]:  # noqa: ANN401
        columns = sa.select(row.id, row.document, row.cmetadata)
        return columns.where(row.id > last).order_by(row.id).limit(_PAGE)

    def following() -> Steps[list[Document]]:
        nonlocal last
        rows = yield from _pgvector_rows(store, page)
        last = rows[-1][0] if rows else last
        return [Document(id=str(i), page_content=t or "", metadata=m or {}) for i, t, m in rows]

    return following


def _read_pgvector(store: Any, ids: list[str]) -> Steps[Found]:  # noqa: ANN401
    return _pgvector_rows(
        store, lambda row: sa.select(row.id, row.embedding).where(row.id.in_(ids))
    )


def _write_pgvector(store: Any, rows: Sequence[Row]) -> Steps[object]:  # noqa: ANN401
    ids, texts, metadatas, vectors = map(list, zip(*rows, strict=True))
    add, aadd = store.add_embeddings, store.aadd_embeddings
    return call_to_the_end(add, aadd, texts, vectors, metadatas, ids)


def _sync(
    chunks: Callable[[Any], Iterator[Document]],
    read: Callable[[Any, list[str]], Found],
    write: Callable[[Any, Sequence[Row]], None],
) -> _Access:
    """Access to a store that has no async methods of its own."""

    def listed(store: Any) -> NextChunks:  # noqa: ANN401
        found = chunks(store)
        return lambda: compute(lambda: list(itertools.islice(found, _PAGE)))

    return _Access(
        listed,
        lambda store, ids: compute(read, store, ids),
        lambda store, rows: call_to_the_end(
            partial(write, store, rows), partial(run_in_executor, None, write, store, rows)
        ),
    )


_STORES = {
    "Chroma": _sync(_list_chroma, _read_chroma, _write_chroma),
    "FAISS": _sync(_list_faiss, _read_faiss, _write_faiss),
    "InMemoryVectorStore": _sync(_list_in_memory, _read_in_memory, _write_in_memory),
    "QdrantVectorStore": _sync(_list_qdrant, _read_qdrant, _write_qdrant),
    "PGVector": _Access(_list_pgvector, _read_pgvector, _write_pgvector),
}
LISTED = ", ".join([*list(_STORES)[:-1], f"and {list(_STORES)[-1]}"])
"""The kinds of stores that can be listed."""
