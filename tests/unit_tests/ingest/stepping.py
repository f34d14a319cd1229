"""Calls that write one document, made one step at a time in any order.

A step is one call of a store. Each call that writes runs in a thread of its own, and waits for its
turn before each step. A query is a generator of steps, which may read several times.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any, Literal, Self

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.stores import BaseStore, InMemoryStore
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_rse import ExistingIndex, RSEIndexer, RSERetriever, SQLDocStore
from langchain_rse._sync import Call, Steps, run
from langchain_rse.stores.compare_and_set import Change, ComparesAndSets, is_as_expected
from tests.unit_tests import fakes
from tests.unit_tests.writes import records_without_writes, vectors_without_writes

# More than any schedule needs: a writer that does not end by then never does.
_MOST_STEPS = 2_000

DOC_ID = "doc"
V1 = "a 10\na 20\na 30\n"
V2 = "a 10\nb 21\na 30\nb 41\n"  # has chunks of V1
V3 = "c 12\nc 22\n"
END = "d 50\n"
OTHER = "o 60\no 70\n"  # another document, which nobody writes


class Touched:
    """Notes that a store was called."""

    def __init__(self) -> None:
        self.since = False

    @contextmanager
    def step(self) -> Iterator[None]:
        """Wait for the turn of the call that this thread makes, if any; not within a step."""
        self.since = True
        call: SteppedCall | None = getattr(_running, "call", None)
        if call is None or call.is_inside:
            yield
            return
        call.wait_for_turn()
        call.is_inside = True
        try:
            yield
        finally:
            call.is_inside = False
        call.raise_error()


_running = threading.local()


class LockInOneStep:
    """A lock around several calls of a store, which are one step."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._step: AbstractContextManager[None] = nullcontext()  # of the thread that has the lock

    def __enter__(self) -> None:
        step = Touched().step()
        step.__enter__()
        self._lock.acquire()
        self._step = step

    def __exit__(self, *error: object) -> None:
        step = self._step
        self._lock.release()
        step.__exit__(*error)


class TouchedDocStore(BaseStore[str, Document]):
    """A docstore that notes its calls; it has only what every ``BaseStore`` has."""

    def __init__(self, store: BaseStore[str, Document], touched: Touched) -> None:
        self.store = store
        self._touched = touched

    def mget(self, keys: Sequence[str]) -> list[Document | None]:
        with self._touched.step():
            return self.store.mget(keys)

    def mset(self, key_value_pairs: Sequence[tuple[str, Document]]) -> None:
        with self._touched.step():
            self.store.mset(key_value_pairs)

    def mdelete(self, keys: Sequence[str]) -> None:
        with self._touched.step():
            self.store.mdelete(keys)

    def yield_keys(self, *, prefix: str | None = None) -> Iterator[str]:
        with self._touched.step():
            return self.store.yield_keys(prefix=prefix)


class ComparingDocStore(TouchedDocStore):
    """Compares and sets in one step, as a database does."""

    def compare_and_set(self, changes: Sequence[Change]) -> list[bool]:
        with self._touched.step():
            if isinstance(self.store, ComparesAndSets):
                return self.store.compare_and_set(changes)
            made = []
            for key, expected, new in changes:
                made.append(is_as_expected(self.store.mget([key])[0], expected))
                if made[-1] and new is not None:
                    self.store.mset([(key, new)])
                elif made[-1]:
                    self.store.mdelete([key])
            return made


class TouchedVectorStore(InMemoryVectorStore):
    """A vector store that notes its calls."""

    def __init__(self, embedding: Embeddings, touched: Touched) -> None:
        self._touched = touched
        self._rows: dict[str, dict[str, Any]] = {}
        super().__init__(embedding)

    @property
    def store(self) -> dict[str, dict[str, Any]]:
        with self._touched.step():
            return self._rows

    @store.setter
    def store(self, rows: dict[str, dict[str, Any]]) -> None:
        self._rows = rows

    def add_documents(self, *arguments: Any, **named: Any) -> list[str]:
        with self._touched.step():
            return super().add_documents(*arguments, **named)

    def delete(self, *arguments: Any, **named: Any) -> None:
        with self._touched.step():
            super().delete(*arguments, **named)

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        with self._touched.step():
            return super().get_by_ids(ids)


