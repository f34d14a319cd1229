"""The commands of the command line, called in this process."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from langchain_rse.cli.app import app

Run = Callable[..., Result]


def call(*arguments: object) -> Result:
    return CliRunner().invoke(app, list(map(str, arguments)), catch_exceptions=False)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Calls a command in an empty folder."""
    monkeypatch.chdir(tmp_path)
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
    body = "%PDF-1.4\n"
    offsets = []
    for number, item in enumerate(objects, 1):
        offsets.append(len(body))
        body += f"{number} 0 obj\n{item}\nendobj\n"
    table = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    body += (
        f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}"
        f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{len(body)}\n%%EOF\n"
    )
    path.write_text(body, encoding="latin-1")
    return path


def test_demo_indexes_once_and_shows_both(run: Run) -> None:
    first = run("demo")
    assert first.exit_code == 0, first.stderr
    texts = set(topics.values())
    assert f"The Python reference, {sum(map(len, texts)):,} characters, indexed in" in first.stdout
    assert first.stderr == ""  # progress bars are for terminals
    lines = first.stdout.splitlines()
    assert len(lines) < 25
    assert max(map(len, lines)) <= 80
    # Both sides have strips, and the answer has text that the chunks lack.
    assert "specialnames     top-k chunks ···" in first.stdout
    assert sum(line.startswith("+ ") for line in lines) >= 5
    assert lines.count("  ...") == 2  # the passage goes on, before and after
    assert lines[-1].endswith("compare QUESTION --kb my-kb")

    second = run("demo", "--full")
    assert second.exit_code == 0, second.stderr
    assert "already indexed" in second.stdout
    assert len(second.stdout.splitlines()) > 60
    assert "Only top-k chunks:" in second.stdout
    assert "  ..." not in second.stdout.splitlines()
    assert "--full" not in second.stdout


def test_compare(run: Run, tmp_path: Path) -> None:
    (tmp_path / "cats.txt").write_text("Cats sleep most of the day. A cat purrs.", encoding="utf-8")
    run("index", "cats.txt", "--kb", "kb", "--no-fit-floor")
    result = run("compare", "do cats sleep", "--kb", "kb", "--html", "both.html")
    assert result.exit_code == 0, result.stderr
    assert "characters each: 1 passage" in result.stdout
    page = (tmp_path / "both.html").read_text(encoding="utf-8")
    assert "do cats sleep" in page
    assert "<script" not in page
    assert run("compare", "x", "--kb", "nowhere").exit_code == 2


