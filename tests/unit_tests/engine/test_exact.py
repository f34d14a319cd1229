from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from langchain_rse.engine import Segment, rank_chunks, solve_budget, solve_exact
from tests.unit_tests.engine.exact_oracles import (
    budget_by_brute_force,
    exact_by_brute_force,
    exact_by_last_segments,
    segment_costs,
)

# Eighths add up and multiply exactly, so ties are ties; tenths make ties but for rounding.
# Half of the chunks are not relevant.
EIGHTHS = st.integers(-8, 8).map(lambda n: max(n, 0) / 8)
TENTHS = st.integers(-10, 10).map(lambda n: max(n, 0) / 10)
FLOATS = st.floats(0, 2, allow_nan=False)
EXTREMES = st.sampled_from([0.0, -0.0, 1e-300, 5e-324, 1e300, 1.0])
COSTS = st.sampled_from([0.0, 0.125, 0.25, 0.5, 1.0, 1.5, 4.0])


def _close_to(start: int, end: int, value: float) -> Any:
    return (start, end, pytest.approx(value))


def _chunks(found: Sequence[Segment]) -> set[int]:
    return {index for segment in found for index in range(segment.start, segment.end)}


def _total(found: Sequence[Segment], lengths: Sequence[float]) -> float:
    return sum(lengths[index] for index in _chunks(found))


def _size(found: Sequence[Segment], problem: dict[str, Any]) -> float:
    costs = _costs(problem)
    return _total(found, problem["weights"]) + sum(costs[segment.start] for segment in found)


def _costs(problem: dict[str, Any]) -> list[float]:
    return segment_costs(problem["weights"], problem["segment_cost"], problem["boundaries"])


def _normalized(relevance: Sequence[float], lengths: Sequence[float]) -> Any:
    """The weights that a budgeted solution gives to chunks."""
    return np.array(lengths) / np.mean(np.array(lengths)[np.array(relevance) > 0])


def _check(
    found: Sequence[Segment],
    relevance: Sequence[float],
    weights: Sequence[float],
    *,
    penalty: float,
    segment_cost: float,
    boundaries: Sequence[int],
) -> None:
    """The segments are allowed, are worth what they say and are in order."""
    costs = segment_costs(weights, segment_cost, boundaries)
    for segment in found:
        assert 0 <= segment.start < segment.end <= len(relevance)
        assert not any(segment.start < border < segment.end for border in boundaries)
        inside = range(segment.start, segment.end)
        terms = [weights[index] * (relevance[index] - penalty) for index in inside]
        terms.append(-costs[segment.start] * penalty)
        scale = max(map(abs, terms))
        assert segment.value == pytest.approx(math.fsum(terms), rel=1e-9, abs=1e-12 * scale)
    for one, other in itertools.pairwise(sorted(found)):
        assert one.end < other.start or one.end in boundaries
    assert list(found) == sorted(found, key=lambda segment: (-segment.value, segment.start))


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


def _problem(relevance: list[float], **others: Any) -> dict[str, Any]:
    return {
        "relevance": relevance,
        "weights": [1.0] * len(relevance),
        "penalty": 0.25,
        "segment_cost": 0.25,
        "boundaries": [],
        **others,
    }


# A gap that costs what a new segment costs; a segment worth nothing; no penalty.
@example(_problem([1.0, 0.0, 1.0], segment_cost=1.0))
@example(_problem([0.5, 0.0, 0.5], segment_cost=1.0, boundaries=[1]))
@example(_problem([0.5], segment_cost=1.0))
@example(_problem([1.0, 0.25, 1.0], segment_cost=0.0))
@example(_problem([0.0, 1.0, 0.0, 1.0, 0.0], penalty=0.0, weights=[1.0, 1.0, 0.125, 1.0, 1.0]))
@example(_problem([0.0, 1.0, 0.0, 1.0, 0.0], penalty=0.0, segment_cost=4.0))
@settings(max_examples=120)
@given(exact_problems())
def test_exact_finds_the_best_and_of_equals_the_smallest(problem: dict[str, Any]) -> None:
    found = solve_exact(**problem)

    _check(found, **problem)
    expected = exact_by_brute_force(**problem)
    assert (sum(segment.value for segment in found), _size(found, problem)) == expected


@settings(max_examples=60)
@given(st.sampled_from([TENTHS, FLOATS, EXTREMES]).flatmap(exact_problems))
def test_exact_finds_the_best_where_sums_are_rounded(problem: dict[str, Any]) -> None:
    found = solve_exact(**problem)

    # Rounding makes near-ties; which one is found is left open, what it is worth is not.
    _check(found, **problem)
    value = math.fsum(segment.value for segment in found)
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
    problem = _problem(
        (generator.choice([0, 0, 0, 0, 1, 2, 3, 8], 120) / 8).tolist(),
        weights=(generator.integers(1, 17, 120) / 8).tolist(),
        penalty=penalty,
        segment_cost=segment_cost,
        boundaries=generator.integers(0, 120, 3).tolist(),
    )

    found = solve_exact(**problem)

    _check(found, **problem)
    expected = exact_by_last_segments(**problem)
    assert (sum(segment.value for segment in found), _size(found, problem)) == expected


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

    ones = [1.0] * len(problem["relevance"])
    assert solve_exact(**problem) == solve_exact(**problem, weights=ones)


