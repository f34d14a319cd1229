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

from langchain_rse.engine.segments import Floats

# Binary digits of a usual weight as a whole number.
_DIGITS = 50


def threshold_penalties(
    segments: Sequence[tuple[int, int]],
    relevance: Floats,
    weights: Floats,
    *,
    costs: Sequence[float],
    unit: float,
) -> list[tuple[float, int]]:
    """Compute the threshold penalty of each chunk of segments with these costs, with its index.

    ``unit`` is a usual weight.
    """
    chunks = [chunk for start, end in segments for chunk in range(start, end)]
    digits = _DIGITS - math.frexp(unit)[1]
    # A chunk of any relevance, however faint, counts as relevant.
    faintest = np.where(relevance[chunks] > 0, math.ldexp(1.0, -digits), 0.0)
    gains = np.maximum(weights[chunks] * relevance[chunks], faintest)
    whole_weights, whole_gains = (
        list(map(int, np.rint(np.ldexp(amounts, digits)).tolist()))
        for amounts in (weights[chunks], gains)
    )
    thresholds: list[float] = []
    for (start, end), segment_cost in zip(segments, costs, strict=True):
        here = slice(len(thresholds), len(thresholds) + end - start)
        # A higher cost than this has the same effect: it keeps segments out.
        cost = round(math.ldexp(min(segment_cost, 2.0**60 * unit), digits))
        thresholds += _thresholds_of_segment(whole_weights[here], whole_gains[here], cost)
    return list(zip(thresholds, chunks, strict=True))


def _thresholds_of_segment(weights: Sequence[int], gains: Sequence[int], cost: int) -> list[float]:
    """The threshold penalty of each chunk of a segment; its first and last are relevant."""
    # Gates that the string has to pass: height, left end, right end. Twice as wide as in the
    # module's description, so that half a cost is a whole number.
    x = y = 0
    gates = [(0, -cost, -cost)]
    for weight, gain in zip(weights, gains, strict=True):
        x += 2 * weight
        y += gain
        # Two gates at the same height are one.
        right = x + cost if gain else gates.pop()[2]
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
        if gap:  # a gap is in the solution as soon as the chunks on both sides are
            thresholds += [min(thresholds[-1], threshold)] * gap
        thresholds.append(threshold)
        gap = 0
    return thresholds


def _taut_string(gates: Sequence[tuple[int, int, int]]) -> list[float]:
    """Slopes, x over y, of the shortest path from gate to gate: height, left end, right end."""
    slopes: list[float] = []
    knot, x = 0, gates[0][1]
    while knot < len(gates) - 1:
        # The least and the largest slope that pass all gates so far. With each, the gate that
        # sets it, the last of several and with either sign, and the end of the gate.
        low, high = (-math.inf, 0, 0), (math.inf, 0, 0)
        for number in range(knot + 1, len(gates)):
            height, left, right = gates[number]
            rise = height - gates[knot][0]
            to_left, to_right = (left - x) / rise, (right - x) / rise
            if to_left > high[0] or to_right < low[0]:
                bend = high if to_left > high[0] else low
                break
            low = max(low, (to_left, number, left))
            high = min(high, (to_right, -number, right))
        else:
            bend = low
        slope, number, x = bend
        slopes += [slope] * (abs(number) - knot)
        knot = abs(number)
    return slopes
