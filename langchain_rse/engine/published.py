"""The published solvers: greedy search, and the best segment of each document.

Sources: greedy search is from dsRAG (``dsrag.rse.get_best_segments``); the best segment is the
maximum subarray problem (Kadane, in Bentley, "Programming Pearls", 1984).
"""

import itertools
from bisect import bisect_right
from collections import deque
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from langchain_rse.engine.exact import Segment
from langchain_rse.engine.relevance import Floats, Indices

# A minimum value that excludes segments of value 0.
_LEAST_VALUE = float(np.nextafter(0, 1))


def solve_greedy(
    values: ArrayLike,
    *,
    max_length: int,
    overall_max_length: int,
    minimum_value: float,
    boundaries: Sequence[int] = (),
) -> list[Segment]:
    """Repeatedly take the most valuable segment: the published RSE algorithm.

    A segment starts and ends with chunks whose value is not negative. Each step takes the segment
    with the highest sum that has at most ``max_length`` chunks, crosses no boundary, overlaps no
    segment taken before, and keeps the total within ``overall_max_length``. Ties: the earlier start
    wins, then the shorter segment. The search ends when no segment reaches ``minimum_value``.

    Args:
        values: Finite numbers, shape ``(chunks,)``, or ``(queries, chunks)``: the queries then take
            turns, one segment each, over the same chunks and the same total.
        max_length: Maximum number of chunks in a segment, at least 1.
        overall_max_length: Maximum number of chunks in all segments together, at least 0.
        minimum_value: Minimum value of a segment.
        boundaries: Indices at which a document starts; no segment crosses one.

    Returns:
        The segments in the order in which they were taken.
    """
    rows = np.atleast_2d(np.asarray(values, dtype=np.float64))
    limits = np.array(sorted({*boundaries, rows.shape[1]}))
    room = overall_max_length
    queries: deque[_SegmentTable] = deque()
    for values_of_query in rows:
        if (values_of_query >= 0).any():
            queries.append(_tabulate(values_of_query, limits, min(max_length, room)))
    chosen: list[Segment] = []
    while queries and room > 0:
        table = queries.popleft()
        sums = table.sums[:, :room]
        row, column = np.unravel_index(sums.argmax(), sums.shape)  # of ties, the first
        value = float(sums[row, column])
        if value < max(minimum_value, 0.0):
            # This query is done: the room only shrinks, so later turns cannot take more.
            continue
        segment = Segment(int(table.starts[row, 0]), int(table.ends[row, column]), value)
        chosen.append(segment)
        room -= segment.end - segment.start
        queries.append(table)
        for table in queries:  # no later segment overlaps this one
            overlaps = (table.starts < segment.end) & (table.ends > segment.start)
            table.sums[overlaps] = -np.inf
    return chosen


def best_segments(
    values: ArrayLike,
    *,
    max_length: int,
    minimum_value: float = 0.0,
    boundaries: Sequence[int] = (0,),
    documents: Sequence[Hashable] = (0,),
) -> list[Segment]:
    """Find the segment with the highest sum in each document, best first; of ties, the first.

    Args:
        values: As in `solve_greedy`: with several rows, the queries take turns.
        max_length: Maximum number of chunks in a segment, at least 1.
        minimum_value: Minimum value of a segment. Values of 0 and less never count.
        boundaries: Indices at which a document, or a part of one, starts; the first is 0.
        documents: The document of each of these parts.

    Returns:
        The segments in the order in which they were taken; they do not overlap.

    Examples:
        >>> best_segments([-0.2, -0.2, 0.4, 0.8, -0.1], max_length=15)
        [Segment(start=2, end=4, value=1.2000000000000002)]
    """
    segments_of_rows: list[list[Segment]] = []
    for row in np.atleast_2d(values):
        segments = solve_greedy(
            row,
            max_length=max_length,
            overall_max_length=row.size,
            minimum_value=max(minimum_value, _LEAST_VALUE),
            boundaries=boundaries,
        )
        best: dict[Hashable, Segment] = {}
        for segment in segments:  # best first
            part = bisect_right(boundaries, segment.start) - 1
            best.setdefault(documents[part], segment)
        segments_of_rows.append(list(best.values()))
    taken: set[int] = set()
    chosen: list[Segment] = []
    for turn in itertools.zip_longest(*segments_of_rows):
        for segment in turn:
            if segment is None:
                continue
            chunks = range(segment.start, segment.end)
            if taken.isdisjoint(chunks):
                taken.update(chunks)
                chosen.append(segment)
    return chosen


class _SegmentTable(NamedTuple):
    """All segments that a query may take: a row for each start, a column for each length."""

    starts: Indices  # shape (starts, 1)
    ends: Indices
    sums: Floats  # -inf for ranges that are not allowed


def _tabulate(values: Floats, limits: Indices, max_length: int) -> _SegmentTable:
    """Sum all ranges of up to ``max_length`` chunks; no segment crosses one of the limits."""
    starts = np.flatnonzero(values >= 0)
    # The end of each start's document: the first limit after it.
    document_ends = limits[np.searchsorted(limits, starts, side="right")]
    # No segment extends beyond the last chunk that can end one.
    longest = min(max_length, int(np.ptp(starts)) + 1)
    ends = starts[:, None] + np.arange(1, longest + 1)
    # Ranges beyond the last chunk are excluded below.
    last_values = values[np.minimum(ends, values.size) - 1]
    # Accumulating adds from left to right, like the definition, so ties are the same. Sums may
    # overflow to infinity, which is a valid sum.
    with np.errstate(over="ignore", invalid="ignore"):
        sums = np.add.accumulate(last_values, axis=1)
    crosses_limit = ends > document_ends[:, None]
    sums[(last_values < 0) | crosses_limit] = -np.inf
    return _SegmentTable(starts[:, None], ends, sums)
