from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from scipy.special import betainc

from langchain_rse.config import RSEConfig
from langchain_rse.scoring import (
    RANK_RELEVANCE,
    Calibration,
    beta_cdf,
    calibrate,
    check_calibration,
    chunk_values,
    fuse_decay,
    fuse_mean,
    length_weights,
    lexical_scores,
    minmax,
    neighbor_credit,
    sharpen,
    sigmoid,
)
from langchain_rse.selection import relevance_of

METHODS: list[Calibration] = [
    "auto",
    "identity",
    "minmax",
    "sigmoid",
    "rank",
    "cohere",
    "voyage",
    "beta(2, 3.5)",
]
FINITE = st.floats(allow_nan=False, allow_infinity=False)
SCORES = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20)
# Few letters, so that words occur again, and every kind of character between them.
ASCII = st.sampled_from([*"abAB01_", *map(chr, range(128))])


@given(
    x=st.lists(st.floats(0, 1), min_size=1, max_size=20),
    a=st.floats(0.1, 50),
    b=st.floats(0.1, 50),
)
def test_beta_cdf_equals_scipy(x: list[float], a: float, b: float) -> None:
    assert beta_cdf(np.array(x), a, b) == pytest.approx(betainc(a, b, x), abs=1e-10)


def test_beta_cdf_by_hand() -> None:
    x = np.array([0.0, 0.25, 0.5, 1.0])

    assert beta_cdf(x, 1, 1) == pytest.approx(x)
    assert beta_cdf(x, 2, 1) == pytest.approx(x**2)
    assert beta_cdf(x, 1, 3) == pytest.approx(1 - (1 - x) ** 3)
    assert beta_cdf(x, 0.5, 0.5) == pytest.approx(2 / math.pi * np.arcsin(np.sqrt(x)))
    assert beta_cdf(np.array([0.5]), 0.4, 0.4) == pytest.approx([0.5])


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("identity", [0.9, 0.5, 0.1]),
        ("minmax", [1.0, 0.5, 0.0]),
        ("auto", [1.0, 0.5, 0.0]),
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


@pytest.mark.parametrize(
    ("reranker", "equal_to"),
    [
        ("CohereRerank", "cohere"),
        ("VoyageAIRerank", "voyage"),
        ("FlashrankRerank", "minmax"),
        ("", "minmax"),
        (None, "minmax"),
    ],
)
def test_auto_knows_the_rerankers(reranker: str | None, equal_to: str) -> None:
    scores = [0.97, 0.6, 0.03]

    assert calibrate(scores, "auto", reranker=reranker) == pytest.approx(
        calibrate(scores, equal_to)
    )


def test_a_named_method_wins_over_the_reranker() -> None:
    assert calibrate([0.9, 0.1], "identity", reranker="CohereRerank") == pytest.approx([0.9, 0.1])


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


def test_similarities_outside_their_range_are_limited() -> None:
    assert calibrate([1.7, 0.5, -0.8], "identity") == pytest.approx([1.0, 0.5, 0.0])
    assert calibrate([1.7, 0.5, -0.8], "cohere") == pytest.approx([1.0, 0.5, 0.0])


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


@pytest.mark.parametrize("method", ["identity", "beta(1, 1)"])
@pytest.mark.parametrize("scores", [[0.3, 0.3 + 1e-9], [0.3, 0.3, 0.3 + 1e-9]])
def test_equal_scores_with_noise_are_equal_similarities(scores: list[float], method: str) -> None:
    assert calibrate(scores, method) == pytest.approx([0.3] * len(scores))


@pytest.mark.parametrize("method", METHODS)
def test_no_candidates_give_no_relevance(method: Calibration) -> None:
    relevance = calibrate([], method)

    assert relevance.shape == (0,)
    assert relevance.dtype == np.float64


@pytest.mark.parametrize(
    ("method", "expected"),
    [("auto", 1.0), ("minmax", 1.0), ("identity", 0.3), ("sigmoid", 0.5744), ("rank", 0.8)],
)
@pytest.mark.parametrize("count", [1, 3])
def test_one_candidate_or_several_of_one_score(method: str, expected: float, count: int) -> None:
    assert calibrate([0.3] * count, method) == pytest.approx([expected] * count, abs=1e-4)


