"""Concurrent callers, the event loop, memory and growth, compared with the store alone.

The stores are Chroma on disk with a `SQLDocStore` on SQLite, then PostgreSQL for both
(`PGVectorStore` with an HNSW index, `SQLDocStore`), on a server that the script starts. The
retriever and the store alone take turns in one process. Nothing is downloaded.
Run from anywhere: ``python benchmarks/load.py [--chunks 5000] [--queries 320] [--rounds 4]``.
``--only`` runs some parts.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import gc
import itertools
import logging
import os
import platform
import random
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from data import CHUNK_SIZE, Corpus, read_corpus
from langchain_chroma import Chroma
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.vectorstores import VectorStore
from langchain_text_splitters import RecursiveCharacterTextSplitter
from timing import FETCH_K, make_chroma, make_pg, postgres_url, say, seconds_of

from langchain_rse import RSERetriever, SQLDocStore
from langchain_rse.embeddings import WordLlamaEmbeddings

CALLERS = (1, 8, 64)
# With this many callers on PostgreSQL: at least this share of the store's queries per second.
TARGET_CALLERS, TARGET_SHARE = 64, 0.7
TARGET_BLOCKED = 0.05
TARGET_GROWTH = 0.05
TICK = 0.001
PARTS = ("callers", "memory", "growth")
STORE, OURS = "store", "RSE"

Ask = Callable[[str], Awaitable[Any]]


class Pair(NamedTuple):
    """A vector store and a retriever over it."""

    name: str
    retriever: RSERetriever
    store: VectorStore


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=5_000, help="default 5,000")
    parser.add_argument("--queries", type=int, default=320, help="queries per round; default 320")
    parser.add_argument("--rounds", type=int, default=4, help="default 4")
    parser.add_argument("--memory", type=int, default=10_000, help="queries; default 10,000")
    parser.add_argument(
        "--growth", type=int, nargs="+", default=[1_000, 10_000, 100_000], help="documents"
    )
    parser.add_argument("--no-postgres", action="store_true", help="only Chroma and SQLite")
    parser.add_argument("--only", choices=PARTS, nargs="+", default=PARTS, help="default: all")
    arguments = parser.parse_args()
    logging.disable(logging.INFO)
    corpus = read_corpus(arguments.chunks, 200, random.Random(0))
    say(f"Python {platform.python_version()}, {os.cpu_count()} processors")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        if {*arguments.only} != {"growth"}:
            for pair in pairs(Path(folder), postgres=not arguments.no_postgres):
                measure_pair(pair, corpus, arguments)
        if "growth" in arguments.only:
            measure_growth(Path(folder), arguments.growth)


def measure_pair(pair: Pair, corpus: Corpus, arguments: argparse.Namespace) -> None:
    """Run all measurements on one pair of stores."""
    say(f"\n{pair.name}: {len(corpus.documents):,} documents, {corpus.chunks:,} chunks")
    seconds = seconds_of(lambda: pair.retriever.add_documents(corpus.documents))
    say(f"indexed: {corpus.chunks / seconds:,.0f} chunks per second")
    if "callers" in arguments.only:
        asyncio.run(measure_callers(pair, corpus.queries, arguments.queries, arguments.rounds))
    if "memory" in arguments.only and isinstance(pair.store, Chroma):
        measure_memory(pair, corpus.queries, arguments.memory)


def pairs(folder: Path, *, postgres: bool) -> Iterator[Pair]:
    """The pairs of stores."""
    embeddings = WordLlamaEmbeddings()
    url = f"sqlite:///{folder / 'chunks.db'}"
    yield make_pair("Chroma and SQLite", url, make_chroma(folder, "rse", embeddings))
    if postgres:
        with postgres_url() as url:
            yield make_pair("PostgreSQL for both", url, make_pg(url, "rse", embeddings))


def make_pair(name: str, url: str, store: VectorStore) -> Pair:
    """A pair with default settings."""
    splitter = RecursiveCharacterTextSplitter(chunk_size=CHUNK_SIZE, chunk_overlap=0)
    retriever = RSERetriever(vectorstore=store, docstore=SQLDocStore(url), text_splitter=splitter)
    return Pair(name, retriever, store)


# Concurrent callers


async def measure_callers(pair: Pair, queries: Sequence[str], count: int, rounds: int) -> None:
    """Ask with a growing number of callers, the store alone and RSE in turns."""

    async def bare(text: str) -> object:
        return await pair.store.asimilarity_search_with_score(text, k=FETCH_K)

    ways: dict[str, Ask] = {STORE: bare, OURS: pair.retriever.ainvoke}
    for ask in ways.values():
        await ask_all(ask, queries[:20], 4)
    gc.collect()
    gc.freeze()  # a full collection of all imported objects would be the longest step
    say(f"{FETCH_K} candidates; medians of {rounds} rounds of {count} queries, in turns")
    say(
        f"{'callers':>7} {'':6} {'per s':>9} {'50 %: ms':>9} {'95 %':>7} {'99 %':>7} "
        f"{'loop late: ms':>14} {'ratio':>6}"
    )
    for callers in CALLERS:
        taken: dict[str, list[Round]] = {name: [] for name in ways}
        for number in range(rounds):
            some = list(itertools.islice(itertools.cycle(queries), number, number + count))
            for name in list(ways) if number % 2 else list(ways)[::-1]:
                taken[name].append(await ask_all(ways[name], some, callers))
        report_callers(pair, callers, taken)
    longest = 1e3 * await longest_step(pair, queries)
    say(f"longest step of the retriever on the event loop: {longest:.1f} ms")
    docstore = pair.retriever.docstore
    if isinstance(docstore, SQLDocStore):
        docstore.close()


class Round(NamedTuple):
    """Queries per second, the seconds of each, and the longest delay of the event loop."""

    rate: float
    latencies: list[float]
    late: float


async def ask_all(ask: Ask, queries: Sequence[str], callers: int) -> Round:
    """Ask all queries with a number of concurrent callers."""
    waiting = iter(queries)
    latencies: list[float] = []
    late = 0.0

    async def caller() -> None:
        for text in waiting:
            started = time.perf_counter()
            await ask(text)
            latencies.append(time.perf_counter() - started)

    async def ticker() -> None:
        nonlocal late
        while True:
            started = time.perf_counter()
            await asyncio.sleep(TICK)
            late = max(late, time.perf_counter() - started - TICK)

    ticking = asyncio.ensure_future(ticker())
    started = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(callers)))
    seconds = time.perf_counter() - started
    ticking.cancel()
    return Round(len(queries) / seconds, latencies, late)


def report_callers(pair: Pair, callers: int, taken: dict[str, list[Round]]) -> None:
    """Print both rows and whether the targets are met."""
    rates = {name: statistics.median(each.rate for each in some) for name, some in taken.items()}
    ratio = statistics.median(
        ours.rate / store.rate for ours, store in zip(taken[OURS], taken[STORE], strict=True)
    )
    late = {name: statistics.median(each.late for each in some) for name, some in taken.items()}
    for name, some in taken.items():
        latencies = np.concatenate([each.latencies for each in some])
        p50, p95, p99 = 1e3 * np.percentile(latencies, [50, 95, 99])
        shown = f"{ratio:6.2f}" if name == OURS else ""
        say(
            f"{callers:7} {name:6} {rates[name]:9.1f} {p50:9.1f} {p95:7.1f} {p99:7.1f} "
            f"{1e3 * late[name]:14.1f} {shown}"
        )
    if callers == TARGET_CALLERS and not isinstance(pair.store, Chroma):
        verdict = "met" if ratio >= TARGET_SHARE else "MISSED"
        say(f"Target: at least {TARGET_SHARE} of the store's queries per second: {verdict}.")
    added = late[OURS] - late[STORE]
    verdict = "met" if added <= TARGET_BLOCKED else "MISSED"
    say(
        f"Target: the loop at most {1e3 * TARGET_BLOCKED:.0f} ms later than the store's: {verdict}."
    )


async def longest_step(pair: Pair, queries: Sequence[str]) -> float:
    """The longest time that one caller blocks the event loop between two awaits, store included.

    With one caller at a time, the delay of the loop is one step.
    """
    rounds = [await ask_all(pair.retriever.ainvoke, [text], 1) for text in queries[:100]]
    return statistics.median(sorted(each.late for each in rounds)[-5:])


# Memory


def measure_memory(pair: Pair, queries: Sequence[str], count: int) -> None:
    """Ask repeatedly, sync and async in turns, and print the memory of the process."""

    async def ask_async(some: Sequence[str]) -> None:
        await ask_all(pair.retriever.ainvoke, some, 8)
        docstore = pair.retriever.docstore
        if isinstance(docstore, SQLDocStore):
            docstore.close()

    page = max(count // 20, 1)
    asked = itertools.cycle(queries)
    sizes: dict[int, float] = {}
    for number in range(count // page):
        some = list(itertools.islice(asked, page))
        if number % 2:
            asyncio.run(ask_async(some))
        else:
            for text in some:
                pair.retriever.invoke(text)
        gc.collect()
        sizes[(number + 1) * page] = resident()
    first = next(size for asked_so_far, size in sizes.items() if asked_so_far >= count // 10)
    growth = sizes[max(sizes)] / first - 1
    shown = ", ".join(f"{n:,}: {size:.0f}" for n, size in sizes.items() if n % (2 * page) == 0)
    say(f"memory in MB by number of queries: {shown}")
    verdict = "met" if growth <= TARGET_GROWTH else "MISSED"
    say(
        f"Target: at most {TARGET_GROWTH:.0%} growth from query {count // 10:,} on: {verdict} "
        f"({growth:+.1%})."
    )


def resident() -> float:
    """Memory of this process in MB; NaN if the system does not report it."""
    try:
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    except OSError:
        return float("nan")
    return int(pages) * os.sysconf("SC_PAGE_SIZE") / 2**20


# Growth


def measure_growth(folder: Path, sizes: Sequence[int]) -> None:
    """Add short documents up to each size and time single calls."""
    store = make_chroma(folder, "growth", DeterministicFakeEmbedding(size=32))
    pair = make_pair("growth", f"sqlite:///{folder / 'growth.db'}", store)
    say("\nGrowth on Chroma and SQLite: documents of one chunk, made-up vectors; medians in ms")
    columns = ("store", "invoke", "add one", "no-op add", "replace", "delete", "added/s")
    say(f"{'documents':>10} " + " ".join(f"{name:>10}" for name in columns))
    present = 0
    for size in sizes:
        new = [note(number) for number in range(present, size)]
        started = time.perf_counter()
        for some in batches(new, 5_000):
            pair.retriever.add_documents(some)
        rate = len(new) / (time.perf_counter() - started)
        present = size
        row = [f"{1e3 * seconds:10.2f}" for seconds in single_calls(pair, size)]
        say(f"{size:10,} " + " ".join(row) + f" {rate:10,.0f}")


def note(number: int, text: str = "") -> Document:
    """A short document."""
    return Document(
        f"Note {number} on matter {number % 97}. {text}", metadata={"doc_id": f"n{number}"}
    )


def single_calls(pair: Pair, size: int) -> Iterator[float]:
    """Medians of the seconds of single calls, in the order of the columns."""
    retriever, numbers = pair.retriever, random.Random(size).sample(range(size), 20)

    def median(call: Callable[[int], object]) -> float:
        return statistics.median(seconds_of(functools.partial(call, n)) for n in numbers)

    def ask(number: int) -> str:
        return f"matter {number % 97} of note {number}"

    yield median(lambda n: pair.store.similarity_search_with_score(ask(n), k=FETCH_K))
    yield median(lambda n: retriever.invoke(ask(n)))
    yield median(lambda n: retriever.add_documents([note(size + n + 1_000_000)]))
    yield median(lambda n: retriever.add_documents([note(n)]))
    yield median(lambda n: retriever.add_documents([note(size + n + 1_000_000, "Changed.")]))
    yield median(lambda n: retriever.delete([f"n{size + n + 1_000_000}"]))


def batches(items: Sequence[Document], size: int) -> Iterator[list[Document]]:
    """Lists of at most ``size`` items."""
    return (list(items[first : first + size]) for first in range(0, len(items), size))


if __name__ == "__main__":
    main()
