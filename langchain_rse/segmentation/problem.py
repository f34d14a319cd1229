"""Which chunks of positive relevance belong together: dynamic programs and a taut string."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from langchain_rse.segmentation.chains import (
    Run,
    digits_of,
    in_parts,
    join,
    join_capped,
    whole_numbers,
)
from langchain_rse.segmentation.inputs import (
    Floats,
    Segment,
    checked_values,
    finite_number,
    limits_of,
)
from langchain_rse.segmentation.strings import entry_penalties

__all__ = ["Problem", "Run"]

# Stands for a penalty of 0: so small that it decides ties only.
_HARDLY_ANY = 1e-200
# Relative differences below this are taken for rounding.
_NOISE = 1e-10


class Problem:
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
        edge_costs: ArrayLike | None = None,
        normalize: bool = False,
    ) -> None:
        self.relevance = checked_values(relevance, dimensions=(1,), name="relevance")
        self.weights = checked_values(weights, dimensions=(1,), name=name_of_weights)
        if self.weights.shape != self.relevance.shape:
            raise ValueError(
                f"{name_of_weights} must have one number for each of the {self.relevance.size} "
                f"chunks; got {self.weights.size}"
            )
        lightest = float(self.weights.min(initial=np.inf))
        if lightest <= 0:
            raise ValueError(f"{name_of_weights} must be above 0; got {lightest}")
        self.segment_cost = finite_number("segment_cost", segment_cost)
        least = float(self.relevance.min(initial=0.0))
        if normalize and least < 0:
            raise ValueError(f"relevance must be at least 0; got {least}")
        limits = limits_of(boundaries, self.relevance.size)
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
        self._edges = None if edge_costs is None else self._checked_edges(edge_costs)
        # Shape (relevant chunks,): those that are cheaper to begin or end on than others may be
        # worth taking for that alone.
        self._cheaper: NDArray[np.bool_] | None = None
        if self._edges is not None:
            edges = self._edges[self._places]
            self._cheaper = (edges < edges.max(axis=0, initial=0.0)).any(axis=1)

    @property
    def edges_are_alike(self) -> bool:
        """Whether a segment costs the same wherever it begins and ends."""
        return self._edges is None

    def _checked_edges(self, edge_costs: ArrayLike) -> Floats:
        if not self.relevance.size:
            edge_costs = np.empty((0, 2))
        edges = checked_values(edge_costs, dimensions=(2,), name="edge_costs")
        if edges.shape != (self.relevance.size, 2):
            raise ValueError(
                f"edge_costs must have two numbers for each of the {self.relevance.size} chunks; "
                f"got shape {edges.shape}"
            )
        least = float(edges.min(initial=0.0))
        if least < 0:
            raise ValueError(f"edge_costs must be at least 0; got {least}")
        return edges

    def _between(self, amounts: Floats) -> Floats:
        """The sum of the amounts between each relevant chunk and the one before."""
        sums = np.zeros(self._places.size)
        if self._places.size > 1:
            edges = np.stack([self._places[:-1] + 1, self._places[1:]], axis=1).ravel()
            # Where nothing lies between, reduceat returns the element itself.
            sums[1:] = np.add.reduceat(amounts, edges)[::2]
            sums[self._touches] = 0.0
        return sums

    def solve(self, penalty: float, cap: int | None) -> list[Run]:
        """The runs of the best solution, in the order of the text."""
        if cap is None and self._signed:
            # Only this way decides ties right where a gap may be worth less than nothing.
            cap = self.relevance.size
        if cap is None:
            penalty = max(penalty, _HARDLY_ANY)
        values = self._worth - penalty * self._weight
        is_good = values > 0
        if not is_good.any():
            return []
        worth = values[is_good].sum()
        if self._cheaper is not None:
            is_good |= self._cheaper
        good = np.flatnonzero(is_good)
        # Joining a good chunk to the one before costs what lies between.
        losses = np.where(is_good, 0.0, -values) - self._gap_worth
        losses += np.where(self._apart, np.inf, penalty * self._gap_weight)
        links = _summed(losses, good)
        opens, closes = self._edge_amounts(penalty * self.segment_cost, self._places[good])
        if cap is None:
            touches = self._touches[good]
            touches[1:] &= good[1:] == good[:-1] + 1
            lists = (a.tolist() for a in (values[good], links, touches, opens, closes))
            pairs = join(*lists)
        else:
            gaps = _summed(np.where(is_good, 0.0, self._weight) + self._gap_weight, good)
            weight = self._weight.sum() + self._gap_weight.sum()
            chunks = zip(
                in_parts(values[good], worth),
                in_parts(self._weight[good], weight),
                in_parts(links, worth),
                in_parts(gaps, weight),
                self._places[good].tolist(),
                (links == np.inf).tolist(),
                strict=True,
            )
            open_sizes, close_sizes = self._edge_amounts(self.segment_cost, self._places[good])
            pairs = join_capped(
                list(chunks),
                list(zip(in_parts(opens, worth), in_parts(open_sizes, weight), strict=True)),
                list(zip(in_parts(closes, worth), in_parts(close_sizes, weight), strict=True)),
                cap,
            )
        at = self._places[good].tolist()
        return [(at[first], at[last] + 1) for first, last in pairs]

    def _edge_amounts(self, cost: float, chunks: NDArray[np.intp]) -> tuple[Floats, Floats]:
        """What of the cost of a segment is paid where it begins and ends on each of some chunks."""
        if self._edges is None:
            return np.full(chunks.size, cost), np.zeros(chunks.size)
        amounts = self._edges[chunks] * (cost / 2)
        return amounts[:, 0], amounts[:, 1]

    def _cost_of(self, start: int, end: int) -> float:
        """What a segment costs beyond its chunks."""
        if self._edges is None:
            return self.segment_cost
        sides: float = self._edges.item(start, 0) + self._edges.item(end - 1, 1)
        return self.segment_cost * sides / 2

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
        opens, closes = self._edge_amounts(self.segment_cost, self._places)
        alone = self._worth / (self._weight + (opens + closes))
        order = np.argsort(-alone)
        # One more, since what enters at the very threshold is not looked at.
        beyond = int(np.searchsorted(np.cumsum(self._weight[order]), budget, side="right")) + 1
        if beyond >= order.size:
            return penalty
        return max(alone.item(order[beyond]), penalty)

    def _entries(self, runs: Sequence[Run]) -> list[tuple[float, int]]:
        """For each chunk of runs, the penalty below which it is in the solution, and the chunk.

        Read off the taut string between the curve of added-up relevance over added-up weight
        shifted by half a segment's cost to the left, and the same shifted to the right: its
        slope is the penalty. In whole numbers, so that what it is does not depend on where a
        sum began, and with that on the budget.
        """
        chunks = _chunks(runs)
        weight = self.weights[chunks]
        digits = digits_of(self.unit)
        weights = whole_numbers(weight, digits)
        relevance = self.relevance[chunks]
        # However faintly relevant, a chunk is not a gap.
        least = np.where(relevance > 0, math.ldexp(1.0, -digits), 0.0)
        worths = whole_numbers(np.maximum(weight * relevance, least), digits)
        # A cost beyond this keeps segments out as well as any.
        cost = round(math.ldexp(min(self.segment_cost, 2.0**60 * self.unit), digits))
        opens = closes = [cost] * len(chunks)
        if self._edges is not None:
            sides = self._edges[chunks].T.tolist()
            opens, closes = ([round(cost * share) for share in side] for side in sides)
        entries: list[float] = []
        first = 0
        for start, end in runs:
            last = first + end - start
            entries += entry_penalties(
                weights[first:last], worths[first:last], opens[first:last], closes[first:last]
            )
            first = last
        return list(zip(entries, chunks, strict=True))

    def _by_density(self, chunks: Iterable[int], taken: set[int]) -> list[int]:
        """Chunks that enter together, the one that adds most for its cost first; all get taken."""
        waiting = set(chunks)
        starts, weight_of, relevance_of = self.starts, self.weights.item, self.relevance.item

        def density(chunk: int) -> float:
            before = chunk - 1 in taken and chunk not in starts
            after = chunk + 1 in taken and chunk + 1 not in starts
            weight = weight_of(chunk)
            worth: float = weight * relevance_of(chunk)
            if self._edges is None:
                cost = weight + (1 - before - after) * self.segment_cost
            elif worth == 0 and not (before and after):
                return 0.0  # not even where an end behind it costs less
            else:
                edge = self._edges.item
                sides = -edge(chunk - 1, 1) if before else edge(chunk, 0)
                sides += -edge(chunk + 1, 0) if after else edge(chunk, 1)
                cost = weight + sides / 2 * self.segment_cost
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
        inside: list[Run] = []
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

    def _sums(self, runs: Sequence[Run]) -> tuple[float, float]:
        """Relevance and cost of a solution."""
        chunks = _chunks(runs)
        worth = float((self.weights[chunks] * self.relevance[chunks]).sum())
        return worth, self._size(chunks) + sum(self._cost_of(*run) for run in runs)

    def _size(self, chunks: Iterable[int]) -> float:
        return sum(map(self.weights.item, chunks))

    def runs(self, chunks: Iterable[int], cap: int | None) -> list[Run]:
        """The runs that chunks form; those longer than the cap are cut.

        They are cut evenly, or where that costs least.
        """
        runs: list[Run] = []
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
            if self._edges is not None and count > 1:
                cuts = self._cheapest_cuts(start, end, cap)
            pieces += list(itertools.pairwise(cuts))
        return pieces

    def _cheapest_cuts(self, start: int, end: int, cap: int) -> list[int]:
        """Where a run is best cut into pieces of at most so many chunks, its ends included."""
        # What it takes up to each place: pieces with irrelevant ends, cost, pieces; from where.
        best: dict[int, tuple[tuple[int, float, int], int]] = {start: ((0, 0.0, 0), start)}
        for place in range(start + 1, end + 1):
            best[place] = min(
                (
                    (
                        bare + (self.relevance[before] <= 0) + (self.relevance[place - 1] <= 0),
                        cost + self._cost_of(before, place),
                        count + 1,
                    ),
                    before,
                )
                for before in range(max(start, place - cap), place)
                for (bare, cost, count), _ in (best[before],)
            )
        cuts = [end]
        while cuts[-1] != start:
            cuts.append(best[cuts[-1]][1])
        return cuts[::-1]

    def value_of(self, start: int, end: int, penalty: float) -> float:
        """What a run is worth as a segment at a penalty."""
        weight, relevance = self.weights.item, self.relevance.item
        # Faster than numpy, since most segments are short.
        worth = sum(weight(chunk) * (relevance(chunk) - penalty) for chunk in range(start, end))
        return (worth - penalty * self._cost_of(start, end)) / self.unit

    def best_first(self, runs: Iterable[Run], penalty: float) -> list[Segment]:
        """The runs as segments with their values at a penalty."""
        found = [Segment(*run, self.value_of(*run, penalty)) for run in runs]
        return sorted(found, key=lambda segment: (-segment.value, segment.start))


def _summed(amounts: Floats, at: NDArray[np.intp]) -> Floats:
    """Sums of the amounts after each of some places up to the next; infinite for the first."""
    sums = np.full(at.size, np.inf)
    if at.size > 1:
        sums[1:] = np.add.reduceat(amounts[: at[-1] + 1], at[:-1] + 1)
    return sums


def _chunks(runs: Iterable[Run]) -> list[int]:
    return [chunk for start, end in runs for chunk in range(start, end)]
