"""solve_budget, and the order in which a growing budget takes chunks."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from langchain_rse.engine import Segment, rank_chunks, solve_budget
from tests.unit_tests.engine.exact_oracles import budget_by_brute_force
from tests.unit_tests.engine.problems import (
    budget_problem,
    budget_problems,
    check_solution,
    chunks_of,
    close_to,
    distinct_problems,
    solve_without_budget,
    total_length,
    weights_of,
)


@example(budget_problem([0.9, 0.0, 0.5], [10, 1, 10]), 11)
@example(budget_problem([0.9, 0.0, 0.5], [10, 1, 10]), 20)
@example(budget_problem([0.5, 0.5, 0.5], [1, 1, 1], boundaries=[1, 2]), 2)
@example(budget_problem([0.5, 0.5, 0.5], [1, 1, 1]), 2)
@example(budget_problem([1.0, 0.0, 0.0, 1.0], [1, 1, 1, 1], segment_cost=4.0), 3)
@example(budget_problem([1.0, 0.25, 1.0], [1, 1, 1], segment_cost=0.0, penalty=0.25), 3)
@example(budget_problem([1.0, 0.5, 0.5], [2, 9, 3]), 5)
@settings(max_examples=60)
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


@settings(max_examples=40)
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


@settings(max_examples=60)
@given(
    st.one_of(budget_problems(), distinct_problems()),
    st.lists(st.floats(0, 1.1), min_size=2, max_size=6),
)
def test_the_order_of_chunks_does_not_depend_on_the_budget(
    problem: dict[str, Any], shares: list[float]
) -> None:
    lengths = problem["lengths"]
    whole = rank_chunks(**problem, budget=sum(lengths)).chunks

    for share in shares:
        budget = share * sum(lengths)
        ranking = rank_chunks(**problem, budget=budget)
        assert ranking.chunks == whole[: len(ranking.chunks)]
        # At least one chunk more than fits, if there is one.
        fitting = ranking.within(budget)
        assert sum(lengths[chunk] for chunk in fitting) <= budget
        assert len(ranking.chunks) > len(fitting) or fitting == whole


def test_the_order_does_not_depend_on_the_budget_where_numbers_are_far_apart() -> None:
    # Sums of the small numbers are rounded beside the large ones, and two chunks tie.
    relevance = [1.0, 1e-8, 9.999999999999999e-06, 1.0, 9.999999999999999e-06]
    lengths = [1000, 1, 1, 1, 100_000]

    whole = rank_chunks(relevance, lengths, budget=1e9, segment_cost=0.0).chunks

    assert sorted(whole) == [0, 1, 2, 3, 4]
    for budget in [1, 1001, 1002, 80_784, 82_467, 101_001, 101_002, 101_003]:
        chunks = rank_chunks(relevance, lengths, budget=budget, segment_cost=0.0).chunks
        assert chunks == whole[: len(chunks)]


@pytest.mark.parametrize("size", [1e-300, 1.0, 1e290])
def test_huge_and_tiny_numbers_are_numbers(size: float) -> None:
    lengths = [size] * 3
    assert solve_budget([0.5, 0.6, 0.1], lengths, budget=2 * size) == [close_to(0, 2, 1.1)]
    assert solve_budget([0.5, 0.6, 0.1], lengths, budget=2 * size, segment_cost=1e300) == []


@pytest.mark.parametrize("faint", [1e-12, 1e-16, 1e-40])
def test_faintly_relevant_chunks_come_last(faint: float) -> None:
    relevance = [0.5, faint, 0.0, faint, 0.6, 0.0, faint]

    def taken(budget: int) -> set[int]:
        return chunks_of(solve_budget(relevance, [1] * 7, budget=budget))

    assert taken(2) == {0, 4}
    assert taken(7) >= {0, 1, 3, 4, 6}
    assert len(taken(3)) == 3


@settings(max_examples=60)
@given(budget_problems(), st.integers(0, 120) | st.floats(0, 120))
def test_budget_gives_segments_that_fit(problem: dict[str, Any], budget: float) -> None:
    segments = solve_budget(**problem, budget=budget)

    relevance = problem["relevance"]
    lengths = problem["lengths"]
    weights = weights_of(relevance, lengths) if any(relevance) else lengths
    del problem["lengths"]
    check_solution(segments, weights=weights, **problem)
    assert total_length(segments, lengths) <= budget


@example(
    budget_problem(
        [1.0, 0.0, 0.0, 0.1, 0.1, 0.1, 0.1],
        [1, 1, 1, 1, 1, 1, 10],
        penalty=0.25,
        segment_cost=3.0,
        boundaries=[1],
    ),
    0,
)
@settings(max_examples=60)
@given(budget_problems(), st.integers(0, 60))
def test_where_there_is_room_the_penalty_alone_decides(problem: dict[str, Any], room: int) -> None:
    exact = solve_without_budget(problem)

    segments = solve_budget(**problem, budget=total_length(exact, problem["lengths"]) + room)

    assert chunks_of(segments) == chunks_of(exact)
    assert math.fsum(s.value for s in segments) == pytest.approx(
        math.fsum(s.value for s in exact), rel=1e-9, abs=1e-12
    )


@settings(max_examples=60)
@given(distinct_problems(), st.floats(0.01, 1))
def test_a_budget_that_a_higher_penalty_needs_gives_what_that_penalty_gives(
    problem: dict[str, Any], rate: float
) -> None:
    exact = solve_without_budget(problem, penalty=problem["penalty"] + rate)

    segments = solve_budget(**problem, budget=total_length(exact, problem["lengths"]))

    assert chunks_of(segments) == chunks_of(exact)


@settings(max_examples=60)
@given(budget_problems(), st.integers(0, 80), st.floats(0, 1))
def test_a_higher_penalty_only_takes_chunks_away(
    problem: dict[str, Any], budget: int, increase: float
) -> None:
    low = solve_budget(**problem, budget=budget)
    problem["penalty"] += increase
    high = solve_budget(**problem, budget=budget)

    assert chunks_of(high) <= chunks_of(low)


@example(
    budget_problem([1.25, 0.0, 1.25, 0.125], [1] * 4, penalty=0.125, segment_cost=0.59375), 0.5
)
@settings(max_examples=60)
@given(budget_problems(), st.floats(0, 1, exclude_max=True))
def test_where_the_budget_binds_the_penalty_changes_nothing(
    problem: dict[str, Any], share: float
) -> None:
    budget = share * total_length(solve_without_budget(problem), problem["lengths"])

    segments = solve_budget(**problem, budget=budget)

    problem["penalty"] = 0.0
    assert chunks_of(segments) == chunks_of(solve_budget(**problem, budget=budget))


@settings(max_examples=50)
@given(budget_problems(), st.integers(0, 80), st.integers(-20, 20))
def test_the_unit_of_length_does_not_matter(
    problem: dict[str, Any], budget: int, exponent: int
) -> None:
    segments = solve_budget(**problem, budget=budget)

    unit = 2.0**exponent
    problem["lengths"] = [length * unit for length in problem["lengths"]]
    assert solve_budget(**problem, budget=budget * unit) == segments


@settings(max_examples=60)
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


def test_budget_bridges_a_gap_where_a_new_segment_costs_more() -> None:
    relevance = [0.75, 0.0, 0.5, 0.0, 0.0]

    # In the mean relevant chunk, 20, the gap is half a chunk.
    lengths = [20, 10, 20, 10, 10]
    for budget, segment_cost, expected in [
        (50, 0.5625, [(0, 3, 1.25)]),
        (50, 0.4375, [(0, 1, 0.75), (2, 3, 0.5)]),
        (40, 0.4375, [(0, 1, 0.75), (2, 3, 0.5)]),
    ]:
        segments = solve_budget(relevance, lengths, budget=budget, segment_cost=segment_cost)
        assert segments == expected


def test_budget_values_segments_at_the_penalty() -> None:
    # A budget of 8 binds at a higher penalty; what segments are worth does not depend on it.
    segments = solve_budget([1.0, 0.5, 0.75], [4, 4, 4], budget=8, penalty=0.25, segment_cost=0.5)

    assert segments in ([Segment(0, 2, 0.875)], [Segment(0, 1, 0.625), Segment(2, 3, 0.375)])


def test_budget_leaves_out_what_is_below_the_penalty_whatever_the_room() -> None:
    segments = solve_budget([1.0, 0.0, 0.5], [4, 4, 4], budget=10**9, penalty=0.5)

    assert segments == [Segment(0, 1, 0.5 - 0.125)]


def test_a_chunk_gains_nothing_by_being_short() -> None:
    relevance, lengths = [0.5, 0.6], [1, 100]

    segments = solve_budget(relevance, lengths, budget=100, segment_cost=0.0, boundaries=[1])

    assert [(segment.start, segment.end) for segment in segments] == [(1, 2)]


@pytest.mark.parametrize("budget", [0, 0.5, 3, 3.999])
def test_a_budget_smaller_than_every_chunk_gives_nothing(budget: float) -> None:
    assert solve_budget([1.0, 0.5, 1.0], [4, 5, 6], budget=budget) == []


@pytest.mark.parametrize("budget", [0, 1, 100])
def test_budget_chooses_nothing_where_nothing_is_relevant(budget: int) -> None:
    assert solve_budget([], [], budget=budget, boundaries=[0]) == []
    assert solve_budget([0.0, -0.0, 0.0], [1, 2, 3], budget=budget) == []


def test_weights_are_lengths_in_the_mean_relevant_chunk() -> None:
    ranking = rank_chunks([0.5, 0.0, 0.7], [10, 40, 30], budget=100)

    assert ranking.weights.tolist() == [0.5, 2.0, 1.5]


def test_a_chunk_is_delayed_until_its_segment_is_worth_enough() -> None:
    ranking = rank_chunks([0.9, 0.0, 0.0, 0.7, 0.6], [1] * 5, budget=9, segment_cost=0.0)

    assert ranking.chunks == [0, 3, 4]
    assert ranking.steps(0.0) == [(0, 1), (3, 4), (4, 5)]
    assert ranking.steps(0.8) == [(0, 1), (3, 5)]
    assert ranking.steps(1.0) == [(3, 5)]
    assert ranking.steps(2.0) == []


@settings(max_examples=60)
@given(
    st.one_of(budget_problems(), distinct_problems()),
    st.sampled_from([0.0, 0.125, 0.5, 1.0, 2.5]),
)
def test_no_number_of_steps_makes_a_segment_worth_too_little(
    problem: dict[str, Any], minimum: float
) -> None:
    ranking = rank_chunks(**problem, budget=sum(problem["lengths"]))
    steps = ranking.steps(minimum)

    for count in range(len(steps) + 1):
        chunks = [chunk for step in steps[:count] for chunk in range(*step)]
        segments = ranking.segments(chunks)
        assert chunks_of(segments) == set(chunks) <= set(ranking.chunks)
        assert all(segment.value >= minimum - 1e-9 for segment in segments)
    # In the end, nothing is left out that is worth enough.
    for segment in ranking.segments(ranking.chunks):
        if segment.value >= minimum:
            assert any(segment.start <= start and end <= segment.end for start, end in steps)
