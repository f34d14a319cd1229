"""Trims the first step that does not fit the budget, so that its beginning or end fills it."""

import itertools
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from typing import NamedTuple

from langchain_rse.engine import Segment
from langchain_rse.engine.problem import Bounds
from langchain_rse.query.budget import Budget, Texts
from langchain_rse.query.selection import Selection

# Ends of sentences, in scripts with and without spaces, and of lines; else ends of words.
_SENTENCE_ENDS = re.compile(
    r"""(?<![.!?…])[.!?…]+[\"'”\u2019»)\]]*(?=\s)|[\u3002\uff01\uff1f]|\S(?=\s*\n)"""
)
_WORD_ENDS = re.compile(r"\S(?=\s)")


class TrimmedSegment(NamedTuple):
    """A segment, and the characters to leave out at its beginning and at its end."""

    segment: Segment
    skipped: int = 0
    dropped: int = 0


def trim(
    selection: Selection, count: int, texts: Texts, budget: Budget, minimum_value: float
) -> list[TrimmedSegment]:
    """Return the segments of the first ``count`` steps, with as much of the next as fits."""
    chosen = selection.segments(count)
    unchanged = [TrimmedSegment(segment) for segment in chosen]
    step = selection.steps[count]
    start, end = step
    grown = _segment_with(step, selection.segments(count + 1))
    if grown is None or not all(texts.of(column, column + 1) for column in range(start, end)):
        return unchanged
    # If the step extends the segment after it, its end is kept; else its beginning, after the
    # segment before it.
    keep_end = grown.start == start and grown.end > end
    neighbor = (end, grown.end) if keep_end else (grown.start, start)
    extended = next((segment for segment in chosen if segment[:2] == neighbor), None)
    if extended is None:
        keep_end = False
        neighbor = (start, start)
    text_of_neighbor = texts.of(*neighbor)
    room = budget.limit - budget.used(selection, count, texts)
    if extended is not None:
        room += texts.length(*neighbor)

    first_column = start if keep_end else neighbor[0]  # its header row stands above the joined text

    def fits(part: str) -> bool:
        joined = part + text_of_neighbor if keep_end else text_of_neighbor + part
        return texts.length_of(joined, first_column) <= room

    text = texts.of(start, end)
    part = longest_part(text, fits, keep_end=keep_end)
    if not part:
        return unchanged
    value = float(selection.values[start:end].sum()) * len(part) / len(text)
    if extended is None and value < minimum_value:
        return unchanged
    if extended is not None:
        value += extended.value
        unchanged.remove(TrimmedSegment(extended))
    if keep_end:
        segment = Segment(start, neighbor[1], value)
        return [*unchanged, TrimmedSegment(segment, skipped=len(text) - len(part))]
    # A step of several chunks may lose some of them.
    ends = list(itertools.accumulate(len(texts.of(c, c + 1)) for c in range(start, end)))
    last = bisect_left(ends, len(part))
    segment = Segment(neighbor[0], start + last + 1, value)
    return [*unchanged, TrimmedSegment(segment, dropped=ends[last] - len(part))]


def _segment_with(step: Bounds, segments: list[Segment]) -> Segment | None:
    for segment in segments:
        if segment.start <= step[0] < segment.end:
            return segment
    return None


def longest_part(text: str, fits: Callable[[str], bool], *, keep_end: bool) -> str:
    """The longest end or beginning of a text that fits, cut after a sentence, line or word."""
    for pattern in (_SENTENCE_ENDS, _WORD_ENDS):
        ends = [match.end() for match in pattern.finditer(text)]
        if keep_end:
            last_character = len(text.rstrip())
            ends = [end for end in reversed(ends) if end < last_character]
        count = bisect_right(
            ends, False, key=lambda end: not fits(_part(text, end, keep_end=keep_end))
        )
        if count:
            return _part(text, ends[count - 1], keep_end=keep_end)
    return ""


def _part(text: str, cut: int, *, keep_end: bool) -> str:
    return text[cut:].lstrip() if keep_end else text[:cut]
