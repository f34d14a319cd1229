"""Reading out vector stores page by page: what LangChain's interface has no method for."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import sqlalchemy as sa
from langchain_core.documents import Document
from langchain_core.runnables import run_in_executor
from langchain_core.vectorstores import VectorStore
from typing_extensions import override

from langchain_rse._steps import Steps, call, compute

__all__ = ["Listing", "list_chunks"]


class Listing(ABC):
    """Reads the chunks of a store, with their ids and metadata, but not their vectors.

    Attributes:
        in_order: Whether chunks come in the order in which they were added.
    """

    in_order = True

    @abstractmethod
    def next_page(self) -> Steps[list[Document]]:
        """The next chunks; none at the end."""


def list_chunks(
    store: VectorStore, documents: Iterable[Document] | None, page_size: int
) -> Listing:
    """Read out a store, or what was read out of it already.

    Args:
        store: The store.
        documents: Its chunks with their ids, for a store that is not known here.
        page_size: Chunks a page, at least 1.

    Raises:
        TypeError: If the store is not known here and ``documents`` is None.
    """
    if documents is not None:
        return _Given(documents, page_size)
    for kind in type(store).__mro__:
        if kind.__name__ in _LISTINGS:
            return _LISTINGS[kind.__name__](store, page_size)
    raise TypeError(
        f"{type(store).__name__} cannot be read out here; known are {', '.join(_LISTINGS)}. Read "
        "its chunks out yourself and pass them as documents=, each a Document with the id, the "
        "text and the metadata that the store has"
    )


class _Given(Listing):
    def __init__(self, documents: Iterable[Document], page_size: int) -> None:
        self._documents = iter(documents)
        self._page_size = page_size

    @override
    def next_page(self) -> Steps[list[Document]]:
        return (yield from compute(self._read))

    def _read(self) -> list[Document]:
        return list(itertools.islice(self._documents, self._page_size))


class _InMemory(_Given):
    def __init__(self, store: Any, page_size: int) -> None:  # noqa: ANN401 - InMemoryVectorStore
        super().__init__(
            (
                Document(id=entry["id"], page_content=entry["text"], metadata=entry["metadata"])
                for entry in tuple(store.store.values())
            ),
            page_size,
        )


class _FAISS(_Given):
    def __init__(self, store: Any, page_size: int) -> None:  # noqa: ANN401 - FAISS
        super().__init__(self._documents_of(store), page_size)

    @staticmethod
    def _documents_of(store: Any) -> Iterator[Document]:  # noqa: ANN401
        for _, vector in sorted(store.index_to_docstore_id.items()):
            document = store.docstore.search(vector)
            if not isinstance(document, Document):
                raise ValueError(  # noqa: TRY004 - it is a message, not a Document
                    f"FAISS has a vector {vector!r}, but not its document ({document}); the index "
                    "is damaged: build it again"
                )
            yield document


class _Chroma(Listing):
    def __init__(self, store: Any, page_size: int) -> None:  # noqa: ANN401 - Chroma
        self._store = store
        self._page_size = page_size
        self._read = 0

    @override
    def next_page(self) -> Steps[list[Document]]:
        found = yield from compute(
            lambda: self._store.get(
                limit=self._page_size, offset=self._read, include=["documents", "metadatas"]
            )
        )
        self._read += len(found["ids"])
        return [
            Document(id=vector, page_content=text or "", metadata=metadata or {})
            for vector, text, metadata in zip(
                found["ids"], found["documents"], found["metadatas"], strict=True
            )
        ]


class _PGVector(Listing):
    in_order = False  # rows are put where there is room

    def __init__(self, store: Any, page_size: int) -> None:  # noqa: ANN401 - PGVector
        self._store = store
        self._page_size = page_size
        # Ids have no order that an index serves for each collection; places on the disk do.
        self._last = "(0,0)"

    @override
    def next_page(self) -> Steps[list[Document]]:
        rows = yield from call(self._page, self._apage)
        if rows:
            self._last = rows[-1].place
        return [
            Document(id=str(row.id), page_content=row.document or "", metadata=row.cmetadata or {})
            for row in rows
        ]

    def _page(self) -> list[Any]:
        if self._store.async_mode:
            raise ValueError(
                "this PGVector has async_mode=True and can only be read async: use the method "
                "whose name begins with an a"
            )
        with self._store.session_maker() as session:
            collection = self._store.get_collection(session)
            return [] if collection is None else list(session.execute(self._query(collection)))

    async def _apage(self) -> list[Any]:
        if not self._store.async_mode:
            return await run_in_executor(None, self._page)
        async with self._store.session_maker() as session:
            collection = await self._store.aget_collection(session)
            if collection is None:
                return []
            return list(await session.execute(self._query(collection)))

    def _query(self, collection: Any) -> sa.Select[Any]:  # noqa: ANN401 - an ORM object
        row = self._store.EmbeddingStore
        place: sa.ColumnElement[Any] = sa.literal_column("ctid")
        last = sa.text("ctid > CAST(:last AS tid)").bindparams(last=self._last)
        return (
            sa.select(row.id, row.document, row.cmetadata, sa.cast(place, sa.Text).label("place"))
            .where(row.collection_id == collection.uuid, last)
            .order_by(place)
            .limit(self._page_size)
        )


class _Qdrant(Listing):
    in_order = False

    def __init__(self, store: Any, page_size: int) -> None:  # noqa: ANN401 - QdrantVectorStore
        self._store = store
        self._page_size = page_size
        self._offset: Any = None
        self._ended = False

    @override
    def next_page(self) -> Steps[list[Document]]:
        if self._ended:
            return []
        store = self._store
        records, self._offset = yield from compute(
            lambda: store.client.scroll(
                collection_name=store.collection_name,
                limit=self._page_size,
                offset=self._offset,
                with_payload=True,
                with_vectors=False,
            )
        )
        self._ended = self._offset is None
        return [
            Document(
                id=str(record.id),
                page_content=record.payload.get(store.content_payload_key) or "",
                metadata=record.payload.get(store.metadata_payload_key) or {},
            )
            for record in records
        ]


_LISTINGS: dict[str, Callable[[Any, int], Listing]] = {
    "Chroma": _Chroma,
    "FAISS": _FAISS,
    "InMemoryVectorStore": _InMemory,
    "PGVector": _PGVector,
    "QdrantVectorStore": _Qdrant,
}
