"""The command line, as somebody types it."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from pydoc_data.topics import topics

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    def call(*arguments: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "langchain_rse", *map(str, arguments)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=False,
        )

    return call


def pdf(path: Path, *pages: str) -> Path:
    """A small PDF by hand: one line of text a page."""
    objects = ["<< /Type /Catalog /Pages 2 0 R >>"]
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(len(pages)))
    objects += [
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, text in enumerate(pages):
        content = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET"
        box = f"/MediaBox [0 0 612 792] /Contents {5 + 2 * number} 0 R"
        objects += [
            f"<< /Type /Page /Parent 2 0 R {box} /Resources << /Font << /F1 3 0 R >> >> >>",
            f"<< /Length {len(content)} >>\nstream\n{content}\nendstream",
        ]
    body, places = "%PDF-1.4\n", []
    for number, item in enumerate(objects, 1):
        places.append(len(body))
        body += f"{number} 0 obj\n{item}\nendobj\n"
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    body += (
        f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}"
        f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{len(body)}\n%%EOF\n"
    )
    path.write_text(body, encoding="latin-1")
    return path


def test_demo_indexes_once_and_shows_both(run: Run) -> None:
    first = run("demo", "--full")
    assert first.returncode == 0, first.stderr
    assert f"{len(topics)} documents, {sum(map(len, topics.values())):,} characters" in first.stdout
    assert "Indexed" in first.stdout
    assert "100%" in first.stderr
    assert first.stdout.count("Question") == 3
    assert first.stdout.count("Plain retrieval") == 3
    assert first.stdout.count("RSE: the") == 3
    # Places, scores and the borders of chunks, and a line of the text itself.
    assert "formatstrings · characters" in first.stdout
    assert "rank 1 " in first.stdout
    assert "width           ::= digit+" in first.stdout or "width:" in first.stdout

    second = run("demo")
    assert second.returncode == 0, second.stderr
    assert "Already indexed" in second.stdout
    assert "more lines" in second.stdout


def test_index_and_query_files(run: Run, tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    (docs / "sub").mkdir(parents=True)
    (docs / "cats.txt").write_bytes(b"Cats sleep most of the day.\r\nA cat purrs.")
    (docs / "sub" / "dogs.md").write_text("# Dogs\n\nDogs bark at strangers.", encoding="utf-8")
    (docs / "ignored.bin").write_bytes(b"\0")
    pdf(docs / "birds.pdf", "Birds build nests in spring.", "Most birds can fly.")

    result = run("index", docs, "--kb", "kb")
    assert result.returncode == 0, result.stderr
    assert "Read 3 documents, embedded 3 new chunks into kb" in result.stdout
    again = run("index", docs, "--kb", "kb")
    assert "embedded 0 new chunks" in again.stdout

    answer = run("query", "when do birds build nests", "--kb", "kb", "--k", 1, "--json")
    assert answer.returncode == 0, answer.stderr
    (segment,) = json.loads(answer.stdout)
    assert segment["metadata"]["source"].endswith("birds.pdf")
    assert (segment["metadata"]["page_start"], segment["metadata"]["page_end"]) == (0, 1)
    assert "Birds build nests in spring." in segment["page_content"]

    shown = run("query", "do cats sleep", "--kb", "kb", "--k", 1)
    assert "cats.txt · characters 0-41" in shown.stdout
    assert "A cat purrs." in shown.stdout

    (docs / "cats.txt").write_text("Lions sleep too.", encoding="utf-8")
    assert "embedded 1 new chunks" in run("index", docs / "cats.txt", "--kb", "kb").stdout
    (segment, *_) = json.loads(run("query", "lions sleep", "--kb", "kb", "--json").stdout)
    assert segment["page_content"] == "Lions sleep too."


def test_unreadable_files_are_named_and_the_rest_is_indexed(run: Run, tmp_path: Path) -> None:
    (tmp_path / "good.txt").write_text("Cats sleep.", encoding="utf-8")
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9")
    (tmp_path / "broken.pdf").write_bytes(b"%PDF-1.4 and no more")
    (tmp_path / "binary.txt").write_bytes(b"a\0b")
    (tmp_path / "empty.md").write_bytes(b"")
    (tmp_path / "nothing").mkdir()
    result = run("index", tmp_path, tmp_path / "nothing", "missing.txt", "--kb", "kb")
    assert result.returncode == 1
    assert "embedded 1 new chunks" in result.stdout
    said = result.stderr.split("could not be read:")[1]
    for name, reason in {
        "latin.txt": "not UTF-8",
        "broken.pdf": "",
        "binary.txt": "not a text file",
        "empty.md": "no text",
        "nothing": "no files of a known kind",
        "missing.txt": "No such file",
    }.items():
        (line,) = (line for line in said.splitlines() if f"/{name}:" in line)
        assert reason in line
    assert "good.txt" not in said
    assert "Traceback" not in result.stderr


def test_query_without_a_knowledge_base(run: Run) -> None:
    result = run("query", "anything", "--kb", "kb")
    assert result.returncode == 2
    assert "python -m langchain_rse index" in result.stderr


def test_query_that_finds_nothing(run: Run, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text(" \n", encoding="utf-8")
    run("index", "empty.txt", "--kb", "kb")
    assert "Nothing relevant" in run("query", "anything", "--kb", "kb").stdout
    assert json.loads(run("query", "anything", "--kb", "kb", "--json").stdout) == []


@pytest.mark.parametrize("command", ["demo", "index", "query"])
def test_help(run: Run, command: str) -> None:
    result = run(command, "--help")
    assert result.returncode == 0
    assert "--kb" in result.stdout
