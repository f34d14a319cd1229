"""Several calls that write one document, stepped in every order: one version whole, or none.

What both stores hold in the end is compared, record by record and vector by vector, with what they
hold after the same calls one after the other, in some order. Random schedules print their seed.
There are more of them by night, and with SOAK=n in the environment 25 times n.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import threading
import warnings
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Literal, get_args

import pytest
from hypothesis import settings
from langchain_core.documents import Document
from langchain_core.stores import InMemoryStore
from langchain_core.vectorstores import VectorStore

from langchain_rse import RSEIndexer
from langchain_rse.ingest import docstore as docstore_writing
from langchain_rse.stores import compare_and_set
from tests.soaking import SOAK
from tests.unit_tests import fakes
from tests.unit_tests.ingest import stepping
from tests.unit_tests.ingest.stepping import (
    Kind,
    LockInOneStep,
    Operation,
    State,
    Stepped,
    SteppedCall,
    SteppedQuery,
    World,
    interleave,
    seen,
)
from tests.unit_tests.writes import an_hour_later

# Of the schedules that are not all tried.
SAMPLES = 25 * SOAK if SOAK > 1 else settings.default.max_examples // 2

ADDED: list[Operation] = ["v1", "v2", "v3", "force", "delete", "append"]
# Calls that have been made before, and those that are then made at the same time.
STARTS: dict[str, tuple[list[Operation], list[Operation]]] = {
    "nothing": ([], ADDED),
    "stored": (["v1"], ADDED),
    "replaced": (["v1", "v2"], ADDED),
    "adopted": ([], ["v1", "v2", "delete"]),
}
TEXTS = {"v1": stepping.V1, "v2": stepping.V2, "v3": stepping.V3, "force": stepping.V2}

Death = Literal["killed", "cancelled", "failed"]


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docstore_writing, "_LONGEST_PAUSE", 0.0)
    monkeypatch.setattr(compare_and_set, "_lock", LockInOneStep())


class Bench:
    """A pair of stores as some calls have left them, and what other calls leave of that."""

    def __init__(self, kind: Kind, start: str, *, batch_size: int = 100) -> None:
        before, self.operations = STARTS[start]
        self.world = World(kind, batch_size=batch_size)
        if start == "adopted":
            self.world.adopt()
        for operation in before:
            self.call(operation).finish()
        self._start = self.world.save()
        self._left: dict[tuple[Operation, ...], tuple[State, list[Stepped]]] = {}

    def call(self, operation: Operation) -> SteppedCall:
        return self.world.call(operation)

    def calls(self, *operations: Operation) -> list[SteppedCall]:
        """Calls that have not begun, and the stores as they were at the start."""
        self.world.restore(self._start)
        return [self.call(operation) for operation in operations]

    def one_after_the_other(self, *operations: Operation) -> tuple[State, list[Stepped]]:
        """What they leave, and how they end."""
        if operations not in self._left:
            self.world.restore(self._start)
            ended = [self.call(operation).finish() for operation in operations]
            self._left[operations] = self.world.save(), ended
        return self._left[operations]

    def length(self, operation: Operation) -> int:
        return self.one_after_the_other(operation)[1][0].made

    def check(self, operations: Sequence[Operation], ended: Sequence[Stepped]) -> None:
        """The stores hold what these calls leave in some order, without those that were refused."""
        made: list[Operation] = []
        for operation, call in zip(operations, ended, strict=True):
            if call.error is None:
                made.append(operation)
            elif not refused(operation, call.error):
                raise call.error
        left = seen(self.world.save())
        orders = set(itertools.permutations(made))
        # Who appends what another call appends at the same time has appended it.
        while made.count("append") > 1:
            made.remove("append")
            orders |= set(itertools.permutations(made))
        expected = [seen(self.one_after_the_other(*order)[0]) for order in orders]
        if left not in expected:
            pytest.fail(f"in no order do they leave this: {difference(left, expected)}")
        assert self.world.query() in {*TEXTS.values(), None} or "append" in operations


def refused(operation: Operation, error: BaseException) -> bool:
    """True if a call may be refused because of what another one has done."""
    is_told = "append" in str(error) or "another call changed" in str(error)
    return operation == "append" and isinstance(error, ValueError) and is_told


def difference(left: Any, expected: Iterable[Any]) -> str:
    """What differs from the expected state that is most like it."""
    found: list[list[str]] = []
    for one in expected:
        lines = []
        for name, mine, other in zip(("vectors", "records"), left, one, strict=True):
            lines += [f"{name} {key}: missing" for key in other.keys() - mine.keys()]
            lines += [f"{name} {key}: too many" for key in mine.keys() - other.keys()]
            lines += [
                f"{name} {key}: {mine[key]} instead of {other[key]}"
                for key in mine.keys() & other.keys()
                if mine[key] != other[key]
            ]
        found.append(lines)
    return "; ".join(next(lines for lines in found if len(lines) == min(map(len, found))))


def seeded(name: str) -> Iterator[tuple[random.Random, str]]:
    """Generators of random numbers, and what tells a schedule from others."""
    for seed in range(SAMPLES):
        yield random.Random(f"{name} {seed}"), f"{name}, seed {seed}"  # noqa: S311 - reproducible


def turns(chance: random.Random, calls: int, steps: int) -> list[tuple[int, int]]:
    """Turns of random lengths."""
    return [
        (chance.randrange(calls), chance.randint(1, 6)) for _ in range(chance.randint(2, steps))
    ]


# Pairs


@pytest.mark.parametrize("kind", get_args(Kind))
@pytest.mark.parametrize("start", STARTS)
def test_two_calls_in_random_orders(kind: Kind, start: str) -> None:
    """In small batches, so that there are more steps; on each kind of docstore."""
    in_random_orders(Bench(kind, start, batch_size=2), f"{kind} {start}", calls=2, switches=12)


@pytest.mark.parametrize("kind", ["emulated", "native"])
@pytest.mark.parametrize("start", STARTS)
def test_three_calls_in_random_orders(kind: Kind, start: str) -> None:
    in_random_orders(Bench(kind, start), f"three {kind} {start}", calls=3, switches=15)


def in_random_orders(bench: Bench, title: str, *, calls: int, switches: int) -> None:
    """Make so many calls at once, again and again, and check what they leave."""
    for chance, name in seeded(title):
        operations = chance.choices(bench.operations, k=calls)
        made = bench.calls(*operations)
        runs = turns(chance, calls, switches)
        try:
            interleave(made, runs)
            bench.check(operations, made)
        except BaseException:
            print(name, operations, runs)
            raise


# A reader between them


@pytest.mark.parametrize("kind", ["emulated", "native"])
def test_a_reader_gets_one_version_whole(kind: Kind) -> None:
    """Whatever a call does between any two steps of a query, and wherever it dies."""
    bench = Bench(kind, "stored")
    for chance, name in seeded(f"reader {kind}"):
        operation = chance.choice([one for one in ADDED if one != "append"])
        (writer,) = bench.calls(operation)
        reader = SteppedQuery(bench.world)
        runs = turns(chance, 2, 8)
        try:
            interleave([writer, reader], runs)
            assert (writer.error, reader.error) == (None, None)
            # It may have searched while the vectors of that version were being written.
            found = stepping.text_of(reader.result, may_lack_vectors=True)
            after = None if operation == "delete" else TEXTS[operation]
            assert found in {stepping.V1, after}, f"the reader got {found!r}"
        except BaseException:
            print(name, operation, runs)
            raise


@pytest.mark.parametrize("kind", ["emulated", "native"])
@pytest.mark.parametrize("operation", [one for one in ADDED if one != "append"])
def test_a_query_after_any_step(kind: Kind, operation: Operation) -> None:
    bench = Bench(kind, "stored", batch_size=2)
    after = None if operation == "delete" else TEXTS[operation]
    (writer,) = bench.calls(operation)
    before = {stepping.V1}
    while not writer.is_done:
        found = bench.world.query()
        assert found in before | {after}
        if found == after:  # never again the former one
            before = set()
        writer.step()
    assert writer.error is None
    assert bench.world.query() == after


# Calls that die


@pytest.mark.parametrize("death", get_args(Death))
@pytest.mark.parametrize("kind", ["emulated", "native"])
@pytest.mark.parametrize("start", ["nothing", "stored", "replaced"])
def test_a_call_that_dies_among_others(kind: Kind, start: str, death: Death) -> None:
    """Queries still get one version whole; the same call again, and all is as if nothing was."""
    bench = Bench(kind, start)
    for chance, name in seeded(f"{death} {kind} {start}"):
        first, second = chance.choices([one for one in ADDED if one != "append"], k=2)
        runs = turns(chance, 2, 8)
        try:
            _die(bench, first, second, death, runs)
        except BaseException:
            print(name, first, second, runs)
            raise


def repair_later(bench: Bench) -> None:
    """Remove what dead calls have left."""
    with an_hour_later():
        report = bench.world.indexer.check(repair=True)
    assert report.ok, report


def _die(
    bench: Bench,
    first: Operation,
    second: Operation,
    death: Death,
    runs: Iterable[tuple[int, int]],
) -> None:
    dying, other = bench.calls(first, second)
    for number, steps in runs:
        for _ in range(steps):
            if not (dying, other)[number].is_done:
                (dying, other)[number].step()
    if death == "killed":
        dying.kill()
    elif not dying.is_done:
        error = asyncio.CancelledError() if death == "cancelled" else fakes.CrashError()
        dying.step(error)
    assert _query_beside_what_is_left(bench) in {*TEXTS.values(), None}
    interleave([dying, other], [])
    if other.error:
        raise other.error
    again = bench.call(first).finish()
    if again.error:
        raise again.error
    repair_later(bench)
    left = seen(bench.world.save())
    orders: list[tuple[Operation, ...]] = [(second, first), (first, second, first)]
    expected = [seen(bench.one_after_the_other(*order)[0]) for order in orders]
    if left not in expected:
        pytest.fail(f"not as if nothing had happened: {difference(left, expected)}")
    assert bench.world.query() == (None if first == "delete" else TEXTS[first])


# Calls that stop for longer than an announcement lives


@pytest.mark.parametrize("ending", ["goes on", "killed"])
@pytest.mark.parametrize("kind", ["native", "sql"])  # others are for one process, which stops whole
@pytest.mark.parametrize("start", ["nothing", "stored", "replaced"])
def test_stops_of_any_length(kind: Kind, start: str, ending: str) -> None:
    """A call stops, others write its document and remove its version; then it wakes up.

    What it does then, before it ends or is killed, takes nothing from the others. The same call
    again leaves nothing of what it has written in vain.
    """
    bench = Bench(kind, start, batch_size=2)
    for chance, name in seeded(f"stop {kind} {start} {ending}"):
        operations = chance.choices([each for each in ADDED if each != "append"], k=3)
        stopped_after = chance.randint(1, bench.length(operations[0]))
        awake = chance.randint(1, 6)
        try:
            _stop(bench, operations, stopped_after, awake if ending == "killed" else None)
        except BaseException:
            print(name, operations, f"stopped after {stopped_after}, killed after {awake}")
            raise


def _stop(
    bench: Bench, operations: Sequence[Operation], stopped_after: int, killed_after: int | None
) -> None:
    """One schedule of `test_stops_of_any_length`."""
    [stopped] = bench.calls(operations[0])
    for _ in range(stopped_after):
        if not stopped.is_done:
            stopped.step()
    with an_hour_later():
        for operation in operations[1:]:
            assert bench.call(operation).finish().error is None
    last = operations[-1]
    expected_text = None if last == "delete" else TEXTS[last]
    assert _query_beside_what_is_left(bench) == expected_text

    if killed_after is None:
        interleave([stopped], [])
        assert stopped.error is None
        left = seen(bench.world.save())
        # It may notice that its version was removed, and do its work again.
        ends: list[Operation] = [last, operations[0]]
    else:
        for _ in range(killed_after):
            if not stopped.is_done:
                stopped.step()
        stopped.kill()
        found = _query_beside_what_is_left(bench)
        assert found in {expected_text, *_text_after(operations[0])}, f"a query gets {found!r}"
        for operation in ("v1", "v2"):  # one of them at least is new
            assert bench.call(operation).finish().error is None
        repair_later(bench)  # what was written in vain may be left
        left = seen(bench.world.save())
        ends = ["v2"]
    expected = [seen(bench.one_after_the_other(end)[0]) for end in ends]
    if left not in expected:
        pytest.fail(f"not as if it had not been stopped: {difference(left, expected)}")


@pytest.mark.parametrize("start", ["nothing", "stored"])
def test_a_deleted_document_stays_deleted(start: str) -> None:
    """Repair does not take what a killed call has written for a document of a lost manifest."""
    bench = Bench("native", start, batch_size=2)
    expected = seen(bench.one_after_the_other("delete")[0])
    length = bench.length("v2")
    for stopped_after, awake in itertools.product(range(1, length), repeat=2):
        [stopped] = bench.calls("v2")
        for _ in range(stopped_after):
            stopped.step()
        with an_hour_later():
            bench.call("delete").finish()
        for _ in range(awake):
            if not stopped.is_done:
                stopped.step()
        if stopped.is_done:  # it has begun again, and is the last one
            continue
        stopped.kill()
        for operation in ("v1", "delete"):
            assert bench.call(operation).finish().error is None
        repair_later(bench)
        left = seen(bench.world.save())
        if left != expected:
            pytest.fail(
                f"stopped after {stopped_after}, awake {awake}: {difference(left, [expected])}"
            )


def _query_beside_what_is_left(bench: Bench) -> str | None:
    """Query; that there are vectors of no document is warned of."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "some documents are excluded")
        return bench.world.query()


