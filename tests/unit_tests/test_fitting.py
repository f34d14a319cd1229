"""How much of a selection fits a budget, in any unit of length."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from langchain_rse.fitting import Chunk, Measure, Reach, characters, cut
from langchain_rse.segmentation import Segment
from langchain_rse.selection import Selected, Selection, Step
from tests.unit_tests.fakes import LENGTHS, words

# Measure


@pytest.mark.parametrize("length", [3, 2.5, 0, np.int64(3), np.float32(2.5), Fraction(5, 2)])
def test_a_length_is_any_number_from_0(length: Any) -> None:
    measured = Measure(lambda _: length)("text")

    assert measured == float(length)
    assert type(measured) is float


@pytest.mark.parametrize(
    "length", [-1, -0.5, math.nan, math.inf, None, "3", b"3", True, [3], 1j, 10**400]
)
def test_a_length_that_is_none_is_refused(length: Any) -> None:
    message = rf"length_function must .* at least 0; got {re.escape(repr(length))} .* 4 .*'text'"

    with pytest.raises(ValueError, match=message):
        Measure(lambda _: length)("text")


def test_errors_of_a_length_function_pass_through() -> None:
    def fails(_: str) -> float:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        Measure(fails)("text")


def test_each_text_is_measured_once() -> None:
    measured: list[str] = []

    def noted(text: str) -> int:
        measured.append(text)
        return len(text)

    measure = Measure(noted)

    assert [measure(text) for text in ("one", "four", "one", "", "")] == [3, 4, 3, 0, 0]
    assert measured == ["one", "four", ""]


def test_only_len_itself_counts_characters() -> None:
    assert Measure(len).counts_characters
    assert Measure(len)("é😀") == 2
    assert not Measure(lambda text: len(text)).counts_characters  # noqa: PLW0108 - is the point


# Cutting


def at_most(length: int) -> Callable[[str], bool]:
    return lambda text: len(text) <= length


@pytest.mark.parametrize(
    ("text", "room", "start", "end"),
    [
        # Sentences, as many as fit; the white space between stays with neither.
        ("One. Two! Three?", 4, "One.", ""),
        ("One. Two! Three?", 8, "One.", "Three?"),
        ("One. Two! Three?", 9, "One. Two!", "Three?"),
        ("One. Two! Three?", 11, "One. Two!", "Two! Three?"),
        # What closes a sentence belongs to it.
        ('He said "Stop." Then...', 15, 'He said "Stop."', "Then..."),
        ("Wait... (Really?) Yes.", 17, "Wait... (Really?)", "(Really?) Yes."),
        # No sentence ends inside a number or a name.
        ("It is 3.14 or so. Yes", 12, "It is 3.14", "Yes"),
        # Lines.
        ("- one\n- two\n- three", 12, "- one\n- two", "- three"),
        ("Title  \n\nText of it", 9, "Title", "of it"),
        # Words, where nothing else ends.
        ("some words only", 10, "some words", "words only"),
        ("some words only", 9, "some", "only"),
        # Scripts without spaces.
        ("一つ。二つ\uff01三つ\uff1f四つ", 6, "一つ。二つ\uff01", "三つ\uff1f四つ"),
        # Nothing fits.
        ("Incomprehensibilities are long", 3, "", ""),
        ("One. Two.", 0, "", ""),
        ("一二三四五", 3, "", ""),
        ("", 3, "", ""),
        (" \n ", 1, "", ""),
    ],
)
def test_cut_by_hand(text: str, room: int, start: str, end: str) -> None:
    assert cut(text, at_most(room), keep_end=False) == start
    assert cut(text, at_most(room), keep_end=True) == end


def test_a_start_is_not_cut_off_its_own_white_space() -> None:
    assert cut("\n One. Two.", at_most(6), keep_end=False) == "\n One."


PIECES = st.sampled_from(
    ["word", "a", " ", "\n", "\n\n", ". ", ".", '." ', "! ", "3.14", "。", "\uff1f", "é", "😀"]
)
CLOSED = "。\uff1f"  # ends of sentences after which no space is needed
TEXTS = st.lists(PIECES, max_size=25).map("".join)


@given(TEXTS, st.sampled_from(list(LENGTHS)), st.integers(0, 40), st.booleans())
def test_a_part_is_a_whole_end_of_the_text_and_fits(
    text: str,
    unit: str,
    room: int,
    keep_end: bool,  # noqa: FBT001
) -> None:
    def fits(part: str) -> bool:
        return LENGTHS[unit](part) <= room

    assume(not fits(text))
    part = cut(text, fits, keep_end=keep_end)

    if not part:
        return
    assert fits(part)
    assert part.strip()
    if keep_end:
        before = text[: -len(part)]
        assert text == before + part
        assert not part[0].isspace()
        assert before[-1].isspace() or before[-1] in CLOSED + ".!"
    else:
        after = text[len(part) :]
        assert text == part + after
        assert after[0].isspace() or part[-1] in CLOSED


@given(TEXTS, st.integers(0, 40), st.booleans())
def test_no_longer_part_ends_a_sentence(
    text: str,
    room: int,
    keep_end: bool,  # noqa: FBT001
) -> None:
    assume(len(text) > room)
    part = cut(text, at_most(room), keep_end=keep_end)

    ends = [
        place
        for place in range(1, len(text))
        if text[place - 1] in CLOSED
        or (text[place].isspace() and re.search(r'[.!]"*\Z', text[:place]))
        or (not text[place - 1].isspace() and re.match(r"\s*\n", text[place:]))
    ]
    parts = [text[place:].lstrip() if keep_end else text[:place] for place in ends]
    fitting = [some for some in parts if some.strip() and len(some) <= room]
    if fitting:
        assert part == max(fitting, key=len)


# How far a budget reaches


def selection_of(*texts: str) -> tuple[Selection, Mapping[Chunk, str]]:
    """One step for each text, the chunks of one document, and the texts."""

    def segments(count: int) -> list[Selected]:
        if not count:
            return []
        return [Selected(0, Segment(0, count, 1.0), np.ones(count))]

    steps = [Step(0, index, index + 1) for index in range(len(texts))]
    return Selection(steps, segments), {(0, index): text for index, text in enumerate(texts)}


def spans_of(texts: Mapping[Chunk, str]) -> Callable[[Step], Sequence[int]]:
    return lambda step: [len(texts[step.document, i]) for i in range(step.start, step.end)]


def joined(texts: Mapping[Chunk, str]) -> Callable[[Selected], str]:
    return lambda one: "".join(texts[0, index] for index in range(*one.segment[:2]))


def unread(_: Selected) -> str:
    raise AssertionError("no text has to be read to count characters")


@pytest.mark.parametrize(
    ("limit", "likely"), [(0, 0), (3, 0), (4, 1), (9, 1), (10, 2), (11.5, 2), (12, 3), (99, 3)]
)
@pytest.mark.parametrize("spare", [0, 1, 5])
def test_characters_are_known_without_reading(limit: float, likely: int, spare: int) -> None:
    selection, texts = selection_of("four", "sixsix", "22")
    measure = Measure(len)

    reach = Reach.of(selection, limit, measure, spans=spans_of(texts), texts={}, spare=spare)

    assert reach == Reach(likely, min(likely + spare, 3))
    assert reach.fit(selection, limit, measure, unread) == likely


@given(
    st.lists(st.lists(st.sampled_from(["a ", "bcd ", "é ", "x"]), min_size=1).map("".join)),
    st.sampled_from([unit for unit in LENGTHS if unit != "characters"]),
    st.integers(0, 30),
    st.integers(0, 2),
    st.booleans(),
)
def test_other_units_are_measured(
    some: list[str],
    unit: str,
    limit: int,
    spare: int,
    at_hand: bool,  # noqa: FBT001
) -> None:
    selection, texts = selection_of(*some)
    measure = Measure(LENGTHS[unit])

    reach = Reach.of(
        selection,
        limit,
        measure,
        spans=spans_of(texts),
        texts=texts if at_hand else {},
        spare=spare,
    )
    count = reach.fit(selection, limit, measure, joined(texts))

    assert 0 <= reach.likely <= reach.read <= len(some)
    assert count <= reach.read
    assert LENGTHS[unit]("".join(some[:count])) <= limit
    if count < reach.read:
        assert LENGTHS[unit]("".join(some[: count + 1])) > limit


def test_texts_at_hand_tell_how_much_has_to_be_read() -> None:
    selection, texts = selection_of(*["one two "] * 20)
    measure = Measure(words)

    reach = Reach.of(selection, 10, measure, spans=spans_of(texts), texts=texts, spare=0)

    # 5 steps of 2 words; 15 % more would be 5 again, and one more is read to be sure.
    assert reach == Reach(likely=5, read=6)
    assert reach.fit(selection, 10, measure, joined(texts)) == 5


def test_a_text_with_a_header_counts_for_its_span_only() -> None:
    selection, texts = selection_of(*["one two "] * 20)
    measure = Measure(words)
    with_header = {chunk: f"head er {text}" for chunk, text in texts.items()}

    reach = Reach.of(selection, 10, measure, spans=spans_of(texts), texts=with_header, spare=0)

    assert reach == Reach(likely=5, read=6)


def test_a_budget_in_other_units_is_generous_in_characters() -> None:
    sample = ["four", "four words of text"]

    assert characters(7, Measure(len), sample) == 7
    in_words = characters(10, Measure(words), sample)
    assert in_words is not None
    assert 10 * 22 / 5 < in_words < 2 * 10 * 22 / 5
    assert characters(10, Measure(lambda _: 0), sample) is None
    assert characters(10, Measure(words), []) is None