def test_scores_may_be_an_array_or_whole_numbers() -> None:
    assert calibrate(np.array([3, 2, 1], dtype=np.float32)).tolist() == [1.0, 0.5, 0.0]
    assert calibrate([3, 2, 1]).tolist() == [1.0, 0.5, 0.0]


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


def test_what_a_function_returns_is_limited() -> None:
    assert calibrate([3.0, -3.0], lambda scores: scores).tolist() == [1.0, 0.0]


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


def test_errors_of_a_function_pass_through() -> None:
    def fails(_: Any) -> list[float]:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        calibrate([0.9, 0.1], fails)


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
        None,
        3,
        ["auto"],
    ],
)
def test_unknown_methods_are_refused(method: Any) -> None:
    for check in (check_calibration, lambda wrong: calibrate([0.9, 0.1], wrong)):
        with pytest.raises(
            ValueError, match=r"^calibration must be one of auto, .*minmax"
        ) as error:
            check(method)
        assert "'beta(a, b)' with positive a and b, or a function" in str(error.value)
        assert str(error.value).endswith(f"; got {method!r}")


@pytest.mark.parametrize("method", [*METHODS, len])
def test_known_methods_come_back(method: Calibration) -> None:
    assert check_calibration(method) is method


def test_sigmoid_by_hand_and_far_out() -> None:
    logits = np.array([-1e308, -1000.0, -math.log(3), 0.0, math.log(3), 1000.0, 1e308])

    assert sigmoid(logits) == pytest.approx([0.0, 0.0, 0.25, 0.5, 0.75, 1.0, 1.0])


def test_minmax_by_hand() -> None:
    assert minmax(np.array([-1.8, 1.0, -0.4])) == pytest.approx([0.0, 1.0, 0.5])


@example(scores=[1.7e308, 0.0, -1.7e308], method="minmax", is_distance=False)
@given(st.lists(FINITE, min_size=1, max_size=20), st.sampled_from(METHODS), st.booleans())
def test_relevance_lies_in_0_to_1_whatever_the_scores(
    scores: list[float],
    method: Calibration,
    is_distance: bool,  # noqa: FBT001
) -> None:
    relevance = calibrate(sorted(scores, reverse=not is_distance), method)

    assert relevance.shape == (len(scores),)
    assert ((relevance >= 0) & (relevance <= 1)).all()


@given(SCORES, st.sampled_from(METHODS), st.booleans())
def test_a_better_rank_has_at_least_the_relevance_of_a_worse_one(
    scores: list[float],
    method: Calibration,
    is_distance: bool,  # noqa: FBT001
) -> None:
    ranked = sorted(scores, reverse=not is_distance)

    for rank_fusion in ("decay", "mean"):
        config = RSEConfig(calibration=method, rank_fusion=rank_fusion)
        relevance = relevance_of(ranked, config)
        assert ((relevance >= 0) & (relevance <= 1)).all()
        # The beta function is exact to 1e-12 only.
        assert (np.diff(relevance) <= 1e-12).all()


def test_fuse_decay_by_hand() -> None:
    fused = fuse_decay(np.array([1.0, 1.0, 0.5]), [0, 30, 60], decay_rate=30)

    assert fused == pytest.approx([1.0, math.exp(-1), 0.5 * math.exp(-2)])


def test_fuse_mean_by_hand() -> None:
    assert fuse_mean(np.array([1.0, 0.5, 0.25, 0.0]), range(4), count=4) == pytest.approx(
        [1.0, 0.625, 0.375, 0.125]
    )
    assert fuse_mean(np.array([]), [], count=0).shape == (0,)


def test_relevance_of_follows_the_config() -> None:
    scores = [0.9, 0.5, 0.1]
    mean = RSEConfig(calibration="identity", rank_fusion="mean")
    decay = RSEConfig(calibration="auto", rank_fusion="decay", decay_rate=2)
    plain = decay.replace(contrast=1)

    assert relevance_of(scores, mean) == pytest.approx([0.95, (0.5 + 2 / 3) / 2, (0.1 + 1 / 3) / 2])
    assert relevance_of(scores, decay) == pytest.approx([1.0, 0.5 * math.exp(-0.5), 0.0])
    fused = np.exp([0, -0.5, -1]) * betainc(0.4, 0.4, scores)
    assert relevance_of(scores, plain, reranker="CohereRerank") == pytest.approx(fused)
    assert relevance_of(scores, decay, reranker="CohereRerank") == pytest.approx(
        sharpen(fused, contrast=3)
    )
    assert relevance_of([], mean).shape == (0,)


