"""The order in which a growing budget takes chunks: by falling threshold penalty."""

from __future__ import annotations

import heapq
import itertools

import numpy as np

from langchain_rse.engine.dynamic_program import solve_at_penalty
from langchain_rse.engine.problem import Problem
from langchain_rse.engine.segments import count_neighbors
from langchain_rse.engine.thresholds import threshold_penalties

# Relative differences below this count as rounding errors.
_ROUNDING = 1e-10


def order_chunks(problem: Problem, budget: float) -> dict[int, float]:
    """Order chunks as a growing budget takes them; returns each with its threshold penalty.

    Has the chunks that fit the budget, and at least the one after them, if any is left that is
    worth the penalty of the problem.
    """
    thresholds = _thresholds_beyond(problem, budget)
    thresholds.sort(reverse=True)
    order: dict[int, float] = {}
    taken: set[int] = set()
    room = budget * (1 + _ROUNDING)
    for threshold, pairs in itertools.groupby(thresholds, key=lambda pair: pair[0]):
        if room < 0:
            break
        chunks = _take_densest_first(problem, {chunk for _, chunk in pairs}, taken)
        order.update(dict.fromkeys(chunks, threshold))
        room -= problem.total_length(chunks)
    return order


def _thresholds_beyond(problem: Problem, budget: float) -> list[tuple[float, int]]:
    """Compute the highest thresholds, of more chunks than fit the budget; or all of them."""
    penalty = max(_guess_penalty(problem, budget), problem.penalty)
    while True:
        thresholds = threshold_penalties(problem, solve_at_penalty(problem, penalty))
        if penalty <= problem.penalty:
            return thresholds
        # Rounding may have left out other chunks with exactly this threshold.
        lowest = penalty * (1 + _ROUNDING)
        thresholds = [pair for pair in thresholds if pair[0] > lowest]
        if problem.total_length(chunk for _, chunk in thresholds) > budget:
            return thresholds
        penalty = max(problem.penalty, penalty / 2)


def _guess_penalty(problem: Problem, budget: float) -> float:
    """Guess a penalty whose solution is a little longer than the budget; 0 if there is none."""
    relevant = problem.relevant
    # The solution has at least the chunks that are worth a segment of their own.
    thresholds_alone = relevant.gains / (relevant.lengths + relevant.segment_costs)
    order = np.argsort(-thresholds_alone)
    totals = np.cumsum(relevant.lengths[order])
    # One more, since chunks whose threshold is this very penalty are left out.
    beyond = np.searchsorted(totals, budget, side="right") + 1
    if beyond >= order.size:
        return 0.0
    return float(thresholds_alone[order[beyond]])


def _take_densest_first(problem: Problem, chunks: set[int], taken: set[int]) -> list[int]:
    """Order chunks of equal threshold by what each adds for the room that it costs.

    Each is added to ``taken``, the chunks that came before: beside one of those, a chunk costs
    less, as it begins no segment.
    """
    queue = [(-_density(problem, chunk, taken), chunk) for chunk in chunks]
    heapq.heapify(queue)
    order: list[int] = []
    while queue:
        _, chunk = heapq.heappop(queue)
        if chunk in taken:
            continue
        taken.add(chunk)
        order.append(chunk)
        # Their density is higher now, so these entries come before the old ones.
        for neighbor in chunks & {chunk - 1, chunk + 1}:
            heapq.heappush(queue, (-_density(problem, neighbor, taken), neighbor))
    return order


def _density(problem: Problem, chunk: int, taken: set[int]) -> float:
    """What a chunk adds, divided by its length and the cost of the segments that it adds."""
    length = problem.lengths.item(chunk)
    gain = length * problem.relevance.item(chunk)
    # 1 for a chunk alone, -1 for a chunk that joins two segments.
    added_segments = 1 - count_neighbors((chunk, chunk + 1), taken, problem.borders)
    cost = length + added_segments * problem.segment_cost(chunk)
    if cost > 0:
        return gain / cost
    if cost < 0 or gain > 0:
        return np.inf
    return 0.0
