from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from langchain_rse import engine
from langchain_rse.engine import fuse_with_rank, neighbor_credit
from langchain_rse.text.words import TextWords, content_words, find_words

SHARES = st.floats(0, 1)
RELEVANCES = arrays(np.float64, st.tuples(st.integers(1, 3), st.integers(0, 7)), elements=SHARES)


def bm25_scores(query: str, texts: Sequence[str]) -> Any:
    words = TextWords(texts)
    numbers = [words.numbers[text] for text in texts]
    counts = words.counts(content_words(query))[numbers]
    return engine.bm25_scores(counts, words.sizes[numbers])


def word_shares(query: str, texts: Sequence[str]) -> Any:
    words = TextWords(texts)
    numbers = [words.numbers[text] for text in texts]
    return engine.word_shares(words.counts(find_words(query))[numbers] > 0)


@pytest.mark.parametrize("method", ["decay", "mean"])
@given(arrays(np.float64, st.integers(0, 9), elements=SHARES))
def test_fusion_keeps_the_order_and_the_range(
    method: Literal["decay", "mean"], relevance: NDArray[np.float64]
) -> None:
    ranked = -np.sort(-relevance)

    fused = fuse_with_rank(ranked, method, decay_rate=20)

    assert fused.shape == ranked.shape
    assert ((fused >= 0) & (fused <= 1)).all()
    assert (np.diff(fused) <= 0).all()


def test_bm25_scores_by_hand() -> None:
    # 2 of 3 texts have "red", 1 of 3 "fox"; 3, 2 and 2 words, 7/3 on average.
    red, fox = math.log(1 + 1.5 / 2.5), math.log(1 + 2.5 / 1.5)

    def saturated(count: int, words: int) -> float:
        return count * 2.2 / (count + 1.2 * (0.25 + 0.75 * words / (7 / 3)))

    scores = bm25_scores("Red, red fox?", ["the red fox", "red-red", "a dog"])

    # Of the two texts with either word, one has both: each overlaps the other by half.
    expected = [saturated(1, 3) * (red + fox) / 1.5, saturated(2, 2) * red / 1.5, 0]
    assert scores == pytest.approx(expected)


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
    match, other = bm25_scores(query, [text, "something else"])

    assert match > 0
    assert other == 0


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


def test_word_shares() -> None:
    texts = ["The cat sleeps.", "A cat and a dog", "nothing"]
    shares = word_shares("cat dog", texts)
    # In 2 and in 1 of 3 texts.
    cat, dog = math.log1p(1.5 / 2.5), math.log1p(2.5 / 1.5)
    assert shares == pytest.approx([cat / (cat + dog), 1.0, 0.0])
    # A word that no text has weighs most.
    unknown = math.log1p(3.5 / 0.5)
    assert word_shares("cat unicorn", texts)[0] == pytest.approx(cat / (cat + unknown))
    assert word_shares("", texts).tolist() == [0, 0, 0]
    assert word_shares("cat", []).size == 0
    # One of three pairs of characters.
    assert 0 < word_shares("睡觉的猫", ["猫在睡觉"])[0] < 1 / 3
