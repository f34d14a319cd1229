"""Adapters for PGVector and PGVectorStore of langchain-postgres."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import sqlalchemy as sa
from langchain_core.documents import Document
from typing_extensions import override

from langchain_rse._sync import Steps, call, compute, run
from langchain_rse.stores.vectorstores.base import (
    PAGE_SIZE,
    ChunkRow,
    VectorStoreAdapter,
    columns,
    plain_vectors,
)


class PGVectorAdapter(VectorStoreAdapter):
    """Adapter for PGVector, which keeps all collections of a database in one table."""

    kind = "PGVector"
    can_list = True
    can_read_vectors = True
    takes_lists = True
    can_filter_namespaces = True

    @override
    def list_chunks(self) -> Iterator[Document]:
        last_id = ""
        while rows := run(self._read_rows(partial(_select_page, last_id))):
            for vector, text, metadata in rows:
                last_id = vector
                yield Document(id=str(vector), page_content=text or "", metadata=metadata or {})

    @override
    def read_vectors(self, ids: Sequence[str]) -> Steps[dict[str, list[float]]]:
        rows = yield from self._read_rows(
            lambda table: sa.select(table.id, table.embedding).where(table.id.in_(ids))
        )
        return plain_vectors(rows)

    @override
    def write_chunks(self, rows: Sequence[ChunkRow]) -> Steps[None]:
        ids, texts, metadatas, vectors = columns(rows)
        return self._change("add_embeddings", texts, vectors, metadatas, ids)

    def _read_rows(self, select: Callable[[Any], sa.Select[Any]]) -> Steps[list[Any]]:
        """Read rows of the collection; ``select`` builds the query from the table."""
        store = self.store

        def in_collection(collection: Any) -> sa.Select[Any]:  # noqa: ANN401
            table = store.EmbeddingStore  # exists once the collection does
            return select(table).where(table.collection_id == collection.uuid)

        def read() -> list[Any]:
            with store.session_maker() as session:
                query = in_collection(store.get_collection(session))
                return list(session.execute(query))

        async def aread() -> list[Any]:
            async with store.session_maker() as session:
                query = in_collection(await store.aget_collection(session))
                return list(await session.execute(query))

        return call(read, aread) if store.async_mode else compute(read)


def _select_page(last_id: str, table: Any) -> sa.Select[Any]:  # noqa: ANN401
    """Select the chunks that follow an id."""
    chunks = sa.select(table.id, table.document, table.cmetadata)
    return chunks.where(table.id > last_id).order_by(table.id).limit(PAGE_SIZE)


class PGVectorStoreAdapter(VectorStoreAdapter):
    """Adapter for PGVectorStore, which keeps each collection in a separate table.

    Its filters have no operator for lists.
    """

    can_filter_namespaces = True
