"""Segments, and checks of arguments, for all solvers."""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

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


def neighbors(segment: Bounds, chunks: Collection[int], starts: Collection[int]) -> int:
    """Count which of the two chunks beside a segment, in its document, are among ``chunks``."""
    start, end = segment
    return (start not in starts and start - 1 in chunks) + (end not in starts and end in chunks)


def extended(segment: Bounds, chunks: Collection[int], starts: Collection[int]) -> Bounds:
    """Extend a segment by those of ``chunks`` that adjoin it in its document."""
    start, end = segment
    while start not in starts and start - 1 in chunks:
        start -= 1
    while end not in starts and end in chunks:
        end += 1
    return start, end


def held_back(
    steps: Iterable[Bounds],
    starts: Collection[int],
    is_good: Callable[[Bounds, set[int]], bool],
) -> list[Bounds]:
    """Hold back each step until ``is_good`` accepts it, joined with held-back chunks beside it."""
    good: list[Bounds] = []
    taken: set[int] = set()
    waiting: set[int] = set()
    for one in steps:
        step = extended(one, waiting, starts)
        if is_good(step, taken):
            good.append(step)
            taken.update(range(*step))
            waiting.difference_update(range(*step))
        else:
            waiting.update(range(*step))
    return good


def check_boundaries(boundaries: Sequence[int], size: int) -> NDArray[np.intp]:
    """Sort the starts of documents and append the number of chunks; a ValueError if wrong."""
    starts = np.unique(np.asarray(boundaries, dtype=np.float64))
    if starts.size and not (
        starts[0] >= 0 and starts[-1] <= size and (starts == np.floor(starts)).all()
    ):
        raise ValueError(
            f"boundaries must be whole numbers from 0 to the number of chunks, {size}; "
            f"got {boundaries!r}"
        )
    return np.append(starts, size).astype(np.intp)


def check_array(name: str, values: ArrayLike, dimensions: tuple[int, ...] = (1,)) -> Floats:
    """Return an array of finite numbers, else raise a ValueError."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim not in dimensions:
        allowed = " or ".join(map(str, dimensions))
        raise ValueError(f"{name} must have {allowed} dimension(s); got shape {array.shape}")
    if not (finite := np.isfinite(array)).all():
        index = tuple(np.argwhere(~finite)[0].tolist())
        raise ValueError(f"{name} must be finite; got {array[index]} at index {index}")
    return array


def check_count(name: str, value: object, *, least: int) -> int:
    """Return a whole number of at least ``least``, else raise a ValueError."""
    if not (isinstance(value, (int, np.integer)) and value >= least):
        raise ValueError(f"{name} must be a whole number of at least {least}; got {value!r}")
    return int(value)


def check_number(name: str, value: object) -> float:
    """Return a finite number of at least 0, else raise a ValueError."""
    if not (isinstance(value, (int, float, np.integer, np.floating)) and 0 <= value < np.inf):
        raise ValueError(f"{name} must be a finite number of at least 0; got {value!r}")
    return float(value)
