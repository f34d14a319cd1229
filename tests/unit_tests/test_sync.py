"""One way through the code: calls one after the other, and several at once."""

from __future__ import annotations

import asyncio
import threading

import pytest

from langchain_rse._sync import Steps, arun, call, concurrently, run
from tests.unit_tests import fakes
from tests.unit_tests.fakes import Way

way = fakes.way


class Workers:
    """Tasks that note when they begin and end; each waits for another to begin, if told.

    Attributes:
        under_way: Those that have begun and not ended.
        most: The most that were under way at once.
        ended: Those that ended, or were cancelled and have cleaned up.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.under_way: set[int] = set()
        self.most = 0
        self.ended: list[int] = []

    def begin(self, number: int) -> None:
        with self.lock:
            self.under_way.add(number)
            self.most = max(self.most, len(self.under_way))

    def end(self, number: int) -> None:
        with self.lock:
            self.under_way.discard(number)
            self.ended.append(number)

    def task(self, number: int, wait: threading.Barrier | None = None) -> Steps[int]:
        def work() -> int:
            self.begin(number)
            if wait is not None:
                wait.wait(10)
            self.end(number)
            return number

        async def awork() -> int:
            self.begin(number)
            for _ in range(5):
                await asyncio.sleep(0)
            self.end(number)
            return number

        return (yield from call(work, awork))


@pytest.mark.parametrize("limit", [1, 2, 3, 8])
def test_results_in_order_and_no_more_at_once_than_allowed(way: Way, limit: int) -> None:
    workers = Workers()
    # In threads, as many wait for one another as may work at once.
    wait = threading.Barrier(min(limit, 6)) if 6 % limit == 0 or limit > 6 else None
    tasks = [workers.task(number, wait) for number in range(6)]
    assert way.call(run, arun, concurrently(tasks, limit)) == list(range(6))
    assert workers.most <= limit
    if wait is not None:
        assert workers.most == min(limit, 6)


def test_nothing_at_all(way: Way) -> None:
    nothing: list[Steps[int]] = []
    assert way.call(run, arun, concurrently(nothing, 4)) == []


async def test_the_first_error_is_raised_when_nothing_is_under_way() -> None:
    """What cancelled tasks clean up is done by then."""
    workers = Workers()
    begun = asyncio.Event()

    def slow(number: int) -> Steps[int]:
        async def work() -> int:
            workers.begin(number)
            if len(workers.under_way) == 2:
                begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                for _ in range(5):  # of closing a connection, say
                    await asyncio.sleep(0)
                workers.end(number)
            return number

        return (yield from call(lambda: number, work))

    def failing() -> Steps[int]:
        async def work() -> int:
            await begun.wait()
            raise ConnectionError("no route")

        return (yield from call(lambda: 0, work))

    with pytest.raises(ConnectionError, match="no route"):
        await arun(concurrently([slow(0), failing(), slow(2)], 3))
    assert workers.under_way == set()
    assert sorted(workers.ended) == [0, 2]


async def test_who_cancels_all_waits_for_all() -> None:
    workers = Workers()
    begun = asyncio.Event()

    def slow() -> Steps[int]:
        async def work() -> int:
            workers.begin(0)
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)
                workers.end(0)
            return 0

        return (yield from call(lambda: 0, work))

    asked = asyncio.ensure_future(arun(concurrently([slow()], 4)))
    await begun.wait()
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    assert workers.ended == [0]


def test_an_error_of_a_thread_ends_those_that_wait() -> None:
    begun: list[int] = []

    def task(number: int) -> Steps[int]:
        def work() -> int:
            begun.append(number)
            if number == 0:
                raise ConnectionError("no route")
            return number

        async def never() -> int:
            raise AssertionError

        return (yield from call(work, never))

    with pytest.raises(ConnectionError, match="no route"):
        run(concurrently([task(number) for number in range(500)], 1))
    assert begun == [0]
