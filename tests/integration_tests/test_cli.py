"""The commands of the command line, called in this process."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from langchain_rse.cli.app import app
from langchain_rse.cli.knowledge_base import KnowledgeBase
from langchain_rse.ingest.writing import Writer
from tests.unit_tests.cli.test_files import pdf

Run = Callable[..., Result]

CATS = "# Cafés for cats\n\nCats sleep most of the day.\n\nA cat purrs when it is content."
DOGS = "Dogs bark at strangers.\r\nThey guard the house at night."
MODULE = """
from langchain_core.embeddings import DeterministicFakeEmbedding

class Eight(DeterministicFakeEmbedding):
    size: int = 8
"""
UNPRINTABLE = re.compile("[\x1b╭│─\r]")


def call(*arguments: object) -> Result:
    return CliRunner().invoke(app, list(map(str, arguments)), catch_exceptions=False)


def write_docs(folder: Path) -> None:
    (folder / "docs" / "old").mkdir(parents=True)
    (folder / "docs" / "new").mkdir()
    # Characters are counted, not bytes, and line ends are kept.
    (folder / "docs" / "cats.md").write_bytes(CATS.encode())
    (folder / "docs" / "dogs.txt").write_bytes(DOGS.encode())
    (folder / "docs" / "old" / "fish.txt").write_text("Fish swim in ponds.", "utf-8")
    (folder / "docs" / "new" / "fish.txt").write_text("Fish swim in tanks.", "utf-8")


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Calls a command in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return call


@pytest.fixture
def run(empty: Run, tmp_path: Path) -> Run:
    """Calls a command in a folder with a few files, which are in the knowledge base kb."""
    write_docs(tmp_path)
    result = empty("index", "docs", "--kb", "kb")
    assert result.exit_code == 0, result.stderr
    return empty


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same knowledge base and a PDF, for tests that do not change it."""
    folder = tmp_path_factory.mktemp("library")
    write_docs(folder)
    texts = ("Birds of page 1 sing. ", "Birds nest on page 2. ", "On page 3 they fly. ")
    pdf(folder / "docs" / "birds.pdf", *(text * 40 for text in texts))
    result = call("index", folder / "docs", "--kb", folder / "kb")
    assert result.exit_code == 0, result.stderr
    return folder


