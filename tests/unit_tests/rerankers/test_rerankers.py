"""Rerankers as they are: what each returns, and what it is worth by its calibration."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from langchain_core.documents import BaseDocumentCompressor, Document
from scipy.special import betainc

from langchain_rse.rerankers import CrossEncoderReranker
from tests.unit_tests import fakes
from tests.unit_tests.fakes import lines, make_retriever

way = fakes.way
QUERY = fakes.QUERY
TEXT = lines(0, 10, 20, 30)


class CrossEncoder:
    """A model of LangChain's kind: the later a text's number, the better."""

    def __init__(self, scale: float = 1.0, kind: Callable[[list[float]], Any] = list) -> None:
        self.scale = scale
        self.kind = kind

    def score(self, text_pairs: list[tuple[str, str]]) -> Any:
        assert {query for query, _ in text_pairs} <= {QUERY}
        return self.kind([self.scale * (int(text[1]) - 1.5) for _, text in text_pairs])


class Predicting:
    """A model of sentence-transformers' kind."""

    def predict(self, pairs: list[tuple[str, str]]) -> Any:
        return np.array(CrossEncoder().score(pairs), dtype=np.float32)


class Service(BaseDocumentCompressor):
    """Returns copies without ids, best first, as services' integrations do."""

    name: str = "relevance_score"
    scores: Sequence[Any] = (0.9, 0.6, 0.3, 0.0)

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Any = None
    ) -> list[Document]:
        del query, callbacks
        return [
            Document(document.page_content, metadata={**document.metadata, self.name: score})
            for document, score in zip(documents, self.scores, strict=True)
        ]


def named(name: str, **kwargs: Any) -> BaseDocumentCompressor:
    """A service's integration of that class name."""
    made: Callable[..., BaseDocumentCompressor] = type(name, (Service,), {})
    return made(**kwargs)


def near(expected: Any) -> Any:
    """Equal but for the digits that metadata does not keep."""
    return pytest.approx(expected, abs=1e-4)


def by_rank(reranker: Any, **kwargs: Any) -> list[tuple[int, Any, Any]]:
    """Chunk, score and relevance of the candidates that are worth anything, by their ranks."""
    retriever = make_retriever(
        {"a": TEXT},
        reranker=reranker,
        config=fakes.EVERYTHING.replace(calibration="auto", decay_rate=1e9, neighbor_weight=0.0),
    )
    chunks = []
    for passage in fakes.ask(retriever, **kwargs):
        chunks += [chunk for chunk in passage.metadata["rse"]["chunks"] if "rank" in chunk]
    chunks.sort(key=lambda chunk: chunk["rank"])
    return [(chunk["index"], chunk["score"], chunk["relevance"]) for chunk in chunks]


def relevances(reranker: Any, **kwargs: Any) -> list[float]:
    return [relevance for *_, relevance in by_rank(reranker, **kwargs)]


# Calibrations by name


SCORES = (0.9, 0.6, 0.3, 0.1)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("CohereRerank", betainc(0.4, 0.4, SCORES)),
        ("CohereReranker", betainc(0.4, 0.4, SCORES)),
        ("VoyageAIRerank", betainc(0.5, 1.8, SCORES)),
        ("SimilarityBasedRelevanceFilter", SCORES),
        ("FlashrankRerank", (1, 0.625, 0.25)),
        ("MyReranker", (1, 0.625, 0.25)),
    ],
)
def test_the_calibration_is_chosen_by_name(name: str, expected: Any) -> None:
    assert relevances(named(name, scores=SCORES)) == near(list(expected))


# Cross-encoders with their scores


@pytest.mark.parametrize(
    "model",
    [
        CrossEncoder(),
        CrossEncoder(kind=lambda scores: np.array(scores, dtype=np.float32)),
        CrossEncoder(kind=iter),
        Predicting(),
    ],
    ids=["list", "array", "iterator", "predict"],
)
def test_a_cross_encoder_with_its_scores(model: Any) -> None:
    chunks = by_rank(CrossEncoderReranker(model=model), calibration="minmax")
    assert [index for index, _, _ in chunks] == [3, 2, 1]  # the worst has relevance 0
    logits = [1.5, 0.5, -0.5]
    assert [score for _, score, _ in chunks] == near(logits)
    assert [relevance for _, _, relevance in chunks] == near([1, 2 / 3, 1 / 3])
