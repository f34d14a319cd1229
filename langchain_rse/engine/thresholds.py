"""The threshold penalty of each chunk: the exact solution for all penalties at once.

A chunk enters the solution when the penalty falls below its threshold. For a penalty p, the
solution maximizes, with x = 1 for each selected chunk and x = 0 for the others,

    sum(w * r * x) / p - sum(w * x) - cost / 2 * (number of changes of x along the text)

The solutions for all p form a taut string (Davies and Kovac, "Local Extremes, Runs, Strings and
Multiresolution", 2001). The chunks form a path: each moves it right by ``w`` and up by ``w * r``.
The string is the shortest path that stays within ``cost / 2`` of it on both sides. Where the string
moves right by s per unit of height, the threshold is 1 / s.

Weights and weighted relevances are rounded once and then summed as integers, so the order of chunks
does not depend on the penalty or budget.
"""

import math
from collections.abc import Sequence

import numpy as np

from langchain_rse.engine.problem import Bounds, Problem

# Binary digits of a typical weight as an integer.
_DIGITS = 50
# Segment costs above this many units are capped: any such cost prevents all segments.
_MOST_UNITS = 2.0**60

Gate = tuple[int, int, int]
"""An opening that the string passes through: height, left end, right end."""


def threshold_penalties(problem: Problem, segments: Sequence[Bounds]) -> list[tuple[float, int]]:
    """Compute the threshold penalty of each chunk in segments; return (threshold, index) pairs.

    The segments are a solution of the problem for some penalty; thresholds are above that penalty.
    """
    chunks: list[int] = []
    for segment in segments:
        chunks.extend(range(*segment))
    lengths = problem.lengths[chunks]
    relevance = problem.relevance[chunks]
    digits = _DIGITS - math.frexp(problem.unit)[1]
    # Any positive relevance, however small, stays positive.
    faintest = np.where(relevance > 0, math.ldexp(1.0, -digits), 0.0)
    gains = np.maximum(lengths * relevance, faintest)
    whole_lengths = [round(length) for length in np.ldexp(lengths, digits).tolist()]
    whole_gains = [round(gain) for gain in np.ldexp(gains, digits).tolist()]

    thresholds: list[float] = []
    for start, end in segments:
        first = len(thresholds)
        last = first + end - start
        cost = min(problem.segment_costs.item(start), _MOST_UNITS * problem.unit)
        thresholds += _thresholds_of_segment(
            whole_lengths[first:last], whole_gains[first:last], round(math.ldexp(cost, digits))
        )
    return list(zip(thresholds, chunks, strict=True))


def _thresholds_of_segment(lengths: Sequence[int], gains: Sequence[int], cost: int) -> list[float]:
    """Return the threshold penalty of each chunk of a segment that begins and ends relevant.

    All horizontal distances are twice those of the module's description, so half of the cost is an
    integer.
    """
    x = 0
    y = 0
    gates = [(0, -cost, -cost)]
    for length, gain in zip(lengths, gains, strict=True):
        x += 2 * length
        y += gain
        right = x + cost
        if not gain:
            # A gate at the same height as the previous one: merge both.
            _, _, right = gates.pop()
        gates.append((y, x - cost, right))
    gates[-1] = (y, x + cost, x + cost)

    slopes = iter(_taut_string(gates))
    thresholds: list[float] = []
    gap = 0
    for gain in gains:
        if not gain:
            gap += 1
            continue
        threshold = 2 / next(slopes)
        if gap:
            # A gap enters the solution together with the later of its two neighbors.
            thresholds += [min(thresholds[-1], threshold)] * gap
            gap = 0
        thresholds.append(threshold)
    return thresholds


def _taut_string(gates: Sequence[Gate]) -> list[float]:
    """Return the slopes (x over y) of the shortest path through all gates, one per interval."""
    slopes: list[float] = []
    knot = 0  # the gate at which the string bends
    x = gates[0][1]  # the position of the bend
    while knot < len(gates) - 1:
        # The smallest and the largest slope that pass all gates so far, each with the last gate
        # that determines it and the end of that gate.
        low = (-math.inf, knot, x)
        high = (math.inf, knot, x)
        for number in range(knot + 1, len(gates)):
            height, left, right = gates[number]
            rise = height - gates[knot][0]
            to_left = (left - x) / rise
            to_right = (right - x) / rise
            if to_left > high[0]:
                straight = high
                break
            if to_right < low[0]:
                straight = low
                break
            if to_left >= low[0]:
                low = (to_left, number, left)
            if to_right <= high[0]:
                high = (to_right, number, right)
        else:
            straight = low
        slope, bend, x = straight
        slopes += [slope] * (bend - knot)
        knot = bend
    return slopes