Kind = Literal["emulated", "native", "sql"]
State = tuple[dict[str, Any], dict[str, Document]]
Operation = Literal["v1", "v2", "v3", "force", "delete", "append"]
"""Adding a version, adding the second one with force, and so on."""

_QUERY = "any 45"
_INDEX = ExistingIndex(doc_id_key="source", chunk_index_key="number", separator="", chunk_overlap=0)


class World:
    """Two stores, one document that is written, and another one beside it."""

    def __init__(self, kind: Kind, *, batch_size: int = 100) -> None:
        self.touched = Touched()
        self.vectorstore = TouchedVectorStore(fakes.Angles(), self.touched)
        self._inner: BaseStore[str, Document] = (
            SQLDocStore("sqlite://") if kind == "sql" else InMemoryStore()
        )
        native = kind == "native" or isinstance(self._inner, ComparesAndSets)
        of = ComparingDocStore if native else TouchedDocStore
        self.docstore = of(self._inner, self.touched)
        self.indexer = RSEIndexer(
            self.vectorstore, self.docstore, text_splitter=fakes.Lines(), batch_size=batch_size
        )
        self.retriever = RSERetriever(
            vectorstore=self.vectorstore,
            docstore=self.docstore,
            config=fakes.EVERYTHING,
            max_context_length=None,
            duplicates="keep",
        )
        self.indexer.add_documents([Document(OTHER)], ids=["other"])

    def call(self, operation: Operation) -> SteppedCall:
        """A call that has not begun."""
        return SteppedCall(partial(self._make, operation))

    def _make(self, operation: Operation) -> Any:
        if operation == "delete":
            return self.indexer.delete([DOC_ID])
        texts = {"v1": V1, "v2": V2, "v3": V3, "force": V2, "append": END}
        return self.indexer.add_documents(
            [Document(texts[operation])],
            ids=[DOC_ID],
            append=operation == "append",
            force=operation == "force",
        )

    def adopt(self) -> None:
        """Add chunks of the document as plain LangChain code does, and adopt them."""
        lines = V1.splitlines(keepends=True)
        self.vectorstore.add_documents(
            [
                Document(line, metadata={"source": DOC_ID, "number": number})
                for number, line in enumerate(lines)
            ],
            ids=[f"vector {number}" for number in range(len(lines))],
        )
        self.indexer.adopt(_INDEX)

    def save(self) -> State:
        keys = list(self._inner.yield_keys())
        records = zip(keys, self._inner.mget(keys), strict=True)
        return dict(self.vectorstore._rows), {key: one for key, one in records if one is not None}

    def restore(self, state: State) -> None:
        rows, records = state
        self.vectorstore._rows = dict(rows)
        self._inner.mdelete([key for key in self._inner.yield_keys() if key not in records])
        self._inner.mset(list(records.items()))

    def reading(self) -> Steps[list[Document]]:
        """A query that has not begun."""
        manager = CallbackManagerForRetrieverRun.get_noop_manager()
        return self.retriever._retrieve(_QUERY, {}, manager)

    def query(self) -> str | None:
        return text_of(run(self.reading()))


def seen(state: State) -> tuple[dict[str, Any], dict[str, Any]]:
    """All of both stores, but what differs between two calls that do the same."""
    rows, records = state
    return vectors_without_writes(rows), records_without_writes(records)


