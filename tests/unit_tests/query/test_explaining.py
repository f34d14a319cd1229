"""Empty answers say why, in one log line; and a search that finds nothing at all is a warning."""

from __future__ import annotations

import logging
import re
from typing import Any

import pytest
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.stores import InMemoryByteStore, InMemoryStore
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_rse import RSEConfig, RSERetriever
from langchain_rse.config import BestSegment, Greedy
from langchain_rse.errors import StoreMismatchError
from langchain_rse.stores.records import chunk_key, document_key
from tests.unit_tests import fakes
from tests.unit_tests.fakes import PLAIN, QUERY, FixedRetriever, Way, lines, make_retriever

way = fakes.way


class Keeping(BaseDocumentCompressor):
    """Keeps the first few, with scores of its own."""

    scores: list[float]

    def compress_documents(self, documents: Any, query: str, callbacks: Any = None) -> Any:
        del query, callbacks
        return [
            Document(d.page_content, metadata={**d.metadata, "relevance_score": score})
            for d, score in zip(documents, self.scores, strict=False)
        ]


@pytest.fixture
def why(way: Way, caplog: pytest.LogCaptureFixture) -> Any:
    """Asks, and returns the level and the text of the one line that is logged."""

    def ask(retriever: RSERetriever, **kwargs: Any) -> tuple[str, str]:
        caplog.clear()
        with caplog.at_level(logging.INFO, logger="langchain_rse"):
            assert way.invoke(retriever, QUERY, **kwargs) == []
        ((name, level, message),) = caplog.record_tuples
        assert name.startswith("langchain_rse.")
        before, reason = message.split(": ", maxsplit=1)
        assert before == "a query returned nothing"
        return logging.getLevelName(level), reason

    return ask


def nothing(_: Document) -> bool:
    return False


def test_the_search_found_nothing(why: Any) -> None:
    retriever = make_retriever({})
    assert why(retriever) == ("INFO", "InMemoryVectorStore found nothing")
    base = FixedRetriever(documents=[])
    wrapped = RSERetriever(base_retriever=base, docstore=retriever.docstore)
    assert why(wrapped) == ("INFO", "FixedRetriever found nothing")


def test_the_filter_let_nothing_through(why: Any) -> None:
    retriever = make_retriever({"a": lines(0)})
    level, reason = why(retriever, filter=nothing)
    assert level == "INFO"
    assert reason.startswith("InMemoryVectorStore found nothing with filter=<function nothing")
    base = RSERetriever(
        base_retriever=FixedRetriever(documents=[]),
        candidates_only=False,
        docstore=retriever.docstore,
    )
    assert why(base, filter={"page": 3}) == (
        "INFO",
        "FixedRetriever found nothing with filter={'page': 3}",
    )


def test_the_threshold_let_nothing_through(why: Any) -> None:
    class Threshold(InMemoryVectorStore):
        def similarity_search_with_relevance_scores(self, *_: Any, **__: Any) -> Any:
            return []

        async def asimilarity_search_with_relevance_scores(self, *_: Any, **__: Any) -> Any:
            return []

    retriever = make_retriever({"a": lines(0)}, vectorstore=Threshold(fakes.Angles()))
    assert why(retriever, search_kwargs={"score_threshold": 0.9}) == (
        "INFO",
        "Threshold found nothing with score_threshold=0.9",
    )


@pytest.mark.parametrize("docstore", [InMemoryStore, InMemoryByteStore])
@fakes.both_ways
def test_an_empty_vector_store_of_a_full_docstore_is_an_error(
    why: Any, way: Way, docstore: Any
) -> None:
    source = make_retriever({"a": lines(0)}, docstore=docstore())
    other = RSERetriever(vectorstore=InMemoryVectorStore(fakes.Angles()), docstore=source.docstore)
    with pytest.raises(StoreMismatchError, match="found nothing, but the docstore has documents"):
        way.invoke(other, QUERY)
    way.call(lambda: other.check(repair=True), lambda: other.acheck(repair=True))
    assert len(way.invoke(other, QUERY)) == 1
    # Of a wrapped retriever it is not known what else it leaves out.
    wrapped = RSERetriever(
        base_retriever=FixedRetriever(documents=[]), candidates_only=False, docstore=source.docstore
    )
    assert why(wrapped) == ("INFO", "FixedRetriever found nothing")
    way.delete(other, ["a"])
    assert why(other)[0] == "INFO"


def test_documents_without_text_are_not_missed(why: Any, caplog: pytest.LogCaptureFixture) -> None:
    retriever = make_retriever({"scanned": "  \n"})
    caplog.clear()
    assert why(retriever) == ("INFO", "InMemoryVectorStore found nothing")


def test_the_reranker_kept_none(why: Any) -> None:
    retriever = make_retriever({"a": lines(0, 1, 2)}, reranker=Keeping(scores=[]))
    assert why(retriever) == ("INFO", "Keeping kept none of 3 candidates")


