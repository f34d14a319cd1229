"""Problems for the exact solver, drawn at random, and what every solution must fulfill."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from numpy.typing import ArrayLike

from langchain_rse.engine import Segment, rank_chunks
from tests.unit_tests.engine.oracles import segment_costs

# Eighths add up and multiply exactly, so ties are ties; tenths make ties but for rounding.
# Half of the chunks are not relevant.
EIGHTHS = st.integers(-8, 8).map(lambda n: max(n, 0) / 8)
TENTHS = st.integers(-10, 10).map(lambda n: max(n, 0) / 10)
FLOATS = st.floats(0, 2, allow_nan=False)
EXTREMES = st.sampled_from([0.0, -0.0, 1e-300, 5e-324, 1e300, 1.0])
COSTS = st.sampled_from([0.0, 0.125, 0.25, 0.5, 1.0, 1.5, 4.0])
_ROUNDING = 1e-12


def close_to(start: int, end: int, value: float) -> Any:
    return (start, end, pytest.approx(value))


def chunks_of(segments: Sequence[Segment]) -> set[int]:
    return {index for segment in segments for index in range(segment.start, segment.end)}


def total_length(segments: Sequence[Segment], lengths: Sequence[float]) -> float:
    return sum(lengths[index] for index in chunks_of(segments))


def solve_exact(
    relevance: ArrayLike,
    *,
    penalty: float,
    weights: ArrayLike | None = None,
    segment_cost: float = 0.25,
    boundaries: Sequence[int] = (),
    document_weights: ArrayLike | None = None,
) -> list[Segment]:
    """The solution for one penalty, of chunks with weights, without a budget."""
    ranking = rank_chunks(
        relevance,
        np.ones(np.shape(relevance)) if weights is None else weights,
        unit=1.0,
        penalty=penalty,
        segment_cost=segment_cost,
        boundaries=boundaries,
        document_lengths=document_weights,
    )
    return ranking.segments(ranking.thresholds)


def solve_budget(
    relevance: ArrayLike, lengths: ArrayLike, *, budget: float, **settings: Any
) -> list[Segment]:
    return rank_chunks(relevance, lengths, **settings).within(budget)


def size_of(segments: Sequence[Segment], problem: dict[str, Any]) -> float:
    """The weight of the chunks, and what the segments cost."""
    costs = segment_costs(problem["weights"], problem["segment_cost"], problem["boundaries"])
    cost = sum(costs[segment.start] for segment in segments)
    return float(total_length(segments, problem["weights"]) + cost)


def check_solution(
    segments: Sequence[Segment],
    relevance: Sequence[float],
    weights: Sequence[float],
    *,
    penalty: float,
    segment_cost: float,
    boundaries: Sequence[int],
) -> None:
    """The segments are allowed, are worth what they say and are in order."""
    costs = segment_costs(weights, segment_cost, boundaries)
    for segment in segments:
        assert 0 <= segment.start < segment.end <= len(relevance)
        assert not any(segment.start < border < segment.end for border in boundaries)
        inside = range(segment.start, segment.end)
        terms = [weights[index] * (relevance[index] - penalty) for index in inside]
        terms.append(-costs[segment.start] * penalty)
        scale = max(map(abs, terms))
        assert segment.value == pytest.approx(math.fsum(terms), rel=1e-9, abs=1e-12 * scale)
    for segment, following in itertools.pairwise(sorted(segments)):
        assert segment.end < following.start or segment.end in boundaries
    assert list(segments) == sorted(segments, key=lambda segment: (-segment.value, segment.start))


@st.composite
def exact_problems(
    draw: st.DrawFn, relevance: st.SearchStrategy[float] = EIGHTHS, most: int = 10
) -> dict[str, Any]:
    """Up to ``most`` chunks of a few documents, and everything else that can be given."""
    size = draw(st.integers(0, most))
    weight = draw(
        st.sampled_from([st.just(1.0), st.integers(1, 24).map(lambda n: n / 8)])  # even, uneven
    )
    return {
        "relevance": draw(st.lists(relevance, min_size=size, max_size=size)),
        "weights": draw(st.lists(weight, min_size=size, max_size=size)),
        "penalty": draw(st.integers(0, 8).map(lambda n: n / 8)),
        "segment_cost": draw(COSTS),
        "boundaries": draw(st.lists(st.integers(0, size), max_size=4)),
    }


def exact_problem(relevance: list[float], **others: Any) -> dict[str, Any]:
    return {
        "relevance": relevance,
        "weights": [1.0] * len(relevance),
        "penalty": 0.25,
        "segment_cost": 0.25,
        "boundaries": [],
        **others,
    }


@st.composite
def budget_problems(draw: st.DrawFn, most: int = 10, longest: int = 12) -> dict[str, Any]:
    """Up to ``most`` chunks of a few documents; everything but the budget."""
    size = draw(st.integers(0, most))
    relevance = draw(
        st.sampled_from(
            [
                st.integers(0, 8).map(lambda n: n / 8),
                st.integers(0, 10).map(lambda n: n / 10),
                st.integers(-4, 4).map(lambda n: max(n, 0) / 4),  # mostly gaps
                st.just(0.0) | st.floats(1e-6, 2),
            ]
        )
    )
    length = draw(st.sampled_from([st.just(1), st.integers(1, longest)]))
    return {
        "relevance": draw(st.lists(relevance, min_size=size, max_size=size)),
        "lengths": draw(st.lists(length, min_size=size, max_size=size)),
        "penalty": draw(st.sampled_from([0.0, 0.0, 0.125, 0.25, 0.375, 0.5])),
        "segment_cost": draw(COSTS | st.floats(0.01, 3)),
        "boundaries": draw(st.lists(st.integers(0, size), max_size=4)),
    }


@st.composite
def distinct_problems(draw: st.DrawFn) -> dict[str, Any]:
    """Up to 40 chunks of a few documents, no two of which tie."""
    generator = np.random.default_rng(draw(st.integers(0, 10**6)))
    size = draw(st.integers(1, 40))
    relevance = generator.random(size) * (generator.random(size) < draw(st.floats(0.1, 1)))
    relevance[generator.integers(size)] = generator.random() + 0.1
    return {
        "relevance": relevance.tolist(),
        "lengths": generator.integers(50, 1500, size).tolist(),
        "penalty": draw(st.sampled_from([0.0, 0.0, 0.11, 0.31])),
        "segment_cost": draw(st.sampled_from([0.0, 0.23, 1.7])),
        "boundaries": draw(st.lists(st.integers(0, size), max_size=4)),
    }


def solve_without_budget(problem: dict[str, Any]) -> list[Segment]:
    """The solution if there were no budget."""
    if not any(problem["relevance"]):
        return []
    # Lengths as they are, so that ties are ties here as well.
    lengths = problem["lengths"]
    unit = float(np.mean(np.array(lengths)[np.array(problem["relevance"]) > 0]))
    limits = sorted({0, len(lengths), *problem["boundaries"]})
    document_weights: list[float] = []
    for start, end in itertools.pairwise(limits):
        document_weights += [sum(lengths[start:end]) / unit] * (end - start)
    segments = solve_exact(
        problem["relevance"],
        penalty=problem["penalty"],
        weights=lengths,
        segment_cost=problem["segment_cost"] * unit,
        boundaries=problem["boundaries"],
        document_weights=document_weights,
    )
    # The weights of documents are rounded: what is worth just its cost can seem to be worth more.
    return [
        segment._replace(value=segment.value / unit)
        for segment in segments
        if segment.value > _ROUNDING * unit
    ]


def budget_problem(relevance: list[float], lengths: list[int], **others: Any) -> dict[str, Any]:
    return {
        "relevance": relevance,
        "lengths": lengths,
        "penalty": 0.0,
        "segment_cost": 0.25,
        "boundaries": [],
        **others,
    }