def test_sharpen_by_hand() -> None:
    # The odds of 0.4 are 2/3; those of 0.5 are 1.5 times that, those of 0.25 half of it.
    sharpened = sharpen(np.array([0.0, 0.25, 0.4, 0.5, 1.0]), contrast=3)

    below, above = 2 / 3 / 8, 2 / 3 * 1.5**3
    assert sharpened == pytest.approx([0, below / (1 + below), 0.4, above / (1 + above), 1])
    assert sharpened[[0, -1]].tolist() == [0, 1]


@given(
    arrays(np.float64, st.integers(0, 9), elements=st.floats(0, 1)),
    st.sampled_from([1e-3, 0.5, 1.0, 3.0, 1e6]),
)
def test_sharpened_relevances_keep_their_order_and_their_side(
    relevance: NDArray[np.float64], contrast: float
) -> None:
    sharpened = sharpen(relevance, contrast=contrast)

    assert ((sharpened >= 0) & (sharpened <= 1)).all()
    assert (np.diff(sharpened[np.argsort(relevance)]) >= -1e-12).all()
    if contrast == 1:
        assert sharpened.tolist() == relevance.tolist()
    if contrast > 1:
        assert (sharpened[relevance > 0.4] >= relevance[relevance > 0.4] - 1e-12).all()
        assert (sharpened[relevance < 0.4] <= relevance[relevance < 0.4] + 1e-12).all()


def test_lexical_scores_by_hand() -> None:
    # 2 of 3 texts have "red", 1 of 3 "fox"; 3, 2 and 2 words, 7/3 on average.
    red, fox = math.log(1 + 1.5 / 2.5), math.log(1 + 2.5 / 1.5)

    def saturated(count: int, words: int) -> float:
        return count * 2.2 / (count + 1.2 * (0.25 + 0.75 * words / (7 / 3)))

    scores = lexical_scores("Red, red fox?", ["the red fox", "red-red", "a dog"])

    assert scores == pytest.approx([saturated(1, 3) * (red + fox), saturated(2, 2) * red, 0])


@given(st.text(ASCII, max_size=20), st.lists(st.text(ASCII, max_size=30), min_size=1, max_size=4))
def test_words_are_the_same_whatever_else_stands_in_a_text(query: str, texts: list[str]) -> None:
    # Plain ASCII is taken apart in another way than what is not.
    plain, other = (lexical_scores(query, [text + end for text in texts]) for end in (" ...", " …"))
    assert plain.tolist() == other.tolist()


def test_lexical_scores_follow_their_parameters() -> None:
    texts = ["red", "red red red", "red and three other words", "dog"]
    rare = math.log(1 + 1.5 / 3.5)

    assert lexical_scores("red", texts, k1=0) == pytest.approx([rare, rare, rare, 0])
    once, thrice, long, _ = lexical_scores("red", texts, b=0)
    assert once == pytest.approx(rare)
    assert long == once
    assert thrice == pytest.approx(rare * 3 * 2.2 / 4.2)
    assert lexical_scores("red", ["red", ""], b=1)[1] == 0


@pytest.mark.parametrize(
    ("query", "texts"),
    [
        ("red fox", ["reds", "foxes", "a dog"]),
        ("red fox", ["", " \n", "?!"]),
        ("red fox", []),
        ("", ["red", ""]),
        ("?!", ["?!", "red"]),
        ("fox", ["лиса", "狐"]),
    ],
)
def test_no_word_in_common_gives_no_score(query: str, texts: list[str]) -> None:
    assert lexical_scores(query, texts).tolist() == [0.0] * len(texts)


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("fox", "FOX."),
        ("ÉTÉ", "l'été"),
        ("ЛИСА", "лиса бежит"),
        ("שועל", "זה שועל"),
        ("狐", "「狐」"),
        ("كلمة", "كلمة أخرى"),
        ("item_7", "ITEM_7"),
    ],
)
def test_words_of_any_script_and_case_count(query: str, text: str) -> None:
    match, other = lexical_scores(query, [text, "something else"])

    assert match > 0
    assert other == 0


