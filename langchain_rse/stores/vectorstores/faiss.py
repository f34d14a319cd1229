"""FAISS, of langchain-community.

It fails if an id is added that exists already, which the `Writer` avoids. It is not safe under
threads: its vectors and its ids change one after the other, and a search between the two finds a
vector that has no id. So one lock for each store guards everything that this package does with it.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

from langchain_core.documents import Document
from typing_extensions import override

from langchain_rse._sync import Steps, call, compute, compute_to_the_end
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
    """The lock of a store."""
    with _making_lock:
        return _locks.setdefault(store, threading.RLock())


class FAISSAdapter(VectorStoreAdapter):
    """FAISS."""

    kind = "FAISS"
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
        # The model is asked without the lock, so that other searches go on.
        vector = yield from call(embeddings.embed_query, embeddings.aembed_query, query)
        return (yield from self._call(f"{method}_by_vector", vector, **arguments))

    @override
    def delete(self, ids: list[str]) -> Steps[None]:
        return compute_to_the_end(self._locked, self._delete_existing, ids)

    def _delete_existing(self, ids: list[str]) -> None:
        # If one id does not exist, FAISS deletes nothing.
        all_ids = set(self.store.index_to_docstore_id.values())
        existing_ids = [vector for vector in ids if vector in all_ids]
        if existing_ids:
            self.store.delete(existing_ids)

    @override
    def list_chunks(self) -> Iterator[Document]:
        vectors = self._locked(sorted, self.store.index_to_docstore_id.items())
        for _, vector in vectors:
            document = self._locked(self.store.docstore.search, vector)
            if isinstance(document, Document):  # else it was deleted meanwhile
                yield document

    @override
    def get_vectors(self, ids: Sequence[str]) -> IdsWithVectors:
        """Get ids with their vectors; an index that compresses them raises a RuntimeError."""
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
        self._locked(self.store.add_embeddings, pairs, metadatas, ids)

    def _locked(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        with _lock_of(self.store):
            return function(*args, **kwargs)

    @override
    def _call(self, method: str, *args: Any, **kwargs: Any) -> Steps[Any]:
        return compute(self._locked, getattr(self.store, method), *args, **kwargs)

    @override
    def _change(self, method: str, *args: Any, **kwargs: Any) -> Steps[Any]:
        return compute_to_the_end(self._locked, getattr(self.store, method), *args, **kwargs)

    @override
    def search_arguments(self, namespace: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        # FAISS filters what it has found, so it has to find everything.
        all_arguments = {**arguments, "fetch_k": max(len(self.store.index_to_docstore_id), 1)}
        user_filter = arguments.get("filter")
        if not callable(user_filter):
            return super().search_arguments(namespace, all_arguments)

        def is_kept(metadata: dict[str, Any]) -> bool:
            return metadata.get(NAMESPACE) == namespace and bool(user_filter(metadata))

        return {**all_arguments, "filter": is_kept}
