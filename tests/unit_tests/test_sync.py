"""Steps that run several tasks at once."""

from __future__ import annotations

import asyncio
import os
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest

from langchain_rse import _sync
from langchain_rse._sync import Steps, arun, call, compute, concurrently, in_thread, run, to_the_end
from tests.unit_tests import fakes

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

    writing = asyncio.ensure_future(arun(to_the_end(compute(write))))
    for _ in range(3):
        await asyncio.sleep(0.02)
        writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    assert is_written.is_set()


async def test_a_cancelled_caller_waits_until_the_function_in_the_thread_has_ended() -> None:
    """The function stops before its next steps. Also if it is cancelled again, as anyio does."""
    made: list[int] = []
    began, may_go_on = threading.Event(), threading.Event()

    def work() -> None:
        for number in range(3):
            run(compute(made.append, number))
            began.set()
            may_go_on.wait(10)

    task = asyncio.ensure_future(in_thread(work))
    await asyncio.to_thread(began.wait, 10)
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0.01)
        assert not task.done()
    may_go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert made == [0]


async def test_a_cancelled_caller_cancels_the_call_that_the_function_awaits() -> None:
    """Of a model, for example. What is being written is written to the end."""
    events: list[str] = []
    began = asyncio.Event()

    async def ask() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            events.append("model is cancelled")

    def write() -> None:
        time.sleep(0.05)
        events.append("written")

    def steps() -> Steps[None]:
        try:
            yield from call(lambda: None, ask)
        finally:
            yield from to_the_end(compute(write))

    task = asyncio.ensure_future(in_thread(run, steps()))
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert events == ["model is cancelled", "written"]


async def test_more_functions_in_threads_than_the_executor_has_threads() -> None:
    """Their steps need threads of the executor, and get them."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))

    def work(number: int) -> int:
        time.sleep(0.01)
        return run(compute(lambda: number))

    calls = [in_thread(work, number) for number in range(20)]
    assert await asyncio.wait_for(asyncio.gather(*calls), 20) == list(range(20))
