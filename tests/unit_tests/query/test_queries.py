"""Several queries for one answer: what is asked, what comes back, and under which budget."""

from __future__ import annotations

import asyncio
import math
from threading import Barrier
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnableLambda
from langchain_core.vectorstores import InMemoryVectorStore
from pydantic import Field

from langchain_rse.config import PRESETS, Greedy, RSEConfig
from tests.unit_tests import fakes
from tests.unit_tests.engine.oracles import greedy_by_brute_force
from tests.unit_tests.fakes import (
    PLAIN,
    QUERY,
    Way,
    about,
    ask,
    chunks_in,
    lines,
    make_retriever,
    ranges,
    wrap,
)

way = fakes.way

BOTH = ["q 0", "q 90"]
SOLVER = Greedy(max_length=5, length_weighting="none", overall_max_length=4, minimum_value=0.0)
GREEDY = PLAIN.replace(solver=SOLVER, decay_rate=1e300)


# Joint


def test_joint_by_hand() -> None:
    # Cosines with "q 0": 1, 0.77, 0; with "q 90": 0, 0.64, 1. The best of both, less 0.5.
    retriever = make_retriever({"a": lines(0, 40, 90)})
    assert ranges(ask(retriever)) == [("a", 0, 2)]
    (passage,) = ask(retriever, queries=BOTH)
    assert passage.page_content == lines(0, 40, 90)
    cosine = math.cos(math.radians(40))
    worth = 5 * 0.5 + 6 * (cosine - 0.5) + 6 * 0.5
    assert passage.metadata["relevance_score"] == pytest.approx(worth / (17 / 3))
    chunks = passage.metadata["rse"]["chunks"]
    assert [chunk["query"] for chunk in chunks] == ["q 0", "q 0", "q 90"]
    assert [chunk["rank"] for chunk in chunks] == [0, 1, 0]
    assert [chunk["score"] for chunk in chunks] == about([1, cosine, 1])
    assert [chunk["relevance"] for chunk in chunks] == about([1, cosine, 1])


def test_the_best_chunk_of_each_query_comes_first() -> None:
    # Relevance 1, 1, 1 for the first query; 0.9 and 0.8 for the second.
    retriever = make_retriever({"a": lines(0, 1, 2), "b": lines(64, 53)}, order="relevance")

    def found(characters: int) -> list[tuple[str, int, int]]:
        return sorted(ranges(ask(retriever, queries=BOTH, max_context_length=characters)))

    assert found(5) == [("a", 0, 1)]
    assert found(11) == [("a", 0, 1), ("b", 0, 1)]
    assert found(16) == [("a", 0, 2), ("b", 0, 1)]
    assert found(21) == [("a", 0, 3), ("b", 0, 1)]
    assert found(27) == [("a", 0, 3), ("b", 0, 2)]
    # One that has no room leaves it to others, as does one that is not worth the penalty.
    retriever = make_retriever({"a": lines(0, 1, 2), "b": lines(64, name="a long name")})
    assert found(15) == [("a", 0, 3)]
    retriever = make_retriever({"a": lines(0, 1, 2), "b": lines(25)})
    assert found(15) == [("a", 0, 3)]


# The published solvers take turns


ANGLES = st.lists(st.integers(0, 120), min_size=1, max_size=12)


@given(
    ANGLES,
    st.lists(st.integers(0, 120).map("q {}".format), min_size=2, max_size=3, unique=True),
    st.fixed_dictionaries(
        {
            "max_length": st.integers(1, 5),
            "overall_max_length": st.integers(1, 9),
            "overall_max_length_extension": st.integers(0, 3),
        }
    ),
    st.sampled_from([0.0, 0.3, 0.6]),
)
def test_greedy_turns_are_as_published(
    angles: list[int], queries: list[str], limits: dict[str, Any], minimum_value: float
) -> None:
    solver = Greedy(length_weighting="none", minimum_value=minimum_value, **limits)
    config = GREEDY.replace(solver=solver)
    retriever = make_retriever({"a": lines(*angles)}, config=config)
    assert retriever.vectorstore is not None
    rows = []
    for query in queries:
        found = retriever.vectorstore.similarity_search_with_score(query, k=99)
        scores = {d.metadata["chunk_index"]: min(max(score, 0.0), 1.0) for d, score in found}
        rows.append([scores[chunk] - 0.5 for chunk in range(len(angles))])
    limits["overall_max_length"] += limits.pop("overall_max_length_extension") * (len(rows) - 1)
    expected = greedy_by_brute_force(rows, minimum_value=minimum_value, **limits)
    passages = retriever.invoke(QUERY, queries=queries)
    assert ranges(passages) == sorted(("a", start, end) for start, end, _ in expected)


# What holds of any
TEXTS = st.lists(ANGLES, min_size=1, max_size=4).map(
    lambda some: {f"d{n}": lines(*angles, name=f"n{n}-") for n, angles in enumerate(some)}
)
QUERIES = st.lists(st.integers(0, 120).map("q {}".format), min_size=1, max_size=4)


