"""Processes that do something at the same time."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from multiprocessing.context import ForkServerContext

# What takes long to import is imported once, by the process that all others are forked of.
_IMPORTED_ONCE = [
    *("tests.integration_tests.test_changing", "tests.integration_tests.test_lexical"),
    *("tests.integration_tests.killing", "langchain_postgres", "chromadb.api.rust"),
]


def process_context() -> ForkServerContext:
    """What processes, barriers and queues are made of."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_IMPORTED_ONCE)
    return context


def run_at_once(
    works: Sequence[Callable[..., None]], *arguments: object, patience: float = 300
) -> None:
    """Call functions, each in a process of its own, and raise an error if one of them fails.

    Each is called with the arguments, its number, and a barrier at which all of them wait.
    """
    context = process_context()
    start = context.Barrier(len(works))
    processes = [
        context.Process(target=work, args=(*arguments, number, start))
        for number, work in enumerate(works)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(patience)
    assert [process.exitcode for process in processes] == [0] * len(works)
