"""The exact solver: finds the segments with the highest total value, with or without a budget.

Given the relevance r_i >= 0 and the weight w_i > 0 of each chunk, it maximizes over all sets of
disjoint segments within documents

    sum over segments of ( sum over chunks i of w_i * (r_i - penalty)  -  cost * penalty )

where cost = segment_cost * min(1, weight of the document), because a document shorter than an
average chunk has less context to lose.

1. **All penalties**: merging two segments saves the cost of one, so the solutions for falling
   penalties are nested. Each chunk has a threshold penalty; below it, the chunk is in the solution.
   `langchain_rse.engine.thresholds` computes all thresholds at once.
2. **One penalty**: take the chunks whose threshold exceeds it.
3. **A budget**: take chunks by falling threshold. Chunks with the same threshold, such as a gap and
   its neighbors, are taken in the order of their gain per length, see `rank_chunks`.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from langchain_rse.engine.problem import (
    Bounds,
    Floats,
    Problem,
    Segment,
    check_number,
    check_problem,
)
from langchain_rse.engine.thresholds import threshold_penalties

# Replaces a penalty of 0; so small that it only breaks ties.
_LEAST_PENALTY = 1e-200
# Rounding errors of a value, as a share of all values.
_ROUNDING = 1e-13


def solve_exact(
    relevance: ArrayLike,
    *,
    penalty: float,
    weights: ArrayLike | None = None,
    segment_cost: float = 0.25,
    boundaries: Sequence[int] = (),
    document_weights: ArrayLike | None = None,
) -> list[Segment]:
    """Choose the segments with the highest total value at one penalty.

    Ties are broken in favor of less text and fewer segments.

    Args:
        relevance: Shape ``(chunks,)``, at least 0.
        penalty: Cost of a chunk of weight 1, at least 0.
        weights: Shape ``(chunks,)``, positive; None gives each chunk the weight 1.
        segment_cost: Additional cost of each segment, in chunks of weight 1; at least 0. In a
            document whose weight is below 1, it is multiplied by that weight.
        boundaries: Indices at which a document, or a part of one, starts. No segment crosses one.
        document_weights: Shape ``(chunks,)``, positive: the weight of each chunk's document. None
            if the arrays contain all chunks of each document.

    Returns:
        The segments, best first; ties by position.

    Raises:
        ValueError: If an argument is out of range or not finite.

    Example:
        >>> [segment[:2] for segment in solve_exact([0.1, 0.9, 0.2, 0.8, 0, 0.7], penalty=0.25)]
        [(1, 4), (5, 6)]
    """
    if weights is None:
        weights = np.ones(np.shape(relevance))
    check_problem(
        relevance,
        weights,
        lengths_name="weights",
        penalty=penalty,
        segment_cost=segment_cost,
        boundaries=boundaries,
        document_lengths=document_weights,
    )
    ranking = rank_chunks(
        relevance,
        weights,
        unit=1.0,
        penalty=penalty,
        segment_cost=segment_cost,
        boundaries=boundaries,
        document_lengths=document_weights,
    )
    return ranking.segments(ranking.chunks)


def solve_budget(
    relevance: ArrayLike,
    lengths: ArrayLike,
    *,
    budget: float,
    penalty: float = 0.0,
    segment_cost: float = 0.25,
    boundaries: Sequence[int] = (),
    document_lengths: ArrayLike | None = None,
) -> list[Segment]:
    """Choose the best segments that fit a budget of text.

    If the solution of `solve_exact` for the given penalty fits the budget, this is the result. If
    not, it is the solution for the smallest penalty at which it fits, plus chunks that the next
    smaller penalty adds, up to the first that does not fit. A larger budget only adds chunks.

    Args:
        relevance: Shape ``(chunks,)``, at least 0.
        lengths: Shape ``(chunks,)``, positive: the length of each chunk, in the unit of the budget.
            The weight of a chunk is its length divided by the mean length of the chunks with
            positive relevance.
        budget: Maximum length of all segments together, at least 0.
        penalty: Minimum penalty, at least 0. 0 fills the budget as long as anything is relevant.
        segment_cost: As in `solve_exact`.
        boundaries: As in `solve_exact`.
        document_lengths: Like ``document_weights`` of `solve_exact`, in the unit of ``lengths``.

    Returns:
        The segments, best first; ties by position.

    Raises:
        ValueError: If an argument is out of range or not finite.

    Example:
        >>> [s[:2] for s in solve_budget([0, 0.6, 0.5, 0, 0.9], [100] * 5, budget=250)]
        [(4, 5), (1, 2)]
    """
    budget = check_number("budget", budget)
    check_problem(
        relevance,
        lengths,
        lengths_name="lengths",
        penalty=penalty,
        segment_cost=segment_cost,
        boundaries=boundaries,
        document_lengths=document_lengths,
    )
    ranking = rank_chunks(
        relevance,
        lengths,
        penalty=penalty,
        segment_cost=segment_cost,
        boundaries=boundaries,
        document_lengths=document_lengths,
    )
    return ranking.segments(ranking.within(budget))


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
    """Order chunks as `solve_budget`, with the same arguments, adds them when the budget grows.

    Arguments are not validated. ``unit`` is the length of a chunk of weight 1; None: the mean
    length of the chunks with positive relevance.
    """
    relevance = np.asarray(relevance, dtype=np.float64)
    lengths = np.asarray(lengths, dtype=np.float64)
    starts = np.array(sorted({0, *map(int, boundaries)} - {lengths.size}), dtype=np.intp)
    if document_lengths is None:
        sums = np.add.reduceat(lengths, starts)
        document_lengths = np.repeat(sums, np.diff(starts, append=lengths.size))
    relevant_lengths = lengths[relevance > 0]
    if unit is None:
        unit = float(relevant_lengths.mean()) if relevant_lengths.size else 1.0
    problem = Problem(
        relevance=relevance,
        weights=lengths / unit,
        segment_costs=segment_cost * np.minimum(np.asarray(document_lengths) / unit, 1.0),
        penalty=max(float(penalty), _LEAST_PENALTY),
        starts=starts,
    )
    return Ranking(problem, lengths, _order_chunks(problem))


def _order_chunks(problem: Problem) -> dict[int, float]:
    """Return the threshold of each chunk that reaches the penalty, the highest threshold first."""
    thresholds = threshold_penalties(problem)
    highest_first = sorted(thresholds, key=thresholds.__getitem__, reverse=True)
    ordered: dict[int, float] = {}
    for threshold, chunks in itertools.groupby(highest_first, key=thresholds.__getitem__):
        _add_densest_first(problem, list(chunks), threshold, ordered)
    return ordered


def _add_densest_first(
    problem: Problem, chunks: Sequence[int], threshold: float, ordered: dict[int, float]
) -> None:
    """Add chunks of equal threshold to ``ordered``, by falling density: gain divided by cost.

    Next to a chunk added before, a chunk costs less, because it does not begin a segment.
    """
    if len(chunks) == 1:
        ordered[chunks[0]] = threshold
        return
    waiting = set(chunks)
    queue: list[tuple[float, int]] = []
    changed = waiting  # chunks whose density has changed
    while waiting:
        for chunk in changed:
            weight = problem.weights.item(chunk)
            # 1 for an isolated chunk, -1 for a chunk that merges two segments.
            added_segments = 1
            if chunk not in problem.borders and chunk - 1 in ordered:
                added_segments -= 1
            if chunk + 1 not in problem.borders and chunk + 1 in ordered:
                added_segments -= 1
            cost = weight + added_segments * problem.segment_costs.item(chunk)
            density = np.inf
            if cost > 0:
                # Rounded, so that numbers that differ by rounding errors are equal.
                density = round(weight * problem.relevance.item(chunk) / cost / threshold, 9)
            heapq.heappush(queue, (-density, chunk))
        # The density of a chunk only rises, so its newest entry comes first.
        _, chunk = heapq.heappop(queue)
        changed = set()
        if chunk in waiting:
            waiting.remove(chunk)
            ordered[chunk] = threshold
            changed = waiting & {chunk - 1, chunk + 1}


@dataclass(frozen=True, eq=False)
class Ranking:
    """The order in which a growing budget adds chunks, made by `rank_chunks`.

    Attributes:
        problem: The chunks with their relevance, weights and values.
        lengths: Length of each chunk; shape ``(chunks,)``.
        thresholds: The threshold penalty of each chunk, by index, in the order of the chunks.
    """

    problem: Problem
    lengths: Floats
    thresholds: Mapping[int, float]

    @property
    def chunks(self) -> list[int]:
        """The indices of the chunks, in the order in which they are added."""
        return list(self.thresholds)

    def within(self, budget: float) -> list[int]:
        """Return the first chunks, up to the first that does not fit the budget."""
        totals = np.cumsum(self.lengths[self.chunks])
        return self.chunks[: int(np.searchsorted(totals, budget, side="right"))]

    def steps(self, first: Sequence[int] = ()) -> list[Bounds]:
        """Divide the order into steps after which no segment has a negative value.

        A chunk is deferred until later chunks next to it bring its segment to a value of at least
        0; together they form one step, ``(start, end)``.

        Args:
            first: Chunks to take before all others, whatever the values of their segments.
        """
        problem = self.problem
        totals = [0.0, *np.cumsum(problem.values).tolist()]
        least_value = -_ROUNDING * float(np.abs(problem.values).sum())
        # Segments of these chunks, by the first and the last chunk of each.
        taken: dict[int, Bounds] = {}
        deferred: dict[int, Bounds] = {}
        steps: list[Bounds] = []
        for chunk in dict.fromkeys([*first, *self.thresholds]):
            step = _extend((chunk, chunk + 1), deferred, problem.borders)
            segment = _extend(step, taken, problem.borders)
            start, end = segment
            value = totals[end] - totals[start] - problem.cost(segment)
            if chunk in first or value >= least_value:
                steps.append(step)
                taken[start] = taken[end - 1] = segment
                start, end = step
                deferred.pop(start, None)
                deferred.pop(end - 1, None)
            else:
                start, end = step
                deferred[start] = deferred[end - 1] = step
        return steps

    def segments(self, chunks: Iterable[int]) -> list[Segment]:
        """Return the segments that these chunks form, best first; ties by position."""
        problem = self.problem
        joined: list[Bounds] = []
        for chunk in sorted(chunks):
            start = chunk
            if joined and joined[-1][1] == chunk and chunk not in problem.borders:
                start, _ = joined.pop()
            joined.append((start, chunk + 1))
        segments: list[Segment] = []
        for start, end in joined:
            value = float(problem.values[start:end].sum()) - problem.cost((start, end))
            segments.append(Segment(start, end, value))
        return sorted(segments, key=lambda segment: (-segment.value, segment.start))


def _extend(segment: Bounds, segments: Mapping[int, Bounds], borders: frozenset[int]) -> Bounds:
    """Extend a segment by those next to it; ``segments`` are by their first and last chunks."""
    start, end = segment
    if start not in borders:
        start, _ = segments.get(start - 1, segment)
    if end not in borders:
        _, end = segments.get(end, segment)
    return start, end
