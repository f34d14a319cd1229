"""The views of a trace: text, JSON values, HTML."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from langchain_core.documents import BaseDocumentCompressor, Document

from langchain_rse import RSEConfig, RSETrace, SQLDocStore
from langchain_rse.explaining.text import relevance_parts
from langchain_rse.query import witnesses
from langchain_rse.query.candidates import Candidate, Reason
from tests.unit_tests.explaining.test_report import Page
from tests.unit_tests.fakes import PLAIN, QUERY, lines, make_retriever


@pytest.fixture(scope="module")
def trace() -> RSETrace:
    texts = {"a": lines(0, 80, 10), "b \u202e<b>\x1b[31m 年次報告": lines(30, 85, name="d")}
    return make_retriever(texts).explain(QUERY)


def test_it_reads_like_an_explanation() -> None:
    texts = {"a": lines(0, 80, 10, 30), "b": lines(30, 85, name="heron")}
    config = RSEConfig(irrelevant_chunk_penalty=0.3)
    retriever = make_retriever(texts, config=config, hybrid=0.0)
    written = str(retriever.explain("heron0 0", max_context_length=20))
    no_room = "more valuable chunks fill max_context_length=20"
    lines_of_text = written.splitlines()
    assert lines_of_text[:2] == [
        "Query: heron0 0",
        "1 passage from 6 candidates in 2 documents, 17 of 20 characters",
    ]
    for line in (
        "  1. a, chunks 0\u20132 (best: 0), characters 0\u201317, value 0.977",
        "     c0 0 c1 80 c2 10",
        "Not returned (no room): 3 candidates",
        f"  b, chunk 0 (search rank 4, relevance 0.73): {no_room}",
    ):
        assert line in lines_of_text
    assert "(vectors 0.55, words 0.31, neighbors 0.02); query words: 0" in written
    assert "Best passage: a, chunks 0\u20132 (3 chunks around the best match" in written
    assert "The budget was tight" in written


def test_text_of_documents_cannot_control_a_terminal(trace: RSETrace) -> None:
    assert "年次報告" in str(trace)
    assert not set("\x1b\u202e") & set(f"{trace}{trace!r}")
    retriever = make_retriever({})
    retriever.add_documents([Document(lines(0), id="a", metadata={"source": "a\ud83d"})])
    half = retriever.explain(QUERY)
    assert "a\\ud83d" in str(half)
    for text in (str(half), half.to_html()):
        assert text.encode()


def test_it_does_not_grow_with_the_answer() -> None:
    many = {f"{n} {'x' * 500}": lines(*range(0, 60, 2), name=f"n{n}") for n in range(30)}
    written = str(make_retriever(many, config=PLAIN).explain(QUERY * 100 + " 0"))
    assert len(written) < 7_000
    assert "  and 22 more\n" in written


def test_values_that_json_has(trace: RSETrace) -> None:
    values = trace.to_dict()
    assert json.loads(trace.to_json()) == json.loads(json.dumps(values)) == values
    assert values["settings"]["length_function"] == "len"
    assert values["settings"]["irrelevant_chunk_penalty"] == 0.5
    assert values["spent"] == 17
    [first, *_] = values["documents"]
    assert [chunk["outcome"] for chunk in first["chunks"]] == [
        *("returned", "below the penalty", "returned"),
    ]
    best = first["chunks"][0]
    candidate = best["candidate"]
    assert candidate["hits"] == {"vectors": {"rank": 0, "score": pytest.approx(1.0)}}
    assert candidate["signals"]["vectors"] == pytest.approx(1.0)
    assert (best["start_index"], best["end_index"], candidate["text"]) == (0, 5, "c0 0\n")
    for passage in values["passages"]:
        assert passage["text"] in {"c0 0\n", "c2 10\n", "d0 30\n"}
    assert sorted(passage["number"] for passage in values["passages"]) == [1, 2, 3]


def test_values_of_chunks_have_one_shape() -> None:
    trace = make_retriever({"a": lines(0, 90, 20)}, config=RSEConfig()).explain(QUERY, fetch_k=2)
    chunks = trace.to_dict()["documents"][0]["chunks"]
    assert len({tuple(chunk) for chunk in chunks}) == 1
    assert chunks[1]["candidate"] is None


def test_what_is_missing_is_named(trace: RSETrace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "langchain_rse.explaining.plots", raising=False)
    with pytest.raises(ImportError, match=r"needs matplotlib: pip install 'langchain-rse\[plot\]'"):
        trace.plot()


def test_in_one_line(trace: RSETrace) -> None:
    assert repr(trace).startswith("<RSETrace of 'query 0': 3 passages from 5 candidates")
    assert make_retriever({"a": lines(5)}).explain("").headline == ""


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
        (
            {"hybrid": 0.4, "reranker": Reversing()},
            {"vectors", "reranker"},
        ),  # it gives 0 to what has words
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


def test_a_new_witness_is_shown_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """One function and one line in `WITNESSES`: no other place names it."""

    def by_moon(query: Any) -> np.ndarray[Any, Any]:
        return np.full(len(query.candidates), 0.25)

    table = MappingProxyType({**witnesses.WITNESSES, "the moon": by_moon})
    monkeypatch.setattr(witnesses, "WITNESSES", table)
    trace = make_retriever({"a": lines(60, 80)}, irrelevant_chunk_penalty=0.3).explain(QUERY)

    signals = trace.to_dict()["documents"][0]["chunks"][0]["candidate"]["signals"]
    assert signals["the moon"] == pytest.approx(0.125)  # of what vectors leave
    assert "the moon 0.13" in str(trace)
    page = Page(trace.to_html())
    assert ["the moon", "0.13"] in page.data["documents"][0]["chunks"][0]["parts"]
    _, _, script = page.inside["script"]
    known = [name for name in witnesses.WITNESSES if f'"{name}"' in script]
    assert not known, "the page's script must not name witnesses"


# Reasons


def test_each_reason_has_a_sentence_for_each_chunk() -> None:
    trace = make_retriever({"a": lines(0)}).explain(QUERY)
    [chunk] = trace.chunks
    for reason in Reason:
        chunk = replace(chunk, outcome=reason, candidate=None)
        if not {"{reach", "{searcher", "{documents"} & set(re.findall(r"\{\w+", reason.value)):
            assert "{" not in trace.why(chunk)


def test_candidates_left_out_stand_by_the_reason_then_by_relevance() -> None:
    texts = {"a": lines(0, name="long" * 100), "b": lines(20), "c": lines(25), "d": lines(80)}
    trace = make_retriever(texts).explain(QUERY, max_context_length=8)
    reasons = [(document.doc_id, chunk.outcome) for document, chunk in trace.left_out]
    assert reasons == [
        *(("b", Reason.NO_ROOM), ("c", Reason.NO_ROOM)),
        *(("a", Reason.TOO_LONG), ("d", Reason.BELOW_THE_PENALTY)),
    ]
    for document, chunk in trace.left_out:
        candidate = chunk.candidate
        assert isinstance(candidate, Candidate)
        assert candidate.doc_id == document.doc_id
        assert trace.why(chunk) in str(trace)


def test_paths_are_short_but_tell_documents_apart() -> None:
    texts = {
        "/home/docs/birds/README.md": lines(0, 80, 10),
        "/home/docs/fish/README.md": lines(20, 85, name="d"),
        "/home/docs/copy.md": lines(0, 80, 10),
    }
    trace = make_retriever(texts).explain(QUERY)
    written = str(trace)
    original = "copy.md" if "Best passage: copy.md" in written else "birds/README.md"
    assert f"Best passage: {original}, chunk" in written
    assert f"'{original}' has the same text" in written
    assert ". fish/README.md, chunk 0, characters" in written
    assert "/home/docs" not in written
    documents = Page(trace.to_html()).data["documents"]
    paths = {document["name"]: document["path"] for document in documents}
    assert paths["fish/README.md"] == "/home/docs/fish/README.md"
    assert {document.name for document in trace.documents} == set(texts)


def test_printed_parts_add_up() -> None:
    texts = {"birds": lines(*range(0, 90, 7), name="birds"), "gulf": lines(10, 33, name="gulf")}
    retriever = make_retriever(texts, docstore=SQLDocStore("sqlite://", lexical=True))
    trace = retriever.explain("birds0 0", rse_config=RSEConfig(irrelevant_chunk_penalty=0.2))
    for chunk in trace.chunks:
        parts = dict(relevance_parts(chunk))
        parts.pop("names", None)
        if parts:
            total = sum(map(float, parts.values()))
            assert total == pytest.approx(float(f"{chunk.relevance:.2f}"), abs=0.001)
