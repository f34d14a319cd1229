"""Processes killed while they write: what is left is whole, and the same call finishes the job.

Each kill is seeded, and counted as before the first write of the call, within its writes, or after
the last one. With SOAK=n in the environment, there are n times as many.
"""

from __future__ import annotations

import itertools
import os
import sys
from pathlib import Path

import pytest

from tests.integration_tests.killing import BROKEN, Kills, Pair, Setup
from tests.soaking import SOAK

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")

KILLS = 6
SEED = int(os.environ.get("SEED") or 1)

SQLITE = "sqlite:///{folder}/records.db"
POSTGRES = "{postgres}"
PAIRS = [
    Pair("Chroma and SQLite", "chroma", SQLITE),
    Pair("Chroma and SQLite, async, full text", "chroma", SQLITE, lexical=True, is_async=True),
    Pair("PostgreSQL, full text", "pgvector", POSTGRES, lexical=True),
    Pair("PostgreSQL, async", "pgvector", POSTGRES, is_async=True),
]

# What the next process says of stores that are not whole.
FINDINGS = ("failed AssertionError", "failed MissingRecordError", "failed CorruptRecordError")


def setup_of(pair: Pair, folder: Path, request: pytest.FixtureRequest, broken: str = "") -> Setup:
    needed = "pgvector" in pair.vectorstore
    return Setup(pair, folder, request.getfixturevalue("postgres_url") if needed else "", broken)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_killed_processes(pair: Pair, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    kills = Kills(setup_of(pair, tmp_path, request), SEED)
    kills.run(KILLS * SOAK)
    print(f"{pair.name}, seed {SEED}: {dict(kills.counts)}")
    assert kills.counts["within"]


@pytest.mark.parametrize("broken", BROKEN)
def test_broken_protocols_are_found(
    broken: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """So that the test above can fail."""
    tried = 0
    for seed in itertools.count():
        folder = tmp_path / str(seed)
        folder.mkdir()
        kills = Kills(setup_of(PAIRS[0], folder, request, broken), seed)
        found = ""
        try:
            kills.run(20)
        except AssertionError as error:
            found = str(error)
        tried += sum(kills.counts.values())
        if found:
            print(f"{broken}: found after {tried} kills: {found}")
            assert found.startswith(FINDINGS)
            return
        assert tried < 60, f"{tried} kills have not shown what is broken"
