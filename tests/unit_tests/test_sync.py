"""Steps that run several tasks at once."""

from __future__ import annotations

import asyncio
import os
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from langchain_rse import _sync
from langchain_rse._messages import warn
from langchain_rse._sync import (
    Steps,
    arun,
    call,
    compute,
    compute_to_the_end,
    concurrently,
    in_thread,
    run,
)
from tests.unit_tests import fakes
from tests.unit_tests.fakes import Way

way = fakes.way


class Workers:
    """Tasks that note when they begin and end.

    Attributes:
        under_way: The tasks that have begun and not ended.
        most: The most tasks that were under way at once.
        ended: The tasks that have ended, or were cancelled and have cleaned up.
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

    def task(self, number: int, barrier: threading.Barrier) -> Steps[int]:
        """Make a task that returns its number; in a thread, it waits at the barrier."""

        def work() -> int:
            self.begin(number)
            barrier.wait(10)
            self.end(number)
            return number

        async def awork() -> int:
            self.begin(number)
            for _ in range(5):
                await asyncio.sleep(0)
            self.end(number)
            return number

        return (yield from call(work, awork))


@pytest.mark.parametrize("limit", [1, 3, 8])
@fakes.both_ways
def test_results_in_order_and_no_more_at_once_than_allowed(way: Way, limit: int) -> None:
    workers = Workers()
    # In threads, as many tasks wait for one another as may run at once.
    barrier = threading.Barrier(min(limit, 6))
    tasks = [workers.task(number, barrier) for number in range(6)]
    assert way.call(run, arun, concurrently(tasks, limit)) == list(range(6))
    assert workers.most == min(limit, 6)


def two_idents() -> set[int]:
    """Run two tasks at once; return the threads that ran them."""
    barrier = threading.Barrier(2, timeout=10)

    def work() -> int:
        barrier.wait()
        return threading.get_ident()

    return set(run(concurrently([compute(work), compute(work)], 2)))


def test_threads_are_kept_also_after_a_fork() -> None:
    threads = {ident for _ in range(5) for ident in two_idents()}
    assert threading.get_ident() in threads
    kept = [thread for thread in threading.enumerate() if thread.ident in threads]
    assert len(kept) == len(threads)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forking a process with threads
        child = os.fork()
    if not child:
        os._exit(0 if len(two_idents()) == 2 else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_tasks_that_run_tasks_do_not_wait_for_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    with ThreadPoolExecutor(2) as threads:
        monkeypatch.setattr(_sync, "_threads", lambda _: threads)

        def nested(depth: int) -> Steps[int]:
            if not depth:
                return (yield from compute(int, 1))
            return sum((yield from concurrently([nested(depth - 1) for _ in range(4)], 4)))

        assert run(nested(3)) == 4**3


def test_the_first_error_of_threads_leaves_no_task_to_begin() -> None:
    begun: list[int] = []

    def task(number: int) -> Steps[None]:
        def work() -> None:
            begun.append(number)
            time.sleep(0.05)
            raise ConnectionError(f"no route {number}")

        return compute(work)

    with pytest.raises(ConnectionError, match="no route 0"):
        run(concurrently([task(number) for number in range(9)], 2))
    assert sorted(begun) == [0, 1]


async def test_the_first_error_is_raised_when_nothing_is_under_way() -> None:
    """Cancelled tasks have cleaned up by then."""
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


async def test_cancelling_a_write_waits_until_it_has_ended() -> None:
    """Also if it is cancelled again, as anyio does."""
    is_written = threading.Event()

    def write() -> None:
        time.sleep(0.2)
        is_written.set()

    writing = asyncio.ensure_future(arun(compute_to_the_end(write)))
    for _ in range(3):
        await asyncio.sleep(0.02)
        writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    assert is_written.is_set()


@pytest.mark.parametrize("make_steps", [compute, compute_to_the_end])
async def test_a_warning_of_a_thread_names_the_line_of_the_caller(make_steps: Any) -> None:
    with pytest.warns(UserWarning, match="of the thread") as caught:
        await arun(make_steps(warn, "of the thread"))
    assert [warning.filename for warning in caught] == [__file__]


def _refuse() -> tuple[bool, int]:
    raise AssertionError("this store has only async methods")


async def test_steps_of_a_function_in_a_thread_are_awaited_on_the_loop_of_the_caller() -> None:
    """So stores with only async methods, or with connections of one loop, can be used."""
    loop = asyncio.get_running_loop()

    async def ask() -> tuple[bool, int]:
        return asyncio.get_running_loop() is loop, threading.get_ident()

    def work() -> tuple[bool, bool]:
        is_on_loop, thread = run(call(_refuse, ask))
        return is_on_loop, thread != threading.get_ident()

    assert await in_thread(work) == (True, True)


async def test_a_function_in_a_thread_ends_before_its_next_steps_if_its_caller_is_cancelled() -> (
    None
):
    made: list[int] = []
    began, ended = threading.Event(), threading.Event()

    def work() -> None:
        try:
            for number in range(3):
                run(compute(made.append, number))
                began.set()
                cancelled.wait(10)
        finally:
            ended.set()

    cancelled = threading.Event()
    task = asyncio.ensure_future(in_thread(work))
    await asyncio.to_thread(began.wait, 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    cancelled.set()
    assert await asyncio.to_thread(ended.wait, 10)
    assert made == [0]


async def test_more_functions_in_threads_than_the_executor_has_threads() -> None:
    """Their steps need threads of the executor, and get them."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))

    def work(number: int) -> int:
        time.sleep(0.01)
        return run(compute(lambda: number))

    calls = [in_thread(work, number) for number in range(20)]
    assert await asyncio.wait_for(asyncio.gather(*calls), 20) == list(range(20))
