"""CrossEncoderReranker: reranks with a cross-encoder and keeps its scores."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from langchain_core.callbacks import Callbacks
from langchain_core.documents import Document
from typing_extensions import override

from langchain_rse._compressing import Compressor, best_first
from langchain_rse._sync import Steps, compute


class CrossEncoderReranker(Compressor):
    """Reranks with a cross-encoder and keeps its scores.

    Returns copies of all documents, best first, with the model's score as ``relevance_score`` in
    their metadata. Scores may be logits, because `RSERetriever` scales them to [0, 1].

    Raises:
        ValueError: At use, if the model does not return one finite number for each text.
    """

    model: Any
    """A model with a method that takes pairs of query and text and returns numbers: ``score``, as
    in LangChain's ``HuggingFaceCrossEncoder``, or ``predict``, as in sentence-transformers. Async
    code runs it in a thread."""

    @override
    def _compress(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None
    ) -> Steps[list[Document]]:
        if not documents:
            return []
        pairs = [(query, document.page_content) for document in documents]
        score = getattr(self.model, "score", None) or self.model.predict
        values = yield from compute(lambda: list(score(pairs)))
        scores = np.asarray(values, dtype=float)
        if scores.shape != (len(documents),) or not np.isfinite(scores).all():
            raise ValueError(
                f"{type(self.model).__name__} must return one finite number for each of "
                f"{len(documents)} texts; got {len(values)} values, such as {values[:3]!r}"
            )
        return best_first(documents, scores.tolist())
