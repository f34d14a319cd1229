"""Rerankers that keep all scores: document compressors for RSERetriever or any other pipeline."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from langchain_core.callbacks import Callbacks
from langchain_core.documents import Document
from langchain_core.utils import secret_from_env
from pydantic import Field, SecretStr
from typing_extensions import override

from langchain_rse._compressing import Compressor, best_first
from langchain_rse._messages import load
from langchain_rse._sync import Steps, batches, call, compute

# Maximum number of documents in one request to the service.
_MOST_DOCUMENTS = 1_000


class CohereReranker(Compressor):
    """Reranks with Cohere's rerank API (v2), sync and async; supports SDK versions 5.13 to 7.

    Returns copies of the documents, best first, with the score (0 to 1) as ``relevance_score`` in
    their metadata. A query takes one request per 1,000 documents.

    Raises:
        ImportError: At first use, if the SDK is not installed.
        ValueError: At construction, if there is no API key; at use, if a response does not score
            each document once.
        cohere.core.ApiError: If the service rejects a request, or fails after all retries.
    """

    model: str
    """Name of the model, such as ``"rerank-v3.5"``."""
    cohere_api_key: SecretStr = Field(default_factory=secret_from_env("COHERE_API_KEY"))
    """API key; by default the environment variable ``COHERE_API_KEY``."""
    base_url: str | None = None
    """URL of the API; None for Cohere's servers."""
    top_n: int | None = Field(default=None, ge=1)
    """Maximum number of documents to return; None for all, as `RSERetriever` needs."""
    max_retries: int = Field(default=3, ge=0)
    """Number of retries by the SDK, with pauses, after status 408, 409, 429 or 5xx."""
    timeout: float = Field(default=60.0, gt=0)
    """Timeout of a request, in seconds."""

    @override
    def _compress(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks
    ) -> Steps[list[Document]]:
        scores = []
        options = {"max_retries": self.max_retries, "timeout_in_seconds": self.timeout}
        for batch in batches(documents, _MOST_DOCUMENTS):
            answer = yield from call(
                self._rerank,
                self._arerank,
                model=self.model,
                query=query,
                documents=[document.page_content for document in batch],
                request_options=options,
            )
            score_of = {result.index: result.relevance_score for result in answer.results}
            if len(score_of) != len(batch):
                raise ValueError(
                    f"Cohere must score each of {len(batch)} documents once; got {len(score_of)} "
                    "scores"
                )
            scores += [score_of[index] for index in range(len(batch))]
        return best_first(documents, scores)[: self.top_n]

    def _rerank(self, **request: Any) -> Any:  # noqa: ANN401 - the package is optional
        return self._sync_client.rerank(**request)

    async def _arerank(self, **request: Any) -> Any:  # noqa: ANN401
        # Connections belong to an event loop, and the next call may use another loop.
        async with self._make_client("AsyncClientV2") as client:
            return await client.rerank(**request)

    @cached_property
    def _sync_client(self) -> Any:  # noqa: ANN401
        return self._make_client("ClientV2")

    def _make_client(self, class_name: str) -> Any:  # noqa: ANN401
        cohere = load("cohere", "cohere", "CohereReranker")
        client_class = getattr(cohere, class_name)
        return client_class(self.cohere_api_key.get_secret_value(), base_url=self.base_url)


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
        self, documents: Sequence[Document], query: str, callbacks: Callbacks
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
