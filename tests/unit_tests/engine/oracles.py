"""The definitions of the solvers, word for word and slow: what the fast ones must equal."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from langchain_rse.engine import Segment


def greedy_by_brute_force(
    values: ArrayLike,
    *,
    max_length: int,
    overall_max_length: int,
    minimum_value: float,
    boundaries: Sequence[int] = (),
) -> list[Segment]:
    """Take the most valuable segment again and again, each time looking at all of them.

    A segment starts and ends on values that are not negative, has at most ``max_length``
    chunks, crosses no boundary, overlaps none taken before and keeps the total within
    ``overall_max_length``. Of equal sums, the earlier start wins, then the shorter segment.
    Several queries take turns; one that finds no segment worth ``minimum_value`` is out.
    """
    waiting = deque(np.atleast_2d(np.asarray(values, dtype=float)).tolist())
    room = overall_max_length
    taken: list[Segment] = []
    while waiting:
        row = waiting.popleft()
        best: Segment | None = None
        for start in range(len(row)):
            total = 0.0
            for end in range(start + 1, len(row) + 1):
                total += row[end - 1]
                if (
                    row[start] >= 0
                    and row[end - 1] >= 0
                    and end - start <= max_length
                    and end - start <= room
                    and not any(start < boundary < end for boundary in boundaries)
                    and not any(start < other.end and other.start < end for other in taken)
                    and total >= minimum_value
                    and (best is None or total > best.value)
                ):
                    best = Segment(start, end, total)
        if best is not None:
            taken.append(best)
            room -= best.end - best.start
            waiting.append(row)
    return taken


def best_by_brute_force(
    values: Sequence[float], *, max_length: int | None = None
) -> Segment | None:
    """The segment of the highest sum, if positive; of equal sums the earlier, then the shorter."""
    best: Segment | None = None
    for start in range(len(values)):
        total = 0.0
        for end in range(start + 1, len(values) + 1):
            total += values[end - 1]
            allowed = max_length is None or end - start <= max_length
            if allowed and total > (best.value if best else 0.0):
                best = Segment(start, end, total)
    return best
