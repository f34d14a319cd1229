"""The views of a trace: text, JSON values, HTML."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from langchain_core.documents import BaseDocumentCompressor, Document

from langchain_rse import RSEConfig, RSETrace, SQLDocStore
from langchain_rse.query.candidates import Reason
from tests.unit_tests.fakes import QUERY, lines, make_retriever


@pytest.fixture(scope="module")
def trace() -> RSETrace:
    texts = {"a": lines(0, 80, 10), "b \u202e<b>\x1b[31m 年次報告": lines(30, 85, name="d")}
    return make_retriever(texts).explain(QUERY)


def test_it_reads_like_an_explanation() -> None:
    texts = {"a": lines(0, 80, 10, 30), "b": lines(30, 85, name="heron")}
    config = RSEConfig(irrelevant_chunk_penalty=0.3)
    retriever = make_retriever(texts, config=config, hybrid=0.0)
    written = str(retriever.explain("heron0 0", max_context_length=20))
    no_room = "max_context_length=20 has no room for it beside more valuable chunks"
    lines_of_text = written.splitlines()
    assert lines_of_text[:2] == [
        "Query: heron0 0",
        "1 passage from 6 candidates in 2 documents, 17 of 20 characters",
    ]
    for line in (
        "  1. a, chunks 0–2, characters 0–17, value 0.98 (chunks 1.03, passage cost -0.05)",
        "     c0 0 c1 80 c2 10",
        "Not returned (no room): 3 candidates",
        f"  b, chunk 0 (overall rank 2, relevance 0.73): {no_room}",
    ):
        assert line in lines_of_text
    assert "relevance 0.86 (vectors 0.55, words 0.31), 0.88 with neighbors; query words" in written
    assert ", cut to max_context_length=2" in str(
        retriever.explain("heron0 0", max_context_length=2)
    )
    assert "Best passage: a, chunks 0\u20132 (3 chunks around the best match" in written


@pytest.mark.parametrize("queries", [None, ["0", "80"], ["heron0 0", "c3 30", "c1 80"]])
def test_no_two_candidates_have_one_rank(queries: list[str] | None) -> None:
    texts = {"a": lines(0, 80, 10, 30), "b": lines(30, 85, name="heron")}
    retriever = make_retriever(texts, docstore=SQLDocStore("sqlite://"), fetch_k=3)
    written = str(retriever.explain("heron0 0", max_context_length=6, queries=queries))
    ranks = re.findall(r"\(overall rank (\d+)", written)
    assert len(ranks) == len(set(ranks)) > 1


def test_text_of_documents_cannot_control_a_terminal(trace: RSETrace) -> None:
    assert "年次報告" in str(trace)
    assert not set("\x1b\u202e") & set(f"{trace}{trace!r}")
    retriever = make_retriever({})
    retriever.add_documents([Document(lines(0), id="a", metadata={"source": "a\ud83d"})])
    half = retriever.explain(QUERY)
    assert "a\\ud83d" in str(half)
    for text in (str(half), half.to_html()):
        assert text.encode()


def test_values_that_json_has(trace: RSETrace) -> None:
    values = trace.to_dict()
    assert json.loads(json.dumps(values)) == values
    assert values["settings"]["length_function"] == "len"
    assert values["settings"]["irrelevant_chunk_penalty"] == 0.5
    assert values["spent"] == 17
    [first, *_] = values["documents"]
    outcomes = [chunk["outcome"] for chunk in first["chunks"]]
    assert outcomes == ["returned", "below the penalty", "returned"]
    best = first["chunks"][0]
    candidate = best["candidate"]
    assert candidate["hits"] == {"vectors": {"rank": 0, "score": pytest.approx(1.0)}}
    assert candidate["signals"]["vectors"] == pytest.approx(1.0)
    assert (best["start_index"], best["end_index"], candidate["text"]) == (0, 5, "c0 0\n")
    for passage in values["passages"]:
        assert passage["text"] in {"c0 0\n", "c2 10\n", "d0 30\n"}
    assert sorted(passage["number"] for passage in values["passages"]) == [1, 2, 3]


# What relevance is made of


class Reversing(BaseDocumentCompressor):
    """A reranker that reverses the order of the search."""

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
    ("settings", "names"),
    [
        ({"hybrid": 0.0}, {"vectors", "words"}),
        ({"hybrid": 0.4}, {"vectors", "words", "full text"}),
        ({"hybrid": 0.4, "reranker": Reversing()}, {"vectors", "reranker"}),  # 0 to what has words
        ({"queries": ["birds 0", "gulf 85"]}, {"vectors", "words", "full text"}),
    ],
    ids=["two witnesses", "three", "a reranker", "two queries"],
)
def test_evidence_adds_up_to_relevance(settings: Mapping[str, Any], names: set[str]) -> None:
    angles = {"birds of the north": [0, 80, 10], "gulf": [30, 85]}
    texts = {name: lines(*numbers, name=name) for name, numbers in angles.items()}
    config = RSEConfig(document_weight=0.0)
    docstore = SQLDocStore("sqlite://", lexical=True)
    trace = make_retriever(texts, docstore=docstore, config=config).explain("birds 0", **settings)
    chunks = [chunk for document in trace.to_dict()["documents"] for chunk in document["chunks"]]
    assert len(chunks) == 5
    with_evidence = set()
    for chunk in chunks:
        candidate = chunk["candidate"]
        signals = candidate["signals"]
        assert sum(signals.values()) == pytest.approx(chunk["relevance"], abs=1e-12)
        assert set(candidate["found_words"]) <= set(candidate["text"].split())
        with_evidence |= {name for name, number in signals.items() if number}
    assert with_evidence == names


# Reasons


def test_each_reason_has_a_sentence_for_each_chunk() -> None:
    trace = make_retriever({"a": lines(0)}).explain(QUERY)
    [chunk] = trace.chunks
    for reason in Reason:
        chunk = replace(chunk, outcome=reason, candidate=None)
        if not {"{reach", "{searcher", "{documents"} & set(re.findall(r"\{\w+", reason.value)):
            assert "{" not in trace.why(chunk)
