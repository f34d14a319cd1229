"""The exact solver: the segments that are worth most together, within a budget or without.

With the relevance r_i >= 0 and the weight w_i > 0 of each chunk, it maximizes over all sets of
disjoint segments within documents

    sum over segments of ( sum over chunks i of w_i * (r_i - penalty)  -  cost * penalty )

where cost = segment_cost * min(1, weight of the document). A segment's cost stands for tearing a
passage out of its context, and a document shorter than an average chunk has less context to lose.

1. **One penalty** takes a dynamic program with two states per chunk, in a segment or not. It
   visits only chunks with r_i > penalty, since segments begin and end on those.
2. **All penalties.** The objective is supermodular, because joining two segments saves the cost
   of one. So the solutions for falling penalties are nested: each chunk has a threshold penalty,
   below which it is in the solution. `langchain_rse.engine.thresholds` computes them all at once.
3. **A budget** takes chunks by falling threshold. Chunks with the same threshold, such as those of
   a gap and of what it connects, are taken in the order of what each adds for the room it costs.
"""

from __future__ import annotations

import heapq
import itertools
from bisect import bisect_right
from collections.abc import Collection, Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from langchain_rse.engine.segments import (
    Floats,
    Segment,
    check_array,
    check_boundaries,
    check_number,
)
from langchain_rse.engine.thresholds import threshold_penalties

Bounds = tuple[int, int]
"""The first chunk of a segment, and the one after its last."""

# Stands for a penalty of 0: so small that it decides ties only.
_LEAST_PENALTY = 1e-200
# Relative differences below this are taken for rounding.
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

    Of equal solutions, the one with less text and fewer segments is taken: a penalty of 0 chooses
    the chunks of positive relevance, and between them gaps that weigh less than ``segment_cost``.

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
    problem = _Problem(relevance, ("weights", weights), segment_cost, boundaries, document_weights)
    penalty = check_number("penalty", penalty)
    return problem.best_first(problem.solve(penalty), penalty)


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

    The solution of `solve_exact` for the given penalty or, if that is longer than the budget, for
    the smallest penalty at which it fits; then what the next smaller penalty adds, chunk by chunk,
    up to the first that does not fit. A larger budget only ever adds chunks.

    Arguments that are not here, results and errors are those of `solve_exact`.

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
    ranking = rank_chunks(**locals())  # all arguments, by their names
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
    problem = _Problem(
        relevance, ("lengths", lengths), segment_cost, boundaries, document_lengths, normalize=True
    )
    budget = check_number("budget", budget)
    penalty = check_number("penalty", penalty)
    return Ranking(problem.order(budget, penalty), problem, penalty)


class Ranking:
    """Chunks in the order in which a growing budget takes them."""

    def __init__(
        self, order: Sequence[tuple[float, int]], problem: _Problem, penalty: float
    ) -> None:
        self.chunks = [chunk for _, chunk in order]  # their indices
        self.thresholds = {chunk: threshold for threshold, chunk in order}  # penalties
        self._problem = problem
        self._penalty = penalty

    @property
    def weights(self) -> Floats:
        """The weight of each chunk, shape ``(chunks,)``; relevant ones weigh 1 on average."""
        return self._problem.weights / self._problem.unit

    def within(self, budget: float) -> list[int]:
        """The first chunks, up to the first that does not fit the budget."""
        totals = itertools.accumulate(map(self._problem.weights.item, self.chunks))
        count = sum(1 for _ in itertools.takewhile(lambda total: total <= budget, totals))
        return self.chunks[:count]

    def steps(self, minimum_value: float) -> list[Bounds]:
        """The same order, in steps that make no segment worth less than a minimum.

        A chunk is held back until later chunks beside it make its segment worth enough, and all
        of them are one step, ``(start, end)``. Chunks whose segment never is are left out.
        """
        problem, penalty = self._problem, self._penalty
        steps: list[Bounds] = []
        taken: set[int] = set()
        held_back: set[int] = set()
        for chunk in self.chunks:
            step = problem.extended(chunk, chunk + 1, held_back)
            # A chunk worth its text makes a segment that it joins worth no less.
            is_gain = (
                problem.relevance[chunk] >= penalty
                and step == (chunk, chunk + 1)
                and problem.neighbors(chunk, taken) > 0
            )
            segment = step if is_gain else problem.extended(*step, taken)
            if is_gain or problem.value_of(*segment, penalty) >= minimum_value:
                steps.append(step)
                taken.update(range(*step))
                held_back.difference_update(range(*step))
            else:
                held_back.add(chunk)
        return steps

    def segments(self, chunks: Iterable[int]) -> list[Segment]:
        """The segments that some of the chunks form, best first; equal ones by position."""
        bounds = self._problem.joined((chunk, chunk + 1) for chunk in sorted(chunks))
        return self._problem.best_first(bounds, self._penalty)


