"""Texts of documents cannot control the terminal that they are printed in."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from langchain_rse.cli import output
from langchain_rse.cli.knowledge_base import StoredSettings

HOSTILE = (
    "[red]markup[/red] \x1b[31mred \x1b]8;;http://x\x07link\x1b]52;c;aGk=\x07 \x9b2J \x90 "
    "\rover\b \x7f \u202eesrever \u2066 :smile: {0} %s"
)
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@pytest.fixture(params=["terminal", "pipe"])
def printed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """All that is printed, to a terminal without colors or to a pipe."""
    stream = io.StringIO()
    plain = Console(
        file=stream,
        force_terminal=request.param == "terminal",
        color_system=None,
        highlight=False,
        width=500,
    )
    monkeypatch.setattr(output, "console", plain)
    monkeypatch.setattr(output, "errors", plain)
    monkeypatch.setattr(output, "sys", SimpleNamespace(stdout=stream))
    return stream


def shown(printed: io.StringIO) -> str:
    # Of the sequences that rich itself writes, only styles such as bold.
    text = re.sub("\x1b\\[[0-9;]*m", "", printed.getvalue().replace("\x1b[31m", "\x1bBAD"))
    assert not UNSAFE.search(text), UNSAFE.search(text)
    assert "[red]markup[/red]" in text
    assert ":smile:" in text
    assert r"\x1b]52" in text
    return text


def test_parts_and_lines(printed: io.StringIO) -> None:
    output.print_parts(HOSTILE, (HOSTILE, output.visible_lines(HOSTILE)))
    output.print_text(f"{HOSTILE}\nforged", "bold")
    assert "\nforged" not in shown(printed)


def terminal(monkeypatch: pytest.MonkeyPatch, width: int) -> io.StringIO:
    stream = io.StringIO()
    narrow = Console(
        file=stream, force_terminal=True, color_system=None, highlight=False, width=width
    )
    monkeypatch.setattr(output, "console", narrow)
    return stream


def test_lines_end_with_words_in_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = terminal(monkeypatch, 20)
    path = "/a/path/that/is/longer/than/the/terminal.txt"
    output.print_text(
        f"  first line is long\nsee {path}, characters 0-9 日本語 日本語 日本語", lines=True
    )
    assert stream.getvalue().splitlines() == [
        "  first line is long",
        "see",
        f"{path},",
        "characters 0-9",
        "日本語 日本語 日本語",
    ]


def test_strips_in_streams_without_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    content = io.BytesIO()
    latin = io.TextIOWrapper(content, encoding="latin-1", errors="strict")
    monkeypatch.setattr(output, "console", Console(file=latin, highlight=False))
    monkeypatch.setattr(output, "sys", SimpleNamespace(stdout=latin))
    output.print_strip("found ", "·▁▄█·")
    latin.flush()
    assert content.getvalue() == b"found .-=#.\n"


def test_errors(printed: io.StringIO) -> None:
    output.print_error(f"{HOSTILE}\n  and a second line")
    assert "\n  and a second line" in shown(printed)


def test_json_has_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_json({HOSTILE: HOSTILE})
    text = capsys.readouterr().out
    assert not re.search("[\x00-\x09\x0b-\x1f\x80-\x9f]", text)
    assert json.loads(text) == {HOSTILE: HOSTILE}


@pytest.mark.parametrize(
    "content",
    [
        *("", "[]", "3", "null", "[" * 100_000, '{"embeddings": 3}', '{"embeddings": "a", "x": 1}'),
        *('{"embeddings": "a", "headers": "yes"}', "{}", "\0", '{"embeddings": ["os:abort"]}'),
    ],
    ids=range(11),
)
def test_unreadable_settings_of_a_knowledge_base(tmp_path: Path, content: str) -> None:
    (tmp_path / "settings.json").write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=r"no readable settings\.json"):
        StoredSettings.read(tmp_path)


def test_settings_of_a_knowledge_base_come_back(tmp_path: Path) -> None:
    stored = StoredSettings(embeddings="module:Class", headers=True)
    stored.write(tmp_path)
    assert StoredSettings.read(tmp_path) == stored
    earlier = '{"embeddings": "module:Class", "headers": true, "lexical": false}'
    (tmp_path / "settings.json").write_text(earlier, encoding="utf-8")
    assert StoredSettings.read(tmp_path) == stored
