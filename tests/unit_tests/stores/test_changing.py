"""Comparing and setting in docstores without a server, and what is durable then."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from langchain_core.documents import Document

from langchain_rse import CorruptRecordError, FileDocStore, SQLDocStore
from tests.unit_tests import fakes
from tests.unit_tests.stores.changing_suite import NEW, OLD, ChangingSuite, change, get

way = fakes.way
Way = fakes.Way


class TestSQLite(ChangingSuite):
    @pytest.fixture(params=["file", "memory"])
    def store(self, request: pytest.FixtureRequest, tmp_path: Path) -> SQLDocStore:
        return SQLDocStore(
            "sqlite://" if request.param == "memory" else f"sqlite:///{tmp_path}/chunks.db"
        )

    @pytest.fixture
    def spoil(self, store: SQLDocStore) -> Callable[[str, bytes], None]:
        def write(key: str, record: bytes) -> None:
            statement = sa.text("REPLACE INTO langchain_rse VALUES (:key, :value)")
            with store._engine.begin() as connection:
                connection.execute(statement, {"key": key, "value": record.decode()})

        return write


class TestFiles(ChangingSuite):
    @pytest.fixture
    def store(self, tmp_path: Path) -> FileDocStore:
        return FileDocStore(tmp_path / "chunks")

    @pytest.fixture
    def spoil(self, store: FileDocStore, tmp_path: Path) -> Callable[[str, bytes], None]:
        def write(key: str, record: bytes) -> None:
            store.mset([(key, OLD)])
            path = tmp_path / "chunks" / f"{key}=.json"
            assert path.read_bytes().startswith(b'{"page_content":"old"')
            path.write_bytes(record)

        return write


# SQLite


def test_what_is_written_is_synced(way: Way, tmp_path: Path) -> None:
    """A power cut cannot be tried; SQLite says that with FULL, every commit syncs its log."""
    store = SQLDocStore(f"sqlite:///{tmp_path}/chunks.db")
    levels: list[tuple[str, int]] = []

    def note(connection: Any, _: object, statement: str, *__: object) -> None:
        verb = statement.split(maxsplit=1)[0]
        if verb in {"INSERT", "DELETE", "SELECT"}:
            plain = connection.connection.dbapi_connection
            (level,) = plain.execute("PRAGMA synchronous").fetchone()
            levels.append((verb, level))

    way.call(store.mset, store.amset, [("a", OLD)])  # makes the table
    sa.event.listen(sa.Engine, "before_cursor_execute", note)
    try:
        change(way, store, ("a", OLD, NEW), ("b", None, NEW))
        change(way, store, ("a", NEW, None))
        way.call(store.mset, store.amset, [("a", OLD)])
        get(way, store, "a")
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", note)
    assert set(levels) == {("SELECT", 2), ("INSERT", 2), ("DELETE", 2)}


def test_a_change_waits_for_another_writer(way: Way, tmp_path: Path) -> None:
    """And reads only then: what is read first cannot be written any more, says SQLite."""
    store = SQLDocStore(f"sqlite:///{tmp_path}/chunks.db", timeout=0.05)
    store.mset([("a", OLD)])
    other = sqlite3.connect(tmp_path / "chunks.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(TimeoutError, match="stayed locked"):
        change(way, store, ("a", OLD, NEW))
    other.execute("DELETE FROM langchain_rse")
    other.execute("COMMIT")
    other.close()
    assert change(way, store, ("a", OLD, NEW), ("a", None, NEW)) == [False, True]


# Files


def test_keys_become_paths(way: Way, tmp_path: Path) -> None:
    store = FileDocStore(tmp_path / "chunks")
    keys = ["a", "a/b", "a/b/c", "a.json", "a.json/b", "A-_.9/...", ".hidden", "a/.hidden"]
    way.call(store.mset, store.amset, [(key, Document(key)) for key in keys])
    assert get(way, store, *keys) == [Document(key) for key in keys]
    assert sorted(store.yield_keys()) == sorted(keys)
    assert sorted(store.yield_keys(prefix="a/")) == ["a/.hidden", "a/b", "a/b/c"]
    assert sorted(store.yield_keys(prefix="a")) == sorted(key for key in keys if key[0] == "a")
    assert list(store.yield_keys(prefix="b/")) == []
    assert [path.name for path in tmp_path.iterdir()] == ["chunks"]
    store.mdelete(keys)
    left = [path.name for path in (tmp_path / "chunks").iterdir()]
    assert sorted(left) == ["lock=", "new="]  # no empty folders


@pytest.mark.parametrize(
    "key",
    [
        *("", "/", "/etc/passwd", "a/", "/a", "a//b", ".", "..", "../a", "a/../b", "a/..", "./a"),
        *("a b", "a\n", "a\x00", "é", "a\\b", "C:a", "a=.json", "a" * 201, "~", "a/b" * 9 + "/.."),
    ],
)
def test_keys_that_are_no_paths(way: Way, tmp_path: Path, key: str) -> None:
    store = FileDocStore(tmp_path / "chunks")
    for call in (
        lambda: get(way, store, "a", key),
        lambda: way.call(store.mset, store.amset, [("a", OLD), (key, OLD)]),
        lambda: way.call(store.mdelete, store.amdelete, ["a", key]),
        lambda: change(way, store, ("a", None, NEW), (key, None, NEW)),
    ):
        with pytest.raises(ValueError, match="FileDocStore takes keys of"):
            call()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("prefix", ["../", "/", "/etc/", "a/../../", "é/"])
def test_prefixes_do_not_leave_the_folder(tmp_path: Path, prefix: str) -> None:
    FileDocStore(tmp_path / "other").mset([("a", OLD)])
    store = FileDocStore(tmp_path / "chunks")
    store.mset([("a", OLD)])
    assert list(store.yield_keys(prefix=prefix)) == []


def test_left_over_files_are_not_records_and_are_removed(tmp_path: Path) -> None:
    store = FileDocStore(tmp_path / "chunks")
    store.mset([("a", OLD)])
    left = tmp_path / "chunks" / "new=" / "left"
    left.write_bytes(b"half")
    assert list(store.yield_keys()) == ["a"]
    store.compare_and_set([("a", OLD, NEW)])
    assert not left.exists()
    assert store.mget(["a"]) == [NEW]


def test_a_change_of_files_is_synced_before_it_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Contents first, then names; all that was written before is on the disk by then."""
    store = FileDocStore(tmp_path / "chunks")
    store.mset([("a", OLD)])
    seen: list[tuple[bool, int]] = []

    def sync() -> None:
        waiting = len(list((tmp_path / "chunks" / "new=").iterdir()))
        seen.append((store.mget(["a"]) == [NEW], waiting))

    monkeypatch.setattr(os, "sync", sync)
    assert store.compare_and_set([("a", OLD, NEW), ("b", OLD, NEW)]) == [True, False]
    assert seen == [(False, 1), (True, 0)]