def text_of(passages: Sequence[Document], *, may_lack_vectors: bool = False) -> str | None:
    """The text that a query found of the document; None if it found none."""
    texts: dict[str, list[Document]] = {}
    for one in passages:
        texts.setdefault(one.metadata["doc_id"], []).append(one)
    (other,) = texts.pop("other")
    assert other.page_content == OTHER
    if not texts:
        return None
    (found,) = texts.pop(DOC_ID)
    for chunk in found.metadata["rse"]["chunks"]:
        assert may_lack_vectors or "filled" not in chunk, "a vector is missing"
    return found.page_content


class Stepped:
    """A call that is made step by step.

    Attributes:
        is_done: True if it has ended, with an error or not.
        error: The error it has ended with.
        result: What it has returned.
        made: Number of steps so far.
    """

    def __init__(self) -> None:
        self.is_done = False
        self.error: BaseException | None = None
        self.result: Any = None
        self.made = 0

    def step(self) -> None:
        """Make one step."""
        raise NotImplementedError

    def finish(self) -> Self:
        while not self.is_done:
            self.step()
        return self


class SteppedCall(Stepped):
    """A call in a thread of its own, which waits before each step."""

    def __init__(self, function: Callable[[], Any]) -> None:
        super().__init__()
        self.is_inside = False  # within a step
        self._function = function
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._may_go_on = threading.Semaphore(0)
        self._waits = threading.Semaphore(0)  # before the next step, or ended
        self._error: BaseException | None = None  # to be raised after the step
        self._is_killed = False

    def step(self, then: BaseException | None = None) -> None:
        """Make one step; then let the call fail with an error, if given."""
        self.made += 1
        assert self.made < _MOST_STEPS, "it never ends"
        if self._thread.ident is None:
            self._thread.start()
            self._wait()
        if not self.is_done:
            self._error = then
            self._may_go_on.release()
            self._wait()

    def _wait(self) -> None:
        assert self._waits.acquire(timeout=60), "it hangs"

    def kill(self) -> None:
        """End it as the end of its process does: nothing more is made, nothing is released."""
        if not self.is_done and self._thread.ident is not None:
            self._is_killed = True
            self._may_go_on.release()
            self._thread.join()
        self.is_done = True

    # In its thread

    def _run(self) -> None:
        _running.call = self
        try:
            self.result = self._function()
        except BaseException as error:  # noqa: BLE001 - of any kind
            self.error = error
        self.is_done = True
        self._waits.release()

    def wait_for_turn(self) -> None:
        if not self._is_killed:
            self._waits.release()
            self._may_go_on.acquire()
        if self._is_killed:  # whatever it does then, it does not reach a store
            raise KeyboardInterrupt

    def raise_error(self) -> None:
        if self._error is not None:
            error, self._error = self._error, None
            raise error


class SteppedQuery(Stepped):
    """A query; a step may be several calls of a store that read."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world
        self._steps = world.reading()
        self._pending: Call | None = None

    def step(self) -> None:
        self.made += 1
        assert self.made < _MOST_STEPS, "it never ends"
        self._world.touched.since = False
        if self._pending is None:
            self._advance(lambda: next(self._steps))
        while not self.is_done and not self._world.touched.since:
            pending = self._pending
            assert pending is not None
            try:
                result = pending.sync()
            except BaseException as error:  # noqa: BLE001 - as in _sync.run
                self._advance(partial(self._steps.throw, error))
            else:
                self._advance(partial(self._steps.send, result))

    def _advance(self, go: Callable[[], Call]) -> None:
        try:
            self._pending = go()
        except StopIteration as stop:
            self.is_done, self.result = True, stop.value
        except BaseException as error:  # noqa: BLE001 - of any kind
            self.is_done, self.error = True, error


def interleave(calls: Sequence[Stepped], runs: Iterable[tuple[int, int]]) -> None:
    """Let calls make some steps in turns, then each its others.

    Args:
        calls: The calls.
        runs: Numbers of calls, and how many steps each makes before the next one comes.
    """
    for number, steps in runs:
        for _ in range(steps):
            if calls[number].is_done:
                break
            calls[number].step()
    for call in calls:
        call.finish()
