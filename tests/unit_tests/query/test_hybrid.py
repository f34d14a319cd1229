"""Hybrid search: candidates of the docstore's full-text index beside those of the vectors."""

from __future__ import annotations

import asyncio
import itertools
import math
import threading
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda
from langchain_core.stores import InMemoryStore
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_rse import RSERetriever, SQLDocStore
from langchain_rse.errors import FullTextError
from langchain_rse.stores.conditions import fields_of, matches
from tests.unit_tests import fakes
from tests.unit_tests.fakes import about, ask, chunks_in

way = fakes.way
Way = fakes.Way

# Every chunk stands alone and is worth what it is relevant.
PLAIN = fakes.PLAIN.replace(decay_rate=10.0, irrelevant_chunk_penalty=0.0)


class Ranked(InMemoryVectorStore):
    """Similarity is the number in a chunk's text, and chunks without one are never found.

    It applies the filters that are understood.
    """

    def similarity_search_with_score(
        self,
        query: str,
        k: int = 4,
        filter: Any = None,  # noqa: A002 - as vector stores name it
        **_: Any,
    ) -> list[tuple[Document, float]]:
        del query
        found = []
        for record in self.store.values():
            numbers = [float(word) for word in record["text"].split() if word.startswith("0.")]
            document = Document(record["text"], metadata=record["metadata"], id=record["id"])
            if numbers and (fields_of(filter) is None or matches(filter, document.metadata)):
                found.append((document, numbers[0]))
        return sorted(found, key=lambda pair: -pair[1])[:k]

    async def asimilarity_search_with_score(
        self, query: str, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        return self.similarity_search_with_score(query, k, **kwargs)


def make(
    texts: Mapping[str, str], metadata: Mapping[str, Mapping[str, Any]] | None = None, **fields: Any
) -> RSERetriever:
    retriever = fakes.make_retriever(
        {},
        vectorstore=Ranked(fakes.BagOfWords()),
        **{
            "docstore": SQLDocStore("sqlite://", lexical=True),
            "config": PLAIN,
            "hybrid": 0.5,
            **fields,
        },
    )
    retriever.add_documents(
        [
            Document(text, metadata={"doc_id": name, **(metadata or {}).get(name, {})})
            for name, text in texts.items()
        ]
    )
    return retriever


TEXTS = {"d1": "first 0.8\nzulu zulu tango\nboth zulu here 0.6\nnothing\n", "d2": "other 0.5\n"}


def relevances(passages: Sequence[Document]) -> dict[tuple[str, int], float]:
    chunks = chunks_in(passages).items()
    return {place: chunk["relevance"] for place, chunk in chunks if "relevance" in chunk}


def test_the_mix_by_hand() -> None:
    fade = math.exp(-0.1)
    # By words, the best of two is 1 and the worst 0.
    dense = {("d1", 0): 0.8, ("d1", 2): 0.6 * fade, ("d2", 0): 0.5 * fade**2}
    retriever = make(TEXTS)
    for hybrid in (0.5, 0.3):
        found = relevances(ask(retriever, "Zulu", hybrid=hybrid))
        assert found == about({**dense, ("d1", 1): hybrid})


def test_repeated_words_saturate_in_a_part_of_the_score_of_the_index() -> None:
    """Of lines of four words, with 1, 2 and 4 times the word, the middle one is between."""
    retriever = make({"d1": "zulu a b c\nzulu zulu a b\nzulu zulu zulu zulu\n", "d2": "d e 0.5\n"})
    # BM25 of n times: n * (k1 + 1) / (n + k1), with k1 = 1.2 in SQLite and 0.3 among its hits.
    by_index = (2 * 2.2 / 3.2 - 1) / (4 * 2.2 / 5.2 - 1)
    saturated = (2 * 1.3 / 2.3 - 1) / (4 * 1.3 / 4.3 - 1)
    middle = (0.6 * by_index + 0.4 * saturated) * math.exp(-0.1)
    found = relevances(ask(retriever, "zulu", hybrid=0.5))
    assert found == about({("d1", 2): 0.5, ("d1", 1): 0.5 * middle, ("d2", 0): 0.5})


def test_vectors_the_index_and_words_are_independent_evidence() -> None:
    retriever = make({"d1": "zulu 0.5\nother 0.4\n"})
    other = 0.4 * math.exp(-0.1)
    without = relevances(ask(retriever, "zulu", hybrid=0.0, lexical_weight=0.6))
    assert without == about({("d1", 0): 1 - 0.5 * 0.4, ("d1", 1): other})
    # Beside the index, words among the candidates count half.
    found = relevances(ask(retriever, "zulu", hybrid=0.2, lexical_weight=0.6))
    assert found == about({("d1", 0): 1 - 0.5 * 0.8 * 0.7, ("d1", 1): other})


class Broken(SQLDocStore):
    """A docstore whose full-text index is damaged."""

    def lexical_search(self, *_: Any, **__: Any) -> Any:
        raise FullTextError("the full-text index is damaged")


OBSTACLES: dict[str, tuple[dict[str, Any], str]] = {
    "no index": ({"docstore": InMemoryStore()}, "needs a docstore with a full-text index"),
    "not wanted": ({"docstore": SQLDocStore("sqlite://", lexical=False)}, "needs a docstore"),
    "filter": ({"search_kwargs": {"filter": {"a": {"$like": 1}}}}, "needs filter to be a dict"),
    "argument": ({"search_kwargs": {"where_document": {"$contains": "x"}}}, "where_document"),
}


@pytest.mark.parametrize("name", OBSTACLES)
def test_by_default_the_trace_says_why_the_index_is_not_searched(name: str) -> None:
    fields, reason = OBSTACLES[name]
    retriever = make({"d1": "zulu 0.5\n"}, hybrid="auto", lexical_weight=0.6, **fields)
    with warnings.catch_warnings(record=True):  # of filters that are not understood
        warnings.simplefilter("always")
        trace = retriever.explain("zulu")
    assert reason in trace.full_text
    for candidate in itertools.chain(*trace.candidates.values()):
        assert candidate.signals["full text"] == 0


def test_a_damaged_index_is_said_and_the_search_goes_on() -> None:
    retriever = make(
        {"d1": "zulu 0.5\n"}, docstore=Broken("sqlite://"), hybrid="auto", lexical_weight=0.6
    )
    with pytest.warns(UserWarning, match=r"keyword search covers only .* index is damaged"):
        found = relevances(ask(retriever, "zulu"))
    # Words among the candidates count in full.
    assert found == about({("d1", 0): 1 - 0.5 * 0.4})
    with pytest.raises(FullTextError, match="damaged"):
        ask(retriever, "zulu", hybrid=0.5)


@fakes.both_ways
def test_both_sides_are_asked_at_once(way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    """The vector store in the caller's thread: some can be used in no other."""
    retriever = make(TEXTS)
    threads: list[int] = []
    meeting = threading.Barrier(2, timeout=20)

    def meeting_at(method: Any) -> Any:
        def meet(*args: Any, **kwargs: Any) -> Any:
            threads.append(threading.get_ident())
            meeting.wait()
            return method(*args, **kwargs)

        return meet

    async def search(*args: Any, **kwargs: Any) -> Any:
        await asyncio.to_thread(meeting.wait)
        return await asearch(*args, **kwargs)

    asearch = Ranked.asimilarity_search_with_score
    if way.is_async:
        monkeypatch.setattr(Ranked, "asimilarity_search_with_score", search)
    else:
        method = meeting_at(Ranked.similarity_search_with_score)
        monkeypatch.setattr(Ranked, "similarity_search_with_score", method)
    monkeypatch.setattr(SQLDocStore, "lexical_search", meeting_at(SQLDocStore.lexical_search))
    assert ("d1", 1) in relevances(way.invoke(retriever, "zulu"))
    if not way.is_async:
        assert threads.count(threading.get_ident()) == 1


# Filters

OWNERS = {"d1": {"owner": "x"}, "d2": {"owner": "y"}, "d3": {"owner": "y"}}
OWNED = {**TEXTS, "d3": "zulu secret\n"}


@pytest.mark.parametrize(
    "condition",
    [
        {"owner": "y"},
        {"owner": {"$ne": "x"}},
        {"owner": ["y", "z"]},
        {"$or": [{"owner": {"$gt": "x"}}, {"doc_id": "d2"}]},
    ],
    ids=str,
)
def test_a_filter_holds_for_both_sides(condition: dict[str, Any]) -> None:
    retriever = make(OWNED, OWNERS)
    found = ask(retriever, "zulu")
    assert {doc_id for doc_id, _ in relevances(found)} == {"d1", "d2", "d3"}
    found = ask(retriever, "zulu", filter=condition)
    assert {doc_id for doc_id, _ in relevances(found)} == {"d2", "d3"}
    fixed = make(OWNED, OWNERS, search_kwargs={"filter": condition})
    assert {doc_id for doc_id, _ in relevances(ask(fixed, "zulu"))} == {"d2", "d3"}


@pytest.mark.parametrize(
    "search_kwargs",
    [
        {"filter": lambda _: True},
        {"filter": {"page": {"$like": 1}}},
        {"only_public": True},
        {"filter": {"$or": [{"page": 1}, {"$not": {"page": 2}}]}},
        {"filter": "page > 1"},
        {"expr": "page > 1"},
        {"pre_filter": {"page": 1}},
        {"namespace": "mine"},
        {"odd": "1"},
    ],
)
def test_filters_that_could_let_chunks_through_are_refused(search_kwargs: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"hybrid=0.5.*hybrid=0"):
        make(TEXTS, search_kwargs=search_kwargs)
    with pytest.raises(ValueError, match=r"hybrid=0.3.*hybrid=0"):
        ask(make(TEXTS, hybrid=0.0), "zulu", search_kwargs=search_kwargs, hybrid=0.3)


# What it needs


def test_a_wrapped_retriever_may_filter_what_is_not_known() -> None:
    with pytest.raises(ValueError, match="needs vectorstore"):
        RSERetriever(
            base_retriever=RunnableLambda(lambda _: []),
            docstore=SQLDocStore("sqlite://", lexical=True),
            hybrid=0.3,
        )
