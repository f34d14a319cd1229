from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import betainc

from langchain_rse.engine import RANK_RELEVANCE, Calibration, calibrate
from langchain_rse.engine.relevance import beta_cdf

METHODS: list[Calibration] = [
    "identity",
    "minmax",
    "rank",
    "cohere",
    "voyage",
]
SCORES = st.floats(-1e100, 1e100) | st.floats(-1e6, 1e6)


@given(
    x=st.lists(st.floats(0, 1), min_size=1, max_size=20),
    a=st.floats(0.1, 3),
    b=st.floats(0.1, 3),
)
def test_beta_cdf_equals_scipy(x: list[float], a: float, b: float) -> None:
    assert beta_cdf(np.array(x), a, b) == pytest.approx(betainc(a, b, x), abs=1e-12)


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("identity", [0.9, 0.5, 0.1]),
        ("minmax", [1.0, 0.5, 0.0]),
        ("rank", [0.8, 0.8, 0.8]),
        ("cohere", betainc(0.4, 0.4, [0.9, 0.5, 0.1])),
        ("voyage", betainc(0.5, 1.8, [0.9, 0.5, 0.1])),
    ],
)
def test_calibrate_by_each_method(method: Calibration, expected: list[float]) -> None:
    assert calibrate([0.9, 0.5, 0.1], method) == pytest.approx(expected)


def test_a_distance_is_turned_into_a_similarity() -> None:
    distances = [0.1, 0.4, 1.5]

    assert calibrate(distances, "identity") == pytest.approx([0.9, 0.6, 0.0])
    assert calibrate(distances, "cohere") == pytest.approx(betainc(0.4, 0.4, [0.9, 0.6, 0.0]))


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


@pytest.mark.parametrize("method", METHODS)
def test_no_candidates_give_no_relevance(method: Calibration) -> None:
    relevance = calibrate([], method)

    assert relevance.shape == (0,)
    assert relevance.dtype == np.float64


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
