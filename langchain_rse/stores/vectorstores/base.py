"""The base adapter: everything that LangChain's vector store interface supports."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from langchain_core.documents import Document

from langchain_rse._sync import Steps, call, run, to_the_end
from langchain_rse.stores.records import NAMESPACE

PAGE_SIZE = 250
"""Chunks per request to a server; Chroma Cloud returns at most 300."""

IdsWithVectors = Iterable[tuple[Any, Sequence[float]]]
"""Existing ids with their vectors, in any order."""

# Metadata fields in which searches of Qdrant and Milvus return the vector's id.
_ID_FIELDS = ("_id", "pk")


EmbeddedChunk = tuple[Document, Sequence[float]]
"""A chunk with its embedded text, and the vector of it."""


class VectorStoreAdapter:
    """Adapter for a vector store, using only LangChain's interface.

    Subclasses in this folder support more; `adapter_for` finds them. A subclass defines
    `list_chunks` to list chunks, and `get_vectors` and `put_chunks` to read and write vectors.
    Only queries are steps; async code runs all other methods in threads, where `run` awaits the
    store's async methods.

    Attributes:
        store: The vector store.
        kind: The kind of store, as recorded in docstores; shared by subclasses of a known class.
        can_list: True if `list_chunks` is supported.
        lists_in_insertion_order: True if `list_chunks` lists chunks in insertion order.
        can_filter_namespaces: True if `search_arguments` is supported.
    """

    can_list: ClassVar[bool] = False
    lists_in_insertion_order: ClassVar[bool] = False
    can_filter_namespaces: ClassVar[bool] = False

    def __init__(self, store: Any, kind: str = "") -> None:  # noqa: ANN401 - of any class
        self.store = store
        self.kind = kind or type(store).__name__

    @property
    def collection_name(self) -> str:
        """Name of the collection or index; empty if the store does not expose it."""
        # Chroma, MongoDB and Weaviate expose it only here.
        collection = getattr(self.store, "_collection", None)
        names = (
            getattr(collection, "name", None),
            getattr(self.store, "collection_name", None),
            getattr(self.store, "index_name", None),
        )
        return next((name for name in names if isinstance(name, str)), "")

    @property
    def can_read_vectors(self) -> bool:
        """True if `get_vectors` and `put_chunks` are supported."""
        return False

    @property
    def takes_lists(self) -> bool:
        """True if metadata values may be lists that filters can search."""
        return False

    def storable(self, chunk: Document) -> Document:
        """Return a chunk without metadata that the store does not support, such as lists."""
        if self.takes_lists:
            return chunk
        fields = chunk.metadata.items()
        without_lists = {name: value for name, value in fields if not isinstance(value, list)}
        return chunk.model_copy(update={"metadata": without_lists})

    def list_chunks(self) -> Iterator[Document]:
        """List the store's chunks with ids and metadata; async code must call this in a thread."""
        raise NotImplementedError

    def get_vectors(self, ids: Sequence[str]) -> IdsWithVectors:
        """Get the vectors that exist, of any types; see `read_vectors`."""
        raise NotImplementedError

    def put_chunks(self, chunks: Iterable[EmbeddedChunk]) -> None:
        """Add or replace chunks with their vectors, without embedding."""
        raise NotImplementedError

    def read_vectors(self, ids: Sequence[str]) -> dict[str, list[float]]:
        """Read vectors by id; skip ids that do not exist."""
        vectors = self.get_vectors(ids)
        return {str(vector): np.asarray(values, float).tolist() for vector, values in vectors}

    def search(self, method: str, query: str, arguments: Mapping[str, Any]) -> Steps[Any]:
        """Search with a method of the store."""
        return self._call(method, query, **arguments)

    def search_arguments(self, namespace: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Add a filter on a namespace, given by its digest, to search arguments.

        The default is a dict with ``$eq`` and ``$and``; subclasses use other forms.
        """
        condition: dict[str, Any] = {NAMESPACE: {"$eq": namespace}}
        if arguments.get("filter"):
            condition = {"$and": [condition, arguments["filter"]]}
        return {**arguments, "filter": condition}

    def existing_texts(self, ids: Sequence[str]) -> Steps[dict[str, str] | None]:
        """Return the embedded texts of existing ids; None if the store cannot tell."""
        try:
            documents = yield from self._call("get_by_ids", ids)
        except NotImplementedError:
            return None
        texts = {vector_id_of(document): document.page_content for document in documents}
        if None in texts:
            return None
        return {vector: texts[vector] for vector in ids if vector in texts}

    def add(self, documents: list[Document]) -> None:
        """Embed and add chunks; raise a ValueError if the store does not keep their ids."""
        ids = [str(document.id) for document in documents]
        kept_ids = self._change("add_documents", documents, ids=ids)
        if kept_ids and list(kept_ids) != ids:  # some stores return no ids
            raise ValueError(
                f"{type(self.store).__name__} did not keep the given ids, so vectors could never "
                "be replaced or deleted. Use a vector store that keeps ids"
            )

    def delete(self, ids: list[str]) -> None:
        """Delete vectors; ignore ids that do not exist."""
        try:
            self._delete_all(ids)
        except (LookupError, RuntimeError, ValueError):
            # LangChain does not specify how a store treats missing ids.
            existing = run(self.existing_texts(ids))
            if existing is None or len(existing) == len(ids):
                raise
            if existing:
                self._delete_all(list(existing))

    def _delete_all(self, ids: list[str]) -> None:
        is_deleted = self._change("delete", ids)
        if is_deleted is False:  # most stores return None
            raise RuntimeError(
                f"{type(self.store).__name__} could not delete vectors. Its log may explain why. "
                "Call again to delete the rest"
            )

    def _call(self, method: str, *args: Any, **kwargs: Any) -> Steps[Any]:  # noqa: ANN401
        """Call a reading method of the store, or its async form."""
        sync, asynchronous = getattr(self.store, method), getattr(self.store, f"a{method}")
        return call(sync, asynchronous, *args, **kwargs)

    def _change(self, method: str, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        """Call a writing method of the store; it completes even if the caller is cancelled."""
        return run(to_the_end(self._call(method, *args, **kwargs)))


def vector_id_of(document: Document) -> str | None:
    """Return the vector id of a Document from any vector store, even through a retriever."""
    for value in (document.id, *map(document.metadata.get, _ID_FIELDS)):
        if value is not None:
            return str(value)
    return None


def chunks_of(page: Mapping[str, Any]) -> Iterator[Document]:
    """Yield the chunks of a page that Chroma or PGVectorStore returned as columns."""
    columns_of_page = page["ids"], page["documents"], page["metadatas"]
    for vector, text, metadata in zip(*columns_of_page, strict=True):
        yield Document(id=vector, page_content=text or "", metadata=metadata or {})


def columns(chunks: Iterable[EmbeddedChunk]) -> tuple[list[Any], ...]:
    """Return the ids, texts, metadata and vectors of one or more chunks as lists."""
    rows = [(chunk.id, chunk.page_content, chunk.metadata, vector) for chunk, vector in chunks]
    return tuple(map(list, zip(*rows, strict=True)))
