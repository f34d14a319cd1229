"""What RSE adds to the store it wraps: indexing, and queries beside the store's own.

Chroma on disk with wordllama's vectors and a `SQLDocStore` on SQLite, filled with the Python
reference and Python source, all in a temporary folder. Nothing is downloaded.
Run from anywhere: ``python benchmarks/overhead.py [--chunks 50000] [--queries 200]``.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import dataclasses
import platform
import random
import statistics
import sysconfig
import tempfile
import time
import warnings
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any, NamedTuple, ParamSpec, TypeVar
from unittest.mock import patch

import chromadb
from chromadb.config import Settings
from langchain_chroma import Chroma
from langchain_core.documents import Document

from langchain_rse import PRESETS, RSERetriever, SQLDocStore
from langchain_rse.embeddings import WordLlamaEmbeddings
from langchain_rse.indexing import default_text_splitter
from langchain_rse.selection import select_segments
from langchain_rse.splitting import split_spans

P = ParamSpec("P")
T = TypeVar("T")
Ask = Callable[[str], Awaitable[list[Any]]]

FETCH_K = 200
TARGET = 1.5
WARM_UP = 10


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

    def counted(self, name: str, function: Callable[P, T]) -> Callable[P, T]:
        """The function, counting towards a part."""

        def run(*args: P.args, **kwargs: P.kwargs) -> T:
            with self.part(name):
                return function(*args, **kwargs)

        return run

    def take(self) -> dict[str, float]:
        """What was counted since the last time."""
        taken, self.seconds = self.seconds, {}
        return taken


CLOCK = Clock()


class TimedEmbeddings(WordLlamaEmbeddings):
    """Static vectors, far faster than a transformer's, so that overhead shows."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed texts."""
        with CLOCK.part("embedding"):
            return super().embed_documents(texts)

    def embed_query(self, text: str) -> list[float]:
        """Embed a query."""
        with CLOCK.part("embedding"):
            return super().embed_query(text)


class TimedChroma(Chroma):
    """Chroma; its time has the embedding's in it."""

    def add_documents(self, documents: list[Document], **kwargs: Any) -> list[str]:  # noqa: ANN401
        """Add documents."""
        with CLOCK.part("store"):
            return super().add_documents(documents, **kwargs)

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
    """SQLDocStore that tells its first read from its second."""

    reads = 0

    def mget(self, keys: Sequence[str]) -> list[Document | None]:
        """Get Documents."""
        with CLOCK.part(self._read()):
            return super().mget(keys)

    async def amget(self, keys: Sequence[str]) -> list[Document | None]:
        """Get Documents."""
        with CLOCK.part(self._read()):
            return await super().amget(keys)

    def mset(self, key_value_pairs: Sequence[tuple[str, Document]]) -> None:
        """Write Documents."""
        with CLOCK.part("docstore"):
            super().mset(key_value_pairs)

    def _read(self) -> str:
        self.reads += 1
        return f"docstore read {self.reads}"


class Corpus(NamedTuple):
    """What is indexed, and what is asked."""

    documents: list[Document]
    chunks: int
    queries: list[str]


class Timing(NamedTuple):
    """One call: its seconds, of these the seconds of its parts, and what came back."""

    seconds: float
    parts: dict[str, float]
    found: int


def main() -> None:
    """Index, query, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=50_000, help="default 50,000")
    parser.add_argument("--queries", type=int, default=200, help="default 200")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()

    say(f"Python {platform.python_version()}, chromadb {chromadb.__version__}")
    say("reading Python's reference and source ...")
    corpus = read_corpus(arguments.chunks, arguments.queries, random.Random(arguments.seed))
    # Chroma keeps files open, which some systems do not let one remove.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        retriever = make_retriever(Path(folder))
        index(retriever, corpus)
        asyncio.run(query(retriever, corpus.queries))


def say(message: str) -> None:
    """Print at once."""
    print(message, flush=True)


def read_corpus(chunks: int, queries: int, rng: random.Random) -> Corpus:
    """The reference's topics, then files of source in random order, up to so many chunks."""
    splitter = default_text_splitter()
    documents: list[Document] = []
    asked = [" ".join(text.split(".")[0].split()) for text in topics.values()]
    count = 0
    for source, text in read_texts(rng):
        if count >= chunks:
            break
        count += len(splitter.split_text(text))
        documents.append(Document(page_content=text, metadata={"source": source}))
        if len(asked) < 10 * queries and source.endswith(".py"):
            asked += first_sentences(text)
    asked = sorted({text for text in asked if 4 <= len(text.split()) <= 30})
    return Corpus(documents, count, rng.sample(asked, min(queries, len(asked))))


def read_texts(rng: random.Random) -> Iterator[tuple[str, str]]:
    """Pairs of a name and a text: topics, the standard library, installed packages."""
    yield from topics.items()
    paths = sysconfig.get_paths()
    library, packages = Path(paths["stdlib"]), Path(paths["purelib"])
    for folder in (library, packages):
        files = sorted(
            file
            for file in folder.rglob("*.py")
            if folder == packages or "site-packages" not in file.parts
        )
        rng.shuffle(files)
        for file in files:
            # Some of Python's own tests are meant to be unreadable.
            text = file.read_text(encoding="utf-8", errors="replace")
            if text.strip():
                yield str(file.relative_to(folder)), text


