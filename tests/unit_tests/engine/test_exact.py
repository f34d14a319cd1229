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
    weights_of,
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
        ("lengths", [1.0]),
        ("lengths", [[1.0, 1.0]]),
        ("lengths", [1.0, 0.0]),
        ("lengths", [1.0, -1.0]),
        ("lengths", [1.0, math.inf]),
    ],
)
def test_errors_name_what_is_wrong(argument: str, value: Any) -> None:
    arguments: dict[str, Any] = {"relevance": [0.5, 0.5], "penalty": 0.2, "lengths": [1, 1]}
    arguments[argument] = value

    with pytest.raises(ValueError, match=rf"^{argument} must "):
        rank_chunks(**arguments)


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


@pytest.mark.parametrize("scale", [1e-6, 1e6])
@given(problem=st.one_of(budget_problems(), distinct_problems()))
def test_the_units_of_lengths_and_relevance_do_not_matter(
    problem: dict[str, Any], scale: float
) -> None:
    expected = rank_chunks(**problem)
    problem["lengths"] = [length * scale for length in problem["lengths"]]
    by_lengths = rank_chunks(**problem)
    problem["relevance"] = [relevance * scale for relevance in problem["relevance"]]
    problem["penalty"] *= scale
    by_both = rank_chunks(**problem)

    order = list(expected.thresholds)
    assert list(by_lengths.thresholds) == list(by_both.thresholds) == order
    assert by_lengths.steps() == by_both.steps() == expected.steps()
    thresholds = [threshold * scale for threshold in expected.thresholds.values()]
    assert list(by_both.thresholds.values()) == pytest.approx(thresholds, rel=1e-9)


@pytest.mark.parametrize("segment_cost", [0.0, 0.1, 0.3])
def test_chunks_of_equal_threshold_are_taken_from_the_start(segment_cost: float) -> None:
    # Thirds of which sums are rounded; every second chunk is a document.
    relevance, lengths = [1 / 3] * 40, [100, 300] * 20

    ranking = rank_chunks(
        relevance, [300] * 40, segment_cost=segment_cost, boundaries=range(0, 40, 2)
    )
    assert list(ranking.thresholds) == list(range(40))
    ranking = rank_chunks(relevance, lengths, segment_cost=segment_cost, boundaries=range(0, 40, 2))
    assert len(set(ranking.thresholds.values())) == 1


def test_a_budget_that_cuts_into_a_segment_leaves_one_piece() -> None:
    # All three chunks have the threshold 0.4; the third gains most, then the one next to it.
    ranking = rank_chunks([0.4, 0.4, 0.5], [100] * 3)
    assert list(ranking.thresholds.items()) == [(2, 0.4), (1, 0.4), (0, 0.4)]
    assert [segment[:2] for segment in ranking.within(200)] == [(1, 3)]


def test_chunks_of_little_relevance_are_relevant() -> None:
    relevance = [1.0, 1e-18, 0.0, 1e-90, 1e-60]

    ranking = rank_chunks(relevance, [10] * 5, segment_cost=0.0)
    assert list(ranking.thresholds) == [0, 1, 4, 3]
    assert list(ranking.thresholds.values()) == pytest.approx([1.0, 1e-18, 1e-60, 1e-90])
    ranking = rank_chunks(relevance, [10] * 5, segment_cost=2.0)
    assert next(iter(ranking.thresholds)) == 0
    assert sorted(ranking.thresholds) == [0, 1, 2, 3, 4]


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


@pytest.mark.parametrize("size", [1e-300, 1.0, 1e290])
def test_huge_and_tiny_numbers_are_numbers(size: float) -> None:
    lengths = [size] * 3
    assert solve_budget([0.5, 0.6, 0.1], lengths, budget=2 * size) == [close_to(0, 2, 1.1)]
    assert solve_budget([0.5, 0.6, 0.1], lengths, budget=2 * size, segment_cost=1e300) == []


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
@given(budget_problems(), st.integers(0, 60))
def test_where_there_is_room_the_penalty_alone_decides(problem: dict[str, Any], room: int) -> None:
    exact = solve_without_budget(problem)

    segments = solve_budget(**problem, budget=total_length(exact, problem["lengths"]) + room)

    assert chunks_of(segments) == chunks_of(exact)
    assert math.fsum(s.value for s in segments) == pytest.approx(
        math.fsum(s.value for s in exact), rel=1e-9, abs=1e-12
    )


@given(budget_problems(), st.integers(0, 80), st.floats(0, 1))
def test_a_higher_penalty_only_takes_chunks_away(
    problem: dict[str, Any], budget: int, increase: float
) -> None:
    low = solve_budget(**problem, budget=budget)
    problem["penalty"] += increase
    high = solve_budget(**problem, budget=budget)

    assert chunks_of(high) <= chunks_of(low)


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


def test_a_chunk_gains_nothing_by_being_short() -> None:
    relevance, lengths = [0.5, 0.6], [1, 100]

    segments = solve_budget(relevance, lengths, budget=100, segment_cost=0.0, boundaries=[1])

    assert [(segment.start, segment.end) for segment in segments] == [(1, 2)]


def test_a_chunk_is_delayed_until_its_segment_is_worth_enough() -> None:
    # Each of the two chunks is worth less than a segment costs.
    ranking = rank_chunks([0.5, 0.5, 0.25], [2, 2, 4], penalty=0.25, segment_cost=1.0)

    assert list(ranking.thresholds) == [0, 1]
    assert ranking.steps() == [(0, 2)]
    assert ranking.steps(first=[1]) == [(1, 2), (0, 1)]


@given(st.one_of(budget_problems(), distinct_problems()))
def test_no_number_of_steps_makes_a_segment_worth_less_than_nothing(
    problem: dict[str, Any],
) -> None:
    ranking = rank_chunks(**problem)
    steps = ranking.steps()

    for count in range(len(steps) + 1):
        chunks = [chunk for step in steps[:count] for chunk in range(*step)]
        segments = ranking.segments(chunks)
        assert chunks_of(segments) == set(chunks) <= set(ranking.thresholds)
        assert all(segment.value >= -1e-9 for segment in segments)
    # In the end, nothing is left out that is worth enough.
    for segment in ranking.segments(ranking.thresholds):
        if segment.value >= 0:
            assert any(segment.start <= start and end <= segment.end for start, end in steps)


@given(distinct_problems(), st.data())
def test_first_chunks_are_the_first_steps(problem: dict[str, Any], data: st.DataObject) -> None:
    ranking = rank_chunks(**problem)
    chunks = st.sampled_from(range(len(problem["lengths"])))
    first = data.draw(st.lists(chunks, max_size=2, unique=True))

    steps = ranking.steps(first)

    assert steps[: len(first)] == [(chunk, chunk + 1) for chunk in first]
    taken = [chunk for step in steps for chunk in range(*step)]
    assert len(taken) == len(set(taken))
    assert set(taken) <= {*first, *ranking.thresholds}
