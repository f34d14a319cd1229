"""Asking the same of two source trees in turns, so that what slows the machine slows both.

Each tree gets a process of its own, which runs the same script with another ``PYTHONPATH``. The
script's options are those of the command line with ``--serve``; it then answers requests, one line
of JSON each, by `serve`.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
THIS, OTHER = "this", "other"
MOST_TIMES = 1.2


@contextmanager
def checkouts(
    script: str, other: Path, options: Sequence[str]
) -> Iterator[dict[str, Callable[[Any], Any]]]:
    """Two running processes: functions that send a request to one and return its answer.

    Args:
        script: The script, which imports langchain_rse from this source tree and the other one.
        other: The root of the other source tree.
        options: Options of the script beside ``--serve``.
    """
    if not (other / "langchain_rse").is_dir():
        sys.exit(f"--against: there is no folder langchain_rse in {other}")
    with ExitStack() as stack:
        processes = {
            name: stack.enter_context(
                subprocess.Popen(  # noqa: S603 - this very script
                    [sys.executable, script, "--serve", *options],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    env={**os.environ, "PYTHONPATH": str(root)},
                    text=True,
                )
            )
            for name, root in ((THIS, ROOT), (OTHER, other.resolve()))
        }
        yield {name: asker(name, process) for name, process in processes.items()}


def asker(name: str, process: subprocess.Popen[str]) -> Callable[[Any], Any]:
    """A function that sends a request to a process and waits for its answer."""

    def ask(request: Any) -> Any:  # noqa: ANN401 - any JSON
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("the process has no pipes")
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"{name} source tree: the process ended with {process.wait()}")
        return json.loads(line)

    return ask


def serve(answer: Callable[[Any], Any]) -> None:
    """Answer the requests of `checkouts` until there are no more."""
    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), file=answers, flush=True)


def in_turns(
    ask: Mapping[str, Callable[[Any], Any]], requests: Sequence[Any]
) -> list[dict[str, Any]]:
    """Both answers to each request; each process is the first to answer every other time."""
    names = list(ask)
    return [
        {name: ask[name](request) for name in (names if number % 2 else names[::-1])}
        for number, request in enumerate(requests)
    ]


def compared(seconds: Mapping[str, Sequence[float]]) -> str:
    """Both medians in milliseconds, and the median of the ratios of times taken in one turn."""
    this, other = seconds[THIS], seconds[OTHER]
    ratio = statistics.median(one / two for one, two in zip(this, other, strict=True))
    verdict = "" if ratio <= MOST_TIMES else f"  MORE THAN {MOST_TIMES}"
    return (
        f"{1e3 * statistics.median(this):10,.3f} {1e3 * statistics.median(other):10,.3f} "
        f"{ratio:7.2f}{verdict}"
    )


COMPARED_HEADER = f"{'this: ms':>10} {'other: ms':>10} {'ratio':>7}"
