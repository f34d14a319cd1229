from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import betainc

from langchain_rse.engine import (
    RANK_RELEVANCE,
    Calibration,
    beta_cdf,
    calibrate,
    check_calibration,
    minmax,
    sigmoid,
)

METHODS: list[Calibration] = [
    "identity",
    "minmax",
    "sigmoid",
    "rank",
    "cohere",
    "voyage",
    "beta(2, 3.5)",
]
SCORES = st.floats(-1e100, 1e100) | st.floats(-1e6, 1e6)


@given(
    x=st.lists(st.floats(0, 1), min_size=1, max_size=20),
    a=st.floats(0.1, 50),
    b=st.floats(0.1, 50),
)
def test_beta_cdf_equals_scipy(x: list[float], a: float, b: float) -> None:
    assert beta_cdf(np.array(x), a, b) == pytest.approx(betainc(a, b, x), abs=1e-10)


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("identity", [0.9, 0.5, 0.1]),
        ("minmax", [1.0, 0.5, 0.0]),
        ("rank", [0.8, 0.8, 0.8]),
        ("sigmoid", [1 / (1 + math.exp(-x)) for x in (0.9, 0.5, 0.1)]),
        ("cohere", betainc(0.4, 0.4, [0.9, 0.5, 0.1])),
        ("voyage", betainc(0.5, 1.8, [0.9, 0.5, 0.1])),
        ("beta(0.5, 1.8)", betainc(0.5, 1.8, [0.9, 0.5, 0.1])),
        ("beta(2,1)", [0.81, 0.25, 0.01]),
        ("beta( 1.0 , 1 )", [0.9, 0.5, 0.1]),
    ],
)
def test_calibrate_by_each_method(method: str, expected: list[float]) -> None:
    assert calibrate([0.9, 0.5, 0.1], method) == pytest.approx(expected)


@given(st.lists(st.integers(-1000, 1000), min_size=1, max_size=20))
def test_distances_give_the_relevance_of_similarities(scores: list[int]) -> None:
    distances = sorted(scores)
    similarities = [-distance for distance in distances]

    assert calibrate(distances, "minmax") == pytest.approx(calibrate(similarities, "minmax"))


def test_a_distance_is_turned_into_a_similarity() -> None:
    distances = [0.1, 0.4, 1.5]

    assert calibrate(distances, "identity") == pytest.approx([0.9, 0.6, 0.0])
    assert calibrate(distances, "beta(2, 1)") == pytest.approx([0.81, 0.36, 0.0])
    assert calibrate(distances, "sigmoid") == pytest.approx(
        [1 / (1 + math.exp(x)) for x in distances]
    )


def test_negated_similarities_are_no_distances() -> None:
    assert calibrate([-0.9, -0.4, 0.2], "identity") == pytest.approx([0.9, 0.4, 0.0])
    assert calibrate([-0.9, -0.4, 0.2], "beta(2, 1)") == pytest.approx([0.81, 0.16, 0.0])
    # The distance of equal vectors, in single precision.
    assert calibrate([-1.2e-7, 0.4], "identity") == pytest.approx([1.0, 0.6])


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "scores",
    [
        [0.9, 0.1, 0.5],
        [0.1, 0.9, 0.5],
        [None, None],
        [0.9, None, 0.5],
        [0.9, math.nan, 0.5],
        [math.inf, 0.5],
        [0.5, -math.inf],
        [math.nan],
    ],
)
def test_scores_that_cannot_be_trusted_count_alike(
    scores: list[float | None], method: Calibration
) -> None:
    relevance = calibrate(scores, method)

    assert relevance.tolist() == [RANK_RELEVANCE] * len(scores)


def test_noise_of_single_precision_is_no_contradiction() -> None:
    scores = [0.9, 0.7 - 1e-8, 0.7, 0.1]

    assert calibrate(scores, "identity") == pytest.approx(scores)
    distances = [0.1, 0.7, 0.7 - 1e-8, 0.9]
    assert calibrate(distances, "identity") == pytest.approx([0.9, 0.3, 0.3, 0.1])


