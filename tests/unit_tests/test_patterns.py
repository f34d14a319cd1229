"""Patterns: what they find, compared with Python's own expressions, and in how much time."""

from __future__ import annotations

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from langchain_rse.finding import MOST_OF_PATTERN, Pattern

ALPHABET = "abAB  \n\t\u2003éÉßẞİ\u017f\ud800"
SIMPLE = "abAB  \n\t\u2003éÉ\u017f\ud800"
TEXTS = st.text(alphabet=ALPHABET, max_size=40)


def simple_fold(text: str) -> str:
    """Case folding, one character at a time."""
    folded = ""
    for character in text:
        forms = [character.casefold(), character.lower(), character]
        folded += next(form for form in forms if len(form) == 1)
    return folded


def spans(pattern: Pattern, text: str) -> list[tuple[int, int]]:
    return list(pattern.find(text))


@given(literal=st.text(alphabet=SIMPLE, min_size=1, max_size=4), text=st.text(SIMPLE, max_size=40))
def test_a_literal_is_found_as_by_a_simple_expression(literal: str, text: str) -> None:
    assume(not literal.isspace())
    expected = re.compile(re.sub(r"(?:\\?\s)+", r"\\s+", re.escape(simple_fold(literal))))
    found = spans(Pattern(literal), text)
    assert found == [match.span() for match in expected.finditer(simple_fold(text))]


@pytest.mark.parametrize(
    ("literal", "text"),
    [
        ("office", "o\ufb03ce"),
        ("office", "of\ufb01ce"),
        ("office", "o\ufb00ice"),
        ("o\ufb03ce", "Office"),
        ("café", "cafe\u0301"),
        ("Cafe\u0301", "CAFÉ"),
        ("donaudampf", "Donau\u00addampf"),
        ("Donau\u00addampf", "DonauDampf"),
        ("don't", "don\u2019t"),
        ('"so"', "\u201cso\u201d"),
        ("1990-2000", "1990\u20132000"),
        ("1990\u20142000", "1990\u20102000"),
        ("abc 12", "\uff21\uff22\uff23 \uff11\uff12"),
        ("\uff21\uff22", "ab"),
        ("wait...", "Wait\u2026"),
        ("\u0451\u043b\u043a\u0430", "\u0415\u043b\u043a\u0430"),
        ("[x]^-", "[X]^\u2212"),
        ("strasse", "Straße"),
        ("\ufeff", "\ufeff"),
    ],
)
def test_a_literal_is_found_in_other_spellings(literal: str, text: str) -> None:
    before = "e\u0301\u00ad \ufb01 "
    assert spans(Pattern(literal), f"{before}{text}!") == [(len(before), len(before + text))]


@pytest.mark.parametrize(
    ("literal", "text"),
    [("cafe", "café"), ("cafe", "cafe\u0301"), ("a.b", "axb")],
)
def test_other_letters_are_not_found(literal: str, text: str) -> None:
    assert spans(Pattern(literal), text) == []


PIECES = ["a", "b", "é", ".", "a*", "(?:ab|b)", "[ab]+", "^", "$", "\n", r"\n", "(b+)?", "[^a]"]


@given(pieces=st.lists(st.sampled_from(PIECES), min_size=1, max_size=4), text=TEXTS)
def test_an_expression_finds_what_python_finds(pieces: list[str], text: str) -> None:
    text = text.replace("\ud800", "").replace("ß", "s").replace("ẞ", "s")
    python_pattern = re.compile("".join(pieces), re.MULTILINE | re.IGNORECASE)
    expected = [match.span() for match in python_pattern.finditer(text)]
    assume(all(start < end for start, end in expected))  # empty ones do not count
    assert spans(Pattern("".join(pieces), regex=True), text) == expected


def test_a_phrase_is_found_across_line_ends() -> None:
    text = "The  first\r\n\u2003 Part. the first part"
    assert spans(Pattern("the first\npart"), text) == [(0, 18), (20, 34)]
    assert spans(Pattern(" part"), text) == [(10, 18), (29, 34)]


@pytest.mark.parametrize(
    ("text", "regex", "message"),
    [
        ("", False, "at least one character"),
        (" \n", False, "at least one character that is not white space"),
        ("", True, "at least one character"),
        ("a" * (MOST_OF_PATTERN + 1), False, "at most 1,000 characters; got 1,001"),
        ("a)(", True, r"expression 'a\)\(' is wrong: unexpected \)"),
        ("(?=a)", True, r"is wrong: invalid perl operator: \(\?="),
        (r"(a)\1", True, r"is wrong: invalid escape sequence: \\1"),
        (r"\pL{900}", True, "is wrong: pattern too large"),
        (".{900}", True, "is too large: repeat less"),
    ],
)
def test_what_cannot_be_a_pattern(text: str, regex: bool, message: str) -> None:  # noqa: FBT001
    with pytest.raises(ValueError, match=message):
        Pattern(text, regex=regex)
