"""The overhead of RSE over LangChain and the store: indexing and queries.

The stores are Chroma on disk with wordllama's vectors and a `SQLDocStore` on SQLite, filled with
the Python reference and Python source, in a temporary folder. Nothing is downloaded.
Run from anywhere: ``python benchmarks/overhead.py [--chunks 50000] [--queries 200]``. With
``--against PATH``, compares indexing and queries with another checkout of this repository: each
runs in its own process, this script with another ``PYTHONPATH`` and ``--serve``, and they take
turns in answering requests, one line of JSON each.
"""

from __future__ import annotations

import argparse
import asyncio
import inspect
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import chromadb
from chromadb.config import Settings
from data import CHUNK_SIZE, Corpus, read_corpus
from langchain_chroma import Chroma
from langchain_core.documents import Document
from langchain_text_splitters import RecursiveCharacterTextSplitter

from langchain_rse import RSERetriever, SQLDocStore
from langchain_rse.embeddings import WordLlamaEmbeddings

Ask = Callable[[str], Any]  # or an awaitable

WARM_UP = 10
FETCH_K = 200
ROOT = Path(__file__).resolve().parents[1]
THIS, OTHER = "this", "other"
MOST_TIMES = 1.2

say = partial(print, flush=True)


class Clock:
    """Adds up the seconds spent in named parts."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Count the block towards a part."""
        started = time.perf_counter()
        try:
            yield
        finally:
            elapsed = time.perf_counter() - started
            self.seconds[name] = self.seconds.get(name, 0.0) + elapsed

    def take(self) -> dict[str, float]:
        """Return the seconds since the last call, and start anew."""
        taken, self.seconds = self.seconds, {}
        return taken


CLOCK = Clock()


class TimedEmbeddings(WordLlamaEmbeddings):
    """Static vectors: much faster than a transformer's, so overhead is visible."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed texts."""
        with CLOCK.part("embedding"):
            return super().embed_documents(texts)

    def embed_query(self, text: str) -> list[float]:
        """Embed a query."""
        with CLOCK.part("embedding"):
            return super().embed_query(text)


class TimedCollection:
    """Chroma's collection, which receives chunks with their vectors."""

    def __init__(self, collection: Any) -> None:  # noqa: ANN401 - of chromadb
        self._collection = collection

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - of the collection
        return getattr(self._collection, name)

    def upsert(self, *arguments: Any, **named: Any) -> None:  # noqa: ANN401 - of chromadb
        """Write chunks."""
        with CLOCK.part("upsert"):
            self._collection.upsert(*arguments, **named)


class TimedChroma(Chroma):
    """Chroma; the time of its search includes the embedding."""

    @property
    def _collection(self) -> Any:  # noqa: ANN401 - of chromadb
        return TimedCollection(super()._collection)

    def similarity_search_with_score(
        self,
        query: str,
        k: int = 4,
        filter: dict[str, Any] | None = None,  # noqa: A002
        where_document: dict[str, Any] | None = None,
        **kwargs: Any,  # noqa: ANN401
    ) -> list[tuple[Document, float]]:
        """Search."""
        with CLOCK.part("store"):
            return super().similarity_search_with_score(query, k, filter, where_document, **kwargs)


class TimedDocStore(SQLDocStore):
    """A SQLDocStore that times its first and second read separately."""

    reads = 0

    def mget(self, keys: Sequence[str]) -> list[Document | None]:
        """Get Documents."""
        self.reads += 1
        with CLOCK.part(f"docstore read {self.reads}"):
            return super().mget(keys)

    def mset(self, key_value_pairs: Sequence[tuple[str, Document]]) -> None:
        """Write Documents."""
        with CLOCK.part("docstore"):
            super().mset(key_value_pairs)


def make_retriever(folder: Path) -> RSERetriever:
    """A retriever with default settings over timed stores."""
    store = TimedChroma(
        collection_name="benchmark",
        embedding_function=TimedEmbeddings(),
        client_settings=Settings(
            anonymized_telemetry=False, is_persistent=True, persist_directory=str(folder / "chroma")
        ),
    )
    return RSERetriever(
        vectorstore=store,
        docstore=TimedDocStore(f"sqlite:///{folder / 'chunks.db'}"),
        text_splitter=RecursiveCharacterTextSplitter(chunk_size=CHUNK_SIZE, chunk_overlap=0),
    )


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
    parser.add_argument("--against", type=Path, metavar="PATH", help="another checkout")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()

    corpus = read_corpus(arguments.chunks, arguments.queries, random.Random(0))
    # Chroma keeps files open, and some systems cannot remove open files.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        if arguments.serve:
            serve(Server(Path(folder), corpus).answer)
            return
        say(f"Python {platform.python_version()}, chromadb {chromadb.__version__}")
        if arguments.against:
            compare_checkouts(arguments.against, arguments, corpus)
            return
        retriever = make_retriever(Path(folder))
        index(retriever, corpus)
        asyncio.run(query(retriever, corpus.queries))


