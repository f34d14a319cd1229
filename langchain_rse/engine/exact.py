"""The exact solver: finds the segments that are worth most together, with or without a budget.

With the relevance r_i >= 0 and the weight w_i > 0 of each chunk, it maximizes over all sets of
disjoint segments within documents

    sum over segments of ( sum over chunks i of w_i * (r_i - penalty)  -  cost * penalty )

where cost = segment_cost * min(1, weight of the document), since a document shorter than an average
chunk has less context to lose.

1. **One penalty** takes a dynamic program with two states per chunk, in a segment or not: see
   `langchain_rse.engine.dynamic_program`.
2. **All penalties.** Joining two segments saves the cost of one, so the solutions for falling
   penalties are nested: each chunk has a threshold penalty, below which it is in the solution.
   `langchain_rse.engine.thresholds` computes them all at once.
3. **A budget** takes chunks by falling threshold; those with the same threshold, such as a gap and
   what it connects, in the order of what each adds for the room it costs: see
   `langchain_rse.engine.order`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from langchain_rse.engine.arguments import check_number
from langchain_rse.engine.dynamic_program import solve_at_penalty
from langchain_rse.engine.order import order_chunks
from langchain_rse.engine.problem import Problem, make_problem
from langchain_rse.engine.segments import (
    Bounds,
    Floats,
    Segment,
    count_neighbors,
    delay_steps,
    extend,
    join,
)


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
    problem = make_problem(
        relevance,
        weights,
        lengths_name="weights",
        unit=1.0,
        penalty=penalty,
        segment_cost=segment_cost,
        boundaries=boundaries,
        document_lengths=document_weights,
    )
    return problem.best_first(solve_at_penalty(problem, problem.penalty))


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
    them, if any is left that is worth the penalty.
    """
    problem = make_problem(
        relevance,
        lengths,
        lengths_name="lengths",
        unit=None,
        penalty=penalty,
        segment_cost=segment_cost,
        boundaries=boundaries,
        document_lengths=document_lengths,
    )
    return Ranking(problem, order_chunks(problem, check_number("budget", budget)))


@dataclass(frozen=True, eq=False)
class Ranking:
    """Chunks in the order in which a growing budget takes them, made by `rank_chunks`.

    Attributes:
        problem: The chunks, and what they are worth and cost.
        thresholds: The threshold penalty of each chunk, by its index, in this order.
    """

    problem: Problem
    thresholds: Mapping[int, float]

    @property
    def chunks(self) -> list[int]:
        """The indices of the chunks, in this order."""
        return list(self.thresholds)

    @property
    def weights(self) -> Floats:
        """The weight of each chunk, shape ``(chunks,)``; relevant chunks weigh 1 on average."""
        return self.problem.lengths / self.problem.unit

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

    def steps(self, minimum_value: float, first: Sequence[int] = ()) -> list[Bounds]:
        """Divide the order into steps that make no segment worth less than a minimum.

        A chunk is delayed until later chunks next to it make its segment worth enough; all of them
        are then one step, ``(start, end)``. Chunks whose segment never is worth it are left out.

        Args:
            minimum_value: The minimum.
            first: Chunks that are taken before all others, whatever their segments are worth.
        """
        problem = self.problem

        def is_worth_enough(step: Bounds, taken: set[int]) -> bool:
            start, end = step
            if start in first:
                return True
            is_one_chunk = end - start == 1
            joins_segment = is_one_chunk and count_neighbors(step, taken, problem.borders) > 0
            if joins_segment and problem.relevance.item(start) >= problem.penalty:
                return True  # such a chunk never lowers the value of a segment
            return problem.value(extend(step, taken, problem.borders)) >= minimum_value

        chunks = dict.fromkeys([*first, *self.thresholds])
        single_chunks = ((chunk, chunk + 1) for chunk in chunks)
        return delay_steps(single_chunks, problem.borders, is_worth_enough)

    def segments(self, chunks: Iterable[int]) -> list[Segment]:
        """The segments that these chunks form, best first; equal ones by position."""
        single_chunks = ((chunk, chunk + 1) for chunk in sorted(chunks))
        return self.problem.best_first(join(single_chunks, self.problem.borders))
