"""A small embedding model that needs no download, for the command line and for demos."""

import logging
from functools import cached_property
from pathlib import Path
from typing import Any

from langchain_core.embeddings import Embeddings

from langchain_rse._messages import load


class WordLlamaEmbeddings(Embeddings):
    """WordLlama's static word vectors, 256 dimensions, normalized.

    The package ``wordllama`` (extra ``cli``) contains the weights. The model runs offline on a CPU
    and embeds thousands of chunks per second. It is good enough for a demo; transformer models
    retrieve better.

    Attributes:
        texts_embedded: Number of texts embedded so far, not counting queries.

    Raises:
        ImportError: At first use, if wordllama is not installed.
    """

    def __init__(self) -> None:
        self.texts_embedded = 0

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed texts; shape ``(texts, 256)``."""
        self.texts_embedded += len(texts)
        if not texts:
            return []
        vectors: list[list[float]] = self._model.embed(texts, norm=True).tolist()
        return vectors

    def embed_query(self, text: str) -> list[float]:
        """Embed a query; shape ``(256,)``."""
        vector: list[float] = self._model.embed([text], norm=True)[0].tolist()
        return vector

    @cached_property
    def _model(self) -> Any:  # noqa: ANN401 - wordllama has no types
        root = logging.getLogger()
        level = root.level
        handlers = list(root.handlers)
        try:
            wordllama = load("wordllama", "cli", "WordLlamaEmbeddings")
        finally:  # importing wordllama changes the root logger
            root.setLevel(level)
            root.handlers[:] = handlers
        # By default, wordllama looks for the weights in a cache and then on the network.
        return wordllama.WordLlama.load(
            cache_dir=Path(wordllama.__file__).parent, disable_download=True
        )
