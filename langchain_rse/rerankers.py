"""Rerankers that keep all scores: compressors for this retriever or any other pipeline."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, cast

from langchain_core.callbacks import Callbacks
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.utils import secret_from_env
from pydantic import ConfigDict, Field, PrivateAttr, SecretStr, field_validator
from typing_extensions import override

from langchain_rse._steps import Steps, arun, call, compute, run
from langchain_rse.candidates import number_of
from langchain_rse.schema import RELEVANCE_SCORE

__all__ = ["CohereReranker", "CrossEncoderReranker"]

# What the service takes in one request.
_MOST_AT_ONCE = 1_000


class CohereReranker(BaseDocumentCompressor):
    """Cohere's rerank API (v2), on any version of its SDK from 5.13, sync and async.

    All documents are scored and returned, best first, as copies with the score, from 0 to 1,
    as ``relevance_score`` in their metadata. A query costs one request for each 1,000
    documents; what Cohere bills for it says its pricing page.

    Attributes:
        model: The model, such as ``"rerank-v3.5"``.
        cohere_api_key: The key; by default that of the environment, ``COHERE_API_KEY``.
            From https://dashboard.cohere.com/api-keys.
        base_url: Another address of the API; None for Cohere's own.
        top_n: How many documents to return; None for all, as `RSERetriever` wants it.
        max_tokens_per_doc: Where documents are cut; None for the API's own limit.
        batch_size: Documents in a request, from 1 to 1,000.
        max_retries: How often a request is sent again after 408, 409, 429 or 5xx, with
            growing pauses or those that the service asks for; at least 0.
        timeout: Seconds until a request is given up.

    Raises:
        ImportError: At first use, if the SDK is not installed.
        ValueError: At first use, if there is no key; or if the service's answer does not
            name each document once.
        cohere.core.ApiError: If the service refuses, or fails again and again.

    Example:
        .. code-block:: python

            RSERetriever(
                vectorstore=vectorstore,
                docstore=docstore,
                reranker=CohereReranker(model="rerank-v3.5"),
            )
    """

    model_config = ConfigDict(extra="forbid")

    model: str
    cohere_api_key: SecretStr | None = Field(
        default_factory=secret_from_env("COHERE_API_KEY", default=None)
    )
    base_url: str | None = None
    top_n: int | None = Field(default=None, ge=1)
    max_tokens_per_doc: int | None = Field(default=None, ge=1)
    batch_size: int = Field(default=_MOST_AT_ONCE, ge=1, le=_MOST_AT_ONCE)
    max_retries: int = Field(default=3, ge=0)
    timeout: float = Field(default=60.0, gt=0)

    _kept: Any = PrivateAttr(default=None)

    @override
    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> list[Document]:
        if self._kept is None:
            self._kept = self._client("ClientV2")
        return run(self._rerank(self._kept, documents, query))

    @override
    async def acompress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> list[Document]:
        # Connections belong to an event loop, and there may be another the next time.
        async with self._client("AsyncClientV2") as client:
            return await arun(self._rerank(client, documents, query))

    def _rerank(
        self,
        client: Any,  # noqa: ANN401
        documents: Sequence[Document],
        query: str,
    ) -> Steps[list[Document]]:
        optional = {"max_tokens_per_doc": self.max_tokens_per_doc}
        scored: list[tuple[float, Document]] = []
        for start in range(0, len(documents), self.batch_size):
            some = documents[start : start + self.batch_size]
            answer = yield from call(
                client.rerank,
                client.rerank,
                model=self.model,
                query=query,
                documents=[document.page_content for document in some],
                request_options={
                    "max_retries": self.max_retries,
                    "timeout_in_seconds": self.timeout,
                },
                **{name: value for name, value in optional.items() if value is not None},
            )
            scored += zip(_scores(answer, len(some)), some, strict=True)
        return _best_first(scored)[: self.top_n]

    def _client(self, name: str) -> Any:  # noqa: ANN401 - of a package that need not be there
        try:
            import cohere  # noqa: PLC0415
        except ImportError as error:
            raise ImportError("CohereReranker needs cohere: pip install cohere") from error
        if self.cohere_api_key is None:
            raise ValueError(
                "CohereReranker needs a key: set COHERE_API_KEY in the environment, or give "
                "cohere_api_key. Keys are made at https://dashboard.cohere.com/api-keys"
            )
        return getattr(cohere, name)(self.cohere_api_key.get_secret_value(), base_url=self.base_url)


class CrossEncoderReranker(BaseDocumentCompressor):
    """A cross-encoder's order with its scores, which langchain-classic's namesake drops.

    All documents are scored and returned, best first, as copies with the model's score as
    ``relevance_score`` in their metadata, on whatever scale the model has: where these are
    logits, as of the MS MARCO models, give the retriever ``calibration="sigmoid"``.

    Attributes:
        model: A model of LangChain's, such as ``HuggingFaceCrossEncoder``, or anything else
            with a method ``score`` from pairs of the query and a text to numbers, one each;
            or one of sentence-transformers, whose method is ``predict``. Async code calls it
            off the event loop.

    Raises:
        ValueError: At construction, if the model has neither method; at use, if it gives other
            than one finite number for each text.

    Example:
        .. code-block:: python

            model = HuggingFaceCrossEncoder(model_name="cross-encoder/ms-marco-MiniLM-L6-v2")
            RSERetriever(
                vectorstore=vectorstore,
                docstore=docstore,
                reranker=CrossEncoderReranker(model=model),
                config=RSEConfig(calibration="sigmoid"),
            )
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    model: Any

    @field_validator("model")
    @classmethod
    def _check_model(cls, model: Any) -> Any:  # noqa: ANN401
        _scoring(model)
        return model

    @override
    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> list[Document]:
        return run(self._rerank(documents, query))

    @override
    async def acompress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> list[Document]:
        return await arun(self._rerank(documents, query))

    def _rerank(self, documents: Sequence[Document], query: str) -> Steps[list[Document]]:
        if not documents:
            return []
        pairs = [(query, document.page_content) for document in documents]
        given = yield from compute(lambda: list(_scoring(self.model)(pairs)))
        scores = [score for score in map(number_of, given) if score is not None]
        if not len(scores) == len(given) == len(documents):
            raise ValueError(
                f"{type(self.model).__name__} must give one finite number for each of "
                f"{len(documents)} texts; got {len(given)} scores, {len(scores)} of them such "
                "numbers"
            )
        return _best_first(list(zip(scores, documents, strict=True)))


