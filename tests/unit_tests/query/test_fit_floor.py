"""`fit_score_floor`: finds the score below which the best candidate of a query is no answer."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pydoc_data.topics import topics
from typing import Any

import pytest
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.stores import InMemoryStore
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_rse import RSERetriever
from langchain_rse.embeddings import WordLlamaEmbeddings
from langchain_rse.errors import ScoreFloorError
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


def test_off_topic_questions_return_nothing(
    retriever: RSERetriever, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "langchain_rse"):
        found = retriever.fit_score_floor()
    assert "90 off-topic questions and 124 sentences" in caplog.records[0].getMessage()
    assert found.higher_is_better
    assert re.search(r"\d: rejects \d+% of 90 off-topic questions, .% of 124 s\w+>", repr(found))
    assert found.rejected_questions > 0.6
    assert found.rejected_sentences < 0.03
    for question in RELATED:
        assert retriever.invoke(question)
    for question in UNRELATED:
        assert retriever.invoke(question) == []


def test_too_little_text() -> None:
    empty = RSERetriever(vectorstore=InMemoryVectorStore(embeddings()), docstore=InMemoryStore())
    cats = Document("Cats sleep most of the day, and purr at night.", id="one")
    for few in (RSERetriever.from_documents([cats], embeddings()), empty):
        with pytest.raises(ScoreFloorError, match="too little text"):
            few.fit_score_floor()


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
    assert "40 off-topic questions and 40 sentences" in caplog.records[0].getMessage()
    assert set(found_sizes := reranking.reranker.given) == {20}  # type: ignore[union-attr]
    assert len(found_sizes) == 80
    assert found.scorer == "OverlapReranker"
    assert found.word_bonus == 0
    # The same questions are asked again.
    assert asyncio.run(reranking.afit_score_floor()) == found
    # The search alone has no floor from that.
    assert retriever.invoke(UNRELATED[0])
