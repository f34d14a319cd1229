"""The folder of a knowledge base: its settings and its lock."""

from __future__ import annotations

import fcntl
import sys
import threading
from pathlib import Path

import pytest

from langchain_rse.cli.knowledge_base import KnowledgeBase, only_writer


@pytest.mark.parametrize("content", ["", "[]", '{"model": 3}', "{}", "\0"], ids=range(5))
def test_unreadable_settings(tmp_path: Path, content: str) -> None:
    (tmp_path / "settings.json").write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=r"no readable settings\.json"):
        KnowledgeBase.existing(tmp_path)


def test_a_command_that_writes_waits_for_another_one(tmp_path: Path) -> None:
    entered = threading.Event()

    def write() -> None:
        with only_writer(tmp_path):
            entered.set()

    writer = threading.Thread(target=write)
    with (tmp_path / ".lock").open("ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        writer.start()
        assert not entered.wait(0.3)
    # A file that is closed, also by SIGKILL, is not locked any more.
    assert entered.wait(5)
    writer.join()


def test_a_name_in_a_knowledge_base_imports_nothing_from_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A knowledge base from somebody else may have a module beside it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    (tmp_path / "foreign_models.py").write_text(
        "import pathlib\npathlib.Path('it_ran').touch()\n", encoding="utf-8"
    )
    settings = '{"embeddings": "foreign_models:Model"}'
    (tmp_path / "settings.json").write_text(settings, encoding="utf-8")
    for opened in (KnowledgeBase.existing(tmp_path), KnowledgeBase.create(tmp_path)):
        with pytest.raises((ImportError, ValueError), match="No module named"):
            _ = opened.retriever
    assert not (tmp_path / "it_ran").exists()
    given = "foreign_models:Model"
    with pytest.raises(ValueError, match="has no attribute"), only_writer(tmp_path, given):
        _ = KnowledgeBase.create(tmp_path, given).retriever
    assert (tmp_path / "it_ran").exists()
