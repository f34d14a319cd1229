"""The overhead of RSE over LangChain and the store: imports, indexing and queries.

The stores are Chroma on disk with wordllama's vectors and a `SQLDocStore` on SQLite, filled with
the Python reference and Python source, in a temporary folder. Nothing is downloaded.
Then the same queries run with and without the full-text index, on SQLite with Chroma and, with
``--postgres``, on PostgreSQL with pgvector.
Run from anywhere: ``python benchmarks/overhead.py [--chunks 50000] [--queries 200] [--postgres]``.
With ``--against PATH``, compares indexing and queries with another checkout of this repository.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import chromadb
from data import CHUNK_SIZE, Corpus, read_corpus
from langchain_core.vectorstores import VectorStore
from langchain_text_splitters import RecursiveCharacterTextSplitter
from timing import (
    CLOCK,
    COMPARED_HEADER,
    FETCH_K,
    OTHER,
    THIS,
    TimedDocStore,
    checkouts,
    compared,
    in_turns,
    make_pg,
    make_retriever,
    postgres_url,
    say,
    seconds_of,
    serve,
    store_of,
)

from langchain_rse import RSERetriever, SQLDocStore
from langchain_rse.embeddings import WordLlamaEmbeddings

Ask = Callable[[str], Awaitable[list[Any]]]

IMPORTS = (
    "import langchain_core.retrievers, langchain_core.vectorstores, numpy",
    "import langchain_rse",
    "from langchain_rse import RSERetriever, SQLDocStore",
    "from langchain_rse.cli.app import app",
)
IMPORT_TARGET = 1.15
ROUNDS_OF_IMPORTS = 5
WARM_UP = 10
TARGET = 1.5
HYBRID_TARGET = 0.5  # time added by the full-text index, relative to the store's search
EXPLAIN_TARGET = 1.3  # time of a query with a trace, relative to one without


class Timing(NamedTuple):
    """Seconds of one call and of its parts, and the number of results."""

    seconds: float
    parts: dict[str, float]
    found: int


def main() -> None:
    """Index, query and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=50_000, help="default 50,000")
    parser.add_argument("--queries", type=int, default=200, help="default 200")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--postgres", action="store_true", help="also measure PostgreSQL")
    parser.add_argument("--against", type=Path, metavar="PATH", help="another checkout")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()

    corpus = read_corpus(arguments.chunks, arguments.queries, random.Random(arguments.seed))
    # Chroma keeps files open, and some systems cannot remove open files.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        if arguments.serve:
            serve(Server(Path(folder), corpus).answer)
            return
        say(f"Python {platform.python_version()}, chromadb {chromadb.__version__}")
        if arguments.against:
            compare_checkouts(arguments.against, arguments, corpus)
            return
        report_imports()
        retriever = make_retriever(Path(folder))
        index(retriever, corpus)
        asyncio.run(query(retriever, corpus.queries))
        docstore = SQLDocStore(f"sqlite:///{Path(folder) / 'chunks.db'}")
        compare_hybrid("Chroma", store_of(retriever), docstore, corpus.queries)
        docstore.close()
        if arguments.postgres:
            compare_postgres(corpus)


def report_imports() -> None:
    """Print the times of imports in fresh interpreters, in turns with LangChain's."""
    seconds: dict[str, list[float]] = {statement: [] for statement in IMPORTS}
    for _ in range(ROUNDS_OF_IMPORTS + 1):
        for statement, some in seconds.items():
            program = f"import time; t = time.perf_counter(); {statement}"
            program += "; print(time.perf_counter() - t)"
            command = [sys.executable, "-c", program]
            some.append(float(subprocess.check_output(command, text=True)))  # noqa: S603
    base, *_ = seconds.values()
    for statement, some in seconds.items():
        # The first round may have compiled the modules.
        ratio = statistics.median(
            one / other for one, other in zip(some[1:], base[1:], strict=True)
        )
        say(f"{statement:72} {1e3 * statistics.median(some[1:]):7.0f} ms {ratio:6.2f}")
    say(f"Target: import langchain_rse at most {IMPORT_TARGET} x the first.\n")


def index(retriever: RSERetriever, corpus: Corpus) -> None:
    """Index the corpus and print the time of each part."""
    say(f"indexing {len(corpus.documents):,} documents, {corpus.chunks:,} chunks ...")
    store_of(retriever).similarity_search("loads the model", k=1)
    CLOCK.take()
    total = seconds_of(lambda: retriever.add_documents(corpus.documents))
    parts = CLOCK.take()
    store = seconds_of_store(parts) - parts["embedding"]
    lookups = sum(seconds for name, seconds in parts.items() if "read" in name)
    rows = {
        "embedding": parts["embedding"],
        "vector store": store,
        "splitter": parts["splitting"],
        "docstore": parts["docstore"] + lookups,
    }
    rows["the rest"] = total - sum(rows.values())
    say(f"\nIndexing {corpus.chunks:,} chunks")
    say(f"{'':20} {'seconds':>8} {'share':>7} {'µs per chunk':>12}")
    for name, seconds in [("total", total), *rows.items()]:
        say(
            f"{name:20} {seconds:8.1f} {seconds / total:7.1%} {1e6 * seconds / corpus.chunks:12.0f}"
        )
    added = total - parts["embedding"] - store
    say(f"RSE adds {added / (total - added):.1%} to the embedding and the vector store.")


