"""The command line: the documents of a knowledge base, how it was made, and how it is asked."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from langchain_rse.cli.app import app
from langchain_rse.cli.knowledge_base import KnowledgeBase

Run = Callable[..., Result]

MODULE = """
from langchain_core.embeddings import DeterministicFakeEmbedding

class Eight(DeterministicFakeEmbedding):
    size: int = 8
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Calls a command in a folder with a few files, which are in a knowledge base."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: object) -> Result:
        return CliRunner().invoke(app, list(map(str, arguments)), catch_exceptions=False)

    texts = {
        "docs/cats.txt": "Cats sleep most of the day. A cat purrs.",
        "docs/dogs.txt": "Dogs bark at strangers. They guard the house at night.",
        "docs/old/fish.txt": "Fish swim in ponds.",
        "docs/new/fish.txt": "Fish swim in tanks.",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    result = call("index", "docs", "--kb", "kb")
    assert result.exit_code == 0, result.stderr
    return call


def segments(run: Run, question: str, *options: object) -> list[dict[str, Any]]:
    result = run("query", question, "--kb", "kb", "--json", *options)
    assert result.exit_code < 2, result.stderr
    printed: list[dict[str, Any]] = json.loads(result.stdout)
    return printed


def names(segments: list[dict[str, Any]]) -> list[str]:
    return [Path(segment["metadata"]["source"]).name for segment in segments]


# Documents


def test_list(run: Run, tmp_path: Path) -> None:
    old, new = (str(tmp_path / "docs" / folder / "fish.txt") for folder in ("old", "new"))
    documents = json.loads(run("list", "--kb", "kb", "--json").stdout)
    assert [document["name"] for document in documents] == ["cats.txt", "dogs.txt", new, old]
    assert documents[0] == {
        "name": "cats.txt",
        "doc_id": str(tmp_path / "docs" / "cats.txt"),
        "characters": 40,
        "chunks": 1,
        "unfinished": False,
    }
    shown = run("list", "--kb", "kb").stdout.splitlines()
    assert shown[0].split() == ["document", "characters", "chunks"]
    assert [line.split() for line in shown[1:3]] == [
        ["cats.txt", "40", "1"],
        ["dogs.txt", "54", "1"],
    ]
    assert shown[3].startswith(new)
    assert len({len(line) for line in shown}) == 1  # numbers stand below one another


def test_stats(run: Run) -> None:
    figures = json.loads(run("stats", "--kb", "kb", "--json").stdout)
    size = figures.pop("bytes")
    assert size >= Path("kb/chunks.db").stat().st_size
    assert figures == {
        "documents": 4,
        "chunks": 4,
        "characters": 132,
        "embeddings": "langchain_rse.embeddings:WordLlamaEmbeddings",
        "headers": False,
        "unfinished": [],
    }
    shown = dict(
        line.split(":", 1) for line in run("stats", "--kb", "kb").stdout.splitlines() if line
    )
    assert shown["characters"].strip() == "132"
    assert shown["bytes"].strip().replace(",", "").isdecimal()
    assert shown["embeddings"].strip() == figures["embeddings"]
    run("index", "docs", "--kb", "kb", "--headers")
    assert json.loads(run("stats", "--kb", "kb", "--json").stdout)["headers"] is True


def test_an_unfinished_document_is_shown(run: Run, tmp_path: Path) -> None:
    opened = KnowledgeBase.existing(Path("kb"))

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("the power went out")

    (tmp_path / "cow.txt").write_text("Cows graze.", encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(opened.vectorstore.embeddings), "embed_documents", fail)
        result = run("index", "cow.txt", "--kb", "kb")
    assert result.exit_code == 2
    assert "RuntimeError: the power went out" in result.stderr
    assert "Traceback" not in result.stderr
    cow = str(tmp_path / "cow.txt")
    assert json.loads(run("stats", "--kb", "kb", "--json").stdout)["unfinished"] == [cow]
    assert f"unfinished:      {cow}" in run("stats", "--kb", "kb").stdout
    assert "cow.txt (unfinished" in run("list", "--kb", "kb").stdout
    assert run("remove", "cow", "--kb", "kb").exit_code == 0
    assert json.loads(run("stats", "--kb", "kb", "--json").stdout)["unfinished"] == []


def test_remove(run: Run, tmp_path: Path) -> None:
    cats, old = tmp_path / "docs" / "cats.txt", tmp_path / "docs" / "old" / "fish.txt"
    for names_given, message in [
        (["cats", "cows"], "no document 'cows'"),
        (["cats", "fish"], "'fish' may be any of"),
    ]:
        result = run("remove", *names_given, "--kb", "kb")
        assert (result.exit_code, result.stdout) == (2, "")
        assert message in result.stderr
    assert len(json.loads(run("list", "--kb", "kb", "--json").stdout)) == 4

    result = run("remove", "cats", "docs/old/fish.txt", cats, "--kb", "kb")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.splitlines() == [f"removed {cats}", f"removed {old}"]
    assert cats.exists()
    remaining = json.loads(run("list", "--kb", "kb", "--json").stdout)
    assert [document["name"] for document in remaining] == ["dogs.txt", "fish.txt"]
    assert "cats.txt" not in names(segments(run, "do cats sleep", "--penalty", 0))


def doc_ids(run: Run) -> set[str]:
    documents = json.loads(run("list", "--kb", "kb", "--json").stdout)
    return {document["doc_id"] for document in documents}


def test_prune_removes_what_is_gone_from_the_folder(run: Run, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "cow.txt").write_text("Cows graze.", encoding="utf-8")
    assert run("index", "elsewhere", "--kb", "kb").exit_code == 0
    before = doc_ids(run)
    cats = tmp_path / "docs" / "cats.txt"
    cats.unlink()
    (tmp_path / "elsewhere" / "cow.txt").unlink()

    told = run("index", "docs", "--kb", "kb")
    assert told.exit_code == 0, told.stderr
    assert f"\n1 document no longer there, which --prune removes: {cats}\n" in told.stdout
    assert doc_ids(run) == before

    pruned = run("index", "docs", "--kb", "kb", "--prune")
    assert pruned.exit_code == 0, pruned.stderr
    assert f"\nremoved {cats}\n" in pruned.stdout
    assert doc_ids(run) == before - {str(cats)}  # another folder's documents stay
    assert "no longer there" not in run("index", "docs", "--kb", "kb").stdout


def test_half_an_emoji_in_a_question(run: Run) -> None:
    half = "\ud83d"
    asked = run("query", f"cats {half}", "--kb", "kb", "--json")
    assert asked.exit_code == 0, asked.stderr
    assert asked.stdout == run("query", "cats \ufffd", "--kb", "kb", "--json").stdout
    assert run("query", f"cats {half}", "--kb", "kb", "--report", "a.html").exit_code == 0
    compared = run("compare", f"cats {half}", "--kb", "kb", "--html", "b.html")
    assert compared.exit_code == 0, compared.stderr


def test_prune_names_what_it_keeps_of_a_folder_that_was_moved(run: Run, tmp_path: Path) -> None:
    before = doc_ids(run)
    (tmp_path / "docs").rename(tmp_path / "moved")
    result = run("index", "moved", "--kb", "kb", "--prune")
    assert result.exit_code == 0, result.stderr
    assert (
        f"4 documents kept whose files are gone from other folders: {min(before)}" in result.stdout
    )
    assert doc_ids(run) > before
    run("remove", *before, "--kb", "kb")
    assert "other folders" not in run("index", "moved", "--kb", "kb", "--prune").stdout


def test_prune_keeps_what_cannot_be_read(run: Run, tmp_path: Path) -> None:
    before = doc_ids(run)
    (tmp_path / "docs" / "cats.txt").write_bytes(b"a\0b")
    result = run("index", "docs", "--kb", "kb", "--prune")
    assert (result.exit_code, "cats.txt: it is not a text file" in result.stderr) == (1, True)
    assert doc_ids(run) == before
    # A share that is not mounted is an empty folder.
    for path in (tmp_path / "docs").rglob("*.txt"):
        path.unlink()
    result = run("index", "docs", "--kb", "kb", "--prune")
    assert (result.exit_code, "no files of a known kind" in result.stderr) == (1, True)
    assert doc_ids(run) == before


def test_check(run: Run, tmp_path: Path) -> None:
    result = run("check", "--kb", "kb")
    assert (result.exit_code, result.stdout) == (0, "4 documents, 4 chunks: nothing wrong\n")

    opened = KnowledgeBase.existing(tmp_path / "kb")
    vectors = opened.vectorstore.get()["ids"]
    opened.vectorstore.delete(vectors[:1])
    result = run("check", "--kb", "kb", "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["problems"] == {"vectors": 1}

    result = run("check", "--kb", "kb", "--repair")
    assert result.exit_code == 0
    assert "repaired: vectors that are missing" in result.stdout
    assert run("check", "--kb", "kb").exit_code == 0


# Asking


def test_options_of_a_query(run: Run) -> None:
    everything = segments(run, "do fish swim", "--penalty", 0, "--order", "relevance")
    assert len(everything) > len(segments(run, "do fish swim", "--penalty", 0.95))
    scores = [segment["metadata"]["relevance_score"] for segment in everything]
    assert scores == sorted(scores, reverse=True)
    assert len(segments(run, "do fish swim", "--preset", "precision", "--k", 1)) == 1
    wrong = run("query", "fish", "--kb", "kb", "--preset", "best")
    assert wrong.exit_code == 2
    assert "balanced, precision" in wrong.stderr
    for option in (("--penalty", 2), ("--hybrid", -1), ("--order", "size"), ("--k", 0)):
        assert run("query", "fish", "--kb", "kb", *option).exit_code == 2


def test_filters(run: Run, tmp_path: Path) -> None:
    cats = str(tmp_path / "docs" / "cats.txt")
    assert names(segments(run, "fish", "--filter", f"source={cats}", "--penalty", 0)) == [
        "cats.txt"
    ]
    assert segments(run, "fish", "--filter", f"source={cats}", "--filter", "year=2024") == []
    # As `remove` finds documents.
    for name in ("cats.txt", "cats", "docs/cats.txt"):
        found = segments(run, "fish", "--filter", f"source={name}", "--penalty", 0)
        assert names(found) == ["cats.txt"]
    for name, message in [("cows.txt", "no document 'cows.txt'"), ("fish.txt", "may be any of")]:
        result = run("query", "fish", "--kb", "kb", "--filter", f"source={name}")
        assert (result.exit_code, message in result.stderr) == (2, True)
    ours = run("query", "fish", "--kb", "kb", "--filter", "chunk_index=0")
    assert ours.exit_code == 2
    assert "the filter names chunk_index" in ours.stderr
    both = ("--filter", "a=1", "--filter", "b=2", "--hybrid", 0.5)
    assert "only one is allowed with --hybrid" in run("query", "fish", "--kb", "kb", *both).stderr
    wrong = run("query", "fish", "--kb", "kb", "--filter", "source")
    assert wrong.exit_code == 2
    assert "'source' is not NAME=VALUE" in wrong.stderr


def test_the_search_finds_nearly_all_of_the_best_chunks(run: Run) -> None:
    assert segments(run, "do cats sleep")
    store = KnowledgeBase.existing(Path("kb")).vectorstore
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of Chroma, about embedding functions
        configuration = store._client.get_collection("chunks").configuration
    expected = {"space": "cosine", "ef_search": 400, "max_neighbors": 32, "ef_construction": 200}
    assert configuration["hnsw"].items() >= expected.items()


def test_a_knowledge_base_with_another_search_stays_as_it_is(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain: Any = {"hnsw": {"space": "cosine"}}
    with monkeypatch.context() as patch:
        patch.setattr("langchain_rse.cli.knowledge_base._SEARCH", plain)
        assert run("index", "docs", "--kb", "old").exit_code == 0
    assert run("index", "docs", "--kb", "old").exit_code == 0
    result = run("query", "do cats sleep", "--kb", "old", "--json")
    assert "cats.txt" in result.stdout


def test_hybrid_searches_the_full_text_index(run: Run, tmp_path: Path) -> None:
    first = run("query", "strangers", "--kb", "kb", "--hybrid", 0.5, "--json")
    assert first.exit_code == 0, first.stderr
    assert first.stderr == ""
    (best, *_) = json.loads(first.stdout)
    assert best["metadata"]["rse"]["chunks"][0]["lexical_rank"] == 0
    (tmp_path / "cow.txt").write_text("Cows graze on zymurgy.", encoding="utf-8")
    run("index", "cow.txt", "--kb", "kb")
    again = run("query", "zymurgy", "--kb", "kb", "--hybrid", 1, "--json")
    assert again.stderr == ""
    (best,) = json.loads(again.stdout)
    assert best["metadata"]["rse"]["chunks"][0]["lexical_rank"] == 0


def test_tuned_settings_are_used(run: Run, tmp_path: Path) -> None:
    questions = [
        {"question": question, "evidence": [{"doc_id": name, "start": 0, "end": 20}]}
        for question, name in [("do cats sleep", "cats"), ("who guards", "dogs")]
    ]
    lines = "".join(f"{json.dumps(question)}\n" for question in questions)
    (tmp_path / "questions.jsonl").write_text(lines, encoding="utf-8")
    evaluate = ("evaluate", "--kb", "kb", "--questions", "questions.jsonl", "--json")
    result = run(*evaluate, "--penalty", 0.1, "--tune", 3, "--save-config", "tuned.json")
    assert result.exit_code == 0, result.stderr
    changes = json.loads(result.stdout)["tuning"]["changes"]
    saved = json.loads(Path("tuned.json").read_text(encoding="utf-8"))
    assert saved | changes == saved
    assert saved["irrelevant_chunk_penalty"] == changes.get("irrelevant_chunk_penalty", 0.1)

    Path("tuned.json").write_text(json.dumps({"irrelevant_chunk_penalty": 0.95}), encoding="utf-8")
    few = segments(run, "fish", "--config", "tuned.json")
    assert len(few) < len(segments(run, "fish", "--config", "tuned.json", "--penalty", 0))
    for options in (("--config", "tuned.json"), ("--preset", "precision"), ("--penalty", 0.95)):
        assert run(*evaluate, *options).exit_code == 0
    for command in (("query", "fish", "--kb", "kb"), evaluate):
        assert run(*command, "--config", "tuned.json", "--preset", "precision").exit_code == 2
    assert "--tune" in run(*evaluate, "--save-config", "other.json").stderr
    assert not Path("other.json").exists()


# How a knowledge base was made


def test_a_knowledge_base_keeps_its_embedding_model(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "eight_dimensions.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.setattr(sys, "path", list(sys.path))
    result = run("index", "docs", "--kb", "own", "--embeddings", "eight_dimensions:Eight")
    assert result.exit_code == 0, result.stderr
    assert "embedded 4 new chunks into own" in result.stdout
    for options in ((), ("--embeddings", "eight_dimensions:Eight")):
        again = run("index", "docs", "--kb", "own", *options)
        assert "embedded 0 new chunks" in again.stdout, again.stderr
    answer = run("query", "Fish swim in ponds.", "--kb", "own", "--k", 1)
    assert "Fish swim in ponds." in answer.stdout
    assert "eight_dimensions:Eight" in run("stats", "--kb", "own").stdout

    other = run("index", "docs", "--kb", "kb", "--embeddings", "eight_dimensions:Eight")
    assert other.exit_code == 2
    assert "made with --embeddings langchain_rse.embeddings:WordLlamaEmbeddings" in other.stderr
    assert "another --kb" in other.stderr
    wrong = run("index", "docs", "--kb", "new", "--embeddings", "eight_dimensions:Nine")
    assert wrong.exit_code == 2
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("content", [None, "", '{"colour": 1}', "[1]"])
def test_a_knowledge_base_without_settings(run: Run, content: str | None) -> None:
    if content is None:
        Path("kb/settings.json").unlink()
    else:
        Path("kb/settings.json").write_text(content, encoding="utf-8")
    commands = (("query", "fish"), ("list",), ("stats",), ("remove", "cats"), ("index", "docs"))
    for command in commands:
        result = run(*command, "--kb", "kb")
        assert (result.exit_code, result.stdout) == (2, "")
        assert "settings.json" in result.stderr
        assert "Index the files again, into another folder" in result.stderr


# Messages


@pytest.fixture
def levels() -> Iterator[None]:
    """Fails if a command changes the loggers of the process, or its warnings."""
    loggers = [logging.getLogger(name) for name in ("langchain_rse", "")]
    before = [(logger.level, list(logger.handlers)) for logger in loggers], warnings.showwarning
    yield
    assert ([(logger.level, logger.handlers) for logger in loggers], warnings.showwarning) == before


@pytest.mark.usefixtures("levels")
@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--max-context-length", 10], "exceed --max-context-length 10: "),
        (["--penalty", 1], ", is below --penalty 1.0."),
        (["--filter", "page=3"], "No text in the knowledge base has --filter page=3."),
        (["--score-floor", 0], "Nothing in the documents is about this."),
    ],
)
def test_an_empty_answer_says_why(run: Run, options: list[object], reason: str) -> None:
    arguments = ["query", "do cats sleep", "--kb", "kb", *options]
    result = run(*arguments)
    assert (result.exit_code, result.stderr) == (1, "")
    assert reason in result.stdout
    assert len(result.stdout.splitlines()) == 1
    in_json = run(*arguments, "--json")
    assert (in_json.exit_code, in_json.stdout) == (1, "[]\n")
    assert reason in in_json.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["query", " "], "QUESTION: it is empty"),
        (["compare", ""], "QUESTION: it is empty"),
        (["query", "cats", "--preset", "exact"], "--preset: 'exact' is none of balanced, "),
        (["query", "cats", "--order", "best"], "'--order'"),
        (["query", "cats", "--score-floor", "nan"], "--score-floor: 'nan' is neither a number"),
        (
            ["query", "cats", "--hybrid", 0.2, "--filter", "a=1", "--filter", "b=2"],
            "--filter: only one is allowed with --hybrid",
        ),
    ],
)
def test_options_that_cannot_be_used(run: Run, arguments: list[object], message: str) -> None:
    result = run(*arguments, "--kb", "kb")
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr


def test_a_comparison_without_segments_names_options(run: Run) -> None:
    result = run("compare", "do cats sleep", "--kb", "kb", "--max-context-length", 10)
    assert "No segments: " in result.stdout
    assert "exceed --max-context-length 10: " in result.stdout


def test_messages_leave_names_of_documents_as_they_are(run: Run) -> None:
    Path("docs/max_context_length.txt").write_text("The k=3 of max_context_length=5.", "utf-8")
    run("index", "docs", "--kb", "kb")
    shown = run("query", "k=3 of max_context_length=5", "--kb", "kb", "--k", 1).stdout
    assert "\nThe k=3 of max_context_length=5.\n" in shown
    assert "/docs/max_context_length.txt\n" in shown
    missing = run("inspect", "max_context_length=5", "--kb", "kb")
    assert missing.stderr == "there is no document 'max_context_length=5'\n"


@pytest.mark.usefixtures("levels")
@pytest.mark.filterwarnings("default")
def test_warnings_are_lines(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def warn(*_: object, **__: object) -> list[str]:
        for number in range(15):
            warnings.warn(f"text {number} is long", UserWarning, stacklevel=1)
            warnings.warn("twice", UserWarning, stacklevel=1)
        return []

    monkeypatch.setattr("langchain_rse.retriever.RSERetriever.add_documents", warn)
    result = run("index", "docs", "--kb", "kb")
    assert result.exit_code == 0
    lines = result.stderr.splitlines()
    assert lines[:3] == ["warning: text 0 is long", "warning: twice", "warning: text 1 is long"]
    assert len(lines) == 11
    assert lines[-1] == "... and 6 more"


@pytest.mark.usefixtures("levels")
def test_damaged_pdfs_do_not_fill_the_screen(run: Run, tmp_path: Path) -> None:
    (tmp_path / "broken.pdf").write_bytes(b"%PDF-1.4 and no more")
    result = run("index", "broken.pdf", "--kb", "kb")
    assert result.exit_code == 1
    assert len(result.stderr.splitlines()) == 2


@pytest.mark.skipif(sys.platform == "win32", reason="fcntl.flock is not there")
@pytest.mark.parametrize("command", [["index", "docs"], ["remove", "cats"]], ids=" ".join)
def test_a_command_that_writes_waits_for_another_one(
    run: Run, command: list[str], tmp_path: Path
) -> None:
    """And goes on when the other one has ended, even by SIGKILL."""
    import fcntl

    holder = "import fcntl, sys, time; f = open('kb/lock', 'ab'); fcntl.flock(f, fcntl.LOCK_EX)"
    holder += "; print('locked', flush=True); time.sleep(600)"
    log = tmp_path / "log"
    program = [sys.executable, "-m", "langchain_rse", *command, "--kb", "kb"]
    with (
        subprocess.Popen([sys.executable, "-c", holder], stdout=subprocess.PIPE) as other,
        log.open("wb") as output,
    ):
        assert other.stdout is not None
        assert other.stdout.readline() == b"locked\n"
        with subprocess.Popen(program, stdout=output, stderr=subprocess.STDOUT) as waiting:
            while b"waiting" not in log.read_bytes():
                assert waiting.poll() is None, log.read_text()
                time.sleep(0.02)
            # Who only reads does not wait.
            assert run("query", "Do cats sleep?", "--kb", "kb").exit_code == 0
            assert run("list", "--kb", "kb").exit_code == 0
            assert waiting.poll() is None
            other.kill()
            assert waiting.wait() == 0, log.read_text()
    assert "Another command is writing to kb; waiting for its end" in log.read_text()
    with (tmp_path / "kb" / "lock").open("ab") as file:  # nobody holds it any more
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


@pytest.mark.parametrize("name", ["kb%201", "kb?1", "kb#1"])
def test_a_folder_may_have_any_name(run: Run, name: str) -> None:
    assert run("index", "docs/cats.txt", "--kb", name).exit_code == 0
    assert (Path(name) / "chunks.db").exists()
    assert "cats.txt" in run("list", "--kb", name).stdout


def test_a_report_needs_its_folder_before_the_query(run: Run) -> None:
    result = run("query", "cats", "--kb", "kb", "--report", "missing/report.html")
    assert result.exit_code == 2
    assert "there is no folder missing" in result.stderr


def test_checking_makes_no_folder(run: Run) -> None:
    for options in ([], ["--repair"]):
        assert run("check", "--kb", "another", *options).exit_code == 2
    assert not Path("another").exists()


def test_saved_settings_are_an_object(run: Run) -> None:
    Path("saved.json").write_text("[1]", encoding="utf-8")
    result = run("query", "cats", "--kb", "kb", "--config", "saved.json")
    assert result.exit_code == 2
    assert "saved.json is not a JSON object of settings" in result.stderr