@pytest.fixture
def ask(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Calls a command that only reads with the knowledge base of `library`."""
    monkeypatch.chdir(tmp_path)

    def ask(command: str, *arguments: object) -> Result:
        return call(command, *arguments, "--kb", library / "kb")

    return ask


def passages(ask: Run, question: str, *options: object) -> list[dict[str, Any]]:
    result = ask("query", question, "--json", *options)
    assert result.exit_code < 2, result.stderr
    printed: list[dict[str, Any]] = json.loads(result.stdout)
    return printed


def names(found: list[dict[str, Any]]) -> list[str]:
    return [Path(passage["metadata"]["source"]).name for passage in found]


def listed(run: Run) -> dict[str, str]:
    """The ids of the documents in kb by their names."""
    assert run("list", "--kb", "kb").exit_code == 0
    return {name: doc_id for doc_id, name in KnowledgeBase.existing(Path("kb")).names.items()}


# Help


@pytest.mark.parametrize("command", [each.name for each in app.registered_commands])
def test_help_of_each_command_has_an_example(command: str) -> None:
    assert f" {command} " in call("--help").stdout
    shown = call(command, "--help").stdout
    assert f"Example: langchain-rse {command}" in " ".join(shown.split())


@pytest.mark.nightly
def test_demo_shows_the_answer_in_pieces_and_whole(empty: Run) -> None:
    first = empty("demo")
    assert first.exit_code == 0, first.stderr
    assert f"{sum(map(len, set(topics.values()))):,} characters, " in first.stdout
    assert first.stderr == ""  # progress bars are for terminals
    assert len(first.stdout.splitlines()) < 42
    assert "> 3. If the pattern succeeds" in first.stdout.partition("missing:")[2]
    assert "Passages: 100% of the answer" in first.stdout
    shown = first.stdout.partition("\n\n")[2]
    assert empty("demo").stdout.endswith(shown)

    # The commands that it ends with work, and the score floor refuses the off-topic question.
    *_, compare, query, _, _, _ = shown.splitlines()
    arguments = shlex.split(compare)
    assert empty(*arguments[arguments.index("compare") :]).exit_code == 0
    arguments = shlex.split(query)
    refused = empty(*arguments[arguments.index("query") :])
    assert refused.exit_code == 1
    assert "no candidate reaches the score floor" in refused.stderr


# Documents


def test_a_list_has_the_shortest_names_that_tell_documents_apart(ask: Run) -> None:
    rows = [line.split() for line in ask("list").stdout.splitlines()]
    assert rows[0] == ["characters", "chunks", "document"]
    found = [row[2] for row in rows[1:6]]
    assert found == ["birds.pdf", "cats.md", "dogs.txt", "new/fish.txt", "old/fish.txt"]
    assert rows[3][0] == str(len(DOGS))
    assert rows[4] == ["19", "1", "new/fish.txt"]


def test_a_changed_file_replaces_its_document(run: Run) -> None:
    assert "kb: 4 unchanged; 4 documents\n" in run("index", "docs", "--kb", "kb").stdout
    Path("docs/dogs.txt").write_text("Lions sleep too.", "utf-8")
    Path("docs/cow.txt").write_text("Cows graze.", "utf-8")
    again = run("index", "docs", "--kb", "kb")
    assert again.stdout.startswith("kb: 1 added, 1 changed, 3 unchanged; 5 documents\n")
    answer = run("query", "lions sleep", "--kb", "kb", "--k", 1, "--json")
    assert [each["page_content"] for each in json.loads(answer.stdout)] == ["Lions sleep too."]


def test_remove(run: Run) -> None:
    for name, message in {
        "cow": "there is no document 'cow'. To list the documents: ",
        "cat.md": "there is no document 'cat.md'; did you mean cats.md?",
        "fish.txt": "'fish.txt' is ambiguous; choose one of new/fish.txt, old/fish.txt",
    }.items():
        result = run("remove", "cats", name, "--kb", "kb")
        assert (result.exit_code, result.stdout) == (2, "")
        assert message in result.stderr
    result = run("remove", "cats", "docs/old/fish.txt", "cats.md", "--kb", "kb")
    *removed, floor = result.stdout.splitlines()
    assert removed == ["Removed cats.md", "Removed old/fish.txt"]
    assert "too little text to fit a score floor" in floor
    assert Path("docs/cats.md").exists()
    assert list(listed(run)) == ["dogs.txt", "fish.txt"]


def test_prune_removes_what_is_gone_from_the_folder(run: Run) -> None:
    Path("elsewhere").mkdir()
    Path("elsewhere/cow.txt").write_text("Cows graze.", "utf-8")
    run("index", "elsewhere", "--kb", "kb")
    Path("docs/cats.md").unlink()
    Path("elsewhere/cow.txt").unlink()
    run("index", "docs", "--kb", "kb")
    assert "cats.md" in listed(run)
    pruned = run("index", "docs", "--kb", "kb", "--prune")
    assert pruned.exit_code == 0, pruned.stderr
    assert pruned.stdout.startswith("Removed cats.md\nkb: 3 unchanged; 4 documents\n")
    # Another folder's documents stay.
    assert set(listed(run)) == {"cow.txt", "dogs.txt", "new/fish.txt", "old/fish.txt"}


def test_prune_keeps_what_cannot_be_read(run: Run) -> None:
    before = listed(run)
    Path("docs/cats.md").write_bytes(b"a\0b")
    result = run("index", "docs", "--kb", "kb", "--prune")
    assert (result.exit_code, "docs/cats.md: not a text file" in result.stderr) == (3, True)
    assert listed(run) == before
    # A share that is not mounted is an empty folder.
    for path in [*Path("docs").rglob("*.txt"), Path("docs/cats.md")]:
        path.unlink()
    result = run("index", "docs", "--kb", "kb", "--prune")
    assert (result.exit_code, "no files of a known kind" in result.stderr) == (1, True)
    assert listed(run) == before


def test_unreadable_files_are_named_and_the_others_are_indexed(empty: Run) -> None:
    Path("docs/nothing").mkdir(parents=True)
    Path("docs/good.txt").write_text("Cats sleep.", "utf-8")
    Path("docs/notes.txt").write_bytes("Über die Größe der Bäume.".encode("latin-1"))
    Path("docs/broken.pdf").write_bytes(b"%PDF-1.4 and no more")
    Path("docs/empty.md").write_bytes(b"")
    for number in range(9):
        Path(f"docs/{number}.png").write_bytes(b"png")
    result = empty("index", "docs", "docs/nothing", "--kb", "docs/kb")
    assert result.exit_code == 3
    assert "docs/kb: 3 added; 3 documents\n" in result.stdout
    assert "\nSkipped: 9 .png\nEmpty, so listed but never found: empty.md\n" in result.stdout
    assert "\nnotes.txt: read as cp1252 " in result.stdout
    lines = result.stderr.splitlines()
    assert lines[0] == "Could not read 2:"
    reasons = dict(line.strip().split(": ", 1) for line in lines[1:])
    assert {Path(path).name for path in reasons} == {"nothing", "broken.pdf"}
    again = empty("index", "docs", "--kb", "docs/kb", "--encoding", "cp1253")
    assert "read as" not in again.stdout  # and the knowledge base in the folder is not read
    unknown = empty("index", "docs", "--kb", "docs/kb", "--encoding", "no-such")
    assert (unknown.exit_code, "there is no encoding 'no-such'" in unknown.stderr) == (2, True)


def test_an_interrupted_command_says_how_it_goes_on(
    empty: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setenv("LANGCHAIN_RSE_KB", "kb")
    Path("a.txt").write_text("Cats sleep.", "utf-8")
    with monkeypatch.context() as patched:
        patched.setattr(Writer, "_make_current", interrupt)
        patched.setattr(Writer, "_abandon", interrupt)
        result = empty("index", "a.txt")
    assert (result.exit_code, result.stdout) == (130, "")
    assert result.stderr == "\nInterrupted. Run the same command to continue\n"
    assert "  a.txt (interrupted: index or remove it again)\n" in empty("list").stdout
    assert empty("index", "a.txt").stdout.startswith("kb: 1 added; 1 document\n")
    assert "(" not in empty("list").stdout


def test_nothing_to_index_creates_nothing(empty: Run) -> None:
    Path("docs").mkdir()
    Path("docs/cat.png").write_bytes(b"png")
    assert empty("index", "docs", "--kb", "kb").exit_code == 1
    missing = empty("index", "docs", "missing", "--kb", "kb")
    assert (missing.exit_code, "'missing' does not exist" in missing.stderr) == (2, True)
    assert "--kb kb does not exist" in empty("check", "--kb", "kb", "--repair").stderr
    assert not Path("kb").exists()
    Path("kb").mkdir()
    assert "--kb kb is empty. To fill it: " in empty("list", "--kb", "kb").stderr


def test_check(run: Run) -> None:
    assert run("check", "--kb", "kb").stdout == "4 documents, 4 chunks: no problems\n"
    vectorstore = KnowledgeBase.existing(Path("kb")).retriever.vectorstore
    vectorstore.delete(vectorstore.get()["ids"][:1])
    result = run("check", "--kb", "kb")
    assert result.exit_code == 1
    _, problem, *documents, advice = result.stdout.splitlines()
    assert problem.startswith("1 problem: vectors that are missing, ")
    assert re.fullmatch(r"  document '.*(md|txt)'", *documents)
    repaired = run(*shlex.split(advice)[shlex.split(advice).index("check") :])
    assert (repaired.exit_code, "1 problem repaired: vectors" in repaired.stdout) == (0, True)


# How a knowledge base is made


def test_a_knowledge_base_and_documents_are_not_mixed(run: Run) -> None:
    before = listed(run)
    mixed = run("index", "docs/cats.md", "--kb", "docs")
    assert (mixed.exit_code, mixed.stdout) == (2, "")
    assert "--kb docs has other files (cats.md, dogs.txt, new, old)" in mixed.stderr
    assert not Path("docs/.lock").exists()
    assert "index docs --kb docs-kb" in run("query", "cats", "--kb", "docs").stderr
    assert f"--kb {Path.cwd().name}-kb" in run("query", "cats", "--kb", "").stderr
    report = run("query", "cats", "--kb", "kb", "--report", "nowhere/report.html")
    assert (report.exit_code, report.stdout) == (2, "")
    assert "'--report': the folder nowhere does not exist" in report.stderr
    shutil.copytree("kb", "docs/older")
    run("index", "docs", "--kb", "kb")
    assert listed(run) == before


def test_a_knowledge_base_keeps_its_embedding_model(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("eight_dimensions.py").write_text(MODULE, "utf-8")
    monkeypatch.setattr(sys, "path", list(sys.path))
    result = run("index", "docs", "--kb", "own", "--embeddings", "eight_dimensions:Eight")
    assert "own: 4 added; 4 documents\n" in result.stdout, result.stderr
    assert "own: 4 unchanged" in run("index", "docs", "--kb", "own").stdout
    assert "eight_dimensions:Eight" in run("list", "--kb", "own").stdout
    other = run("index", "docs", "--kb", "kb", "--embeddings", "eight_dimensions:Eight")
    assert other.exit_code == 2
    assert "vectors of two models cannot be compared" in other.stderr
    wrong = run("index", "docs", "--kb", "new", "--embeddings", "eight_dimensions:Nine")
    assert (wrong.exit_code, Path("new").exists()) == (2, False)


# Questions


def test_a_query_prints_passages_and_where_they_stand(ask: Run) -> None:
    shown = ask("query", "do cats sleep", "--k", 1)
    assert shown.exit_code == 0, shown.stderr
    lines = shown.stdout.splitlines()
    assert lines[0].startswith("1 passage from ")
    assert lines[0].endswith(f", {len(CATS)} of 16,000 characters")
    assert re.fullmatch(r"\[1\] cats\.md, characters 0.\d+", lines[2])
    assert shown.stdout.endswith(f"\n{CATS}\n")
    assert not UNPRINTABLE.search(shown.stdout)
    pages = ask("query", "birds of page 2", "--k", 1, "--penalty", 0).stdout
    assert re.search(r"\[1\] .+, pages 1.3, characters 0", pages)
    explained = ask("query", "do cats sleep", "-v")
    assert "Best passage: cats.md" in explained.stderr
    assert explained.stdout.startswith(lines[0])
    assert explained.stderr.endswith("\nAll chunks considered: --report FILE\n")
    assert explained.output.count("1 passage from ") == 1


def test_rows_of_a_table_come_with_the_names_of_its_columns(empty: Run) -> None:
    rows = "".join(f"cat{number},{number % 9},likes fish and naps\n" for number in range(200))
    Path("cats.csv").write_text(f"name,age,note\n{rows}", "utf-8")
    empty("index", "cats.csv", "--kb", "kb")
    shown = empty("query", "cat150", "--kb", "kb", "--max-context-length", 1_000).stdout
    assert re.search(r"\n\n\[1\] .*, below its table's header row\nname,age,note\ncat1", shown)
    assert "\ncat150,6," in shown
    compared = empty("compare", "cat150", "--kb", "kb", "--max-context-length", 1_000).stdout
    assert compared.count("\n    name,age,note\n") == 2
    empty("query", "cat150", "--kb", "kb", "--max-context-length", 1_000, "--report", "a.html")
    assert "No sliders" not in Path("a.html").read_text("utf-8")


def test_options_of_a_query(ask: Run) -> None:
    everything = passages(ask, "do fish swim", "--penalty", 0, "--set", "order=relevance")
    assert len(everything) > len(passages(ask, "do fish swim", "--penalty", 0.95))
    scores = [passage["metadata"]["relevance_score"] for passage in everything]
    assert scores == sorted(scores, reverse=True)
    assert len(passages(ask, "do fish swim", "--config", "precision", "--k", 1)) == 1
    (best, *_) = passages(ask, "strangers", "--set", "hybrid=0.5")
    assert best["metadata"]["rse"]["chunks"][0]["lexical_rank"] == 0


def test_filters(ask: Run, library: Path) -> None:
    for name in (library / "docs" / "cats.md", "cats.md", "cats"):
        found = passages(ask, "fish", "--filter", f"source={name}", "--penalty", 0)
        assert names(found) == ["cats.md"]
    result = ask("query", "fish", "--filter", "source=cats", "--filter", "year=2024")
    assert "has the field 'year', all have source" in result.stderr
    assert "cats.md" not in ask("compare", "cats", "--filter", "source=dogs").stdout
    for option in (["--filter", "page=1"], ["--set", 'filter={"page": 1}']):
        assert names(passages(ask, "birds", *option, "--penalty", 0)) == ["birds.pdf"]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--max-context-length", 1], "exceed max_context_length=1"),
        (["--penalty", 1], "is below irrelevant_chunk_penalty=1.0"),
        (["--filter", "page=7"], "no"),
        (["--filter", "sorce=cats.md"], "has the field 'sorce', all have source"),
        (["--set", "score_floor=0.0"], "no candidate reaches the score floor"),
    ],
)
def test_an_empty_answer_says_why(ask: Run, options: list[object], reason: str) -> None:
    result = ask("query", "do cats sleep", *options)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("Nothing returned: ")
    assert reason in result.stderr
    assert result.stderr.count("\n") == 1 + ("score floor" in reason)  # with what to do
    in_json = ask("query", "do cats sleep", *options, "--json")
    assert (in_json.exit_code, in_json.stdout) == (1, "[]\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["query", "cats", "--k", "x"], "'--k' / '-k': expected a whole number, at least 1"),
        (["query", "cats", "--penalty", 2], "expected a number from 0 to 1; got"),
        (["query", "cats", "--set", "hybrid=2"], "--set hybrid=2: hybrid must be from 0 to 1 or"),
        (["query", "cats", "--config", "no.json"], "--config: there is no file 'no.json'"),
        (["query", "cats", "--config", "fast"], "no preset or file 'fast'; presets: "),
        (["query"], "argument 'QUESTION'. Example: langchain-rse query \"What drove gross margin?"),
        (["query", "cats", "--pages", "saved.json"], "saved.json is a file: name a folder"),
        (["query", "cats", "--set", "score_floor=nan"], "a number or 'fitted' or None; got 'nan'"),
        (["query", "cats", "--filter", "source"], "expected NAME=VALUE, got 'source'"),
        (["query", "cats", "--filter", "source=fish.txt"], "choose one of new/fish.txt"),
        (["query", "cats", "--config", "saved.json"], "saved.json is not a JSON object"),
        (["query", "cats", "--set", "hybird=1"], "--set hybird=1: unknown argument 'hybird': did"),
        (["query", "cats", "--set", "decay_rate=9"], 'write {"decay_rate": 9} into a file, and'),
        (["serch"], "serch is no command. Use: query"),
        (["tune"], "tune is no command. Use: evaluate --tune 20"),
        (["query", "cats", "--config", "precison"], "file 'precison'; did you mean 'precision'?"),
        (["evaluate", "--questions", "saved.json"], 'object; got [1]. Each line must be {"quest'),
        (["serve-mcp", "--port", "70000"], "--port must be from 1 to 65535; got 70000"),
    ],
)
def test_options_that_cannot_be_used(ask: Run, arguments: list[object], message: str) -> None:
    Path("saved.json").write_text("[1]", "utf-8")
    result = ask(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr


def test_a_missing_folder_is_told_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LANGCHAIN_RSE_KB", raising=False)
    question = "why " * 100  # longer than a file's name can be
    result = call("query", question)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"Write: query '{question}' --kb FOLDER" in result.stderr


def test_pages_of_answers(ask: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    result = ask("query", "do", "cats", "sleep", "--report", "out.html")
    assert result.stderr == "Report written to out.html\n"
    report = Path("out.html").read_text("utf-8")
    assert "do cats sleep</h1>" in report
    assert "No sliders" not in report
    result = ask("compare", "do", "cats", "sleep", "--k", 1, "--html", "both.html")
    assert "Passages: 1 text, " in result.stdout
    assert "\n\n== passages ==\n\nPassage 1: cats.md, characters " in result.stdout
    assert "\nRank 1: cats.md, characters " in result.stdout
    page = Path("both.html").read_text("utf-8")
    assert "do cats sleep" in page
    assert "<script" not in page
    assert "\nPassage 1: new/fish.txt, " in ask("compare", "fish tanks", "--k", 1).stdout
    one = ("--filter", "source=new/fish.txt", "-v", "--report", "out.html")
    assert "Best passage: new/fish.txt, " in ask("query", "fish tanks", *one).stderr
    assert '"name":"new/fish.txt"' in Path("out.html").read_text("utf-8")
    assert "No passages: " in ask("compare", "cats sleep", "--max-context-length", 1).stdout
    monkeypatch.setitem(sys.modules, "jinja2", None)
    monkeypatch.delitem(sys.modules, "langchain_rse.explaining.report", raising=False)
    result = ask("query", "do cats sleep", "--report", "out.html")
    assert result.exit_code == 2
    assert "pip install 'langchain-rse[report]'" in result.stderr


def test_pictures_of_pages(ask: Run) -> None:
    shown = ("--pages", "pictures", "--report", "out.html")
    ask("query", "birds sing", "--set", "score_floor=none", *shown)
    assert Path("pictures", "passage-1-page-1.png").read_bytes().startswith(b"\x89PNG")
    assert '"pictures":[{"1":"data:image/jpeg;base64,' in Path("out.html").read_text("utf-8")
    result = ask("query", "do cats sleep", "--k", 1, "--pages", "pictures")
    assert result.stderr.startswith("No picture of passage 1: ")
    assert "its document is not a PDF" in result.stderr


@pytest.mark.parametrize("way", [["remove"], ["index", "docs", "--prune"]])
def test_a_floor_refuses_until_its_text_is_gone(empty: Run, way: list[str]) -> None:
    Path("docs").mkdir()
    files = [f"{name}.txt" for name in ("lambda", "for", "import", "formatstrings")]
    for name in files:
        (Path("docs") / name).write_text(topics[name.partition(".")[0]], "utf-8")
    indexed = empty("index", "docs", "--kb", "kb")
    assert re.search(r"Score floor fitted: it rejects \d+% of \d+ off-topic", indexed.stdout)
    assert "off-topic" not in empty("index", "docs", "--kb", "kb").stdout  # fitted once
    hamlet = ["query", "Who wrote Hamlet?", "--kb", "kb"]
    refused = empty(*hamlet)
    assert refused.exit_code == 1
    assert "no candidate reaches the score floor" in refused.stderr
    for floor in ("none", 1.9):
        assert empty(*hamlet, "--set", f"score_floor={floor}").exit_code == 0
    assert empty("query", "How do format strings work?", "--kb", "kb").exit_code == 0

    for name in files[1:]:
        (Path("docs") / name).unlink()
    gone = files[1:] if way == ["remove"] else []
    result = empty(*way, *gone, "--kb", "kb")
    assert "Off-topic questions return passages too: too little text" in result.stdout
    assert empty(*hamlet).exit_code == 0


# Evaluating


def evidence_of(text: str, part: str, doc_id: str) -> dict[str, Any]:
    start = text.index(part)
    return {"doc_id": doc_id, "start": start, "end": start + len(part)}


QUESTIONS: list[dict[str, Any]] = [
    {"question": "when do cats purr", "evidence": [evidence_of(CATS, "A cat purrs", "cats.md")]},
    {"question": "do cats sleep", "evidence": [evidence_of(CATS, "Cats sleep most", "cats.md")]},
    {"question": "who guards the house", "evidence": [evidence_of(DOGS, "They guard", "dogs")]},
]


def json_lines(lines: list[dict[str, Any]]) -> Path:
    path = Path("questions.jsonl")
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    return path


def figures_in(printed: str, row: str) -> list[list[float]]:
    """The means in each table's row of this name."""
    lines = [line for line in printed.splitlines() if line.startswith(f"{row} ")]
    bare = [re.sub(r"\[.*?\]", "", line).replace(",", "") for line in lines]
    return [[float(cell) for cell in line.split()[1:]] for line in bare]


def test_evaluate_measures_passages_and_chunks(ask: Run) -> None:
    unanswerable = {"question": "why is the sky blue", "evidence": []}
    arguments = ["evaluate", "--questions", json_lines([unanswerable, *QUESTIONS])]
    result = ask(*arguments, "--budget", 1000, "--budget", 9)
    assert result.exit_code == 0, result.stderr
    for name in ("passages: ", "passages (filling the budget): ", "chunks: "):
        assert f"\n\n{name}" in f"\n\n{result.stdout}"
    assert result.stdout.endswith("\nConclusion: only 3 questions, too few to compare\n")
    many = ask("evaluate", "--questions", json_lines([unanswerable, *QUESTIONS, *QUESTIONS]))
    assert "have a higher recall than chunks at 0 of 3 budgets, and a lower one at 0" in many.stdout
    printed = ask(*arguments, "--penalty", 1).stdout
    assert printed.count("; 1 unanswerable question\n") == 3
    # Nothing is as relevant as the penalty, and all documents fit the others' budget.
    assert [recalls[-1] for recalls in figures_in(printed, "recall")] == [0, 1, 1]
    assert figures_in(printed, "budget") == 4 * [[4000, 8000, 16000]]


def test_evaluate_saves_settings_for_queries(ask: Run) -> None:
    arguments = ["evaluate", "--questions", json_lines(QUESTIONS)]
    tuned = ask(*arguments, "--penalty", 0.1, "--tune", 3, "--save-config", "tuned.json")
    assert tuned.exit_code == 0, tuned.stderr
    assert "too few to compare\n\nrecall on 3 questions: " in tuned.stdout
    saved = json.loads(Path("tuned.json").read_text("utf-8"))
    assert saved["irrelevant_chunk_penalty"] == 0.1
    Path("tuned.json").write_text(json.dumps({"irrelevant_chunk_penalty": 0.95}), "utf-8")
    few = passages(ask, "fish", "--config", "tuned.json")
    assert len(few) < len(passages(ask, "fish", "--config", "tuned.json", "--penalty", 0))
    assert "--tune" in ask(*arguments, "--save-config", "other.json").stderr
    assert not Path("other.json").exists()
    one = ask("evaluate", "--questions", json_lines(QUESTIONS[:1]), "--tune", 5)
    assert "at least two questions" in one.stderr
    evidence = [{"doc_id": "cats", "text": text} for text in ("Cats bark", "s")]
    wrong = [{"question": "why", "evidence": [*evidence, {"doc_id": "cat.md", "text": "Cats"}]}]
    bark, repeated, unknown = ask("evaluate", "--questions", json_lines(wrong)).stderr.splitlines()
    problem = "question 1: 'Cats bark' is nowhere in document 'cats': copy it from there"
    assert bark == f"Error: questions.jsonl: {problem}"
    assert "'s' is 7 times in document 'cats' (at characters 6, 15, 21, 23, 31 and" in repeated
    assert unknown.endswith("there is no document 'cat.md'; did you mean cats.md?")