@settings(max_examples=60)
@given(exact_problems(st.sampled_from([0.0, 0.0, 1.0])))
def test_without_penalty_only_small_gaps_are_chosen_with_what_is_relevant(
    problem: dict[str, Any],
) -> None:
    problem["penalty"] = 0.0
    relevance, weights = problem["relevance"], problem["weights"]

    found = solve_exact(**problem)

    assert {i for i, one in enumerate(relevance) if one > 0} <= _chunks(found)
    for segment in found:
        assert relevance[segment.start] > 0
        assert relevance[segment.end - 1] > 0
        gap = 0.0
        for index in range(segment.start, segment.end):
            gap = 0.0 if relevance[index] else gap + weights[index]
            assert gap <= problem["segment_cost"]


def test_exact_worked_value_two_good_chunks() -> None:
    relevance = [0.0, 0.0, 0.6, 1.0, 0.1]

    assert solve_exact(relevance, penalty=0.2, segment_cost=0.0) == [_close_to(2, 4, 1.2)]
    assert solve_exact(relevance, penalty=0.2) == [_close_to(2, 4, 1.15)]


def test_exact_bridges_a_bad_chunk_where_a_new_segment_costs_more() -> None:
    relevance = [0.1, 0.6, 0.7, 0.5, 0.0, 0.3, 0.8, 0.6, 0.0]

    bridged = solve_exact(relevance, penalty=0.2, segment_cost=2.0)
    assert bridged == [_close_to(1, 8, 2.1 - 0.4)]
    split = solve_exact(relevance, penalty=0.2, segment_cost=0.5)
    assert split == [_close_to(1, 4, 1.1), _close_to(5, 8, 1.0)]


def test_exact_worked_value_similarities_in_a_long_document() -> None:
    relevance = np.zeros(40)
    relevance[[23, 31, 24, 11, 25]] = [1.09, 1.04, 1.01, 0.92, 0.88]

    assert solve_exact(relevance, penalty=0.2) == [
        _close_to(23, 26, 2.38 - 0.05),
        _close_to(31, 32, 0.84 - 0.05),
        _close_to(11, 12, 0.72 - 0.05),
    ]


def test_exact_orders_by_value_then_position() -> None:
    found = solve_exact([0.5, 0.0, 1.0, 0.0, 0.5], penalty=0.125, segment_cost=0.0)

    assert found == [Segment(2, 3, 0.875), Segment(0, 1, 0.375), Segment(4, 5, 0.375)]


def test_exact_weighs_chunks() -> None:
    relevance, weights = [1.0, 0.0, 1.0, 0.5], [1.0, 0.5, 2.0, 4.0]

    found = solve_exact(relevance, weights=weights, penalty=0.5, segment_cost=1.0)

    # The gap costs 0.25 and a second segment 0.5. The last chunk is worth nothing.
    assert found == [Segment(0, 3, 0.5 - 0.25 + 1.0 - 0.5)]


def test_a_segment_of_a_short_document_costs_less() -> None:
    short: dict[str, Any] = {"weights": [0.25, 1.0, 1.0], "boundaries": [1], "segment_cost": 1.0}

    found = solve_exact([1.0, 0.5, 1.0], penalty=0.375, **short)
    # The documents weigh 0.25 and 2, so their segments cost 0.25 and 1 times the penalty.
    assert found == [Segment(1, 3, 0.125 + 0.625 - 0.375), Segment(0, 1, 0.15625 - 0.09375)]
    # Part of a long document, of which these are all relevant chunks.
    found = solve_exact([1.0, 0.5, 1.0], penalty=0.375, document_weights=[9.0, 2.0, 2.0], **short)
    assert found == [Segment(1, 3, 0.125 + 0.625 - 0.375)]


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

    found = solve_exact(relevance, penalty=0.25, boundaries=far)
    expected = solve_exact(island, penalty=0.25, boundaries=near)
    assert len(expected) > 2
    assert found == moved(expected)
    for budget in (700, 2_500, 10**9):
        found = solve_budget(relevance, lengths, budget=budget, boundaries=far)
        expected = solve_budget(
            island, lengths[offset : offset + 60], budget=budget, boundaries=near
        )
        assert len(expected) > 2
        assert found == moved(expected)


