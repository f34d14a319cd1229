"""`fit_score_floor`: finds the score below which the best candidate of a query is no answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pydoc_data.topics import topics
from typing import Any

import numpy as np
import pytest
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.stores import InMemoryStore
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_rse import RSERetriever
from langchain_rse.embeddings import WordLlamaEmbeddings
from langchain_rse.errors import RSEError, ScoreFloorError
from langchain_rse.evaluation import Evidence, Question
from langchain_rse.stores.records import FLOORS

NAMES = (
    "formatstrings",
    "import",
    "lambda",
    "for",
    "with",
    "try",
    "yield",
    "slicings",
    "string-methods",
)
RELATED = ("What does a format specification contain?", "How does a with statement end?")
UNRELATED = ("Who wrote Hamlet?", "How do penguins keep warm?")


@cache
def embeddings() -> WordLlamaEmbeddings:
    return WordLlamaEmbeddings()


def make(vectorstore: Any = None, **fields: Any) -> RSERetriever:
    """A retriever over topics of the Python reference."""
    retriever = RSERetriever(
        vectorstore=InMemoryVectorStore(embeddings()) if vectorstore is None else vectorstore,
        docstore=InMemoryStore(),
        **fields,
    )
    texts = {name: topics[name] for name in NAMES}
    retriever.add_documents(
        [Document(text, metadata={"source": name}) for name, text in texts.items()], ids=texts
    )
    return retriever


@pytest.fixture(scope="module")
def retriever() -> RSERetriever:
    return make()


@pytest.fixture(autouse=True)
def _without_floor(retriever: RSERetriever) -> Iterator[None]:
    yield
    retriever.docstore.mdelete([FLOORS])


def questions(count: int = 50) -> list[Question]:
    """Questions that each ask for some words of a topic."""
    rng = np.random.default_rng(0)
    made = []
    for number in range(count):
        name = NAMES[number % len(NAMES)]
        text = topics[name]
        start = int(rng.integers(0, max(len(text) - 400, 1)))
        words = text[start : start + 300].split()[1:-1]
        asked = " ".join(str(word) for word in rng.permutation(words)[:8])
        made.append(Question(f"what about {asked}?", [Evidence(name, start, start + 300)]))
    return made


def test_without_questions(retriever: RSERetriever, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "langchain_rse"):
        found = retriever.fit_score_floor()
    assert "90 general questions and 123 sentences" in caplog.records[0].getMessage()
    assert found.higher_is_better
    assert found.refused(found.unrelated) > 0.6
    assert found.refused(found.answered) <= 0.02
    assert not found.with_questions
    for question in RELATED:
        assert retriever.invoke(question)
    for question in UNRELATED:
        assert retriever.invoke(question) == []
    # The same seed finds the same.
    assert asyncio.run(retriever.afit_score_floor()) == found
    assert retriever.fit_score_floor(seed=1) != found


class Distances(InMemoryVectorStore):
    """Scores are cosine distances: lower is better."""

    def similarity_search_with_score(
        self, query: str, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        found = super().similarity_search_with_score(query, k, **kwargs)
        return [(document, 1 - score) for document, score in found]


def test_distances_find_the_same(retriever: RSERetriever) -> None:
    found = retriever.fit_score_floor()
    other = make(Distances(embeddings())).fit_score_floor()
    assert not other.higher_is_better
    assert other.floor == pytest.approx(1 - found.floor)
    assert other.word_bonus == pytest.approx(found.word_bonus)
    assert other.refused(other.unrelated) == pytest.approx(found.refused(found.unrelated))


def test_with_questions(retriever: RSERetriever) -> None:
    found = retriever.fit_score_floor(questions(), lost=0.02)
    assert found.with_questions
    asked = [question.question for question in questions()]
    refused = [question for question in asked if not retriever.invoke(question)]
    assert not refused  # the lowest of 50 is the floor
    for question in UNRELATED:
        assert retriever.invoke(question) == []


@pytest.mark.nightly
def test_questions_keep_to_the_share_that_may_be_lost(retriever: RSERetriever) -> None:
    """Half of 100 questions fit the floor, the others are asked; 200 draws."""
    made = questions(100)
    reach = {}
    retriever.fit_score_floor(made, lost=0.02)
    for question in made:
        [check] = retriever.explain(question.question).floor_checks
        reach[question.question] = check.reach
    values = np.array(list(reach.values()))
    rng = np.random.default_rng(0)
    lost = []
    for _ in range(200):
        order = rng.permutation(len(values))
        floor = np.sort(values[order[:50]])[int(51 * 0.1) - 1]
        lost.append((values[order[50:]] < floor).mean())
    assert np.mean(lost) <= 0.1


@pytest.mark.parametrize(
    ("count", "lost", "message"),
    [
        (48, 0.02, r"at least 49 questions .* got 48\. Pass more, or lost=0\.021"),
        (0, 0.1, "at least 9 questions with evidence; got 0"),
    ],
)
def test_too_few_questions(retriever: RSERetriever, count: int, lost: float, message: str) -> None:
    with pytest.raises(ScoreFloorError, match=message):
        retriever.fit_score_floor(questions(count), lost=lost)
    with pytest.raises(RSEError):
        retriever.fit_score_floor([Question("Who?", evidence=[])] * 60)


def test_as_many_as_the_error_says_are_enough(retriever: RSERetriever) -> None:
    assert retriever.fit_score_floor(questions(9), lost=0.1).answered_count <= 9


def test_questions_that_are_sentences_of_the_documents(retriever: RSERetriever) -> None:
    quoted = []
    for number in range(50):
        start = 300 * number
        text = " ".join(topics["formatstrings"][start : start + 120].split())
        quoted.append(Question(text, [Evidence("formatstrings", start, start + 120)]))
    with pytest.raises(ScoreFloorError, match="of 50 questions occur word for word"):
        retriever.fit_score_floor(quoted)


def test_questions_whose_evidence_is_not_found(retriever: RSERetriever) -> None:
    end = len(topics["lambda"])
    wrong = [
        Question(f"What is format number {number}?", [Evidence("lambda", end - 1, end)])
        for number in range(50)
    ]
    with pytest.raises(ScoreFloorError, match="found"):
        retriever.fit_score_floor(wrong)


def test_evidence_counts_in_a_document_with_the_same_text(retriever: RSERetriever) -> None:
    """Of such documents only one is returned."""
    retriever.add_documents([Document(topics["lambda"]), Document(topics["for"])], ids=["a", "b"])
    moved = []
    for question in questions():
        [evidence] = question.evidence
        other = {"lambda": "a", "for": "b"}.get(evidence.doc_id, evidence.doc_id)
        moved.append(Question(question.question, [replace(evidence, doc_id=other)]))
    found = retriever.fit_score_floor(moved)
    retriever.delete(["a", "b"])
    assert found.answered_count == retriever.fit_score_floor(questions()).answered_count


def small(text: str) -> RSERetriever:
    """A retriever over one document."""
    retriever = RSERetriever(
        vectorstore=InMemoryVectorStore(embeddings()), docstore=InMemoryStore()
    )
    retriever.add_documents([Document(text)], ids=["one"])
    return retriever


def test_too_little_text() -> None:
    empty = RSERetriever(vectorstore=InMemoryVectorStore(embeddings()), docstore=InMemoryStore())
    for few in (small("Cats sleep most of the day, and purr at night."), empty):
        with pytest.raises(ScoreFloorError, match="too little text"):
            few.fit_score_floor()


def test_chunks_that_are_all_alike() -> None:
    with pytest.raises(ScoreFloorError, match="the chunks are all alike, or the scores are"):
        small(
            "\n\n".join(["The lessee shall pay the rent on the first day. " * 15] * 40)
        ).fit_score_floor()
    paragraphs = [text for text in topics["formatstrings"].split("\n\n") if len(text) > 400][:5]
    retriever = small("\n\n".join(paragraphs * 10))
    with pytest.raises(ScoreFloorError, match="the chunks are alike"):
        retriever.fit_score_floor()


class Constant(InMemoryVectorStore):
    """All scores are the same, or there are none."""

    score: Any = 0.5

    def similarity_search_with_score(
        self, query: str, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        found = super().similarity_search_with_score(query, k, **kwargs)
        return [(document, self.score) for document, _ in found]


def test_scores_that_tell_nothing(retriever: RSERetriever) -> None:
    store = Constant(embeddings())
    constant = make(store)
    with pytest.raises(ScoreFloorError, match="Constant gives all candidates"):
        constant.fit_score_floor()
    store.score = float("nan")
    with pytest.raises(ScoreFloorError, match="Constant gives no scores"):
        constant.fit_score_floor()
    assert constant.invoke(RELATED[0])
    wrapped = RSERetriever(
        base_retriever=retriever.vectorstore.as_retriever(search_kwargs={"k": 50}),  # type: ignore[union-attr]
        docstore=retriever.docstore,
    )
    with pytest.raises(ScoreFloorError, match="VectorStoreRetriever gives no scores"):
        wrapped.fit_score_floor()


def test_a_reranker_has_its_own_floor_and_gets_few_candidates(
    retriever: RSERetriever, caplog: pytest.LogCaptureFixture
) -> None:
    class OverlapReranker(BaseDocumentCompressor):
        """Scores the share of the query's words; notes how many Documents it gets."""

        given: list[int] = []  # noqa: RUF012 - pydantic copies it

        def compress_documents(
            self, documents: Sequence[Document], query: str, callbacks: Any = None
        ) -> list[Document]:
            del callbacks
            self.given.append(len(documents))
            words = set(query.lower().split())
            for document in documents:
                shared = words & set(document.page_content.lower().split())
                document.metadata["relevance_score"] = len(shared) / len(words)
            return sorted(documents, key=lambda each: -each.metadata["relevance_score"])

    reranking = retriever.model_copy(update={"reranker": OverlapReranker()})
    with caplog.at_level(logging.INFO, "langchain_rse"):
        found = reranking.fit_score_floor()
    assert "40 sentences; OverlapReranker reads up to 20" in caplog.records[0].getMessage()
    assert set(found_sizes := reranking.reranker.given) == {20}  # type: ignore[union-attr]
    assert len(found_sizes) == 80
    assert found.reranker == "OverlapReranker"
    assert found.word_bonus == 0
    # The search alone has no floor from that.
    assert retriever.invoke(UNRELATED[0])


@pytest.mark.parametrize("lost", [0, 1, -0.1])
def test_what_is_no_share(retriever: RSERetriever, lost: Any) -> None:
    with pytest.raises(ValueError, match="lost"):
        retriever.fit_score_floor(lost=lost)


def test_filters_hold(retriever: RSERetriever) -> None:
    search_kwargs = {"filter": lambda document: "string" in document.metadata["source"]}
    only = retriever.model_copy(update={"search_kwargs": search_kwargs})
    with pytest.raises(ValueError, match="filter"):
        only.fit_score_floor()


def test_sentences_with_half_an_emoji_are_asked() -> None:
    retriever = RSERetriever(
        vectorstore=InMemoryVectorStore(embeddings()), docstore=InMemoryStore()
    )
    text = topics["formatstrings"].replace(" the ", " the \ud83d ")
    retriever.add_documents([Document(text, id="formatstrings")])
    assert retriever.fit_score_floor().answered_count
