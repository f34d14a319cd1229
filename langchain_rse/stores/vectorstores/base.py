"""What this package asks of a vector store, as far as LangChain's interface answers it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from langchain_core.documents import Document

from langchain_rse._sync import Steps, call, call_to_the_end, compute, compute_to_the_end
from langchain_rse.stores.records import NAMESPACE

PAGE_SIZE = 250
"""Chunks in one request to a server; Chroma Cloud returns at most 300."""

IdsWithVectors = Iterable[tuple[Any, Sequence[float]]]
"""Ids with their vectors, in any order, without the ids that do not exist."""

# Metadata in which searches of Qdrant and of Milvus return the id of a vector.
_ID_FIELDS = ("_id", "pk")


class ChunkRow(NamedTuple):
    """A chunk as a vector store keeps it."""

    id: str
    text: str  # the embedded text
    metadata: dict[str, Any]
    vector: list[float]


class VectorStoreAdapter:
    """A vector store of which only LangChain's interface is known.

    Stores of which more is known have subclasses, in the files beside this one; `adapter_for` finds
    them. To list chunks, a subclass defines `list_chunks`; to read vectors, `get_vectors` and
    `put_chunks`. These are plain functions, which async code runs in threads.

    Attributes:
        store: The vector store.
        can_list: True if `list_chunks` works.
        lists_in_insertion_order: True if it lists chunks in the order in which they were added.
        can_filter_namespaces: True if `search_arguments` works.
    """

    can_list: ClassVar[bool] = False
    lists_in_insertion_order: ClassVar[bool] = False
    can_filter_namespaces: ClassVar[bool] = False

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
        fields = chunk.metadata.items()
        without_lists = {name: value for name, value in fields if not isinstance(value, list)}
        return chunk.model_copy(update={"metadata": without_lists})

    def list_chunks(self) -> Iterator[Document]:
        """List the chunks of the store, with ids and metadata; only functions in threads may."""
        raise NotImplementedError

    def get_vectors(self, ids: Sequence[str]) -> IdsWithVectors:
        """Get those vectors that exist."""
        raise NotImplementedError

    def put_chunks(self, rows: Sequence[ChunkRow]) -> None:
        """Add chunks with their vectors, or replace them."""
        raise NotImplementedError

    def read_vectors(self, ids: Sequence[str]) -> Steps[dict[str, list[float]]]:
        """Read vectors by their ids; ids that do not exist are left out."""
        return compute(lambda: plain_vectors(self.get_vectors(ids)))

    def write_chunks(self, rows: Sequence[ChunkRow]) -> Steps[None]:
        """Write chunks with given vectors, without embedding."""
        return compute_to_the_end(self.put_chunks, rows)

    def search(self, method: str, query: str, arguments: Mapping[str, Any]) -> Steps[Any]:
        """Search by a method of the store."""
        return self._call(method, query, **arguments)

    def search_arguments(self, namespace: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Add a filter on a namespace, given by its digest, to the arguments of a search.

        Filters are dicts with ``$eq`` and ``$and``, unless a subclass says otherwise.
        """
        condition: dict[str, Any] = {NAMESPACE: {"$eq": namespace}}
        if arguments.get("filter"):
            condition = {"$and": [condition, arguments["filter"]]}
        return {**arguments, "filter": condition}

    def existing_texts(self, ids: Sequence[str]) -> Steps[dict[str, str] | None]:
        """The embedded texts of those ids that exist; None if the store cannot tell."""
        try:
            documents = yield from self._call("get_by_ids", ids)
        except NotImplementedError:
            return None
        texts = {vector_id_of(document): document.page_content for document in documents}
        if None in texts:
            return None
        return {vector: texts[vector] for vector in ids if vector in texts}

    def add(self, documents: list[Document]) -> Steps[None]:
        """Embed chunks and add them; a ValueError if the store does not keep their ids."""
        ids = [str(document.id) for document in documents]
        kept_ids = yield from self._change("add_documents", documents, ids=ids)
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
        is_deleted = yield from self._change("delete", ids)
        if is_deleted is False:  # most stores return None
            raise RuntimeError(
                f"{type(self.store).__name__} could not delete vectors (its log may say why); call "
                "again to delete what is left"
            )

    def _call(self, method: str, *args: Any, **kwargs: Any) -> Steps[Any]:  # noqa: ANN401
        """Call a method of the store that reads, or its async form."""
        sync, asynchronous = getattr(self.store, method), getattr(self.store, f"a{method}")
        return call(sync, asynchronous, *args, **kwargs)

    def _change(self, method: str, *args: Any, **kwargs: Any) -> Steps[Any]:  # noqa: ANN401
        """Like `_call`, for a method that writes: it ends even if the caller is cancelled."""
        sync, asynchronous = getattr(self.store, method), getattr(self.store, f"a{method}")
        return call_to_the_end(sync, asynchronous, *args, **kwargs)


def vector_id_of(document: Document) -> str | None:
    """The id of a Document that came from any vector store, perhaps through a retriever."""
    for value in (document.id, *map(document.metadata.get, _ID_FIELDS)):
        if value is not None:
            return str(value)
    return None


def plain_vectors(vectors: IdsWithVectors) -> dict[str, list[float]]:
    """Convert ids and vectors of any types to strings and lists."""
    return {str(vector): np.asarray(values, float).tolist() for vector, values in vectors}


def columns(rows: Sequence[ChunkRow]) -> tuple[list[Any], ...]:
    """The ids, texts, metadata and vectors of one or more rows, each as a list."""
    return tuple(list(column) for column in zip(*rows, strict=True))
