"""The exact solver: one penalty, then budgets and the order in which they take chunks."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from langchain_rse.engine import Segment, exact, rank_chunks
from tests.unit_tests.engine.oracles import (
    budget_by_brute_force,
    exact_by_brute_force,
    exact_by_last_segments,
)
from tests.unit_tests.engine.problems import (
    COSTS,
    EXTREMES,
    FLOATS,
    TENTHS,
    budget_problem,
    budget_problems,
    check_solution,
    chunks_of,
    close_to,
    distinct_problems,
    exact_problem,
    exact_problems,
    size_of,
    solve_budget,
    solve_exact,
    solve_without_budget,
    total_length,
)


# A gap that costs what a new segment costs; a segment worth nothing; no penalty.
@example(exact_problem([1.0, 0.0, 1.0], segment_cost=1.0))
@example(exact_problem([0.5, 0.0, 0.5], segment_cost=1.0, boundaries=[1]))
@example(exact_problem([0.5], segment_cost=1.0))
@example(exact_problem([1.0, 0.25, 1.0], segment_cost=0.0))
@example(exact_problem([0.0, 1.0, 0.0, 1.0, 0.0], penalty=0.0, weights=[1.0, 1.0, 0.125, 1.0, 1.0]))
@example(exact_problem([0.0, 1.0, 0.0, 1.0, 0.0], penalty=0.0, segment_cost=4.0))
@given(exact_problems())
def test_exact_finds_the_best_and_of_equals_the_smallest(problem: dict[str, Any]) -> None:
    segments = solve_exact(**problem)

    check_solution(segments, **problem)
    expected = exact_by_brute_force(**problem)
    assert (sum(segment.value for segment in segments), size_of(segments, problem)) == expected


def test_exact_finds_the_best_of_all_choices_of_many_small_problems() -> None:
    generator = np.random.default_rng(5)
    for number in range(1_500):
        size = int(generator.integers(1, 9))
        relevance = generator.integers(0, 9, size) / 8
        if number % 3 == 0:
            relevance = generator.random(size).round(1)  # sums are rounded
        relevance[generator.random(size) < generator.choice([0.0, 0.3, 0.6])] = 0.0
        weights = np.ones(size) / generator.choice([1, 4])  # also documents shorter than a chunk
        if number % 2:
            weights = generator.integers(1, 17, size) / 8
        problem = exact_problem(
            relevance.tolist(),
            weights=weights.tolist(),
            penalty=generator.choice([0.0, 0.125, 0.25, 0.3, 0.5]),
            segment_cost=generator.choice([0.0, 0.125, 0.25, 1.0, 4.0, 1e9]),
            boundaries=generator.integers(0, size, generator.integers(0, 4)).tolist(),
        )

        segments = solve_exact(**problem)

        check_solution(segments, **problem)
        expected = exact_by_brute_force(**problem)
        value = math.fsum(segment.value for segment in segments)
        assert value == pytest.approx(expected.value, rel=1e-9, abs=1e-9)
        # The smallest of those: less text, then fewer segments.
        assert size_of(segments, problem) == pytest.approx(expected.size, rel=1e-9, abs=1e-9)


@given(st.sampled_from([TENTHS, FLOATS, EXTREMES]).flatmap(exact_problems))
def test_exact_finds_the_best_where_sums_are_rounded(problem: dict[str, Any]) -> None:
    segments = solve_exact(**problem)

    # Rounding makes near-ties; which solution is returned is left open, its value is not.
    check_solution(segments, **problem)
    value = math.fsum(segment.value for segment in segments)
    expected = exact_by_brute_force(**problem)
    assert value == pytest.approx(expected.value, rel=1e-9, abs=1e-12)


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


def test_exact_worked_value_two_good_chunks() -> None:
    relevance = [0.0, 0.0, 0.6, 1.0, 0.1]

    assert solve_exact(relevance, penalty=0.2, segment_cost=0.0) == [close_to(2, 4, 1.2)]
    assert solve_exact(relevance, penalty=0.2) == [close_to(2, 4, 1.15)]


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


@example(budget_problem([0.9, 0.0, 0.5], [10, 1, 10]), 11)
@example(budget_problem([0.9, 0.0, 0.5], [10, 1, 10]), 20)
@example(budget_problem([0.5, 0.5, 0.5], [1, 1, 1], boundaries=[1, 2]), 2)
@example(budget_problem([0.5, 0.5, 0.5], [1, 1, 1]), 2)
@example(budget_problem([1.0, 0.0, 0.0, 1.0], [1, 1, 1, 1], segment_cost=4.0), 3)
@example(budget_problem([1.0, 0.25, 1.0], [1, 1, 1], segment_cost=0.0, penalty=0.25), 3)
@example(budget_problem([1.0, 0.5, 0.5], [2, 9, 3]), 5)
@given(budget_problems(most=8), st.integers(0, 60))
def test_budget_chooses_by_the_smallest_penalty_that_fits(
    problem: dict[str, Any], budget: int
) -> None:
    segments = solve_budget(**problem, budget=budget)

    expected = budget_by_brute_force(**problem, budget=budget)
    assume(expected is not None)
    assert expected is not None
    assert expected.least <= chunks_of(segments) <= expected.most
    assert total_length(segments, problem["lengths"]) <= budget


@given(budget_problems(most=9, longest=5))
def test_a_larger_budget_only_adds_chunks_and_leaves_no_room(problem: dict[str, Any]) -> None:
    lengths = problem["lengths"]
    everything = sum(lengths)

    chosen = [chunks_of(solve_budget(**problem, budget=b)) for b in range(everything + 1)]

    assert chosen[0] == set()
    assert chosen[-1] == chunks_of(solve_without_budget(problem))
    for budget, (small, large) in enumerate(itertools.pairwise(chosen), start=1):
        # One unit more lets in at most one chunk: the one that needs just this unit.
        assert small <= large
        assert len(large - small) <= 1
        assert small == large or sum(lengths[index] for index in large) == budget


@given(st.one_of(budget_problems(), distinct_problems()), st.floats(0, 1.1))
def test_a_budget_takes_the_first_chunks_of_one_order(
    problem: dict[str, Any], share: float
) -> None:
    lengths = problem["lengths"]
    budget = share * sum(lengths)
    order = list(rank_chunks(**problem).thresholds)

    fitting = chunks_of(solve_budget(**problem, budget=budget))

    assert fitting == set(order[: len(fitting)])
    assert sum(lengths[chunk] for chunk in fitting) <= budget
    if len(fitting) < len(order):
        assert sum(lengths[chunk] for chunk in order[: len(fitting) + 1]) > budget


@pytest.mark.parametrize("segment_cost", [0.15, 4.0, 1000.0])
@pytest.mark.parametrize(
    "shape",
    [
        lambda part: np.full_like(part, 0.5),
        lambda part: part,
        lambda part: 1 - part,
        lambda part: 0.5 + abs(part - 0.5) / 1000,
        lambda part: 0.5 - abs(part - 0.5) / 1000,
        lambda part: 0.5 + 0.4 * np.sin(9 * part),
        lambda part: np.where(np.arange(part.size) % 2, 0.9, 0.1),
    ],
)
def test_time_is_in_proportion_to_the_number_of_chunks(
    shape: Callable[[Any], Any], segment_cost: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 2_000
    calls: list[bool] = []

    def counted(*arguments: Any) -> bool:
        calls.append(is_inside(*arguments))
        return calls[-1]

    is_inside = exact._is_inside
    monkeypatch.setattr(exact, "_is_inside", counted)
    relevance = shape(np.linspace(0, 1, count))

    ranking = rank_chunks(relevance, [10] * count, penalty=0.01, segment_cost=segment_cost)

    assert ranking.thresholds
    assert len(calls) < 10 * count


@given(distinct_problems(), st.floats(0, 1), st.randoms(use_true_random=False))
def test_the_order_of_documents_does_not_matter(
    problem: dict[str, Any], share: float, random: Any
) -> None:
    limits = sorted({0, len(problem["relevance"]), *problem["boundaries"]})
    documents = [range(start, end) for start, end in itertools.pairwise(limits)]
    random.shuffle(documents)
    order = list(itertools.chain(*documents))
    shuffled = {
        **problem,
        "relevance": [problem["relevance"][index] for index in order],
        "lengths": [problem["lengths"][index] for index in order],
        "boundaries": list(itertools.accumulate(len(document) for document in documents)),
    }
    budget = int(share * sum(problem["lengths"]))

    segments = solve_budget(**shuffled, budget=budget)

    expected = solve_budget(**problem, budget=budget)
    moved = [(order[segment.start], order[segment.end - 1] + 1) for segment in segments]
    assert sorted(moved) == sorted((segment.start, segment.end) for segment in expected)


@pytest.mark.parametrize(
    ("budget", "expected"),
    [
        (0, []),
        (9, []),
        (10, [(0, 1)]),
        (19, [(0, 1)]),
        (20, [(0, 1), (5, 6)]),
        (29.5, [(0, 1), (5, 6)]),
        (30, [(0, 1), (5, 6), (2, 3)]),
        (1e308, [(0, 1), (5, 6), (2, 3)]),
    ],
)
def test_budget_takes_the_most_relevant_first(
    budget: float, expected: list[tuple[int, int]]
) -> None:
    relevance = [0.9, 0.0, 0.5, 0.0, 0.0, 0.8]

    segments = solve_budget(relevance, [10] * 6, budget=budget)

    assert [(segment.start, segment.end) for segment in segments] == expected
    assert [s.value for s in segments] == pytest.approx([relevance[start] for start, _ in expected])


def test_a_chunk_is_delayed_until_its_segment_is_worth_enough() -> None:
    # Each of the two chunks is worth less than a segment costs.
    ranking = rank_chunks([0.5, 0.5, 0.25], [2, 2, 4], penalty=0.25, segment_cost=1.0)

    assert list(ranking.thresholds) == [0, 1]
    assert ranking.steps() == [(0, 2)]
    assert ranking.steps(first=[1]) == [(1, 2), (0, 1)]
