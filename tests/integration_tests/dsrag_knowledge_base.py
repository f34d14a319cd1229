"""A knowledge base with the interface of dsRAG 0.5.6, which is not installed for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.embeddings import Embeddings


class ChunkDB:
    """What dsRAG's chunk databases answer."""

    def __init__(self, documents: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
        self._documents = documents

    def _field(self, doc_id: str, number: int, name: str) -> Any:
        chunks = self._documents[doc_id]
        return chunks[number].get(name) if number < len(chunks) else None

    def get_all_doc_ids(self, supp_id: str | None = None) -> list[str]:
        del supp_id
        return list(self._documents)

    def get_chunk_text(self, doc_id: str, chunk_index: int) -> str | None:
        text: str | None = self._field(doc_id, chunk_index, "chunk_text")
        return text

    def get_chunk_page_numbers(self, doc_id: str, chunk_index: int) -> tuple[Any, Any] | None:
        if chunk_index >= len(self._documents[doc_id]):
            return None  # as some of them do
        fields = ("chunk_page_start", "chunk_page_end")
        start, end = (self._field(doc_id, chunk_index, name) for name in fields)
        return start, end

    def get_document_title(self, doc_id: str, chunk_index: int) -> str | None:
        title: str | None = self._field(doc_id, chunk_index, "document_title")
        return title

    def get_section_title(self, doc_id: str, chunk_index: int) -> str | None:
        title: str | None = self._field(doc_id, chunk_index, "section_title")
        return title

    def get_document(self, *_: Any, **__: Any) -> Any:
        raise AssertionError("dsRAG's SQLite database evaluates what is stored to answer this")


class VectorDB:
    """Vectors of headers and texts, as those of dsRAG's BasicVectorDB."""

    def __init__(
        self, documents: Mapping[str, Sequence[Mapping[str, Any]]], embeddings: Embeddings
    ) -> None:
        self.metadata = [
            {"doc_id": name, "chunk_index": number, "chunk_header": f"Document: {name}", **chunk}
            for name, chunks in documents.items()
            for number, chunk in enumerate(chunks)
        ]
        texts = [f"{one['chunk_header']}\n\n{one['chunk_text']}" for one in self.metadata]
        self.vectors = embeddings.embed_documents(texts)


class KnowledgeBase:
    """What is read of dsRAG's KnowledgeBase."""

    def __init__(
        self, documents: Mapping[str, Sequence[Mapping[str, Any]]], embeddings: Embeddings
    ) -> None:
        self.chunk_db = ChunkDB(documents)
        self.vector_db = VectorDB(documents, embeddings)
