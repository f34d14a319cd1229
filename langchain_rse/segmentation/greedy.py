"""The published algorithms: greedy search, and the best single segment.

Sources: the greedy search is dsRAG's (``dsrag.rse.get_best_segments``); the best single segment
is the maximum subarray problem (Kadane, in Bentley, "Programming Pearls", 1984).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from langchain_rse.segmentation.inputs import (
    Floats,
    Segment,
    checked_values,
    limits_of,
    whole_number,
)

__all__ = ["best_segment", "solve_greedy"]

# Elements of the largest table that is built at once: bounds memory on long inputs.
_TABLE_ELEMENTS = 1 << 20


def solve_greedy(
    values: ArrayLike,
    *,
    max_length: int,
    overall_max_length: int,
    minimum_value: float,
    boundaries: Sequence[int] = (),
) -> list[Segment]:
    """Take the most valuable segment again and again: the published RSE algorithm.

    A segment starts and ends on chunks whose value is not negative. Each step takes the
    segment of the highest sum among those that are at most ``max_length`` long, cross no
    boundary, overlap none taken before, and keep the total within
    ``overall_max_length``. Equal sums: the earlier start wins, then the shorter segment.
    The search ends when no segment is worth ``minimum_value``.

    The result equals plain search over all pairs of start and end, with each sum added
    up from left to right. Apart from one look at ``values``, the cost depends on the
    number of chunks that are not negative, not on the number of chunks.

    Args:
        values: Shape ``(chunks,)``, or ``(queries, chunks)``: then the queries take
            turns, one segment each, over the same chunks and the same total.
        max_length: The most chunks a segment may have, at least 1.
        overall_max_length: The most chunks all segments may have together, at least 0.
        minimum_value: The least a segment must be worth.
        boundaries: Indices at which a document starts; no segment crosses one.

    Returns:
        The segments in the order in which they were taken.

    Raises:
        ValueError: If an argument is out of its range, or a value is not finite.
    """
    table = checked_values(values, dimensions=(1, 2))
    max_length = whole_number("max_length", max_length, least=1)
    room = whole_number("overall_max_length", overall_max_length, least=0)
    if np.isnan(minimum_value):
        raise ValueError("minimum_value is nan; give a number, for example 0.5")
    limits = limits_of(boundaries, table.shape[-1])

    length = min(max_length, room)
    searches = [_Search(row, limits, length, minimum_value) for row in np.atleast_2d(table)]
    chosen: list[Segment] = []
    taken = _Taken()
    turn = 0
    while searches and room > 0:
        turn %= len(searches)
        segment = searches[turn].best(taken, min(max_length, room))
        if segment is None:
            # What does not fit now never will: the room only shrinks.
            del searches[turn]
            continue
        chosen.append(segment)
        taken.add(segment.start, segment.end)
        room -= segment.end - segment.start
        turn += 1
    return chosen


def best_segment(values: ArrayLike, *, max_length: int | None = None) -> Segment | None:
    """Find the one segment of the highest sum, if it is positive.

    Equal sums: the earlier start wins, then the shorter segment.

    Args:
        values: Shape ``(chunks,)``, the chunks of one document.
        max_length: The most chunks the segment may have, at least 1; None for no limit.

    Returns:
        The segment, or None when no segment is worth more than zero.

    Raises:
        ValueError: If ``max_length`` is below 1, or a value is not finite.

    Example:
        >>> best_segment([-0.2, -0.2, 0.4, 0.8, -0.1])
        Segment(start=2, end=4, value=1.2000000000000002)
    """
    table = checked_values(values, dimensions=(1,))
    if max_length is not None:
        max_length = whole_number("max_length", max_length, least=1)
    if max_length is None or max_length >= table.size:
        return _best_unbounded(table)
    search = _Search(table, limits_of((), table.size), max_length, minimum_value=0.0)
    best = search.best(_Taken(), max_length)
    return best if best is not None and best.value > 0 else None


def _best_unbounded(values: Floats) -> Segment | None:
    best: Segment | None = None
    start, running = 0, 0.0
    for index, value in enumerate(values.tolist()):
        if running < 0:
            start, running = index, 0.0
        running += value
        if running > (best.value if best else 0.0):
            best = Segment(start, index + 1, running)
    return best


class _Taken:
    """The chunks that are already in a segment."""

    def __init__(self) -> None:
        self._segments: list[tuple[int, int]] = []

    def add(self, start: int, end: int) -> None:
        self._segments.append((start, end))

    def free_until(self, start: int, end: int) -> int:
        """The end of the free run that begins at ``start``, at most ``end``."""
        for taken_start, taken_end in self._segments:
            if taken_start <= start < taken_end:
                return start
            if start < taken_start < end:
                end = taken_start
        return end


class _Search:
    """The best segment of each start, kept in a heap and brought up to date when it matters.

    Taking segments and using up room can only make the other segments worse, so an entry
    that is still valid when it comes to the top is the best of all.
    """

    def __init__(
        self,
        values: Floats,
        limits: NDArray[np.intp],
        max_length: int,
        minimum_value: float,
    ) -> None:
        self._values = values
        self._minimum = minimum_value
        starts = np.flatnonzero(values >= 0)
        # The end of each start's document: the first limit after it.
        self._document_end = dict(
            zip(
                starts.tolist(),
                limits[np.searchsorted(limits, starts, side="right")].tolist(),
                strict=True,
            )
        )
        self._heap: list[tuple[float, int, int]] = []
        for some_starts, sums in _running_sums(values, starts, max_length, limits):
            if not sums.size:
                continue
            best = sums.argmax(axis=1)  # the first of equals: the shortest
            worth = sums[np.arange(len(some_starts)), best]
            keep = worth >= minimum_value
            self._heap += zip(
                (-worth[keep]).tolist(),
                some_starts[keep].tolist(),
                (some_starts + best + 1)[keep].tolist(),
                strict=True,
            )
        heapq.heapify(self._heap)

    def best(self, taken: _Taken, max_length: int) -> Segment | None:
        heap = self._heap
        while heap:
            cost, start, end = heap[0]
            limit = taken.free_until(start, min(start + max_length, self._document_end[start]))
            if end <= limit:
                heapq.heappop(heap)
                return Segment(start, end, -cost)
            entry = self._best_from(start, limit)
            if entry is None:
                heapq.heappop(heap)
            else:
                heapq.heapreplace(heap, entry)
        return None

    def _best_from(self, start: int, limit: int) -> tuple[float, int, int] | None:
        values = self._values[start:limit]
        if not values.size:
            return None
        sums = np.where(values >= 0, _added_up(values), -np.inf)
        best = int(sums.argmax())
        worth = float(sums[best])
        if worth < self._minimum:
            return None
        return -worth, start, start + best + 1


def _running_sums(
    values: Floats,
    starts: NDArray[np.intp],
    max_length: int,
    limits: NDArray[np.intp],
) -> Iterator[tuple[NDArray[np.intp], Floats]]:
    """For blocks of starts, the sums of the segments of 1, 2, ... chunks; -inf where invalid."""
    # No segment reaches past the last chunk that may end one.
    width = min(max_length, int(starts[-1] - starts[0]) + 1) if starts.size else 0
    if not width:
        return
    block = max(1, _TABLE_ELEMENTS // width)
    offsets = np.arange(width)
    for first in range(0, len(starts), block):
        some = starts[first : first + block]
        ends = limits[np.searchsorted(limits, some, side="right")]
        places = some[:, None] + offsets
        inside = places < ends[:, None]
        picked = values[np.minimum(places, values.size - 1)]
        sums = _added_up(picked)
        yield some, np.where(inside & (picked >= 0), sums, -np.inf)


def _added_up(values: Floats) -> Floats:
    # Accumulating adds from left to right, as the definition does, so that ties come out
    # the same. Sums beyond the largest float are infinite, and as good as any other.
    with np.errstate(over="ignore", invalid="ignore"):
        return np.add.accumulate(values, axis=-1)
