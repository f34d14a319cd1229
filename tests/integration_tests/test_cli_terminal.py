"""The command line as a program: in a terminal, in a pipe, interrupted, and what it loads."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from typer.testing import CliRunner

from langchain_rse.cli.app import app

PROGRAM = [sys.executable, "-m", "langchain_rse"]
LONG_LINE = "Cats sleep – " + "and purr " * 20 + "most of the day."


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a file that is in the knowledge base kb."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "cats.txt").write_text(LONG_LINE, encoding="utf-8")
    arguments = ["index", str(tmp_path / "docs"), "--kb", str(tmp_path / "kb")]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    return tmp_path


def in_terminal(folder: Path, *arguments: str) -> str:
    """What a command prints in a terminal of 80 columns, colors and all."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color"}
    environment.pop("NO_COLOR", None)
    with subprocess.Popen(
        [*PROGRAM, *arguments], cwd=folder, stdout=slave, stderr=slave, env=environment
    ):
        os.close(slave)
        parts = []
        while True:
            try:
                part = os.read(master, 65_536)
            except OSError:  # on Linux, the end
                break
            if not part:
                break
            parts.append(part)
    os.close(master)
    return b"".join(parts).decode()


def test_a_terminal_gets_colors_and_marked_words(folder: Path) -> None:
    shown = in_terminal(folder, "query", "do cats sleep", "--kb", "kb")
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    lines = plain.replace("\r\n", "\n").split("\n")
    assert lines[2:4] == [80 * "─", f"[1] cats.txt, characters 0–{len(LONG_LINE)}"]
    assert LONG_LINE in lines  # without line breaks, so that it can be copied
    marked = re.findall(r"\x1b\[1;36m(\w+)", shown)
    assert {"Cats", "sleep"} <= set(marked)
    assert "purr" not in marked
    compared = in_terminal(folder, "compare", "purr", "--kb", "kb").splitlines()
    assert max(map(len, compared)) <= 80


def test_a_reader_that_goes_away_and_what_a_list_loads(folder: Path) -> None:
    """Loading a model or a vector store takes longer than all else that a list does."""
    program = [sys.executable, "-X", "importtime", "-m", "langchain_rse"]
    with subprocess.Popen(
        [*program, "list", "--kb", "kb"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as listing:
        assert listing.stdout
        assert listing.stderr
        listing.stdout.close()
        messages = listing.stderr.read()
    assert "Traceback" not in messages
    loaded = {line.rpartition("|")[2].strip() for line in messages.splitlines()}
    assert "langchain_rse.cli.app" in loaded
    slow = {"chromadb", "langchain_chroma", "wordllama", "langchain_rse.retriever", "pypdfium2"}
    assert loaded.isdisjoint(slow)
