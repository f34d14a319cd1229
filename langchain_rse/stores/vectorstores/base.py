"""What this package asks of a vector store, as far as LangChain's interface answers it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
from langchain_core.documents import Document
from langchain_core.runnables import run_in_executor

from langchain_rse._sync import Steps, call, call_to_the_end, compute
from langchain_rse.stores.records import NAMESPACE

PAGE_SIZE = 250
"""Chunks in one request to a server; Chroma Cloud returns at most 300."""

IdsWithVectors = Iterable[tuple[Any, Sequence[float]]]
"""Ids with their vectors, in any order, without the ids that do not exist."""

NextChunks = Callable[[], Steps[list[Document]]]
"""Returns the next chunks of a store with each call, without their vectors; none at the end."""


class ChunkRow(NamedTuple):
    """A chunk as a vector store keeps it."""

    id: str
    text: str  # the embedded text
    metadata: dict[str, Any]
    vector: list[float]


class VectorStoreAdapter:
    """A vector store of which only LangChain's interface is known.

    Stores of which more is known have subclasses, in the files beside this one; `adapter_for` finds
    them. To list chunks, a subclass writes `_iterate_chunks`; to read vectors, `_get_vectors` and
    `_put_chunks`. These are plain functions, which async code runs in threads.

    Attributes:
        store: The vector store.
        can_list: True if `list_chunks` works.
        lists_in_insertion_order: True if it lists chunks in the order in which they were added.
        can_filter_namespaces: True if `search_arguments` works.
        id_field: The metadata in which searches return the id of a vector, for stores that do not
            return it as ``Document.id``.
    """

    can_list: ClassVar[bool] = False
    lists_in_insertion_order: ClassVar[bool] = False
    can_filter_namespaces: ClassVar[bool] = False
    id_field: ClassVar[str] = ""

    def __init__(self, store: Any) -> None:  # noqa: ANN401 - each subclass knows its own
        self.store = store

    @property
    def kind(self) -> str:
        """The kind of store, as docstores record it; all subclasses of a known class have one."""
        return type(self.store).__name__

    @property
    def collection_name(self) -> str:
        """The name of the collection or index; empty if the store does not tell it."""
        # Chroma, MongoDB and Weaviate tell it nowhere else.
        collection = getattr(self.store, "_collection", None)
        names = (
            getattr(collection, "name", None),
            getattr(self.store, "collection_name", None),
            getattr(self.store, "index_name", None),
        )
        return next((name for name in names if isinstance(name, str)), "")

    @property
    def can_read_vectors(self) -> bool:
        """True if `read_vectors` and `write_chunks` work."""
        return False

    @property
    def takes_lists(self) -> bool:
        """True if values of metadata may be lists, which its filters can look into."""
        return False

    def storable(self, chunk: Document) -> Document:
        """A chunk with the metadata that the store takes: without lists if it takes none."""
        if self.takes_lists:
            return chunk
        without_lists: dict[str, Any] = {}
        for name, value in chunk.metadata.items():
            if not isinstance(value, list):
                without_lists[name] = value
        return chunk.model_copy(update={"metadata": without_lists})

    def list_chunks(self) -> NextChunks:
        """List the chunks of the store, with ids and metadata."""
        chunks = self._iterate_chunks()
        return lambda: compute(lambda: list(itertools.islice(chunks, PAGE_SIZE)))

    def read_vectors(self, ids: Sequence[str]) -> Steps[dict[str, list[float]]]:
        """Read vectors by their ids; ids that do not exist are left out."""
        return compute(lambda: plain_vectors(self._get_vectors(ids)))

    def write_chunks(self, rows: Sequence[ChunkRow]) -> Steps[None]:
        """Write chunks with vectors that were read from the store, without embedding."""
        write = partial(self._put_chunks, rows)
        return call_to_the_end(write, partial(run_in_executor, None, write))

    def search(self, method: str, query: str, arguments: Mapping[str, Any]) -> Steps[Any]:
        """Search by a method of the store, or by its async form."""
        search, asearch = getattr(self.store, method), getattr(self.store, f"a{method}")
        return call(search, asearch, query, **arguments)

    def search_arguments(self, namespace: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Add a filter on a namespace, given by its digest, to the arguments of a search.

        Filters are dicts with ``$eq`` and ``$and``, unless a subclass says otherwise.
        """
        condition: dict[str, Any] = {NAMESPACE: {"$eq": namespace}}
        if arguments.get("filter"):
            condition = {"$and": [condition, arguments["filter"]]}
        return {**arguments, "filter": condition}

    def vector_id(self, document: Document) -> str | None:
        """The id of a Document that came from this store; None if it has none."""
        vector = document.id
        if vector is None and self.id_field:
            vector = document.metadata.get(self.id_field)
        return None if vector is None else str(vector)

    def existing_texts(self, ids: Sequence[str]) -> Steps[dict[str, str] | None]:
        """The embedded texts of those ids that exist; None if the store cannot tell."""
        try:
            documents = yield from call(self.store.get_by_ids, self.store.aget_by_ids, ids)
        except NotImplementedError:
            return None
        texts: dict[str, str] = {}
        for document in documents:
            vector = self.vector_id(document)
            if vector is None:
                return None
            texts[vector] = document.page_content
        return {vector: texts[vector] for vector in ids if vector in texts}

    def add(self, documents: list[Document]) -> Steps[None]:
        """Embed chunks and add them; a ValueError if the store does not keep their ids."""
        ids = [str(document.id) for document in documents]
        kept_ids = yield from call_to_the_end(
            self.store.add_documents, self.store.aadd_documents, documents, ids=ids
        )
        if kept_ids and list(kept_ids) != ids:  # some stores return nothing at all
            raise ValueError(
                f"{type(self.store).__name__} did not keep the ids it was given, so its vectors "
                "could never be replaced or deleted; use a store that does"
            )

    def delete(self, ids: list[str]) -> Steps[None]:
        """Delete vectors; ids that do not exist are no error."""
        try:
            yield from self._delete_all(ids)
        except (LookupError, RuntimeError, ValueError):
            # LangChain does not say what a store does if an id does not exist.
            existing = yield from self.existing_texts(ids)
            if existing is None or len(existing) == len(ids):
                raise
            if existing:
                yield from self._delete_all(list(existing))

    def _delete_all(self, ids: list[str]) -> Steps[None]:
        is_deleted = yield from call_to_the_end(self.store.delete, self.store.adelete, ids)
        if is_deleted is False:  # most stores return None
            raise RuntimeError(
                f"{type(self.store).__name__} could not delete vectors (its log may say why); call "
                "again to delete what is left"
            )

    def _iterate_chunks(self) -> Iterator[Document]:
        raise NotImplementedError

    def _get_vectors(self, ids: Sequence[str]) -> IdsWithVectors:
        raise NotImplementedError

    def _put_chunks(self, rows: Sequence[ChunkRow]) -> None:
        raise NotImplementedError


def plain_vectors(vectors: IdsWithVectors) -> dict[str, list[float]]:
    """Convert ids and vectors of any types to strings and lists."""
    return {str(vector): np.asarray(values, float).tolist() for vector, values in vectors}


def columns(rows: Sequence[ChunkRow]) -> tuple[list[Any], ...]:
    """The ids, texts, metadata and vectors of one or more rows, each as a list."""
    return tuple(list(column) for column in zip(*rows, strict=True))
