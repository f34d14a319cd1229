"""Adapter for FAISS of langchain-community.

Adding an existing id fails; the `Writer` never does. FAISS is not thread-safe: vectors and ids
change one after the other, and a search in between finds a vector without an id. So a lock per
store guards all access from this package.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

from langchain_core.documents import Document
from typing_extensions import override

from langchain_rse._sync import Steps, call, compute
from langchain_rse.stores.records import NAMESPACE
from langchain_rse.stores.vectorstores.base import (
    ChunkRow,
    IdsWithVectors,
    VectorStoreAdapter,
    columns,
)

P = ParamSpec("P")
T = TypeVar("T")

_locks: weakref.WeakKeyDictionary[Any, threading.RLock] = weakref.WeakKeyDictionary()
_making_lock = threading.Lock()


def _lock_of(store: Any) -> threading.RLock:  # noqa: ANN401 - a FAISS
    """Return the lock of a store."""
    with _making_lock:
        return _locks.setdefault(store, threading.RLock())


class FAISSAdapter(VectorStoreAdapter):
    """Adapter for FAISS."""

    can_list = True
    lists_in_insertion_order = True
    can_read_vectors = True
    takes_lists = True
    can_filter_namespaces = True

    @override
    def search(self, method: str, query: str, arguments: Mapping[str, Any]) -> Steps[Any]:
        embeddings = self.store.embeddings
        if embeddings is None:
            return (yield from super().search(method, query, arguments))
        # Embed the query outside the lock, so that other searches continue.
        vector = yield from call(embeddings.embed_query, embeddings.aembed_query, query)
        return (yield from self._call(f"{method}_by_vector", vector, **arguments))

    @override
    def delete(self, ids: list[str]) -> None:
        # If one id is missing, FAISS deletes no vector at all.
        with _lock_of(self.store):
            existing_ids = set(ids).intersection(self.store.index_to_docstore_id.values())
            if existing_ids:
                self.store.delete(list(existing_ids))

    @override
    def list_chunks(self) -> Iterator[Document]:
        vectors = self._locked(sorted, self.store.index_to_docstore_id.items())
        for _, vector in vectors:
            document = self._locked(self.store.docstore.search, vector)
            if isinstance(document, Document):  # otherwise it was just deleted
                yield document

    @override
    def get_vectors(self, ids: Sequence[str]) -> IdsWithVectors:
        """Get ids with their vectors; a compressing index raises a RuntimeError."""
        requested_ids = set(ids)
        vectors = []
        with _lock_of(self.store):
            for position, vector in self.store.index_to_docstore_id.items():
                if vector in requested_ids:
                    vectors.append((vector, self.store.index.reconstruct(position)))
        return vectors

    @override
    def put_chunks(self, rows: Sequence[ChunkRow]) -> None:
        ids, texts, metadatas, vectors = columns(rows)
        pairs = zip(texts, vectors, strict=True)
        self._change("add_embeddings", pairs, metadatas, ids)

    def _locked(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        with _lock_of(self.store):
            return function(*args, **kwargs)

    @override
    def _call(self, method: str, *args: Any, **kwargs: Any) -> Steps[Any]:
        return compute(self._locked, getattr(self.store, method), *args, **kwargs)

    @override
    def search_arguments(self, namespace: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        # FAISS filters after the search, so the search must return everything.
        all_arguments = {**arguments, "fetch_k": max(len(self.store.index_to_docstore_id), 1)}
        user_filter = arguments.get("filter")
        if not callable(user_filter):
            return super().search_arguments(namespace, all_arguments)

        def is_kept(metadata: dict[str, Any]) -> bool:
            return metadata.get(NAMESPACE) == namespace and bool(user_filter(metadata))

        return {**all_arguments, "filter": is_kept}
