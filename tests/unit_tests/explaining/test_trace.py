"""What a trace can be turned into."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.documents import BaseDocumentCompressor, Document

from langchain_rse import RSEConfig, RSETrace, SQLDocStore
from tests.unit_tests.fakes import PLAIN, QUERY, lines, make_retriever


@pytest.fixture(scope="module")
def trace() -> RSETrace:
    texts = {"a": lines(0, 80, 10), "b \u202e<b>\x1b[31m 年次報告": lines(30, 85, name="d")}
    return make_retriever(texts).explain(QUERY)


def test_it_reads_like_an_explanation(trace: RSETrace) -> None:
    written = str(trace)
    summary = "3 segments of 5 candidates in 2 documents, 17 of 16,000 characters\n"
    assert written.startswith(f"Query: query 0\n{summary}")
    assert "a, chunk 0, characters 0 to 5, value 0.4" in written
    assert "     c0 0" in written
    assert "Left out, below the penalty: 2" in written
    last = max(trace.left_out, key=lambda pair: pair[1].rank or 0)[1]
    assert f"chunk {last.index} (rank 5, relevance " in written  # people count from 1
    assert "\x1b" not in written
    assert "\u202e" not in written


def test_runners_up_of_no_relevance_are_in_the_order_of_the_search() -> None:
    retriever = make_retriever({"a": lines(60, 5, 30)})
    trace = retriever.explain(QUERY, min_relevance=1.0)
    assert [chunk.rank for _, chunk in trace.left_out] == sorted(
        chunk.rank for _, chunk in trace.left_out if chunk.rank is not None
    )
    assert [chunk.index for _, chunk in trace.left_out] != [0, 1, 2]


def test_a_chunk_that_is_longer_than_the_budget_is_said_to_be() -> None:
    retriever = make_retriever({"a": lines(0, name="long" * 100), "b": lines(20), "c": lines(25)})
    trace = retriever.explain(QUERY, max_context_length=8)
    reasons = {document.doc_id: trace.why(document, chunk) for document, chunk in trace.left_out}
    assert reasons["a"].endswith(" characters: longer than the budget of 8")
    assert reasons["c"] == "chunks that are worth more come first and reach max_context_length=8"


def test_it_does_not_grow_with_the_answer() -> None:
    many = {f"{n} {'x' * 500}": lines(*range(0, 60, 2), name=f"n{n}") for n in range(30)}
    written = str(make_retriever(many, config=PLAIN).explain(QUERY * 100 + " 0"))
    assert len(written) < 6_000
    assert "  and 22 more\n" in written


def test_json(trace: RSETrace) -> None:
    assert RSETrace.from_json(trace.to_json()) == trace
    assert RSETrace.from_dict(json.loads(json.dumps(trace.to_dict()))) == trace
    surrogate = make_retriever({"a": lines(0)}).explain("\ud800 0")
    assert RSETrace.from_json(surrogate.to_json()) == surrogate


def test_the_agreed_shape(trace: RSETrace) -> None:
    values = trace.to_dict()
    assert list(values) == [
        *("query", "queries", "settings", "spent", "penalty", "steps", "documents", "segments"),
        *("reason", "full_text", "reached"),
    ]
    assert list(values["documents"][0]) == [
        *("doc_id", "source", "title", "length", "chunk_count", "reason", "chunks"),
    ]
    assert values["documents"][0]["chunks"][0]["outcome"] == "returned"
    assert values["settings"]["length_function"] == "len"
    assert values["settings"]["decay_rate"] == 1e9
    assert values["settings"]["max_context_length"] == 16_000
    assert values["spent"] == 17


@pytest.mark.parametrize("values", [{}, {"query": 1}, None, []])
def test_what_is_no_trace(values: Any) -> None:
    with pytest.raises(ValueError, match="validation error"):
        RSETrace.from_dict(values)
    with pytest.raises(ValueError, match="validation error"):
        RSETrace.from_json(json.dumps(values))


def test_a_table_has_a_row_for_each_chunk(trace: RSETrace) -> None:
    table = trace.to_pandas()
    assert len(table) == sum(len(document.chunks) for document in trace.documents) == 5
    assert table["outcome"].tolist().count("returned") == 3
    assert table["why"].str.contains("below irrelevant_chunk_penalty").sum() == 2


def test_what_is_missing_is_named(trace: RSETrace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "langchain_rse.explaining.plots", raising=False)
    with pytest.raises(ImportError, match=r"needs matplotlib: pip install 'langchain-rse\[plot\]'"):
        trace.plot()


def test_in_one_line(trace: RSETrace) -> None:
    assert repr(trace) == (
        "<RSETrace of 'query 0': 3 segments of 5 candidates in 2 documents, 17 of 16,000 "
        "characters>"
    )


def test_the_best_segment_in_a_sentence() -> None:
    texts = {"a": lines(20, 80, 5, 70, 10), "b": lines(88)}
    trace = make_retriever(texts, neighbor_credit=0.5).explain(QUERY)
    assert trace.headline == (
        "Mainly a, chunks 0 to 4: 5 chunks around the best one; 2 of them would not qualify alone"
    )
    assert f"{trace.headline}\n" in str(trace)
    assert make_retriever({"a": lines(5)}).explain(QUERY).headline == (
        "Mainly a, chunk 0: the best candidate"
    )
    assert make_retriever({"a": lines(5)}).explain("").headline == ""


def test_in_a_notebook(trace: RSETrace) -> None:
    shown = trace._repr_html_()
    assert shown.count("<details>") == 4  # three segments, and what was left out
    assert "<strong>query 0</strong>" in shown
    assert '<b style="left:0.00%;width:' in shown
    assert "c2 10" in shown


class Reversing(BaseDocumentCompressor):
    """A reranker that likes what the search liked least."""

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: object = None
    ) -> list[Document]:
        del query, callbacks
        reranked = []
        for number, document in enumerate(reversed(documents)):
            metadata = {**document.metadata, "relevance_score": 1 - number / len(documents)}
            reranked.append(Document(document.page_content, metadata=metadata))
        return reranked


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"hybrid": 0.4},
        {"reranker": Reversing()},
        {"reranker": Reversing(), "hybrid": 0.4, "rerank_weight": 0.5},
        {"queries": ["birds 0", "gulf 85"]},
        {"min_relevance": 0.9},
    ],
    ids=lambda settings: "+".join(settings) or "default",
)
def test_relevance_in_its_parts(settings: dict[str, Any]) -> None:
    """What the parts add is the relevance; words are those of the query that the chunk has."""
    words = {"birds of the north": [0, 80, 10], "gulf": [30, 85]}
    texts = {name: lines(*angles, name=name) for name, angles in words.items()}
    retriever = make_retriever(
        texts, docstore=SQLDocStore("sqlite://", lexical=True), document_weight=0.0
    )
    trace = retriever.explain("birds c 0", **settings)
    assert len(trace.candidates) == 5
    for _, chunk in trace.candidates:
        added = chunk.by_vectors + chunk.by_words + chunk.by_full_text + chunk.by_reranker
        assert added == pytest.approx(chunk.relevance, abs=1e-12)
        assert bool(chunk.by_reranker) <= ("reranker" in settings)
        assert bool(chunk.by_full_text) <= ("hybrid" in settings)
        assert chunk.text is not None
        assert set(chunk.matched_words) <= set(chunk.text.split())
        assert bool(chunk.by_words) <= bool(chunk.matched_words)


def test_the_parts_in_words() -> None:
    texts = {"a": lines(0, name="heron"), "b": lines(80, name="crane"), "c": lines(20, name="x")}
    trace = make_retriever(texts, config=RSEConfig()).explain("heron0 0")
    (found,) = [chunk for document, chunk in trace.candidates if document.doc_id == "a"]
    assert found.matched_words == ["heron0", "0"]
    # The best score counts 0.55; the words, 0.7 of the 0.45 that are missing.
    parts = "vectors 0.55, words 0.31 (heron0, 0), neighbors 0.11"
    assert f"relevance of chunk 0: 0.97 ({parts})" in str(trace)


def test_a_document_that_is_less_relevant_takes_relevance_from_its_chunks() -> None:
    texts = {"a": lines(*range(0, 50, 5)), "b": lines(10, 80)}
    trace = make_retriever(texts, config=RSEConfig()).explain(QUERY)
    (chunk,) = [
        chunk for document, chunk in trace.candidates if document.doc_id == "b" and chunk.index == 0
    ]
    assert chunk.relevance < chunk.by_vectors + chunk.by_words
