"""Empty answers say why, in one log line; and a search that finds nothing at all is a warning."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.stores import InMemoryByteStore, InMemoryStore
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_rse import RSERetriever
from langchain_rse.errors import StoreMismatchError
from langchain_rse.query.candidates import Reason
from langchain_rse.stores.records import chunk_key, document_key
from tests.unit_tests import fakes
from tests.unit_tests.fakes import QUERY, FixedRetriever, Way, lines, make_retriever

way = fakes.way


class KeepsNone(BaseDocumentCompressor):
    """A filter that finds nothing relevant."""

    def compress_documents(self, documents: Any, query: str, callbacks: Any = None) -> Any:
        del documents, query, callbacks
        return []


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


def begin_of(reason: Reason) -> str:
    """The words of a reason before its first fact."""
    return reason.value.partition("{")[0]


def nothing(_: Document) -> bool:
    return False


def test_the_search_found_nothing(why: Any) -> None:
    retriever = make_retriever({})
    with pytest.warns(UserWarning, match="retriever has no documents with text: add some"):
        level, reason = why(retriever)
    assert level == "INFO"
    assert "InMemoryVectorStore" in reason
    base = FixedRetriever(documents=[])
    wrapped = RSERetriever(base_retriever=base, docstore=retriever.docstore, candidates_only=False)
    assert "FixedRetriever" in why(wrapped)[1]


def test_the_filter_excluded_everything(why: Any) -> None:
    retriever = make_retriever({"a": lines(0)})
    level, reason = why(retriever, filter=nothing)
    assert level == "INFO"
    assert "with filter=<function nothing" in reason


@pytest.mark.parametrize(
    ("condition", "note"),
    [
        ({"year": "2021"}, "; the field 'year' has values of type int"),
        ({"year": None}, "; the field 'year' has values of type int"),
        ({"year": {"$gte": "2021-01-01"}}, "; the field 'year' has values of type int"),
        ({"tags": {"$contains": 7}}, "; the field 'tags' has values of type str"),
        (
            {"$or": [{"day": 20210501}, {"draft": 0}]},
            "; the field 'day' has values of type str; the field 'draft' has values of type bool",
        ),
    ],
)
def test_a_filter_of_another_type(why: Any, condition: Any, note: str) -> None:
    retriever = make_retriever({})
    metadata = {"doc_id": "a", "year": 2021, "tags": ["x"], "draft": True, "day": "2021-05-01"}
    retriever.add_documents([Document(lines(0), metadata=metadata)])
    _, reason = why(retriever, filter=condition)
    assert reason == f"InMemoryVectorStore found nothing with filter={condition!r}{note}"


def test_a_filter_by_a_field_that_no_document_has() -> None:
    retriever = make_retriever({"a": lines(0), "b": lines(1)})
    retriever.add_documents([Document(lines(2), metadata={"source": "c", "secret": 1})])
    with pytest.warns(UserWarning, match="has the field 'sorce', all have source$"):
        assert not retriever.invoke(QUERY, filter={"sorce": "a"})


@pytest.mark.parametrize("docstore", [InMemoryStore, InMemoryByteStore])
@fakes.both_ways
def test_an_empty_vector_store_of_a_full_docstore_is_an_error(
    why: Any, way: Way, docstore: Any
) -> None:
    source = make_retriever({"a": lines(0)}, docstore=docstore())
    other = RSERetriever(vectorstore=InMemoryVectorStore(fakes.Angles()), docstore=source.docstore)
    with pytest.raises(StoreMismatchError, match="found nothing, but the docstore has documents"):
        way.invoke(other, QUERY)
    indexer = other.indexer
    way.call(lambda: indexer.check(repair=True), lambda: indexer.acheck(repair=True))
    assert len(way.invoke(other, QUERY)) == 1
    # Of a wrapped retriever it is not known what else it leaves out.
    wrapped = RSERetriever(
        base_retriever=FixedRetriever(documents=[]), candidates_only=False, docstore=source.docstore
    )
    assert why(wrapped)[0] == "INFO"
    way.delete(other, ["a"])
    with pytest.warns(UserWarning, match="no documents"):
        assert why(other)[0] == "INFO"


def test_the_reranker_kept_none(why: Any) -> None:
    level, reason = why(make_retriever({"a": lines(0, 1, 2)}, reranker=KeepsNone()))
    assert level == "INFO"
    assert reason == "the reranker dropped all of 3 candidates"


def test_all_candidates_are_stale(why: Any) -> None:
    retriever = make_retriever({"a": lines(0, 1)})
    old = list(retriever.indexer.chunks())
    retriever.add_documents([Document("new 0\n", metadata={"source": "a"})], ids=["a"])
    stale = RSERetriever(
        base_retriever=FixedRetriever(documents=old),
        candidates_only=False,
        docstore=retriever.docstore,
    )
    level, reason = why(stale)
    assert level == "WARNING"
    assert "2 candidates" in reason
    assert begin_of(Reason.STALE) in reason


@pytest.mark.parametrize("penalty", [0.0, 0.9])
def test_the_penalty(why: Any, penalty: float) -> None:
    angles = (60, 70) if penalty else (100, 120)  # nothing has any relevance
    level, reason = why(make_retriever({"a": lines(*angles)}, irrelevant_chunk_penalty=penalty))
    assert level == "INFO"
    assert "the best of 2 candidates" in reason
    assert f"irrelevant_chunk_penalty={penalty}" in reason


def test_the_score_floor(why: Any) -> None:
    level, reason = why(make_retriever({"a": lines(60, 70)}), score_floor=0.8)
    assert level == "INFO"
    assert reason == Reason.BELOW_THE_FLOOR.value.format(reach=0.5, floor=0.8, note="")


def test_nothing_fits(why: Any) -> None:
    retriever = make_retriever({"a": "long line 0\nline 1\nw 90\n"}, max_context_length=3)
    level, reason = why(retriever)
    assert level == "WARNING"
    assert "max_context_length=3" in reason
    level, reason = why(retriever, length_function=lambda text: len(text.encode()))
    assert level == "WARNING"
    assert "max_context_length=3" in reason


def test_the_docstore_lacks_the_chunks(why: Any) -> None:
    retriever = make_retriever({"a": lines(0)})
    (chunk,) = retriever.indexer.chunks()
    retriever.docstore.mdelete([chunk_key(document_key("a"), chunk.metadata["rse_version"], 0)])
    with pytest.warns(UserWarning, match="'a' are corrupt"):
        level, reason = why(retriever)
    assert level == "WARNING"
    assert begin_of(Reason.CORRUPT) in reason