TEXTS = st.lists(st.sampled_from(["red", "fox", "dog", "Red", "."]), max_size=6).map(" ".join)


@given(st.lists(TEXTS, max_size=8), st.data())
def test_the_order_of_texts_only_permutes_their_scores(
    texts: list[str], data: st.DataObject
) -> None:
    order = data.draw(st.permutations(range(len(texts))))

    scores = lexical_scores("red fox", texts)

    assert (scores >= 0).all()
    assert lexical_scores("red fox", [texts[i] for i in order]).tolist() == scores[order].tolist()


def test_lexical_scores_are_the_same_in_every_process() -> None:
    """Down to the last digit, whatever the order of sets of strings there."""
    program = (
        "from langchain_rse.scoring import lexical_scores\n"
        "words = 'alpha beta gamma delta epsilon zeta'\n"
        "texts = [words, 'alpha alpha beta', 'gamma delta x y z', 'epsilon beta zeta']\n"
        "print(lexical_scores(words, texts).tolist())"
    )

    printed = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }

    assert len(printed) == 1


def test_neighbor_credit_by_hand() -> None:
    relevance = np.array([0.0, 0.8, 0.0, 0.4, 0.0, 0.0])

    one = neighbor_credit(relevance, credit=0.5, radius=1)
    two = neighbor_credit(relevance, credit=0.5, radius=2)

    between = 1 - (1 - 0.5 * 0.8) * (1 - 0.5 * 0.4)
    assert one == pytest.approx([0.4, 0.8, between, 0.4, 0.2, 0.0])
    assert two == pytest.approx(
        [0.4, 1 - 0.2 * (1 - 0.25 * 0.4), between, 1 - 0.6 * (1 - 0.25 * 0.8), 0.2, 0.1]
    )


SHARES = st.floats(0, 1)
RELEVANCES = arrays(np.float64, st.tuples(st.integers(1, 3), st.integers(0, 7)), elements=SHARES)


@given(RELEVANCES, SHARES, st.integers(0, 9))
def test_neighbor_credit_equals_its_definition(relevance: Any, credit: float, radius: int) -> None:
    count = relevance.shape[1]
    expected = [
        [
            1
            - math.prod(
                1 - credit ** abs(k) * row[i + k]
                for k in range(-radius, radius + 1)
                if 0 <= i + k < count
            )
            for i in range(count)
        ]
        for row in relevance.tolist()
    ]

    credited = neighbor_credit(relevance, credit=credit, radius=radius)

    assert credited == pytest.approx(np.array(expected).reshape(relevance.shape), abs=1e-12)
    assert (credited >= relevance).all()
    assert (credited <= 1).all()
    for row, alone in zip(relevance, credited, strict=True):
        assert neighbor_credit(row, credit=credit, radius=radius).tolist() == alone.tolist()


@given(RELEVANCES, SHARES, st.integers(0, 9))
def test_no_credit_changes_nothing(relevance: Any, credit: float, radius: int) -> None:
    before = relevance.tolist()

    assert neighbor_credit(relevance, credit=credit, radius=0).tolist() == before
    assert neighbor_credit(relevance, credit=0.0, radius=radius).tolist() == before
    neighbor_credit(relevance, credit=1.0, radius=2)
    assert relevance.tolist() == before


def test_length_weights_in_both_forms() -> None:
    lengths = [0, 350, 700, 1400]

    linear = length_weights(lengths, reference_length=700, at_least_one=False)
    published = length_weights(lengths, reference_length=700, at_least_one=True)

    assert linear.tolist() == [0.0, 0.5, 1.0, 2.0]
    assert published.tolist() == [1.0, 1.0, 1.0, 2.0]


def test_chunk_values_by_hand() -> None:
    relevance = np.array([[1.0, 0.5, 0.0], [0.0, 0.2, 0.0]])

    plain = chunk_values(relevance, penalty=0.2)
    weighted = chunk_values(relevance, penalty=0.2, weights=[1.0, 2.0, 0.5])

    assert plain == pytest.approx(np.array([[0.8, 0.3, -0.2], [-0.2, 0.0, -0.2]]))
    assert weighted == pytest.approx(np.array([[0.8, 0.6, -0.1], [-0.2, 0.0, -0.1]]))