@given(
    TEXTS,
    st.sampled_from([PLAIN, PRESETS["balanced"]]),
    QUERIES.filter(lambda queries: len(set(queries)) > 1),
    st.integers(0, 80),
)
def test_the_best_chunk_of_each_query_is_in(
    texts: dict[str, str], config: RSEConfig, queries: list[str], room: int
) -> None:
    retriever = make_retriever(texts, config=config.replace(lexical_weight=0.0))
    assert retriever.vectorstore is not None
    best = {}
    for query in dict.fromkeys(queries):
        ((document, score),) = retriever.vectorstore.similarity_search_with_score(query, k=1)
        # By default, the best candidate of a query has a relevance of 1, whatever its score.
        if config is not PLAIN or score >= config.irrelevant_chunk_penalty:
            place = document.metadata["doc_id"], document.metadata["chunk_index"]
            best[place] = len(document.page_content)
    budget = sum(best.values()) + room
    found = retriever.invoke(QUERY, queries=queries, max_context_length=budget)
    assert best.keys() <= chunks_in(found).keys()


# What is asked


class Asked(BaseRetriever):
    """Notes what it is asked; all that ask wait until a number of them are there."""

    source: Any
    at_once: int
    queries: list[str] = Field(default_factory=list)
    barrier: Any = None

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        del run_manager
        self.barrier = self.barrier or Barrier(self.at_once)
        self.queries.append(query)
        self.barrier.wait(10)
        return self._found(query)

    async def _aget_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        del run_manager
        self.queries.append(query)
        for _ in range(1000):
            if len(self.queries) == self.at_once:
                return self._found(query)
            await asyncio.sleep(0.01)
        raise TimeoutError

    def _found(self, query: str) -> list[Document]:
        found: list[Document] = self.source.vectorstore.similarity_search(query, k=20)
        return found


@fakes.both_ways
def test_all_are_asked_at_once_and_instead_of_the_question(way: Way) -> None:
    source = make_retriever({"a": lines(0, 40, 90)})
    base = Asked(source=source, at_once=3, barrier=Barrier(3))
    retriever = wrap(source, base)
    assert way.invoke(retriever, QUERY, queries=[*BOTH, "q 45", " ", "q 0"])
    assert sorted(base.queries) == ["q 0", "q 45", "q 90"]


def by_last_word(documents: list[Document], query: str) -> list[Document]:
    """Keep what ends with a query's last word."""
    return [d for d in documents if d.page_content.split()[-1] == query.rsplit(maxsplit=1)[-1]]


def test_a_reranker_gets_each_query_with_its_candidates() -> None:
    reranker = fakes.Noting(choose=by_last_word)
    retriever = make_retriever(
        {"a": lines(0, 40, 90)}, reranker=reranker, candidates_only=True, passage_cost=0.0
    )
    found = ask(retriever, queries=[*BOTH, "q 7"], calibration="rank")
    assert sorted(reranker.queries) == ["q 0", "q 7", "q 90"]
    assert {place: c["query"] for place, c in chunks_in(found).items()} == {
        ("a", 0): "q 0",
        ("a", 2): "q 90",
    }
    assert ask(retriever, queries=["q 7", "q 8"]) == []


# Generated queries


@pytest.mark.parametrize("made", [[], [" ", "\n"]])
def test_no_generated_queries_leave_the_question(made: list[str]) -> None:
    retriever = make_retriever(
        {"a": lines(0, 40, 90)}, query_generator=RunnableLambda(lambda _: made)
    )
    with pytest.warns(UserWarning, match="returned no queries for 'query 0'") as caught:
        found = ask(retriever)
    assert [warning.filename for warning in caught] == [fakes.__file__]
    assert found == ask(retriever, query_generator=None)


class Runs(BaseCallbackHandler):
    """Notes the runs that have a parent."""

    def __init__(self) -> None:
        self.children: list[str] = []

    def on_chain_start(self, *_: Any, parent_run_id: Any = None, **kwargs: Any) -> None:
        if parent_run_id is not None:
            self.children.append(kwargs["name"])


@fakes.both_ways
def test_the_generator_is_a_child_of_the_run_and_asked_once(way: Way) -> None:
    """Also if a document is replaced meanwhile, so that all is searched again."""

    class Replacing(InMemoryVectorStore):
        searches = 0

        def similarity_search_with_score(self, query: str, k: int = 4, **kwargs: Any) -> Any:
            found = super().similarity_search_with_score(query, k, **kwargs)
            self.searches += 1
            if self.searches == 2:
                text = lines(0, 90, name="new")
                retriever.add_documents([Document(text, metadata={"source": "a"})], ids=["a"])
            return found

        async def asimilarity_search_with_score(self, *args: Any, **kwargs: Any) -> Any:
            return self.similarity_search_with_score(*args, **kwargs)

    made = iter([BOTH, ["q 200"]])
    asking: Runnable[str, list[str]] = RunnableLambda(lambda _: next(made), name="asking")
    store, runs = Replacing(fakes.Angles()), Runs()
    retriever = make_retriever(
        {"a": lines(0, 90)}, vectorstore=store, query_generator=asking, passage_cost=0.0
    )
    found = way.invoke(retriever, QUERY, {"callbacks": [runs]})
    assert [passage.page_content for passage in found] == [lines(0, 90, name="new")]
    assert store.searches == 4
    assert runs.children == ["asking"]
