"""A SQLDocStore that is used before a fork, in one event loop after the other, and in bad times."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from langchain_core.documents import Document

from langchain_rse import SQLDocStore
from tests.integration_tests.stores import soon

FORK = """
import asyncio, os, sys
from langchain_core.documents import Document
from langchain_rse import SQLDocStore
def say(*words):  # in one piece, beside what other processes say
    os.write(1, (" ".join(map(str, words)) + chr(10)).encode())

store = SQLDocStore(sys.argv[1], table_name="forking")
store.mset([(f"{number}", Document(f"{number}")) for number in range(50)])
asyncio.run(store.amget(["1"]))  # the parent has connections of all kinds
store.mget(["1"])
connections = store._engine.pool.checkedin()

def work(key):
    for number in range(50):
        found = store.mget([f"{number}"]) + asyncio.run(store.amget([f"{number}"]))
        assert [each.page_content for each in found] == [f"{number}"] * 2, found
    store.mset([(key, Document(key))])

children = []
for child in range(3):
    if not (pid := os.fork()):
        try:
            work(f"child {child}")
            if sys.argv[1].startswith("sqlite"):
                say("written")
                sys.stdin.readline()  # until the parent has closed the file
                store.mset([(f"late {child}", Document(""))])
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    children.append(pid)
work("parent")
say("parent", store._engine.pool.checkedin() >= connections)
if sys.argv[1].startswith("sqlite"):
    store.close()
    say("closed")
say([os.waitpid(pid, 0)[1] for pid in children])
say(sorted(key for key in store.yield_keys() if len(key) > 2))
"""


def run_forks(url: str, lines: int) -> list[str]:
    """Run it; a child goes on when it is given a line."""
    with subprocess.Popen(
        [sys.executable, "-c", FORK, url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdin
            assert process.stdout
            said = [process.stdout.readline() for _ in range(lines)]
            output, errors = process.communicate("\n" * 3, timeout=60)
        finally:
            process.kill()
    assert errors == ""
    return [*said, *output.splitlines(keepends=True)]


def test_a_postgres_store_is_used_before_a_fork(postgres_url: str) -> None:
    assert run_forks(postgres_url, 0) == [
        "parent True\n",
        "[0, 0, 0]\n",
        "['child 0', 'child 1', 'child 2', 'parent']\n",
    ]


def test_a_sqlite_store_is_used_before_a_fork(tmp_path: Path) -> None:
    """A child that believes in the parent's locks would go on writing to a log that is removed."""
    said = run_forks(f"sqlite:///{tmp_path}/chunks.db", 5)
    assert sorted(said[:5]) == ["closed\n", "parent True\n", *["written\n"] * 3]
    assert said[5] == "[0, 0, 0]\n"
    expected = [f"{when} {child}" for when in ("child", "late") for child in range(3)]
    assert said[6] == f"{[*expected, 'parent']}\n"


def count_connections(watcher: sa.Engine) -> int:
    query = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'loops'"
    with watcher.connect() as connection:
        return int(connection.exec_driver_sql(query).scalar_one())


def test_event_loops_share_the_connections_of_the_pool(postgres_url: str) -> None:
    url = sa.make_url(postgres_url).update_query_dict({"application_name": "loops"})
    store = SQLDocStore(url, table_name="loops")
    watcher = sa.create_engine(postgres_url, isolation_level="AUTOCOMMIT")

    async def work() -> None:
        await asyncio.gather(*(store.amget([f"{number}"]) for number in range(3)))

    store.mget([])
    store.close()
    for _ in range(20):
        asyncio.run(work())
    assert soon(lambda: count_connections(watcher) <= 5)  # those of the pool
    store.close()
    assert soon(lambda: count_connections(watcher) == 0)
    watcher.dispose()


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"This is a text. " * 400, "not a database"), (None, "malformed")],
    ids=["text", "damaged"],
)
async def test_a_damaged_file_is_an_error_for_its_reader(
    tmp_path: Path, content: bytes | None, message: str
) -> None:
    path = tmp_path / "chunks.db"
    store = SQLDocStore(f"sqlite:///{path}")
    keys = [f"{number}" for number in range(200)]
    store.mset([(key, Document("text " * 500)) for key in keys])
    store.close()
    data = path.read_bytes()
    path.write_bytes(content or data[: 4096 * 3] + b"\x5a" * 4096 * 20 + data[4096 * 23 :])
    with pytest.raises(sa.exc.DatabaseError, match=message) as caught:
        store.mget(keys)
    assert str(path) in str(caught.value)
    with pytest.raises(sa.exc.DatabaseError, match=message):
        await store.amget(keys)


async def test_a_full_disk_is_an_error_for_its_reader(tmp_path: Path) -> None:
    """SQLite says the same if the file may not have more pages."""
    store = SQLDocStore(f"sqlite:///{tmp_path}/chunks.db")
    store.mset([("a", Document("text"))])

    store.close()

    def limit(connection: Any, _: object) -> None:
        connection.execute("PRAGMA max_page_count=10")

    sa.event.listen(store._engine, "connect", limit)
    many = [(f"{number}", Document("text " * 1_000)) for number in range(50)]
    with pytest.raises(sa.exc.OperationalError, match="is on a full disk; free some space"):
        store.mset(many)
    assert store.mget(["a", "1"]) == [Document("text"), None]
