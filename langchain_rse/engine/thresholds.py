"""The threshold penalty of each chunk: the exact solution for all penalties at once.

A chunk enters the solution when the penalty falls below its threshold. For a penalty p, the
solution maximizes, with x = 1 for each chunk that is in it and x = 0 for the others,

    sum(w * r * x) / p - sum(w * x) - cost / 2 * (how often x changes along the text)

The solutions for all p form a taut string (Davies and Kovac, "Local Extremes, Runs, Strings and
Multiresolution", 2001): the chunks are a path that moves right by ``w`` and up by ``w * r`` with
each, and the string is the shortest path within half of the ``cost`` of a segment to both sides of
it. Where the string moves right by s for each unit that it rises, the threshold is 1 / s.

Weights and weighted relevances are rounded once and then added up as whole numbers, so that the
order of chunks does not depend on the penalty or budget that it is computed for.
"""

import math
from collections.abc import Sequence

import numpy as np

from langchain_rse.engine.problem import Bounds, Problem

# Binary digits of a usual weight as a whole number.
_DIGITS = 50
# A segment cost above this many units has the same effect as this one: it keeps segments out.
_MOST_UNITS = 2.0**60

Gate = tuple[int, int, int]
"""An opening that the string passes: its height, its left end and its right end."""


def threshold_penalties(problem: Problem, segments: Sequence[Bounds]) -> list[tuple[float, int]]:
    """Compute the threshold penalty of each chunk of segments; returns it with the chunk's index.

    The segments are a solution of the problem for some penalty; thresholds are above that penalty.
    """
    chunks: list[int] = []
    for segment in segments:
        chunks.extend(range(*segment))
    lengths = problem.lengths[chunks]
    relevance = problem.relevance[chunks]
    digits = _DIGITS - math.frexp(problem.unit)[1]
    # A chunk of any relevance, however faint, counts as relevant.
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
    """The threshold penalty of each chunk of a segment; its first and last are relevant.

    Gates are twice as wide as in the module's description, and the path moves right twice as far,
    so that half of the cost is a whole number.
    """
    x = 0
    y = 0
    gates = [(0, -cost, -cost)]
    for length, gain in zip(lengths, gains, strict=True):
        x += 2 * length
        y += gain
        right = x + cost
        if not gain:
            # A gate at the same height as the one before: both are one.
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
            # A gap is in the solution as soon as the chunks on both sides are.
            thresholds += [min(thresholds[-1], threshold)] * gap
            gap = 0
        thresholds.append(threshold)
    return thresholds


def _taut_string(gates: Sequence[Gate]) -> list[float]:
    """Slopes, x over y, of the shortest path through all gates: one from each gate to the next."""
    slopes: list[float] = []
    knot = 0  # the gate at which the string bends
    x = gates[0][1]  # where it bends
    while knot < len(gates) - 1:
        # The least and the largest slope that pass all gates so far. With each, the last gate that
        # sets it, and the end of that gate.
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
