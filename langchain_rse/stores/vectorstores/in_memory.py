"""Adapter for InMemoryVectorStore of langchain-core."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from langchain_core.documents import Document
from typing_extensions import override

from langchain_rse.stores.records import NAMESPACE
from langchain_rse.stores.vectorstores.base import EmbeddedChunk, IdsWithVectors, VectorStoreAdapter


class InMemoryAdapter(VectorStoreAdapter):
    """Adapter for InMemoryVectorStore."""

    can_list = True
    lists_in_insertion_order = True
    can_read_vectors = True
    takes_lists = True
    can_filter_namespaces = True

    @override
    def list_chunks(self) -> Iterator[Document]:
        for entry in tuple(self.store.store.values()):
            yield Document(id=entry["id"], page_content=entry["text"], metadata=entry["metadata"])

    @override
    def get_vectors(self, ids: Sequence[str]) -> IdsWithVectors:
        entries = self.store.store
        return [(vector, entries[vector]["vector"]) for vector in ids if vector in entries]

    @override
    def put_chunks(self, chunks: Iterable[EmbeddedChunk]) -> None:
        rows: dict[str | None, dict[str, Any]] = {}
        for chunk, vector in chunks:
            text, metadata = chunk.page_content, chunk.metadata
            rows[chunk.id] = {"id": chunk.id, "text": text, "metadata": metadata, "vector": vector}
        self.store.store.update(rows.items())

    @override
    def search_arguments(self, namespace: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        user_filter = arguments.get("filter")

        def is_kept(document: Document) -> bool:
            if document.metadata.get(NAMESPACE) != namespace:
                return False
            return user_filter is None or bool(user_filter(document))

        return {**arguments, "filter": is_kept}