@pytest.mark.parametrize("method", METHODS)
def test_no_candidates_give_no_relevance(method: Calibration) -> None:
    relevance = calibrate([], method)

    assert relevance.shape == (0,)
    assert relevance.dtype == np.float64


@pytest.mark.parametrize(
    ("method", "expected"),
    [("minmax", 1.0), ("identity", 0.3), ("sigmoid", 0.5744), ("rank", 0.8)],
)
@pytest.mark.parametrize("count", [1, 3])
def test_one_candidate_or_several_of_one_score(method: str, expected: float, count: int) -> None:
    assert calibrate([0.3] * count, method) == pytest.approx([expected] * count, abs=1e-4)


def test_calibrate_leaves_the_scores_as_they_are() -> None:
    scores = np.array([0.1, 0.5])

    for method in METHODS:
        calibrate(scores, method)

    assert scores.tolist() == [0.1, 0.5]


def test_a_function_gets_scores_of_which_higher_is_better() -> None:
    seen: list[list[float]] = []

    def halve(scores: Any) -> list[float]:
        seen.append(scores.tolist())
        return [score / 2 + 0.5 for score in scores]

    assert calibrate([0.25, 0.5], halve) == pytest.approx([0.375, 0.25])
    assert calibrate([0.5, 0.25], halve) == pytest.approx([0.75, 0.625])
    assert seen == [[-0.25, -0.5], [0.5, 0.25]]


@pytest.mark.parametrize(
    "function",
    [
        lambda _: [0.5],
        lambda _: 0.5,
        lambda _: [[0.5, 0.5]],
        lambda _: [0.5, math.nan],
        lambda _: [0.5, math.inf],
    ],
)
def test_a_function_has_to_return_one_number_a_score(function: Callable[[Any], Any]) -> None:
    with pytest.raises(ValueError, match="must return one finite number for each of the 2 scores"):
        calibrate([0.9, 0.1], function)


@pytest.mark.parametrize(
    "method",
    [
        "",
        "Minmax",
        "softmax",
        "beta",
        "beta()",
        "beta(1)",
        "beta(1, 2, 3)",
        "beta(0, 1)",
        "beta(1, -1)",
        "beta(nan, 1)",
        "beta(1, inf)",
        "beta(a, b)",
        "beta(1, 2) ",
        "auto",
        None,
        3,
        ["minmax"],
    ],
)
def test_unknown_methods_are_refused(method: Any) -> None:
    for check in (check_calibration, lambda wrong: calibrate([0.9, 0.1], wrong)):
        with pytest.raises(
            ValueError, match=r"^calibration must be one of identity, minmax"
        ) as error:
            check(method)
        assert "'beta(a, b)' with positive a and b, or a function" in str(error.value)
        assert str(error.value).endswith(f"; got {method!r}")


def test_sigmoid_by_hand_and_far_out() -> None:
    logits = np.array([-1e308, -1000.0, -math.log(3), 0.0, math.log(3), 1000.0, 1e308])

    assert sigmoid(logits) == pytest.approx([0.0, 0.0, 0.25, 0.5, 0.75, 1.0, 1.0])


def test_minmax_by_hand() -> None:
    assert minmax(np.array([-1.8, 1.0, -0.4])) == pytest.approx([0.0, 1.0, 0.5])


@given(st.lists(SCORES, min_size=1, max_size=20), st.sampled_from(METHODS), st.booleans())
def test_relevance_lies_in_0_to_1_and_follows_the_order(
    scores: list[float],
    method: Calibration,
    is_distance: bool,  # noqa: FBT001
) -> None:
    relevance = calibrate(sorted(scores, reverse=not is_distance), method)

    assert relevance.shape == (len(scores),)
    assert ((relevance >= 0) & (relevance <= 1)).all()
    # The beta function is exact to 1e-12 only.
    assert (np.diff(relevance) <= 1e-12).all()
