"""Calls that are cancelled at any of their awaits: the next writer of the document does not notice.

With SOAK=n in the environment, n times as many are cancelled; SEED=n for others.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, get_args

import anyio
import pytest
import sqlalchemy as sa
from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore

from langchain_rse import RSEIndexer, RSERetriever, SQLDocStore
from langchain_rse.stores.records import digest
from tests.soaking import SOAK
from tests.unit_tests import fakes
from tests.unit_tests.writes import an_hour_later, check_only_leftovers

CANCELLATIONS = 5 * SOAK
SEED = int(os.environ.get("SEED") or 1)
# Seconds in which any call ends.
_PATIENCE = 60.0
# Calls of the docstore for what a cancelled call has left: removing garbage and its mention.
_MOST_MORE_CALLS = 5

FORMER = "harbor crane 1\nrope tide 2\ncargo 3\n"
NEW = "harbor crane 1\nsalt gull 4\ncargo 3\npilot 5\n"
END = "anchor dock 6\n"
LAST = "harbor crane 1\ngarden rose 7\n"

Operation = Literal["add", "replace", "append", "delete"]
TEXTS: dict[Operation, tuple[str, str]] = {  # before the call and after it; empty for no document
    "add": ("", NEW),
    "replace": (FORMER, NEW),
    "append": (FORMER, f"{FORMER}\n\n{END}"),
    "delete": (FORMER, ""),
}
Kind = Literal["SQLite", "PostgreSQL"]


class CountingDocStore(SQLDocStore):
    """Counts its transactions, also those that are made again."""

    calls = 0

    def _transact(self, *arguments: Any) -> Any:
        self.calls += 1
        return super()._transact(*arguments)


class Awaits:
    """Counts the awaits of a call and of all tasks that it starts, and cancels it at one of them.

    Attributes:
        made: Number of awaits so far.
    """

    def __init__(self, at: int, cancel: Callable[[], Any]) -> None:
        self.made = 0
        self._at = at
        self._cancel = cancel

    def count(self) -> None:
        self.made += 1
        if self.made == self._at:
            self._cancel()

    @contextmanager
    def of_tasks(self) -> Iterator[None]:
        """Count the awaits of all tasks that start meanwhile."""
        loop = asyncio.get_running_loop()

        def make_task(
            loop: asyncio.AbstractEventLoop, coroutine: Any, **kwargs: Any
        ) -> asyncio.Task[Any]:
            return asyncio.Task(Awaited(coroutine, self), loop=loop, **kwargs)

        loop.set_task_factory(make_task)
        try:
            yield
        finally:
            loop.set_task_factory(None)


class Awaited(Coroutine[Any, Any, Any]):
    """A coroutine whose awaits are counted."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any], awaits: Awaits) -> None:
        self._coroutine = coroutine
        self._awaits = awaits

    def send(self, value: Any) -> Any:
        future = self._coroutine.send(value)
        self._awaits.count()
        return future

    def throw(self, *error: Any) -> Any:
        future = self._coroutine.throw(*error)
        self._awaits.count()
        return future

    def close(self) -> None:
        self._coroutine.close()

    def __await__(self) -> Generator[Any, None, Any]:
        return (yield from self)

    def __iter__(self) -> Awaited:
        return self

    def __next__(self) -> Any:
        return self.send(None)


Cancel = Callable[[Coroutine[Any, Any, Any], int], Awaitable[int]]
"""Makes a call, cancels it at an await, and returns how many awaits it has made."""


async def cancel_task(call: Coroutine[Any, Any, Any], at: int) -> int:
    """Cancel the task of a call, once."""

    def cancel() -> None:
        task.cancel()

    awaits = Awaits(at, cancel)
    with awaits.of_tasks():
        task = asyncio.ensure_future(call)
        ended, _ = await asyncio.wait([task], timeout=_PATIENCE)
    assert ended, "it hangs"
    with suppress(asyncio.CancelledError):
        task.result()
    return awaits.made


async def cancel_scope(call: Coroutine[Any, Any, Any], at: int) -> int:
    """Cancel a scope of anyio, which cancels again and again until the call has ended."""
    with anyio.fail_after(_PATIENCE), anyio.CancelScope() as scope:
        awaits = Awaits(at, scope.cancel)
        with awaits.of_tasks():
            await Awaited(call, awaits)
    return awaits.made


