"""Which chunks are joined to segments at a given penalty: two-state dynamic programs."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence

import numpy as np

from langchain_rse.segmentation.inputs import Floats

__all__ = ["Run", "digits_of", "in_parts", "join", "join_capped", "whole_numbers"]

Run = tuple[int, int]
"""The first chunk of a run, and the one after its last."""

# How many binary digits amounts have in whole numbers.
_FINE = 50


def join(
    values: Sequence[float],
    links: Sequence[float],
    touches: Sequence[bool],
    opens: Sequence[float],
    closes: Sequence[float],
) -> list[Run]:
    """Which chunks are the first and last of a segment, by dynamic programming.

    Of the two states, in a segment or out of one, only the difference of their worth is
    kept: how much better it would be to be out.

    Args:
        values: What the chunks are worth.
        links: What it costs to join each to the one before.
        touches: Whether it touches the one before.
        opens: What it costs to begin a segment with each.
        closes: What it costs to end one with each.
    """
    lead = np.inf
    ends = False
    joined, taken = [], []
    for value, link, touch, opening, close in zip(
        values, links, touches, opens, closes, strict=True
    ):
        # At a tie, one segment rather than two that touch.
        join = link < opening - lead or (touch and ends)
        lead = (lead + link if join else opening) - value
        ends = lead < -close
        joined.append(join)
        taken.append(ends)
        lead = max(lead, -close)
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


def join_capped(
    chunks: Sequence[tuple[int, int, int, int, int, bool]],
    opens: Sequence[tuple[int, int]],
    closes: Sequence[tuple[int, int]],
    cap: int,
) -> list[Run]:
    """Like `join`, for segments of at most ``cap`` chunks; a sliding-window maximum.

    Args:
        chunks: For each, what it is worth, what it weighs, what it costs to join it to the
            one before, what lies between them weighs, its place, and whether it begins a
            document.
        opens: What it costs to begin a segment with each, and what that weighs.
        closes: What it costs to end one with each, and what that weighs.
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
        cost, weight = opens[number]
        entry = (out[0] - cost - height[0], out[1] - weight - height[1], out[2] - 1)
        while window and window[-1][0] < entry:
            window.pop()
        window.append((entry, number))
        height = (height[0] + value, height[1] - size, 0)
        while place - places[window[0][1]] >= cap:
            window.popleft()
        best, first = window[0]
        cost, weight = closes[number]
        worth = (best[0] + height[0] - cost, best[1] + height[1] - weight, best[2])
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


def in_parts(amounts: Floats, whole: float) -> list[int]:
    """Amounts in such small parts of a whole that they can be added without rounding."""
    return whole_numbers(np.minimum(amounts, 4 * whole), digits_of(whole))


def whole_numbers(amounts: Floats, digits: int) -> list[int]:
    """Amounts times a power of two, rounded."""
    return list(map(int, np.rint(np.ldexp(amounts, digits)).tolist()))


def digits_of(whole: float) -> int:
    """By which power of two amounts of the size of ``whole`` become fine whole numbers.

    A power of two, so that amounts that are the same stay the same.
    """
    return _FINE - math.frexp(whole)[1]
