"""Documents that a query names."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_rse.text.names import Floats, named_documents, title_of_source
from langchain_rse.text.words import TextWords

FILLER = "the parties agree to the terms of this agreement"


def words_of(texts: Sequence[str]) -> tuple[TextWords, list[int]]:
    """The words of texts, and the number of each text."""
    words = TextWords(texts)
    return words, [words.numbers[text] for text in texts]


def named(
    query: str, sources: Mapping[str, str], texts: Sequence[str] = [FILLER] * 5
) -> tuple[Floats, str]:
    """What names say about the candidates of documents, of which each has these texts."""
    names = [title_of_source(source) for source in sources.values()]
    owners = [number for number in range(len(names)) for _ in texts]
    return named_documents(query, names, owners, *words_of([*texts] * len(names)))


def gaps(query: str, sources: Mapping[str, str]) -> dict[str, float]:
    """The gap of each document, which is the same for all of its candidates."""
    all_gaps, _ = named(query, sources)
    found = all_gaps.reshape(len(sources), 5)
    assert (found == found[:, :1]).all()
    return dict(zip(sources, found[:, 0].tolist(), strict=True))


NAMES = {
    "a": "deals/Acme_Holdings_2020.pdf",
    "b": "deals/Borealis.pdf",
    "c": "deals/Cygnus_2021.pdf",
}
# Of the 10 candidates of other documents, none has the word.
WEIGHT = math.log(11 / 0.5)


def test_a_named_document_by_hand() -> None:
    found = gaps("What does Borealis pay?", NAMES)
    assert found == pytest.approx({"a": WEIGHT, "b": 0.0, "c": WEIGHT})
    found = gaps("Who owns Acme Holdings?", NAMES)
    assert found == pytest.approx({"a": 0.0, "b": 2 * WEIGHT, "c": 2 * WEIGHT})


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
    assert set(gaps(query, names).values()) == {0.0}


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
    assert gaps(query, {"a": source, "b": "other.txt"})["b"] > 1


@pytest.mark.parametrize(
    ("query", "source", "text", "is_passed_over"),
    [
        # One word of a longer name is a word of the subject, too: other documents answer with it.
        ("What is the API rate limit?", "registry-web-api.html", "The API has a limit.", False),
        ("How do I wrap a socket?", "socket_server_howto.txt", "A socket is wrapped.", False),
        ("vacation days", "vacation_policy_archive.md", "20 vacation days", False),
        ("What is the API rate limit?", "registry-web-api.html", "The rate has a limit.", True),
        # The whole of a name, or more than one of its words, name the document.
        ("What does the GPL forbid?", "gpl.txt", "the GPL forbids", True),
        ("What does textwrap return?", "textwrap.html", "unlike textwrap", True),
        ("Who owns Acme Holdings?", "Acme_Holdings_2020.pdf", "Acme Holdings owns", True),
    ],
)
def test_words_of_longer_names_in_other_documents(
    query: str, source: str, text: str, *, is_passed_over: bool
) -> None:
    texts = words_of([FILLER] * 12 + [text])
    owners = [0] * 6 + [1] * 7
    found, _ = named_documents(query, [title_of_source(source), "other"], owners, *texts)
    assert found[0] == 0 < found[6]
    assert (found[-1] > 0) == is_passed_over


def test_names_in_scripts_without_spaces() -> None:
    sources = {
        "a": "\u5317\u4eac\u94f6\u884c.txt",
        "b": "\u4e0a\u6d77\u94f6\u884c.txt",
        "c": "other.txt",
    }
    query = "\u5317\u4eac\u94f6\u884c\u7684\u5229\u6da6\u662f\u591a\u5c11\uff1f"
    found, rest_of_query = named(query, sources, ["\u5e74\u5ea6\u62a5\u544a"] * 5)
    first, second, other = found[::5].tolist()
    assert first == 0 < second < other
    assert "\u5317\u4eac" not in rest_of_query


WORDS = st.sampled_from(["acme", "borealis", "2020", "the", "terms", "3m"])


@given(
    st.lists(WORDS, max_size=5),
    st.lists(st.lists(WORDS, max_size=3), min_size=1, max_size=4),
    st.lists(st.lists(WORDS, max_size=4), min_size=1, max_size=3),
)
def test_some_document_is_named_best(
    query: list[str], names: list[list[str]], texts: list[list[str]]
) -> None:
    names_of_documents = ["_".join(words) for words in names]
    owners = [number for number in range(len(names)) for _ in texts]
    all_texts = words_of([" ".join(words) for words in texts] * len(names))
    found, _ = named_documents(" ".join(query), names_of_documents, owners, *all_texts)
    assert found.shape == (len(owners),)
    assert found.min() == 0
    reversed_texts = words_of([" ".join(words) for words in texts[::-1]] * len(names))
    again, _ = named_documents(" ".join(query), names_of_documents, owners[::-1], *reversed_texts)
    assert again.tolist() == pytest.approx(found[::-1].tolist())
