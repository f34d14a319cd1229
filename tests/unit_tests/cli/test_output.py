"""Texts of documents cannot control the terminal that they are printed in."""

from __future__ import annotations

import io
import json
import re
from types import SimpleNamespace

import pytest
from rich.console import Console

from langchain_rse.cli import output

HOSTILE = (
    "[red]markup[/red] \x1b[31mred \x1b]8;;http://x\x07link\x1b]52;c;aGk=\x07 \x9b2J \x90 "
    "\rover\b \x7f \u202eesrever \u2066 :smile: {0} %s"
)
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def console(monkeypatch: pytest.MonkeyPatch, width: int, *, terminal: bool) -> io.StringIO:
    """All that is printed, to a terminal without colors or to a pipe."""
    stream = io.StringIO()
    plain = Console(
        file=stream,
        force_terminal=terminal,
        color_system=None,
        highlight=False,
        width=width,
        soft_wrap=True,
    )
    monkeypatch.setattr(output, "console", plain)
    monkeypatch.setattr(output, "errors", plain)
    return stream


@pytest.mark.parametrize("terminal", [True, False])
def test_texts_stay_texts(monkeypatch: pytest.MonkeyPatch, *, terminal: bool) -> None:
    stream = console(monkeypatch, 20, terminal=terminal)
    output.print_text(output.visible_lines(HOSTILE))
    output.print_text(f"{HOSTILE}\nforged", "bold")
    output.print_error(f"{HOSTILE}\n  and a second line")
    # Of the sequences that rich itself writes, only styles such as bold.
    text = re.sub("\x1b\\[[0-9;]*m", "", stream.getvalue().replace("\x1b[31m", "\x1bBAD"))
    assert not UNSAFE.search(text), UNSAFE.search(text)
    assert text.count("[red]markup[/red]") == text.count(":smile:") == 3
    assert r"\x1b]52" in text
    assert "\nforged" not in text
    assert "\n  and a second line" in text


def test_json_has_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_json({HOSTILE: HOSTILE})
    text = capsys.readouterr().out
    assert not re.search("[\x00-\x09\x0b-\x1f\x80-\x9f]", text)
    assert json.loads(text) == {HOSTILE: HOSTILE}


def test_the_command_is_shown_as_it_can_be_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output.shutil, "which", lambda name: f"/usr/bin/{name}")
    for called, shown in (
        ("/usr/bin/langchain-rse", "langchain-rse"),
        (".venv/bin/langchain-rse", ".venv/bin/langchain-rse"),
        ("/site-packages/langchain_rse/__main__.py", "python -m langchain_rse"),
    ):
        monkeypatch.setattr(output, "sys", SimpleNamespace(argv=[called]))
        assert output.command_line() == shown
