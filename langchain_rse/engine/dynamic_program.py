"""The best segments at one penalty, by a dynamic program with two states for each chunk.

A chunk is in a segment or in none. The program visits only chunks that are worth the penalty, since
segments begin and end on those.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from langchain_rse.engine.problem import Indices, Problem
from langchain_rse.engine.segments import Bounds, Floats, join

# Replaces a penalty of 0: so small that it only decides ties.
_LEAST_PENALTY = 1e-200


def solve_at_penalty(problem: Problem, penalty: float) -> list[Bounds]:
    """Find the segments that are worth most together at a penalty, in the order of the text."""
    penalty = max(penalty, _LEAST_PENALTY)
    relevant = problem.relevant
    values = relevant.gains - penalty * relevant.lengths
    visited = np.flatnonzero(values > 0)
    # What a segment loses by reaching from the relevant chunk before up to this one.
    losses = penalty * relevant.gaps - np.minimum(values, 0.0)
    costs = penalty * relevant.segment_costs[visited]
    ranges = _best_ranges(
        values[visited].tolist(), _losses_between(visited, losses).tolist(), costs.tolist()
    )
    chunks = relevant.indices[visited].tolist()
    segments = [(chunks[first], chunks[last] + 1) for first, last in ranges]
    # At a segment cost of 0, the program leaves segments that touch apart.
    return join(segments, problem.borders)


def _losses_between(visited: Indices, losses: Floats) -> Floats:
    """The sums of losses from one visited chunk to the next; infinite before the first."""
    between = np.full(visited.size, np.inf)
    if visited.size > 1:
        last = visited[-1]
        between[1:] = np.add.reduceat(losses[: last + 1], visited[:-1] + 1)
    return between


def _best_ranges(
    values: Sequence[float], losses: Sequence[float], costs: Sequence[float]
) -> list[Bounds]:
    """Find the best ranges (first, last) of chunks.

    Args:
        values: What each chunk is worth, positive.
        losses: What it costs to continue a segment from the chunk before.
        costs: What it costs to begin a segment with this chunk.
    """
    # Of the best values in the two states, only the difference is kept: how much better it is to
    # be outside of a segment than in one that reaches this chunk.
    outside = np.inf
    continues = []  # the best segment that ends with this chunk has the chunk before as well
    ends = []  # that segment is better than none
    for value, loss, cost in zip(values, losses, costs, strict=True):
        is_continued = loss < cost - outside
        outside = (outside + loss if is_continued else cost) - value
        continues.append(is_continued)
        ends.append(outside < 0)
        outside = max(outside, 0.0)

    ranges = []
    last = len(values) - 1
    while last >= 0:
        first = last
        if ends[last]:
            while continues[first]:
                first -= 1
            ranges.append((first, last))
        last = first - 1
    ranges.reverse()
    return ranges
