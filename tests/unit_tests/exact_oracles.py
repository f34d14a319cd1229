"""The definitions of the exact solvers: all sets of chunks, looked at one by one."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

_ROUNDING = 1e-13


class Optimum(NamedTuple):
    """What the best choice is worth, and the smallest size of one that is worth as much.

    The size is the sum of the weights, and ``segment_cost`` for each segment.
    """

    value: float
    size: float


class Range(NamedTuple):
    """Chunks that must be chosen, and chunks that may be."""

    least: frozenset[int]
    most: frozenset[int]


def every_choice(count: int) -> NDArray[np.bool_]:
    """All sets of chunks, one a row."""
    choices: NDArray[np.bool_] = (np.arange(2**count)[:, None] >> np.arange(count)) & 1 == 1
    return choices


def segments_needed(
    choices: NDArray[np.bool_], *, max_length: int | None, boundaries: Sequence[int]
) -> NDArray[np.intp]:
    """The fewest segments that hold each row's chunks and no other."""
    count = choices.shape[1]
    needed = np.zeros(len(choices), dtype=np.intp)
    run = np.zeros(len(choices), dtype=np.intp)
    for index in range(count):
        if index in boundaries:
            run[:] = 0
        run = np.where(choices[:, index], run + 1, 0)
        # A chunk opens a segment where none is open, or where the open one is full.
        needed += (run > 0) & ((run - 1) % (max_length or count) == 0)
    return needed


def edges_paid(
    choices: NDArray[np.bool_],
    relevance: Sequence[float],
    *,
    boundaries: Sequence[int],
    edge_costs: Sequence[tuple[float, float]] | None,
) -> NDArray[np.float64]:
    """How many segment costs each row pays; infinitely many where one ends on what is not relevant.

    A row's segments are its runs, so there is no longest one here.
    """
    paid = np.zeros(len(choices))
    for index, one in enumerate(relevance):
        left, right = (1.0, 1.0) if edge_costs is None else edge_costs[index]
        begins, ends = choices[:, index].copy(), choices[:, index].copy()
        if index > 0 and index not in boundaries:
            begins &= ~choices[:, index - 1]
        if index + 1 < len(relevance) and index + 1 not in boundaries:
            ends &= ~choices[:, index + 1]
        allowed = one > 0
        paid[begins] += left / 2 if allowed else np.inf
        paid[ends] += right / 2 if allowed else np.inf
    return paid


def exact_by_brute_force(
    relevance: Sequence[float],
    *,
    penalty: float,
    weights: Sequence[float],
    segment_cost: float,
    max_length: int | None,
    boundaries: Sequence[int],
    edge_costs: Sequence[tuple[float, float]] | None = None,
) -> Optimum:
    """The best of all sets of chunks; either the longest segment or the edges may be given."""
    choices = every_choice(len(relevance))
    needed: NDArray[Any]
    if edge_costs is None:
        needed = segments_needed(choices, max_length=max_length, boundaries=boundaries)
    else:
        assert max_length is None
        needed = edges_paid(choices, relevance, boundaries=boundaries, edge_costs=edge_costs)
        allowed = np.isfinite(needed)
        choices, needed = choices[allowed], needed[allowed]
    values = np.zeros(len(choices))
    sizes = float(segment_cost) * needed
    for index, (one, weight) in enumerate(zip(relevance, weights, strict=True)):
        values += choices[:, index] * (weight * (one - penalty))
        sizes += choices[:, index] * weight
    values -= segment_cost * penalty * needed
    best = values.max()
    return Optimum(float(best), float(sizes[values == best].min()))


def exact_by_last_segments(
    relevance: Sequence[float],
    *,
    penalty: float,
    weights: Sequence[float],
    segment_cost: float,
    max_length: int | None,
    boundaries: Sequence[int],
    edge_costs: Sequence[tuple[float, float]] | None = None,
) -> Optimum:
    """The best choice of each beginning of the input, by trying all last segments.

    For inputs with too many sets of chunks to look at.
    """
    best = [(0.0, 0.0)]  # value, and size with its sign turned
    for end in range(1, len(relevance) + 1):
        options = [best[end - 1]]
        value = size = 0.0
        for start in range(end - 1, -1, -1):
            value += weights[start] * (relevance[start] - penalty)
            size += weights[start]
            edges = (1.0, 1.0)
            if edge_costs is not None:
                edges = edge_costs[start][0], edge_costs[end - 1][1]
            cost = segment_cost * (edges[0] + edges[1]) / 2
            if edge_costs is None or (relevance[start] > 0 and relevance[end - 1] > 0):
                options.append(
                    (best[start][0] + value - cost * penalty, best[start][1] - size - cost)
                )
            if start in boundaries or end - start == max_length:
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
    edge_costs: Sequence[tuple[float, float]] | None = None,
) -> Range | None:
    """What the smallest fitting lambda chooses, and what the next smaller one adds to it.

    Computed with fractions, so that ties are ties. None where chunks may be in or out
    without any difference but rounding, so that the solution of some lambda is left open.
    """
    relevant = [length for one, length in zip(relevance, lengths, strict=True) if one > 0]
    if not relevant:
        return Range(frozenset(), frozenset())
    weights = [Fraction(length * len(relevant), sum(relevant)) for length in lengths]
    choices = every_choice(len(relevance))
    paid = edges_paid(choices, relevance, boundaries=boundaries, edge_costs=edge_costs)
    choices, needed = choices[np.isfinite(paid)], paid[np.isfinite(paid)].tolist()
    members = [frozenset(np.flatnonzero(row).tolist()) for row in choices]
    gains = [
        sum((weights[index] * Fraction(relevance[index]) for index in chosen), Fraction(0))
        for chosen in members
    ]
    sizes = [
        sum((weights[index] for index in chosen), Fraction(segment_cost) * Fraction(count))
        for chosen, count in zip(members, needed, strict=True)
    ]
    rate = Fraction(penalty)
    while True:
        values = [gain - rate * size for gain, size in zip(gains, sizes, strict=True)]
        best = max(values)
        if any(0 < best - value < _ROUNDING for value in values):
            return None
        ties = [place for place, value in enumerate(values) if value == best]
        smallest = min(sizes[place] for place in ties)
        solutions = [place for place in ties if sizes[place] == smallest]
        if len(solutions) > 1:
            return None
        now = solutions[0]
        if sum(lengths[index] for index in members[now]) <= budget:
            return Range(members[now], frozenset().union(*(members[place] for place in ties)))
        # The next lambda of interest: where a smaller choice becomes worth as much.
        rate = min(
            (gains[now] - gain) / (smallest - size)
            for gain, size in zip(gains, sizes, strict=True)
            if size < smallest
        )
