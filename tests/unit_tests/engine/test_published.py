"""The published solvers: greedy search, and the best segment."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_rse.engine import Segment, best_segments, solve_greedy
from tests.unit_tests.engine.oracles import best_by_brute_force, greedy_by_brute_force

# Tenths make ties and sums that depend on the order of adding; eighths add up exactly.
TENTHS = st.integers(-10, 10).map(lambda n: n / 10)
EIGHTHS = st.integers(-8, 8).map(lambda n: n / 8)
EXTREMES = st.sampled_from([0.0, -0.0, 1e-300, -1e-300, 5e-324, 1e300, -1e300, 1.0, -1.0])
FLOATS = st.floats(-2, 2, allow_nan=False)
VALUES = st.sampled_from([TENTHS, EIGHTHS, EXTREMES, FLOATS])


def best_segment(values: list[float], max_length: int | None = None) -> Segment | None:
    segments = best_segments(values, max_length=max_length or len(values) + 1)
    assert len(segments) <= 1
    return segments[0] if segments else None


def _close_to(start: int, end: int, value: float) -> Any:
    return (start, end, pytest.approx(value))


@st.composite
def greedy_problems(draw: st.DrawFn) -> tuple[list[list[float]], dict[str, Any]]:
    """One to three queries over up to 14 chunks of a few documents, and all limits."""
    size = draw(st.integers(0, 14))
    value = draw(VALUES)
    row = st.lists(value, min_size=size, max_size=size)
    rows = draw(st.lists(row, min_size=1, max_size=3))
    limits = {
        "max_length": draw(st.integers(1, 16)),
        "overall_max_length": draw(st.integers(0, 20)),
        "minimum_value": draw(st.sampled_from([-math.inf, -1.0, 0.0, 0.1, 0.3, 0.7, 1e300])),
        "boundaries": draw(st.lists(st.integers(0, size), max_size=4)),
    }
    return rows, limits


@given(greedy_problems())
def test_greedy_equals_brute_force(problem: tuple[list[list[float]], dict[str, Any]]) -> None:
    rows, limits = problem

    assert solve_greedy(rows, **limits) == greedy_by_brute_force(rows, **limits)


@given(greedy_problems())
def test_greedy_keeps_every_limit(problem: tuple[list[list[float]], dict[str, Any]]) -> None:
    rows, limits = problem

    segments = solve_greedy(rows, **limits)

    assert sum(segment.end - segment.start for segment in segments) <= limits["overall_max_length"]
    for segment in segments:
        assert 0 <= segment.start < segment.end <= len(rows[0])
        assert segment.end - segment.start <= limits["max_length"]
        assert segment.value >= limits["minimum_value"]
        assert not any(segment.start < border < segment.end for border in limits["boundaries"])
    for segment, following in itertools.pairwise(sorted(segments)):
        assert segment.end <= following.start


@given(
    values=st.lists(EIGHTHS, max_size=20),
    max_length=st.none() | st.integers(1, 22),
)
def test_best_segment_equals_brute_force(values: list[float], max_length: int | None) -> None:
    segment = best_segment(values, max_length=max_length)

    assert segment == best_by_brute_force(values, max_length=max_length)


@given(
    values=st.one_of(st.lists(TENTHS, max_size=20), st.lists(FLOATS, max_size=20)),
    max_length=st.none() | st.integers(1, 22),
)
def test_best_segment_is_worth_the_most_for_any_values(
    values: list[float], max_length: int | None
) -> None:
    segment = best_segment(values, max_length=max_length)
    expected = best_by_brute_force(values, max_length=max_length)

    # Rounding makes near-ties; which segment is returned is left open, its value is not.
    assert (segment.value if segment else 0.0) == pytest.approx(
        expected.value if expected else 0.0, abs=1e-12
    )
    if segment is not None:
        assert segment.value == list(itertools.accumulate(values[segment.start : segment.end]))[-1]
        assert max_length is None or segment.end - segment.start <= max_length


def test_worked_value_two_good_chunks() -> None:
    values = [-0.2, -0.2, 0.4, 0.8, -0.1]
    expected = _close_to(2, 4, 1.2)

    assert best_segment(values) == expected
    assert best_segment(values, max_length=2) == expected
    assert solve_greedy(values, max_length=5, overall_max_length=5, minimum_value=0.5) == [expected]


def test_the_best_segment_of_each_document() -> None:
    first = [0.5, 0.25, -1.0, 0.5, 0.5, -1.0, 0.125]
    second = [-1.0, 0.75, -1.0, -1.0, -1.0, 0.5, 0.5]
    limits: dict[str, Any] = {
        "max_length": 2,
        "minimum_value": 0.5,
        # Two parts of one document, and another document.
        "boundaries": [0, 3, 5],
        "documents": ["one", "one", "two"],
    }

    assert best_segments(first, **limits) == [Segment(3, 5, 1.0)]
    # Queries take turns; a segment that overlaps one taken before is passed over.
    assert best_segments([first, second], **limits) == [
        Segment(3, 5, 1.0),
        Segment(5, 7, 1.0),
        Segment(1, 2, 0.75),
    ]
    assert best_segments([first, first], **limits) == [Segment(3, 5, 1.0)]


def test_queries_take_turns_and_share_the_room() -> None:
    first = [0.9, -1.0, 0.8, -1.0, 0.7, -1.0, 0.6]
    second = [-1.0, 0.1, -1.0, 0.2, -1.0, 0.5, -1.0]

    segments = solve_greedy([first, second], max_length=1, overall_max_length=5, minimum_value=0.2)

    # The second query runs out after two turns; the first goes on alone.
    assert segments == [
        Segment(0, 1, 0.9),
        Segment(5, 6, 0.5),
        Segment(2, 3, 0.8),
        Segment(3, 4, 0.2),
        Segment(4, 5, 0.7),
    ]


def test_segments_end_at_boundaries() -> None:
    values = [0.5, 0.5, 0.5, 0.5]

    segments = solve_greedy(
        values, max_length=4, overall_max_length=4, minimum_value=0.1, boundaries=[3]
    )

    assert segments == [Segment(0, 3, 1.5), Segment(3, 4, 0.5)]
