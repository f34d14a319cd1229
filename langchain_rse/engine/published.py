"""The published solvers: greedy search, and the best single segment.

Sources: the greedy search is dsRAG's (``dsrag.rse.get_best_segments``); the best single segment
is the maximum subarray problem (Kadane, in Bentley, "Programming Pearls", 1984).
"""

import heapq
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from langchain_rse.engine.segments import (
    Floats,
    Segment,
    check_array,
    check_boundaries,
    check_count,
)


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
    up from left to right. The cost follows the number of chunks that are not negative.

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
    table = check_array("values", values, dimensions=(1, 2))
    max_length = check_count("max_length", max_length, least=1)
    room = check_count("overall_max_length", overall_max_length, least=0)
    if np.isnan(minimum_value):
        raise ValueError("minimum_value is nan; give a number, for example 0.5")
    limits = check_boundaries(boundaries, table.shape[-1])
    if not room:
        return []
    length = min(max_length, room)
    searches = [_Search(row, limits, length, minimum_value) for row in np.atleast_2d(table)]
    chosen: list[Segment] = []
    turn = 0
    while searches and room > 0:
        turn %= len(searches)
        segment = searches[turn].best(chosen, min(max_length, room))
        if segment is None:
            # What does not fit now never will: the room only shrinks.
            del searches[turn]
            continue
        chosen.append(segment)
        room -= segment.end - segment.start
        turn += 1
    return chosen


def best_segment(values: ArrayLike, *, max_length: int | None = None) -> Segment | None:
    """Find the one segment of the highest sum, if that is positive; of equal ones the first.

    The values are those of the chunks of one document, finite; ``max_length`` is the most chunks
    the segment may have, at least 1, or None for no limit; else a ValueError. None if no segment is
    worth more than 0.

    Example:
        >>> best_segment([-0.2, -0.2, 0.4, 0.8, -0.1])
        Segment(start=2, end=4, value=1.2000000000000002)
    """
    array = check_array("values", values)
    if max_length is not None and check_count("max_length", max_length, least=1) < array.size:
        limits = check_boundaries((), array.size)
        found = _Search(array, limits, max_length, minimum_value=0.0).best((), max_length)
        return found if found is not None and found.value > 0 else None
    best: Segment | None = None
    start, running = 0, 0.0
    for index, value in enumerate(array.tolist()):
        if running < 0:
            start, running = index, 0.0
        running += value
        if running > (best.value if best else 0.0):
            best = Segment(start, index + 1, running)
    return best


class _Search:
    """The best segment from each start, in a heap; one on top that is not valid is made anew."""

    def __init__(
        self, values: Floats, limits: NDArray[np.intp], max_length: int, minimum_value: float
    ) -> None:
        self._values = values
        self._minimum = minimum_value
        starts = np.flatnonzero(values >= 0)
        # The end of each start's document: the first limit after it.
        document_ends = limits[np.searchsorted(limits, starts, side="right")]
        self._document_end = dict(zip(starts.tolist(), document_ends.tolist(), strict=True))
        # One row for each length, one column for each start. No segment reaches past the last
        # chunk that may end one.
        width = min(max_length, int(starts[-1] - starts[0]) + 1) if starts.size else 1
        ends = starts + np.arange(1, width + 1)[:, None]
        last_values = values[np.minimum(ends, values.size) - 1]
        sums = _running_sums(last_values)
        sums[(last_values < 0) | (ends > document_ends)] = -np.inf
        best = sums.argmax(axis=0)  # the first of equals: the shortest
        worth = sums[best, np.arange(starts.size)]
        keep = worth >= minimum_value
        columns = -worth[keep], starts[keep], (starts + best + 1)[keep]
        self._heap = list(zip(*(column.tolist() for column in columns), strict=True))
        heapq.heapify(self._heap)

    def best(self, taken: Sequence[Segment], max_length: int) -> Segment | None:
        """The best segment that overlaps none of those taken and is not too long."""
        heap = self._heap
        while heap:
            negated, start, end = heap[0]
            limit = min(start + max_length, self._document_end[start])
            limit = _free_until(start, limit, taken)
            if end <= limit:
                heapq.heappop(heap)
                return Segment(start, end, -negated)
            heapq.heappop(heap)
            if (entry := self._best_from(start, limit)) is not None:
                heapq.heappush(heap, entry)
        return None

    def _best_from(self, start: int, limit: int) -> tuple[float, int, int] | None:
        if limit == start:
            return None
        values = self._values[start:limit]
        sums = np.where(values >= 0, _running_sums(values), -np.inf)
        best = int(sums.argmax())
        worth = float(sums[best])
        return (-worth, start, start + best + 1) if worth >= self._minimum else None


def _free_until(start: int, end: int, taken: Sequence[Segment]) -> int:
    """Where the first of the taken segments in ``[start, end)`` begins, or ``end``."""
    for taken_start, taken_end, _ in taken:
        if taken_start <= start < taken_end:
            return start
        if start < taken_start < end:
            end = taken_start
    return end


def _running_sums(values: Floats) -> Floats:
    # Accumulating adds from left to right, as the definition does, so that ties come out
    # the same. Sums beyond the largest float are infinite, and as good as any other.
    with np.errstate(over="ignore", invalid="ignore"):
        return np.add.accumulate(values, axis=0)
