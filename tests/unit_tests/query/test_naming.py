"""Queries that name documents, and documents that are relevant as a whole.

How names are found is in text/test_names.py.
"""

from __future__ import annotations

import math

import pytest
from langchain_core.documents import Document

from langchain_rse.query.candidates import Candidate
from langchain_rse.query.naming import named_documents
from tests.unit_tests import fakes
from tests.unit_tests.fakes import PLAIN, Way, lines, make_retriever

way = fakes.way


def test_a_title_goes_before_the_file() -> None:
    some = [
        Candidate(Document("x", metadata={"source": "borealis.pdf", **more}), key, key, "", 0)
        for key, more in (("a", {"title": "Acme"}), ("b", {}), ("c", {"title": "Cygnus"}))
    ]
    found = named_documents("Borealis", some).name_gap
    assert found.tolist() == pytest.approx([math.log(3 / 0.5), 0.0, math.log(3 / 0.5)])


def relevances(retriever: object, query: str, **settings: float) -> dict[str, float]:
    found = ask(retriever, query, irrelevant_chunk_penalty=0.0, **settings)
    return {
        segment.metadata["doc_id"]: chunk["relevance"]
        for segment in found
        for chunk in segment.metadata["rse"]["chunks"][:1]
    }


def test_the_named_document_comes_first() -> None:
    retriever = make_retriever({"acme": "some 10\n", "borealis": "more 0\n"})
    plain, named = math.cos(math.radians(10)), math.log(2 / 0.5)
    assert relevances(retriever, way, "acme 0") == pytest.approx({"acme": plain, "borealis": 1})
    found = relevances(retriever, way, "acme 0", name_weight=0.2)
    assert found == pytest.approx({"acme": plain, "borealis": math.exp(-0.2 * named)})
    assert next(iter(found)) == "acme"


def test_the_whole_document_by_hand() -> None:
    texts = {
        "long": lines(0, 0, 0, 90, 90, 90, name="l"),
        "single": lines(60, 90, 90, 90, 90, name="s"),
        "short": lines(60, name="t"),
    }
    retriever = make_retriever(texts, config=PLAIN.replace(document_weight=1.0))
    found = relevances(retriever, way, fakes.QUERY)
    # Means of the five best: 0.6; 0.1; and 0.5 of the one chunk that there is.
    assert found == pytest.approx({"long": 1, "single": 0.5 / 6, "short": 0.5 * 5 / 6})


def test_the_document_of_the_best_candidate_counts_in_full() -> None:
    texts = {"best": lines(0, *[90] * 5, name="b"), "other": lines(*[50] * 5, name="o")}
    retriever = make_retriever(texts, config=PLAIN.replace(document_weight=1.0))
    found = relevances(retriever, way, fakes.QUERY)
    assert found == pytest.approx({"best": 1, "other": math.cos(math.radians(50))})
