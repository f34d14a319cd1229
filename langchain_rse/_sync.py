"""Sync and async versions of a function from one generator.

Code that waits for a store is written once, as a generator that yields the calls it needs. `run`
makes these calls; `arun` awaits their async forms.
"""

import asyncio
import itertools
import os
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from contextvars import ContextVar, copy_context
from functools import cache, partial, wraps
from threading import Thread
from typing import Any, Concatenate, Generic, NamedTuple, ParamSpec, TypeVar

from langchain_core.runnables import run_in_executor

# Threads that run tasks for all callers, at most.
_MOST_THREADS = 128

P = ParamSpec("P")
T = TypeVar("T")


class Call(NamedTuple):
    """A call in a sync and an async form, with its arguments bound."""

    sync: Callable[[], Any]
    asynchronous: Callable[[], Awaitable[Any]]


Steps = Generator[Call, Any, T]
"""Generator that yields calls and returns a T."""


# Running functions in threads


class _Waiter:
    """Awaits the steps of a function in a thread on the event loop of the function's caller."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[Any] | None] = set()
        self._is_cancelled = False

    def run(self, steps: Steps[T]) -> T:
        """Await steps on the loop; called in the thread."""
        try:
            return asyncio.run_coroutine_threadsafe(self._arun(steps), self.loop).result()
        except CancelledError:
            raise asyncio.CancelledError from None

    async def _arun(self, steps: Steps[T]) -> T:
        if self._is_cancelled:
            raise asyncio.CancelledError
        _waiter.set(None)  # functions that these steps call run their steps in place
        task = asyncio.current_task()
        self._tasks.add(task)
        try:
            return await arun(steps)
        finally:
            self._tasks.discard(task)

    def cancel(self) -> None:
        """Cancel the steps that are running, and all later ones."""
        self._is_cancelled = True
        for task in self._tasks:
            if task is not None:
                task.cancel()


_waiter: ContextVar[_Waiter | None] = ContextVar("waiter", default=None)


async def in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a function in a thread, and await the steps that it runs on this event loop.

    The function can therefore use stores that have only async methods, or whose connections belong
    to the loop. If the caller is cancelled, the steps of the function are cancelled, and the caller
    waits until the function has ended.
    """
    waiter = _Waiter()
    ended: Future[T] = Future()

    def work() -> None:
        _waiter.set(waiter)
        try:
            ended.set_result(function(*args, **kwargs))
        except BaseException as error:  # noqa: BLE001 - raised where the future is awaited
            ended.set_exception(error)

    # Not in an executor: the steps need its threads, and all of them may be waiting for functions.
    # Python does not wait for this thread at exit.
    Thread(target=copy_context().run, args=(work,), daemon=True).start()
    return await _to_the_end(asyncio.wrap_future(ended), waiter.cancel)


def as_async(
    function: Callable[P, T], name: str | None = None
) -> Callable[P, Coroutine[Any, Any, T]]:
    """Make the async twin of a function or method; it runs the function in a thread."""

    @wraps(function)
    async def twin(*args: P.args, **kwargs: P.kwargs) -> T:
        return await in_thread(function, *args, **kwargs)

    # Python's errors name a method alone: its class may be a base that the caller does not know.
    twin.__name__ = twin.__qualname__ = name or f"a{function.__name__}"
    function.__qualname__ = function.__name__
    twin.__doc__ = f"Like `{function.__name__}`, async."
    return twin


class AsyncConstructor(classmethod, Generic[P]):  # type: ignore[type-arg]
    """The async twin of a class method that makes an object of its class."""

    def __init__(self, function: Callable[Concatenate[Any, P], Any]) -> None:
        super().__init__(as_async(function.__func__))  # type: ignore[attr-defined]

    def __get__(  # type: ignore[override]
        self, instance: object, owner: type[T]
    ) -> Callable[P, Coroutine[Any, Any, T]]:
        """Return the bound method."""
        return super().__get__(instance, owner)


async def _to_the_end(awaitable: Awaitable[T], cancel: Callable[[], None] = lambda: None) -> T:
    """Await a call; a cancelled caller calls ``cancel``, and waits until the call has ended."""
    future = asyncio.ensure_future(awaitable)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        cancel()
        while not future.done():
            with suppress(asyncio.CancelledError):  # anyio cancels repeatedly
                await asyncio.wait([future])
        if not future.cancelled():
            future.exception()  # unless it is retrieved, asyncio logs it
        raise


# Running steps


