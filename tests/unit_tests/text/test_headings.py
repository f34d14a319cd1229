"""Headings at the end of a part of a text, and those of Markdown at its beginning.

How chunks end before headings is in ingest/test_headings.py.
"""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_rse.text import headings
from langchain_rse.text.headings import end_before_headings


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("Herons.\n\n# Carps\n", "Herons.\n\n"),
        ("Herons.\n\n# Fish\n\nCarps\n-----\n\n", "Herons.\n\n"),
        ("Herons.\n\n```\n# Carps\n```\n", "Herons.\n\n```\n# Carps\n```\n"),
        ("# Herons\n\nThey fish.", "# Herons\n\nThey fish."),
        ("Do this:\n\n1. Wait\n", "Do this:\n\n1. Wait\n"),
        ("# Herons\n", ""),
        ("", ""),
    ],
)
def test_headings_at_the_end_of_a_part_are_found(text: str, kept: str) -> None:
    assert text[: end_before_headings(text)] == kept


PIECES = [
    *("# Carps", "<h2>Carps</h2>", "Carps\n---", "Carps\n~~~~"),
    *("'''", "\n", "\r\n", "\n\n", " ", "\ufeff", "```", "---", "***", ">", "\x0c", "Herons fish."),
]


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_the_last_line_tells_whether_to_search_for_headings(text: str) -> None:
    found = end_before_headings(text)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(headings, "_MAY_END_HEADING", re.compile(""))
        assert found == end_before_headings(text)
