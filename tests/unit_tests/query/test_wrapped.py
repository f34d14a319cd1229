"""Wrapped retrievers: few candidates do not go unnoticed, and what is no chunk is named."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from langchain_classic.retrievers import (
    ContextualCompressionRetriever,
    EnsembleRetriever,
    MergerRetriever,
    MultiQueryRetriever,
)
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_core.stores import InMemoryStore
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_rse import ExistingIndex, RSERetriever
from langchain_rse.errors import CandidateError
from tests.unit_tests import fakes
from tests.unit_tests.fakes import QUERY, FixedRetriever, ask, lines, make_retriever, ranges, wrap
from tests.unit_tests.query.test_filters import All, Plain


def chunks_of(source: RSERetriever) -> list[Document]:
    return list(source.indexer.chunks())


# Few candidates


class Limited(Plain):
    """As BM25Retriever: it returns its k best."""

    k: int = 4

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return super()._get_relevant_documents(query, run_manager=run_manager)[: self.k]


class TopN(Plain):
    top_n: int = 3

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return super()._get_relevant_documents(query, run_manager=run_manager)[: self.top_n]


@pytest.fixture
def long() -> RSERetriever:
    return make_retriever({"a": lines(*range(0, 60, 3))})


def by_vectors(source: RSERetriever, **kwargs: Any) -> BaseRetriever:
    assert source.vectorstore is not None
    return source.vectorstore.as_retriever(**kwargs)


OF_STORE = r"search_kwargs=\{'k': 200\} of VectorStoreRetriever"
OF_WORDS = "k=200 of Limited"


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (by_vectors, OF_STORE),
        (lambda source: by_vectors(source, search_type="mmr"), OF_STORE),
        (lambda source: Limited(documents=chunks_of(source)), OF_WORDS),
        (lambda source: TopN(documents=chunks_of(source)), "top_n=200 of TopN"),
        (
            lambda source: EnsembleRetriever(
                retrievers=[by_vectors(source), Limited(documents=chunks_of(source))],
                weights=[0.5, 0.5],
                id_key="chunk_id",
            ),
            f"{OF_STORE}.*{OF_WORDS}",
        ),
        (
            lambda source: MergerRetriever(
                retrievers=[by_vectors(source), by_vectors(source, search_type="mmr")]
            ),
            f"returned only 8 .*{OF_STORE}",
        ),
        (
            lambda source: ContextualCompressionRetriever(
                base_compressor=All(), base_retriever=by_vectors(source)
            ),
            OF_STORE,
        ),
        (
            lambda source: MultiQueryRetriever.from_llm(
                by_vectors(source), FakeListChatModel(responses=[QUERY] * 3)
            ),
            OF_STORE,
        ),
    ],
    ids=["store", "mmr", "words", "top_n", "ensemble", "merger", "compression", "multi query"],
)
def test_few_candidates_are_warned_of(long: RSERetriever, make: Any, said: str) -> None:
    retriever = wrap(long, make(long))
    with pytest.warns(UserWarning, match=rf"(?s){said}") as caught:
        assert ask(retriever)
    assert len(caught) == 1


@pytest.mark.parametrize(
    "make",
    [
        lambda source: by_vectors(source, search_kwargs={"k": 12}),
        lambda source: Limited(documents=chunks_of(source), k=12),
        # It finds less than it may return.
        lambda source: Limited(documents=chunks_of(source)[:3]),
        lambda source: FixedRetriever(documents=chunks_of(source)[:2]),
        lambda source: RunnableLambda(lambda _: chunks_of(source)[:4]),
        lambda source: EnsembleRetriever(
            retrievers=[
                Limited(documents=chunks_of(source)),
                by_vectors(source, search_kwargs={"k": 12}),
            ],
            weights=[0.5, 0.5],
            id_key="chunk_id",
        ),
    ],
    ids=["larger", "larger k", "fewer", "none", "runnable", "one is larger"],
)
def test_what_was_set_on_purpose_is_not_warned_of(long: RSERetriever, make: Any) -> None:
    assert ask(wrap(long, make(long)))


# Candidates that do not say which chunk they are


def test_a_retriever_over_chunks_of_ones_own(long: RSERetriever) -> None:
    """The documents are added already: the retriever has to be made from their chunks."""
    own_chunks = [Document("c0 0", metadata={"source": "a"})]
    with pytest.raises(CandidateError, match=r"candidate 0 .*doc_id=None") as raised:
        ask(wrap(long, own_chunks))
    message = str(raised.value)
    assert "BM25Retriever.from_documents(list(RSEIndexer(vectorstore, docstore).chunks()))" in (
        message
    )
    assert "or write documents with" not in message
    assert ask(wrap(long, chunks_of(long)))


# Passages as candidates and as documents


def test_a_passage_is_no_candidate(long: RSERetriever) -> None:
    said = "candidate 0 .* is a passage, not a chunk. Wrap a retriever that returns chunks"
    for on_missing in ("raise", "split"):
        with pytest.raises(CandidateError, match=said):
            ask(wrap(long, long, on_missing=on_missing))
    stored = InMemoryVectorStore(fakes.Angles())
    stored.add_documents(
        [Document(f"{s.page_content} 0", metadata=s.metadata) for s in long.invoke(QUERY)]
    )
    with pytest.raises(CandidateError, match=said):
        ask(RSERetriever(vectorstore=stored, docstore=long.docstore))


# Candidates that nothing is known of


def test_chunks_of_others_are_left_out_and_counted() -> None:
    source = make_retriever({"a": lines(0, 10)})
    assert source.vectorstore is not None
    source.vectorstore.add_documents(
        [Document("theirs 0", metadata={"source": "theirs"}), Document("more 1")]
    )
    with pytest.raises(CandidateError, match="on_missing='split'"):
        ask(source)
    with pytest.warns(
        UserWarning, match=r"(?s)^2 of 4 candidates are excluded.*adopt it again.*doc_id=None"
    ) as caught:
        (passage,) = ask(source, on_missing="split")
    assert len(caught) == 1
    assert ranges([passage]) == [("a", 0, 2)]
    assert [chunk["rank"] for chunk in passage.metadata["rse"]["chunks"]] == [0, 1]


def test_an_adopted_index_that_has_grown() -> None:
    store, docstore = InMemoryVectorStore(fakes.Angles()), InMemoryStore()
    index = ExistingIndex(doc_id_key="source", chunk_index_key="number", chunk_overlap=0)
    store.add_documents([Document("a 0", metadata={"source": "a", "number": 0})])
    RSERetriever.from_existing_index(store, docstore, index)
    store.add_documents([Document("b 1", metadata={"source": "b", "number": 0})])
    retriever = RSERetriever(
        vectorstore=store, docstore=docstore, on_missing="split", config=fakes.EVERYTHING
    )
    with pytest.warns(UserWarning, match="1 of 2 candidates are excluded"):
        assert ranges(ask(retriever)) == [("a", 0, 1)]
    RSERetriever.from_existing_index(store, docstore, index)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert sorted(ranges(ask(retriever))) == [("a", 0, 1), ("b", 0, 1)]