class _Problem:
    """The checked input; ``starts`` includes the end, ``unit`` is the weight that counts as 1."""

    def __init__(
        self,
        relevance: ArrayLike,
        weights: tuple[str, ArrayLike],
        segment_cost: float,
        boundaries: Sequence[int],
        document_weights: ArrayLike | None,
        *,
        normalize: bool = False,
    ) -> None:
        name, given = weights
        self.relevance = check_array("relevance", relevance)
        self.weights = self._positive(name, given)
        if self.relevance.min(initial=0) < 0:
            raise ValueError(f"relevance must be at least 0; got {self.relevance.min()}")
        starts = check_boundaries(boundaries, self.relevance.size)
        self.starts = frozenset(starts.tolist())
        # From here on, arrays have one number per relevant chunk.
        self._chunks = np.flatnonzero(self.relevance > 0)
        self._weights = self.weights[self._chunks]
        self._gains = self._weights * self.relevance[self._chunks]
        self.unit = float(self._weights.mean()) if normalize and self._chunks.size else 1.0
        segment_cost = check_number("segment_cost", segment_cost)
        self._firsts = sorted({0, *self.starts} - {self.weights.size})
        documents = self._documents(f"document_{name}", document_weights)
        with np.errstate(over="ignore"):
            self._costs = segment_cost * np.minimum(documents, self.unit)
        places = np.searchsorted(self._firsts, self._chunks, side="right") - 1
        self._chunk_costs = self._costs[places]
        # The weight between each chunk and the one before, infinite across documents.
        bounds = np.stack([self._chunks[:-1] + 1, self._chunks[1:]], axis=1).ravel()
        between: Floats = np.add.reduceat(self.weights, bounds)[::2] if bounds.size else bounds
        self._gaps = np.full(self._chunks.size, np.inf)
        self._gaps[1:] = np.where(np.diff(self._chunks) > 1, between, 0.0)
        firsts = np.searchsorted(self._chunks, starts)
        self._gaps[firsts[firsts < self._chunks.size]] = np.inf

    def _positive(self, name: str, values: ArrayLike) -> Floats:
        """One number above 0 for each chunk, else a ValueError."""
        array = check_array(name, values)
        if array.shape != self.relevance.shape:
            raise ValueError(
                f"{name} must have one number for each of the {self.relevance.size} chunks; "
                f"got {array.size}"
            )
        if array.min(initial=np.inf) <= 0:
            raise ValueError(f"{name} must be above 0; got {array.min()}")
        return array

    def _documents(self, name: str, weights: ArrayLike | None) -> Floats:
        """The weight of each document."""
        if weights is None:
            return np.add.reduceat(self.weights, self._firsts)
        array = self._positive(name, weights)
        for change in (np.flatnonzero(np.diff(array)) + 1).tolist():
            if change not in self.starts:
                raise ValueError(
                    f"{name} must be the same for all chunks of a document; got "
                    f"{array[change - 1]} and {array[change]} for chunks {change - 1} and {change}"
                )
        return array[self._firsts]

    def cost(self, chunk: int) -> float:
        """What a segment of a chunk's document costs, in the units of the weights."""
        return self._costs.item(bisect_right(self._firsts, chunk) - 1)

    def solve(self, penalty: float) -> list[Bounds]:
        """The segments of the best solution for one penalty, in the order of the text."""
        penalty = max(penalty, _LEAST_PENALTY)
        values = self._gains - penalty * self._weights
        good = np.flatnonzero(values > 0)
        losses = penalty * self._gaps - np.minimum(values, 0.0)
        gaps = np.full(good.size, np.inf)  # to the chunk before, and infinite for the first
        if good.size > 1:
            gaps[1:] = np.add.reduceat(losses[: good[-1] + 1], good[:-1] + 1)
        costs = penalty * self._chunk_costs[good]
        pairs = _dynamic_program(values[good].tolist(), gaps.tolist(), costs.tolist())
        chunks = self._chunks[good].tolist()
        # Where a segment costs nothing, those that touch are not one yet.
        return self.joined((chunks[first], chunks[last] + 1) for first, last in pairs)

    def order(self, budget: float, penalty: float) -> list[tuple[float, int]]:
        """The chunks, with their thresholds, above a penalty, as many as the budget needs."""
        low = self._first_penalty(budget, penalty)
        while True:
            segments = self.solve(low)
            ranked = threshold_penalties(
                segments,
                self.relevance,
                self.weights,
                costs=[self.cost(start) for start, _ in segments],
                unit=self.unit,
            )
            if low > penalty:
                # Rounding may have left out others with a threshold of just this penalty.
                ranked = [pair for pair in ranked if pair[0] > low * (1 + _ROUNDING)]
            if low <= penalty or self._total(chunk for _, chunk in ranked) > budget:
                break
            low = max(penalty, low / 2)
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

    def _first_penalty(self, budget: float, penalty: float) -> float:
        """A penalty whose solution is likely to be longer than the budget, but not by much."""
        # It has at least the chunks that are worth their text and a segment of their own.
        alone = self._gains / (self._weights + self._chunk_costs)
        order = np.argsort(-alone)
        # One more, since chunks whose threshold is this very penalty are left out.
        beyond = np.searchsorted(np.cumsum(self._weights[order]), budget, side="right") + 1
        return max(float(alone[order[beyond]]), penalty) if beyond < order.size else penalty

    def _densest_first(self, chunks: set[int], taken: set[int]) -> list[int]:
        """Take chunks of equal threshold, the one that adds most for its cost first."""

        def density(chunk: int) -> float:
            weight: float = self.weights.item(chunk)
            gain: float = weight * self.relevance.item(chunk)
            cost = weight + (1 - self.neighbors(chunk, taken)) * self.cost(chunk)
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

    def joined(self, segments: Iterable[Bounds]) -> list[Bounds]:
        """Segments in the order of the text; those that touch within a document become one."""
        joined: list[Bounds] = []
        for start, end in segments:
            touches = joined and joined[-1][1] == start and start not in self.starts
            joined.append((joined.pop()[0] if touches else start, end))
        return joined

    def neighbors(self, chunk: int, chunks: Collection[int]) -> int:
        """How many of the two chunks beside a chunk in its document are among others."""
        before = chunk - 1 in chunks and chunk not in self.starts
        return before + (chunk + 1 in chunks and chunk + 1 not in self.starts)

    def extended(self, start: int, end: int, chunks: Collection[int]) -> Bounds:
        """``[start, end)`` with those of some chunks that adjoin it in the document."""
        while start - 1 in chunks and start not in self.starts:
            start -= 1
        while end in chunks and end not in self.starts:
            end += 1
        return start, end

    def value_of(self, start: int, end: int, penalty: float) -> float:
        """What a segment is worth at a penalty."""
        weight, relevance = self.weights.item, self.relevance.item
        # Faster than numpy, since most segments are short.
        value = sum(weight(chunk) * (relevance(chunk) - penalty) for chunk in range(start, end))
        return (value - penalty * self.cost(start)) / self.unit

    def best_first(self, segments: Iterable[Bounds], penalty: float) -> list[Segment]:
        """Segments with their values at a penalty."""
        valued = [Segment(*bounds, self.value_of(*bounds, penalty)) for bounds in segments]
        return sorted(valued, key=lambda segment: (-segment.value, segment.start))

    def _total(self, chunks: Iterable[int]) -> float:
        return sum(map(self.weights.item, chunks))


def _dynamic_program(
    values: Sequence[float], gaps: Sequence[float], costs: Sequence[float]
) -> list[Bounds]:
    """The first and last chunk of each best segment; ``costs`` are of a segment at each chunk."""
    # Of the best values in the two states, only the difference is kept: how much better it is to
    # be outside of a segment than in one that reaches the last chunk.
    outside = np.inf
    bridges, ends = [], []
    for value, gap, cost in zip(values, gaps, costs, strict=True):
        bridge = gap < cost - outside
        outside = (outside + gap if bridge else cost) - value
        bridges.append(bridge)  # the best segment that reaches this chunk has the one before
        ends.append(outside < 0)  # and it is better than none
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
