"""Copies, and passages in other texts, beside what comparing all characters finds."""

from __future__ import annotations

import random
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_rse.engine.copies import ChunkPlace, Passages, find_copied
from tests.unit_tests.engine.oracles import copies_by_brute_force

# Passages of this length are always found.
LONG = 64


def letters(seed: int, length: int = 400) -> str:
    rng = random.Random(seed)  # noqa: S311 - no secret
    return "".join(rng.choices(string.ascii_letters, k=length))


def drop_all(_chunk: ChunkPlace, _document: int) -> bool:
    return True


# Pieces that are put together: most texts have some in common.
texts = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 150), st.integers(1, 250)), max_size=4
).map(lambda cuts: "".join(letters(seed)[start : start + size] for seed, start, size in cuts))


@given(st.lists(texts, max_size=5), texts)
def test_a_passage_is_found_in_the_first_text_that_has_it(known: list[str], passage: str) -> None:
    passages = Passages()
    for text in known:
        passages.add(text)
    found = passages.find(passage)
    with_it = [number for number, text in enumerate(known) if passage in text]
    if len(passage) >= LONG:
        assert found == (with_it[0] if with_it else None)
    elif found is not None:
        assert found in with_it


@given(st.lists(texts, max_size=5), texts)
def test_shared_characters(known: list[str], text: str) -> None:
    passages = Passages()
    for other in known:
        passages.add(other)
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
        passages.add("a" * 1_000 + str(number))
    assert passages.find("a" * 1_000) == 0
    assert passages.shared_characters("a" * 2_000 + "b").tolist() == [True] * 2_000 + [False]
    same = [{0: "a" * 1_000}] * 200
    assert list(find_copied(same, drop_all).values()) == [0] * 199


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


@given(documents(), st.booleans())
def test_copies_are_chunks_whose_whole_text_stands_in_a_better_document(
    drawn: list[dict[int, str]],
    keep_second: bool,  # noqa: FBT001
) -> None:
    def may_drop(chunk: ChunkPlace, original: int) -> bool:
        assert original < chunk[0]
        return not (keep_second and chunk[0] == 1)

    expected = {}
    for chunk, original in copies_by_brute_force(drawn).items():
        if may_drop(chunk, original):
            expected[chunk] = original
    assert find_copied(drawn, may_drop) == expected


def test_a_copy_may_begin_anywhere_and_reach_over_neighbors() -> None:
    text = letters(1)
    original = {4: text[200:], 3: text[:200]}
    copy = {7: text[100:300]}
    assert find_copied([original, copy], drop_all) == {(1, 7): 0}
    assert find_copied([copy, original], drop_all) == {}
    # Chunks that do not follow one another are compared one by one.
    apart = {5: text[200:], 3: text[:200]}
    assert find_copied([apart, copy], drop_all) == {}


def test_the_first_document_that_has_a_copy_is_its_original() -> None:
    text = letters(2)
    part = {0: text[:300]}
    copies = [{0: text}, {0: text}, part, part]
    assert find_copied(copies, drop_all) == {(1, 0): 0, (2, 0): 0, (3, 0): 0}
    # A copy that is kept is no other document's original, as the first one has the text too.
    assert find_copied(copies, lambda chunk, _: chunk[0] == 3) == {(3, 0): 0}


@pytest.mark.parametrize(("length", "is_copy"), [(149, False), (150, True)])
def test_short_texts_are_no_copies(length: int, is_copy: bool) -> None:  # noqa: FBT001
    text = letters(5, length)
    found = find_copied([{0: text}, {0: text}], drop_all)
    assert found == ({(1, 0): 0} if is_copy else {})
