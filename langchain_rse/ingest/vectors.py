"""Adds, finds and deletes vectors in batches; reuses vectors of equal texts."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from langchain_core.documents import Document
from langchain_core.vectorstores import VectorStore

from langchain_rse._progress import Advance, no_progress
from langchain_rse._sync import batches, call, during, run
from langchain_rse.errors import EmbeddingError
from langchain_rse.stores.records import DOC_ID, digest
from langchain_rse.stores.vectorstores import adapter_for
from langchain_rse.stores.vectorstores.base import ChunkRow, VectorStoreAdapter

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Vectors:
    """Writes and deletes vectors for a `Writer`."""

    vectorstore: VectorStore
    batch_size: int  # vectors in one call of the vector store
    advance: Advance = no_progress  # counts written chunks

    @cached_property
    def adapter(self) -> VectorStoreAdapter:
        """The adapter of the vector store."""
        return adapter_for(self.vectorstore)

    def add(
        self, chunks: Iterable[Document], reusable: Mapping[str, str], dimensions: int
    ) -> dict[str, str]:
        """Write the vectors of chunks.

        After an unusable vector, no more of its document is written.

        Args:
            chunks: The chunks with their ids and embedded texts.
            reusable: Ids of vectors to copy, by the digest of their embedded text.
            dimensions: Number of dimensions of the model's vectors; 0 if unknown.

        Returns:
            The problem with the first unusable vector, by document id.
        """
        refused: dict[str, str] = {}
        with during(f"adding vectors to {type(self.vectorstore).__name__}"):
            for batch in batches(chunks, self.batch_size):
                wanted: list[Document] = []
                for chunk in batch:
                    if chunk.metadata[DOC_ID] not in refused:
                        wanted.append(self.adapter.storable(chunk))
                to_embed = self._copy(wanted, reusable, dimensions)
                if to_embed:
                    refused.update(self._embed(to_embed, dimensions))
                self.advance(len(batch))
        return refused

    def _copy(
        self, chunks: list[Document], reusable: Mapping[str, str], dimensions: int
    ) -> list[Document]:
        """Write chunks whose text already has a vector; return the others."""
        if not reusable:
            return chunks
        same_text = [reusable.get(digest(chunk.page_content), "") for chunk in chunks]
        vectors = self._read([vector_id for vector_id in same_text if vector_id])
        rows: list[ChunkRow] = []
        others: list[Document] = []
        for chunk, vector_id in zip(chunks, same_text, strict=True):
            vector = vectors.get(vector_id)
            if vector is not None and not problem_of(vector, dimensions):
                rows.append(ChunkRow(str(chunk.id), chunk.page_content, chunk.metadata, vector))
            else:
                others.append(chunk)
        if rows:
            run(self.adapter.write_chunks(rows))
        return others

    def _read(self, ids: Sequence[str]) -> dict[str, list[float]]:
        """Read vectors by id; empty if the store cannot return vectors."""
        if not ids:
            return {}
        try:
            return run(self.adapter.read_vectors(list(dict.fromkeys(ids))))
        except Exception:  # such as a FAISS index that compresses its vectors
            name = type(self.vectorstore).__name__
            logger.info("cannot read vectors from %s; embedding again", name, exc_info=True)
            return {}

    def _embed(self, chunks: list[Document], dimensions: int) -> dict[str, str]:
        """Embed and write chunks; return the problems with vectors, by document id."""
        texts = [chunk.page_content for chunk in chunks]
        embeddings = self.vectorstore.embeddings
        if embeddings is None or not self.adapter.can_read_vectors:
            run(self.adapter.add(chunks))  # the store embeds and checks them
            return {}
        vectors = run(call(embeddings.embed_documents, embeddings.aembed_documents, texts))
        if len(vectors) != len(texts):
            raise EmbeddingError(
                f"{type(embeddings).__name__}.embed_documents returned {len(vectors)} vectors for "
                f"{len(texts)} texts; it must return one vector per text, in the same order"
            )
        refused: dict[str, str] = {}
        for chunk, vector in zip(chunks, vectors, strict=True):
            problem = problem_of(vector, dimensions)
            if problem:
                beginning = chunk.page_content.strip()[:40]
                refused.setdefault(chunk.metadata[DOC_ID], f"the vector of {beginning!r} {problem}")
        rows: list[ChunkRow] = []
        for chunk, vector in zip(chunks, vectors, strict=True):
            if chunk.metadata[DOC_ID] not in refused:
                rows.append(ChunkRow(str(chunk.id), chunk.page_content, chunk.metadata, vector))
        if rows:
            run(self.adapter.write_chunks(rows))
        return refused

    def delete(self, vectors: Iterable[str]) -> None:
        """Delete vectors; ignore ids that do not exist."""
        with during(f"deleting vectors from {type(self.vectorstore).__name__}"):
            for batch in batches(vectors, self.batch_size):
                run(self.adapter.delete(batch))

    def existing(self, ids: Sequence[str]) -> dict[str, str] | None:
        """Return the embedded texts of existing vectors by id; None if the store cannot tell."""
        with during(f"reading from {type(self.vectorstore).__name__}"):
            return run(self.adapter.existing_texts(ids))


def problem_of(vector: Sequence[float], dimensions: int) -> str:
    """Describe why a vector is unusable for search; empty if it is usable.

    Args:
        vector: The vector.
        dimensions: The expected number of dimensions; 0 if unknown.
    """
    values = np.asarray(vector, dtype=float)
    if dimensions and values.shape != (dimensions,):
        return f"has {values.size} dimensions instead of {dimensions}"
    if not np.isfinite(values).all():
        return "has values that are not finite (NaN or infinite)"
    if not values.any():
        return "is all zeros"
    return ""