def _scoring(model: Any) -> Callable[[list[tuple[str, str]]], Iterable[Any]]:  # noqa: ANN401
    for name in ("score", "predict"):
        method = getattr(model, name, None)
        if callable(method):
            return cast("Callable[[list[tuple[str, str]]], Iterable[Any]]", method)
    raise ValueError(
        f"must have a method score or predict from pairs of texts to numbers; got {model!r}"
    )


def _best_first(scored: list[tuple[float, Document]]) -> list[Document]:
    """Copies of documents with their scores; of equal scores, the order stays."""
    return [
        document.model_copy(update={"metadata": {**document.metadata, RELEVANCE_SCORE: score}})
        for score, document in sorted(scored, key=lambda pair: -pair[0])
    ]


def _scores(answer: Any, count: int) -> Iterator[float]:  # noqa: ANN401
    """The scores in the order of the documents.

    Raises:
        ValueError: If a document has none, or more than one.
    """
    scores: dict[int, float] = {}
    for result in getattr(answer, "results", None) or ():
        if not 0 <= result.index < count or result.index in scores:
            raise ValueError(
                f"Cohere's answer scores document {result.index} of {count}, which was not asked "
                "for or is scored already"
            )
        score = number_of(result.relevance_score)
        scores[result.index] = math.nan if score is None else score
    missing = [index for index in range(count) if math.isnan(scores.get(index, math.nan))]
    if missing:
        raise ValueError(
            f"Cohere's answer has no score for {len(missing)} of {count} documents, the first "
            f"of them document {missing[0]}"
        )
    return iter([scores[index] for index in range(count)])