def first_sentences(source: str) -> list[str]:
    """The first sentences of all docstrings of a file."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about what the file does
        try:
            tree = ast.parse(source)
        except (SyntaxError, ValueError):
            return []
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = (ast.get_docstring(node) for node in ast.walk(tree) if isinstance(node, kinds))
    return [" ".join(text.split("\n\n")[0].split(". ")[0].split()) for text in docstrings if text]


def make_retriever(folder: Path) -> RSERetriever:
    """A retriever with default settings over timed stores."""
    store = TimedChroma(
        collection_name="benchmark",
        embedding_function=TimedEmbeddings(),
        client_settings=Settings(
            anonymized_telemetry=False,
            is_persistent=True,
            persist_directory=str(folder / "chroma"),
        ),
    )
    docstore = TimedDocStore(f"sqlite:///{folder / 'chunks.db'}")
    return RSERetriever(vectorstore=store, docstore=docstore)


def index(retriever: RSERetriever, corpus: Corpus) -> None:
    """Index the corpus and say where the time went."""
    say(f"indexing {len(corpus.documents):,} documents, {corpus.chunks:,} chunks ...")
    splitting = CLOCK.counted("splitting", split_spans)
    if retriever.vectorstore is not None and retriever.vectorstore.embeddings is not None:
        retriever.vectorstore.embeddings.embed_query("loads the model")
    CLOCK.take()
    with patch("langchain_rse.indexing.split_spans", splitting):
        started = time.perf_counter()
        retriever.add_documents(corpus.documents)
        total = time.perf_counter() - started
    parts = CLOCK.take()
    store = parts["store"] - parts["embedding"]
    lookups = sum(seconds for name, seconds in parts.items() if "read" in name)
    rows = {
        "embedding": parts["embedding"],
        "vector store": store,
        "splitting": parts["splitting"],
        "docstore": parts["docstore"] + lookups,
    }
    rows["the rest"] = total - sum(rows.values())
    say(f"\nIndexing {corpus.chunks:,} chunks")
    say(f"{'':20} {'seconds':>8} {'share':>7} {'µs a chunk':>11}")
    for name, seconds in [("total", total), *rows.items()]:
        say(
            f"{name:20} {seconds:8.1f} {seconds / total:7.1%} {1e6 * seconds / corpus.chunks:11.0f}"
        )
    added = total - parts["embedding"] - store
    say(f"RSE adds {added / (total - added):.1%} to the embedding and the vector store.")


async def query(retriever: RSERetriever, queries: Sequence[str]) -> None:
    """Ask all queries in all ways and print the medians."""
    say(f"\nasking {len(queries)} queries ...")
    ways = ways_to_ask(retriever)
    names = list(ways)
    timings: dict[str, list[Timing]] = {name: [] for name in names}
    selection = CLOCK.counted("selection", select_segments)
    with (
        patch("langchain_rse.passages.select_segments", selection),
        warnings.catch_warnings(),
    ):
        # Of relevances outside [0, 1]: Chroma's default space has them.
        warnings.filterwarnings("ignore", "Relevance scores must be between 0 and 1")
        for text in queries[:WARM_UP]:
            for _, ask in ways.values():
                await ask(text)
        for number, text in enumerate(queries):
            # Each way comes first, second, ... equally often: whoever is later finds the
            # pages of the index in memory.
            turn = number % len(names)
            for name in names[turn:] + names[:turn]:
                timings[name].append(await timed(retriever, ways[name][1], text))
    report_queries({name: title for name, (title, _) in ways.items()}, timings)
    report_parts({name: timings[name] for name in "BCD"})


def ways_to_ask(retriever: RSERetriever) -> dict[str, tuple[str, Ask]]:
    """By letter: what is called, and how."""
    store = retriever.vectorstore
    if store is None:
        raise TypeError("the retriever needs a vector store")
    find_all = dataclasses.asdict(PRESETS["find_all"])

    async def relevances(text: str) -> list[Any]:
        return store.similarity_search_with_relevance_scores(text, k=FETCH_K)

    async def distances(text: str) -> list[Any]:
        return store.similarity_search_with_score(text, k=FETCH_K)

    async def default(text: str) -> list[Any]:
        return retriever.invoke(text)

    async def everything(text: str) -> list[Any]:
        return retriever.invoke(text, **find_all)

    async def default_async(text: str) -> list[Any]:
        return await retriever.ainvoke(text)

    async def relevances_async(text: str) -> list[Any]:
        return await store.asimilarity_search_with_relevance_scores(text, k=FETCH_K)

    return {
        "A": ("store alone", relevances),
        "a": ("store alone, bare distances", distances),
        "B": ("RSERetriever.invoke", default),
        "C": ("the same, find_all", everything),
        "D": ("RSERetriever.ainvoke", default_async),
        "E": ("store alone, async", relevances_async),
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
    """Print the medians of all ways beside the store's."""
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
    say(
        "A and E ask for relevances, as LangChain calls them, a for distances, as the retriever\n"
        "does: when relevances are outside [0, 1], LangChain writes all results into a warning."
    )


def report_parts(timings: dict[str, list[Timing]]) -> None:
    """Print where the retriever's time goes."""
    say("\nWhere the time of a query goes: medians in ms")
    say(f"{'':24}" + "".join(f"{name:>9}" for name in timings))
    split = {name: [parts_of(timing) for timing in some] for name, some in timings.items()}
    for part in next(iter(split.values()))[0]:
        row = [1e3 * statistics.median(parts[part] for parts in some) for some in split.values()]
        say(f"{part:24}" + "".join(f"{value:9.2f}" for value in row))


def parts_of(timing: Timing) -> dict[str, float]:
    """The parts of one call, without counting any time twice."""
    seen = timing.parts
    parts = {
        "query embedding": seen.get("embedding", 0.0),
        "store's search": seen.get("store", 0.0) - seen.get("embedding", 0.0),
        "docstore read 1: spans": seen.get("docstore read 1", 0.0),
        "selection": seen.get("selection", 0.0),
        "docstore read 2: chunks": seen.get("docstore read 2", 0.0),
    }
    return {**parts, "the rest": timing.seconds - sum(parts.values())}


if __name__ == "__main__":
    main()