async def query(retriever: RSERetriever, queries: Sequence[str]) -> None:
    """Ask all queries in all ways and print the medians."""
    say(f"\nasking {len(queries)} queries ...")
    ways = ways_to_ask(retriever)
    names = list(ways)
    timings: dict[str, list[Timing]] = {name: [] for name in names}
    with warnings.catch_warnings():
        # Chroma's default space has relevances outside [0, 1].
        warnings.filterwarnings("ignore", "Relevance scores must be between 0 and 1")
        for text in queries[:WARM_UP]:
            for _, ask in ways.values():
                await ask(text)
        for number, text in enumerate(queries):
            # Each way runs first, second, ... equally often: later runs find the pages of the
            # index in memory.
            turn = number % len(names)
            for name in names[turn:] + names[:turn]:
                timings[name].append(await timed(retriever, ways[name][1], text))
    report_queries({name: title for name, (title, _) in ways.items()}, timings)
    report_parts({name: timings[name] for name in "BD"})


def ways_to_ask(retriever: RSERetriever) -> dict[str, tuple[str, Ask]]:
    """The calls to compare, by letter: a title and a function."""
    store = store_of(retriever)

    async def relevances(text: str) -> list[Any]:
        return store.similarity_search_with_relevance_scores(text, k=FETCH_K)

    async def distances(text: str) -> list[Any]:
        return store.similarity_search_with_score(text, k=FETCH_K)

    async def default(text: str) -> list[Any]:
        return retriever.invoke(text)

    async def explained(text: str) -> list[Any]:
        return list(retriever.explain(text).passages)

    async def default_async(text: str) -> list[Any]:
        return await retriever.ainvoke(text)

    return {
        "A": ("store alone", relevances),
        "a": ("store alone, bare distances", distances),
        "B": ("RSERetriever.invoke", default),
        "D": ("RSERetriever.ainvoke", default_async),
        "F": ("RSERetriever.explain", explained),
    }


async def timed(retriever: RSERetriever, ask: Ask, text: str) -> Timing:
    """Ask one query."""
    docstore = retriever.docstore
    if isinstance(docstore, TimedDocStore):
        docstore.reads = 0
    CLOCK.take()
    started = time.perf_counter()
    found = await ask(text)
    seconds = time.perf_counter() - started
    return Timing(seconds, CLOCK.take(), len(found))


def report_queries(titles: dict[str, str], timings: dict[str, list[Timing]]) -> None:
    """Print the medians of all ways, relative to the store's."""
    base, bare = (
        statistics.median(timing.seconds for timing in timings[name]) for name in ("A", "a")
    )
    say(f"\nQueries: medians of {len(timings['A'])}, {FETCH_K} candidates")
    say(f"{'':34} {'ms':>8} {'x A':>6} {'x a':>6} {'90 %: ms':>9} {'results':>8}")
    for name, title in titles.items():
        seconds = sorted(timing.seconds for timing in timings[name])
        median = statistics.median(seconds)
        found = statistics.median(timing.found for timing in timings[name])
        say(
            f"{name}: {title:31} {1e3 * median:8.2f} {median / base:6.2f} {median / bare:6.2f} "
            f"{1e3 * seconds[int(0.9 * len(seconds))]:9.2f} {found:8g}"
        )
    ratio = statistics.median(timing.seconds for timing in timings["B"]) / base
    verdict = "met" if ratio <= TARGET else "MISSED"
    say(f"Target: B at most {TARGET} x A: {verdict} ({ratio:.2f}).")
    pairs = zip(timings["F"], timings["B"], strict=True)
    explained = statistics.median(one.seconds / two.seconds for one, two in pairs)
    verdict = "met" if explained <= EXPLAIN_TARGET else "MISSED"
    say(f"Target: F at most {EXPLAIN_TARGET} x B: {verdict} ({explained:.2f}).")


def report_parts(timings: dict[str, list[Timing]]) -> None:
    """Print the time of each part of a query."""
    say("\nParts of a query: medians in ms")
    say(f"{'':24}" + "".join(f"{name:>9}" for name in timings))
    split = {name: [parts_of(timing) for timing in some] for name, some in timings.items()}
    for part in next(iter(split.values()))[0]:
        row = [1e3 * statistics.median(parts[part] for parts in some) for some in split.values()]
        say(f"{part:24}" + "".join(f"{value:9.2f}" for value in row))


def parts_of(timing: Timing) -> dict[str, float]:
    """The times of the parts of one call, without overlap."""
    seen = timing.parts
    parts = {
        "query embedding": seen.get("embedding", 0.0),
        "store's search": seen.get("store", 0.0) - seen.get("embedding", 0.0),
        "docstore read 1: spans": seen.get("docstore read 1", 0.0),
        "docstore read 2: chunks": seen.get("docstore read 2", 0.0),
    }
    return {**parts, "the rest": timing.seconds - sum(parts.values())}


