"""SimilarityBasedRelevanceFilter: keeps chunks whose vectors are similar to the query vector."""

from collections.abc import Sequence

import numpy as np
from langchain_core.callbacks import Callbacks
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from pydantic import Field
from typing_extensions import override

from langchain_rse._compressing import Compressor, best_first
from langchain_rse._sync import Steps, call, during
from langchain_rse.stores.records import RELEVANCE_SCORE


class SimilarityBasedRelevanceFilter(Compressor):
    """Keeps the documents whose vectors are similar enough to the query vector.

    Similarity is the cosine of the two vectors, clipped to [0, 1]; it is 0 for a zero vector.
    Returns copies of the kept documents, the most similar first, with the similarity as
    ``relevance_score`` in their metadata. Documents without text are dropped and not embedded.

    Raises:
        ValueError: At construction, if ``threshold`` is not in [0, 1]; at use, if the embeddings do
            not return one finite vector for each text.
    """

    embeddings: Embeddings
    """Embeds the query and the documents."""
    threshold: float = Field(default=0.5, ge=0, le=1, strict=True)
    """Minimum similarity of kept documents, from 0 to 1."""

    @override
    def _compress(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None
    ) -> Steps[list[Document]]:
        documents = [document for document in documents if document.page_content.strip()]
        if not documents:
            return []
        texts = [document.page_content for document in documents]
        model = self.embeddings
        with during(f"embedding the query and {len(texts)} documents"):
            query_vector = yield from call(model.embed_query, model.aembed_query, query)
            vectors = yield from call(model.embed_documents, model.aembed_documents, texts)
        if len(vectors) != len(texts):
            raise ValueError(
                f"embeddings must return one vector for each of {len(texts)} texts; "
                f"got {len(vectors)}"
            )
        similarities = _similarities(query_vector, vectors)
        ranked = best_first(documents, similarities)
        return [each for each in ranked if each.metadata[RELEVANCE_SCORE] >= self.threshold]


def _similarities(query: Sequence[float], vectors: Sequence[Sequence[float]]) -> list[float]:
    """Return the cosine of the query and each vector, clipped to [0, 1]."""
    table = np.asarray([query, *vectors], dtype=np.float64)
    if not np.isfinite(table).all():
        raise ValueError("embeddings must return finite vectors; got NaN or infinite values")
    lengths = np.linalg.norm(table, axis=1, keepdims=True)
    unit_vectors = table / np.where(lengths > 0, lengths, 1.0)
    cosines = unit_vectors[1:] @ unit_vectors[0]
    # Vectors are often float32: more digits are noise, and equal texts should reach exactly 1.
    similarities: list[float] = cosines.clip(0.0, 1.0).round(6).tolist()
    return similarities
