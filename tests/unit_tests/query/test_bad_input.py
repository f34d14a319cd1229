"""What a user sees when a store, a retriever or a reranker returns what it should not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.runnables import RunnableLambda
from langchain_core.stores import InMemoryStore
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_rse import PRESETS, RSERetriever
from tests.unit_tests import fakes
from tests.unit_tests.fakes import (
    FixedRetriever,
    about,
    ask,
    chunks_in,
    lines,
    make_retriever,
    wrap,
)

way = fakes.way
QUERY = fakes.QUERY

NO_SCORES: list[list[Any]] = [
    [math.nan, math.nan, math.nan],
    [0.9, math.nan, 0.1],
    [math.inf, 0.5, 0.1],
    [0.9, 0.5, -math.inf],
    [None, None, None],
    [0.9, None, 0.1],
    ["0.9", "0.5", "0.1"],
    ["high", "high", "low"],
    [True, True, False],
    [[0.9], [0.5], [0.1]],
    [{"value": 0.9}] * 3,
    [0.1, 0.9, 0.5],
]


class Scored(InMemoryVectorStore):
    """Returns its chunks in their order, with the scores it is told."""

    scores: Sequence[Any] = ()

    def similarity_search_with_score(
        self, query: str, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, Any]]:
        del query, k, kwargs
        chunks = [
            Document(chunk["text"], id=chunk["id"], metadata=chunk["metadata"])
            for chunk in self.store.values()
        ]
        return list(zip(chunks, self.scores, strict=True))

    async def asimilarity_search_with_score(
        self, query: str, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, Any]]:
        return self.similarity_search_with_score(query, k, **kwargs)


class Returning(BaseDocumentCompressor):
    """Returns what a function makes of the documents."""

    function: Any

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Any = None
    ) -> Any:
        del query, callbacks
        return self.function(list(documents))


def scoring(scores: Sequence[Any]) -> Returning:
    def scored(documents: list[Document]) -> list[Document]:
        for document, score in zip(documents, scores, strict=True):
            document.metadata["relevance_score"] = score
        return documents

    return Returning(function=scored)


# Scores


@pytest.mark.parametrize("scores", NO_SCORES, ids=str)
@pytest.mark.parametrize("origin", ["store", "retriever", "reranker"])
def test_scores_that_mean_nothing_are_not_used(origin: str, scores: list[Any]) -> None:
    store = Scored(fakes.Angles())
    store.scores = scores
    source = make_retriever({"a": lines(0, 1, 2)}, vectorstore=store)
    if origin == "retriever":
        found = [document for document, _ in store.similarity_search_with_score(QUERY)]
        retriever = wrap(
            source, FixedRetriever(documents=scoring(scores).compress_documents(found, QUERY))
        )
    elif origin == "reranker":
        store.scores = [0.9, 0.5, 0.1]
        retriever = source.model_copy(update={"reranker": scoring(scores)})
    else:
        retriever = source
    for preset in (fakes.PLAIN, PRESETS["balanced"], PRESETS["dsrag-balanced"]):
        config = fakes.with_minimum(preset).replace(
            vector_weight=1.0, lexical_weight=0.0, rerank_weight=1.0
        )
        asked = retriever.model_copy(update={"config": config})
        (passage,) = ask(asked, irrelevant_chunk_penalty=0.1)
        relevances = [chunk["relevance"] for chunk in passage.metadata["rse"]["chunks"]]
        assert relevances == about([0.8 * math.exp(-rank / preset.decay_rate) for rank in range(3)])
        assert math.isfinite(passage.metadata["relevance_score"])


def test_rising_scores_of_a_store_are_distances() -> None:
    store = Scored(fakes.Angles())
    store.scores = [*np.float32([0.0, 0.25, 0.5])]  # as FAISS returns them
    source = make_retriever({"a": lines(0, 1, 2)}, vectorstore=store)
    chunks = chunks_in(ask(source, irrelevant_chunk_penalty=0.1))
    assert [chunks["a", index]["relevance"] for index in range(3)] == pytest.approx([1, 0.75, 0.5])


# Half an emoji in a query


@fakes.both_ways
def test_half_an_emoji_in_a_query_reaches_no_model(way: fakes.Way) -> None:
    half = "crane \ud83d"
    asked: list[str] = []

    def note(query: str) -> list[Document]:
        query.encode()
        asked.append(query)
        return [Document("a crane")]

    retriever = RSERetriever(
        vectorstore=InMemoryVectorStore(fakes.Strict()),
        docstore=InMemoryStore(),
        queries=None,
        query_generator=RunnableLambda(lambda question: [question, "heron \ud83d"]),
        reranker=Returning(function=list),
    )
    retriever.add_documents([Document("a crane dances", id="a"), Document("herons", id="b")])
    expected = way.invoke(retriever, half.replace("\ud83d", "\ufffd"))
    assert way.invoke(retriever, half) == expected != []
    trace = way.call(retriever.explain, retriever.aexplain, half)
    assert (trace.query, trace.queries) == ("crane \ufffd", ["crane \ufffd", "heron \ufffd"])
    beside = way.call(retriever.compare, retriever.acompare, half, RunnableLambda(note))
    assert (beside.query, asked) == ("crane \ufffd", ["crane \ufffd"])
    trace = way.call(
        retriever.explain, retriever.aexplain, "\ud83e\udda9", queries=["\ud83e\udda9"]
    )
    assert trace.queries == ["\U0001f9a9"]
