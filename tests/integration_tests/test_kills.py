"""Processes killed while they write: what is left is whole, and the same call finishes the job.

Each kill is seeded, and counted as before the first write of the call, within its writes, or after
the last one. With SOAK=n in the environment, there are n times as many.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.integration_tests.killing import Kills, Pair, Setup
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


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_killed_processes(pair: Pair, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    needed = pair.vectorstore == "pgvector"
    setup = Setup(pair, tmp_path, request.getfixturevalue("postgres_url") if needed else "")
    kills = Kills(setup, SEED)
    kills.run(KILLS * SOAK)
    print(f"{pair.name}, seed {SEED}: {dict(kills.counts)}")
    assert kills.counts["within"]
