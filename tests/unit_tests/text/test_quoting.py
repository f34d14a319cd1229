"""Foreign text that is shown: safe in a terminal and a page, and short."""

from __future__ import annotations

import html

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from langchain_rse.text.quoting import (
    as_html,
    counted,
    encodable,
    first_few,
    format_range,
    one_line,
    visible,
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("herons\n", "herons\\n"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\u202eb\u2028", "a\\u202eb\\u2028"),
        ("\ud83d", "\\ud83d"),
        ("北京 é 😀", "北京 é 😀"),
    ],
)
def test_what_could_control_a_terminal_is_escaped(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_allowed_characters_are_kept() -> None:
    assert visible("a\tb\nc\r", "\t\n") == "a\tb\nc\\r"


@given(st.text())
def test_html_stays_text(text: str) -> None:
    shown = as_html(text, "\n")
    assert not set(shown) & set("<>\"'")
    assert html.unescape(shown) == visible(text, "\n")


@example("a\ud83d\ude00\ud83d\x00\ude00\ud83d")
@given(st.text(st.characters(exclude_categories=[])))
def test_any_text_becomes_encodable(text: str) -> None:
    found = encodable(text)
    found.encode()
    joined = text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    assert len(found) == len(joined)
    assert "\x00" not in found


def test_halves_of_characters_are_joined_or_replaced() -> None:
    assert encodable("\ud83d\ude00 \ud83d\x00") == "\U0001f600 \ufffd\ufffd"


@pytest.mark.parametrize(
    ("value", "line"),
    [
        (None, ""),
        (2020, "2020"),
        (" a\n\tb ", "a b"),
        ("herons", "herons"),
        ("herons fish", "herons ..."),
    ],
)
def test_a_value_in_one_line(value: object, line: str) -> None:
    assert one_line(value, 10) == line


@given(st.text(), st.integers(3, 20))
def test_a_line_is_no_longer_than_it_may_be(text: str, length: int) -> None:
    assert len(one_line(text, length)) <= length


def test_numbers_and_lists() -> None:
    assert counted(1, "chunk") == "1 chunk"
    assert counted(2000, "chunk") == "2,000 chunks"
    assert first_few("abc") == "a, b, c"
    assert first_few("abcdefg", 2) == "a, b and 5 more"


def test_ranges_have_one_format() -> None:
    assert format_range(4792, 5038) == "4,792\u20135,038"
    assert format_range(7, 7) == "7"
