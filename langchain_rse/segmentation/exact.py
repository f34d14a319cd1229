"""The exact solvers: the segments that are worth most together, within a budget or without."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from langchain_rse.segmentation.inputs import Floats, Segment, finite_number, whole_number
from langchain_rse.segmentation.problem import Problem, Run

__all__ = ["Ranking", "rank_chunks", "solve_budget", "solve_exact"]


def solve_exact(
    relevance: ArrayLike,
    *,
    penalty: float,
    weights: ArrayLike | None = None,
    segment_cost: float = 0.25,
    max_length: int | None = None,
    boundaries: Sequence[int] = (),
    edge_costs: ArrayLike | None = None,
) -> list[Segment]:
    """Choose the segments that are worth most together, exactly.

    Maximizes, over all sets of disjoint segments that begin and end on chunks of positive
    relevance, ``sum(w_i * (r_i - penalty) for i in segment) - segment_cost * penalty``, summed
    over the segments. Of equal solutions, the one with less text and fewer segments is taken, so
    that a penalty of 0 chooses all chunks of positive relevance and no other, except in gaps that
    weigh less than ``segment_cost``.

    Args:
        relevance: Shape ``(chunks,)``.
        penalty: What a chunk of weight 1 costs, at least 0.
        weights: Shape ``(chunks,)``, positive; None weighs each chunk 1.
        segment_cost: What a segment costs beyond its chunks, in chunks of weight 1; at
            least 0.
        max_length: The most chunks a segment may have, at least 1; None for no limit.
            Segments may touch.
        boundaries: Indices at which a document starts; no segment crosses one.
        edge_costs: Shape ``(chunks, 2)``, at least 0: which share of half the
            ``segment_cost`` is paid where a segment begins with the chunk, and where it ends
            with it; None for 1 everywhere. Less than 1 at the borders of sections makes
            segments prefer to begin and end there.

    Returns:
        The segments, best first; equal ones by position.

    Raises:
        ValueError: If an argument is out of its range or not finite.

    Example:
        >>> [segment[:2] for segment in solve_exact([0.1, 0.9, 0.2, 0.8, 0, 0.7], penalty=0.3)]
        [(1, 4), (5, 6)]
    """
    if weights is None:
        weights = np.ones(np.shape(relevance))
    problem = Problem(
        relevance, weights, "weights", segment_cost, boundaries, edge_costs=edge_costs
    )
    penalty = finite_number("penalty", penalty)
    return problem.best_first(problem.solve(penalty, _cap(max_length)), penalty)


def solve_budget(
    relevance: ArrayLike,
    lengths: ArrayLike,
    *,
    budget: float,
    penalty: float = 0.0,
    segment_cost: float = 0.25,
    max_length: int | None = None,
    boundaries: Sequence[int] = (),
    edge_costs: ArrayLike | None = None,
) -> list[Segment]:
    """Choose the best segments that fit a budget of text.

    The solution of `solve_exact` for the given penalty or, if that is longer than the
    budget, for the smallest penalty at which it fits. The room that is left then is filled
    with what the next smaller penalty adds, chunk by chunk, up to the first that does not
    fit. Without ``max_length``, a larger budget only ever adds chunks. With it, longer
    solutions may have higher penalties, and the penalty found need not be the smallest.

    Args:
        relevance: Shape ``(chunks,)``, at least 0.
        lengths: Shape ``(chunks,)``, positive: how much of the budget each chunk takes. A
            chunk weighs its length over the mean length of those of positive relevance.
        budget: The most that all segments together may take, at least 0.
        penalty: The least penalty, at least 0: 0 fills the budget as long as anything is
            relevant, more stops where chunks are not worth it.
        segment_cost: What a segment costs beyond its chunks, in chunks of weight 1; at
            least 0.
        max_length: The most chunks a segment may have, at least 1; None for no limit.
        boundaries: Indices at which a document starts; no segment crosses one.
        edge_costs: As in `solve_exact`.

    Returns:
        The segments, best first, with their values at ``penalty``; equal ones by position.

    Raises:
        ValueError: If an argument is out of its range or not finite.

    Example:
        >>> [s[:2] for s in solve_budget([0, 0.6, 0.5, 0, 0.9], [100] * 5, budget=250)]
        [(4, 5), (1, 2)]
    """
    ranking = rank_chunks(
        relevance,
        lengths,
        budget=budget,
        penalty=penalty,
        segment_cost=segment_cost,
        max_length=max_length,
        boundaries=boundaries,
        edge_costs=edge_costs,
    )
    return ranking.segments(ranking.within(budget))


def rank_chunks(
    relevance: ArrayLike,
    lengths: ArrayLike,
    *,
    budget: float,
    penalty: float = 0.0,
    segment_cost: float = 0.25,
    max_length: int | None = None,
    boundaries: Sequence[int] = (),
    edge_costs: ArrayLike | None = None,
) -> Ranking:
    """The order in which `solve_budget` takes chunks as the budget grows.

    Takes what that takes; see there. Without ``max_length`` the order is the same for every
    budget.

    Returns:
        The chunks that fit the budget and at least the one after them, if any is left that
        is worth the penalty.

    Raises:
        ValueError: If an argument is out of its range or not finite.
    """
    problem = Problem(
        relevance,
        lengths,
        "lengths",
        segment_cost,
        boundaries,
        edge_costs=edge_costs,
        normalize=True,
    )
    budget = finite_number("budget", budget)
    penalty = finite_number("penalty", penalty)
    cap = _cap(max_length)
    order = (
        problem.rank(budget, penalty) if cap is None else problem.rank_capped(budget, penalty, cap)
    )
    return Ranking(order, problem, penalty, cap)


class Ranking:
    """Chunks in the order in which a growing budget takes them.

    Attributes:
        chunks: Their indices.
    """

    def __init__(
        self, chunks: list[int], problem: Problem, penalty: float, cap: int | None
    ) -> None:
        self.chunks = chunks
        self._problem = problem
        self._penalty = penalty
        self._cap = cap

    @property
    def weights(self) -> Floats:
        """What each of all chunks weighs; shape ``(chunks,)``."""
        return self._problem.weights / self._problem.unit

    def within(self, budget: float) -> list[int]:
        """The first chunks, up to the first that does not fit."""
        sizes = itertools.accumulate(map(self._problem.weights.item, self.chunks))
        count = sum(1 for _ in itertools.takewhile(lambda size: size <= budget, sizes))
        return self.chunks[:count]

    def steps(self, minimum_value: float) -> list[tuple[int, int]]:
        """The same order, in runs that are taken as a whole.

        A chunk waits for those after it until the segment that it belongs to is worth enough,
        so that no number of steps makes a segment that is not.

        Args:
            minimum_value: The least that a segment must be worth.

        Returns:
            Runs of chunks, ``(start, end)``.
        """
        chunks = self.chunks
        if minimum_value <= 0 and self._penalty == 0:
            return [(chunk, chunk + 1) for chunk in chunks]
        steps = []
        relevance = self._problem.relevance.item
        taken, waiting = _Runs(self._problem.starts), _Runs(self._problem.starts)
        for chunk in chunks:
            run = waiting.add(chunk, chunk + 1)
            segment = taken.joined(*run)
            # What is worth its room makes a segment that is worth enough only better.
            better = (
                relevance(chunk) >= self._penalty
                and run == (chunk, chunk + 1) != segment
                and self._problem.edges_are_alike
            )
            if better or self._problem.value_of(*segment, self._penalty) >= minimum_value:
                waiting.remove(*run)
                taken.add(*run)
                steps.append(run)
        return steps

    def segments(self, chunks: Iterable[int]) -> list[Segment]:
        """The segments that some of the chunks form, best first."""
        return self._problem.best_first(self._problem.runs(chunks, self._cap), self._penalty)


class _Runs:
    """Runs of chunks that grow together where they meet, but not across starts of documents."""

    def __init__(self, starts: frozenset[int]) -> None:
        self._starts = starts
        self._end_of: dict[int, int] = {}
        self._start_of: dict[int, int] = {}

    def joined(self, start: int, end: int) -> Run:
        """A run that is none of these, with those that it touches."""
        if start not in self._starts:
            start = self._start_of.get(start, start)
        if end not in self._starts:
            end = self._end_of.get(end, end)
        return start, end

    def add(self, start: int, end: int) -> Run:
        """Add a run; returns it with those that it touches."""
        start, end = self.joined(start, end)
        self._end_of[start] = end
        self._start_of[end] = start
        return start, end

    def remove(self, start: int, end: int) -> None:
        """Remove a whole run."""
        del self._end_of[start], self._start_of[end]


def _cap(max_length: int | None) -> int | None:
    return None if max_length is None else whole_number("max_length", max_length, least=1)
