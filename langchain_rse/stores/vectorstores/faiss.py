"""Adapter for FAISS of langchain-community.

Adding an existing id fails; the `Writer` never does. FAISS is not thread-safe: vectors and ids
change one after the other, and a search in between finds a vector without an id. So a lock guards
all access from this package.
"""

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from langchain_core.documents import Document
from typing_extensions import override

from langchain_rse._sync import Steps, compute
from langchain_rse.stores.vectorstores.base import (
    EmbeddedChunk,
    IdsWithVectors,
    VectorStoreAdapter,
    columns,
)

_lock = threading.RLock()


class FAISSAdapter(VectorStoreAdapter):
    """Adapter for FAISS."""

    can_list = True
    lists_in_insertion_order = True
    can_read_vectors = True
    takes_lists = True

    @override
    def list_chunks(self) -> Iterator[Document]:
        with _lock:
            vectors = [vector for _, vector in sorted(self.store.index_to_docstore_id.items())]
            documents = [self.store.docstore.search(vector) for vector in vectors]
        yield from documents

    @override
    def get_vectors(self, ids: Sequence[str]) -> IdsWithVectors:
        """Get ids with their vectors; a compressing index raises a RuntimeError."""
        requested_ids = set(ids)
        vectors = []
        with _lock:
            for position, vector in self.store.index_to_docstore_id.items():
                if vector in requested_ids:
                    vectors.append((vector, self.store.index.reconstruct(position)))
        return vectors

    @override
    def put_chunks(self, chunks: Iterable[EmbeddedChunk]) -> None:
        ids, texts, metadatas, vectors = columns(chunks)
        pairs = zip(texts, vectors, strict=True)
        self._change("add_embeddings", pairs, metadatas, ids)

    @override
    def search(self, method: str, query: str, arguments: Mapping[str, Any]) -> Steps[Any]:
        """Search; FAISS filters what it found, so with a filter, all vectors are fetched."""
        if arguments.get("filter"):
            arguments = {"fetch_k": self.store.index.ntotal, **arguments}
        return super().search(method, query, arguments)

    @override
    def _call(self, method: str, *args: Any, **kwargs: Any) -> Steps[Any]:
        def call_alone() -> Any:  # noqa: ANN401 - of any method
            with _lock:
                return getattr(self.store, method)(*args, **kwargs)

        return compute(call_alone)
