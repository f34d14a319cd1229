"""Whatever a compressor does to Documents, the chunks it means are found again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.stores import InMemoryStore
from langchain_core.vectorstores import InMemoryVectorStore
from pydantic import Field

from langchain_rse import RSERetriever
from langchain_rse._sync import run
from langchain_rse.config import QuerySettings, RSEConfig
from langchain_rse.query.candidates import Candidate, Hit
from langchain_rse.query.searching import rerank
from langchain_rse.stores.records import document_key
from langchain_rse.text.words import TextWords
from tests.unit_tests import fakes
from tests.unit_tests.fakes import QUERY, Way, about, ask, chunks_in, lines, make_retriever

way = fakes.way

Compress = Callable[[list[Document]], Any]


class Compressor(BaseDocumentCompressor):
    """Does as it is told; counts its calls, and tells sync from async."""

    compress: Compress
    top_n: int | None = None
    top_k: int | None = None
    k: int | None = None
    asked: list[tuple[str, int]] = Field(default_factory=list)

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Any = None
    ) -> Any:
        del query, callbacks
        self.asked.append(("sync", len(documents)))
        return self.compress(list(documents))

    async def acompress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Any = None
    ) -> Any:
        del query, callbacks
        self.asked.append(("async", len(documents)))
        return self.compress(list(documents))


def chunk(number: int, text: str | None = None, **metadata: Any) -> Document:
    return Document(
        f"text {number}" if text is None else text,
        id=f"id-{number}",
        metadata={"doc_id": "a", "rse_version": "v", "chunk_index": number, **metadata},
    )


WORDS = TextWords([*(f"text {number}" for number in range(9)), "same text"])


def candidate(document: Document, score: float | None = None) -> Candidate:
    number = document.metadata["chunk_index"]
    hits = {"vectors": Hit(number, score)}
    text = WORDS.numbers[document.page_content]
    return Candidate(document, "a", document_key("a"), "v", number, WORDS, text, hits)


def candidates(count: int = 4) -> list[Candidate]:
    return [candidate(chunk(number), 1 / (number + 1)) for number in range(count)]


def reranked(compressor: Compressor, given: Sequence[Candidate]) -> list[Candidate]:
    return [*run(rerank({"query": given}, QuerySettings(reranker=compressor), None))["query"]]


def numbers(found: Sequence[Candidate]) -> list[tuple[int, float | None]]:
    hits = [candidate.hits["reranker"] for candidate in found]
    assert [hit.rank for hit in hits] == list(range(len(found)))
    return [(each.chunk_index, hit.score) for each, hit in zip(found, hits, strict=True)]


def scored(document: Document, score: Any, **changes: Any) -> Document:
    metadata = {**document.metadata, "relevance_score": score}
    return document.model_copy(update={"metadata": metadata, **changes})


@fakes.both_ways
def test_order_and_scores_are_the_rerankers(way: Way) -> None:
    compressor = Compressor(compress=lambda found: [scored(found[2], 0.9), scored(found[0], 0.5)])
    retriever = make_retriever({"a": lines(0, 1, 2, 3)}, reranker=compressor)
    chunks = chunks_in(way.invoke(retriever, QUERY, irrelevant_chunk_penalty=0.1))
    for number, rank, score in ((2, 0, 0.9), (0, 1, 0.5)):
        assert chunks["a", number].items() >= {"rank": rank, "score": score}.items()
    assert compressor.asked == [("async" if way.is_async else "sync", 4)]
    given = candidates()
    assert numbers(reranked(compressor, given)) == [(2, 0.9), (0, 0.5)]
    assert given == candidates()


@given(st.lists(st.integers(0, 5)), st.booleans())
def test_anything_that_keeps_a_chunk_recognizable(
    picked: list[int],
    keep_metadata: bool,  # noqa: FBT001
) -> None:
    given = [candidate(chunk(number, text="same text")) for number in range(6)]

    def compress(found: list[Document]) -> list[Document]:
        if keep_metadata:
            return [scored(found[i], 0.5, id=None, page_content="shorter") for i in picked]
        return [Document("same text", metadata={"relevance_score": 0.5}) for _ in picked]

    found = reranked(Compressor(compress=compress), given)
    expected = list(dict.fromkeys(picked))  # by text, equal texts are taken in their order
    if not keep_metadata:
        expected = list(range(min(len(picked), 6)))
    assert numbers(found) == [(number, 0.5) for number in expected]
    assert all(one.document.page_content == "same text" for one in found)


@pytest.mark.parametrize("limit", ["top_n", "top_k", "k"])
def test_a_warning_names_a_reranker_that_keeps_few(limit: str) -> None:
    limits: Any = {limit: 3}
    cutting = Compressor(compress=lambda found: found[:3], **limits)
    with pytest.warns(UserWarning, match=f"Compressor keeps only.*{limit}=None.*{limit}=fetch_k"):
        assert len(reranked(cutting, candidates(9))) == 3
    reranked(Compressor(compress=lambda found: found[:2]), candidates())
    reranked(Compressor(compress=lambda found: found, top_n=4), candidates(4))


# Beside the search


class Likes(BaseDocumentCompressor):
    """Gives each chunk, by its number, the score it is told."""

    scores: Sequence[float]

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Any = None
    ) -> list[Document]:
        del query, callbacks
        found = [scored(one, self.scores[int(one.page_content[1])]) for one in documents]
        return sorted(found, key=lambda one: -float(one.metadata["relevance_score"]))


def relevances(scores: Sequence[float], **changes: Any) -> dict[int, float]:
    """Relevance by chunk; the search gives the three chunks 1, 0.5 and 0 in their order."""
    default = RSEConfig().rerank_weight
    config = fakes.PLAIN.replace(
        **{"rerank_weight": default, "irrelevant_chunk_penalty": 0.0, **changes}
    )
    retriever = make_retriever(
        {"a": lines(0, 60, 90)}, config=config, reranker=Likes(scores=scores)
    )
    (passage,) = ask(retriever)
    chunks = passage.metadata["rse"]["chunks"]
    return {chunk["index"]: chunk["relevance"] for chunk in chunks if "rank" in chunk}


@pytest.mark.parametrize("weight", [{}, {"rerank_weight": 0.5}, {"rerank_weight": 0.25}])
def test_the_search_counts_beside_the_reranker(weight: dict[str, float]) -> None:
    share = weight.get("rerank_weight", 0.6)
    found = relevances((0.2, 0.6, 0.4), **weight)
    # At most what the reranker says of its best candidate: 0.6.
    expected = {
        0: share * 0.2 + (1 - share) * 0.6 * 1.0,
        1: share * 0.6 + (1 - share) * 0.6 * 0.5,
        2: share * 0.4 + (1 - share) * 0.6 * 0.0,
    }
    assert found == about(expected)


def test_no_answer_if_the_reranker_says_that_nothing_is_relevant() -> None:
    retriever = make_retriever(
        {"a": lines(0, 60, 90)},
        config="balanced",
        calibration="identity",
        reranker=Likes(scores=(0.1, 0.05, 0.0)),
    )
    assert ask(retriever) == []


class NotingReranker(fakes.Noting):
    """Known by its name to be a reranker."""


@fakes.both_ways
@pytest.mark.parametrize(
    ("compressor", "settings", "question", "expected"),
    [
        (NotingReranker, {}, "What does \u201cAcme\u201d pay?", "What does \u201c\u201d pay?"),
        (NotingReranker, {}, "What is paid?", "What is paid?"),
        (NotingReranker, {}, "Acme?", "Acme?"),
        (NotingReranker, {"name_weight": 0.0}, "What does Acme pay?", "What does Acme pay?"),
        (fakes.Noting, {}, "What does Acme pay?", "What does Acme pay?"),
    ],
)
def test_a_reranker_gets_the_query_without_names_of_documents(
    way: Way, compressor: type[fakes.Noting], settings: Any, question: str, expected: str
) -> None:
    """Rerankers prefer chunks that repeat names; `name_weight` tells the documents apart."""
    noting = compressor()
    retriever = RSERetriever(
        vectorstore=InMemoryVectorStore(fakes.BagOfWords()),
        docstore=InMemoryStore(),
        reranker=noting,
        config=RSEConfig(**settings),
    )
    for name in ("Acme", "Borealis", "Cygnus"):
        document = Document("The parties pay.", metadata={"source": f"deals/{name}.txt"})
        way.add(retriever, [document])
    way.invoke(retriever, question)
    assert noting.queries == [expected]
