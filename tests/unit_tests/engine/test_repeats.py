"""Passages that stand word for word in other texts, beside what comparing all characters finds."""

from __future__ import annotations

import random
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_rse.engine.repeats import Passages, comparable, shared_shares

# Passages of this length are always found.
LONG = 64


def letters(seed: int, length: int = 400) -> str:
    rng = random.Random(seed)  # noqa: S311 - no secret
    return "".join(rng.choices(string.ascii_letters, k=length))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("one\ttwo\n three ", "onetwothree"),
        ("Loops\n=====\nwhile", "Loopswhile"),
        ("Loops\n-----\nwhile", "Loopswhile"),
        ("a == b", "a==b"),
        ("x--- 1.5", "x---1.5"),
        ("", ""),
    ],
)
def test_white_space_and_rules_do_not_count(text: str, expected: str) -> None:
    assert comparable(text) == expected


# Pieces that are put together: most texts have some in common.
texts = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 150), st.integers(1, 250)), max_size=4
).map(lambda cuts: "".join(letters(seed)[start : start + size] for seed, start, size in cuts))


@given(st.lists(texts, max_size=5), texts)
def test_a_passage_is_found_in_the_first_text_that_has_it(known: list[str], passage: str) -> None:
    passages = Passages()
    for number, text in enumerate(known):
        passages.add(text, str(number))
    found = passages.name_with(passage)
    with_it = [str(number) for number, text in enumerate(known) if passage in text]
    if len(passage) >= LONG:
        assert found == (with_it[0] if with_it else None)
    elif found is not None:
        assert found in with_it


@given(st.lists(texts, max_size=5), texts)
def test_shared_characters(known: list[str], text: str) -> None:
    passages = Passages()
    for other in known:
        passages.add(other, "other")
    found = passages.shared_characters(text).tolist()
    expected = [False] * len(text)
    possible = [False] * len(text)
    for start in range(len(text)):
        for length, marks in ((LONG, expected), (LONG // 2, possible)):
            passage = text[start : start + length]
            if len(passage) == length and any(passage in other for other in known):
                marks[start : start + length] = [True] * length
    for is_expected, is_found, is_possible in zip(expected, found, possible, strict=True):
        assert is_expected <= is_found <= is_possible


def test_repetitive_texts_take_no_longer() -> None:
    passages = Passages()
    for number in range(200):
        passages.add("a" * 1_000 + str(number), str(number))
    assert passages.name_with("a" * 1_000) == "0"
    assert passages.shared_characters("a" * 2_000 + "b").tolist() == [True] * 2_000 + [False]
    assert shared_shares(["a" * 1_000] * 200, range(200)).tolist() in ([1.0] * 200, [0.0] * 200)


def test_shares_are_estimates() -> None:
    one, two, other = letters(1, 6_000), letters(2, 6_000), letters(3, 6_000)
    half = one[:3_000] + other[:3_000]
    found = shared_shares([one, two, half], [0, 1, 2])
    assert found[1] == 0
    assert found[[0, 2]] == pytest.approx(0.5, abs=0.1)
    # Of one owner, nothing is shared; line breaks make no difference.
    assert shared_shares([one, one], [3, 3]).tolist() == [0, 0]
    assert shared_shares([one, "\n".join(one)], [3, 4]).tolist() == [1, 1]


@pytest.mark.parametrize("given", [[], [""], ["", "short"], ["x" * 31, "x" * 31], ["\ud800" * 40]])
def test_texts_without_a_window_share_nothing(given: list[str]) -> None:
    assert shared_shares(given, range(len(given))).tolist() == [0] * len(given)


@given(st.lists(st.text(min_size=0, max_size=120), max_size=6))
def test_texts_that_are_the_same_share_all_or_nothing(given: list[str]) -> None:
    shares = shared_shares([*given, *given], [0] * len(given) + [1] * len(given))
    assert set(shares.tolist()) <= {0.0, 1.0}
