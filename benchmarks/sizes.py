"""How many bytes a chunk takes in each store, and how many calls a query and a document make.

Vectors are random; texts are Python's own. Run from anywhere:
``python benchmarks/sizes.py [--chunks 10000] [--dimensions 384] [--stores chroma postgres]``.
``--grow 100000`` then copies what is stored until there are as many chunks, with other keys and
vectors, and measures the stores again. The folders of SQLite, Chroma and PostgreSQL are temporary.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import random
import tempfile
import time
import uuid
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa
from chromadb.config import Settings
from corpus import CHUNK_SIZE, read_corpus
from langchain_chroma import Chroma
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import VectorStore
from langchain_text_splitters import RecursiveCharacterTextSplitter
from servers import postgres_url

from langchain_rse import RSEIndexer, RSERetriever, SQLDocStore

QUERIES = 50
SAMPLE = 100


class RandomVectors(Embeddings):
    """Directions by chance: what is measured does not depend on them."""

    def __init__(self, dimensions: int) -> None:
        self._dimensions = dimensions
        self._rng = np.random.default_rng(0)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Vectors of length 1."""
        vectors = self._rng.standard_normal((len(texts), self._dimensions), dtype=np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        return [list(map(float, vector)) for vector in vectors]

    def embed_query(self, text: str) -> list[float]:
        """A vector of length 1."""
        return self.embed_documents([text])[0]


class CountedDocStore(SQLDocStore):
    """Counts its calls, and the keys in them."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401
        super().__init__(*args, **kwargs)
        self.calls: Counter[str] = Counter()
        self.keys: Counter[str] = Counter()

    def _count(self, name: str, items: Sequence[object]) -> None:
        self.calls[name] += 1
        self.keys[name] += len(items)

    def mget(self, keys: Sequence[str]) -> list[Document | None]:
        """Get Documents."""
        self._count("read", keys)
        return super().mget(keys)

    def mset(self, key_value_pairs: Sequence[tuple[str, Document]]) -> None:
        """Write Documents."""
        self._count("write", key_value_pairs)
        super().mset(key_value_pairs)

    def compare_and_set(self, changes: Sequence[Any]) -> list[bool]:
        """Change Documents."""
        self._count("compare and set", changes)
        return super().compare_and_set(changes)  # type: ignore[misc, no-any-return, unused-ignore]

    def mdelete(self, keys: Sequence[str]) -> None:
        """Delete Documents."""
        self._count("delete", keys)
        super().mdelete(keys)


def main() -> None:
    """Measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, nargs="+", default=[10_000])
    parser.add_argument("--dimensions", type=int, nargs="+", default=[384])
    parser.add_argument("--stores", nargs="+", default=["chroma", "postgres"])
    parser.add_argument("--grow", type=int, default=0, metavar="CHUNKS")
    arguments = parser.parse_args()
    for chunks, dimensions in itertools.product(arguments.chunks, arguments.dimensions):
        # Texts differ by their first line: the standard library is not large enough.
        corpus = read_corpus(min(chunks, 20_000), QUERIES, random.Random(0))
        documents = [
            Document(f"# {copy}\n{one.page_content}", metadata={"source": f"{copy}/{source}"})
            for copy in range(-(-chunks // corpus.chunks))
            for one in corpus.documents
            for source in [one.metadata["source"]]
        ]
        for name in arguments.stores:
            measure = {"chroma": measure_chroma, "postgres": measure_postgres}[name]
            print(f"\n{name}, {dimensions} dimensions, about {chunks:,} chunks", flush=True)
            measure(documents, corpus.queries, dimensions, arguments.grow)


def measure_chroma(
    documents: list[Document], queries: list[str], dimensions: int, grow: int
) -> None:
    """Chroma on disk and a docstore on SQLite."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        settings = Settings(
            anonymized_telemetry=False, is_persistent=True, persist_directory=str(folder / "chroma")
        )
        model = RandomVectors(dimensions)
        vectorstore = Chroma(embedding_function=model, client_settings=settings)
        docstore = CountedDocStore(f"sqlite:///{folder}/chunks.db", table_name="chunks")
        chunks = run(documents, queries, vectorstore, docstore)
        engine = sa.create_engine(f"sqlite:///{folder}/chunks.db")

        def report() -> None:
            with engine.connect() as connection:
                connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
            files = [file for file in folder.rglob("*") if file.is_file()]
            sizes = {file: file.stat().st_size for file in files}
            of_docstore = sum(n for file, n in sizes.items() if file.name == "chunks.db")
            of_table = sum(n for file, n in sizes.items() if file.name == "chroma.sqlite3")
            line("docstore on disk", of_docstore / chunks)
            line("Chroma: SQLite (text, metadata, log)", of_table / chunks)
            line("Chroma: HNSW", (sum(sizes.values()) - of_docstore - of_table) / chunks)

        with engine.connect() as connection:
            report_records(connection, "chunks", chunks)
        report()
        copies = grow // chunks - 1
        if copies > 0:
            with engine.begin() as connection:
                copy_records(connection, "chunks", copies)
            found = vectorstore.get()
            for copy in range(copies):
                for start in range(0, chunks, SAMPLE * 10):
                    some = slice(start, start + SAMPLE * 10)
                    texts = found["documents"][some]
                    vectorstore._collection.add(  # noqa: SLF001 - Chroma's own way to give vectors
                        ids=[f"{copy} {one}"[:36] for one in found["ids"][some]],
                        documents=texts,
                        metadatas=found["metadatas"][some],
                        embeddings=np.array(model.embed_documents(texts)),
                    )
            chunks *= copies + 1
            print(f"  grown to {chunks:,} chunks")
            report()


def measure_postgres(
    documents: list[Document], queries: list[str], dimensions: int, grow: int
) -> None:
    """PostgreSQL for both."""
    from langchain_postgres import PGEngine, PGVectorStore  # noqa: PLC0415

    with postgres_url() as url:
        server = sa.create_engine(url, isolation_level="AUTOCOMMIT")
        with server.connect() as connection:
            connection.exec_driver_sql("CREATE EXTENSION IF NOT EXISTS vector")
        engine = PGEngine.from_connection_string(url)
        engine.init_vectorstore_table("vectors", dimensions)
        vectorstore = PGVectorStore.create_sync(engine, RandomVectors(dimensions), "vectors")
        docstore = CountedDocStore(url, table_name="chunks")
        chunks = run(documents, queries, vectorstore, docstore)
        with server.connect() as connection:

            def report() -> None:
                def size(relation: str) -> float:
                    query = sa.text("SELECT pg_total_relation_size(CAST(:name AS regclass))")
                    total = connection.execute(query, {"name": relation}).scalar_one()
                    return float(total) / chunks

                line("docstore on disk", size("chunks"))
                line("vectors: table and key", size("vectors"))
                started = time.perf_counter()
                connection.exec_driver_sql("SET maintenance_work_mem = '2GB'")
                connection.exec_driver_sql(
                    "CREATE INDEX hnsw ON vectors USING hnsw (embedding vector_cosine_ops)"
                )
                line("vectors: HNSW", size("hnsw"))
                print(f"  HNSW built in {time.perf_counter() - started:.0f} s")
                connection.exec_driver_sql("DROP INDEX hnsw")

            report_records(connection, "chunks", chunks)
            report()
            copies = grow // chunks - 1
            if copies > 0:
                copy_records(connection, "chunks", copies)
                # The condition makes the sub-query one for each row.
                numbers = f"generate_series(1, {dimensions}) WHERE langchain_id IS NOT NULL"
                vector = f"SELECT array_agg(random() - 0.5) FROM {numbers}"  # noqa: S608
                connection.exec_driver_sql(
                    f"INSERT INTO vectors SELECT gen_random_uuid(), content, ({vector})::vector, "  # noqa: S608
                    "langchain_metadata "
                    f"FROM vectors, generate_series(1, {copies})"
                )
                chunks *= copies + 1
                print(f"  grown to {chunks:,} chunks")
                report()
        docstore.close()
        server.dispose()
        asyncio.run(engine.close())


def copy_records(connection: sa.Connection, table: str, copies: int) -> None:
    """Add copies of all records, with keys of the same length."""
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(
            f"INSERT INTO {table} SELECT md5(key || n) || right(key, -32), value "  # noqa: S608
            f"FROM {table}, generate_series(1, {copies}) AS n WHERE length(key) > 40"
        )
        return
    rows = connection.exec_driver_sql(f"SELECT key, value FROM {table}").all()  # noqa: S608
    for _ in range(copies):
        connection.exec_driver_sql(
            f"INSERT INTO {table} (key, value) VALUES (?, ?)",  # noqa: S608
            [(uuid.uuid4().hex + key[32:], value) for key, value in rows],
        )


def run(
    documents: list[Document],
    queries: list[str],
    vectorstore: VectorStore,
    docstore: CountedDocStore,
) -> int:
    """Index and ask; print calls; return the number of chunks."""
    splitter = RecursiveCharacterTextSplitter(chunk_size=CHUNK_SIZE, chunk_overlap=0)
    warnings.simplefilter("ignore")  # of equal texts
    indexer = RSEIndexer(vectorstore, docstore, text_splitter=splitter)
    started = time.perf_counter()
    indexer.add_documents(documents)
    seconds = time.perf_counter() - started
    written, written_keys = docstore.calls.copy(), docstore.keys.copy()
    lengths = [len(chunk.page_content) for chunk in indexer.chunks()]
    chunks = len(lengths)
    print(f"  {len(documents):,} documents, {chunks:,} chunks of {np.mean(lengths):.0f} characters")
    print(f"  indexed in {seconds:.0f} s")
    print(f"  docstore calls to index: {dict(written)}; records: {dict(written_keys)}")
    docstore.calls.clear()
    docstore.keys.clear()
    indexer.add_documents([documents[0].model_copy(update={"page_content": "# new\n\nA line."})])
    print(f"  to replace one document: {dict(docstore.calls)}; records: {dict(docstore.keys)}")
    retriever = RSERetriever(vectorstore=vectorstore, docstore=docstore)
    docstore.calls.clear()
    docstore.keys.clear()
    for query in queries:
        retriever.invoke(query)
    reads = docstore.calls["read"] / len(queries)
    keys = docstore.keys["read"] / len(queries)
    print(f"  a query: 1 search, {reads:.2f} reads of the docstore, {keys:.0f} records")
    return chunks


def report_records(connection: sa.Connection, table: str, chunks: int) -> None:
    """Print the bytes of each kind of record, keys included, by chunk and by record."""
    sizes: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    # SQLite has had octet_length() for a short time only.
    bytes_of = "octet_length(value)"
    if connection.dialect.name == "sqlite":
        bytes_of = "length(CAST(value AS BLOB))"
    query = f"SELECT key, {bytes_of} FROM {table}"  # noqa: S608
    for key, length in connection.exec_driver_sql(query):
        first, *rest = str(key).split("/")
        kind = first if first in {"manifest", "texts"} else rest[1] if len(rest) > 1 else first
        kind = "chunk" if kind.isdigit() else kind
        sizes[kind] += len(str(key)) + length
        counts[kind] += 1
    for kind, size in sizes.most_common():
        line(f"records: {kind}", size / chunks, size / counts[kind])


def line(name: str, by_chunk: float, by_record: float | None = None) -> None:
    """Print a row."""
    one = "" if by_record is None else f", {by_record:,.0f} each"
    print(f"  {name:40} {by_chunk:10,.0f} bytes a chunk{one}", flush=True)


if __name__ == "__main__":
    main()