# With and without the full-text index


def compare_postgres(corpus: Corpus) -> None:
    """Measure the same documents on a new PostgreSQL server."""
    with postgres_url() as url:
        store, docstore = make_pg(url, "chunks", WordLlamaEmbeddings()), SQLDocStore(url)
        splitter = RecursiveCharacterTextSplitter(chunk_size=CHUNK_SIZE, chunk_overlap=0)
        retriever = RSERetriever(vectorstore=store, docstore=docstore, text_splitter=splitter)
        retriever.add_documents(corpus.documents)
        compare_hybrid("PGVectorStore, HNSW", store, docstore, corpus.queries)
        docstore.close()


def compare_hybrid(
    name: str, store: VectorStore, docstore: SQLDocStore, queries: Sequence[str]
) -> None:
    """Ask all queries by vectors, by words and by both, in turns, and print medians."""
    retriever = RSERetriever(vectorstore=store, docstore=docstore)
    search: Any = store
    ways: dict[str, Callable[[str], object]] = {
        "the store's search": functools.partial(search.similarity_search_with_score, k=FETCH_K),
        "lexical_search": functools.partial(docstore.lexical_search, k=FETCH_K),
        "RSERetriever, hybrid=0": functools.partial(retriever.invoke, hybrid=0.0),
        "RSERetriever": retriever.invoke,
    }
    names = list(ways)
    taken: dict[str, list[float]] = {way: [] for way in names}
    for number, text in enumerate([*queries[:WARM_UP], *queries]):
        turn = number % len(names)
        for way in names[turn:] + names[:turn]:
            taken[way].append(seconds_of(functools.partial(ways[way], text)))
    medians = {way: statistics.median(seconds[-len(queries) :]) for way, seconds in taken.items()}
    alone, _, plain, hybrid = medians.values()
    say(f"\nThe full-text index with {name}: medians of {len(queries)}, in turns")
    for way, median in medians.items():
        say(f"{way:34} {1e3 * median:8.2f} ms {median / alone:6.2f} x the store's search")
    added = (hybrid - plain) / alone
    verdict = "met" if added <= HYBRID_TARGET else "MISSED"
    say(f"Target: it adds at most {HYBRID_TARGET} x the store's search: {verdict} ({added:.2f}).")


# Another checkout


class Server:
    """Answers `compare_checkouts` with the package of one checkout."""

    def __init__(self, folder: Path, corpus: Corpus) -> None:
        self._retriever = make_retriever(folder, RecursiveCharacterTextSplitter)
        self._corpus = corpus
        self._ways = ways_to_ask(self._retriever)
        store_of(self._retriever).similarity_search("loads the model", k=1)
        warnings.filterwarnings("ignore", "Relevance scores must be between 0 and 1")

    def answer(self, request: list[str] | None) -> dict[str, Any]:
        """Index if the request is None, else ask a query in the way that its letter names."""
        CLOCK.take()
        if request is None:
            seconds = seconds_of(lambda: self._retriever.add_documents(self._corpus.documents))
            return {"seconds": seconds, "store": seconds_of_store(CLOCK.take())}
        name, text = request
        timing = asyncio.run(timed(self._retriever, self._ways[name][1], text))
        return {"seconds": timing.seconds, "store": timing.parts.get("store", 0.0)}


def seconds_of_store(parts: Mapping[str, float]) -> float:
    """The seconds of the vector store and the embedding when adding documents."""
    if "upsert" in parts:
        return parts["upsert"] + parts["embedding"]
    return parts["store"]  # includes the embedding: the store embedded the chunks


def compare_checkouts(other: Path, arguments: argparse.Namespace, corpus: Corpus) -> None:
    """Print the times of both checkouts side by side."""
    say(f"This checkout and {other}, in turns; {corpus.chunks:,} chunks")
    options = [f"--{name}={getattr(arguments, name)}" for name in ("chunks", "queries", "seed")]
    with checkouts(__file__, other, options) as ask:
        indexed = in_turns(ask, [None])
        say(f"medians of {len(corpus.queries)}; RSE only: without vector store and embedding")
        say(f"{'':32} {COMPARED_HEADER}")
        report_compared("add_documents", indexed)
        for name, title in {"B": "invoke", "D": "ainvoke"}.items():
            requests = [[name, text] for text in [*corpus.queries[:WARM_UP], *corpus.queries]]
            report_compared(title, in_turns(ask, requests)[-len(corpus.queries) :])


def report_compared(title: str, answers: Sequence[Mapping[str, Mapping[str, float]]]) -> None:
    """Print two rows: with and without the vector store's time."""
    for rse_only in (False, True):
        seconds = {
            side: [each[side]["seconds"] - rse_only * each[side]["store"] for each in answers]
            for side in (THIS, OTHER)
        }
        say(f"{title + ', RSE only' * rse_only:32} {compared(seconds)}")


if __name__ == "__main__":
    main()