class Stores:
    """Two stores that indexers of the same event loop share.

    Attributes:
        most_calls: Calls of the docstore that replace a document if no call was cancelled.
    """

    most_calls = 0

    def __init__(self, vectorstore: VectorStore, docstore: CountingDocStore) -> None:
        self.vectorstore = vectorstore
        self.docstore = docstore

    def indexer(self) -> RSEIndexer:
        return RSEIndexer(
            self.vectorstore, self.docstore, text_splitter=fakes.Lines(), batch_size=2
        )

    async def call(self, operation: Operation, doc_id: str) -> None:
        if operation == "delete":
            await self.indexer().adelete([doc_id])
        else:
            is_append = operation == "append"
            documents = [Document(END if is_append else NEW)]
            await self.indexer().aadd_documents(documents, ids=[doc_id], append=is_append)

    async def add(self, doc_id: str, text: str) -> int:
        """Add a document as another process would; return the calls of the docstore."""
        before = self.docstore.calls
        adding = self.indexer().aadd_documents([Document(text)], ids=[doc_id])
        await asyncio.wait_for(adding, _PATIENCE)
        return self.docstore.calls - before

    async def query(self, doc_id: str) -> str:
        """The text of the document that a query finds; empty if there is none."""
        retriever = RSERetriever(
            vectorstore=self.vectorstore,
            docstore=self.docstore,
            config=fakes.EVERYTHING,
            max_context_length=None,
            duplicates="keep",
        )
        passages = await retriever.ainvoke("harbor", fetch_k=1_000)
        texts = [one.page_content for one in passages if one.metadata["doc_id"] == doc_id]
        return "".join(texts)

    async def check(self) -> None:
        """Nothing is wrong; an hour later, what the cancelled call has left can be removed."""
        report = await self.indexer().acheck()
        assert report.ok, report
        with an_hour_later():
            check_only_leftovers(await self.indexer().acheck(repair=True))


@pytest.fixture(params=get_args(Kind))
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stores]:
    vectorstore: VectorStore = InMemoryVectorStore(fakes.BagOfWords())
    url = f"sqlite:///{tmp_path}/records.db"
    if request.param == "PostgreSQL":
        from langchain_postgres import PGVector
        from sqlalchemy.ext.asyncio import create_async_engine

        url = request.getfixturevalue("postgres_url")
        engine = create_async_engine(url, poolclass=sa.NullPool)
        vectorstore = PGVector(fakes.BagOfWords(), connection=engine, collection_name=str(tmp_path))
    docstore = CountingDocStore(url, table_name=f"cancelled_{digest(str(tmp_path))[:12]}")
    yield Stores(vectorstore, docstore)
    docstore.close()


@pytest.mark.parametrize("cancel", [cancel_task, cancel_scope])
@pytest.mark.filterwarnings("ignore:some documents are excluded")
async def test_the_next_writer_does_not_notice(stores: Stores, cancel: Cancel) -> None:
    chance = random.Random(SEED)  # noqa: S311 - reproducible
    lengths: dict[Operation, int] = {}  # awaits of calls that were not cancelled
    for operation, (before, _) in TEXTS.items():
        doc_id = f"not cancelled {operation} {cancel.__name__}"
        if before:
            await stores.add(doc_id, before)
        lengths[operation] = await cancel(stores.call(operation, doc_id), 0)
        stores.most_calls = max(stores.most_calls, await stores.add(doc_id, LAST))
    counts: Counter[str] = Counter()
    for number in range(CANCELLATIONS):
        operation = chance.choice(list(TEXTS))
        at = chance.randint(1, lengths[operation])
        doc_id = f"document {number} of {cancel.__name__}"
        try:
            counts[await cancel_once(stores, operation, doc_id, cancel, at)] += 1
        except BaseException:
            print(f"seed {SEED}: {operation} of {doc_id!r}, cancelled at await {at}")
            raise
    print(dict(counts), lengths)
    assert counts["cancelled"]


async def cancel_once(
    stores: Stores,
    operation: Operation,
    doc_id: str,
    cancel: Cancel,
    at: int,
) -> str:
    """Cancel one call, and replace its document; say when it was cancelled."""
    before, after = TEXTS[operation]
    if before:
        await stores.add(doc_id, before)
    made = await cancel(stores.call(operation, doc_id), at)
    found = await stores.query(doc_id)
    assert found in (before, after)
    calls = await stores.add(doc_id, LAST)
    assert calls <= stores.most_calls + _MOST_MORE_CALLS, "it has tried again"
    assert await stores.query(doc_id) == LAST
    await stores.check()
    return "cancelled" if made >= at else "ended before"