def index(retriever: RSERetriever, corpus: Corpus) -> None:
    """Index the corpus and print the time of each part."""
    say(f"indexing {len(corpus.documents):,} documents, {corpus.chunks:,} chunks ...")
    store_of(retriever).similarity_search("loads the model", k=1)
    CLOCK.take()
    total = seconds_of(lambda: retriever.add_documents(corpus.documents))
    parts = CLOCK.take()
    lookups = sum(seconds for name, seconds in parts.items() if "read" in name)
    rows = {
        "embedding": parts["embedding"],
        "vector store": parts["upsert"],
        "docstore": parts["docstore"] + lookups,
    }
    rows["the rest"] = total - sum(rows.values())
    say(f"\nIndexing {corpus.chunks:,} chunks")
    say(f"{'':20} {'seconds':>8} {'share':>7} {'µs per chunk':>12}")
    for name, seconds in [("total", total), *rows.items()]:
        say(
            f"{name:20} {seconds:8.1f} {seconds / total:7.1%} {1e6 * seconds / corpus.chunks:12.0f}"
        )
    added = total - parts["embedding"] - parts["upsert"]
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
                await timed(retriever, ask, text)
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
    relevances = partial(store.similarity_search_with_relevance_scores, k=FETCH_K)
    distances = partial(store.similarity_search_with_score, k=FETCH_K)
    return {
        "A": ("store alone", relevances),
        "a": ("store alone, bare distances", distances),
        "B": ("RSERetriever.invoke", retriever.invoke),
        "D": ("RSERetriever.ainvoke", retriever.ainvoke),
        "F": ("RSERetriever.explain", lambda text: retriever.explain(text).passages),
    }


async def timed(retriever: RSERetriever, ask: Ask, text: str) -> Timing:
    """Ask one query."""
    docstore = retriever.docstore
    if isinstance(docstore, TimedDocStore):
        docstore.reads = 0
    CLOCK.take()
    started = time.perf_counter()
    found = ask(text)
    if inspect.isawaitable(found):
        found = await found
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


def seconds_of(call: Callable[[], object]) -> float:
    """The seconds that a call takes."""
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def store_of(retriever: RSERetriever) -> Chroma:
    """The retriever's vector store."""
    if not isinstance(retriever.vectorstore, Chroma):
        raise TypeError("the retriever needs a Chroma store")
    return retriever.vectorstore


class Server:
    """Answers `compare_checkouts` with the package of one checkout."""

    def __init__(self, folder: Path, corpus: Corpus) -> None:
        self._retriever = make_retriever(folder)
        self._corpus = corpus
        self._ways = ways_to_ask(self._retriever)
        store_of(self._retriever).similarity_search("loads the model", k=1)
        warnings.filterwarnings("ignore", "Relevance scores must be between 0 and 1")

    def answer(self, request: list[str] | None) -> dict[str, Any]:
        """Index if the request is None, else ask a query in the way that its letter names."""
        CLOCK.take()
        if request is None:
            seconds = seconds_of(lambda: self._retriever.add_documents(self._corpus.documents))
            parts = CLOCK.take()
            return {"seconds": seconds, "store": parts["upsert"] + parts["embedding"]}
        name, text = request
        timing = asyncio.run(timed(self._retriever, self._ways[name][1], text))
        return {"seconds": timing.seconds, "store": timing.parts.get("store", 0.0)}


def compare_checkouts(other: Path, arguments: argparse.Namespace, corpus: Corpus) -> None:
    """Print the times of both checkouts side by side."""
    say(f"This checkout and {other}, in turns; {corpus.chunks:,} chunks")
    options = [f"--{name}={getattr(arguments, name)}" for name in ("chunks", "queries")]
    with checkouts(__file__, other, options) as ask:
        indexed = in_turns(ask, [None])
        say(f"medians of {len(corpus.queries)}; RSE only: without vector store and embedding")
        say(f"{'':32} {'this: ms':>10} {'other: ms':>10} {'ratio':>7}")
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


@contextmanager
def checkouts(
    script: str, other: Path, options: Sequence[str]
) -> Iterator[dict[str, Callable[[Any], Any]]]:
    """Run both checkouts; yield a function for each that sends a request and returns the answer."""
    if not (other / "langchain_rse").is_dir():
        sys.exit(f"--against: {other} has no folder langchain_rse")
    with ExitStack() as stack:
        processes = {
            name: stack.enter_context(
                subprocess.Popen(  # noqa: S603 - this script
                    [sys.executable, script, "--serve", *options],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    env={**os.environ, "PYTHONPATH": str(root)},
                    text=True,
                )
            )
            for name, root in ((THIS, ROOT), (OTHER, other.resolve()))
        }
        yield {name: asker(name, process) for name, process in processes.items()}


def asker(name: str, process: subprocess.Popen[str]) -> Callable[[Any], Any]:
    """A function that sends a request to a process and waits for its answer."""

    def ask(request: Any) -> Any:  # noqa: ANN401 - any JSON
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("the process has no pipes")
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"{name} source tree: the process ended with {process.wait()}")
        return json.loads(line)

    return ask


def serve(answer: Callable[[Any], Any]) -> None:
    """Answer the requests of `checkouts` until there are no more."""
    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), file=answers, flush=True)


def in_turns(
    ask: Mapping[str, Callable[[Any], Any]], requests: Sequence[Any]
) -> list[dict[str, Any]]:
    """Both answers to each request; the processes take turns in answering first."""
    names = list(ask)
    return [
        {name: ask[name](request) for name in (names if number % 2 else names[::-1])}
        for number, request in enumerate(requests)
    ]


def compared(seconds: Mapping[str, Sequence[float]]) -> str:
    """Both medians in milliseconds, and the median ratio of the two times of a turn."""
    this, other = seconds[THIS], seconds[OTHER]
    ratio = statistics.median(one / two for one, two in zip(this, other, strict=True))
    verdict = "" if ratio <= MOST_TIMES else f"  MORE THAN {MOST_TIMES}"
    return (
        f"{1e3 * statistics.median(this):10,.3f} {1e3 * statistics.median(other):10,.3f} "
        f"{ratio:7.2f}{verdict}"
    )


if __name__ == "__main__":
    main()
