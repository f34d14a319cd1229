"""Adds, finds and deletes vectors in batches; reuses vectors of equal texts."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings

from langchain_rse._messages import Advance, no_progress
from langchain_rse._sync import batches, call, during, run
from langchain_rse.errors import EmbeddingError
from langchain_rse.stores.pairing import PROBE
from langchain_rse.stores.records import DOC_ID, digest
from langchain_rse.stores.vectorstores.base import EmbeddedChunk, VectorStoreAdapter

logger = logging.getLogger(__name__)

_EXCERPT = 40


@dataclass(frozen=True)
class Vectors:
    """Writes and deletes vectors for a `Writer`."""

    adapter: VectorStoreAdapter
    batch_size: int  # vectors in one call of the vector store
    advance: Advance = no_progress  # counts written chunks

    def add(
        self, chunks: Iterable[Document], reusable: Mapping[str, str], dimensions: int
    ) -> dict[str, str]:
        """Write the vectors of chunks.

        After an unusable vector, or a text for which the model raises an error, no more of its
        document is written.

        Args:
            chunks: The chunks with their ids and embedded texts.
            reusable: Ids of vectors to copy, by the digest of their embedded text.
            dimensions: Number of dimensions of the model's vectors; 0 if unknown.

        Returns:
            The problem with the first such text, by document id.
        """
        refused: dict[str, str] = {}
        with during(f"adding vectors to {type(self.adapter.store).__name__}"):
            for batch in batches(chunks, self.batch_size):
                wanted: list[Document] = []
                for chunk in batch:
                    if chunk.metadata[DOC_ID] not in refused:
                        wanted.append(self.adapter.storable(chunk))
                to_embed = self._copy(wanted, reusable, dimensions) if reusable else wanted
                if to_embed:
                    refused.update(self._embed(to_embed, dimensions))
                self.advance(len(batch))
        return refused

    def _copy(
        self, chunks: list[Document], reusable: Mapping[str, str], dimensions: int
    ) -> list[Document]:
        """Write chunks whose text already has a vector; return the others."""
        same_text = [reusable.get(digest(chunk.page_content), "") for chunk in chunks]
        ids = [vector_id for vector_id in dict.fromkeys(same_text) if vector_id]
        vectors: dict[str, list[float]] = {}
        try:
            if ids:
                vectors = self.adapter.read_vectors(ids)
        except Exception:  # such as a FAISS index that compresses its vectors
            name = type(self.adapter.store).__name__
            logger.info("cannot read vectors from %s; embedding again", name, exc_info=True)
        copied: list[EmbeddedChunk] = []
        others: list[Document] = []
        for chunk, vector_id in zip(chunks, same_text, strict=True):
            vector = vectors.get(vector_id)
            if vector is not None and not problem_of(vector, dimensions):
                copied.append((chunk, vector))
            else:
                others.append(chunk)
        if copied:
            self.adapter.put_chunks(copied)
        return others

    def _embed(self, chunks: list[Document], dimensions: int) -> dict[str, str]:
        """Embed and write chunks; return the problems with vectors, by document id."""
        embeddings = self.adapter.store.embeddings
        if embeddings is None or not self.adapter.can_read_vectors:
            self.adapter.add(chunks)  # the store embeds and checks them
            return {}
        refused: dict[str, str] = {}
        embedded = _embed(embeddings, chunks, refused)
        for chunk, vector in embedded:
            problem = problem_of(vector, dimensions)
            if problem:
                beginning = chunk.page_content.strip()[:_EXCERPT]
                refused.setdefault(chunk.metadata[DOC_ID], f"the vector of {beginning!r} {problem}")
        usable = [each for each in embedded if each[0].metadata[DOC_ID] not in refused]
        if usable:
            self.adapter.put_chunks(usable)
        return refused

    def delete(self, vectors: Iterable[str]) -> None:
        """Delete vectors; ignore ids that do not exist."""
        with during(f"deleting vectors from {type(self.adapter.store).__name__}"):
            for batch in batches(vectors, self.batch_size):
                self.adapter.delete(batch)

    def existing(self, ids: Sequence[str]) -> dict[str, str] | None:
        """Return the embedded texts of existing vectors by id; None if the store cannot tell."""
        with during(f"reading from {type(self.adapter.store).__name__}"):
            return run(self.adapter.existing_texts(ids))


def _embed(
    embeddings: Embeddings, chunks: Sequence[Document], refused: dict[str, str]
) -> list[EmbeddedChunk]:
    """Embed chunks; if the model raises an error, find the text that it raises it for.

    Args:
        embeddings: The model.
        chunks: The chunks.
        refused: Receives the errors, by document id.

    Raises:
        Exception: The model's error, if the model works for no text.
    """
    texts = [chunk.page_content for chunk in chunks]
    try:
        vectors = run(call(embeddings.embed_documents, embeddings.aembed_documents, texts))
    except Exception as error:
        if not _is_working(embeddings):
            raise
        if len(chunks) == 1:
            problem = f"{texts[0].strip()[:_EXCERPT]!r} raised {type(error).__name__}: {error}"
            refused[chunks[0].metadata[DOC_ID]] = problem
            return []
        middle = len(chunks) // 2
        first_half = _embed(embeddings, chunks[:middle], refused)
        others = [chunk for chunk in chunks[middle:] if chunk.metadata[DOC_ID] not in refused]
        return first_half + _embed(embeddings, others, refused) if others else first_half
    if len(vectors) != len(texts):
        raise EmbeddingError(
            f"{type(embeddings).__name__}.embed_documents returned {len(vectors)} vectors for "
            f"{len(texts)} texts; it must return one vector per text, in the same order"
        )
    return list(zip(chunks, vectors, strict=True))


def _is_working(embeddings: Embeddings) -> bool:
    """True if a model embeds a plain text, so that an error is about another text."""
    try:
        run(call(embeddings.embed_documents, embeddings.aembed_documents, [PROBE]))
    except Exception:
        logger.info("the embedding model works for no text", exc_info=True)
        return False
    return True


def problem_of(vector: Sequence[float], dimensions: int) -> str:
    """Describe why a vector is unusable for search; empty if it is usable.

    Args:
        vector: The vector.
        dimensions: The expected number of dimensions; 0 if unknown.
    """
    values = np.asarray(vector, dtype=float)
    if dimensions and values.shape != (dimensions,):
        return f"has {values.size} dimensions instead of {dimensions}"
    if 0 < np.vdot(values, values) < np.inf:  # faster than to look for each problem
        return ""
    if not np.isfinite(values).all():
        return "has values that are not finite (NaN or infinite)"
    if not values.any():
        return "is all zeros"
    return ""
