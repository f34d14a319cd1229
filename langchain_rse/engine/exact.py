"""The exact solver: finds the segments that are worth most together, with or without a budget.

With the relevance r_i >= 0 and the weight w_i > 0 of each chunk, it maximizes over all sets of
disjoint segments within documents

    sum over segments of ( sum over chunks i of w_i * (r_i - penalty)  -  cost * penalty )

where cost = segment_cost * min(1, weight of the document), since a document shorter than an average
chunk has less context to lose.

1. **One penalty** takes a dynamic program with two states per chunk, in a segment or not. It
   visits only chunks with r_i > penalty, since segments begin and end on those.
2. **All penalties.** Joining two segments saves the cost of one, so the solutions for falling
   penalties are nested: each chunk has a threshold penalty, below which it is in the solution.
   `langchain_rse.engine.thresholds` computes them all at once.
3. **A budget** takes chunks by falling threshold; those with the same threshold, such as a gap and
   what it connects, in the order of what each adds for the room it costs.
"""

from __future__ import annotations

import heapq
import itertools
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from langchain_rse.engine.segments import (
    Bounds,
    Floats,
    Segment,
    check_array,
    check_boundaries,
    check_number,
    extended,
    held_back,
    neighbors,
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
    given = {"relevance": relevance, "weights": weights}
    problem = Ranking(given, penalty, segment_cost, boundaries, document_weights)
    return problem.best_first(problem.solve(problem.penalty))


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
    given = {"relevance": relevance, "lengths": lengths}
    ranking = Ranking(given, penalty, segment_cost, boundaries, document_lengths, normalize=True)
    order = ranking.order(check_number("budget", budget))
    ranking.chunks = [chunk for _, chunk in order]
    ranking.thresholds = {chunk: threshold for threshold, chunk in order}
    return ranking


class Ranking:
    """Chunks in the order in which a growing budget takes them.

    Attributes:
        chunks: Their indices.
        thresholds: The threshold penalty of each.
    """

    def __init__(
        self,
        given: Mapping[str, ArrayLike],  # the relevance and the weights, by their names
        penalty: float,
        segment_cost: float,
        boundaries: Sequence[int],
        document_weights: ArrayLike | None,
        *,
        normalize: bool = False,
    ) -> None:
        self.chunks: list[int] = []
        self.thresholds: dict[int, float] = {}
        (_, relevance), (name, weights) = given.items()
        self.penalty = check_number("penalty", penalty)
        self._relevance = check_array("relevance", relevance)
        self._amounts = self._positive(name, weights)  # in the units that are given
        if self._relevance.min(initial=0) < 0:
            raise ValueError(f"relevance must be at least 0; got {self._relevance.min()}")
        starts = check_boundaries(boundaries, self._relevance.size)
        self._starts = frozenset(starts.tolist())  # of documents, and the end
        # Arrays with one number per relevant chunk.
        self._places = np.flatnonzero(self._relevance > 0)
        self._weights = self._amounts[self._places]
        self._gains = self._weights * self._relevance[self._places]
        # The amount that weighs 1.
        self._unit = float(self._weights.mean()) if normalize and self._places.size else 1.0
        segment_cost = check_number("segment_cost", segment_cost)
        self._firsts = sorted({0, *self._starts} - {self._amounts.size})
        documents = self._documents(f"document_{name}", document_weights)
        with np.errstate(over="ignore"):
            self._costs = segment_cost * np.minimum(documents, self._unit)
        firsts = np.searchsorted(self._firsts, self._places, side="right") - 1
        self._chunk_costs = self._costs[firsts]
        # The weight between each chunk and the one before, infinite across documents.
        bounds = np.stack([self._places[:-1] + 1, self._places[1:]], axis=1).ravel()
        between: Floats = np.add.reduceat(self._amounts, bounds)[::2] if bounds.size else bounds
        self._gaps = np.full(self._places.size, np.inf)
        self._gaps[1:] = np.where(np.diff(self._places) > 1, between, 0.0)
        firsts = np.searchsorted(self._places, starts)
        self._gaps[firsts[firsts < self._places.size]] = np.inf

    @property
    def weights(self) -> Floats:
        """The weight of each chunk, shape ``(chunks,)``; relevant chunks weigh 1 on average."""
        return self._amounts / self._unit

    def within(self, budget: float) -> list[int]:
        """The first chunks, up to the first that does not fit the budget."""
        totals = itertools.accumulate(map(self._amounts.item, self.chunks))
        count = sum(1 for _ in itertools.takewhile(lambda total: total <= budget, totals))
        return self.chunks[:count]

    def steps(self, minimum_value: float) -> list[Bounds]:
        """Divide the order into steps that make no segment worth less than a minimum.

        A chunk is held back until later chunks beside it make its segment worth enough; all of them
        are then one step, ``(start, end)``. Chunks whose segment never is worth it are left out.
        """

        def is_worth(step: Bounds, taken: set[int]) -> bool:
            # A chunk worth the penalty never lowers the value of a segment that it joins.
            joins = step[1] - step[0] == 1 and neighbors(step, taken, self._starts) > 0
            if joins and self._relevance[step[0]] >= self.penalty:
                return True
            return self._value_of(extended(step, taken, self._starts)) >= minimum_value

        return held_back(((chunk, chunk + 1) for chunk in self.chunks), self._starts, is_worth)

    def segments(self, chunks: Iterable[int]) -> list[Segment]:
        """The segments that these chunks form, best first; equal ones by position."""
        return self.best_first(self._joined((chunk, chunk + 1) for chunk in sorted(chunks)))

    def best_first(self, segments: Iterable[Bounds]) -> list[Segment]:
        """Sort segments by their values, best first; equal ones by position."""
        valued = [Segment(*bounds, self._value_of(bounds)) for bounds in segments]
        return sorted(valued, key=lambda segment: (-segment.value, segment.start))

    def solve(self, penalty: float) -> list[Bounds]:
        """Find the segments of the best solution for one penalty, in the order of the text."""
        penalty = max(penalty, _LEAST_PENALTY)
        values = self._gains - penalty * self._weights
        good = np.flatnonzero(values > 0)
        losses = penalty * self._gaps - np.minimum(values, 0.0)
        gaps = np.full(good.size, np.inf)  # to the chunk before, and infinite for the first
        if good.size > 1:
            gaps[1:] = np.add.reduceat(losses[: good[-1] + 1], good[:-1] + 1)
        costs = penalty * self._chunk_costs[good]
        pairs = _dynamic_program(values[good].tolist(), gaps.tolist(), costs.tolist())
        chunks = self._places[good].tolist()
        # With a segment cost of 0, segments that touch are not joined yet.
        return self._joined((chunks[first], chunks[last] + 1) for first, last in pairs)

    def order(self, budget: float) -> list[tuple[float, int]]:
        """Order the chunks above the penalty by thresholds, as many as the budget needs."""
        low = self._first_penalty(budget)
        while True:
            segments = self.solve(low)
            ranked = threshold_penalties(
                segments,
                self._relevance,
                self._amounts,
                costs=[self._cost(start) for start, _ in segments],
                unit=self._unit,
            )
            if low > self.penalty:
                # Rounding may have left out other chunks with exactly this threshold.
                ranked = [pair for pair in ranked if pair[0] > low * (1 + _ROUNDING)]
            if low <= self.penalty or self._total(chunk for _, chunk in ranked) > budget:
                break
            low = max(self.penalty, low / 2)
        ranked.sort(reverse=True)
        order: list[tuple[float, int]] = []
        taken: set[int] = set()
        room = budget * (1 + _ROUNDING)
        for threshold, group in itertools.groupby(ranked, key=lambda pair: pair[0]):
            if room < 0:
                break
            added = self._densest_first({chunk for _, chunk in group}, taken)
            order += [(threshold, chunk) for chunk in added]
            room -= self._total(added)
        return order

    def _first_penalty(self, budget: float) -> float:
        """Guess a penalty whose solution is a little longer than the budget."""
        # The solution has at least the chunks that are worth a segment of their own.
        alone = self._gains / (self._weights + self._chunk_costs)
        order = np.argsort(-alone)
        # One more, since chunks whose threshold is this very penalty are left out.
        beyond = np.searchsorted(np.cumsum(self._weights[order]), budget, side="right") + 1
        return max(float(alone[order[beyond]]) if beyond < order.size else 0.0, self.penalty)

    def _densest_first(self, chunks: set[int], taken: set[int]) -> list[int]:
        """Take chunks of equal threshold, those that add most for their cost first."""

        def density(chunk: int) -> float:
            weight: float = self._amounts.item(chunk)
            gain: float = weight * self._relevance.item(chunk)
            joined = neighbors((chunk, chunk + 1), taken, self._starts)
            cost = weight + (1 - joined) * self._cost(chunk)
            if cost > 0:
                return gain / cost
            return np.inf if cost < 0 or gain > 0 else 0.0

        heap = [(-density(chunk), chunk) for chunk in chunks]
        heapq.heapify(heap)
        order: list[int] = []
        while heap:
            _, chunk = heapq.heappop(heap)
            if chunk in taken:
                continue
            taken.add(chunk)
            order.append(chunk)
            # Their density is higher now, so these entries come before the old ones.
            for neighbor in chunks & {chunk - 1, chunk + 1}:
                heapq.heappush(heap, (-density(neighbor), neighbor))
        return order

    def _joined(self, segments: Iterable[Bounds]) -> list[Bounds]:
        """Join segments, in the order of the text, that touch within a document."""
        joined: list[Bounds] = []
        for start, end in segments:
            touches = joined and joined[-1][1] == start and start not in self._starts
            joined.append((joined.pop()[0] if touches else start, end))
        return joined

    def _value_of(self, segment: Bounds) -> float:
        """The value of a segment."""
        weight, relevance, penalty = self._amounts.item, self._relevance.item, self.penalty
        # Faster than numpy, since most segments are short.
        value = sum(weight(chunk) * (relevance(chunk) - penalty) for chunk in range(*segment))
        return (value - penalty * self._cost(segment[0])) / self._unit

    def _cost(self, chunk: int) -> float:
        """The cost of a segment of a chunk's document, in the units of the weights."""
        return self._costs.item(bisect_right(self._firsts, chunk) - 1)

    def _total(self, chunks: Iterable[int]) -> float:
        return sum(map(self._amounts.item, chunks))

    def _positive(self, name: str, values: ArrayLike) -> Floats:
        """Return an array with a number above 0 for each chunk, else raise a ValueError."""
        array = check_array(name, values)
        if array.shape != self._relevance.shape:
            raise ValueError(
                f"{name} must have one number for each of the {self._relevance.size} chunks; "
                f"got {array.size}"
            )
        if array.min(initial=np.inf) <= 0:
            raise ValueError(f"{name} must be above 0; got {array.min()}")
        return array

    def _documents(self, name: str, weights: ArrayLike | None) -> Floats:
        """The weight of each document."""
        if weights is None:
            return np.add.reduceat(self._amounts, self._firsts)
        array = self._positive(name, weights)
        if not self._starts.issuperset((np.flatnonzero(np.diff(array)) + 1).tolist()):
            raise ValueError(f"{name} must be the same for all chunks of a document; got {array}")
        return array[self._firsts]


def _dynamic_program(
    values: Sequence[float], gaps: Sequence[float], costs: Sequence[float]
) -> list[Bounds]:
    """Find the best segments, by first and last chunk; ``costs`` are of a segment at each chunk."""
    # Of the best values in the two states, only the difference is kept: how much better it is to
    # be outside of a segment than in one that reaches the last chunk.
    outside = np.inf
    bridges, ends = [], []
    for value, gap, cost in zip(values, gaps, costs, strict=True):
        bridge = gap < cost - outside
        outside = (outside + gap if bridge else cost) - value
        bridges.append(bridge)  # the best segment up to this chunk has the chunk before as well
        ends.append(outside < 0)  # this segment is better than none
        outside = max(outside, 0.0)
    segments = []
    last = len(values) - 1
    while last >= 0:
        first = last
        if ends[last]:
            while bridges[first]:
                first -= 1
            segments.append((first, last))
        last = first - 1
    return segments[::-1]
