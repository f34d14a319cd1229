"""PostgreSQL for both stores, opened by any process, and what the two hold."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import NamedTuple

import sqlalchemy as sa
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_text_splitters import RecursiveCharacterTextSplitter

from langchain_rse import RSEIndexer, SQLDocStore
from langchain_rse._sync import run
from langchain_rse.stores.reading import read_manifests
from tests.unit_tests import fakes

DIMENSIONS = 65
"""Of `fakes.BagOfWords`."""

_numbers = itertools.count()


class Held(NamedTuple):
    """What is in both stores."""

    vectors: set[str]
    """Ids."""
    records: set[str]
    """Keys."""


class Pair(NamedTuple):
    """A table for vectors and one for a docstore; can be sent to other processes."""

    url: str
    name: str

    @classmethod
    def create(cls, url: str) -> Pair:
        """Make empty tables."""
        from langchain_postgres import PGEngine

        pair = cls(url, f"pair_{os.getpid()}_{next(_numbers)}")
        pair._execute("CREATE EXTENSION IF NOT EXISTS vector")
        engine = PGEngine.from_connection_string(url)
        engine.init_vectorstore_table(pair.name, DIMENSIONS)
        asyncio.run(engine.close())
        return pair

    def indexer(self, embeddings: Embeddings | None = None, *, lexical: bool = False) -> RSEIndexer:
        """Open both stores, for as long as the process runs."""
        from langchain_postgres import PGEngine, PGVectorStore

        vectorstore = PGVectorStore.create_sync(
            PGEngine.from_connection_string(self.url),
            embeddings or fakes.BagOfWords(),
            self.name,
        )
        return RSEIndexer(
            vectorstore,
            self._docstore(lexical=lexical),
            text_splitter=RecursiveCharacterTextSplitter(chunk_size=100, chunk_overlap=0),
            batch_size=7,
        )

    def _docstore(self, *, lexical: bool = False) -> SQLDocStore:
        return SQLDocStore(self.url, table_name=f"{self.name}_docs", lexical=lexical)

    @contextmanager
    def opened(self, *, lexical: bool = False) -> Iterator[RSEIndexer]:
        """Open both stores; close their connections at the end."""
        from langchain_postgres import PGEngine, PGVectorStore

        engine = PGEngine.from_connection_string(self.url)
        docstore = self._docstore(lexical=lexical)
        try:
            yield RSEIndexer(
                PGVectorStore.create_sync(engine, fakes.BagOfWords(), self.name),
                docstore,
                text_splitter=RecursiveCharacterTextSplitter(chunk_size=100, chunk_overlap=0),
                batch_size=7,
            )
        finally:
            docstore.close()
            asyncio.run(engine.close())

    def held(self) -> Held:
        """The ids and keys in both stores."""
        with closing(self._docstore()) as docstore:
            records = set(docstore.yield_keys()) - {"vectorstore"}
        vectors = self._execute(f'SELECT langchain_id::text FROM "{self.name}"')
        return Held({str(vector) for vector in vectors}, records)

    def check(self) -> dict[str, str]:
        """Check that the stores hold the current versions, whole, and nothing else.

        Returns:
            The names of the versions by the ids of their documents.
        """
        held = self.held()
        with closing(self._docstore()) as docstore:
            manifests = list(run(read_manifests(docstore)))
        vectors: set[str] = set()
        records: set[str] = set()
        for manifest in manifests:
            assert not manifest.unfinished, manifest
            assert manifest.current is not None, manifest
            vectors.update(manifest.current.vector_ids(manifest.key))
            records.update(manifest.current.docstore_keys(manifest.key))
        assert held.vectors == vectors
        others = {key for key in held.records if key.startswith("manifest/")}
        ours = {key for key in held.records - others if "/" in key and not key.endswith("/parts")}
        assert ours == {key for key in records if not key.endswith("/parts")}
        return {one.doc_id: one.current.name for one in manifests if one.current}

    def _execute(self, statement: str) -> list[object]:
        engine = sa.create_engine(self.url, poolclass=sa.NullPool)
        with engine.begin() as connection:
            result = connection.exec_driver_sql(statement)
            return list(result.scalars()) if result.returns_rows else []


def document(name: str, version: int = 0, *, paragraphs: int = 12) -> Document:
    """A text that is split into a chunk for each paragraph, other ones in every version."""
    lines = (
        f"{name} version {version} paragraph {number:02}: {'harbor crane rope tide ' * 2}"
        for number in range(paragraphs)
    )
    return Document("\n\n".join(lines), metadata={"source": name, "version": version})
