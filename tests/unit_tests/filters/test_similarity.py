"""What a user of SimilarityBasedRelevanceFilter relies on."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings

from langchain_rse.filters import SimilarityBasedRelevanceFilter
from tests.unit_tests import fakes
from tests.unit_tests.fakes import Way
from tests.unit_tests.filters.judging import documents_of, texts_of

way = fakes.way


class Angles(fakes.Angles):
    """The last word of a text is its angle to the query, in degrees.

    Attributes:
        embedded: The documents that were embedded.
        ways: The methods that were called.
    """

    def __init__(self) -> None:
        self.embedded: list[str] = []
        self.ways: list[str] = []

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.ways.append("sync")
        self.embedded += texts
        return [[3 * value for value in vector] for vector in super().embed_documents(texts)]

    async def aembed_query(self, text: str) -> list[float]:
        self.ways.append("async query")
        return self.embed_query(text)

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        vectors = self.embed_documents(texts)
        self.ways[-1] = "async"
        return vectors


def similar(embeddings: Embeddings, documents: Sequence[Document], **settings: Any) -> list[Any]:
    similarity = SimilarityBasedRelevanceFilter(embeddings=embeddings, **settings)
    return list(similarity.compress_documents(documents, fakes.QUERY))


@fakes.both_ways
def test_similar_documents_are_kept_with_their_scores(way: Way) -> None:
    documents = documents_of("a 70", "b 60", "c 0", "d 180", "e 45", source="birds.md")
    before = copy.deepcopy(documents)
    embeddings = Angles()
    similarity = SimilarityBasedRelevanceFilter(embeddings=embeddings)
    kept = way.call(
        similarity.compress_documents, similarity.acompress_documents, documents, fakes.QUERY
    )
    assert [(document.id, document.metadata) for document in kept] == [
        ("id 2", {"page": 2, "source": "birds.md", "relevance_score": 1.0}),
        ("id 4", {"page": 4, "source": "birds.md", "relevance_score": pytest.approx(0.5**0.5)}),
        ("id 1", {"page": 1, "source": "birds.md", "relevance_score": 0.5}),
    ]
    assert documents == before
    assert embeddings.ways == (["async query", "async"] if way.is_async else ["sync"])


@pytest.mark.parametrize(
    ("threshold", "expected"),
    [(0, ["a 0", "b 30", "c 90", "d 120"]), (0.87, ["a 0"]), (0.86, ["a 0", "b 30"]), (1, ["a 0"])],
)
def test_the_threshold_is_the_least_similarity(threshold: float, expected: list[str]) -> None:
    documents = documents_of("a 0", "b 30", "c 90", "d 120")
    kept = similar(Angles(), documents, threshold=threshold)
    assert texts_of(kept) == expected
    assert all(0 <= document.metadata["relevance_score"] <= 1 for document in kept)


def test_documents_without_text_are_left_out_and_not_embedded() -> None:
    embeddings = Angles()
    without_text = [Document(""), Document(" \n\t")]
    with_text = documents_of("plain 0", "a 0")
    assert texts_of(similar(embeddings, [*without_text, *with_text])) == texts_of(with_text)
    assert embeddings.embedded == texts_of(with_text)
    assert similar(Angles(), without_text) == similar(Angles(), []) == []
