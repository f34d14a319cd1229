"""SimilarityBasedRelevanceFilter: vectors decide which chunks are near enough to the query."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Annotated

import numpy as np
from langchain_core.callbacks import Callbacks
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.embeddings import Embeddings
from pydantic import BeforeValidator, ConfigDict
from typing_extensions import override

from langchain_rse._steps import Steps, arun, call, during, run
from langchain_rse.candidates import number_of
from langchain_rse.schema import RELEVANCE_SCORE

__all__ = ["SimilarityBasedRelevanceFilter", "has_text"]

_KIND_FIELDS = ("type", "modality", "media_type", "mime_type", "content_type")
_NOT_TEXT = re.compile(r"\s*(?:image|audio|video)\s*(?:/|$)", re.IGNORECASE)
_DATA = re.compile(r"\s*data:(?!text/)[\w.+-]+/[\w.+-]+[;,]", re.IGNORECASE)


def has_text(document: Document) -> bool:
    """Whether a document is text that can be embedded.

    It is not if its ``page_content`` is empty, white space, or a ``data:`` address of
    something else than text; or if its metadata ``type``, ``modality``, ``media_type``,
    ``mime_type`` or ``content_type`` says so: ``"image"``, ``"audio"`` or ``"video"``, alone
    or in front of a slash as in ``"image/png"``, in any case. Any other value of these says
    nothing against text; tables, for example, are text.
    """
    kinds = [document.metadata.get(name) for name in _KIND_FIELDS]
    return not (
        not document.page_content.strip()
        or _DATA.match(document.page_content)
        or any(isinstance(kind, str) and _NOT_TEXT.match(kind) for kind in kinds)
    )


def _check_threshold(threshold: object) -> float:
    number = number_of(threshold)
    if number is None or not 0 <= number <= 1:
        raise ValueError(f"must be a number from 0 to 1; got {threshold!r}")
    return number


class SimilarityBasedRelevanceFilter(BaseDocumentCompressor):
    """Keeps the text documents whose vectors are similar enough to the query's.

    Similarity is the cosine of the two vectors, limited to [0, 1]: what points away from the
    query counts as 0, as does a vector of zeros. Those kept are copies, with the similarity
    as ``relevance_score`` in their metadata. Documents that are not text are left out, and not
    embedded.

    Raises:
        ValueError: At construction, if ``threshold`` is not a number from 0 to 1, or a
            parameter is unknown.

    Example:
        .. code-block:: python

            ContextualCompressionRetriever(
                base_compressor=SimilarityBasedRelevanceFilter(embeddings=embeddings),
                base_retriever=bm25,
            )
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    embeddings: Embeddings
    """Embeds the query and the documents."""
    threshold: Annotated[float, BeforeValidator(_check_threshold)] = 0.5
    """The least similarity to keep, from 0 to 1."""
    is_text: Callable[[Document], bool] = has_text
    """Says which documents are text; see `has_text` for the default."""
    sort_by_similarity: bool = False
    """Whether to return the most similar first, instead of keeping the order. As a reranker of
    `RSERetriever` over other vectors than these, it should: scores that contradict the order
    are not used there."""

    @override
    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> list[Document]:
        """Keep the documents that are similar enough.

        Args:
            documents: The documents; they are not changed.
            query: What they should be similar to.
            callbacks: Not used; embedding is not traced.

        Returns:
            Copies of the documents that are kept, in their order unless
            ``sort_by_similarity``.

        Raises:
            ValueError: If the embeddings give other than one finite vector for each text,
                all of the same size.
        """
        return run(self._compress(documents, query))

    @override
    async def acompress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> list[Document]:
        """Like `compress_documents`, async."""
        return await arun(self._compress(documents, query))

    def _compress(self, documents: Sequence[Document], query: str) -> Steps[list[Document]]:
        documents = [document for document in documents if self.is_text(document)]
        if not documents:
            return []
        embeddings = self.embeddings
        name = type(embeddings).__name__
        with during(f"embedding the query with {name}"):
            wanted = yield from call(embeddings.embed_query, embeddings.aembed_query, query)
        with during(f"embedding {len(documents)} documents with {name}"):
            texts = [document.page_content for document in documents]
            vectors = yield from call(
                embeddings.embed_documents, embeddings.aembed_documents, texts
            )
        scores = _similarities(wanted, vectors, len(documents), name)
        kept = [
            document.model_copy(update={"metadata": {**document.metadata, RELEVANCE_SCORE: score}})
            for document, score in zip(documents, scores, strict=True)
            if score >= self.threshold
        ]
        if self.sort_by_similarity:
            kept.sort(key=lambda document: -document.metadata[RELEVANCE_SCORE])
        return kept


def _similarities(
    query: Sequence[float], vectors: Sequence[Sequence[float]], count: int, name: str
) -> list[float]:
    """The cosine of the query and each vector, limited to [0, 1]."""
    sizes = {len(query), *map(len, vectors)}
    if len(vectors) != count or len(sizes) != 1:
        raise ValueError(
            f"{name} must give one vector for each of {count} texts, of the size of the query's, "
            f"{len(query)}; got {len(vectors)}, of sizes {sorted(sizes)}"
        )
    table = np.asarray([query, *vectors], dtype=np.float64)
    if not np.isfinite(table).all():
        raise ValueError(f"{name} must give finite vectors; got NaN or infinite values")
    lengths = np.linalg.norm(table, axis=1, keepdims=True)
    table /= np.where(lengths > 0, lengths, 1.0)
    # Vectors are often float32: digits beyond these are noise, and 1 should be reached.
    cosines: list[float] = (table[1:] @ table[0]).clip(0.0, 1.0).round(6).tolist()
    return cosines
