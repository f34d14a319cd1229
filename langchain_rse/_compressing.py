"""Base class of this package's document compressors."""

from collections.abc import Mapping, Sequence

from langchain_core.callbacks import Callbacks
from langchain_core.documents import BaseDocumentCompressor, Document
from typing_extensions import override

from langchain_rse._messages import Checked
from langchain_rse._sync import Steps, arun, run

_SCORE = "relevance_score"  # where LangChain's rerankers put it


class Compressor(Checked, BaseDocumentCompressor):
    """A document compressor whose sync and async methods share one implementation."""

    def _compress(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks
    ) -> Steps[list[Document]]:
        raise NotImplementedError

    @override
    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks = None
    ) -> list[Document]:
        return run(self._compress(documents, query, callbacks))

    @override
    async def acompress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks = None
    ) -> list[Document]:
        return await arun(self._compress(documents, query, callbacks))


def with_metadata(document: Document, metadata: Mapping[str, object]) -> Document:
    """Copy a document and add metadata."""
    return document.model_copy(update={"metadata": {**document.metadata, **metadata}})


def best_first(documents: Sequence[Document], scores: Sequence[float]) -> list[Document]:
    """Copy documents, add their scores to the metadata, and sort them, best first (stable)."""
    scored = []
    for document, score in zip(documents, scores, strict=True):
        scored.append(with_metadata(document, {_SCORE: score}))
    return sorted(scored, key=lambda document: document.metadata[_SCORE], reverse=True)
