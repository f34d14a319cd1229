"""At which penalty each chunk of a run enters: the solution for all penalties at once.

What a growing budget adds is read off a taut string (Davies and Kovac, "Local Extremes, Runs,
Strings and Multiresolution", 2001).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

__all__ = ["entry_penalties"]


def entry_penalties(
    weights: Sequence[int], worths: Sequence[int], opens: Sequence[int], closes: Sequence[int]
) -> list[float]:
    """For each chunk of a run, the penalty below which it is in the solution.

    Args:
        weights: What the chunks weigh.
        worths: Their weighted relevance.
        opens: What the beginning of a segment at each weighs, twice.
        closes: What the end of a segment at each weighs, twice.
    """
    if len(weights) == 1:
        # Rounded as below, so that equal chunks are equal wherever they stand.
        return [2 / ((2 * weights[0] + opens[0] + closes[0]) / worths[0])]
    # Gates that the string passes, one below the other: height, left and right end; twice
    # as wide as they are, so as to be whole.
    x = y = 0
    gates = [(0, -opens[0], -opens[0])]
    following = [*opens[1:], 0]
    for weight, worth, opening, close in zip(weights, worths, following, closes, strict=True):
        x += 2 * weight
        y += worth
        right = x + close if worth > 0 else gates.pop()[2]
        gates.append((y, x - opening, right))
    gates[-1] = (y, x + closes[-1], x + closes[-1])
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
