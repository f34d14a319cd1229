"""A warning about texts that are longer than the embedding model reads."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from langchain_core.embeddings import Embeddings

from langchain_rse._messages import warn
from langchain_rse.stores.records import encodable

Counter = Callable[[str], float]


@dataclass
class EmbeddingLimit:
    """Counts the texts that are longer than a model reads."""

    most: int
    length_function: Counter
    unit: str  # what that counts, for the warning
    _embedded: int = field(default=0, init=False)
    _too_long: list[float] = field(default_factory=list, init=False)

    def look_at(self, texts: Iterable[str]) -> None:
        """Count texts that are about to be embedded."""
        lengths = [self.length_function(text) for text in texts]
        self._embedded += len(lengths)
        self._too_long += [length for length in lengths if length > self.most]

    def warn(self) -> None:
        """Warn of the texts that are too long, if there are any."""
        if self._too_long:
            warn(
                f"{len(self._too_long)} of {self._embedded} embedded texts are longer than the "
                f"{self.most} {self.unit} that the embedding model reads; the longest has "
                f"{max(self._too_long):g}. Use a smaller chunk_size or a TokenSplitter; if the "
                "model reads more, say so with RSEIndexer(..., max_embedded_length=...)"
            )


def find_limit(
    embeddings: Embeddings | None, most: int | None, length_function: Counter | None
) -> EmbeddingLimit | None:
    """The limit that is given, else the one that is known of the model; None if there is none."""
    if most is not None and most < 1:
        raise ValueError(f"max_embedded_length must be at least 1; got {most!r}")
    if length_function is not None:
        if most is None:
            raise ValueError(
                "embedded_length_function needs a limit in its units; add max_embedded_length=..."
            )
        return EmbeddingLimit(most, length_function, "(by embedded_length_function)")
    known, counter = _known_limit(embeddings)
    most = most or known
    if most is None:
        return None
    return EmbeddingLimit(most, counter or len, "tokens" if counter else "characters")


def _known_limit(embeddings: Embeddings | None) -> tuple[int | None, Counter | None]:
    """The limit of a sentence-transformers model and how it counts tokens, by its files here."""
    name: Any = getattr(embeddings, "model_name", None)
    if not isinstance(name, str):
        return None, None
    cache = getattr(embeddings, "cache_folder", None)
    try:
        from huggingface_hub import try_to_load_from_cache  # noqa: PLC0415
        from tokenizers import Tokenizer  # noqa: PLC0415

        config, vocabulary = (
            Path(name, file)
            if Path(name).is_dir()
            else Path(str(try_to_load_from_cache(name, file, cache)))
            for file in ("sentence_bert_config.json", "tokenizer.json")
        )
        most = json.loads(config.read_bytes())["max_seq_length"]
        tokenizer = Tokenizer.from_file(str(vocabulary))
        tokenizer.no_truncation()
        tokenizer.no_padding()
    except Exception:  # noqa: BLE001 - not installed, or another model with other files
        return None, None
    return most, lambda text: len(tokenizer.encode(encodable(text)).ids)
