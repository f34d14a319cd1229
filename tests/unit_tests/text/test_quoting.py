"""Foreign text that is shown: safe in a terminal and a page, and short."""

from __future__ import annotations

import html

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from langchain_rse.text.quoting import as_html, encodable, visible


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
