"""What a user of SimilarityBasedRelevanceFilter relies on."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings

from langchain_rse.filters import SimilarityBasedRelevanceFilter, has_text
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


class Float32(Embeddings):
    """Vectors as models give them: normalized, and rounded."""

    def embed_query(self, text: str) -> list[float]:
        vector = np.arange(1, len(text) + 385, dtype=np.float32)[:384] ** 0.3
        normalized: list[float] = (vector / np.linalg.norm(vector)).tolist()
        return [round(value, 7) for value in normalized]

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [[value * 1.1 for value in self.embed_query(text)] for text in texts]


def test_a_text_reaches_a_similarity_of_1_with_itself_despite_rounding() -> None:
    (kept,) = similar(Float32(), [Document(fakes.QUERY)], threshold=1.0)
    assert kept.metadata["relevance_score"] == 1.0


@pytest.mark.parametrize("threshold", [-0.01, 1.01, math.nan, "0.5", None])
def test_a_threshold_outside_0_to_1_is_refused(threshold: Any) -> None:
    with pytest.raises(ValueError, match="threshold"):
        SimilarityBasedRelevanceFilter(embeddings=Angles(), threshold=threshold)


NOT_TEXT = [
    Document(""),
    Document(" \n\t"),
    Document("a bird 0", metadata={"type": "image"}),
    Document("a song 0", metadata={"type": "Audio"}),
    Document("a flight 0", metadata={"mime_type": "video/mp4"}),
    Document("a bird 0", metadata={"content_type": "image/png; x=y"}),
    Document("a bird 0", metadata={"modality": "IMAGE", "type": "text"}),
]
TEXT = [
    Document("plain 0"),
    Document("a 0", metadata={"type": "text"}),
    Document("b 0", metadata={"type": "10-K", "mime_type": "text/markdown"}),
    Document("c 0", metadata={"type": "table"}),
    Document("d 0", metadata={"type": "imagery"}),
    Document("e 0", metadata={"type": 3, "modality": None}),
]


def test_documents_that_are_not_text_are_left_out_and_not_embedded() -> None:
    embeddings = Angles()
    assert texts_of(similar(embeddings, [*NOT_TEXT, *TEXT])) == texts_of(TEXT)
    assert embeddings.embedded == texts_of(TEXT)
    assert not any(map(has_text, NOT_TEXT))
    assert all(map(has_text, TEXT))
    without_text = Angles()
    assert similar(without_text, NOT_TEXT) == similar(without_text, []) == []
    assert without_text.ways == []


def test_is_text_replaces_the_rule() -> None:
    kept = similar(
        Angles(),
        documents_of("a 0", "b 0", "c 0"),
        is_text=lambda document: document.metadata["page"] != 1,
    )
    assert texts_of(kept) == ["a 0", "c 0"]


def test_the_most_similar_comes_first() -> None:
    documents = documents_of("a 50", "b 10", "c 80", "d 50", "e 0")
    kept = similar(Angles(), documents)
    assert texts_of(kept) == ["e 0", "b 10", "a 50", "d 50"]


class FixedVectors(Embeddings):
    """Returns the same vectors for any texts."""

    def __init__(self, *vectors: list[float]) -> None:
        self.vectors = list(vectors)

    def embed_query(self, text: str) -> list[float]:
        del text
        return [1.0, 0.0]

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        del texts
        return self.vectors


@pytest.mark.parametrize(
    ("vectors", "message"),
    [
        ([[1.0, 0.0]], "one vector for each of 2 texts; got 1"),
        ([[1.0, 0.0], [math.nan, 0.0]], "embeddings must return finite vectors"),
    ],
)
def test_wrong_vectors_are_an_error(vectors: list[list[float]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        similar(FixedVectors(*vectors), documents_of("a", "b"))


def test_a_vector_of_zeros_has_a_similarity_of_0() -> None:
    kept = similar(FixedVectors([0.0, 0.0], [1.0, 0.0]), documents_of("a", "b"), threshold=0)
    assert [document.metadata["relevance_score"] for document in kept] == [1.0, 0.0]
