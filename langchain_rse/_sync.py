"""Sync and async versions of a function from one generator.

Code that waits for a store is written once, as a generator that yields the calls it needs. `run`
makes these calls; `arun` awaits their async forms.
"""

import asyncio
import itertools
import logging
import os
import time
from collections import deque
from collections.abc import (
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Iterator,
    Sequence,
)
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from functools import cache, partial, wraps
from threading import Thread
from typing import Any, NamedTuple, ParamSpec, TypeVar

from langchain_core.runnables import run_in_executor

from langchain_rse._messages import HeldWarnings

logger = logging.getLogger(__name__)

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


# Running steps


@dataclass
class _Waiter:
    """The coroutine that waits for a function in a thread; see `in_thread`."""

    loop: asyncio.AbstractEventLoop
    is_cancelled: bool = False


_waiter: ContextVar[_Waiter | None] = ContextVar("waiter", default=None)


async def in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a function in a thread, and await the steps that it runs on this event loop.

    The function can therefore use stores that have only async methods, or whose connections belong
    to the loop. If the caller is cancelled, the function stops before its next steps.
    """
    waiter = _Waiter(asyncio.get_running_loop())
    held = HeldWarnings()

    def work() -> T:
        _waiter.set(waiter)  # the thread has a copy of the context
        return held.run(function, *args, **kwargs)

    # Not in an executor: the steps need its threads, and all of them may be waiting for functions.
    answer = _start(work)
    try:
        return await asyncio.wrap_future(answer)
    except asyncio.CancelledError:
        waiter.is_cancelled = True
        raise
    finally:
        held.warn()


def as_async(function: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Make the async twin of a function; it runs the function in a thread."""

    @wraps(function)
    async def twin(*args: P.args, **kwargs: P.kwargs) -> T:
        return await in_thread(function, *args, **kwargs)

    twin.__name__ = twin.__qualname__ = f"a{function.__name__}"
    twin.__doc__ = f"Like `{function.__name__}`, async."
    return twin


def _start(function: Callable[[], T]) -> Future[T]:
    """Run a function in a new thread. Python does not wait for this thread at exit."""
    answer: Future[T] = Future()
    answer.set_running_or_notify_cancel()  # from here on, the future cannot be cancelled

    def work() -> None:
        try:
            answer.set_result(function())
        except BaseException as error:  # noqa: BLE001 - raised by answer.result()
            answer.set_exception(error)

    Thread(target=copy_context().run, args=(work,), daemon=True).start()
    return answer


def run(steps: Steps[T]) -> T:
    """Run a generator of calls to its end, and return its result."""
    waiter = _waiter.get()
    if waiter is not None:
        if waiter.is_cancelled:
            raise asyncio.CancelledError
        return asyncio.run_coroutine_threadsafe(_arun_alone(steps), waiter.loop).result()
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


async def _arun_alone(steps: Steps[T]) -> T:
    """Like `arun`, for steps that a function in a thread runs."""
    _waiter.set(None)  # functions that these steps call run their steps in place
    return await arun(steps)


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
    result: T = yield from _in_thread(call, partial(function, *args, **kwargs))
    return result


