"""solve_exact, and what both exact solvers share."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from langchain_rse.engine import Segment, solve_budget, solve_exact
from tests.unit_tests.engine.exact_oracles import exact_by_brute_force, exact_by_last_segments
from tests.unit_tests.engine.problems import (
    COSTS,
    EXTREMES,
    FLOATS,
    TENTHS,
    check_solution,
    chunks_of,
    close_to,
    exact_problem,
    exact_problems,
    size_of,
)


# A gap that costs what a new segment costs; a segment worth nothing; no penalty.
@example(exact_problem([1.0, 0.0, 1.0], segment_cost=1.0))
@example(exact_problem([0.5, 0.0, 0.5], segment_cost=1.0, boundaries=[1]))
@example(exact_problem([0.5], segment_cost=1.0))
@example(exact_problem([1.0, 0.25, 1.0], segment_cost=0.0))
@example(exact_problem([0.0, 1.0, 0.0, 1.0, 0.0], penalty=0.0, weights=[1.0, 1.0, 0.125, 1.0, 1.0]))
@example(exact_problem([0.0, 1.0, 0.0, 1.0, 0.0], penalty=0.0, segment_cost=4.0))
@settings(max_examples=120)
@given(exact_problems())
def test_exact_finds_the_best_and_of_equals_the_smallest(problem: dict[str, Any]) -> None:
    segments = solve_exact(**problem)

    check_solution(segments, **problem)
    expected = exact_by_brute_force(**problem)
    assert (sum(segment.value for segment in segments), size_of(segments, problem)) == expected


@settings(max_examples=60)
@given(st.sampled_from([TENTHS, FLOATS, EXTREMES]).flatmap(exact_problems))
def test_exact_finds_the_best_where_sums_are_rounded(problem: dict[str, Any]) -> None:
    segments = solve_exact(**problem)

    # Rounding makes near-ties; which solution is returned is left open, its value is not.
    check_solution(segments, **problem)
    value = math.fsum(segment.value for segment in segments)
    expected = exact_by_brute_force(**problem)
    assert value == pytest.approx(expected.value, rel=1e-9, abs=1e-12)


@settings(max_examples=20)
@given(
    seed=st.integers(0, 10**6), segment_cost=COSTS, penalty=st.integers(0, 4).map(lambda n: n / 8)
)
def test_exact_finds_the_best_of_many_chunks(
    seed: int, segment_cost: float, penalty: float
) -> None:
    generator = np.random.default_rng(seed)
    problem = exact_problem(
        (generator.choice([0, 0, 0, 0, 1, 2, 3, 8], 120) / 8).tolist(),
        weights=(generator.integers(1, 17, 120) / 8).tolist(),
        penalty=penalty,
        segment_cost=segment_cost,
        boundaries=generator.integers(0, 120, 3).tolist(),
    )

    segments = solve_exact(**problem)

    check_solution(segments, **problem)
    expected = exact_by_last_segments(**problem)
    assert (sum(segment.value for segment in segments), size_of(segments, problem)) == expected


@settings(max_examples=50)
@given(exact_problems(most=9))
def test_the_two_definitions_agree(problem: dict[str, Any]) -> None:
    assert exact_by_brute_force(**problem) == exact_by_last_segments(**problem)


@settings(max_examples=60)
@given(exact_problems())
def test_exact_solves_documents_one_by_one(problem: dict[str, Any]) -> None:
    together = solve_exact(**problem)

    limits = sorted({0, len(problem["relevance"]), *problem["boundaries"]})
    alone: list[Segment] = []
    for start, end in itertools.pairwise(limits):
        part = {
            **problem,
            "relevance": problem["relevance"][start:end],
            "weights": problem["weights"][start:end],
            "boundaries": [],
        }
        alone += [Segment(s.start + start, s.end + start, s.value) for s in solve_exact(**part)]
    assert together == sorted(alone, key=lambda segment: (-segment.value, segment.start))


@settings(max_examples=50)
@given(exact_problems())
def test_weights_of_one_are_the_default(problem: dict[str, Any]) -> None:
    del problem["weights"]

    weights = [1.0] * len(problem["relevance"])
    assert solve_exact(**problem) == solve_exact(**problem, weights=weights)


@settings(max_examples=60)
@given(exact_problems(st.sampled_from([0.0, 0.0, 1.0])))
def test_without_penalty_only_small_gaps_are_chosen_with_what_is_relevant(
    problem: dict[str, Any],
) -> None:
    problem["penalty"] = 0.0
    relevance, weights = problem["relevance"], problem["weights"]

    segments = solve_exact(**problem)

    assert set(np.flatnonzero(relevance).tolist()) <= chunks_of(segments)
    for segment in segments:
        assert relevance[segment.start] > 0
        assert relevance[segment.end - 1] > 0
        gap = 0.0
        for index in range(segment.start, segment.end):
            gap = 0.0 if relevance[index] else gap + weights[index]
            assert gap <= problem["segment_cost"]


def test_exact_worked_value_two_good_chunks() -> None:
    relevance = [0.0, 0.0, 0.6, 1.0, 0.1]

    assert solve_exact(relevance, penalty=0.2, segment_cost=0.0) == [close_to(2, 4, 1.2)]
    assert solve_exact(relevance, penalty=0.2) == [close_to(2, 4, 1.15)]


def test_exact_bridges_a_bad_chunk_where_a_new_segment_costs_more() -> None:
    relevance = [0.1, 0.6, 0.7, 0.5, 0.0, 0.3, 0.8, 0.6, 0.0]

    bridged = solve_exact(relevance, penalty=0.2, segment_cost=2.0)
    assert bridged == [close_to(1, 8, 2.1 - 0.4)]
    split = solve_exact(relevance, penalty=0.2, segment_cost=0.5)
    assert split == [close_to(1, 4, 1.1), close_to(5, 8, 1.0)]


def test_exact_worked_value_similarities_in_a_long_document() -> None:
    relevance = np.zeros(40)
    relevance[[23, 31, 24, 11, 25]] = [1.09, 1.04, 1.01, 0.92, 0.88]

    assert solve_exact(relevance, penalty=0.2) == [
        close_to(23, 26, 2.38 - 0.05),
        close_to(31, 32, 0.84 - 0.05),
        close_to(11, 12, 0.72 - 0.05),
    ]


def test_exact_orders_by_value_then_position() -> None:
    segments = solve_exact([0.5, 0.0, 1.0, 0.0, 0.5], penalty=0.125, segment_cost=0.0)

    assert segments == [Segment(2, 3, 0.875), Segment(0, 1, 0.375), Segment(4, 5, 0.375)]


def test_exact_weighs_chunks() -> None:
    relevance, weights = [1.0, 0.0, 1.0, 0.5], [1.0, 0.5, 2.0, 4.0]

    segments = solve_exact(relevance, weights=weights, penalty=0.5, segment_cost=1.0)

    # The gap costs 0.25 and a second segment 0.5. The last chunk is worth nothing.
    assert segments == [Segment(0, 3, 0.5 - 0.25 + 1.0 - 0.5)]


def test_a_segment_of_a_short_document_costs_less() -> None:
    short: dict[str, Any] = {"weights": [0.25, 1.0, 1.0], "boundaries": [1], "segment_cost": 1.0}

    segments = solve_exact([1.0, 0.5, 1.0], penalty=0.375, **short)
    # The documents weigh 0.25 and 2, so their segments cost 0.25 and 1 times the penalty.
    assert segments == [Segment(1, 3, 0.125 + 0.625 - 0.375), Segment(0, 1, 0.15625 - 0.09375)]
    # Part of a long document, of which these are all relevant chunks.
    segments = solve_exact(
        [1.0, 0.5, 1.0], penalty=0.375, document_weights=[9.0, 2.0, 2.0], **short
    )
    assert segments == [Segment(1, 3, 0.125 + 0.625 - 0.375)]


@pytest.mark.parametrize("penalty", [0.0, 0.2])
def test_exact_chooses_nothing_where_nothing_is_relevant(penalty: float) -> None:
    assert solve_exact([], penalty=penalty) == []
    assert solve_exact([0.0, 0.0, -0.0], penalty=penalty) == []
    assert solve_exact([penalty], penalty=penalty, segment_cost=0.0) == []
    assert solve_exact([], penalty=penalty, weights=[], boundaries=[0]) == []


def test_an_island_in_a_long_input_gives_what_it_gives_alone() -> None:
    offset = 123_456
    generator = np.random.default_rng(7)
    island = generator.choice([0.0, 1.0], 60) * generator.random(60)
    lengths = generator.integers(50, 150, 300_000)
    relevance = np.zeros(300_000)
    relevance[offset : offset + 60] = island
    far, near = [offset + 20, 250_000], [20]

    def moved(segments: list[Segment]) -> list[Segment]:
        return [Segment(s.start + offset, s.end + offset, s.value) for s in segments]

    segments = solve_exact(relevance, penalty=0.25, boundaries=far)
    expected = solve_exact(island, penalty=0.25, boundaries=near)
    assert len(expected) > 2
    assert segments == moved(expected)
    for budget in (700, 2_500, 10**9):
        segments = solve_budget(relevance, lengths, budget=budget, boundaries=far)
        expected = solve_budget(
            island, lengths[offset : offset + 60], budget=budget, boundaries=near
        )
        assert len(expected) > 2
        assert segments == moved(expected)


def test_results_are_plain_python_numbers() -> None:
    relevance = np.array([0.5, 0.0, 0.5], dtype=np.float32)
    lengths = np.array([2, 9, 2])

    segments = solve_exact(relevance, penalty=np.float64(0.125))
    segments += solve_budget(relevance, lengths, budget=np.int64(4))

    assert len(segments) == 4
    for segment in segments:
        assert [type(field) for field in segment] == [int, int, float]


def test_the_input_stays_as_it_was() -> None:
    relevance, weights = np.array([0.5, 0.0, 0.5]), np.array([1.0, 2.0, 1.0])

    solve_exact(relevance, penalty=0.125, weights=weights, boundaries=[1])
    solve_budget(relevance, weights, budget=2, boundaries=[1])

    assert relevance.tolist() == [0.5, 0.0, 0.5]
    assert weights.tolist() == [1.0, 2.0, 1.0]


@pytest.mark.parametrize("solver", ["exact", "budget"])
@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("penalty", -0.1),
        ("penalty", math.nan),
        ("penalty", math.inf),
        ("segment_cost", -0.1),
        ("segment_cost", "1"),
        ("boundaries", [3]),
        ("boundaries", [-1]),
        ("boundaries", [0.5]),
        ("boundaries", [math.nan]),
        ("relevance", [0.1, math.nan]),
        ("relevance", [math.inf, -math.inf]),
        ("relevance", [0.5, -0.1]),
        ("relevance", [[0.1, 0.1]]),
        ("relevance", 0.5),
        ("weights", [1.0]),
        ("weights", [[1.0, 1.0]]),
        ("weights", [1.0, 0.0]),
        ("weights", [1.0, -1.0]),
        ("weights", [1.0, math.inf]),
    ],
)
def test_errors_name_what_is_wrong(solver: str, argument: str, value: Any) -> None:
    arguments: dict[str, Any] = {"relevance": [0.5, 0.5], "penalty": 0.2, "weights": [1, 1]}
    arguments[argument] = value
    solve: Callable[..., Any] = solve_exact
    if solver == "budget":
        arguments["lengths"] = arguments.pop("weights")
        argument = argument.replace("weights", "lengths")
        solve = functools.partial(solve_budget, budget=2)

    with pytest.raises(ValueError, match=rf"^{argument} must "):
        solve(**arguments)


@pytest.mark.parametrize(
    ("document_lengths", "wrong"),
    [
        ([5, 5], "must have one number"),
        ([0, 0, 0], "must be above 0"),
        ([5, 4, 4], "must be the same for all chunks of a document; got .5. 4. 4.."),
    ],
)
def test_errors_name_wrong_document_lengths(document_lengths: list[int], wrong: str) -> None:
    with pytest.raises(ValueError, match=f"^document_lengths {wrong}"):
        solve_budget(
            [0.5] * 3, [1] * 3, budget=2, boundaries=[2], document_lengths=document_lengths
        )


@pytest.mark.parametrize("budget", [-1, math.nan, math.inf, "2", None])
def test_a_wrong_budget_is_an_error(budget: Any) -> None:
    with pytest.raises(ValueError, match=f"^budget must be a finite number of .*; got {budget!r}"):
        solve_budget([0.5], [1], budget=budget)
