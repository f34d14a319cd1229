"""The score floor of a query: what is refused, and how that is said."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.stores import InMemoryStore
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_rse import RSERetriever, SQLDocStore
from langchain_rse.query.floor import FittedFloor, write_floor
from langchain_rse.stores.json import as_docstore
from tests.unit_tests import fakes
from tests.unit_tests.fakes import QUERY, lines, make_retriever, wrap

way = fakes.way
Way = fakes.Way

# The best candidate is at 60 degrees, which is a cosine of 0.5.
TEXTS = {"a": lines(60, 80, 90), "b": lines(70, 85)}


def floor_of(floor: float, **fields: Any) -> FittedFloor:
    """A floor for the vectors of `make_retriever`."""
    values: dict[str, Any] = {
        "scorer": "InMemoryVectorStore",
        "floor": floor,
        "word_bonus": 0.0,
        "higher_is_better": True,
        "questions": 90,
        "sentences": 50,
        "chunks": 5,
    }
    return FittedFloor(**{**values, **fields})


def keep(retriever: RSERetriever, floor: FittedFloor) -> None:
    """Write a floor to the docstore as `fit_score_floor` does."""
    name = "InMemoryVectorStore"
    if floor.scorer != name:
        name += f" {floor.scorer}"
    write_floor(retriever.docstore, name, floor)


# A number


@fakes.both_ways
def test_a_number_that_the_best_candidate_reaches_or_not(
    way: Way, caplog: pytest.LogCaptureFixture
) -> None:
    retriever = make_retriever(TEXTS)
    assert way.invoke(retriever, QUERY, score_floor=0.49)
    with caplog.at_level(logging.INFO, "langchain_rse"):
        assert way.invoke(retriever, QUERY, score_floor=0.51) == []
    [record] = caplog.records
    assert "0.51" in record.getMessage()


def test_scores_that_tell_nothing_refuse_nothing() -> None:
    retriever = make_retriever(TEXTS)
    wrapped = wrap(retriever, list(retriever.indexer.chunks()), config=fakes.EVERYTHING)
    with pytest.warns(UserWarning, match=r"score_floor=0\.3 has no effect"):
        assert wrapped.invoke(QUERY, score_floor=0.3)
    alike = make_retriever({"a": lines(60)})
    with pytest.warns(UserWarning, match="unknown whether higher or lower scores are better"):
        assert alike.invoke(QUERY, score_floor=0.9)


# A fitted floor


@fakes.both_ways
def test_the_fitted_floor_is_the_default(way: Way) -> None:
    retriever = make_retriever(TEXTS)
    assert way.invoke(retriever, QUERY)
    keep(retriever, floor_of(0.51))
    assert way.invoke(retriever, QUERY) == []
    assert way.invoke(retriever, QUERY, score_floor=None)
    keep(retriever, floor_of(0.49))
    assert way.invoke(retriever, QUERY)


@pytest.mark.parametrize(
    ("query", "is_answered"),
    [
        ("What is the ERR4432 of 0", True),  # all but the function words
        ("ERR4432 zulu 0", False),
        ("zulu 0", False),
    ],
)
def test_the_floor_hears_the_full_text_index(query: str, *, is_answered: bool) -> None:
    texts = {"a": "ERR4432 0 85\nc 60\n", "b": lines(70, 75)}
    retriever = make_retriever(texts, docstore=SQLDocStore("sqlite://"), fetch_k=2)
    keep(retriever, floor_of(0.9, word_bonus=0.5))
    assert bool(retriever.invoke(query, hybrid=0.5)) == is_answered
    assert retriever.invoke(query, hybrid=0.0) == []  # the vectors do not find that chunk
    assert retriever.invoke(query, hybrid=0.5, score_floor=0.9) == []


class Reranker(BaseDocumentCompressor):
    """Keeps all Documents in their order, with falling scores."""

    model: str = "small"

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Any = None
    ) -> list[Document]:
        del query, callbacks
        for number, document in enumerate(documents):
            document.metadata["relevance_score"] = 0.4 - number / 100
        return list(documents)


def test_each_reranker_and_model_has_its_own_floor() -> None:
    retriever = make_retriever(TEXTS, reranker=Reranker(), config=fakes.EVERYTHING)
    keep(retriever, floor_of(0.9))
    assert retriever.invoke(QUERY)
    keep(retriever, floor_of(0.5, scorer="Reranker small"))
    assert retriever.invoke(QUERY) == []
    keep(retriever, floor_of(0.3, scorer="Reranker small"))
    assert retriever.invoke(QUERY)


def test_a_floor_of_another_model_or_store_is_void() -> None:
    retriever = make_retriever(TEXTS)
    keep(retriever, floor_of(0.9, model="another"))
    with pytest.warns(UserWarning, match="fitted for another"):
        assert retriever.invoke(QUERY)
    keep(retriever, floor_of(0.9, store="Chroma 'other'"))
    with pytest.warns(UserWarning, match="fitted for another"):
        assert retriever.invoke(QUERY)


def test_namespaces_have_floors_of_their_own() -> None:
    docstore = as_docstore(InMemoryStore())
    store = InMemoryVectorStore(fakes.Angles())
    one = make_retriever(TEXTS, docstore=docstore, vectorstore=store, namespace="one")
    two = make_retriever(TEXTS, docstore=docstore, vectorstore=store, namespace="two")
    keep(one, floor_of(0.9))
    assert one.invoke(QUERY) == []
    assert two.invoke(QUERY)
