"""PostgreSQL for both stores: connections that are cut off, and two indexes in one database.

With SOAK=n in the environment, n times as many are.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from typing import Self

import psycopg
import pytest
import sqlalchemy as sa
from langchain_core.documents import Document
from langchain_core.stores import InMemoryByteStore
from langchain_postgres import PGVector

from langchain_rse import RSEIndexer, RSERetriever
from tests.integration_tests.postgres_pair import Pair, document
from tests.soaking import SOAK
from tests.unit_tests import fakes

SHARED = [f"report {number}" for number in range(4)]
CUTS = 6 * SOAK
SEED = int(os.environ.get("SEED") or 1)


@pytest.fixture
def pair(postgres_url: str) -> Pair:
    return Pair.create(postgres_url)


def retriever(indexer: RSEIndexer) -> RSERetriever:
    return RSERetriever(
        vectorstore=indexer.vectorstore,
        docstore=indexer.docstore,
        config=fakes.EVERYTHING,
    )


class Cut:
    """Ends a connection of this process before a statement, or the commit, of a number."""

    def __init__(self, url: str, at: int) -> None:
        self.is_made = False
        self._url = sa.make_url(url).set(drivername="postgresql")
        self._left = at

    def __enter__(self) -> Self:
        sa.event.listen(sa.Engine, "before_cursor_execute", self._count)
        sa.event.listen(sa.Engine, "commit", self._count)
        return self

    def __exit__(self, *_: object) -> None:
        sa.event.remove(sa.Engine, "before_cursor_execute", self._count)
        sa.event.remove(sa.Engine, "commit", self._count)

    def _count(self, connection: sa.Connection, *_: object) -> None:
        self._left -= 1
        if self._left == 0:
            pid = connection.connection.driver_connection.info.backend_pid  # type: ignore[union-attr]
            with psycopg.connect(self._url.render_as_string(hide_password=False)) as other:
                other.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])
            self.is_made = True


@pytest.mark.filterwarnings("ignore:(some documents are excluded|the retriever has no documents)")
def test_connections_that_are_cut_off(pair: Pair, postgres_url: str) -> None:
    """The call fails; its document stays whole, and the same call again works."""
    chance = random.Random(SEED)  # noqa: S311 - reproducible
    counts: Counter[str] = Counter()
    texts: dict[str, str | None] = dict.fromkeys(SHARED)
    with pair.opened() as indexer:
        for number in range(CUTS):
            name = chance.choice(SHARED)
            new = document(name, number) if chance.random() < 0.8 else None
            at = chance.randint(1, 25)
            with Cut(postgres_url, at) as cut:
                try:
                    _write(indexer, name, new)
                except sa.exc.DBAPIError:
                    counts["failed"] += 1
            counts["cut off"] += cut.is_made
            before, texts[name] = texts[name], None if new is None else new.page_content
            try:
                assert _found(indexer, name) in (before, texts[name])
                _write(indexer, name, new)
                assert _found(indexer, name) == texts[name]
            except BaseException:
                print(f"seed {SEED}, number {number}: {name!r} was cut off at statement {at}")
                raise
    pair.repair()
    print(f"seed {SEED}: {dict(counts)}")
    assert counts["failed"]
    assert pair.check().keys() == {name for name, text in texts.items() if text}


def _write(indexer: RSEIndexer, name: str, new: Document | None) -> None:
    if new is None:
        indexer.delete([name])
    else:
        indexer.add_documents([new])


def _found(indexer: RSEIndexer, name: str) -> str | None:
    """The text of a document that a query finds."""
    passages = retriever(indexer).invoke("harbor", max_context_length=None, fetch_k=1_000)
    texts = [one.page_content for one in passages if one.metadata["doc_id"] == name]
    return "".join(texts) or None


def test_two_collections_have_their_own_vectors(postgres_url: str) -> None:
    """Although PGVector keeps all collections in one table, under one key."""
    engine = sa.create_engine(postgres_url)
    indexers: list[RSEIndexer] = []
    for name in ("first of two", "second of two"):
        store = PGVector(fakes.BagOfWords(), connection=engine, collection_name=name)
        indexers.append(RSEIndexer(store, InMemoryByteStore()))
    for indexer in indexers:
        indexer.add_documents([Document("the same text", metadata={"source": "same.txt"})])

    def check(indexer: RSEIndexer) -> None:
        found = [passage.page_content for passage in retriever(indexer).invoke("text")]
        assert found == ["the same text"]
        assert indexer.check().ok

    check(indexers[0])
    check(indexers[1])
    indexers[1].delete(["same.txt"])
    check(indexers[0])
    indexers[0].delete(["same.txt"])
    engine.dispose()
