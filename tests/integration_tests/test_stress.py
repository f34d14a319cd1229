"""Many writers and readers of the same documents: processes, threads and tasks at the same time.

In the end, one pass that adds all documents leaves all of them whole, and nothing else. With SOAK=n
in the environment, each writer makes n times as many calls.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.integration_tests.killing import Bench, Life, Operation, Pair, Setup, new_text
from tests.integration_tests.processes import process_context
from tests.soaking import SOAK

SEED = int(os.environ.get("SEED") or 1)
CALLS = 6 * SOAK
DOCUMENTS, VERSIONS = 5, 3

Texts = dict[str, list[str]]


class Work(NamedTuple):
    """What one process does: so many writers in threads or tasks, and a reader if it has one."""

    setup: Setup
    texts: Texts
    writers: int
    readers: int
    seed: int


def all_texts(name: str) -> Texts:
    """A few versions of each document, with lines in common."""
    chance = random.Random(f"texts {SEED}")  # noqa: S311 - reproducible
    found: Texts = {}
    for number in range(DOCUMENTS):
        doc_id, old = f"document {number} of {name}", None
        found[doc_id] = []
        for version in range(VERSIONS):
            old = new_text(chance, doc_id, version, old)
            found[doc_id].append(old)
    return found


def next_call(chance: random.Random, texts: Texts) -> Operation:
    some = chance.sample(list(texts), chance.randint(1, 3))
    if chance.random() < 0.2:
        return Operation("delete", dict.fromkeys(some, ""))
    return Operation("add", {doc_id: chance.choice(texts[doc_id]) for doc_id in some})


def work(work: Work, results: Any) -> None:
    """Put the counts of what was done, or the first error, into a queue."""
    try:
        results.put(dict(asyncio.run(_work(Bench(work.setup), work))))
    except BaseException as error:  # noqa: BLE001 - the test raises it
        results.put(f"{type(error).__name__}: {error}")


async def _work(bench: Bench, work: Work) -> Counter[str]:
    counts: Counter[str] = Counter()
    over = asyncio.Event()

    async def run(call: Coroutine[Any, Any, None]) -> None:
        """Make a call: of async stores on this loop, of others in a thread."""
        await (call if work.setup.pair.is_async else asyncio.to_thread(asyncio.run, call))

    async def write(number: int) -> None:
        chance = random.Random(f"{work.seed} {number}")  # noqa: S311 - reproducible
        for _ in range(CALLS):
            operation = next_call(chance, work.texts)
            await run(bench.make(operation))
            counts[operation.kind] += 1

    async def read() -> None:
        while not over.is_set():
            await run(_ask(bench, work, counts))

    readers = [asyncio.ensure_future(read()) for _ in range(work.readers)]
    try:
        await asyncio.gather(*(write(number) for number in range(work.writers)))
    finally:
        over.set()
    await asyncio.gather(*readers)
    return counts


async def _ask(bench: Bench, work: Work, counts: Counter[str]) -> None:
    """Passages of one text of each document, or nothing of it."""
    await bench.ask({doc_id: [*some, None] for doc_id, some in work.texts.items()})
    counts["queries"] += 1


CASES = [
    (Pair("PostgreSQL", "pgvector", "{postgres}"), 2, 2),
    (Pair("PostgreSQL, async", "pgvector", "{postgres}", is_async=True), 2, 2),
    (Pair("Chroma and SQLite", "chroma", "sqlite:///{folder}/records.db"), 1, 3),
    (
        Pair("Chroma and SQLite, async", "chroma", "sqlite:///{folder}/records.db", is_async=True),
        1,
        3,
    ),
]


@pytest.mark.parametrize(
    ("pair", "processes", "writers"),
    CASES,
    ids=lambda one: one.name if isinstance(one, Pair) else "",
)
def test_writers_and_readers_at_the_same_time(
    pair: Pair, processes: int, writers: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    needed = pair.vectorstore == "pgvector"
    setup = Setup(pair, tmp_path, request.getfixturevalue("postgres_url") if needed else "")
    texts = all_texts(tmp_path.name + pair.name)
    first = Operation("add", {doc_id: some[0] for doc_id, some in texts.items()})
    _in_a_process(setup, ("make", first))
    context = process_context()
    results = context.Queue()
    running = [
        context.Process(
            target=work, args=(Work(setup, texts, writers, 1, SEED * 1000 + number), results)
        )
        for number in range(processes)
    ]
    for one in running:
        one.start()
    counts: Counter[str] = Counter()
    ended = [results.get(timeout=600 * SOAK) for _ in running]
    for one in running:
        one.join()
    for found in ended:
        assert isinstance(found, dict), f"seed {SEED}: {found}"
        counts.update(found)
    print(f"{pair.name}, seed {SEED}: {dict(counts)}")

    whole = {doc_id: some[-1] for doc_id, some in texts.items()}
    allowed = {doc_id: [text] for doc_id, text in whole.items()}
    _in_a_process(setup, ("make", Operation("add", whole)), ("look", allowed, "nothing"))


def _in_a_process(setup: Setup, *tasks: tuple[Any, ...]) -> None:
    """Chroma on disk is for one process at a time, so this one never opens it."""
    life = Life(setup)
    for task in tasks:
        life.do(*task)
    life.end()
