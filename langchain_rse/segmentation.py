"""The solvers: from the values of chunks to the best runs of neighboring chunks.

Everything here works on plain arrays, one value a chunk, in the order of the text,
the chunks of several documents one document after the other. A value is what a chunk
is worth in a segment: positive where it is relevant, negative where it only costs room.

Sources of the algorithms: the greedy search is dsRAG's (``dsrag.rse.get_best_segments``);
the best single segment is the maximum subarray problem (Kadane, in Bentley, "Programming
Pearls", 1984). The exact solver is a two-state dynamic program. What a growing budget adds
is read off a taut string (Davies and Kovac, "Local Extremes, Runs, Strings and
Multiresolution", 2001), the solution for all penalties at once.
"""

from __future__ import annotations

import heapq
import itertools
import math
import operator
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "Ranking",
    "Segment",
    "best_segment",
    "rank_chunks",
    "solve_budget",
    "solve_exact",
    "solve_greedy",
]

Floats = NDArray[np.float64]

# Elements of the largest table that is built at once: bounds memory on long inputs.
_TABLE_ELEMENTS = 1 << 20
# Stands for a penalty of 0: so small that it decides ties only.
_HARDLY_ANY = 1e-200
# How many binary digits amounts have in whole numbers.
_FINE = 50
# Relative differences below this are taken for rounding.
_NOISE = 1e-10


class Segment(NamedTuple):
    """A run of neighboring chunks.

    Attributes:
        start: Index of the first chunk.
        end: Index after the last chunk.
        value: Sum of the chunks' values, less the cost of a segment where there is one.
    """

    start: int
    end: int
    value: float


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

    The result equals plain search over all pairs of start and end, with each sum added
    up from left to right. Apart from one look at ``values``, the cost depends on the
    number of chunks that are not negative, not on the number of chunks.

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
    table = _checked_values(values, dimensions=(1, 2))
    max_length = _whole_number("max_length", max_length, least=1)
    room = _whole_number("overall_max_length", overall_max_length, least=0)
    if np.isnan(minimum_value):
        raise ValueError("minimum_value is nan; give a number, for example 0.5")
    limits = _limits(boundaries, table.shape[-1])

    length = min(max_length, room)
    searches = [_Search(row, limits, length, minimum_value) for row in np.atleast_2d(table)]
    chosen: list[Segment] = []
    taken = _Taken()
    turn = 0
    while searches and room > 0:
        turn %= len(searches)
        segment = searches[turn].best(taken, min(max_length, room))
        if segment is None:
            # What does not fit now never will: the room only shrinks.
            del searches[turn]
            continue
        chosen.append(segment)
        taken.add(segment.start, segment.end)
        room -= segment.end - segment.start
        turn += 1
    return chosen


def best_segment(values: ArrayLike, *, max_length: int | None = None) -> Segment | None:
    """Find the one segment of the highest sum, if it is positive.

    Equal sums: the earlier start wins, then the shorter segment.

    Args:
        values: Shape ``(chunks,)``, the chunks of one document.
        max_length: The most chunks the segment may have, at least 1; None for no limit.

    Returns:
        The segment, or None when no segment is worth more than zero.

    Raises:
        ValueError: If ``max_length`` is below 1, or a value is not finite.

    Example:
        >>> best_segment([-0.2, -0.2, 0.4, 0.8, -0.1])
        Segment(start=2, end=4, value=1.2000000000000002)
    """
    table = _checked_values(values, dimensions=(1,))
    if max_length is not None:
        max_length = _whole_number("max_length", max_length, least=1)
    if max_length is None or max_length >= table.size:
        return _best_unbounded(table)
    search = _Search(table, _limits((), table.size), max_length, minimum_value=0.0)
    best = search.best(_Taken(), max_length)
    return best if best is not None and best.value > 0 else None


def _best_unbounded(values: Floats) -> Segment | None:
    best: Segment | None = None
    start, running = 0, 0.0
    for index, value in enumerate(values.tolist()):
        if running < 0:
            start, running = index, 0.0
        running += value
        if running > (best.value if best else 0.0):
            best = Segment(start, index + 1, running)
    return best


