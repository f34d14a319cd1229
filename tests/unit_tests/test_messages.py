"""Warnings cannot control the terminal that they are printed in, whatever they name."""

from __future__ import annotations

import re

import pytest

from langchain_rse._messages import warn

HOSTILE = (
    "[red]markup[/red] \x1b[31mred \x1b]52;c;aGk=\x07 \x9b2J \rover\b \x7f \u202eesrever {0} %s"
)
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def test_a_warning_shows_control_characters_as_escapes() -> None:
    with pytest.warns(UserWarning, match="the document") as caught:
        warn(f"the document {HOSTILE} has no text")
    (warning,) = caught
    text = str(warning.message)
    assert not UNSAFE.search(text)
    assert r"\x1b]52" in text
    assert warning.filename == __file__