def compute_to_the_end(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Steps[T]:
    """Like `compute`, for functions that write: a cancelled caller waits until it has finished."""
    result: T = yield from _in_thread(call_to_the_end, partial(function, *args, **kwargs))
    return result


def _in_thread(make_call: Callable[..., Steps[Any]], function: Callable[[], Any]) -> Steps[Any]:
    """Run a function; async code runs it in a thread and issues its warnings afterwards."""
    held = HeldWarnings()
    run_held = partial(held.run, function)
    try:
        return (yield from make_call(function, partial(run_in_executor, None, run_held)))
    finally:
        held.warn()


def pause(seconds: float) -> Steps[None]:
    """Wait for a number of seconds."""
    yield Call(lambda: time.sleep(seconds), lambda: asyncio.sleep(seconds))


def call_to_the_end(
    sync: Callable[P, T], asynchronous: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs
) -> Steps[T]:
    """Like `call`, for calls that write: a cancelled caller waits until the call has finished."""

    async def shielded() -> T:
        # A thread cannot be cancelled: it would go on writing after the caller has returned.
        task = asyncio.ensure_future(asynchronous(*args, **kwargs))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            while not task.done():
                with suppress(asyncio.CancelledError):  # anyio cancels repeatedly
                    await asyncio.wait([task])
            if not task.cancelled():
                task.exception()  # unless it is retrieved, asyncio logs it
            raise

    result: T = yield Call(lambda: sync(*args, **kwargs), shielded)
    return result


def call_within(
    seconds: float | None,
    sync: Callable[..., T],
    asynchronous: Callable[..., Awaitable[T]],
    *args: object,
) -> Steps[T]:
    """Like `call`, with a timeout.

    Raises:
        TimeoutError: After ``seconds``. A sync call goes on in its thread.
    """
    if seconds is None:
        return (yield from call(sync, asynchronous, *args))
    result: T = yield Call(
        lambda: _run_within(seconds, sync, *args),
        lambda: _await_within(seconds, asynchronous(*args)),
    )
    return result


_LATE = "no answer within {:g} seconds (timeout)"


def _run_within(seconds: float, function: Callable[..., T], *args: object) -> T:
    answer = _start(partial(function, *args))
    # Not answer.result(seconds): the function itself may raise a TimeoutError.
    if not wait([answer], seconds).done:
        raise TimeoutError(_LATE.format(seconds))
    return answer.result()


async def _await_within(seconds: float, awaitable: Awaitable[T]) -> T:
    try:
        return await asyncio.wait_for(awaitable, seconds)
    except asyncio.TimeoutError as error:
        raise TimeoutError(_LATE.format(seconds)) from error


# Steps: several tasks at once


def concurrently(tasks: Sequence[Steps[T]], limit: int) -> Steps[list[T]]:
    """Run generators of steps, at most ``limit`` at once, and return their results in order.

    Sync code runs the first task in the caller's thread, because some stores work only there, and
    the others there or in threads with the caller's context variables, which LangChain's tracing
    needs. After an error no task begins; the error is raised when no task is running any more.
    """
    results: list[T] = yield Call(lambda: _run_all(tasks, limit), lambda: _arun_all(tasks, limit))
    return results


@cache
def _threads(process_id: int) -> ThreadPoolExecutor:  # noqa: ARG001 - threads do not survive a fork
    """Return the threads that run tasks; they are kept until the process ends."""
    return ThreadPoolExecutor(_MOST_THREADS, thread_name_prefix="langchain-rse")


def _run_all(tasks: Sequence[Steps[T]], limit: int) -> list[T]:
    waiting = deque(range(1, len(tasks)))
    results: dict[int, T] = {}
    errors: dict[int, BaseException] = {}

    def take() -> Iterator[int]:
        with suppress(IndexError):  # no task is waiting
            while True:
                yield waiting.popleft()

    def work(numbers: Iterable[int]) -> None:
        for number in numbers:
            try:
                results[number] = run(tasks[number])
            except BaseException as error:  # noqa: BLE001 - raised below
                errors[number] = error
                waiting.clear()

    threads = _threads(os.getpid())
    helpers = []
    for _ in range(min(limit, len(tasks)) - 1):
        helpers.append(threads.submit(copy_context().run, work, take()))
    # If all threads are busy, the caller does all the work: tasks that run tasks cannot deadlock.
    work(itertools.chain(range(len(tasks))[:1], take()))
    wait([helper for helper in helpers if not helper.cancel()])
    if errors:
        raise errors.pop(min(errors))
    return [results[number] for number in range(len(tasks))]


async def _arun_all(tasks: Sequence[Steps[Any]], limit: int) -> list[Any]:
    semaphore = asyncio.Semaphore(limit)

    async def run_in_turn(steps: Steps[Any]) -> Any:  # noqa: ANN401
        async with semaphore:
            return await arun(steps)

    running = [asyncio.ensure_future(run_in_turn(steps)) for steps in tasks]
    try:
        return await asyncio.gather(*running)
    except BaseException:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        raise


# Helpers


def batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield lists of ``size`` items; the last may be shorter."""
    iterator = iter(items)
    while batch := list(itertools.islice(iterator, size)):
        yield batch


@contextmanager
def during(step: str) -> Iterator[None]:
    """Add the failing step to an error, as a note (before Python 3.11: log it), and reraise."""
    try:
        yield
    except Exception as error:
        if hasattr(error, "add_note"):
            error.add_note(f"langchain-rse: failed while {step}")
        else:
            logger.error("error while %s: %r", step, error)  # noqa: TRY400
        raise
