"""The threshold penalty of each chunk: the exact solution for all penalties at once.

A chunk enters the solution when the penalty falls below its threshold. For a penalty p, the
solution maximizes, with x = 1 for each selected chunk and x = 0 for the others,

    sum(w * r * x) / p - sum(w * x) - cost / 2 * (number of changes of x along the text)

The solutions for all p form a taut string (Davies and Kovac, "Local Extremes, Runs, Strings and
Multiresolution", 2001). The chunks form a path: each moves it right by ``w`` and up by ``w * r``.
The string is the shortest path that stays within ``cost / 2`` of it on both sides. It bends only at
knots. Between two knots, all chunks have the same threshold: what the string rises per unit to the
right.
"""

from __future__ import annotations

import itertools
from collections import deque

import numpy as np

from langchain_rse.engine.problem import Bounds, Floats, Problem

# Binary digits that count: numbers that agree in them, to about 1e-12, are equal but for rounding.
_DIGITS = 40
# A chunk moves the path up by at least this share of all, so that rounding does not lose it.
_LEAST_SHARE = 2.0**-45
# The sides of the path.
_LEFT = -1
_RIGHT = 1

Point = tuple[complex, int, int]
"""Position (to the right, and up as the imaginary part), number of chunks before it, and side."""


def threshold_penalties(problem: Problem) -> dict[int, float]:
    """Return the threshold penalties that exceed the problem's penalty, by chunk."""
    chunks: list[int] = []
    thresholds: list[float] = []
    for start, end in _find_runs(problem):
        weights = problem.weights[start:end]
        gains = weights * problem.relevance[start:end]
        cost = problem.segment_costs.item(start)
        chunks += range(start, end)
        thresholds += _thresholds_of_run(weights.tolist(), gains.tolist(), cost)
    least = _round_digits(problem.penalty).item()
    rounded = _round_digits(np.array(thresholds)).tolist()
    selected: dict[int, float] = {}
    for chunk, threshold in zip(chunks, rounded, strict=True):
        if threshold > least:
            selected[chunk] = threshold
    return selected


def _round_digits(numbers: Floats | float) -> Floats:
    """Round to about 12 significant digits, so that numbers that differ by rounding are equal."""
    fractions, exponents = np.frexp(numbers)
    digits = np.round(np.ldexp(fractions, _DIGITS))
    return np.asarray(np.ldexp(digits, exponents - _DIGITS))


def _find_runs(problem: Problem) -> list[Bounds]:
    """Find runs of chunks that contain all segments for the penalty and higher ones.

    A segment begins and ends with chunks of positive value. It contains no gap that costs at least
    what another segment costs: at a higher penalty, such a gap costs even more.
    """
    positive = np.flatnonzero(problem.values > 0)
    if not positive.size:
        return []
    losses = np.maximum(-problem.values, 0.0)
    gap_losses = np.add.reduceat(losses, positive)[:-1]
    costs = problem.penalty * problem.segment_costs[positive[1:]]
    documents = np.searchsorted(problem.starts, positive, side="right")
    is_divided = _round_digits(gap_losses) >= _round_digits(costs)
    is_divided |= np.diff(documents) > 0
    firsts = positive[np.append(True, is_divided)]
    lasts = positive[np.append(is_divided, True)]
    return list(zip(firsts.tolist(), (lasts + 1).tolist(), strict=True))


def _thresholds_of_run(weights: list[float], gains: list[float], cost: float) -> list[float]:
    """Return the threshold penalty of each chunk of a run, from the knots of the string."""
    thresholds: list[float] = []
    for knot, next_knot in itertools.pairwise(_find_knots(weights, gains, cost)):
        _, start, side = knot
        _, end, next_side = next_knot
        # From left to right, a segment is added; from right to left, two segments are merged.
        added_segments = (next_side - side) / 2
        distance = sum(weights[start:end]) + added_segments * cost
        # The distance is positive, but for rounding.
        threshold = sum(gains[start:end]) / distance if distance > 0 else np.inf
        thresholds += [threshold] * (end - start)
    return thresholds


def _find_knots(weights: list[float], gains: list[float], cost: float) -> list[Point]:
    """Return the knots of the string, from left of the first chunk to right of the last one."""
    half = cost / 2
    least_gain = sum(gains) * _LEAST_SHARE
    position = 0j
    knots: list[Point] = [(position - half, 0, _LEFT)]
    # The shortest ways from the last knot to both sides of the current position.
    left_way = deque(knots)
    right_way = deque(knots)
    for count, (weight, gain) in enumerate(zip(weights, gains, strict=True), start=1):
        height = max(gain, least_gain) if gain > 0 else 0.0
        position += complex(weight, height)
        if count < len(weights):
            _lead(left_way, right_way, (position - half, count, _LEFT), _LEFT, knots)
            _lead(right_way, left_way, (position + half, count, _RIGHT), _RIGHT, knots)
    _lead(left_way, right_way, (position + half, len(weights), _RIGHT), _LEFT, knots)
    knots.extend(itertools.islice(left_way, 1, None))
    return knots


def _lead(
    way: deque[Point], other_way: deque[Point], target: Point, side: int, knots: list[Point]
) -> None:
    """Lead the way on one side to a target; add the knots that it now has from the other way."""
    while len(way) > 1 and _is_inside(target, way[-2], way[-1], side):
        way.pop()
    if len(way) == 1:
        while len(other_way) > 1 and _is_inside(target, other_way[0], other_way[1], side):
            other_way.popleft()
            knots.append(other_way[0])
        way[0] = other_way[0]
    way.append(target)


def _is_inside(target: Point, start: Point, end: Point, side: int) -> bool:
    """Return whether a target is on the line from start to end, or not on this side of it."""
    position, _, _ = start
    to_end = end[0] - position
    to_target = target[0] - position
    turn = (to_end.conjugate() * to_target).imag  # above 0 to the left
    return turn * side >= 0