def test_all_candidates_are_old(why: Any) -> None:
    retriever = make_retriever({"a": lines(0, 1)})
    old = list(retriever.chunks())
    retriever.add_documents([Document("new 0\n", metadata={"source": "a"})], ids=["a"])
    stale = RSERetriever(
        base_retriever=FixedRetriever(documents=old),
        candidates_only=False,
        docstore=retriever.docstore,
    )
    level, reason = why(stale)
    assert level == "WARNING"
    assert reason.startswith("all 2 candidates are of versions of documents that are no longer")


@fakes.both_ways
def test_all_documents_are_unknown(why: Any) -> None:
    source = make_retriever({"a": lines(0, 1)})
    other = RSERetriever(
        vectorstore=source.vectorstore, docstore=InMemoryStore(), on_missing="split"
    )
    with pytest.warns(UserWarning, match="2 of 2 candidates are left out"):
        level, reason = why(other)
    assert level == "WARNING"
    assert "or of documents that the docstore does not know" in reason


def test_all_candidates_are_of_others(why: Any) -> None:
    store = InMemoryVectorStore(fakes.Angles())
    store.add_documents([Document("theirs 0")])
    retriever = RSERetriever(vectorstore=store, docstore=InMemoryStore(), on_missing="split")
    with pytest.warns(UserWarning, match="1 of 1 candidates are left out"):
        level, reason = why(retriever)
    assert level == "WARNING"
    assert reason.startswith("none of 1 Documents of InMemoryVectorStore is a chunk in the")


def test_the_penalty(why: Any) -> None:
    retriever = make_retriever({"a": lines(60, 70)}, irrelevant_chunk_penalty=0.9)
    assert why(retriever) == (
        "INFO",
        "the best relevance of 2 candidates is 0.5, below irrelevant_chunk_penalty=0.9",
    )


def test_nothing_has_any_relevance(why: Any) -> None:
    retriever = make_retriever({"a": lines(100, 120)}, irrelevant_chunk_penalty=0.0)
    level, reason = why(retriever)
    assert level == "INFO"
    assert reason.startswith("the best relevance of 2 candidates is 0, below")


def test_what_fits_is_below_the_minimum_value(why: Any) -> None:
    """And what is worth it does not fit."""
    retriever = make_retriever({"a": lines(0, 0, 0)}, max_context_length=5, minimum_value=1.2)
    assert why(retriever) == (
        "INFO",
        "all segments are below minimum_value=1.2: the best chunk has 0.5",
    )


@pytest.mark.parametrize("solver", ["exact", Greedy(max_length=9), BestSegment(max_length=9)])
def test_min_relevance(why: Any, solver: Any) -> None:
    config = PLAIN.replace(solver=solver)
    retriever = make_retriever({"a": lines(0, 1)}, reranker=Keeping(scores=[0.4, 0.2]))
    retriever = retriever.model_copy(update={"config": config})
    assert why(retriever, min_relevance=0.6) == (
        "INFO",
        "all 2 candidates are below min_relevance=0.6: the best has 0.4",
    )


@pytest.mark.parametrize("solver", ["exact", Greedy(max_length=9), BestSegment(max_length=9)])
def test_minimum_value(why: Any, solver: Any) -> None:
    config = PLAIN.replace(
        solver=solver,
        minimum_value=3.0,
    )
    assert why(make_retriever({"a": lines(0)}, config=config)) == (
        "INFO",
        "all segments are below minimum_value=3: the best chunk has 0.5",
    )


def test_nothing_fits(why: Any) -> None:
    retriever = make_retriever({"a": "long line 0\nline 1\nw 90\n"}, max_context_length=6)
    level, reason = why(retriever)
    assert level == "WARNING"
    assert "fits max_context_length=6: the shortest has 7 characters. Make chunks smaller" in reason
    assert reason.endswith("; allow_trim=True returns a part")
    assert "allow_trim" not in why(retriever, allow_trim=True, max_context_length=1)[1]
    level, reason = why(retriever, length_function=lambda text: len(text.encode()))
    assert level == "WARNING"
    assert "max_context_length=6" in reason
    assert why(retriever, max_context_length=0)[0] == "INFO"


def test_the_docstore_lacks_the_chunks(why: Any) -> None:
    retriever = make_retriever({"a": lines(0)}, on_missing="split")
    (chunk,) = retriever.chunks()
    retriever.docstore.mdelete([chunk_key(document_key("a"), chunk.metadata["rse_version"], 0)])
    assert why(retriever) == (
        "WARNING",
        "the docstore lacks the chunks. Add their documents again",
    )


def test_an_answer_or_an_empty_query_says_nothing(
    way: Way, caplog: pytest.LogCaptureFixture
) -> None:
    retriever = make_retriever({"a": lines(0)})
    with caplog.at_level(logging.INFO, logger="langchain_rse"):
        assert way.invoke(retriever, QUERY)
        assert way.invoke(retriever, " ") == []
        assert way.invoke(make_retriever({}), "") == []
    assert caplog.messages == []


@pytest.mark.parametrize("config", ["balanced", "precision", "dsrag-balanced", RSEConfig()])
def test_with_any_config(why: Any, config: Any) -> None:
    retriever = make_retriever({"a": lines(0, 1, 2)}, config=config, minimum_value=1e9)
    level, reason = why(retriever)
    assert level == "INFO"
    assert re.search(r"minimum_value=1e\+09: the best chunk has [0-9.]+$", reason)
