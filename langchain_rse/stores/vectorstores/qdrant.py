"""Adapter for QdrantVectorStore of langchain-qdrant."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from langchain_core.documents import Document
from typing_extensions import override

from langchain_rse.stores.records import NAMESPACE
from langchain_rse.stores.vectorstores.base import (
    PAGE_SIZE,
    EmbeddedChunk,
    IdsWithVectors,
    VectorStoreAdapter,
)


class QdrantAdapter(VectorStoreAdapter):
    """Adapter for QdrantVectorStore."""

    can_list = True
    takes_lists = True
    can_filter_namespaces = True

    @property
    @override
    def can_read_vectors(self) -> bool:
        # The other modes would also need sparse vectors.
        return bool(self.store.retrieval_mode == "dense")

    @override
    def list_chunks(self) -> Iterator[Document]:
        store = self.store
        offset = None
        while True:
            records, offset = store.client.scroll(
                store.collection_name, limit=PAGE_SIZE, offset=offset, with_payload=True
            )
            for record in records:
                text = record.payload.get(store.content_payload_key) or ""
                metadata = record.payload.get(store.metadata_payload_key) or {}
                yield Document(id=str(record.id), page_content=text, metadata=metadata)
            if offset is None:
                return

    @override
    def get_vectors(self, ids: Sequence[str]) -> IdsWithVectors:
        store = self.store
        for record in store.client.retrieve(store.collection_name, ids, with_vectors=True):
            vector = record.vector
            yield record.id, vector[store.vector_name] if isinstance(vector, dict) else vector

    @override
    def put_chunks(self, chunks: Iterable[EmbeddedChunk]) -> None:
        from qdrant_client import models  # noqa: PLC0415 - need not be installed

        store = self.store
        points = []
        for chunk, vector in chunks:
            payload = {
                store.content_payload_key: chunk.page_content,
                store.metadata_payload_key: chunk.metadata,
            }
            named: Any = {store.vector_name: vector}
            points.append(models.PointStruct(id=str(chunk.id), vector=named, payload=payload))
        store.client.upload_points(store.collection_name, points, wait=True)

    @override
    def search_arguments(self, namespace: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        from qdrant_client import models  # noqa: PLC0415 - need not be installed

        conditions: list[Any] = [
            models.FieldCondition(
                key=f"{self.store.metadata_payload_key}.{NAMESPACE}",
                match=models.MatchValue(value=namespace),
            )
        ]
        if arguments.get("filter"):
            conditions.append(arguments["filter"])
        return {**arguments, "filter": models.Filter(must=conditions)}
