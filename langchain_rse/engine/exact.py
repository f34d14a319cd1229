"""The exact solver: finds the segments with the highest total value, with or without a budget.

Given the relevance r_i >= 0 and the weight w_i > 0 of each chunk, it maximizes over all sets of
disjoint segments within documents

    sum over segments of ( sum over chunks i of w_i * (r_i - penalty)  -  cost * penalty )

where cost = segment_cost * min(1, weight of the document), because a document shorter than an
average chunk has less context to lose.

1. **One penalty**: a dynamic program with two states per chunk, in a segment or not, see
   `solve_at_penalty`.
2. **All penalties**: merging two segments saves the cost of one, so the solutions for falling
   penalties are nested. Each chunk has a threshold penalty; below it, the chunk is in the solution.
   `langchain_rse.engine.thresholds` computes all thresholds at once.
3. **A budget**: take chunks by falling threshold. Chunks with the same threshold, such as a gap and
   its neighbors, are taken in the order of their gain per length, see `rank_chunks`.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter

import numpy as np
from numpy.typing import ArrayLike

from langchain_rse.engine.problem import (
    Bounds,
    Floats,
    Problem,
    Segment,
    check_number,
    check_problem,
    count_neighbors,
    extend,
    make_problem,
)
from langchain_rse.engine.thresholds import threshold_penalties

# Replaces a penalty of 0; so small that it only breaks ties.
_LEAST_PENALTY = 1e-200
# Relative differences below this count as rounding errors.
_ROUNDING = 1e-10


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
    problem = make_problem(
        relevance,
        weights,
        unit=1.0,
        penalty=penalty,
        segment_cost=segment_cost,
        boundaries=boundaries,
        document_lengths=document_weights,
    )
    chosen = solve_at_penalty(problem, problem.penalty)
    segments = [Segment(start, end, problem.value((start, end))) for start, end in chosen]
    return sorted(segments, key=lambda segment: (-segment.value, segment.start))


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
        budget=budget,
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
    budget: float,
    penalty: float = 0.0,
    segment_cost: float = 0.25,
    boundaries: Sequence[int] = (),
    document_lengths: ArrayLike | None = None,
) -> Ranking:
    """Order chunks as `solve_budget`, with the same arguments, adds them when the budget grows.

    The order does not depend on the budget. The result contains at least the chunks that fit and
    the next one, if there is another that reaches the penalty. Arguments are not validated.
    """
    problem = make_problem(
        relevance,
        lengths,
        unit=None,
        penalty=penalty,
        segment_cost=segment_cost,
        boundaries=boundaries,
        document_lengths=document_lengths,
    )
    highest_first = sorted(_highest_thresholds(problem, budget), reverse=True)
    thresholds: dict[int, float] = {}
    taken: set[int] = set()
    room = budget * (1 + _ROUNDING)
    for threshold, pairs in itertools.groupby(highest_first, key=itemgetter(0)):
        if room < 0:
            break
        chunks = _take_densest_first(problem, {chunk for _, chunk in pairs}, taken)
        thresholds.update(dict.fromkeys(chunks, threshold))
        room -= sum(map(problem.lengths.item, chunks))
    return Ranking(problem, thresholds, weights=problem.lengths / problem.unit)


@dataclass(frozen=True, eq=False)
class Ranking:
    """The order in which a growing budget adds chunks, made by `rank_chunks`.

    Attributes:
        problem: The chunks with their relevance, lengths and costs.
        thresholds: The threshold penalty of each chunk, by index, in the order of the chunks.
        weights: The weight of each chunk, shape ``(chunks,)``; relevant chunks have a mean of 1.
    """

    problem: Problem
    thresholds: Mapping[int, float]
    weights: Floats

    @property
    def chunks(self) -> list[int]:
        """The indices of the chunks, in the order in which they are added."""
        return list(self.thresholds)

    def within(self, budget: float) -> list[int]:
        """Return the first chunks, up to the first that does not fit the budget."""
        fitting: list[int] = []
        total = 0.0
        for chunk in self.thresholds:
            total += self.problem.lengths.item(chunk)
            if total > budget:
                break
            fitting.append(chunk)
        return fitting

    def steps(self, first: Sequence[int] = ()) -> list[Bounds]:
        """Divide the order into steps after which no segment has a negative value.

        A chunk is deferred until later chunks next to it bring its segment to a value of at least
        0; together they form one step, ``(start, end)``.

        Args:
            first: Chunks to take before all others, whatever the values of their segments.
        """
        problem = self.problem
        borders = problem.borders
        steps: list[Bounds] = []
        taken: set[int] = set()
        deferred: set[int] = set()
        for chunk in dict.fromkeys([*first, *self.thresholds]):
            step = extend((chunk, chunk + 1), deferred, borders)
            is_alone = step == (chunk, chunk + 1)
            reaches_penalty = problem.relevance.item(chunk) >= problem.penalty
            is_accepted = chunk in first
            if is_alone and reaches_penalty and count_neighbors(step, taken, borders):
                is_accepted = True  # this chunk cannot lower the value of a segment
            if not is_accepted:
                is_accepted = problem.value(extend(step, taken, borders)) >= 0
            if is_accepted:
                steps.append(step)
                taken.update(range(*step))
                deferred.difference_update(range(*step))
            else:
                deferred.add(chunk)
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
        segments = [Segment(start, end, problem.value((start, end))) for start, end in joined]
        return sorted(segments, key=lambda segment: (-segment.value, segment.start))


def solve_at_penalty(problem: Problem, penalty: float) -> list[Bounds]:
    """Find the segments with the highest total value at a penalty, in the order of the text.

    A dynamic program with two states, in a segment or not. It visits only chunks whose relevance
    exceeds the penalty, because segments begin and end with these.
    """
    penalty = max(penalty, _LEAST_PENALTY)
    relevant = problem.relevant
    values = relevant.gains - penalty * relevant.lengths
    visited = np.flatnonzero(values > 0)
    # The loss of extending a segment from the previous relevant chunk to each relevant chunk, and
    # from each visited chunk to the next.
    losses = penalty * relevant.gaps - np.minimum(values, 0.0)
    losses_between = np.full(visited.size, np.inf)
    if visited.size > 1:
        losses_between[1:] = np.add.reduceat(losses[: visited[-1] + 1], visited[:-1] + 1)
    costs = penalty * relevant.segment_costs[visited]

    segments: list[Bounds] = []  # the best segments that end at or before the current chunk
    # The start of the best segment that reaches the current chunk, and the number of segments
    # before it.
    start = 0
    count_before = 0
    # The advantage of the solution without this segment over the solution with it.
    advantage = np.inf
    for chunk, value, loss, cost in zip(
        relevant.indices[visited].tolist(),
        values[visited].tolist(),
        losses_between.tolist(),
        costs.tolist(),
        strict=True,
    ):
        if loss < cost - advantage:
            advantage = advantage + loss - value
        else:
            advantage = cost - value
            start = chunk
            count_before = len(segments)
            if segments and segments[-1][1] == chunk and chunk not in problem.borders:
                # With a segment cost of 0, beginning a new segment here has the same value.
                start = segments[-1][0]
                count_before -= 1
        if advantage < 0:
            segments[count_before:] = [(start, chunk + 1)]
            advantage = 0.0
    return segments


def _highest_thresholds(problem: Problem, budget: float) -> list[tuple[float, int]]:
    """Compute the highest thresholds, until their chunks exceed the budget, or all thresholds.

    Returns pairs of a threshold and the index of its chunk.
    """
    # Guess a penalty whose solution is a little longer than the budget. The solution contains at
    # least the chunks that pay for a segment alone.
    relevant = problem.relevant
    thresholds_alone = relevant.gains / (relevant.lengths + relevant.segment_costs)
    order = np.argsort(-thresholds_alone)
    totals = np.cumsum(relevant.lengths[order])
    # One more, because chunks whose threshold equals the penalty are not in the solution.
    beyond = np.searchsorted(totals, budget, side="right") + 1
    penalty = problem.penalty
    if beyond < order.size:
        penalty = max(penalty, thresholds_alone.item(order[beyond]))

    while penalty > problem.penalty:
        thresholds = []
        total = 0.0
        for threshold, chunk in threshold_penalties(problem, solve_at_penalty(problem, penalty)):
            # Rounding may have dropped other chunks whose threshold equals the penalty.
            if threshold > penalty * (1 + _ROUNDING):
                thresholds.append((threshold, chunk))
                total += problem.lengths.item(chunk)
        if total > budget:
            return thresholds
        penalty = max(problem.penalty, penalty / 2)
    return threshold_penalties(problem, solve_at_penalty(problem, penalty))


def _take_densest_first(problem: Problem, chunks: set[int], taken: set[int]) -> list[int]:
    """Order chunks of equal threshold by density: gain divided by cost.

    Adds each chunk to ``taken``, the chunks taken before. Next to one of them, a chunk costs less,
    because it does not begin a segment.
    """
    order: list[int] = []
    queue: list[tuple[float, int]] = []
    changed = chunks  # chunks whose density has changed
    while True:
        for chunk in changed:
            length = problem.lengths.item(chunk)
            gain = length * problem.relevance.item(chunk)
            # 1 for an isolated chunk, -1 for a chunk that merges two segments.
            added_segments = 1 - count_neighbors((chunk, chunk + 1), taken, problem.borders)
            cost = length + added_segments * problem.segment_costs.item(chunk)
            density = 0.0
            if cost > 0:
                density = gain / cost
            elif cost < 0 or gain > 0:
                density = np.inf
            heapq.heappush(queue, (-density, chunk))
        while queue and queue[0][1] in taken:
            heapq.heappop(queue)
        if not queue:
            return order
        _, chunk = heapq.heappop(queue)
        taken.add(chunk)
        order.append(chunk)
        # Their density has risen, so their new entries come before the old ones.
        changed = chunks & {chunk - 1, chunk + 1}
