"""Queries that name documents, and documents that are relevant as a whole."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document

from langchain_rse.query.candidates import Candidate
from langchain_rse.query.naming import Named, named_documents
from tests.unit_tests import fakes
from tests.unit_tests.fakes import PLAIN, Way, lines, make_retriever

way = fakes.way

FILLER = "the parties agree to the terms of this agreement"


def candidates(names: Mapping[str, str], texts: Sequence[str] = [FILLER] * 5) -> list[Candidate]:
    """Chunks of documents, of which each has these texts, by what is in ``source``."""
    return [
        Candidate(Document(text, metadata={"source": source}), key, key, "", number)
        for key, source in names.items()
        for number, text in enumerate(texts)
    ]


def shortfalls(query: str, names: Mapping[str, str], texts: Sequence[str] = ()) -> dict[str, float]:
    some = candidates(names, texts or [FILLER] * 5)
    found = named_documents(query, some)
    return {c.key: value for c, value in zip(some, found.shortfall.tolist(), strict=True)}


NAMES = {
    "a": "deals/Acme_Holdings_2020.pdf",
    "b": "deals/Borealis.pdf",
    "c": "deals/Cygnus_2021.pdf",
}
# Of the 10 candidates of other documents, none has the word.
WEIGHT = math.log(11 / 0.5)


def test_a_named_document_by_hand() -> None:
    found = shortfalls("What does Borealis pay?", NAMES)
    assert found == pytest.approx({"a": WEIGHT, "b": 0.0, "c": WEIGHT})
    found = shortfalls("Who owns Acme Holdings?", NAMES)
    assert found == pytest.approx({"a": 0.0, "b": 2 * WEIGHT, "c": 2 * WEIGHT})


def test_the_words_that_name_leave_the_query() -> None:
    assert named_documents("Who owns Acme Holdings?", candidates(NAMES)).query == "Who owns ?"
    assert named_documents("Acme!", candidates(NAMES)).query == "Acme!"
    names = {"a": "\u5317\u4eac\u5927\u5b66", "b": "Borealis"}  # Peking University
    query = "\u5317\u4eac\u5927\u5b66\u7684\u5b66\u8d39"  # its fees
    assert named_documents(query, candidates(names)).query == "\u7684\u5b66\u8d39"
    assert named_documents("Who owns it?", candidates(NAMES)).query == "Who owns it?"


def test_documents_that_are_compared_do_not_compete() -> None:
    found = shortfalls("Does Acme Holdings pay more than Borealis?", NAMES)
    assert found == pytest.approx({"a": 0.0, "b": 0.0, "c": 2 * WEIGHT})


def test_more_of_a_name_names_better() -> None:
    reports = {"a": "Acme_2020.pdf", "b": "Acme_2021.pdf", "c": "Borealis_2021.pdf"}
    found = shortfalls("Sales of Acme in 2021", reports)
    assert found["b"] == 0.0
    # A word that one of two other names has says half as much, and a year alone nothing.
    assert found == pytest.approx({"a": WEIGHT / 2, "b": 0.0, "c": WEIGHT})


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("What happened in 2020?", NAMES),  # a number is no name
        ("Which terms hold?", {"a": "terms.txt", "b": "other.txt"}),  # others use the word
        ("the annual report", {"a": "report_a.txt", "b": "report_b.txt"}),  # shared by all
        ("Who owns Acme?", {"a": "", "b": ""}),
        ("Who owns Acme?", {"a": "acme.txt"}),  # there is no other
        ("", NAMES),
    ],
)
def test_what_names_nothing(query: str, names: Mapping[str, str]) -> None:
    assert set(shortfalls(query, names).values()) == {0.0}


@pytest.mark.parametrize(
    ("query", "source"),
    [
        ("capex of Activision Blizzard", "ACTIVISIONBLIZZARD_2019.txt"),
        ("FY2019 for 3M", "3M_2019.txt"),
        ("the policy of 23andMe", "https://example.com/23andMe.html?x=1"),
        ("Über die Größe", "GRÖSSE.md"),
    ],
)
def test_names_as_files_have_them(query: str, source: str) -> None:
    assert shortfalls(query, {"a": source, "b": "other.txt"})["b"] > 1


def test_a_title_goes_before_the_file() -> None:
    some = [
        Candidate(Document("x", metadata={"source": "borealis.pdf", **more}), key, key, "", 0)
        for key, more in (("a", {"title": "Acme"}), ("b", {}), ("c", {"title": "Cygnus"}))
    ]
    found = named_documents("Borealis", some).shortfall
    assert found.tolist() == pytest.approx([math.log(3 / 0.5), 0.0, math.log(3 / 0.5)])


WORDS = st.sampled_from(["acme", "borealis", "2020", "the", "terms", "3m"])


@given(
    st.lists(WORDS, max_size=5),
    st.lists(st.lists(WORDS, max_size=3), min_size=1, max_size=4),
    st.lists(st.lists(WORDS, max_size=4), min_size=1, max_size=3),
)
def test_some_document_is_named_best(
    query: list[str], names: list[list[str]], texts: list[list[str]]
) -> None:
    some = candidates(
        {str(n): "_".join(one) for n, one in enumerate(names)}, [" ".join(text) for text in texts]
    )
    found: Named = named_documents(" ".join(query), some)
    assert found.shortfall.shape == (len(some),)
    assert found.shortfall.min() == 0
    again = named_documents(" ".join(query), some[::-1])
    assert again.shortfall.tolist() == pytest.approx(found.shortfall[::-1].tolist())


# In the retriever


def relevances(retriever: object, way: Way, query: str, **settings: float) -> dict[str, float]:
    found = way.invoke(retriever, query, irrelevant_chunk_penalty=0.0, **settings)
    return {
        segment.metadata["doc_id"]: chunk["relevance"]
        for segment in found
        for chunk in segment.metadata["rse"]["chunks"][:1]
    }


def test_the_named_document_comes_first(way: Way) -> None:
    retriever = make_retriever({"acme": "some 10\n", "borealis": "more 0\n"})
    plain, named = math.cos(math.radians(10)), math.log(2 / 0.5)
    assert relevances(retriever, way, "acme 0") == pytest.approx({"acme": plain, "borealis": 1})
    found = relevances(retriever, way, "acme 0", name_weight=0.2)
    assert found == pytest.approx({"acme": plain, "borealis": math.exp(-0.2 * named)})
    assert next(iter(found)) == "acme"


def test_the_whole_document_by_hand(way: Way) -> None:
    texts = {
        "long": lines(0, 0, 0, 90, 90, 90, name="l"),
        "single": lines(60, 90, 90, 90, 90, name="s"),
        "short": lines(60, name="t"),
    }
    retriever = make_retriever(texts, config=PLAIN.replace(document_weight=1.0))
    found = relevances(retriever, way, fakes.QUERY)
    # Means of the five best: 0.6; 0.1; and 0.5 of the one chunk that there is.
    assert found == pytest.approx({"long": 1, "single": 0.5 / 6, "short": 0.5 * 5 / 6})


def test_the_document_of_the_best_candidate_counts_in_full(way: Way) -> None:
    texts = {"best": lines(0, *[90] * 5, name="b"), "other": lines(*[50] * 5, name="o")}
    retriever = make_retriever(texts, config=PLAIN.replace(document_weight=1.0))
    found = relevances(retriever, way, fakes.QUERY)
    assert found == pytest.approx({"best": 1, "other": math.cos(math.radians(50))})


def test_names_in_scripts_without_spaces() -> None:
    names = {
        "a": "\u5317\u4eac\u94f6\u884c.txt",
        "b": "\u4e0a\u6d77\u94f6\u884c.txt",
        "c": "other.txt",
    }
    some = candidates(names, ["\u5e74\u5ea6\u62a5\u544a"] * 5)
    found = named_documents(
        "\u5317\u4eac\u94f6\u884c\u7684\u5229\u6da6\u662f\u591a\u5c11\uff1f", some
    )
    shortfall = dict(zip([c.key for c in some], found.shortfall.tolist(), strict=True))
    assert shortfall["a"] == 0 < shortfall["b"] < shortfall["c"]
    assert "\u5317\u4eac" not in found.query
