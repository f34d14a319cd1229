"""The definitions of the algorithms, word for word and slow: what the fast ones must equal."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from langchain_rse.engine import Segment
from langchain_rse.query.lookup import comparable

_ROUNDING = 1e-13


class Optimum(NamedTuple):
    """What the best choice is worth, and the smallest size of one that is worth as much.

    The size is the sum of the weights, and what each segment costs.
    """

    value: float
    size: float


class Range(NamedTuple):
    """Chunks that must be chosen, and chunks that may be."""

    least: frozenset[int]
    most: frozenset[int]


def segment_costs(
    weights: Sequence[Any], segment_cost: Any, boundaries: Sequence[int]
) -> list[Any]:
    """What a segment costs in the document of each chunk: less in one lighter than a chunk."""
    limits = sorted({0, len(weights), *boundaries})
    costs: list[Any] = []
    for start, end in itertools.pairwise(limits):
        costs += [segment_cost * min(1, sum(weights[start:end]))] * (end - start)
    return costs


def every_choice(
    relevance: Sequence[float], boundaries: Sequence[int]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """All sets of chunks whose segments begin and end on relevant ones, and where they begin."""
    count = len(relevance)
    choices: NDArray[np.bool_] = (np.arange(2**count)[:, None] >> np.arange(count)) & 1 == 1
    joined = choices[:, 1:] & choices[:, :-1]
    joined[:, [border - 1 for border in boundaries if 0 < border < count]] = False
    begins, ends = choices.copy(), choices.copy()
    begins[:, 1:] &= ~joined
    ends[:, :-1] &= ~joined
    allowed = ~((begins | ends) & (np.array(relevance) <= 0)).any(axis=1)
    return choices[allowed], begins[allowed]


def exact_by_brute_force(
    relevance: Sequence[float],
    *,
    penalty: float,
    weights: Sequence[float],
    segment_cost: float,
    boundaries: Sequence[int],
) -> Optimum:
    """The best of all sets of chunks."""
    choices, begins = every_choice(relevance, boundaries)
    sizes = begins @ np.array(segment_costs(weights, segment_cost, boundaries), dtype=float)
    values = -penalty * sizes
    for chosen, chunk_relevance, weight in zip(choices.T, relevance, weights, strict=True):
        values += chosen * (weight * (chunk_relevance - penalty))
        sizes += chosen * weight
    best = values.max()
    return Optimum(float(best), float(sizes[values >= best - _ROUNDING].min()))


def exact_by_last_segments(
    relevance: Sequence[float],
    *,
    penalty: float,
    weights: Sequence[float],
    segment_cost: float,
    boundaries: Sequence[int],
) -> Optimum:
    """The best choice of each beginning of the input, by trying all last segments.

    For inputs with too many sets of chunks to look at.
    """
    costs = segment_costs(weights, segment_cost, boundaries)
    best = [(0.0, 0.0)]  # value, and size with its sign turned
    for end in range(1, len(relevance) + 1):
        options = [best[end - 1]]
        value, size = -costs[end - 1] * penalty, costs[end - 1]
        for start in range(end - 1, -1, -1):
            value += weights[start] * (relevance[start] - penalty)
            size += weights[start]
            options.append((best[start][0] + value, best[start][1] - size))
            if start in boundaries:
                break
        best.append(max(options))
    value, size = best[-1]
    return Optimum(value, -size)


def budget_by_brute_force(
    relevance: Sequence[float],
    lengths: Sequence[int],
    *,
    budget: int,
    penalty: float,
    segment_cost: float,
    boundaries: Sequence[int],
) -> Range | None:
    """What the smallest fitting penalty chooses, and what the next smaller one adds to it.

    Computed with fractions, so that ties are ties. None where chunks may be in or out
    without any difference but rounding, so that the solution of some penalty is left open.
    """
    relevant_lengths = [lengths[index] for index in np.flatnonzero(relevance).tolist()]
    if not relevant_lengths:
        return Range(frozenset(), frozenset())
    mean = Fraction(sum(relevant_lengths), len(relevant_lengths))
    weights = [length / mean for length in lengths]
    costs = segment_costs(weights, Fraction(segment_cost), boundaries)
    choices, begins = every_choice(relevance, boundaries)
    members = [frozenset(np.flatnonzero(row).tolist()) for row in choices]
    gains: list[Fraction] = []
    sizes: list[Fraction] = []
    for chunks, begin in zip(members, begins, strict=True):
        gains.append(sum((weights[i] * Fraction(relevance[i]) for i in chunks), Fraction(0)))
        segments = np.flatnonzero(begin)
        cost = sum((costs[index] for index in segments), Fraction(0))
        sizes.append(sum((weights[index] for index in chunks), cost))
    rate = Fraction(penalty)
    while True:
        values = [gain - rate * size for gain, size in zip(gains, sizes, strict=True)]
        best = max(values)
        if any(0 < best - value < _ROUNDING for value in values):
            return None
        ties = [number for number, value in enumerate(values) if value == best]
        smallest = min(sizes[number] for number in ties)
        solutions = [number for number in ties if sizes[number] == smallest]
        if len(solutions) > 1:
            return None
        solution = members[solutions[0]]
        if sum(lengths[index] for index in solution) <= budget:
            return Range(solution, frozenset().union(*(members[number] for number in ties)))
        # The next penalty of interest: where a smaller choice becomes worth as much.
        gain_of_solution = gains[solutions[0]]
        rate = min(
            (gain_of_solution - gain) / (smallest - size)
            for gain, size in zip(gains, sizes, strict=True)
            if size < smallest
        )


def greedy_by_brute_force(
    values: ArrayLike,
    *,
    max_length: int,
    overall_max_length: int,
    minimum_value: float,
    boundaries: Sequence[int] = (),
) -> list[Segment]:
    """Take the most valuable segment again and again, each time looking at all of them.

    A segment starts and ends on values that are not negative, has at most ``max_length``
    chunks, crosses no boundary, overlaps none taken before and keeps the total within
    ``overall_max_length``. Of equal sums, the earlier start wins, then the shorter segment.
    Several queries take turns; one that finds no segment worth ``minimum_value`` is out.
    """
    waiting = deque(np.atleast_2d(np.asarray(values, dtype=float)).tolist())
    room = overall_max_length
    taken: list[Segment] = []
    while waiting:
        row = waiting.popleft()
        best: Segment | None = None
        for start in range(len(row)):
            total = 0.0
            for end in range(start + 1, len(row) + 1):
                total += row[end - 1]
                if (
                    row[start] >= 0
                    and row[end - 1] >= 0
                    and end - start <= max_length
                    and end - start <= room
                    and not any(start < boundary < end for boundary in boundaries)
                    and not any(start < other.end and other.start < end for other in taken)
                    and total >= minimum_value
                    and (best is None or total > best.value)
                ):
                    best = Segment(start, end, total)
        if best is not None:
            taken.append(best)
            room -= best.end - best.start
            waiting.append(row)
    return taken


def best_by_brute_force(
    values: Sequence[float], *, max_length: int | None = None
) -> Segment | None:
    """The segment of the highest sum, if positive; of equal sums the earlier, then the shorter."""
    best: Segment | None = None
    for start in range(len(values)):
        total = 0.0
        for end in range(start + 1, len(values) + 1):
            total += values[end - 1]
            allowed = max_length is None or end - start <= max_length
            if allowed and total > (best.value if best else 0.0):
                best = Segment(start, end, total)
    return best


def copies_by_brute_force(documents: Sequence[Mapping[int, str]]) -> dict[tuple[int, int], int]:
    """Look for the whole text of each chunk in the joined neighbors of all better documents."""
    joined: list[list[str]] = []  # by document
    copies: dict[tuple[int, int], int] = {}
    for number, chunks in enumerate(documents):
        texts = {index: comparable(text) for index, text in chunks.items()}
        for index, text in texts.items():
            originals = [n for n, others in enumerate(joined) if any(text in o for o in others)]
            if originals and len(text) >= 150:
                copies[number, index] = originals[0]
        runs: dict[int, str] = {}  # by what the chunk number and the count of chunks before have
        for count, index in enumerate(sorted(texts)):
            runs[index - count] = runs.get(index - count, "") + texts[index]
        joined.append(list(runs.values()))
    return copies
