"""Caches of vectors and of a cross-encoder's scores on disk, and a vector store in a matrix."""

from __future__ import annotations

import hashlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import VectorStore
from models import BATCH, MODELS, CrossEncoder, Floats32, normalized
from typing_extensions import Self, override

# What was computed so far is written about this often, so that little is lost.
SECONDS_BETWEEN_WRITES = 60.0


class Cache:
    """Arrays by digests of what they were computed from, kept in an npz file.

    Args:
        file: The file, with digests as ``keys`` and their arrays as ``vectors``.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock = threading.Lock()  # several searches may run at once
        self._known: dict[str, Floats32] = {}
        self._read()

    def get(
        self,
        wanted: Mapping[str, tuple[str, ...]],
        compute: Callable[[Sequence[tuple[str, ...]]], object],
        title: str,
    ) -> list[Floats32]:
        """The arrays of some digests; computes those not yet known from their texts.

        Args:
            wanted: The texts that each array is of, by digest.
            compute: Makes arrays of the texts.
            title: What is computed, to show meanwhile.
        """
        with self._lock:
            self._compute(wanted, compute, title)
        return [self._known[key] for key in wanted]

    def _compute(
        self,
        wanted: Mapping[str, tuple[str, ...]],
        compute: Callable[[Sequence[tuple[str, ...]]], object],
        title: str,
    ) -> None:
        # Texts of one length waste no padding.
        missing = sorted(
            wanted.keys() - self._known.keys(), key=lambda key: (sum(map(len, wanted[key])), key)
        )
        started = written = time.monotonic()
        for first in range(0, len(missing), 20 * BATCH):
            some = missing[first : first + 20 * BATCH]
            computed = np.array(compute([wanted[key] for key in some]), dtype=np.float32)
            self._known |= zip(some, computed, strict=True)
            done, now = first + len(some), time.monotonic()
            progress(f"{title}: {done:,} of {len(missing):,}, {now - started:.0f} s")
            if now - written > SECONDS_BETWEEN_WRITES:
                self._write()
                written = now
        if missing:
            progress("", end="")
            self._write()

    def _read(self) -> None:
        if self._file.exists():
            with np.load(self._file) as stored:
                self._known |= zip(stored["keys"].tolist(), stored["vectors"], strict=True)

    def _write(self) -> None:
        self._read()  # another process may have written meanwhile
        self._file.parent.mkdir(parents=True, exist_ok=True)
        ignore = self._file.parent / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n", encoding="utf-8")
        part = self._file.with_name(f"{self._file.name}.{os.getpid()}.part")
        with part.open("wb") as stream:
            np.savez(
                stream,
                keys=np.array(list(self._known)),
                vectors=np.stack(list(self._known.values())),
            )
        part.replace(self._file)


class CachedEmbeddings(Embeddings):
    """A model whose normalized vectors are kept in a file.

    Args:
        model: A name in `MODELS`.
        file: The file of the cache.
    """

    def __init__(self, model: str, file: Path) -> None:
        self._name = model
        self._model = MODELS[model]()
        self._cache = Cache(file)

    def matrix(self, texts: Sequence[str], title: str = "texts") -> Floats32:
        """The vectors of texts, shape ``(texts, dimensions)``; embeds those not yet known."""
        return self._vectors(texts, self._name, self._model.embed_documents, f"embedding {title}")

    def queries(self, texts: Sequence[str]) -> Floats32:
        """The same for queries."""

        def embed(some: list[str]) -> list[list[float]]:
            return list(map(self._model.embed_query, some))

        return self._vectors(texts, f"{self._name}, query", embed, "embedding questions")

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed texts."""
        vectors: list[list[float]] = self.matrix(texts).tolist()
        return vectors

    def embed_query(self, text: str) -> list[float]:
        """Embed a query."""
        vector: list[float] = self.queries([text])[0].tolist()
        return vector

    def _vectors(
        self,
        texts: Sequence[str],
        name: str,
        embed: Callable[[list[str]], list[list[float]]],
        title: str,
    ) -> Floats32:
        def compute(some: Sequence[tuple[str, ...]]) -> Floats32:
            return normalized(np.array(embed([text for (text,) in some]), dtype=np.float32))

        keys = [digest(f"{name}\0{text}") for text in texts]
        wanted = {key: (text,) for key, text in zip(keys, texts, strict=True)}
        found = dict(zip(wanted, self._cache.get(wanted, compute, title), strict=True))
        return np.stack([found[key] for key in keys])


