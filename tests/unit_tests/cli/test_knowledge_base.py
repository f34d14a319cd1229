"""The folder of a knowledge base: its settings and its lock."""

from __future__ import annotations

import fcntl
import threading
from pathlib import Path

import pytest

from langchain_rse.cli.knowledge_base import KnowledgeBase, only_writer


@pytest.mark.parametrize("content", ["", "[]", '{"model": 3}', "{}", "\0"], ids=range(5))
def test_unreadable_settings(tmp_path: Path, content: str) -> None:
    (tmp_path / "settings.json").write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=r"no readable settings\.json"):
        KnowledgeBase.existing(tmp_path)


def test_a_command_that_writes_waits_for_another_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entered = threading.Event()

    def write() -> None:
        with only_writer(tmp_path):
            entered.set()

    writer = threading.Thread(target=write)
    with (tmp_path / "lock").open("ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        writer.start()
        assert not entered.wait(0.3)
    # A file that is closed, also by SIGKILL, is not locked any more.
    assert entered.wait(5)
    writer.join()
    assert "Another command is writing" in capsys.readouterr().err
