"""Processes stopped for more than an hour (SIGSTOP), which go on later without knowing.

While one is stopped, another removes what it has announced, and restores the version that it was
replacing. Then the first goes on, and ends or is killed. With SOAK=n in the environment, there are
n times as many.
"""

from __future__ import annotations

import os
import random
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.integration_tests.killing import Life, Operation, Pair, Setup
from tests.soaking import SOAK
from tests.unit_tests.writes import AN_HOUR_LATER

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")

STOPS = 3 * SOAK
BESIDE = "harbor pilot"
SEED = int(os.environ.get("SEED") or 1)

# Chroma in files is for one process at a time.
PAIRS = [
    Pair("SQLite", "pgvector", "sqlite:///{folder}/records.db"),
    Pair("PostgreSQL", "pgvector", "{postgres}"),
]


class Stop(NamedTuple):
    """A call that is stopped."""

    doc_id: str
    former: str  # the text that the document has, and that the other process restores
    new: str | None  # the one that the call writes; None if it deletes the document
    write: int  # number of the write at which it is stopped
    beside: str  # id of a document that stays as it is


def texts(number: int) -> tuple[str, str]:
    """A text, and one that shares a chunk with it."""
    lines = [f"harbor ship number {number}", f"garden rose number {number}", "tide rope cargo"]
    return "\n".join(lines), "\n".join(["anchor dock", *lines[1:], f"salt spade {number}"])


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_stopped_processes(pair: Pair, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    postgres = request.getfixturevalue("postgres_url")
    setup = Setup(pair, tmp_path, postgres)
    chance = random.Random(SEED)  # noqa: S311 - reproducible
    other = Life(setup._replace(lifetime=AN_HOUR_LATER))
    name = f"{tmp_path.name} {pair.name}"
    beside = f"another document of {name}"
    other.do("make", Operation("add", {beside: BESIDE}))
    counts: Counter[str] = Counter()
    for number in range(STOPS):
        write = chance.randint(1, 9)
        first, new = texts(number)
        stop = Stop(f"document {number} of {name}", first, new, write, beside)
        if chance.random() < 0.3:
            stop = stop._replace(new=None)
        is_killed = chance.random() < 0.5
        killed_after = chance.random() * 0.1 if is_killed else None
        try:
            was_stopped = stop_once(setup, other, stop, killed_after)
        except BaseException:
            print(f"{pair.name}, seed {SEED}, stop {number}: {stop}, {killed_after}")
            raise
        counts["stopped" if was_stopped else "ended before"] += 1
        if was_stopped:
            counts["killed" if is_killed else "went on"] += 1
    other.end()
    print(f"{pair.name}, seed {SEED}: {dict(counts)}")
    assert counts["stopped"]


def stop_once(setup: Setup, other: Life, stop: Stop, killed_after: float | None) -> bool:
    """Make one stop; return whether it came before the end of the call."""
    doc_id, former, new, write, beside = stop
    restore = Operation("add", {doc_id: former})
    delete = Operation("delete", {doc_id: ""})
    other.do("make", restore)
    stopped = Life(setup)
    stopped.begin("stop", delete if new is None else Operation("add", {doc_id: new}), write)
    was_stopped = stopped.wait_until_stopped()
    if was_stopped:
        other.do("make", restore)
        other.do("look", {doc_id: [former], beside: [BESIDE]}, "anything")
        stopped.wake(killed_after=killed_after)
        other.do("look", {doc_id: [former, new], beside: [BESIDE]}, "anything")
    if killed_after is None or not was_stopped:
        stopped.end()
    # Whatever the dead have begun is removed, and nothing else is left, nor comes back.
    text = f"the last text of {doc_id}\nharbor garden"
    other.do("make", Operation("add", {doc_id: text}))
    other.do("look", {doc_id: [text], beside: [BESIDE]}, "anything")
    other.do("make", delete)
    other.do("repair")
    other.do("look", {doc_id: [None], beside: [BESIDE]}, "nothing")
    return was_stopped