def test_results_are_plain_python_numbers() -> None:
    relevance = np.array([0.5, 0.0, 0.5], dtype=np.float32)

    for found in (
        solve_exact(relevance, penalty=np.float64(0.125)),
        solve_budget(relevance, np.array([2, 9, 2]), budget=np.int64(4)),
    ):
        assert [[type(field) for field in segment] for segment in found] == [[int, int, float]] * 2


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


def _without_budget(problem: dict[str, Any], penalty: float | None = None) -> list[Segment]:
    """The solution if there were no budget."""
    if not any(problem["relevance"]):
        return []
    # Lengths as they are, so that ties are ties here as well.
    unit = float(np.mean(np.array(problem["lengths"])[np.array(problem["relevance"]) > 0]))
    limits = sorted({0, len(problem["lengths"]), *problem["boundaries"]})
    documents = [
        sum(problem["lengths"][start:end]) / unit
        for start, end in itertools.pairwise(limits)
        for _ in range(start, end)
    ]
    found = solve_exact(
        problem["relevance"],
        penalty=problem["penalty"] if penalty is None else penalty,
        weights=problem["lengths"],
        segment_cost=problem["segment_cost"] * unit,
        boundaries=problem["boundaries"],
        document_weights=documents,
    )
    return [segment._replace(value=segment.value / unit) for segment in found]


def _budget_problem(relevance: list[float], lengths: list[int], **others: Any) -> dict[str, Any]:
    return {
        "relevance": relevance,
        "lengths": lengths,
        "penalty": 0.0,
        "segment_cost": 0.25,
        "boundaries": [],
        **others,
    }


@example(_budget_problem([0.9, 0.0, 0.5], [10, 1, 10]), 11)
@example(_budget_problem([0.9, 0.0, 0.5], [10, 1, 10]), 20)
@example(_budget_problem([0.5, 0.5, 0.5], [1, 1, 1], boundaries=[1, 2]), 2)
@example(_budget_problem([0.5, 0.5, 0.5], [1, 1, 1]), 2)
@example(_budget_problem([1.0, 0.0, 0.0, 1.0], [1, 1, 1, 1], segment_cost=4.0), 3)
@example(_budget_problem([1.0, 0.25, 1.0], [1, 1, 1], segment_cost=0.0, penalty=0.25), 3)
@example(_budget_problem([1.0, 0.5, 0.5], [2, 9, 3]), 5)
@settings(max_examples=60)
@given(budget_problems(most=8), st.integers(0, 60))
def test_budget_chooses_by_the_smallest_penalty_that_fits(
    problem: dict[str, Any], budget: int
) -> None:
    found = solve_budget(**problem, budget=budget)

    expected = budget_by_brute_force(**problem, budget=budget)
    assume(expected is not None)
    assert expected is not None
    assert expected.least <= _chunks(found) <= expected.most
    assert _total(found, problem["lengths"]) <= budget


@settings(max_examples=40)
@given(budget_problems(most=9, longest=5))
def test_a_larger_budget_only_adds_chunks_and_leaves_no_room(problem: dict[str, Any]) -> None:
    lengths = problem["lengths"]
    everything = sum(lengths)

    chosen = [_chunks(solve_budget(**problem, budget=b)) for b in range(everything + 1)]

    assert chosen[0] == set()
    assert chosen[-1] == _chunks(_without_budget(problem))
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
    assert solve_budget([0.5, 0.6, 0.1], lengths, budget=2 * size) == [_close_to(0, 2, 1.1)]
    assert solve_budget([0.5, 0.6, 0.1], lengths, budget=2 * size, segment_cost=1e300) == []


@pytest.mark.parametrize("faint", [1e-12, 1e-16, 1e-40])
def test_faintly_relevant_chunks_come_last(faint: float) -> None:
    relevance = [0.5, faint, 0.0, faint, 0.6, 0.0, faint]

    def taken(budget: int) -> set[int]:
        return _chunks(solve_budget(relevance, [1] * 7, budget=budget))

    assert taken(2) == {0, 4}
    assert taken(7) >= {0, 1, 3, 4, 6}
    assert len(taken(3)) == 3


@settings(max_examples=60)
@given(budget_problems(), st.integers(0, 120) | st.floats(0, 120))
def test_budget_gives_segments_that_fit(problem: dict[str, Any], budget: float) -> None:
    found = solve_budget(**problem, budget=budget)

    relevance, lengths = problem["relevance"], problem["lengths"]
    weights = _normalized(relevance, lengths) if any(relevance) else lengths
    _check(found, weights=weights, **{k: v for k, v in problem.items() if k != "lengths"})
    assert _total(found, lengths) <= budget


