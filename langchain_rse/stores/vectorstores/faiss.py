"""FAISS, of langchain-community.

It fails if an id is added that exists already, which the `Writer` avoids. It is not safe under
threads: its vectors and its ids change one after the other, and a search between the two finds a
vector that has no id. So one lock for each store guards everything that this package does with it.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from langchain_core.documents import Document
from langchain_core.runnables import run_in_executor
from typing_extensions import override

from langchain_rse._sync import Steps, call, call_to_the_end, compute
from langchain_rse.stores.records import NAMESPACE
from langchain_rse.stores.vectorstores.base import (
    ChunkRow,
    IdsWithVectors,
    VectorStoreAdapter,
    columns,
)

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
        if method != "similarity_search_with_score" or embeddings is None:
            search = partial(getattr(self.store, method), query, **arguments)
            return (yield from compute(self._locked, search))
        # The model is asked without the lock, so that other searches go on.
        vector = yield from call(embeddings.embed_query, embeddings.aembed_query, query)
        search_by_vector = self.store.similarity_search_with_score_by_vector
        return (yield from compute(self._locked, partial(search_by_vector, vector, **arguments)))

    @override
    def existing_texts(self, ids: Sequence[str]) -> Steps[dict[str, str] | None]:
        documents = yield from compute(self._locked, partial(self.store.get_by_ids, ids))
        texts = {str(document.id): document.page_content for document in documents}
        return {vector: texts[vector] for vector in ids if vector in texts}

    @override
    def add(self, documents: list[Document]) -> Steps[None]:
        ids = [str(document.id) for document in documents]
        yield from self._change(partial(self.store.add_documents, documents, ids=ids))

    @override
    def delete(self, ids: list[str]) -> Steps[None]:
        def delete_existing() -> None:
            # If one id does not exist, FAISS deletes nothing.
            all_ids = set(self.store.index_to_docstore_id.values())
            existing_ids = [vector for vector in ids if vector in all_ids]
            if existing_ids:
                self.store.delete(existing_ids)

        yield from self._change(delete_existing)

    def _iterate_chunks(self) -> Iterator[Document]:
        vectors = self._locked(lambda: sorted(self.store.index_to_docstore_id.items()))
        for _, vector in vectors:
            document = self._locked(partial(self.store.docstore.search, vector))
            if isinstance(document, Document):  # else it was deleted meanwhile
                yield document

    def _get_vectors(self, ids: Sequence[str]) -> IdsWithVectors:
        """Get ids with their vectors; an index that compresses them raises a RuntimeError."""
        requested_ids = set(ids)
        vectors = []
        with _lock_of(self.store):
            for position, vector in self.store.index_to_docstore_id.items():
                if vector in requested_ids:
                    vectors.append((vector, self.store.index.reconstruct(position)))
        return vectors

    def _put_chunks(self, rows: Sequence[ChunkRow]) -> None:
        ids, texts, metadatas, vectors = columns(rows)
        with _lock_of(self.store):
            self.store.add_embeddings(zip(texts, vectors, strict=True), metadatas, ids)

    def _locked(self, function: Callable[[], T]) -> T:
        with _lock_of(self.store):
            return function()

    def _change(self, function: Callable[[], Any]) -> Steps[Any]:
        """Run a function that writes, with the lock; it ends even if the caller is cancelled."""
        locked = partial(self._locked, function)
        return call_to_the_end(locked, partial(run_in_executor, None, locked))

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