def test_index_and_query_files(run: Run, tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    (docs / "sub").mkdir(parents=True)
    (docs / "cats.txt").write_bytes(b"Cats sleep most of the day.\r\nA cat purrs.")
    (docs / "sub" / "dogs.md").write_text("# Dogs\n\nDogs bark at strangers.", encoding="utf-8")
    (docs / "ignored.bin").write_bytes(b"\0")
    pdf(docs / "birds.pdf", "Birds build nests in spring.", "Most birds can fly.")

    result = run("index", docs, "--kb", "kb")
    assert result.exit_code == 0, result.stderr
    assert "Read 3 documents, embedded 3 new chunks into kb" in result.stdout
    again = run("index", docs, "--kb", "kb")
    assert "embedded 0 new chunks" in again.stdout

    answer = run("query", "when do birds build nests", "--kb", "kb", "--k", 1, "--json")
    assert answer.exit_code == 0, answer.stderr
    (segment,) = json.loads(answer.stdout)
    assert segment["metadata"]["source"].endswith("birds.pdf")
    assert (segment["metadata"]["page_start"], segment["metadata"]["page_end"]) == (0, 1)
    assert "Birds build nests in spring." in segment["page_content"]

    shown = run("query", "do cats sleep", "--kb", "kb", "--k", 1)
    assert f"\n{docs / 'cats.txt'}\n  found    " in shown.stdout
    assert "--- characters 0–41, value " in shown.stdout
    assert "A cat purrs." in shown.stdout

    (docs / "cats.txt").write_text("Lions sleep too.", encoding="utf-8")
    assert "embedded 1 new chunk " in run("index", docs / "cats.txt", "--kb", "kb").stdout
    (segment, *_) = json.loads(run("query", "lions sleep", "--kb", "kb", "--json").stdout)
    assert segment["page_content"] == "Lions sleep too."


def test_a_knowledge_base_keeps_to_its_headers(run: Run, tmp_path: Path) -> None:
    for name, text in {
        "grey_heron": "It nests in trees.",
        "barn owl": "It nests in barns.",
    }.items():
        (tmp_path / f"{name}.txt").write_text(text, encoding="utf-8")
    heron, owl = tmp_path / "grey_heron.txt", tmp_path / "barn owl.txt"

    def embedded(name: str) -> str:
        shown = run("inspect", name, "--kb", "kb", "--json")
        assert shown.exit_code == 0, shown.stderr
        (chunk,) = json.loads(shown.stdout)["chunks"]
        return str(chunk["embedded"])

    result = run("index", heron, "--kb", "kb", "--headers")
    assert result.exit_code == 0, result.stderr
    assert "embedded 1 new chunk " in run("index", owl, "--kb", "kb").stdout
    assert embedded("grey_heron.txt") == "grey heron\n\nIt nests in trees."
    assert embedded("barn owl.txt") == "barn owl\n\nIt nests in barns."
    assert "embedded 0 new chunks" in run("index", heron, owl, "--kb", "kb").stdout
    assert "grey heron" in run("inspect", "grey_heron.txt", "--kb", "kb").stdout

    (segment,) = json.loads(run("query", "heron", "--kb", "kb", "--k", 1, "--json").stdout)
    assert segment["page_content"] == "It nests in trees."

    # Only what is indexed again changes.
    assert "embedded 1 new chunk " in run("index", owl, "--kb", "kb", "--no-headers").stdout
    assert embedded("barn owl.txt") == "It nests in barns."
    assert embedded("grey_heron.txt") == "grey heron\n\nIt nests in trees."
    assert "embedded 1 new chunk " in run("index", heron, "--kb", "kb").stdout


def test_unreadable_files_are_named_and_the_others_are_indexed(run: Run, tmp_path: Path) -> None:
    (tmp_path / "good.txt").write_text("Cats sleep.", encoding="utf-8")
    (tmp_path / "broken.pdf").write_bytes(b"%PDF-1.4 and no more")
    (tmp_path / "binary.txt").write_bytes(b"a\0b")
    (tmp_path / "empty.md").write_bytes(b"")
    (tmp_path / "nothing").mkdir()
    result = run("index", tmp_path, tmp_path / "nothing", "--kb", "kb")
    assert result.exit_code == 1
    assert "embedded 1 new chunk " in result.stdout
    failures = result.stderr.split("could not be read:")[1]
    for name, reason in {
        "broken.pdf": "",
        "binary.txt": "not a text file",
        "empty.md": "no text",
        "nothing": "no files of a known kind",
    }.items():
        (line,) = (line for line in failures.splitlines() if f"/{name}:" in line)
        assert reason in line
    assert "good.txt" not in failures


@pytest.mark.parametrize("others", [[], ["cats.txt"]])
def test_a_path_that_is_not_there_creates_nothing(
    run: Run, tmp_path: Path, others: list[str]
) -> None:
    (tmp_path / "cats.txt").write_text("Cats sleep.", encoding="utf-8")
    result = run("index", *others, "missing", "--kb", "kb")
    assert result.exit_code == 2
    assert "'missing' does not exist" in result.stderr
    assert not (tmp_path / "kb").exists()


def test_a_folder_of_other_files_creates_nothing(run: Run, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "cat.png").write_bytes(b"png")
    result = run("index", "docs", "--kb", "kb")
    assert result.exit_code == 1
    assert result.stdout == "skipped 1 file(s): 1 .png\n"
    assert "docs: it has no files of a known kind" in result.stderr
    assert not (tmp_path / "kb").exists()


def test_skipped_files_and_encodings_are_reported(run: Run, tmp_path: Path) -> None:
    for number in range(9):
        (tmp_path / f"{number}.png").write_bytes(b"png")
    for number in range(3):
        (tmp_path / f"{number}.xlsx").write_bytes(b"xlsx")
    (tmp_path / "notes.txt").write_bytes("Über die Größe der Bäume.".encode("latin-1"))
    (tmp_path / "wide.txt").write_bytes("Über die Höhe der Wolken.".encode("utf-16"))
    first = run("index", tmp_path, "--kb", "kb")
    assert first.exit_code == 0, first.stderr
    second = run("index", tmp_path, "--kb", "kb")  # the knowledge base lies in the folder
    assert second.exit_code == 0, second.stderr
    for result in (first, second):
        assert "\nskipped 12 file(s): 9 .png, 3 .xlsx\n" in result.stdout
        assert "\nnotes.txt: read as windows-1252;" in result.stdout
        assert "wide.txt" not in result.stdout
    for question in ("Größe der Bäume", "Höhe der Wolken"):
        assert question in run("query", question, "--kb", "kb", "--k", 1).stdout
    given = run("index", tmp_path, "--kb", "kb", "--encoding", "cp1253")
    assert given.exit_code == 1  # wide.txt is not in it
    assert "read as" not in given.stdout
    assert "άber" in run("query", "Bäume", "--kb", "kb").stdout or given.stderr
    unknown = run("index", tmp_path, "--kb", "kb", "--encoding", "no-such")
    assert (unknown.exit_code, "no-such" in unknown.stderr) == (2, True)


def test_query_without_a_knowledge_base(run: Run) -> None:
    result = run("query", "anything", "--kb", "kb")
    assert result.exit_code == 2
    assert "index PATH... --kb kb" in result.stderr


def test_query_that_finds_nothing(run: Run, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text(" \n", encoding="utf-8")
    run("index", "empty.txt", "--kb", "kb")
    result = run("query", "anything", "--kb", "kb")
    assert (result.stdout, result.exit_code) == ("There is no text in the knowledge base.\n", 1)
    assert json.loads(run("query", "anything", "--kb", "kb", "--json").stdout) == []


def test_a_question_about_something_else_gets_nothing(run: Run, tmp_path: Path) -> None:
    for name in ("lambda", "for", "import", "formatstrings"):
        (tmp_path / f"{name}.txt").write_text(topics[name], "utf-8")
    indexed = run("index", ".", "--kb", "kb")
    assert "Score floor fitted: off-topic questions return nothing" in indexed.stdout
    result = run("query", "Who wrote Hamlet?", "--kb", "kb")
    assert result.exit_code == 1
    assert result.stdout.startswith("Nothing in the documents is about this. The nearest passage")
    assert re.search(r"its distance is 0\.\d+, and the floor 0\.\d+\.", result.stdout)
    assert result.stderr == ""
    within = run("query", "Who wrote Hamlet?", "--kb", "kb", "--filter", "source=for.txt")
    assert within.stdout.startswith("Nothing in the documents with --filter source=for.txt is")
    for options in (["--score-floor", "none"], ["--score-floor", 1.9]):
        assert run("query", "Who wrote Hamlet?", "--kb", "kb", *options).exit_code == 0
    assert run("query", "Who wrote Hamlet?", "--kb", "kb", "--score-floor", "x").exit_code == 2
    asked = run("query", "How do format strings work?", "--kb", "kb")
    assert "The best passage is closer than" in asked.stdout
    # It is fitted once, and again when the documents have doubled.
    assert "off-topic questions" not in run("index", ".", "--kb", "kb").stdout
    (tmp_path / "more.txt").write_text(topics["specialnames"], "utf-8")
    assert "off-topic questions" in run("index", ".", "--kb", "kb").stdout


@pytest.mark.parametrize(
    "way", [["remove"], ["index", "--prune"], ["index", "--prune", "--no-fit-floor"]]
)
def test_a_floor_of_text_that_is_gone_refuses_nothing(
    run: Run, tmp_path: Path, way: list[str]
) -> None:
    names = [f"{name}.txt" for name in ("lambda", "for", "import", "formatstrings")]
    (tmp_path / "docs").mkdir()
    for name in names:
        (tmp_path / "docs" / name).write_text(topics[name.partition(".")[0]], "utf-8")
    run("index", "docs", "--kb", "kb")
    assert run("query", "Who wrote Hamlet?", "--kb", "kb").exit_code == 1
    command, *options = way
    for name in names[1:]:
        (tmp_path / "docs" / name).unlink()
    gone = names[1:] if command == "remove" else ["docs"]
    result = run(command, *gone, *options, "--kb", "kb")
    assert "Every question gets an answer, related or not" in result.stdout
    assert run("query", "Who wrote Hamlet?", "--kb", "kb").exit_code == 0


def test_indexing_without_a_floor(run: Run, tmp_path: Path) -> None:
    (tmp_path / "cats.txt").write_text("Cats sleep most of the day. A cat purrs.", encoding="utf-8")
    assert "Every question gets an answer" in run("index", "cats.txt", "--kb", "kb").stdout
    assert "answer" not in run("index", "cats.txt", "--kb", "kb", "--no-fit-floor").stdout


def test_query_writes_a_report(run: Run, tmp_path: Path) -> None:
    (tmp_path / "cats.txt").write_text("Cats sleep most of the day. A cat purrs.", encoding="utf-8")
    run("index", "cats.txt", "--kb", "kb")
    result = run("query", "do cats sleep", "--kb", "kb", "--report", "out.html")
    assert result.exit_code == 0, result.stderr
    assert "A cat purrs." in result.stdout
    page = (tmp_path / "out.html").read_text(encoding="utf-8")
    assert result.stdout.endswith("\nWritten to out.html\n")
    assert "do cats sleep</h1>" in page
    assert "A cat purrs." in page


def test_a_report_that_cannot_be_written_is_an_error_before_the_query(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    monkeypatch.delitem(sys.modules, "langchain_rse.explaining.report", raising=False)
    result = run("query", "do cats sleep", "--kb", "none", "--report", "out.html")
    assert result.exit_code == 2
    assert "needs jinja2: pip install 'langchain-rse[report]'" in result.stderr


def test_help_lists_the_commands(run: Run) -> None:
    result = run("--help")
    assert result.exit_code == 0
    for command in (*("demo", "index", "query", "list", "stats", "inspect", "remove", "evaluate"),):
        assert f" {command} " in result.stdout
        assert run(command, "--help").exit_code == 0


@pytest.mark.parametrize("command", [each.name for each in app.registered_commands])
def test_help_of_each_command_has_an_example(run: Run, command: str) -> None:
    shown = run(command, "--help").stdout
    assert f"Example: langchain-rse {command} " in " ".join(shown.split())


def test_version(run: Run) -> None:
    result = run("--version")
    assert (result.exit_code, result.stdout) == (0, f"langchain-rse {version('langchain-rse')}\n")


# Evaluating

CATS = "# Cafés for cats\n\nCats sleep most of the day.\n\nA cat purrs when it is content."
DOGS = "Dogs bark at strangers.\r\nThey guard the house at night."
METRICS = ("recall", "whole", "precision", "iou", "segments", "characters")


def evidence_of(text: str, part: str, doc_id: str) -> dict[str, Any]:
    start = text.index(part)
    return {"doc_id": doc_id, "start": start, "end": start + len(part)}


QUESTIONS: list[dict[str, Any]] = [
    {"question": "when do cats purr", "evidence": [evidence_of(CATS, "A cat purrs", "cats.md")]},
    {"question": "do cats sleep", "evidence": [evidence_of(CATS, "Cats sleep most", "cats.md")]},
    {"question": "who guards the house", "evidence": [evidence_of(DOGS, "They guard", "dogs")]},
]


def json_lines(path: Path, lines: list[dict[str, Any]]) -> Path:
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def pets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A knowledge base of a few files, which evaluating does not change."""
    folder = tmp_path_factory.mktemp("pets")
    docs = folder / "docs"
    (docs / "old").mkdir(parents=True)
    (docs / "new").mkdir()
    # Characters are counted, not bytes, and line ends are kept.
    (docs / "cats.md").write_bytes(CATS.encode())
    (docs / "dogs.txt").write_bytes(DOGS.encode())
    (docs / "old" / "fish.txt").write_text("Fish swim in ponds.", encoding="utf-8")
    (docs / "new" / "fish.txt").write_text("Fish swim in tanks.", encoding="utf-8")
    result = call("index", docs, "--kb", folder / "kb")
    assert result.exit_code == 0, result.stderr
    return folder / "kb"


def test_evaluate_prints_tables(run: Run, pets: Path, tmp_path: Path) -> None:
    path = json_lines(tmp_path / "questions.jsonl", QUESTIONS)
    result = run(
        "evaluate", "--kb", pets, "--questions", path, "--budget", 1000, "--budget", 9, "--tune", 5
    )
    assert result.exit_code == 0, result.stderr
    tables = [table.splitlines() for table in result.stdout.strip().split("\n\n")]
    names = ("segments", "segments, filling the budget", "chunks")
    for name, (title, budgets, *rows) in zip(names, tables, strict=False):
        assert title.startswith(f"{name}: means of 3 questions")
        assert budgets.split() == ["budget", "9", "1,000"]
        assert [row.split()[0] for row in rows] == [*METRICS]
        # Every document is a chunk, and all of them fit.
        assert name == "segments" or rows[0].endswith("1.000 [1.000, 1.000]")
    comparison, tuning = tables[3:]
    assert comparison[0].startswith(
        "recall: segments, filling the budget minus chunks, 3 questions"
    )
    rows = [row.split()[0] for row in comparison[1:]]
    assert rows == ["budget", "difference", "better", "worse", "same"]
    assert tuning[0].startswith("recall of 3 questions: ")
    assert len(tuning) == 2 + 5


def test_evaluate_prints_json(run: Run, pets: Path, tmp_path: Path) -> None:
    path = json_lines(tmp_path / "questions.jsonl", QUESTIONS)
    arguments = ["evaluate", "--kb", pets, "--questions", path, "--budget", 9, "--json"]
    result = run(*arguments, "--budget", 1000, "--budget", 9)
    assert result.exit_code == 0, result.stderr
    assert "%" not in result.stderr
    printed = json.loads(result.stdout)
    names = ["segments", "segments, filling the budget", "chunks"]
    assert [report["name"] for report in printed["reports"]] == names
    for report in printed["reports"]:
        assert (report["questions"], report["budgets"]) == (3, [9, 1000])
        assert tuple(report["metrics"]) == METRICS
        for figures in report["metrics"].values():
            assert len(figures["mean"]) == len(figures["interval"]) == 2
        assert all(0 <= mean <= 1 for mean in report["metrics"]["recall"]["mean"])
    chunks = printed["reports"][2]["metrics"]
    # Chunks come in their order until the budget is spent: all four documents at last.
    whole = len(CATS) + len(DOGS) + 2 * len("Fish swim in ponds.")
    assert chunks["characters"]["mean"] == [9, whole]
    assert chunks["segments"]["mean"] == [1, 4]
    assert chunks["recall"]["mean"] == [0, 1]
    expected = 0
    for question in QUESTIONS:
        expected += question["evidence"][0]["end"] - question["evidence"][0]["start"]
    assert chunks["precision"]["mean"][1] == pytest.approx(expected / 3 / whole)
    comparison = printed["comparison"]
    assert (comparison["name"], comparison["other"]) == (names[1], names[2])
    assert printed["tuning"] is None

    tuned = json.loads(run(*arguments, "--tune", 4).stdout)
    assert tuned["tuning"]["metric"] == "recall"
    assert tuned["tuning"]["questions"] == 3
    assert isinstance(tuned["tuning"]["changes"], dict)
    start = tuned["reports"][0]["metrics"]["recall"]["mean"]
    assert tuned["tuning"]["start"] == pytest.approx(sum(start) / len(start))


def test_evaluate_counts_questions_without_an_answer(run: Run, pets: Path, tmp_path: Path) -> None:
    unanswerable = {"question": "why is the sky blue", "evidence": []}
    path = json_lines(tmp_path / "questions.jsonl", [unanswerable, *QUESTIONS])
    arguments = ["evaluate", "--kb", pets, "--questions", path, "--budget", 1000, "--penalty", 1]
    result = run(*arguments)
    assert result.exit_code == 0, result.stderr
    for table in result.stdout.strip().split("\n\n")[:3]:
        title, *_, refused = table.splitlines()
        assert "means of 3 questions" in title
        assert refused.split() in (["refused", "1", "of", "1"], ["refused", "0", "of", "1"])
    printed = json.loads(run(*arguments, "--json", "--tune", 2).stdout)
    assert [report["unanswerable"] for report in printed["reports"]] == [1, 1, 1]
    assert printed["reports"][0]["refused"] == [1]  # nothing is as relevant as the penalty
    assert printed["reports"][2]["refused"] == [0]
    assert printed["tuning"]["questions"] == 3


def test_evaluate_reads_quotations_from_csv(run: Run, pets: Path, tmp_path: Path) -> None:
    path = tmp_path / "questions.csv"
    whole = str((pets.parent / "docs" / "old" / "fish.txt").resolve())
    path.write_text(
        f"question,doc_id,text\ndo fish swim,{whole},Fish  swim in\ndo fish swim,dogs,{DOGS[:4]}\n",
        encoding="utf-8",
    )
    result = run("evaluate", "--kb", pets, "--questions", path, "--budget", 1000, "--json")
    assert result.exit_code == 0, result.stderr
    chunks = json.loads(result.stdout)["reports"][2]
    assert (chunks["questions"], chunks["metrics"]["recall"]["mean"]) == (1, [1])

    path.write_text(f"question,doc_id,text\ndo fish swim,{whole},walk\n", encoding="utf-8")
    result = run("evaluate", "--kb", pets, "--questions", path)
    assert result.exit_code == 2
    assert "question 1: 'walk' is nowhere in document" in result.stderr


def test_evaluate_has_budgets_of_its_own(run: Run, pets: Path, tmp_path: Path) -> None:
    # One of them with the whole path, and without evidence in a single document.
    whole = str((pets.parent / "docs" / "new" / "fish.txt").resolve())
    both = [evidence_of(CATS, "Cats", "cats"), {"doc_id": whole, "start": 0, "end": 4}]
    path = json_lines(tmp_path / "one.jsonl", [{"question": "do fish swim", "evidence": both}])
    result = run("evaluate", "--kb", pets, "--questions", path, "--json")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["reports"][0]["budgets"] == [4000, 8000, 16000]


GOOD = json.dumps(QUESTIONS[0])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "at least 1 item"),
        (f"{GOOD}\n\n{{\n", "questions.jsonl, line 3: "),
        (
            json.dumps({"question": "?", "evidence": [{"doc_id": "dogs", "start": 0, "end": 999}]}),
            f"which has {len(DOGS)} characters",
        ),
        (
            json.dumps({"question": "?", "evidence": [{"doc_id": "cow", "start": 0, "end": 9}]}),
            "there is no document 'cow'",
        ),
        (
            json.dumps(
                {"question": "?", "evidence": [{"doc_id": "fish.txt", "start": 0, "end": 9}]}
            ),
            "'fish.txt' may be any of ",
        ),
    ],
    ids=["empty", "json", "outside", "unknown", "ambiguous"],
)
def test_questions_that_cannot_be_used(
    run: Run, pets: Path, tmp_path: Path, text: str, message: str
) -> None:
    (tmp_path / "questions.jsonl").write_text(text, encoding="utf-8")
    result = run("evaluate", "--kb", pets, "--questions", "questions.jsonl", "--json")
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stdout == ""


def test_one_question_cannot_be_tuned_to(run: Run, pets: Path, tmp_path: Path) -> None:
    path = json_lines(tmp_path / "questions.jsonl", QUESTIONS[:1])
    result = run("evaluate", "--kb", pets, "--questions", path, "--tune", 5, "--json")
    assert result.exit_code == 2
    assert "at least 2" in result.stderr
    assert result.stdout == ""


# Inspecting


def test_inspect_shows_chunks_and_pages(run: Run, tmp_path: Path) -> None:
    file = pdf(tmp_path / "birds.pdf", *(f"Birds of page {page} sing." * 20 for page in range(3)))
    run("index", file, "--kb", "kb")
    document = json.loads(run("inspect", "birds.pdf", "--kb", "kb", "--json").stdout)
    assert document["doc_id"] == str(file)
    assert (document["length"], document["metadata"]["total_pages"]) == (3 * 20 * 21 + 4, 3)
    chunks = document["chunks"]
    assert [chunk["metadata"]["page_start"] for chunk in chunks] == [0, 1, 2]
    assert [chunk["start"] for chunk in chunks] == [0, *(chunk["end"] for chunk in chunks[:-1])]
    assert all(chunk["embedded"] == chunk["text"].strip() for chunk in chunks)

    for name in ("birds", "./birds.pdf"):
        shown = run("inspect", name, "--kb", "kb")
        assert shown.exit_code == 0, shown.stderr
        assert str(file) in shown.stdout
        assert f"{document['length']:,} characters in 3 chunks" in shown.stdout
        assert document["version"] in shown.stdout
        assert "page 2" in shown.stdout
        assert "Birds of page 2" in shown.stdout
        assert f"{chunks[1]['start']}-{chunks[1]['end']}" in shown.stdout


def test_inspect_shows_all_of_a_chunk(run: Run, pets: Path) -> None:
    shown = run("inspect", "cats.md", "--kb", pets, "--chunk", 0)
    assert shown.exit_code == 0, shown.stderr
    assert shown.stdout.count("A cat purrs when it is content.") == 2
    assert "embedded" in shown.stdout
    assert "returned" in shown.stdout
    document = json.loads(run("inspect", "dogs", "--kb", pets, "--chunk", 0, "--json").stdout)
    assert [chunk["text"] for chunk in document["chunks"]] == [DOGS]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["cat", "--json"], "there is no document 'cat'"),
        (["fish.txt"], "'fish.txt' may be any of "),
        (["dogs", "--chunk", 7], "dogs.txt has no chunk 7: it has 1, counted from 0"),
        (["dogs", "--chunk", -1], "'--chunk'"),
    ],
)
def test_documents_and_chunks_that_cannot_be_inspected(
    run: Run, pets: Path, arguments: list[object], message: str
) -> None:
    result = run("inspect", *arguments, "--kb", pets)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(
    "arguments", [("inspect", "cats"), ("evaluate", "--questions", "questions.jsonl")]
)
def test_commands_without_a_knowledge_base(
    run: Run, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    json_lines(tmp_path / "questions.jsonl", QUESTIONS)
    result = run(*arguments, "--kb", "kb")
    assert result.exit_code == 2
    assert "There is no knowledge base in kb" in result.stderr
    assert not (tmp_path / "kb").exists()


def test_messages_show_the_command_as_it_was_called(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["/site-packages/langchain_rse/__main__.py"])
    assert "python -m langchain_rse index" in run("query", "anything", "--kb", "kb").stderr
    monkeypatch.setattr(sys, "argv", ["/bin/langchain-rse"])
    assert "/bin/langchain-rse index" in run("query", "anything", "--kb", "kb").stderr


def test_text_that_the_terminal_does_not_have_is_escaped(run: Run, tmp_path: Path) -> None:
    (tmp_path / "cafe.txt").write_text("The café is open.", encoding="utf-8")
    run("index", "cafe.txt", "--kb", "kb")
    result = subprocess.run(
        [sys.executable, "-m", "langchain_rse", "inspect", "cafe", "--kb", "kb"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        check=False,
    )
    assert "caf\\xe9" in result.stdout, result.stderr