WRITER = """
import itertools, sys
from langchain_core.documents import Document
from langchain_rse import FileDocStore
store = FileDocStore(sys.argv[1])
for number in itertools.count():
    record = Document(str(number) * 2_000, metadata={"number": number})
    store.mset([(f"k/{key}", record) for key in range(3)])
    (old,) = store.mget(["k/changed"])
    print(store.compare_and_set([("k/changed", old, record)])[0], flush=True)
"""


@pytest.mark.slow
def test_whenever_it_is_killed_each_record_is_old_or_new(tmp_path: Path) -> None:
    store = FileDocStore(tmp_path / "chunks")
    for kill in range(30):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path / "chunks")],
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout
            assert process.stdout.readline() == "True\n"
            time.sleep(0.0007 * kill)
            process.send_signal(signal.SIGKILL)
        records = store.mget([*(f"k/{key}" for key in range(3)), "k/changed"])
        for record in records:
            assert record  # one that is cut off is a CorruptRecordError
            assert record.page_content == str(record.metadata["number"]) * 2_000
        assert len(list(store.yield_keys())) == 4


def test_a_file_that_was_cut_off_is_an_error(tmp_path: Path) -> None:
    store = FileDocStore(tmp_path / "chunks")
    store.mset([("k/a", OLD)])
    (path,) = (tmp_path / "chunks" / "k").iterdir()
    for size in (0, 10, path.stat().st_size - 1):
        path.write_bytes(path.read_bytes()[:size])
        with pytest.raises(CorruptRecordError, match="'k/a'"):
            store.mget(["k/a"])
    assert str(tmp_path) in repr(store)
