"""Comparing and setting on SQLite, and what is durable then."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from langchain_rse import SQLDocStore
from tests.unit_tests import fakes
from tests.unit_tests.stores.changing_suite import NEW, OLD, ChangingSuite

way = fakes.way


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


def test_what_is_written_is_synced(tmp_path: Path) -> None:
    """A power cut cannot be tried; SQLite says that with FULL, every commit syncs its log."""
    store = SQLDocStore(f"sqlite:///{tmp_path}/chunks.db")
    levels: list[tuple[str, int]] = []

    def note(connection: Any, _: object, statement: str, *__: object) -> None:
        verb = statement.split(maxsplit=1)[0]
        if verb in {"INSERT", "DELETE", "SELECT"}:
            plain = connection.connection.dbapi_connection
            (level,) = plain.execute("PRAGMA synchronous").fetchone()
            levels.append((verb, level))

    store.mset([("a", OLD)])  # creates the table
    sa.event.listen(sa.Engine, "before_cursor_execute", note)
    try:
        store.compare_and_set([("a", OLD, NEW), ("b", None, NEW)])
        store.compare_and_set([("a", NEW, None)])
        store.mset([("a", OLD)])
        store.mget(["a"])
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", note)
    assert set(levels) == {("SELECT", 2), ("INSERT", 2), ("DELETE", 2)}


def test_a_change_waits_for_another_writer(tmp_path: Path) -> None:
    """And reads only then: what is read first cannot be written any more, says SQLite."""
    url = f"sqlite:///{tmp_path}/chunks.db"
    store = SQLDocStore(
        url, lexical=False, engine_kwargs={"connect_args": {"timeout": 0.05}}
    )  # other programs may write to it
    store.mset([("a", OLD)])
    other = sqlite3.connect(tmp_path / "chunks.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(sa.exc.OperationalError, match="is locked"):
        store.compare_and_set([("a", OLD, NEW)])
    other.execute("DELETE FROM langchain_rse")
    other.execute("COMMIT")
    other.close()
    assert store.compare_and_set([("a", OLD, NEW), ("a", None, NEW)]) == [False, True]
