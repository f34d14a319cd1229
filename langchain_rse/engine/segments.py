"""Segments: ranges of neighboring chunks of one document, and how steps extend them.

Functions that get ``borders`` never extend a segment across one: these are the indices of the
chunks at which documents start.
"""

from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
"""An array of floats."""

Bounds = tuple[int, int]
"""The first chunk of a segment, and the one after its last."""


class Segment(NamedTuple):
    """Neighboring chunks of one document.

    Attributes:
        start: Index of the first chunk.
        end: Index after the last chunk.
        value: Sum of the values of the chunks; with the exact solver, less the cost of a segment.
    """

    start: int
    end: int
    value: float


def count_neighbors(segment: Bounds, chunks: Collection[int], borders: Collection[int]) -> int:
    """Count how many of the two chunks next to a segment are among ``chunks``."""
    start, end = segment
    count = 0
    if start not in borders and start - 1 in chunks:
        count += 1
    if end not in borders and end in chunks:
        count += 1
    return count


def extend(segment: Bounds, chunks: Collection[int], borders: Collection[int]) -> Bounds:
    """Extend a segment to both sides by those of ``chunks`` that adjoin it."""
    start, end = segment
    while start not in borders and start - 1 in chunks:
        start -= 1
    while end not in borders and end in chunks:
        end += 1
    return start, end


def join(segments: Iterable[Bounds], borders: Collection[int]) -> list[Bounds]:
    """Join segments that touch; they are in the order of the text."""
    joined: list[Bounds] = []
    for start, end in segments:
        if joined and joined[-1][1] == start and start not in borders:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return joined


def delay_steps(
    steps: Iterable[Bounds],
    borders: Collection[int],
    accepts: Callable[[Bounds, set[int]], bool],
) -> list[Bounds]:
    """Delay each step that is not accepted; retry it, merged, with each later step that adjoins it.

    Args:
        steps: Disjoint ranges of chunks, in the order in which they are taken.
        borders: The indices at which documents start.
        accepts: Gets a step, merged with the delayed chunks that adjoin it, and the chunks of all
            steps accepted before. Returns True to accept the step.

    Returns:
        The accepted steps. Chunks of steps that are never accepted are left out.
    """
    accepted: list[Bounds] = []
    taken: set[int] = set()
    delayed: set[int] = set()
    for step in steps:
        merged = extend(step, delayed, borders)
        chunks = range(*merged)
        if accepts(merged, taken):
            accepted.append(merged)
            taken.update(chunks)
            delayed.difference_update(chunks)
        else:
            delayed.update(chunks)
    return accepted
