"""The published solvers: greedy search, and the best single segment.

Sources: the greedy search is dsRAG's (``dsrag.rse.get_best_segments``); the best single segment
is the maximum subarray problem (Kadane, in Bentley, "Programming Pearls", 1984).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from langchain_rse.engine.arguments import check_array, check_boundaries, check_count
from langchain_rse.engine.segments import Floats, Segment


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
    queries = [_segments(row, limits, min(max_length, room)) for row in np.atleast_2d(table)]
    queries = [one for one in queries if one.sums.size]
    chosen: list[Segment] = []
    turn = 0
    while queries and room > 0:
        turn %= len(queries)
        segment = queries[turn].best(room)
        if segment.value < max(minimum_value, 0.0):
            # A segment that does not fit now never will, since the room only shrinks.
            del queries[turn]
            continue
        chosen.append(segment)
        room -= segment.end - segment.start
        turn += 1
        for one in queries:
            one.sums[(one.starts < segment.end) & (one.ends > segment.start)] = -np.inf
    return chosen


def best_segment(values: ArrayLike, *, max_length: int | None = None) -> Segment | None:
    """Find the one segment of the highest sum; of equal segments the first.

    The values are those of the chunks of one document, finite; ``max_length`` is the most chunks
    the segment may have, at least 1, or None for no limit. Other arguments are a ValueError.
    Returns None if no segment is worth more than 0.

    Example:
        >>> best_segment([-0.2, -0.2, 0.4, 0.8, -0.1])
        Segment(start=2, end=4, value=1.2000000000000002)
    """
    array = check_array("values", values)
    if max_length is not None and check_count("max_length", max_length, least=1) < array.size:
        possible = _segments(array, check_boundaries((), array.size), max_length)
        found = possible.best(max_length) if possible.sums.size else None
        return found if found and found.value > 0 else None
    best: Segment | None = None
    start, running = 0, 0.0
    for index, value in enumerate(array.tolist()):
        if running < 0:
            start, running = index, 0.0
        running += value
        if running > (best.value if best else 0.0):
            best = Segment(start, index + 1, running)
    return best


class _Segments(NamedTuple):
    """All segments that a query may take: a row for each start, a column for each length."""

    starts: NDArray[np.intp]  # shape (starts, 1)
    ends: NDArray[np.intp]
    sums: Floats  # -inf for ranges that are no segments

    def best(self, max_length: int) -> Segment:
        """Find the segment of the highest sum that is not too long; -inf if there is none."""
        sums = self.sums[:, :max_length]
        place = np.unravel_index(sums.argmax(), sums.shape)  # of equals, the earlier and shorter
        return Segment(int(self.starts[place[0], 0]), int(self.ends[place]), float(sums[place]))


def _segments(values: Floats, limits: NDArray[np.intp], max_length: int) -> _Segments:
    starts = np.flatnonzero(values >= 0)
    # The end of each start's document: the first limit after it.
    document_ends = limits[np.searchsorted(limits, starts, side="right")]
    # No segment reaches past the last chunk that may end one.
    width = min(max_length, int(starts[-1] - starts[0]) + 1) if starts.size else 0
    ends = starts[:, None] + np.arange(1, width + 1)
    last_values = values[np.minimum(ends, values.size) - 1]
    # Accumulating adds from left to right, as the definition does, so that ties come out
    # the same. Sums beyond the largest float are infinite, and as good as any other.
    with np.errstate(over="ignore", invalid="ignore"):
        sums = np.add.accumulate(last_values, axis=1)
    sums[(last_values < 0) | (ends > document_ends[:, None])] = -np.inf
    return _Segments(starts[:, None], ends, sums)
