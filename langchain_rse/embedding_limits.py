"""How much an embedding model reads of a text, and what is longer than that.

What is known without being told:

=============================================== ==================== =======================
embeddings                                      limit                counted by
=============================================== ==================== =======================
``HuggingFaceEmbeddings`` and other faces of    ``max_seq_length``   the model's tokenizer
sentence-transformers (``client``, ``_client``)
anything with a ``tokenizer`` that has a        that                 that tokenizer
``model_max_length``
anything with a ``tokenizer`` (of the package   what it truncates to that tokenizer
tokenizers) that truncates
``OpenAIEmbeddings``, ``AzureOpenAIEmbeddings`` 8,191 tokens         bytes; tiktoken, where
                                                (its own field)      there are more of them
=============================================== ==================== =======================

For others, give `langchain_rse.RSEIndexer` a ``max_embedded_length``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any

from langchain_core.embeddings import Embeddings

from langchain_rse.fitting import Measure
from langchain_rse.tokens import untruncated

__all__ = ["EmbeddingLimit", "find_limit"]

# transformers gives 1e30 where it does not know.
_NO_LIMIT = 1_000_000

Counter = Callable[[str], float]


class EmbeddingLimit:
    """Counts the texts that are longer than a model reads.

    Args:
        most: The most that it reads, at least 1.
        length_function: From a text to its length.
        unit: What it counts, for the warning.
    """

    def __init__(self, most: int, length_function: Counter, unit: str) -> None:
        self.most = most
        self.unit = unit
        self._length_function = length_function
        self._forget()

    def _forget(self) -> None:
        self._seen = self._longer = 0
        self._longest = 0.0

    def look_at(self, texts: Iterable[str]) -> None:
        """Count texts that are about to be embedded.

        Raises:
            ValueError: If the length function returns something else than a finite number of
                at least 0.
        """
        measure = Measure(self._length_function)  # remembers texts: a new one for each batch
        for text in texts:
            length = measure(text)
            self._seen += 1
            if length > self.most:
                self._longer += 1
                self._longest = max(self._longest, length)

    def warn(self, stacklevel: int) -> None:
        """Warn of what was counted since the last warning, if a text was too long."""
        seen, longer, longest = self._seen, self._longer, self._longest
        self._forget()
        if longer:
            warnings.warn(
                f"{longer} of {seen} embedded texts are longer than the {self.most} {self.unit} "
                f"that the embedding model reads; the longest has {longest:g}. Their ends do not "
                "count, or count less, in the vectors. Use smaller chunks: a smaller chunk_size, "
                "or langchain_rse.tokens.TokenSplitter, which keeps to a number of tokens. "
                "If the model reads more, say so with RSEIndexer(..., max_embedded_length=...)",
                stacklevel=stacklevel + 1,
            )


def find_limit(
    embeddings: Embeddings | None, most: int | None, length_function: Counter | None
) -> EmbeddingLimit | None:
    """The limit that is given, else the one that is known of the model; None if there is none.

    Args:
        embeddings: The model; None if it is not known.
        most: The limit that is given.
        length_function: How lengths are counted, if it is given.

    Raises:
        ValueError: If the limit is below 1, or there is a length function without one.
    """
    if most is not None and (isinstance(most, bool) or not most >= 1):
        raise ValueError(f"max_embedded_length must be at least 1; got {most!r}")
    if length_function is not None and most is None:
        raise ValueError(
            "embedded_length_function needs a limit in its units; add max_embedded_length=..."
        )
    if most is not None and length_function is not None:
        return EmbeddingLimit(most, length_function, "(by embedded_length_function)")
    known, counter = _known(embeddings)
    if most is None:
        most = known
    if most is None:
        return None
    if counter is None:
        return EmbeddingLimit(most, len, "characters")
    return EmbeddingLimit(most, counter, "tokens")


def _known(embeddings: Embeddings | None) -> tuple[int | None, Counter | None]:
    """A model's limit and its way of counting, as far as they are known."""
    context = _number(getattr(embeddings, "embedding_ctx_length", None))
    if context is not None:
        return context, _OpenAICounter(embeddings, context)
    for holder in (embeddings, *(_get(embeddings, name) for name in ("client", "_client"))):
        tokenizer = _get(holder, "tokenizer")
        # transformers' fast tokenizers have one of the package tokenizers.
        backend = _get(tokenizer, "backend_tokenizer") or tokenizer
        truncation = _get(backend, "truncation")
        counter = _TokenizerCounter.of(backend)
        if counter is None:
            continue
        known = (
            _number(_get(holder, "max_seq_length"))
            or _number(_get(tokenizer, "model_max_length"))
            or _number(truncation.get("max_length") if isinstance(truncation, dict) else None)
        )
        return known, counter
    return None, None


def _get(holder: object, name: str) -> Any:  # noqa: ANN401
    try:
        return getattr(holder, name, None)
    except Exception:  # noqa: BLE001 - a property of anything
        return None


def _number(value: object) -> int | None:
    sane = isinstance(value, int) and not isinstance(value, bool) and 0 < value < _NO_LIMIT
    return value if sane and isinstance(value, int) else None


class _TokenizerCounter:
    """Counts the tokens that a tokenizer makes of a text, special ones included."""

    def __init__(self, tokenizer: Any) -> None:  # noqa: ANN401
        self._tokenizer = tokenizer

    @classmethod
    def of(cls, tokenizer: Any) -> _TokenizerCounter | None:  # noqa: ANN401
        """One that does not truncate; None if it is no tokenizer of the package tokenizers."""
        try:
            copied = untruncated(tokenizer)
        except ImportError:
            return None
        return None if copied is None else cls(copied)

    def __call__(self, text: str) -> int:
        encodable = text.encode("utf-8", "replace").decode()
        return len(self._tokenizer.encode(encodable).ids)


class _OpenAICounter:
    """Counts bytes, of which a token has one at least; tokens only where they are too many."""

    def __init__(self, embeddings: Any, limit: int) -> None:  # noqa: ANN401
        self._embeddings = embeddings
        self._limit = limit
        self._encoding: Any = None

    def __call__(self, text: str) -> int:
        size = len(text.encode("utf-8", "replace"))
        if size <= self._limit:
            return size
        if self._encoding is None:
            self._encoding = self._find_encoding()
        # Without its vocabulary, which has to be downloaded: four characters are a token.
        return len(self._encoding.encode_ordinary(text)) if self._encoding else len(text) // 4

    def _find_encoding(self) -> Any:  # noqa: ANN401
        try:
            import tiktoken  # noqa: PLC0415

            name = _get(self._embeddings, "tiktoken_model_name") or _get(self._embeddings, "model")
            return tiktoken.encoding_for_model(name)
        except Exception:  # noqa: BLE001 - not installed, not known, not to be downloaded
            return False