class CachedCrossEncoder:
    """A cross-encoder whose scores are kept in a file.

    Args:
        file: The file of the cache.
    """

    def __init__(self, file: Path) -> None:
        self._model = CrossEncoder()
        self._cache = Cache(file)

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """The logits of pairs of query and text."""
        keys = [digest(f"{query}\0{text}") for query, text in pairs]
        wanted: dict[str, tuple[str, ...]] = dict(zip(keys, pairs, strict=True))

        def compute(some: Sequence[tuple[str, ...]]) -> list[float]:
            return self._model.score([(query, text) for query, text in some])

        found = dict(zip(wanted, self._cache.get(wanted, compute, "reranking"), strict=True))
        return [float(found[key]) for key in keys]


def digest(text: str) -> str:
    """A digest of a text."""
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def progress(message: str, end: str = "") -> None:
    """Show a line that the next one replaces; nothing unless someone looks."""
    if sys.stderr.isatty():
        print(f"\r\033[K{message}", end=end, file=sys.stderr, flush=True)


class MatrixStore(VectorStore):
    """Vectors in memory, searched in full; scores are cosine similarities.

    Vectors are made at the first search, all at once.

    Args:
        embeddings: The model.
        title: What the texts are, to show while they are embedded.
        named: True to embed each text with its document's name in front.
    """

    def __init__(self, embeddings: CachedEmbeddings, title: str, *, named: bool) -> None:
        self._embeddings = embeddings
        self._title = title
        self._named = named
        self._documents: list[Document] = []
        self._vectors: Floats32 | None = None
        self._found: dict[tuple[str, int], list[tuple[int, float]]] = {}

    @property
    @override
    def embeddings(self) -> CachedEmbeddings:
        return self._embeddings

    def another(self, title: str) -> MatrixStore:
        """An empty store with the same model."""
        return MatrixStore(self._embeddings, title, named=self._named)

    @cached_property
    def spans(self) -> dict[tuple[str, int], tuple[int, int]]:
        """Where each chunk begins and ends in its document, by the document's id and its number."""
        return {
            (chunk.metadata["doc_id"], chunk.metadata["chunk_index"]): (
                chunk.metadata["start_index"],
                chunk.metadata["end_index"],
            )
            for chunk in self._documents
        }

    def __len__(self) -> int:
        return len(self._documents)

    @cached_property
    def vectors(self) -> dict[tuple[str, int], Floats32]:
        """The vector of each chunk, by the document's id and the chunk's number, after a search."""
        assert self._vectors is not None  # noqa: S101 - for mypy
        return {
            (chunk.metadata["doc_id"], chunk.metadata["chunk_index"]): vector
            for chunk, vector in zip(self._documents, self._vectors, strict=True)
        }

    @override
    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: list[dict[Any, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        **kwargs: Any,
    ) -> list[str]:
        texts = list(texts)
        names = ids or [str(len(self._documents) + place) for place in range(len(texts))]
        metadata = metadatas or [{} for _ in texts]
        self._documents += [
            Document(page_content=text, metadata=values, id=name)
            for text, values, name in zip(texts, metadata, names, strict=True)
        ]
        self._vectors = None
        self._found.clear()
        return names

    @override
    def similarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        return [document for document, _ in self.similarity_search_with_score(query, k, **kwargs)]

    @override
    def similarity_search_with_score(
        self, query: str, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        if (query, k) not in self._found:
            self._found[query, k] = self._search(query, k)
        return [
            (self._documents[place].model_copy(), score) for place, score in self._found[query, k]
        ]

    def _search(self, query: str, k: int) -> list[tuple[int, float]]:
        if not self._documents:
            return []
        if self._vectors is None:
            self._vectors = self._embeddings.matrix(
                [self._embedded(document) for document in self._documents], self._title
            )
        similarity = self._vectors @ self._embeddings.queries([query])[0]
        # Stable: of texts that occur twice, the first comes first.
        best = np.argsort(-similarity, kind="stable")[:k]
        return list(zip(best.tolist(), similarity[best].tolist(), strict=True))

    def _embedded(self, document: Document) -> str:
        if not self._named:
            return document.page_content
        return f"{document.metadata['doc_id'].replace('_', ' ')}\n\n{document.page_content}"

    @classmethod
    @override
    def from_texts(
        cls,
        texts: list[str],
        embedding: Embeddings,
        metadatas: list[dict[Any, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        **kwargs: Any,
    ) -> Self:
        raise NotImplementedError
