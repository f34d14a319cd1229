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
from langchain_rse.stores.layouts import read_manifests
from langchain_rse.stores.records import Manifest, content_name, manifest_key
from tests.unit_tests import fakes
from tests.unit_tests.writes import an_hour_later, check_only_leftovers, without_writes

DIMENSIONS = 65
"""Of `fakes.BagOfWords`."""

_numbers = itertools.count()


class Held(NamedTuple):
    """What is in both stores, the same whenever it was written."""

    vectors: list[str]
    """Documents, versions and numbers of the chunks; ids of vectors of no document."""
    records: list[str]
    """Keys, without the ids of writes."""


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
        """What is in both stores."""
        names: dict[str, str] = {}
        for manifest in self._manifests():
            for version in manifest.versions:
                for index, vector in enumerate(version.vector_ids(manifest.key)):
                    names[vector] = f"{manifest.doc_id}/{content_name(version.name)}/{index}"
        return Held(
            vectors=sorted(names.get(vector, vector) for vector in self._vectors()),
            records=sorted(map(without_writes, self._records())),
        )

    def repair(self) -> None:
        """Remove what interrupted calls have left, an hour later; nothing else may be wrong."""
        with self.opened() as indexer, an_hour_later():
            check_only_leftovers(indexer.check(repair=True))

    def check(self) -> dict[str, str]:
        """Check that the stores hold the current versions, whole, and nothing else.

        Returns:
            The names of the versions by the ids of their documents.
        """
        manifests = self._manifests()
        vectors: set[str] = set()
        records: set[str] = set()
        for manifest in manifests:
            assert manifest.versions == [manifest.current], manifest
            assert manifest.current is not None
            vectors.update(manifest.current.vector_ids(manifest.key))
            records.update(manifest.current.docstore_keys(manifest.key))
        assert self._vectors() == vectors
        records.update(manifest_key(manifest.key) for manifest in manifests)
        assert self._records() == records
        return {one.doc_id: content_name(one.current.name) for one in manifests if one.current}

    def _manifests(self) -> list[Manifest]:
        with closing(self._docstore()) as docstore:
            return list(read_manifests(docstore))

    def _records(self) -> set[str]:
        """The keys of the docstore, without that of the record of the vector store."""
        with closing(self._docstore()) as docstore:
            return set(docstore.yield_keys()) - {"vectorstore"}

    def _vectors(self) -> set[str]:
        """The ids of all vectors."""
        vectors = self._execute(f'SELECT langchain_id::text FROM "{self.name}"')
        return {str(vector) for vector in vectors}

    def _execute(self, statement: str) -> list[object]:
        engine = sa.create_engine(self.url, poolclass=sa.NullPool)
        with engine.begin() as connection:
            result = connection.exec_driver_sql(statement)
            return list(result.scalars()) if result.returns_rows else []


def document(name: str, version: int = 0, *, paragraphs: int = 12) -> Document:
    """A text that is split into a chunk for each paragraph, other ones in every version.

    The last sentence is in all versions.
    """
    lines = (
        f"{name} version {version} paragraph {number:02}: {'harbor crane rope tide ' * 2}"
        for number in range(paragraphs)
    )
    text = "\n\n".join([*lines, f"This was {name}, as it has always been."])
    return Document(text, metadata={"source": name, "version": version})
