"""The command line as a program: in a terminal, in a pipe, interrupted, and what it loads."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from langchain_rse.cli.app import app

# Makes root obey the rights of files, as other users do.
OBEY = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
PROGRAM = [sys.executable, "-m", "langchain_rse"]
LONG_LINE = "Cats sleep " + "and purr " * 20 + "most of the day."
SLOW = """
import pathlib, time
from langchain_core.embeddings import DeterministicFakeEmbedding

class Slow(DeterministicFakeEmbedding):
    size: int = 8

    def embed_documents(self, texts):
        if pathlib.Path("slow").exists() and pathlib.Path("started").exists():
            time.sleep(60)
        pathlib.Path("started").touch()
        return super().embed_documents(texts)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "cats.txt").write_text(LONG_LINE, encoding="utf-8")
    return tmp_path


def call(
    folder: Path, *arguments: str, program: Sequence[str] = PROGRAM
) -> subprocess.CompletedProcess[str]:
    command = [*program, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


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
    indexed = in_terminal(folder, "index", "docs", "--kb", "kb")
    assert "Indexing" in indexed  # the progress bar
    assert "Read 1 document" in indexed
    shown = in_terminal(folder, "query", "do cats sleep", "--kb", "kb")
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    lines = plain.replace("\r\n", "\n").split("\n")
    assert str(folder / "docs" / "cats.txt") in lines  # on a line of its own
    assert f"  found    {69 * '█'}" in lines
    assert f"  returned {69 * '█'}" in lines
    assert re.search(r"--- characters 0-\d+, value \d", plain)
    # The passage is whole, and its lines end with words.
    begin = next(number for number, line in enumerate(lines) if line.startswith("Cats sleep"))
    assert " ".join(lines[begin : begin + 3]) == LONG_LINE
    marked = re.findall(r"\x1b\[1;36m(\w+)", shown)
    assert {"Cats", "sleep"} <= set(marked)
    assert "purr" not in marked


def test_the_bar_says_how_much_is_left_from_the_first_file_on(folder: Path) -> None:
    (folder / "slow_model.py").write_text(SLOW, encoding="utf-8")
    (folder / "docs" / "cats.txt").unlink()
    for name in ("a", "b"):
        (folder / "docs" / f"{name}.txt").write_text(f"{name} word\n" * 150_000, encoding="utf-8")
    shown = in_terminal(folder, "index", "docs", "--kb", "kb", "--embeddings", "slow_model:Slow")
    states = [state for state in shown.split("\r") if "a.txt" in state]
    assert states
    # The percentage, and chunks so far of all chunks, time so far and time left.
    left = re.compile(r"Indexing: +(\d+)%\|.*\| (\d+)/(\d+) +\[\d\d:\d\d<[\d:?]+, .*a\.txt\]")
    matches = [match for state in states if (match := left.match(state))]
    assert len(matches) == len(states)
    assert any(0 < int(match[2]) < int(match[3]) for match in matches)
    assert "b.txt" in shown
    assert "embedded 2,632 new chunks" in shown


def test_a_pipe_gets_plain_text(folder: Path) -> None:
    indexed = call(folder, "index", "docs", "--kb", "kb")
    assert (indexed.returncode, indexed.stderr) == (0, "")
    assert indexed.stdout == (
        "Read 1 document, embedded 1 new chunk into kb\n"
        "Every question gets an answer, related or not, as there is too little text to fit a score "
        "floor: 1 chunk with 1 sentence of 6 words; at least 10 and 20 are needed\n"
    )
    shown = call(folder, "query", "do cats sleep", "--kb", "kb")
    assert shown.returncode == 0, shown.stderr
    assert LONG_LINE in shown.stdout  # on one line
    help_ = call(folder, "query", "--help")
    wrong = call(folder, "index", "none", "--kb", "x")
    for text in (shown.stdout, help_.stdout, wrong.stdout + wrong.stderr):
        assert text
        assert not re.search("[\x1b╭│─\r]", text)
        assert "Traceback" not in text


def test_a_stream_without_blocks_gets_strips_in_ascii(folder: Path) -> None:
    call(folder, "index", "docs", "--kb", "kb")
    for command in ("query", "compare"):
        program = ["env", "PYTHONIOENCODING=latin-1", *PROGRAM]
        shown = call(folder, command, "do cats sleep", "--kb", "kb", program=program).stdout
        assert "#####" in shown
        assert "\\u" not in shown


def test_every_command_writes_plain_text(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To what is no terminal; in this process, since each start takes a second."""
    monkeypatch.chdir(folder)

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(app, arguments)

    run("index", "docs", "--kb", "kb")
    for arguments in (
        *(("query", "do cats sleep"), ("query", "do cats sleep", "--hybrid", "0.2")),
        *(("inspect", "cats", "--chunk", "0"), ("inspect", "cats"), ("list",), ("stats",)),
    ):
        shown = run(*arguments, "--kb", "kb")
        assert shown.exit_code == 0, shown.stderr
        assert not re.search("[\x1b╭│─\r]", shown.stdout)
        if arguments[0] in {"query", "inspect"}:
            assert LONG_LINE in shown.stdout
    for arguments in (("--help",), ("query", "--help"), ("query",), ("index", "none", "--kb", "x")):
        shown = run(*arguments)
        assert not re.search("[\x1b╭│─]", shown.stdout + shown.stderr)
        assert "Traceback" not in shown.stderr


def test_a_reader_that_goes_away(folder: Path) -> None:
    call(folder, "index", "docs", "--kb", "kb")
    with subprocess.Popen(
        [*PROGRAM, "list", "--kb", "kb"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as listing:
        assert listing.stdout
        assert listing.stderr
        listing.stdout.close()
        assert "Traceback" not in listing.stderr.read()


def test_pages_come_first(folder: Path) -> None:
    from fpdf import FPDF

    pdf = FPDF()
    pdf.set_font("Helvetica", size=12)
    for page in range(1, 5):
        pdf.add_page()
        pdf.multi_cell(0, text=f"Page {page} of the report. " + "Steel was cheap. " * 60)
    pdf.output(str(folder / "report.pdf"))
    call(folder, "index", "report.pdf", "--kb", "kb")
    shown = call(folder, "query", "steel", "--kb", "kb", "--penalty", "0")
    assert f"\n{folder / 'report.pdf'}\n" in shown.stdout
    assert re.search(r"--- pages? \d(-\d)?, characters \d+-\d+, value \d", shown.stdout)


def test_an_interrupted_index_goes_on_where_it_stopped(folder: Path) -> None:
    (folder / "slow_model.py").write_text(SLOW, encoding="utf-8")
    (folder / "slow").touch()
    # Each is as much as is read ahead, so that the first is written before the second.
    for name in ("a", "b"):
        (folder / "docs" / f"{name}.txt").write_text(f"{name} word\n" * 180_000, encoding="utf-8")
    arguments = ["index", "docs", "--kb", "kb", "--embeddings", "slow_model:Slow"]
    with subprocess.Popen(
        [*PROGRAM, *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Shells start what runs in the background with interrupts ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    ) as indexing:
        deadline = time.monotonic() + 60
        while not (folder / "started").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(1)  # it is in the second call by now
        indexing.send_signal(signal.SIGINT)
        output, messages = indexing.communicate(timeout=60)
    assert indexing.returncode == 130
    assert output == ""
    assert messages == "Interrupted. The same command goes on where it stopped\n"

    (folder / "slow").unlink()
    again = call(folder, *arguments)
    assert again.returncode == 0, again.stderr
    assert "Read 3 documents" in again.stdout
    whole = call(folder, "list", "--kb", "kb")
    assert "unfinished" not in whole.stdout
    assert "1,260,000" in whole.stdout


@pytest.mark.skipif(bool(OBEY) and not shutil.which("setpriv"), reason="root may read everything")
def test_files_without_rights_are_named_and_the_rest_is_indexed(folder: Path) -> None:
    for name in ("secret.txt", "locked/inside.txt"):
        (folder / "docs" / name).parent.mkdir(exist_ok=True)
        (folder / "docs" / name).write_text("Nobody reads this.", encoding="utf-8")
    (folder / "docs" / "secret.txt").chmod(0)
    (folder / "docs" / "locked").chmod(0)
    try:
        result = call(
            folder, "index", "docs", "docs/secret.txt", "--kb", "kb", program=[*OBEY, *PROGRAM]
        )
    finally:
        (folder / "docs" / "locked").chmod(0o700)
    assert result.returncode == 1, result.stderr
    assert "Read 1 document" in result.stdout
    lines = result.stderr.splitlines()
    assert lines[0] == "2 could not be read:"
    assert sorted(line.rsplit("/", 1)[1] for line in lines[1:]) == [
        *("locked: Permission denied", "secret.txt: Permission denied")
    ]


def test_commands_without_a_model_load_none_and_no_vector_store(folder: Path) -> None:
    """Loading those takes longer than all else that such a command does."""
    call(folder, "index", "docs", "--kb", "kb")
    program = [sys.executable, "-X", "importtime", "-m", "langchain_rse"]
    for arguments in (["--help"], ["list", "--kb", "kb"], ["stats", "--kb", "kb"]):
        result = call(folder, *arguments, program=program)
        assert result.returncode == 0, result.stderr
        loaded = {line.rpartition("|")[2].strip() for line in result.stderr.splitlines()}
        assert "langchain_rse.cli.app" in loaded
        assert loaded.isdisjoint(
            {"chromadb", "langchain_chroma", "wordllama", "langchain_rse.retriever"}
        )
