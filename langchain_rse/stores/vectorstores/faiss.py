"""FAISS, of langchain-community.

It fails if an id is added that exists already, which the `Writer` avoids.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from langchain_core.documents import Document
from typing_extensions import override

from langchain_rse._sync import Steps
from langchain_rse.stores.records import NAMESPACE
from langchain_rse.stores.vectorstores.base import (
    ChunkRow,
    IdsWithVectors,
    VectorStoreAdapter,
    columns,
)


class FAISSAdapter(VectorStoreAdapter):
    """FAISS."""

    kind = "FAISS"
    can_list = True
    lists_in_insertion_order = True
    can_read_vectors = True
    can_filter_namespaces = True

    def _iterate_chunks(self) -> Iterator[Document]:
        for _, vector in sorted(self.store.index_to_docstore_id.items()):
            yield self.store.docstore.search(vector)

    def _get_vectors(self, ids: Sequence[str]) -> IdsWithVectors:
        """Get ids with their vectors; an index that compresses them raises a RuntimeError."""
        requested_ids = set(ids)
        vectors = []
        for position, vector in self.store.index_to_docstore_id.items():
            if vector in requested_ids:
                vectors.append((vector, self.store.index.reconstruct(position)))
        return vectors

    def _put_chunks(self, rows: Sequence[ChunkRow]) -> None:
        ids, texts, metadatas, vectors = columns(rows)
        self.store.add_embeddings(zip(texts, vectors, strict=True), metadatas, ids)

    @override
    def delete(self, ids: list[str]) -> Steps[None]:
        # If one id does not exist, FAISS deletes nothing.
        all_ids = set(self.store.index_to_docstore_id.values())
        existing_ids = [vector for vector in ids if vector in all_ids]
        if existing_ids:
            yield from super().delete(existing_ids)

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