def _text_after(operation: Operation) -> set[str | None]:
    return {None} if operation == "delete" else {TEXTS[operation]}


# A cancelled call whose model goes on


async def test_what_a_cancelled_call_was_embedding_is_deleted() -> None:
    """The thread with the model cannot be cancelled: deleting waits for it, and finds its work."""
    model = SlowModel()
    vectorstore = fakes.WatchedVectorStore(model, fakes.Writes())
    # As stores do that have no async methods.
    vectorstore.aadd_documents = partial(VectorStore.aadd_documents, vectorstore)  # type: ignore[method-assign]
    docstore = InMemoryStore()
    indexer = RSEIndexer(vectorstore, docstore, text_splitter=fakes.Lines())
    adding = asyncio.ensure_future(
        indexer.aadd_documents([Document(stepping.V1)], ids=[stepping.DOC_ID])
    )
    await asyncio.to_thread(model.began.wait)
    adding.cancel()
    deleting = asyncio.ensure_future(indexer.adelete([stepping.DOC_ID]))
    await asyncio.sleep(0)
    model.go_on.set()
    await asyncio.wait([adding])
    assert adding.cancelled()
    await deleting
    assert vectorstore.store == {}
    assert fakes.keys_of(docstore) == []


class SlowModel(fakes.Angles):
    """Embeds when it is told to."""

    def __init__(self) -> None:
        self.began, self.go_on = threading.Event(), threading.Event()

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.began.set()
        assert self.go_on.wait(60)
        return super().embed_documents(texts)
