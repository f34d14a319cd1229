"""Function words: what is left of a query is what it asks for."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_rse.text.words import find_words, function_words_of, without_function_words


@pytest.mark.parametrize(
    ("query", "content"),
    [
        ("How do I read a file?", ["read", "file"]),
        ("What is the difference between String and &str?", ["difference", "string", "str"]),
        ("What's Python's GIL?", ["python", "gil"]),
        ("Was ist der Unterschied zwischen Liste und Tupel?", ["unterschied", "liste", "tupel"]),
        ("Où se trouve l'aéroport de Lyon ?", ["trouve", "aéroport", "lyon"]),
        ("¿Cuándo se fundó la ciudad?", ["fundó", "ciudad"]),
        ("Когда был основан город?", ["основан", "город"]),
        ("भारत की राजधानी क्या है?", ["भारत", "राजधानी"]),
        ("ما هي عاصمة فرنسا؟", ["عاصمة", "فرنسا"]),
        ("worker_threads", ["worker", "threads"]),
    ],
)
def test_what_a_query_asks_for(query: str, content: list[str]) -> None:
    assert find_words(without_function_words(query)) == content


KEYWORDS = """
    war crimes tribunal|man page|die casting|die hard|vitamin D deficiency|Series A preferred stock
    Exhibit B|Exhibit A|T cell|B cells|Plan B|hepatitis C|Article I|Appendix S|car insurance
    con artist|end user license|door lock|con man|war and peace|will contest|can opener|may day
    state tax|sea level|sim card|ten commandments|alle man|van rental|till roll|mit license
    par value|pas de deux|son of Sam|children die in war|on sale bar|IT department|du Pont
    von Neumann machine|most favored nation|C library|door to door|size chart|mine safety
    die man war"""


@pytest.mark.parametrize("query", [each.strip() for each in re.split(r"[|\n]", KEYWORDS) if each])
def test_keywords_are_in_no_language(query: str) -> None:
    assert without_function_words(query) == query


@pytest.mark.parametrize(
    ("query", "content"),
    [
        ("What does vitamin D do?", ["vitamin", "d"]),
        ("What is the price of Series A shares?", ["price", "series", "a", "shares"]),
        ("what is in exhibit a", ["exhibit"]),
        ("What is a type I error?", ["type", "i", "error"]),
        ("A man and I, where are we?", ["man"]),
        ("How do T cells differ from B cells?", ["t", "cells", "differ", "b", "cells"]),
        ("Is C++ faster than C?", ["cpp", "faster", "c"]),
        ("who wrote Dracula", ["wrote", "dracula"]),
        ("history of the war in Rome", ["history", "war", "rome"]),
        ("Wann war der Krieg?", ["krieg"]),
        ("der Vertrag mit dem Mieter", ["vertrag", "mieter"]),
        ("Rome?", ["rome"]),
    ],
)
def test_questions_and_sentences_are_in_a_language(query: str, content: list[str]) -> None:
    assert find_words(without_function_words(query)) == content


@pytest.mark.parametrize("query", ["How do I?", "what is it", "the", "", "  ", "?!"])
def test_a_query_without_other_words_keeps_them(query: str) -> None:
    assert without_function_words(query) == query


def test_a_query_in_two_languages_loses_the_words_of_one() -> None:
    words = find_words(without_function_words("Was ist der Unterschied, or what is it?"))
    assert "unterschied" in words
    assert not {"was", "ist", "der"} <= set(words)


@pytest.mark.parametrize(
    ("query", "kept"),
    [
        ("What does `is` compare?", "is"),
        ('Why does "for" need a colon?', "for"),
        ("Why does \u201cfrom\u201d follow yield?", "from"),
        ("What does the WHO say about it?", "who"),
        ("Who pays for the IT department?", "it"),
    ],
)
def test_quoted_words_and_acronyms_are_meant(query: str, kept: str) -> None:
    assert kept in find_words(without_function_words(query))
    assert kept not in function_words_of(query)


@given(st.text(max_size=200))
def test_words_are_only_left_out(query: str) -> None:
    remaining = find_words(without_function_words(query))
    if find_words(query):
        assert remaining
    assert set(remaining) <= set(find_words(query))