@settings(max_examples=60)
@given(budget_problems(), st.integers(0, 60))
def test_where_there_is_room_the_penalty_alone_decides(problem: dict[str, Any], room: int) -> None:
    exact = _without_budget(problem)

    found = solve_budget(**problem, budget=_total(exact, problem["lengths"]) + room)

    assert _chunks(found) == _chunks(exact)
    assert math.fsum(s.value for s in found) == pytest.approx(
        math.fsum(s.value for s in exact), rel=1e-9, abs=1e-12
    )


@settings(max_examples=60)
@given(distinct_problems(), st.floats(0.01, 1))
def test_a_budget_that_a_higher_penalty_needs_gives_what_that_penalty_gives(
    problem: dict[str, Any], rate: float
) -> None:
    exact = _without_budget(problem, penalty=problem["penalty"] + rate)

    found = solve_budget(**problem, budget=_total(exact, problem["lengths"]))

    assert _chunks(found) == _chunks(exact)


@settings(max_examples=60)
@given(budget_problems(), st.integers(0, 80), st.floats(0, 1))
def test_a_higher_penalty_only_takes_chunks_away(
    problem: dict[str, Any], budget: int, more: float
) -> None:
    low = solve_budget(**problem, budget=budget)
    problem["penalty"] += more
    high = solve_budget(**problem, budget=budget)

    assert _chunks(high) <= _chunks(low)


@example(
    _budget_problem([1.25, 0.0, 1.25, 0.125], [1] * 4, penalty=0.125, segment_cost=0.59375), 0.5
)
@settings(max_examples=60)
@given(budget_problems(), st.floats(0, 1, exclude_max=True))
def test_where_the_budget_binds_the_penalty_changes_nothing(
    problem: dict[str, Any], share: float
) -> None:
    budget = share * _total(_without_budget(problem), problem["lengths"])

    found = solve_budget(**problem, budget=budget)

    problem["penalty"] = 0.0
    assert _chunks(found) == _chunks(solve_budget(**problem, budget=budget))


@settings(max_examples=50)
@given(budget_problems(), st.integers(0, 80), st.integers(-20, 20))
def test_the_unit_of_length_does_not_matter(
    problem: dict[str, Any], budget: int, exponent: int
) -> None:
    found = solve_budget(**problem, budget=budget)

    unit = 2.0**exponent
    problem["lengths"] = [length * unit for length in problem["lengths"]]
    assert solve_budget(**problem, budget=budget * unit) == found


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

    found = solve_budget(**shuffled, budget=budget)

    expected = solve_budget(**problem, budget=budget)
    moved = [(order[segment.start], order[segment.end - 1] + 1) for segment in found]
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

    found = solve_budget(relevance, [10] * 6, budget=budget)

    assert [(segment.start, segment.end) for segment in found] == expected
    assert [s.value for s in found] == pytest.approx([relevance[start] for start, _ in expected])


def test_budget_bridges_a_gap_where_a_new_segment_costs_more() -> None:
    relevance = [0.75, 0.0, 0.5, 0.0, 0.0]

    # In the mean relevant chunk, 20, the gap is half a chunk.
    lengths = [20, 10, 20, 10, 10]
    for budget, segment_cost, expected in [
        (50, 0.5625, [(0, 3, 1.25)]),
        (50, 0.4375, [(0, 1, 0.75), (2, 3, 0.5)]),
        (40, 0.4375, [(0, 1, 0.75), (2, 3, 0.5)]),
    ]:
        found = solve_budget(relevance, lengths, budget=budget, segment_cost=segment_cost)
        assert found == expected


def test_budget_values_segments_at_the_penalty() -> None:
    # A budget of 8 binds at a higher penalty; what segments are worth does not depend on it.
    found = solve_budget([1.0, 0.5, 0.75], [4, 4, 4], budget=8, penalty=0.25, segment_cost=0.5)

    assert found in ([Segment(0, 2, 0.875)], [Segment(0, 1, 0.625), Segment(2, 3, 0.375)])


def test_budget_leaves_out_what_is_below_the_penalty_whatever_the_room() -> None:
    found = solve_budget([1.0, 0.0, 0.5], [4, 4, 4], budget=10**9, penalty=0.5)

    assert found == [Segment(0, 1, 0.5 - 0.125)]


def test_a_chunk_gains_nothing_by_being_short() -> None:
    relevance, lengths = [0.5, 0.6], [1, 100]

    found = solve_budget(relevance, lengths, budget=100, segment_cost=0.0, boundaries=[1])

    assert [(segment.start, segment.end) for segment in found] == [(1, 2)]


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


def test_a_chunk_is_held_back_until_its_segment_is_worth_enough() -> None:
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
        assert _chunks(segments) == set(chunks) <= set(ranking.chunks)
        assert all(segment.value >= minimum - 1e-9 for segment in segments)
    # In the end, nothing is left out that is worth enough.
    for segment in ranking.segments(ranking.chunks):
        if segment.value >= minimum:
            assert any(segment.start <= start and end <= segment.end for start, end in steps)
