"""Warnings cannot control the terminal that they are printed in, whatever they name."""

from __future__ import annotations

import pytest

from langchain_rse._messages import warn
from tests.unit_tests.cli.test_output import HOSTILE, UNSAFE


def test_a_warning_shows_control_characters_as_escapes() -> None:
    with pytest.warns(UserWarning, match="the document") as caught:
        warn(f"the document {HOSTILE} has no text")
    (warning,) = caught
    text = str(warning.message)
    assert not UNSAFE.search(text)
    assert r"\x1b]52" in text
    assert warning.filename == __file__