def solve_exact(
    relevance: ArrayLike,
    *,
    penalty: float,
    weights: ArrayLike | None = None,
    segment_cost: float = 0.25,
    max_length: int | None = None,
    boundaries: Sequence[int] = (),
) -> list[Segment]:
    """Choose the segments that are worth most together, exactly.

    Maximizes, over all sets of disjoint segments,
    ``sum(w_i * (r_i - penalty) for i in segment) - segment_cost * penalty``, summed over the
    segments. Of equal solutions, the one with less text and fewer segments is taken, so that a
    penalty of 0 chooses all chunks of positive relevance and no other, except in gaps that
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
    problem = _Problem(relevance, weights, "weights", segment_cost, boundaries)
    penalty = _finite_number("penalty", penalty)
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
    problem = _Problem(relevance, lengths, "lengths", segment_cost, boundaries, normalize=True)
    budget = _finite_number("budget", budget)
    penalty = _finite_number("penalty", penalty)
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
        self, chunks: list[int], problem: _Problem, penalty: float, cap: int | None
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
        taken, waiting = _Runs(self._problem.starts), _Runs(self._problem.starts)
        for chunk in chunks:
            run = waiting.add(chunk, chunk + 1)
            segment = taken.joined(*run)
            if self._problem.value_of(*segment, self._penalty) >= minimum_value:
                waiting.remove(*run)
                taken.add(*run)
                steps.append(run)
        return steps

    def segments(self, chunks: Iterable[int]) -> list[Segment]:
        """The segments that some of the chunks form, best first."""
        return self._problem.best_first(self._problem.runs(chunks, self._cap), self._penalty)


_Run = tuple[int, int]
"""The first chunk of a run, and the one after its last."""


class _Runs:
    """Runs of chunks that grow together where they meet, but not across starts of documents."""

    def __init__(self, starts: frozenset[int]) -> None:
        self._starts = starts
        self._end_of: dict[int, int] = {}
        self._start_of: dict[int, int] = {}

    def joined(self, start: int, end: int) -> _Run:
        """A run that is none of these, with those that it touches."""
        if start not in self._starts:
            start = self._start_of.get(start, start)
        if end not in self._starts:
            end = self._end_of.get(end, end)
        return start, end

    def add(self, start: int, end: int) -> _Run:
        """Add a run; returns it with those that it touches."""
        start, end = self.joined(start, end)
        self._end_of[start] = end
        self._start_of[end] = start
        return start, end

    def remove(self, start: int, end: int) -> None:
        """Remove a whole run."""
        del self._end_of[start], self._start_of[end]


class _Problem:
    """Chunks with positive relevance, and what lies between them.

    The others are never looked at one by one, so the cost of solving follows the number of
    those.
    """

    def __init__(
        self,
        relevance: ArrayLike,
        weights: ArrayLike,
        name_of_weights: str,
        segment_cost: float,
        boundaries: Sequence[int],
        *,
        normalize: bool = False,
    ) -> None:
        self.relevance = _checked_values(relevance, dimensions=(1,), name="relevance")
        self.weights = _checked_values(weights, dimensions=(1,), name=name_of_weights)
        if self.weights.shape != self.relevance.shape:
            raise ValueError(
                f"{name_of_weights} must have one number for each of the {self.relevance.size} "
                f"chunks; got {self.weights.size}"
            )
        lightest = float(self.weights.min(initial=np.inf))
        if lightest <= 0:
            raise ValueError(f"{name_of_weights} must be above 0; got {lightest}")
        self.segment_cost = _finite_number("segment_cost", segment_cost)
        least = float(self.relevance.min(initial=0.0))
        if normalize and least < 0:
            raise ValueError(f"relevance must be at least 0; got {least}")
        limits = _limits(boundaries, self.relevance.size)
        self.starts = frozenset(limits.tolist())
        self._places = np.flatnonzero(self.relevance > 0)
        weight = self.weights[self._places]
        # Dividing all weights by their mean is multiplying the cost of a segment by it.
        self.unit = float(weight.mean()) if normalize and weight.size else 1.0
        self.segment_cost *= self.unit
        self._weight = weight
        self._relevance = self.relevance[self._places]
        self._worth = weight * self._relevance
        self._touches = np.zeros(weight.size, dtype=bool)
        self._touches[1:] = self._places[1:] == self._places[:-1] + 1
        # What lies between a chunk and the relevant one before it; those in another document
        # are apart whatever lies between.
        self._gap_weight = self._between(self.weights)
        self._signed = least < 0
        self._gap_worth = self._between(self.weights * self.relevance) if self._signed else 0.0
        self._apart = np.zeros(weight.size, dtype=bool)
        firsts = np.searchsorted(self._places, limits[:-1])
        self._apart[firsts[firsts < weight.size]] = True
        self._apart[:1] = True
        self._touches[self._apart] = False

    def _between(self, amounts: Floats) -> Floats:
        """The sum of the amounts between each relevant chunk and the one before."""
        sums = np.zeros(self._places.size)
        if self._places.size > 1:
            edges = np.stack([self._places[:-1] + 1, self._places[1:]], axis=1).ravel()
            # Where nothing lies between, reduceat returns the element itself.
            sums[1:] = np.add.reduceat(amounts, edges)[::2]
            sums[self._touches] = 0.0
        return sums

    def solve(self, penalty: float, cap: int | None) -> list[_Run]:
        """The runs of the best solution, in the order of the text."""
        if cap is None and self._signed:
            # Only this way decides ties right where a gap may be worth less than nothing.
            cap = self.relevance.size
        if cap is None:
            penalty = max(penalty, _HARDLY_ANY)
        values = self._worth - penalty * self._weight
        good = np.flatnonzero(values > 0)
        if not good.size:
            return []
        # Joining a good chunk to the one before costs what lies between.
        losses = np.maximum(-values, 0.0) - self._gap_worth
        losses += np.where(self._apart, np.inf, penalty * self._gap_weight)
        links = _summed(losses, good)
        seg = penalty * self.segment_cost
        if cap is None:
            touches = self._touches[good]
            touches[1:] &= good[1:] == good[:-1] + 1
            pairs = _join(values[good].tolist(), links.tolist(), touches.tolist(), seg)
        else:
            gaps = _summed(np.where(values > 0, 0.0, self._weight) + self._gap_weight, good)
            worth, weight = values[good].sum(), self._weight.sum() + self._gap_weight.sum()
            chunks = zip(
                _in_parts(values[good], worth),
                _in_parts(self._weight[good], weight),
                _in_parts(links, worth),
                _in_parts(gaps, weight),
                self._places[good].tolist(),
                (links == np.inf).tolist(),
                strict=True,
            )
            (seg_parts,) = _in_parts(np.array([seg]), worth)
            (cost_parts,) = _in_parts(np.array([self.segment_cost]), weight)
            pairs = _join_capped(list(chunks), seg_parts, cost_parts, cap)
        at = self._places[good].tolist()
        return [(at[first], at[last] + 1) for first, last in pairs]

    def rank(self, budget: float, penalty: float) -> list[int]:
        """Chunks by the penalty at which they enter the solution, the highest first.

        Solutions for falling penalties are nested: the objective is supermodular in the set
        of chunks, since joining two runs saves the cost of a segment.
        """
        threshold = self._first_threshold(budget, penalty)
        while True:
            runs = self.solve(threshold, None)
            entering = self._entries(runs)
            if threshold > penalty:
                # What enters right at the threshold may be known in part only.
                entering = [pair for pair in entering if pair[0] > threshold * (1 + _NOISE)]
            else:
                solution = set(_chunks(runs))
                entering = [pair for pair in entering if pair[1] in solution]
            if threshold <= penalty or self._size(chunk for _, chunk in entering) > budget:
                break
            threshold = max(penalty, threshold / 2)
        entering.sort(reverse=True)
        order: list[int] = []
        taken: set[int] = set()
        room = budget * (1 + _NOISE)
        last = 0
        while last < len(entering) and room >= 0:
            first, (penalty, chunk) = last, entering[last]
            while last < len(entering) and entering[last][0] == penalty:
                last += 1
            if last - first == 1:  # as most do, and then there is nothing to put in order
                added = [chunk]
                taken.add(chunk)
            else:
                added = self._by_density([chunk for _, chunk in entering[first:last]], taken)
            order += added
            room -= self._size(added)
        return order

    def _first_threshold(self, budget: float, penalty: float) -> float:
        """A penalty whose solution is longer than the budget, if any is.

        What is worth its text and a segment of its own is in the solution, whatever else is.
        """
        alone = self._worth / (self._weight + self.segment_cost)
        order = np.argsort(-alone)
        # One more, since what enters at the very threshold is not looked at.
        beyond = int(np.searchsorted(np.cumsum(self._weight[order]), budget, side="right")) + 1
        if beyond >= order.size:
            return penalty
        return max(alone.item(order[beyond]), penalty)

    def _entries(self, runs: Sequence[_Run]) -> list[tuple[float, int]]:
        """For each chunk of runs, the penalty below which it is in the solution, and the chunk.

        Read off the taut string between the curve of added-up relevance over added-up weight
        shifted by half a segment's cost to the left, and the same shifted to the right: its
        slope is the penalty. In whole numbers, so that what it is does not depend on where a
        sum began, and with that on the budget.
        """
        chunks = _chunks(runs)
        weight = self.weights[chunks]
        digits = _digits(self.unit)
        weights = _whole_numbers(weight, digits)
        worths = _whole_numbers(weight * self.relevance[chunks], digits)
        # A cost beyond this keeps segments out as well as any.
        cost = round(math.ldexp(min(self.segment_cost, 2.0**60 * self.unit), digits))
        entries: list[float] = []
        first = 0
        for start, end in runs:
            last = first + end - start
            entries += _enter(weights[first:last], worths[first:last], cost)
            first = last
        return list(zip(entries, chunks, strict=True))

    def _by_density(self, chunks: Iterable[int], taken: set[int]) -> list[int]:
        """Chunks that enter together, the one that adds most for its cost first; all get taken."""
        waiting = set(chunks)
        starts, weight_of, relevance_of = self.starts, self.weights.item, self.relevance.item

        def density(chunk: int) -> float:
            sides = (chunk - 1 in taken and chunk not in starts) + (
                chunk + 1 in taken and chunk + 1 not in starts
            )
            weight = weight_of(chunk)
            worth: float = weight * relevance_of(chunk)
            cost = weight + (1 - sides) * self.segment_cost
            if cost > 0:
                return worth / cost
            return np.inf if cost < 0 or worth > 0 else 0.0

        heap = [(-density(chunk), chunk) for chunk in waiting]
        heapq.heapify(heap)
        order: list[int] = []
        while waiting:
            key, chunk = heapq.heappop(heap)
            if chunk not in waiting or -density(chunk) != key:
                continue
            waiting.remove(chunk)
            taken.add(chunk)
            order.append(chunk)
            for neighbor in (chunk - 1, chunk + 1):
                if neighbor in waiting:
                    heapq.heappush(heap, (-density(neighbor), neighbor))
        return order

    def rank_capped(self, budget: float, penalty: float, cap: int) -> list[int]:
        """Like `rank`, where segments have at most so many chunks; not nested then."""
        inside: list[_Run] = []
        outside = self.solve(penalty, cap)
        low, high = self._sums(inside), self._sums(outside)
        room = budget * (1 + _NOISE)
        while self._size(_chunks(outside)) > room and high[1] > low[1]:
            # The penalty at which both are worth the same; a better one lies between, or none.
            middle = (high[0] - low[0]) / (high[1] - low[1])
            runs = self.solve(middle, cap)
            sums = self._sums(runs)
            gain = (sums[0] - middle * sums[1]) - (low[0] - middle * low[1])
            if middle <= penalty or gain <= 1e-12 * abs(high[0]):
                break
            if self._size(_chunks(runs)) > room:
                outside, high = runs, sums
            else:
                inside, low = runs, sums
        taken: set[int] = set()
        order = self._by_density(_chunks(inside), taken)
        return order + self._by_density(set(_chunks(outside)) - taken, taken)

    def _sums(self, runs: Sequence[_Run]) -> tuple[float, float]:
        """Relevance and cost of a solution."""
        chunks = _chunks(runs)
        worth = float((self.weights[chunks] * self.relevance[chunks]).sum())
        return worth, self._size(chunks) + self.segment_cost * len(runs)

    def _size(self, chunks: Iterable[int]) -> float:
        return sum(map(self.weights.item, chunks))

    def runs(self, chunks: Iterable[int], cap: int | None) -> list[_Run]:
        """The runs that chunks form; those longer than the cap are cut evenly."""
        runs: list[_Run] = []
        for chunk in sorted(chunks):
            if runs and runs[-1][1] == chunk and chunk not in self.starts:
                runs[-1] = runs[-1][0], chunk + 1
            else:
                runs.append((chunk, chunk + 1))
        if cap is None:
            return runs
        pieces = []
        for start, end in runs:
            count = -(-(end - start) // cap)
            cuts = [start + (end - start) * number // count for number in range(count + 1)]
            pieces += list(itertools.pairwise(cuts))
        return pieces

    def value_of(self, start: int, end: int, penalty: float) -> float:
        """What a run is worth as a segment at a penalty."""
        weight, relevance = self.weights.item, self.relevance.item
        # Faster than numpy, since most segments are short.
        worth = sum(weight(chunk) * (relevance(chunk) - penalty) for chunk in range(start, end))
        return (worth - penalty * self.segment_cost) / self.unit

    def best_first(self, runs: Iterable[_Run], penalty: float) -> list[Segment]:
        """The runs as segments with their values at a penalty."""
        found = [Segment(*run, self.value_of(*run, penalty)) for run in runs]
        return sorted(found, key=lambda segment: (-segment.value, segment.start))


def _summed(amounts: Floats, at: NDArray[np.intp]) -> Floats:
    """Sums of the amounts after each of some places up to the next; infinite for the first."""
    sums = np.full(at.size, np.inf)
    if at.size > 1:
        sums[1:] = np.add.reduceat(amounts[: at[-1] + 1], at[:-1] + 1)
    return sums


def _chunks(runs: Iterable[_Run]) -> list[int]:
    return [chunk for start, end in runs for chunk in range(start, end)]


def _join(
    values: Sequence[float], links: Sequence[float], touches: Sequence[bool], seg: float
) -> list[_Run]:
    """Which chunks are the first and last of a segment, by dynamic programming.

    Of the two states, in a segment or out of one, only the difference of their worth is
    kept: how much better it would be to be out.

    Args:
        values: What the chunks are worth, each above 0.
        links: What it costs to join each to the one before.
        touches: Whether it touches the one before.
        seg: What a segment costs.
    """
    lead = np.inf
    joined, taken = [], []
    for value, link, touch in zip(values, links, touches, strict=True):
        join = link < seg - lead or (touch and lead == 0)
        lead = (lead + link if join else seg) - value
        joined.append(join)
        taken.append(lead < 0)
        lead = max(lead, 0.0)
    pairs = []
    last = len(values) - 1
    while last >= 0:
        if not taken[last]:
            last -= 1
            continue
        first = last
        while joined[first]:
            first -= 1
        pairs.append((first, last))
        last = first - 1
    return pairs[::-1]


def _digits(whole: float) -> int:
    """By which power of two amounts of the size of ``whole`` become fine whole numbers.

    A power of two, so that amounts that are the same stay the same.
    """
    return _FINE - math.frexp(whole)[1]


def _in_parts(amounts: Floats, whole: float) -> list[int]:
    """Amounts in such small parts of a whole that they can be added without rounding."""
    return _whole_numbers(np.minimum(amounts, 4 * whole), _digits(whole))


def _join_capped(
    chunks: Sequence[tuple[int, int, int, int, int, bool]], seg: int, cost: int, cap: int
) -> list[_Run]:
    """Like `_join`, for segments of at most ``cap`` chunks; a sliding-window maximum.

    Args:
        chunks: For each, what it is worth, what it weighs, what it costs to join it to the
            one before, what lies between them weighs, its place, and whether it begins a
            document.
        seg: What a segment costs.
        cost: What a segment weighs.
        cap: The most chunks of a segment.
    """
    places = [place for *_, place, _ in chunks]
    # Worth first; then text and segments, and the number of segments, which only decide ties.
    out = height = (0, 0, 0)
    choice: list[int | None] = []
    window: deque[tuple[tuple[int, int, int], int]] = deque()
    for number, (value, size, link, gap, place, begins) in enumerate(chunks):
        if begins:
            window.clear()
            height = (0, 0, 0)
        else:
            height = (height[0] - link, height[1] - gap, 0)
        entry = (out[0] - seg - height[0], out[1] - cost - height[1], out[2] - 1)
        while window and window[-1][0] < entry:
            window.pop()
        window.append((entry, number))
        height = (height[0] + value, height[1] - size, 0)
        while place - places[window[0][1]] >= cap:
            window.popleft()
        best, first = window[0]
        worth = (best[0] + height[0], best[1] + height[1], best[2])
        choice.append(first if worth > out else None)
        out = max(out, worth)
    pairs = []
    last = len(chunks) - 1
    while last >= 0:
        start = choice[last]
        if start is None:
            last -= 1
            continue
        pairs.append((start, last))
        last = start - 1
    return pairs[::-1]


def _whole_numbers(amounts: Floats, digits: int) -> list[int]:
    return list(map(int, np.rint(np.ldexp(amounts, digits)).tolist()))


def _enter(weights: Sequence[int], worths: Sequence[int], cost: int) -> list[float]:
    """For each chunk of a run, the penalty below which it is in the solution.

    Args:
        weights: What the chunks weigh.
        worths: Their weighted relevance.
        cost: What a segment weighs.
    """
    if len(weights) == 1:
        return [worths[0] / (weights[0] + cost)]
    # Gates that the string passes, one below the other: height, left and right end; twice
    # as wide as they are, so as to be whole.
    x = y = 0
    gates = [(0, -cost, -cost)]
    for weight, worth in zip(weights, worths, strict=True):
        x += 2 * weight
        y += worth
        if worth > 0:
            gates.append((y, x - cost, x + cost))
        else:
            _, _, right = gates.pop()
            gates.append((y, x - cost, right))
    gates[-1] = (y, x + cost, x + cost)
    relevant = iter(_taut_string(gates))
    entry = np.inf
    entries: list[float] = []
    for worth in worths:
        if worth > 0:
            entry = 2 / next(relevant)
            # A gap is closed when both its sides are there.
            for place in range(len(entries) - 1, -1, -1):
                if worths[place] > 0:
                    break
                entries[place] = min(entries[place], entry)
        entries.append(entry)
    return entries


def _taut_string(gates: Sequence[tuple[int, int, int]]) -> list[float]:
    """Slopes, x over y, of the shortest way through gates, one for each step between two.

    Args:
        gates: Height, left and right end of each, from the lowest to the highest. The first
            and the last are points.
    """
    slopes: list[float] = []
    here, (y, x, _) = 0, gates[0]
    end = len(gates) - 1
    while here < end:
        low, high = -np.inf, np.inf
        low_gate = high_gate = here + 1
        for number in range(here + 1, end + 1):
            height, left, right = gates[number]
            rise = height - y
            to_left, to_right = (left - x) / rise, (right - x) / rise
            if to_left > high:
                there, slope, x = high_gate, high, gates[high_gate][2]
                break
            if to_right < low:
                there, slope, x = low_gate, low, gates[low_gate][1]
                break
            if to_left >= low:
                low, low_gate = to_left, number
            if to_right <= high:
                high, high_gate = to_right, number
        else:
            there, slope, x = end, low, gates[end][1]
        slopes += [slope] * (there - here)
        here, y = there, gates[there][0]
    return slopes


def _cap(max_length: int | None) -> int | None:
    return None if max_length is None else _whole_number("max_length", max_length, least=1)


class _Taken:
    """The chunks that are already in a segment."""

    def __init__(self) -> None:
        self._segments: list[tuple[int, int]] = []

    def add(self, start: int, end: int) -> None:
        self._segments.append((start, end))

    def free_until(self, start: int, end: int) -> int:
        """The end of the free run that begins at ``start``, at most ``end``."""
        for taken_start, taken_end in self._segments:
            if taken_start <= start < taken_end:
                return start
            if start < taken_start < end:
                end = taken_start
        return end


class _Search:
    """The best segment of each start, kept in a heap and brought up to date when it matters.

    Taking segments and using up room can only make the other segments worse, so an entry
    that is still valid when it comes to the top is the best of all.
    """

    def __init__(
        self,
        values: Floats,
        limits: NDArray[np.intp],
        max_length: int,
        minimum_value: float,
    ) -> None:
        self._values = values
        self._minimum = minimum_value
        starts = np.flatnonzero(values >= 0)
        # The end of each start's document: the first limit after it.
        self._document_end = dict(
            zip(
                starts.tolist(),
                limits[np.searchsorted(limits, starts, side="right")].tolist(),
                strict=True,
            )
        )
        self._heap: list[tuple[float, int, int]] = []
        for some_starts, sums in _running_sums(values, starts, max_length, limits):
            if not sums.size:
                continue
            best = sums.argmax(axis=1)  # the first of equals: the shortest
            worth = sums[np.arange(len(some_starts)), best]
            keep = worth >= minimum_value
            self._heap += zip(
                (-worth[keep]).tolist(),
                some_starts[keep].tolist(),
                (some_starts + best + 1)[keep].tolist(),
                strict=True,
            )
        heapq.heapify(self._heap)

    def best(self, taken: _Taken, max_length: int) -> Segment | None:
        heap = self._heap
        while heap:
            cost, start, end = heap[0]
            limit = taken.free_until(start, min(start + max_length, self._document_end[start]))
            if end <= limit:
                heapq.heappop(heap)
                return Segment(start, end, -cost)
            entry = self._best_from(start, limit)
            if entry is None:
                heapq.heappop(heap)
            else:
                heapq.heapreplace(heap, entry)
        return None

    def _best_from(self, start: int, limit: int) -> tuple[float, int, int] | None:
        values = self._values[start:limit]
        if not values.size:
            return None
        sums = np.where(values >= 0, _added_up(values), -np.inf)
        best = int(sums.argmax())
        worth = float(sums[best])
        if worth < self._minimum:
            return None
        return -worth, start, start + best + 1


def _running_sums(
    values: Floats,
    starts: NDArray[np.intp],
    max_length: int,
    limits: NDArray[np.intp],
) -> Iterator[tuple[NDArray[np.intp], Floats]]:
    """For blocks of starts, the sums of the segments of 1, 2, ... chunks; -inf where invalid."""
    # No segment reaches past the last chunk that may end one.
    width = min(max_length, int(starts[-1] - starts[0]) + 1) if starts.size else 0
    if not width:
        return
    block = max(1, _TABLE_ELEMENTS // width)
    offsets = np.arange(width)
    for first in range(0, len(starts), block):
        some = starts[first : first + block]
        ends = limits[np.searchsorted(limits, some, side="right")]
        places = some[:, None] + offsets
        inside = places < ends[:, None]
        picked = values[np.minimum(places, values.size - 1)]
        sums = _added_up(picked)
        yield some, np.where(inside & (picked >= 0), sums, -np.inf)


def _added_up(values: Floats) -> Floats:
    # Accumulating adds from left to right, as the definition does, so that ties come out
    # the same. Sums beyond the largest float are infinite, and as good as any other.
    with np.errstate(over="ignore", invalid="ignore"):
        return np.add.accumulate(values, axis=-1)


def _limits(boundaries: Sequence[int], size: int) -> NDArray[np.intp]:
    """Boundaries sorted, with the end of the input as the last."""
    limits = np.asarray(boundaries if len(boundaries) else [], dtype=float)
    if limits.ndim != 1 or not (limits == np.floor(limits)).all():
        raise ValueError(
            f"boundaries must be whole numbers, the starts of documents; got {boundaries!r}"
        )
    if limits.size and (limits.min() < 0 or limits.max() > size):
        raise ValueError(
            f"boundaries must lie between 0 and the number of chunks, {size}; got {boundaries!r}"
        )
    if not (limits[1:] > limits[:-1]).all():
        limits = np.unique(limits)
    return np.concatenate([limits, [size]]).astype(np.intp)


def _checked_values(values: ArrayLike, dimensions: tuple[int, ...], name: str = "values") -> Floats:
    table = np.asarray(values, dtype=np.float64)
    if table.ndim not in dimensions:
        wanted = " or ".join(f"{n}" for n in dimensions)
        raise ValueError(f"{name} must have {wanted} dimension(s); got shape {table.shape}")
    # One sum finds any value that is not finite; the place is looked for only then.
    with np.errstate(over="ignore", invalid="ignore"):
        total = table.sum()
    if not np.isfinite(total):
        finite = np.isfinite(table)
        if not finite.all():
            place = tuple(int(i) for i in np.argwhere(~finite)[0])
            raise ValueError(f"{name} must be finite; got {table[place]} at index {place}")
    return table


def _whole_number(name: str, value: int, *, least: int) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if number < least:
        raise ValueError(f"{name} must be a whole number of at least {least}; got {value!r}")
    return number


def _finite_number(name: str, value: float) -> float:
    try:
        number = np.nan if isinstance(value, (bool, str, bytes)) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = np.nan
    if not (np.isfinite(number) and number >= 0):
        raise ValueError(f"{name} must be a finite number of at least 0; got {value!r}")
    return number
