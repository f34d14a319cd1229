"""Copies, beside what comparing all characters finds."""

# ruff: noqa: RUF001 - other scripts

from __future__ import annotations

import random
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_rse.query.lookup import find_copied
from tests.unit_tests.engine.oracles import copies_by_brute_force


def letters(seed: int, length: int = 400) -> str:
    rng = random.Random(seed)  # noqa: S311 - no secret
    return "".join(rng.choices(string.ascii_letters, k=length))


# Pieces that are put together: most texts have some in common.
texts = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 150), st.integers(1, 250)), max_size=4
).map(lambda cuts: "".join(letters(seed)[start : start + size] for seed, start, size in cuts))


def test_repetitive_texts_take_no_longer() -> None:
    same = [{0: "a" * 1_000}] * 200
    assert list(find_copied(same).values()) == [0] * 199
    different = [{0: "a" * 1_000 + letters(number, 20)} for number in range(200)]
    assert find_copied(different) == {}


@st.composite
def documents(draw: st.DrawFn) -> list[dict[int, str]]:
    """Chunks of texts that have passages in common, cut anywhere, some of them not found."""
    drawn = []
    for _ in range(draw(st.integers(0, 4))):
        text = "".join(draw(st.lists(texts, min_size=1, max_size=3)))
        spaces = draw(st.sampled_from(["", "\n", " ----- "]))
        cuts = sorted(draw(st.sets(st.integers(1, 900), max_size=5)))
        chunks = {}
        for index, (start, end) in enumerate(zip([0, *cuts], [*cuts, len(text)], strict=True)):
            chunks[index] = text[start:end] + spaces
        found = draw(st.permutations(sorted(chunks)))[: draw(st.integers(1, 6))]
        drawn.append({index: chunks[index] for index in found})
    return drawn


@given(documents())
def test_copies_are_chunks_whose_whole_text_stands_in_a_better_document(
    drawn: list[dict[int, str]],
) -> None:
    assert find_copied(drawn) == copies_by_brute_force(drawn)


WHITE_SPACE = [sign for sign in map(chr, range(0x10000)) if sign.isspace()]


@pytest.mark.parametrize(
    "alphabet",
    [
        "abcdefghijk,.",
        "абвгдеёжз.",
        "ابتثجحخ،",
        "กขคงจฉ",
        "कखगघङ।",
        "东西南北中，。",
        "アイウエオ、",
    ],
)
def test_white_space_of_any_kind_is_ignored(alphabet: str) -> None:
    text = "".join(random.Random(1).choices(alphabet, k=300))  # noqa: S311 - no secret
    pieces = [text[start : start + 7] for start in range(50, 250, 7)]
    spaces = [*WHITE_SPACE, "\n=====\n", "\n-------\n"] * 2
    copy = "".join(f"{piece}{space}" for piece, space in zip(pieces, spaces, strict=False))
    assert find_copied([{0: text[:120], 1: text[120:]}, {5: copy}]) == {(1, 5): 0}
    assert find_copied([{0: text[:120], 2: text[120:]}, {5: copy}]) == {}
    assert find_copied([{0: text}, {5: copy.replace(pieces[5], pieces[6])}]) == {}
