"""The exact solver: finds the segments that are worth most together, with or without a budget.

With the relevance r_i >= 0 and the weight w_i > 0 of each chunk, it maximizes over all sets of
disjoint segments within documents

    sum over segments of ( sum over chunks i of w_i * (r_i - penalty)  -  cost * penalty )

where cost = segment_cost * min(1, weight of the document), since a document shorter than an average
chunk has less context to lose.

1. **One penalty** takes a dynamic program with two states per chunk, in a segment or not:
   `solve_at_penalty`.
2. **All penalties.** Joining two segments saves the cost of one, so the solutions for falling
   penalties are nested: each chunk has a threshold penalty, below which it is in the solution.
   `langchain_rse.engine.thresholds` computes them all at once.
3. **A budget** takes chunks by falling threshold; those with the same threshold, such as a gap and
   what it connects, in the order of what each adds for the room it costs: `rank_chunks`.
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

# Replaces a penalty of 0: so small that it only decides ties.
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
    """Choose the segments that are worth most together at one penalty.

    Of equal solutions, the one with less text and fewer segments is taken.

    Args:
        relevance: Shape ``(chunks,)``, at least 0.
        penalty: What a chunk of weight 1 costs, at least 0.
        weights: Shape ``(chunks,)``, positive; None weighs each chunk 1.
        segment_cost: What a segment costs beyond its chunks, in chunks of weight 1; at least 0. In
            a document that weighs less than 1, it costs that share of it.
        boundaries: Indices at which a document starts, or a part of one; no segment crosses one.
        document_weights: Shape ``(chunks,)``, positive: the weight of each chunk's document. None
            if all chunks of each document are given.

    Returns:
        The segments, best first; equal ones by position.

    Raises:
        ValueError: If an argument is out of its range or not finite.

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

    This is the solution of `solve_exact` for the given penalty or, if it is longer than the budget,
    for the smallest penalty at which it fits; then the chunks that the next smaller penalty adds,
    up to the first that does not fit. A larger budget only ever adds chunks.

    Arguments not listed here, results and errors are those of `solve_exact`.

    Args:
        relevance: Shape ``(chunks,)``, at least 0.
        lengths: Shape ``(chunks,)``, positive: how much of the budget each chunk takes. A
            chunk weighs its length over the mean length of those of positive relevance.
        budget: The most that all segments together may take, at least 0.
        penalty: The least penalty, at least 0: 0 fills the budget as long as anything is relevant.
        segment_cost: As in `solve_exact`.
        boundaries: As in `solve_exact`.
        document_lengths: Like ``document_weights``, in the unit of ``lengths``.

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
    """Order chunks as `solve_budget`, with the same arguments, takes them as the budget grows.

    The order does not depend on the budget. It has the chunks that fit, and at least the one after
    them, if any is left that is worth the penalty. The arguments are not checked.
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
    """Chunks in the order in which a growing budget takes them, made by `rank_chunks`.

    Attributes:
        problem: The chunks, and what they are worth and cost.
        thresholds: The threshold penalty of each chunk, by its index, in this order.
        weights: The weight of each chunk, shape ``(chunks,)``; relevant chunks weigh 1 on average.
    """

    problem: Problem
    thresholds: Mapping[int, float]
    weights: Floats

    @property
    def chunks(self) -> list[int]:
        """The indices of the chunks, in this order."""
        return list(self.thresholds)

    def within(self, budget: float) -> list[int]:
        """The first chunks, up to the first that does not fit the budget."""
        fitting: list[int] = []
        total = 0.0
        for chunk in self.thresholds:
            total += self.problem.lengths.item(chunk)
            if total > budget:
                break
            fitting.append(chunk)
        return fitting

    def steps(self, first: Sequence[int] = ()) -> list[Bounds]:
        """Divide the order into steps that make no segment worth less than nothing.

        A chunk is delayed until later chunks next to it make its segment worth enough; all of them
        are then one step, ``(start, end)``.

        Args:
            first: Chunks that are taken before all others, whatever their segments are worth.
        """
        problem = self.problem
        borders = problem.borders
        steps: list[Bounds] = []
        taken: set[int] = set()
        delayed: set[int] = set()
        for chunk in dict.fromkeys([*first, *self.thresholds]):
            step = extend((chunk, chunk + 1), delayed, borders)
            is_alone = step == (chunk, chunk + 1)
            is_worth_penalty = problem.relevance.item(chunk) >= problem.penalty
            is_accepted = chunk in first
            if is_alone and is_worth_penalty and count_neighbors(step, taken, borders):
                is_accepted = True  # such a chunk never lowers the value of a segment
            if not is_accepted:
                is_accepted = problem.value(extend(step, taken, borders)) >= 0
            if is_accepted:
                steps.append(step)
                taken.update(range(*step))
                delayed.difference_update(range(*step))
            else:
                delayed.add(chunk)
        return steps

    def segments(self, chunks: Iterable[int]) -> list[Segment]:
        """The segments that these chunks form, best first; equal ones by position."""
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
    """Find the segments that are worth most together at a penalty, in the order of the text.

    A dynamic program with two states, in a segment or in none. It visits only chunks that are worth
    the penalty, since segments begin and end on those.
    """
    penalty = max(penalty, _LEAST_PENALTY)
    relevant = problem.relevant
    values = relevant.gains - penalty * relevant.lengths
    visited = np.flatnonzero(values > 0)
    # What a segment loses by reaching from the relevant chunk before up to this one, and so from
    # one visited chunk to the next.
    losses = penalty * relevant.gaps - np.minimum(values, 0.0)
    losses_between = np.full(visited.size, np.inf)
    if visited.size > 1:
        losses_between[1:] = np.add.reduceat(losses[: visited[-1] + 1], visited[:-1] + 1)
    costs = penalty * relevant.segment_costs[visited]

    segments: list[Bounds] = []  # the best ones that end before or with the current chunk
    # The best segment that reaches the current chunk, and how many segments stand before it.
    start = 0
    count_before = 0
    # How much better it is to be in no segment than in that one.
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
                # At a segment cost of 0, it is worth as much to begin a segment here.
                start = segments[-1][0]
                count_before -= 1
        if advantage < 0:
            segments[count_before:] = [(start, chunk + 1)]
            advantage = 0.0
    return segments


def _highest_thresholds(problem: Problem, budget: float) -> list[tuple[float, int]]:
    """Compute the highest thresholds, of more chunks than fit the budget; or all of them.

    Returns each with the index of its chunk.
    """
    # Guess a penalty whose solution is a little longer than the budget: the solution has at least
    # the chunks that are worth a segment of their own.
    relevant = problem.relevant
    thresholds_alone = relevant.gains / (relevant.lengths + relevant.segment_costs)
    order = np.argsort(-thresholds_alone)
    totals = np.cumsum(relevant.lengths[order])
    # One more, since chunks whose threshold is this very penalty are left out.
    beyond = np.searchsorted(totals, budget, side="right") + 1
    penalty = problem.penalty
    if beyond < order.size:
        penalty = max(penalty, thresholds_alone.item(order[beyond]))

    while penalty > problem.penalty:
        thresholds = []
        total = 0.0
        for threshold, chunk in threshold_penalties(problem, solve_at_penalty(problem, penalty)):
            # Rounding may have left out other chunks with exactly the penalty as their threshold.
            if threshold > penalty * (1 + _ROUNDING):
                thresholds.append((threshold, chunk))
                total += problem.lengths.item(chunk)
        if total > budget:
            return thresholds
        penalty = max(problem.penalty, penalty / 2)
    return threshold_penalties(problem, solve_at_penalty(problem, penalty))


def _take_densest_first(problem: Problem, chunks: set[int], taken: set[int]) -> list[int]:
    """Order chunks of equal threshold by what each adds for the room that it costs.

    Each is added to ``taken``, the chunks that came before: beside one of those, a chunk costs
    less, as it begins no segment.
    """
    order: list[int] = []
    queue: list[tuple[float, int]] = []
    changed = chunks  # those with a new density: what a chunk adds, divided by what it costs
    while True:
        for chunk in changed:
            length = problem.lengths.item(chunk)
            gain = length * problem.relevance.item(chunk)
            # 1 for a chunk alone, -1 for a chunk that joins two segments.
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
        # Their density is higher now, so that their new entries come before the old ones.
        changed = chunks & {chunk - 1, chunk + 1}