def run(steps: Steps[T]) -> T:
    """Run a generator of calls to its end, and return its result."""
    waiter = _waiter.get()
    if waiter is not None:
        return waiter.run(steps)
    try:
        step = next(steps)
        while True:
            try:
                result = step.sync()
            except BaseException as error:  # noqa: BLE001 - the generator may handle it
                step = steps.throw(error)
            else:
                del step  # frees its arguments, which may be large
                step = steps.send(result)
    except StopIteration as stop:
        value: T = stop.value
        return value


async def arun(steps: Steps[T]) -> T:
    """Like `run`, awaiting each call."""
    try:
        step = next(steps)
        while True:
            try:
                result = await step.asynchronous()
            except BaseException as error:  # noqa: BLE001 - the generator may handle it
                step = steps.throw(error)
            else:
                del step
                step = steps.send(result)
    except StopIteration as stop:
        value: T = stop.value
        return value


# Steps: one call


def call(
    sync: Callable[P, T], asynchronous: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs
) -> Steps[T]:
    """Make one call in its sync or async form: ``call(store.mget, store.amget, keys)``."""
    result: T = yield Call(lambda: sync(*args, **kwargs), lambda: asynchronous(*args, **kwargs))
    return result


def compute(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Steps[T]:
    """Run a slow function; async code runs it in a thread."""
    bound = partial(function, *args, **kwargs)
    return call(bound, partial(run_in_executor, None, bound))


def pause(seconds: float) -> Steps[None]:
    """Wait for a number of seconds."""
    return call(partial(time.sleep, seconds), partial(asyncio.sleep, seconds))


def to_the_end(steps: Steps[T]) -> Steps[T]:
    """Run steps that write: a cancelled caller waits until they have finished."""

    # A thread cannot be cancelled: it would go on writing after the caller has returned.
    def shielded() -> Awaitable[T]:
        return _to_the_end(arun(steps))

    return call(partial(run, steps), shielded)


# Steps: several tasks at once


def concurrently(tasks: Sequence[Steps[T]], limit: int) -> Steps[list[T]]:
    """Run generators of steps, at most ``limit`` at once, and return their results in order.

    Sync code runs the first task in the caller's thread, because some stores work only there, and
    the others there or in threads with the caller's context variables, which LangChain's tracing
    needs. After an error no task begins; the error is raised when no task is running any more.
    """
    return call(_run_all, _arun_all, tasks, limit)


@cache
def _threads(process_id: int) -> ThreadPoolExecutor:  # noqa: ARG001 - threads do not survive a fork
    """Return the threads that run tasks; they are kept until the process ends."""
    return ThreadPoolExecutor(_MOST_THREADS, thread_name_prefix="langchain-rse")


def _run_all(tasks: Sequence[Steps[T]], limit: int) -> list[T]:
    numbers = range(len(tasks))
    first, others = deque(numbers[:1]), deque(numbers[1:])
    results: dict[int, T] = {}
    errors: dict[int, BaseException] = {}

    def work(waiting: deque[int]) -> None:
        with suppress(IndexError):  # no task is waiting
            while True:
                number = waiting.popleft()
                try:
                    results[number] = run(tasks[number])
                except BaseException as error:  # noqa: BLE001 - raised below
                    errors[number] = error
                    others.clear()

    threads = _threads(os.getpid())
    helpers = []
    for _ in range(min(limit, len(tasks)) - 1):
        helpers.append(threads.submit(copy_context().run, work, others))
    time.sleep(0)  # lets the threads begin before this one is busy
    # If all threads are busy, the caller does all the work: tasks that run tasks cannot deadlock.
    work(first)
    work(others)
    wait([helper for helper in helpers if not helper.cancel()])
    if errors:
        raise errors[min(errors)]
    return [results[number] for number in numbers]


async def _arun_all(tasks: Sequence[Steps[T]], limit: int) -> list[T]:
    semaphore = asyncio.Semaphore(limit)

    async def work(steps: Steps[T]) -> T:
        async with semaphore:
            return await arun(steps)

    running = [asyncio.ensure_future(work(steps)) for steps in tasks]
    try:
        return await asyncio.gather(*running)
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


# Helpers


def batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield lists of ``size`` items; the last may be shorter."""
    iterator = iter(items)
    while batch := list(itertools.islice(iterator, size)):
        yield batch


@contextmanager
def during(step: str) -> Iterator[None]:
    """Add the failing step to an error, as a note, and reraise."""
    try:
        yield
    except Exception as error:
        error.add_note(f"langchain-rse: failed while {step}")
        raise
