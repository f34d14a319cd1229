"""Adds, finds and deletes vectors in batches; reuses vectors of equal texts."""

import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import VectorStore

from langchain_rse._messages import warn
from langchain_rse._progress import Advance, no_progress
from langchain_rse._sync import Steps, batches, call, compute, during
from langchain_rse.errors import EmbeddingError
from langchain_rse.stores.records import DOC_ID, digest
from langchain_rse.stores.vectorstores import adapter_for
from langchain_rse.stores.vectorstores.base import ChunkRow, VectorStoreAdapter
from langchain_rse.text.quoting import encodable

logger = logging.getLogger(__name__)

Counter = Callable[[str], float]


@dataclass
class EmbeddingLimit:
    """Counts texts that exceed the embedding model's input limit."""

    longest: int  # the limit
    length_function: Counter
    unit: str  # unit of lengths, for the warning
    _embedded: int = field(default=0, init=False)
    _too_long: list[float] = field(default_factory=list, init=False)

    def observe(self, texts: Iterable[str]) -> None:
        """Count texts before they are embedded."""
        for text in texts:
            length = self.length_function(text)
            self._embedded += 1
            if length > self.longest:
                self._too_long.append(length)

    def warn(self) -> None:
        """Warn if texts were too long."""
        if self._too_long:
            warn(
                f"{len(self._too_long)} of {self._embedded} embedded texts exceed the embedding "
                f"model's limit of {self.longest} {self.unit}; the longest has "
                f"{max(self._too_long):g}. The rest of such texts may be ignored. Use a smaller "
                "chunk_size, counted in tokens. If the model's limit is higher, set "
                "RSEIndexer(..., max_embedded_length=...)"
            )


@dataclass(frozen=True)
class Vectors:
    """Writes and deletes vectors for a `Writer`."""

    vectorstore: VectorStore
    batch_size: int  # vectors in one call of the vector store
    limit: EmbeddingLimit | None = None
    advance: Advance = no_progress  # counts written chunks

    @cached_property
    def adapter(self) -> VectorStoreAdapter:
        """The adapter of the vector store."""
        return adapter_for(self.vectorstore)

    def add(
        self, chunks: Iterable[Document], reusable: Mapping[str, str], dimensions: int
    ) -> Steps[dict[str, str]]:
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
                to_embed = yield from self._copy(wanted, reusable, dimensions)
                if to_embed:
                    refused.update((yield from self._embed(to_embed, dimensions)))
                self.advance(len(batch))
        return refused

    def _copy(
        self, chunks: list[Document], reusable: Mapping[str, str], dimensions: int
    ) -> Steps[list[Document]]:
        """Write chunks whose text already has a vector; return the others."""
        if not reusable:
            return chunks
        same_text = [reusable.get(digest(chunk.page_content), "") for chunk in chunks]
        vectors = yield from self._read([vector_id for vector_id in same_text if vector_id])
        rows: list[ChunkRow] = []
        others: list[Document] = []
        for chunk, vector_id in zip(chunks, same_text, strict=True):
            vector = vectors.get(vector_id)
            if vector is not None and not problem_of(vector, dimensions):
                rows.append(ChunkRow(str(chunk.id), chunk.page_content, chunk.metadata, vector))
            else:
                others.append(chunk)
        if rows:
            yield from self.adapter.write_chunks(rows)
        return others

    def _read(self, ids: Sequence[str]) -> Steps[dict[str, list[float]]]:
        """Read vectors by id; empty if the store cannot return vectors."""
        if not ids:
            return {}
        try:
            return (yield from self.adapter.read_vectors(list(dict.fromkeys(ids))))
        except Exception:  # such as a FAISS index that compresses its vectors
            name = type(self.vectorstore).__name__
            logger.info("cannot read vectors from %s; embedding again", name, exc_info=True)
            return {}

    def _embed(self, chunks: list[Document], dimensions: int) -> Steps[dict[str, str]]:
        """Embed and write chunks; return the problems with vectors, by document id."""
        texts = [chunk.page_content for chunk in chunks]
        if self.limit is not None:
            yield from compute(self.limit.observe, texts)
        embeddings = self.vectorstore.embeddings
        if embeddings is None or not self.adapter.can_read_vectors:
            yield from self.adapter.add(chunks)  # the store embeds and checks them
            return {}
        vectors = yield from call(embeddings.embed_documents, embeddings.aembed_documents, texts)
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
            yield from self.adapter.write_chunks(rows)
        return refused

    def delete(self, vectors: Iterable[str]) -> Steps[None]:
        """Delete vectors; ignore ids that do not exist."""
        with during(f"deleting vectors from {type(self.vectorstore).__name__}"):
            for batch in batches(vectors, self.batch_size):
                yield from self.adapter.delete(batch)

    def existing(self, ids: Sequence[str]) -> Steps[dict[str, str] | None]:
        """Return the embedded texts of existing vectors by id; None if the store cannot tell."""
        with during(f"reading from {type(self.vectorstore).__name__}"):
            return (yield from self.adapter.existing_texts(ids))


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


# The limit of the model


def find_limit(
    embeddings: Embeddings | None, longest: int | None, length_function: Counter | None
) -> EmbeddingLimit | None:
    """Return the given limit, or the limit in the model's files; None if unknown."""
    if longest is not None and longest < 1:
        raise ValueError(f"max_embedded_length must be at least 1; got {longest!r}")
    if length_function is not None:
        if longest is None:
            raise ValueError(
                "embedded_length_function needs a limit in the same unit: max_embedded_length=..."
            )
        return EmbeddingLimit(longest, length_function, "(by embedded_length_function)")
    model_limit, count_tokens = _read_limit(embeddings)
    limit = model_limit if longest is None else longest
    if limit is None:
        return None
    if count_tokens is None:
        return EmbeddingLimit(limit, len, "characters")
    return EmbeddingLimit(limit, count_tokens, "tokens")


def _read_limit(embeddings: Embeddings | None) -> tuple[int | None, Counter | None]:
    """Read a sentence-transformers model's limit and tokenizer from its local files."""
    name = getattr(embeddings, "model_name", None)
    if not isinstance(name, str):
        return None, None
    cache = getattr(embeddings, "cache_folder", None)
    try:
        from tokenizers import Tokenizer  # noqa: PLC0415

        config = _find_file(name, "sentence_bert_config.json", cache).read_bytes()
        limit = json.loads(config)["max_seq_length"]
        tokenizer = Tokenizer.from_file(str(_find_file(name, "tokenizer.json", cache)))
        tokenizer.no_truncation()
        tokenizer.no_padding()
    except Exception:  # noqa: BLE001 - package not installed, or other files
        return None, None
    return limit, lambda text: len(tokenizer.encode(encodable(text)).ids)


def _find_file(model: str, file: str, cache: Any) -> Path:  # noqa: ANN401
    """Find a model's file in its folder or in the Hugging Face cache."""
    if Path(model).is_dir():
        return Path(model, file)
    from huggingface_hub import try_to_load_from_cache  # noqa: PLC0415

    return Path(str(try_to_load_from_cache(model, file, cache)))
