"""Sync and async versions of a function from one generator.

Code that has to wait for a store is written once, as a generator that yields the calls it
needs. `run` makes them, `arun` awaits their async forms; nothing else differs.
"""

import asyncio
import itertools
import logging
import time
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Sequence,
)
from concurrent.futures import Future, wait
from contextlib import contextmanager
from contextvars import copy_context
from threading import Thread
from typing import Any, NamedTuple, ParamSpec, TypeVar

from langchain_core.runnables import run_in_executor
from langchain_core.runnables.config import ContextThreadPoolExecutor

logger = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")


class Call(NamedTuple):
    """A call in its sync and its async form, with its arguments."""

    sync: Callable[[], Any]
    asynchronous: Callable[[], Awaitable[Any]]


Steps = Generator[Call, Any, T]
"""A generator of calls that returns a T."""


def call(
    sync: Callable[P, T], asynchronous: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs
) -> Steps[T]:
    """Make one call, sync or async, as in ``call(store.mget, store.amget, keys)``."""
    result: T = yield Call(lambda: sync(*args, **kwargs), lambda: asynchronous(*args, **kwargs))
    return result


def call_to_the_end(
    sync: Callable[P, T], asynchronous: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs
) -> Steps[T]:
    """Like `call`, for calls that write: if the caller is cancelled, the call still ends first."""

    async def whole() -> T:
        # A thread cannot be cancelled: it would go on writing after the caller has left.
        running = asyncio.ensure_future(asynchronous(*args, **kwargs))
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            await asyncio.wait([running])
            running.cancelled() or running.exception()  # marks the exception as retrieved
            raise

    result: T = yield Call(lambda: sync(*args, **kwargs), whole)
    return result


def call_within(
    seconds: float | None,
    sync: Callable[..., T],
    asynchronous: Callable[..., Awaitable[T]],
    *args: object,
) -> Steps[T]:
    """Like `call`, with a TimeoutError after ``seconds``; a sync call goes on in its thread."""
    if seconds is None:
        return (yield from call(sync, asynchronous, *args))
    late = f"no answer within {seconds:g} seconds (timeout)"

    def within() -> T:
        answer: Future[T] = Future()

        def work() -> None:
            try:
                answer.set_result(sync(*args))
            except BaseException as error:  # noqa: BLE001 - raised where the answer is awaited
                answer.set_exception(error)

        # Not an executor: Python would wait for its threads at exit.
        Thread(target=copy_context().run, args=(work,), daemon=True).start()
        if not wait([answer], seconds).done:
            raise TimeoutError(late)
        return answer.result()

    async def awithin() -> T:
        try:
            return await asyncio.wait_for(asynchronous(*args), seconds)
        except asyncio.TimeoutError as error:
            raise TimeoutError(late) from error

    result: T = yield Call(within, awithin)
    return result


def pause(seconds: float) -> Steps[None]:
    """Wait for a number of seconds."""
    yield Call(lambda: time.sleep(seconds), lambda: asyncio.sleep(seconds))


def compute(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Steps[T]:
    """Run a slow function; async code runs it in a thread, off the event loop."""
    result: T = yield Call(
        lambda: function(*args, **kwargs), lambda: run_in_executor(None, function, *args, **kwargs)
    )
    return result


def run(steps: Steps[T]) -> T:
    """Make all calls and return what the generator returns."""
    try:
        pending = next(steps)
        while True:
            try:
                result = pending.sync()
            except BaseException as error:  # noqa: BLE001 - the generator decides
                pending = steps.throw(error)
            else:
                del pending  # its arguments are not needed any more, and may be large
                pending = steps.send(result)
    except StopIteration as stop:
        value: T = stop.value
        return value


async def arun(steps: Steps[T]) -> T:
    """Like `run`, awaiting each call."""
    try:
        pending = next(steps)
        while True:
            try:
                result = await pending.asynchronous()
            except BaseException as error:  # noqa: BLE001 - the generator decides
                pending = steps.throw(error)
            else:
                del pending
                pending = steps.send(result)
    except StopIteration as stop:
        value: T = stop.value
        return value


def run_each(several: Iterable[Steps[Iterable[T]]]) -> Iterator[T]:
    """Yield the items that generators of steps return, one generator after the other."""
    return itertools.chain.from_iterable(map(run, several))


async def arun_each(several: Iterable[Steps[Iterable[T]]]) -> AsyncIterator[T]:
    """Like `run_each`, awaiting each call."""
    for steps in several:
        for item in await arun(steps):
            yield item


def batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Lists of ``size`` items; the last may be shorter."""
    iterator = iter(items)
    return iter(lambda: list(itertools.islice(iterator, size)), [])


@contextmanager
def during(step: str) -> Iterator[None]:
    """Add the failing step to an error as a note or, before Python 3.11, log it; then reraise."""
    try:
        yield
    except Exception as error:
        if hasattr(error, "add_note"):
            error.add_note(f"langchain-rse: this happened while {step}")
        else:
            logger.error("an error came up while %s: %r", step, error)  # noqa: TRY400
        raise


def concurrently(tasks: Sequence[Steps[T]], limit: int) -> Steps[list[T]]:
    """Run generators of steps, at most ``limit`` at once; return what they return, in their order.

    Sync code runs the first in the caller's thread, since some stores work in no other, and the
    rest in threads with the caller's context variables, which LangChain's tracing needs. The first
    error stops all tasks, and is raised when none is running any more.
    """
    results: list[T] = yield Call(lambda: _run_all(tasks, limit), lambda: _arun_all(tasks, limit))
    return results


def _run_all(tasks: Sequence[Steps[T]], limit: int) -> list[T]:
    if limit <= 1 or len(tasks) <= 1:
        return [run(steps) for steps in tasks]
    with ContextThreadPoolExecutor(max_workers=limit - 1) as executor:
        others = [executor.submit(run, steps) for steps in tasks[1:]]
        try:
            results = {0: run(tasks[0])}
            # The caller's thread then runs the tasks that no other thread has started.
            for number in reversed(range(1, len(tasks))):
                if others[number - 1].cancel():
                    results[number] = run(tasks[number])
            return [
                results[number] if number in results else others[number - 1].result()
                for number in range(len(tasks))
            ]
        finally:
            for other in others:  # without effect on tasks that are done
                other.cancel()


async def _arun_all(tasks: Sequence[Steps[Any]], limit: int) -> list[Any]:
    semaphore = asyncio.Semaphore(limit)

    async def bounded(steps: Steps[Any]) -> Any:  # noqa: ANN401
        async with semaphore:
            return await arun(steps)

    running = [asyncio.ensure_future(bounded(steps)) for steps in tasks]
    try:
        return await asyncio.gather(*running)
    except BaseException:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        raise
