"""The exact solver: finds the segments with the highest total value, with or without a budget.

Given the relevance r_i >= 0 and the weight w_i > 0 of each chunk, it maximizes over all sets of
disjoint segments within documents

    sum over segments of ( sum over chunks i of w_i * (r_i - penalty)  -  cost * penalty )

where cost = segment_cost * min(1, weight of the document), because a document shorter than an
average chunk has less context to lose.

1. **All penalties**: merging two segments saves the cost of one, so the solutions for falling
   penalties are nested. Each chunk has a threshold penalty; below it, the chunk is in the solution.
2. **One penalty**: take the chunks whose threshold exceeds it.
3. **A budget**: take chunks by falling threshold. Chunks with the same threshold, such as a gap and
   its neighbors, are taken in the order of their gain per length.

All thresholds are computed at once. For a penalty p, the solution maximizes, with x = 1 for each
selected chunk and x = 0 for the others,

    sum(w * r * x) / p - sum(w * x) - cost / 2 * (number of changes of x along the text)

The solutions for all p form a taut string (Davies and Kovac, "Local Extremes, Runs, Strings and
Multiresolution", 2001). The chunks form a path: each moves it right by ``w`` and up by ``w * r``.
The string is the shortest path that stays within ``cost / 2`` of it on both sides. It bends only at
knots. Between two knots, all chunks have the same threshold: what the string rises per unit to the
right.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from langchain_rse.engine.relevance import Floats, Indices

# Replaces a penalty of 0; so small that it only breaks ties.
_LEAST_PENALTY = 1e-200
# Numbers that differ by less than this share are equal but for rounding.
_TOLERANCE = 1e-12
# A chunk moves the path up by at least this share of all, so that rounding does not lose it.
_LEAST_SHARE = 2.0**-45
# The sides of the path.
_LEFT = -1
_RIGHT = 1

Bounds = tuple[int, int]
"""Range ``(start, end)`` of the chunks of a segment, end exclusive."""

Point = tuple[complex, int, int]
"""Position (to the right, and up as the imaginary part), number of chunks before it, and side."""


class Segment(NamedTuple):
    """Neighboring chunks of one document.

    Attributes:
        start: Index of the first chunk.
        end: Index after the last chunk.
        value: Sum of the values of the chunks; with the exact solver, minus the segment cost.
    """

    start: int
    end: int
    value: float


def rank_chunks(
    relevance: ArrayLike,
    lengths: ArrayLike,
    *,
    unit: float | None = None,
    penalty: float = 0.0,
    segment_cost: float = 0.25,
    boundaries: Sequence[int] = (),
    document_lengths: ArrayLike | None = None,
) -> Ranking:
    """Order chunks as a growing budget adds them. All numbers are finite.

    Args:
        relevance: Shape ``(chunks,)``, at least 0.
        lengths: Shape ``(chunks,)``, positive: the length of each chunk, in the unit of budgets.
        unit: The length of a chunk of weight 1. None: the mean length of the chunks with positive
            relevance.
        penalty: Minimum penalty: the cost of a chunk of weight 1, at least 0.
        segment_cost: Additional cost of each segment, in chunks of weight 1; at least 0. In a
            document whose weight is below 1, it is multiplied by that weight.
        boundaries: Indices at which a document, or a part of one, starts. No segment crosses one.
        document_lengths: Shape ``(chunks,)``, positive: the length of each chunk's document. None
            if the arrays contain all chunks of each document.

    Returns:
        The order. Ties are broken in favor of less text and fewer segments.

    Examples:
        >>> ranking = rank_chunks([0, 0.6, 0.5, 0, 0.9], [100] * 5)
        >>> [segment[:2] for segment in ranking.within(250)]
        [(4, 5), (1, 2)]
    """
    relevance = np.asarray(relevance, dtype=np.float64)
    lengths = np.asarray(lengths, dtype=np.float64)
    limits = np.array(sorted({0, *boundaries, lengths.size}))
    starts = limits[:-1]
    if document_lengths is None:
        sums = np.add.reduceat(lengths, starts)
        document_lengths = np.repeat(sums, np.diff(limits))
    if unit is None:
        relevant_lengths = lengths[relevance > 0]
        unit = float(relevant_lengths.mean()) if relevant_lengths.size else 1.0
    weights = lengths / unit
    segment_costs = segment_cost * np.minimum(np.asarray(document_lengths) / unit, 1.0)
    penalty = max(penalty, _LEAST_PENALTY)
    values = weights * (relevance - penalty)
    costs = penalty * segment_costs
    borders = frozenset(starts.tolist())
    gains = weights * relevance
    least = penalty * (1 + _TOLERANCE)
    thresholds: dict[int, float] = {}
    for start, end in _find_runs(values, costs, starts):
        thresholds_of_run = _thresholds_of_run(
            weights[start:end].tolist(), gains[start:end].tolist(), segment_costs.item(start)
        )
        for chunk, threshold in enumerate(thresholds_of_run, start):
            if threshold > least:
                thresholds[chunk] = threshold
    ordered = _order_chunks(thresholds, weights, gains, segment_costs, borders)
    return Ranking(ordered, lengths, weights, values, costs, borders)


class Ranking(NamedTuple):
    """The order in which a growing budget adds chunks, made by `rank_chunks`.

    All arrays have the shape ``(chunks,)``.

    Attributes:
        thresholds: The threshold penalty of each chunk that reaches the penalty, by index, in the
            order in which the chunks are added.
        lengths: Length of each chunk, in the unit of budgets.
        weights: Length of each chunk, divided by the length of a chunk of weight 1.
        values: The contribution of each chunk to the value of a segment.
        costs: What a segment in the document of each chunk costs beside its chunks.
        borders: The indices at which documents start.
    """

    thresholds: Mapping[int, float]
    lengths: Floats
    weights: Floats
    values: Floats
    costs: Floats
    borders: frozenset[int]

    def within(self, budget: float) -> list[Segment]:
        """Return the best segments that fit a budget, best first; ties by position.

        If the solution for the penalty fits the budget, this is the result. If not, it is the
        solution for the smallest penalty at which it fits, plus chunks that the next smaller
        penalty adds, up to the first that does not fit. A larger budget only adds chunks.
        """
        chunks = list(self.thresholds)
        totals = np.cumsum(self.lengths[chunks])
        fitting = int(np.searchsorted(totals, budget, side="right"))
        return self.segments(chunks[:fitting])

    def steps(self, first: Sequence[int] = ()) -> list[Bounds]:
        """Divide the order into steps after which no segment has a negative value.

        A chunk is deferred until later chunks next to it bring its segment to a value of at least
        0; together they form one step, ``(start, end)``.

        Args:
            first: Chunks to take before all others, whatever the values of their segments.
        """
        totals = [0.0, *np.cumsum(self.values).tolist()]
        least_value = -_TOLERANCE * float(np.abs(self.values).sum())
        # Segments of these chunks, by the first and the last chunk of each.
        taken: dict[int, Bounds] = {}
        deferred: dict[int, Bounds] = {}
        steps: list[Bounds] = []
        for chunk in dict.fromkeys([*first, *self.thresholds]):
            step = step_start, step_end = self._extend((chunk, chunk + 1), deferred)
            segment = start, end = self._extend(step, taken)
            value = totals[end] - totals[start] - self.costs.item(start)
            if chunk in first or value >= least_value:
                steps.append(step)
                taken[start] = taken[end - 1] = segment
                deferred.pop(step_start, None)
                deferred.pop(step_end - 1, None)
            else:
                deferred[step_start] = deferred[step_end - 1] = step
        return steps

    def _extend(self, segment: Bounds, segments: Mapping[int, Bounds]) -> Bounds:
        """Extend a segment by those next to it; ``segments`` are by first and last chunk."""
        start, end = segment
        if start not in self.borders:
            start, _ = segments.get(start - 1, segment)
        if end not in self.borders:
            _, end = segments.get(end, segment)
        return start, end

    def segments(self, chunks: Iterable[int]) -> list[Segment]:
        """Return the segments that these chunks form, best first; ties by position."""
        joined: list[Bounds] = []
        for chunk in sorted(chunks):
            start = chunk
            if joined and joined[-1][1] == chunk and chunk not in self.borders:
                start, _ = joined.pop()
            joined.append((start, chunk + 1))
        segments: list[Segment] = []
        for start, end in joined:
            value = float(self.values[start:end].sum()) - self.costs.item(start)
            segments.append(Segment(start, end, value))
        return sorted(segments, key=lambda segment: (-segment.value, segment.start))


def _find_runs(values: Floats, costs: Floats, starts: Indices) -> list[Bounds]:
    """Find runs of chunks that contain all segments for the penalty and higher ones.

    A segment begins and ends with chunks of positive value. It contains no gap that costs at least
    what another segment costs: at a higher penalty, such a gap costs even more.
    """
    positive = np.flatnonzero(values > 0)
    if not positive.size:
        return []
    losses = np.maximum(-values, 0.0)
    losses[starts - 1] = np.inf  # at the end of each document
    gap_losses = np.add.reduceat(losses, positive)[:-1]
    is_divided = gap_losses >= costs[positive[1:]] * (1 - _TOLERANCE)
    firsts = positive[np.append(True, is_divided)]
    lasts = positive[np.append(is_divided, True)]
    return list(zip(firsts.tolist(), (lasts + 1).tolist(), strict=True))


def _thresholds_of_run(weights: list[float], gains: list[float], cost: float) -> list[float]:
    """Return the threshold penalty of each chunk of a run, from the knots of the string."""
    half = cost / 2
    least_gain = sum(gains) * _LEAST_SHARE
    position = 0j
    # From left of the first chunk to right of the last one.
    knots: list[Point] = [(position - half, 0, _LEFT)]
    # The shortest ways from the last knot to both sides of the current position.
    left_way = deque(knots)
    right_way = deque(knots)
    for count, (weight, gain) in enumerate(zip(weights, gains, strict=True), start=1):
        height = max(gain, least_gain) if gain > 0 else 0.0
        position += complex(weight, height)
        _lead(left_way, right_way, (position - half, count, _LEFT), knots)
        _lead(right_way, left_way, (position + half, count, _RIGHT), knots)
    knots.extend(itertools.islice(right_way, 1, None))
    thresholds: list[float] = []
    for knot, next_knot in itertools.pairwise(knots):
        _, start, side = knot
        _, end, next_side = next_knot
        # From left to right, a segment is added; from right to left, two segments are merged.
        added_segments = (next_side - side) / 2
        distance = sum(weights[start:end]) + added_segments * cost
        # The distance is positive, but for rounding.
        threshold = sum(gains[start:end]) / distance if distance > 0 else np.inf
        rounded = float(f"{threshold:.12g}")  # numbers that differ by rounding become equal
        thresholds += [rounded] * (end - start)
    return thresholds


def _lead(way: deque[Point], other_way: deque[Point], target: Point, knots: list[Point]) -> None:
    """Lead the way on one side to a target; add the knots that it now has from the other way."""
    while len(way) > 1 and _is_inside(target, way[-2], way[-1]):
        way.pop()
    if len(way) == 1:
        while len(other_way) > 1 and _is_inside(target, other_way[0], other_way[1]):
            other_way.popleft()
            knots.append(other_way[0])
        way[0] = other_way[0]
    way.append(target)


def _is_inside(target: Point, start: Point, end: Point) -> bool:
    """Return whether a target is on the line from start to end, or not on its own side of it."""
    position, _, _ = start
    to_end = end[0] - position
    to_target = target[0] - position
    turn = (to_end.conjugate() * to_target).imag  # above 0 to the left
    return turn * target[2] >= 0


def _order_chunks(
    thresholds: Mapping[int, float],
    weights: Floats,
    gains: Floats,
    segment_costs: Floats,
    borders: frozenset[int],
) -> dict[int, float]:
    """Order chunks by falling threshold; of the same, by falling density: gain divided by cost.

    Next to a chunk added before, a chunk costs less, because it does not begin a segment.
    """
    ordered: dict[int, float] = {}
    highest_first = sorted(thresholds, key=thresholds.__getitem__, reverse=True)
    for threshold, chunks in itertools.groupby(highest_first, key=thresholds.__getitem__):
        waiting = set(chunks)
        if len(waiting) == 1:  # in most cases
            ordered[waiting.pop()] = threshold
        changed = waiting  # chunks whose density has changed
        queue: list[tuple[float, int]] = []
        while waiting:
            for chunk in changed:
                # 1 for an isolated chunk, -1 for a chunk that merges two segments.
                added_segments = 1
                if chunk not in borders and chunk - 1 in ordered:
                    added_segments -= 1
                if chunk + 1 not in borders and chunk + 1 in ordered:
                    added_segments -= 1
                cost = weights.item(chunk) + added_segments * segment_costs.item(chunk)
                density = np.inf
                if cost > 0:
                    # Rounded, so that numbers that differ by rounding errors are equal.
                    density = round(gains.item(chunk) / cost / threshold, 9)
                heapq.heappush(queue, (-density, chunk))
            # The density of a chunk only rises, so its newest entry comes first.
            _, chunk = heapq.heappop(queue)
            changed = set()
            if chunk in waiting:
                waiting.remove(chunk)
                ordered[chunk] = threshold
                changed = waiting & {chunk - 1, chunk + 1}
    return ordered
