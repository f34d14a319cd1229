"""Locates chunks in their source text, even if the splitter altered them.

The search tries the text itself, then its letters and digits without case, accents and ligatures.
"""

from __future__ import annotations

import functools
import itertools
import operator
import re
import unicodedata
from array import array
from collections.abc import Sequence
from typing import NamedTuple

UNKNOWN = "\ufffd"
"""A wildcard in a chunk: any text, or none, may be here in the source."""
# Placeholders that tokenizers write for unknown text.
_UNKNOWN = re.compile(r"\[UNK\]|<unk>|\ufffd|\u2047")
# Letters and digits that a placeholder may replace at most: first a word; if the chunk is not found
# then, a long run such as encoded data.
_REACHES = (40, 10_000)

# A chunk is expected within this many separator characters of the last one; otherwise overlapping
# positions are tried first.
_LONGEST_SEPARATOR = 1000


# Budget of searches for parts of chunks: a base plus a number per character of text. Adversarial
# text that matches chunks in many wrong ways would otherwise take much longer.
_SEARCHES_PER_CHARACTER = 4
_FEWEST_SEARCHES = 100_000
# This many unknown characters count as one more search.
_CHARACTERS_PER_SEARCH = 1000


@functools.cache
def _fold_character(character: str) -> str:
    """Fold one character regardless of context, so that folding and slicing commute."""
    plain = unicodedata.normalize("NFKD", character).casefold()
    decomposed = unicodedata.normalize("NFKD", plain)
    return "".join(each for each in decomposed if each.isalnum())


def fold(text: str) -> str:
    """Reduce a text to its letters and digits, without case, accents and ligatures."""
    return "".join(map(_fold_character, text))


class Placement(NamedTuple):
    """The positions of a text's chunks."""

    # Start and end of each chunk; None for a chunk without searchable text.
    spans: list[tuple[int, int] | None]
    # Uncovered text from its first letter or digit on, by the number of the chunk that follows it.
    gaps: dict[int, str]

    @property
    def lost(self) -> int:
        """Number of letters and digits that no chunk covers."""
        return sum(len(fold(gap)) for gap in self.gaps.values())


def align(text: str, chunks: Sequence[str]) -> Placement | int:
    """Place chunks in the form of the text that loses less.

    If no form contains all chunks, return the number of a chunk that was not found.
    """
    following = _follow(text, chunks)
    if following is not None:
        return Placement(following, {})
    exact = _align(Form(text), chunks)
    if isinstance(exact, Placement) and not exact.gaps:
        return exact
    folded = _align(folded_form(text), chunks)
    if isinstance(exact, int):
        return folded
    if isinstance(folded, int) or exact.lost <= folded.lost:
        return exact
    return folded


def _follow(text: str, chunks: Sequence[str]) -> list[tuple[int, int] | None] | None:
    """Place chunks without overlap that have all letters and digits of a text; None for others."""
    spans: list[tuple[int, int] | None] = []
    reached = 0
    for chunk in chunks:
        if not chunk.strip():
            spans.append(None)
            continue
        content = _next_content(text, reached, min(reached + _LONGEST_SEPARATOR, len(text)))
        start = text.find(chunk, reached, content + len(chunk))
        if start < 0:
            return None
        reached = start + len(chunk)
        spans.append((start, reached))
    return spans if _next_content(text, reached, len(text)) == len(text) else None


# Forms of a text


class Form:
    """A searchable form of a source text; a chunk is found in linear time.

    Attributes:
        source: The source text.
        text: The text of the form.
        places: The source position of each character of `text`, then the source's length.
    """

    def __init__(self, source: str, text: str | None = None, places: Sequence[int] = ()) -> None:
        """Make the form that is the text itself, or another one, given its ``text``."""
        self.source = source
        self.text = source if text is None else text
        self.places = places
        self._is_exact = text is None
        # str.find is linear in the text; str.rfind takes time proportional to text times chunk.
        self._reversed = self.text[::-1]
        self._searches_left = _FEWEST_SEARCHES + _SEARCHES_PER_CHARACTER * len(self.text)

    def parts_of(self, chunk: str) -> list[str]:
        """Convert a chunk to this form and split it at unknown text."""
        if self._is_exact:
            # Chunks of white space count as separators and are not searched.
            return [chunk if chunk.strip() else ""]
        return [fold(part) for part in _UNKNOWN.split(chunk)]

    def in_source(self, start: int, end: int, chunk: str = "") -> tuple[int, int]:
        """Convert the start and end of a text in this form to positions in the source.

        The punctuation that the ``chunk`` begins with belongs to it.
        """
        if self._is_exact:
            return start, end
        first = self.places[start]
        opening = re.split(r"[^\W_]", chunk, maxsplit=1)[0]
        for character in reversed("".join(opening.split())):
            before = first - 1
            while before >= 0 and self.source[before].isspace():
                before -= 1
            if before < 0 or self.source[before] != character:
                break
            first = before
        return first, self.places[end - 1] + 1

    def gap(self, start: int, end: int) -> str:
        """Return uncovered text of the source; empty if it has no letter or digit."""
        first = _next_content(self.text, start, end)
        return self.source[slice(*self.in_source(first, end))] if first < end else ""

    def find(
        self, parts: Sequence[str], earliest: int, latest: int, reach: int, *, last: bool = False
    ) -> tuple[int, int] | None:
        """Find the first or last span of a chunk that starts between ``earliest`` and ``latest``.

        The chunk is a list of parts with unknown text between them, which spans at most ``reach``
        characters; the first part is not empty.
        """
        first_part = parts[0]
        bound = latest + len(first_part)
        while True:
            if last:  # like `str.rfind`
                length = len(self.text)
                before = length - min(bound, length)
                start = self._reversed.find(first_part[::-1], before, length - earliest)
                if start >= 0:
                    start = length - start - len(first_part)
            else:
                start = self.text.find(first_part, earliest, bound)
            if start < 0:
                return None
            end = self._end(parts, start, reach)
            if end is not None:
                return start, end
            if last:
                bound = start + len(first_part) - 1
            else:
                earliest = start + 1

    def _end(self, parts: Sequence[str], start: int, reach: int) -> int | None:
        """Return the first end of a chunk that starts here; None if a part is out of reach."""
        end = start + len(parts[0])
        room = 0
        for part in parts[1:]:
            room += reach
            if not part:
                continue
            self._searches_left -= 1 + room // _CHARACTERS_PER_SEARCH
            if self._searches_left < 0:
                return None
            place = self.text.find(part, end, end + room + len(part))
            if place < 0:
                return None
            end = place + len(part)
            room = 0
        return end


def folded_form(text: str) -> Form:
    """Make the form of a text that has only its letters and digits, folded."""
    contents: list[str] = []
    places = array("q")
    for place, character in enumerate(text):
        content = _fold_character(character)
        contents.append(content)
        places.extend([place] * len(content))
    places.append(len(text))
    return Form(text, "".join(contents), places)


# The search


def _align(form: Form, chunks: Sequence[str]) -> Placement | int:
    """Place chunks in one form of the text, or return the number of a chunk not found.

    In repetitive text, a chunk may occur several times. A backward pass finds the last possible
    start of each chunk, given the chunks after it. A forward pass then takes, up to that start, the
    occurrence that continues the text, or else the one that overlaps it least.
    """
    parts_of_chunks = [form.parts_of(chunk) for chunk in chunks]
    # Without unknown text at the start.
    known_parts = [list(itertools.dropwhile(operator.not_, parts)) for parts in parts_of_chunks]
    latest = _latest(form, known_parts)
    if isinstance(latest, int):
        return latest
    placement = Placement([], {})
    start = 0  # of the last chunk placed
    reached = 0  # end of the text covered so far
    after_unknown = False  # True if unknown text may precede the next chunk
    for number, (parts, last) in enumerate(zip(known_parts, latest, strict=True)):
        if not parts:
            placement.spans.append(None)
            if len(parts_of_chunks[number]) > 1:
                after_unknown = True
            continue
        span = _next(form, parts, start, reached, last)
        if span is None:
            return number
        start, end = span
        begins_known = parts_of_chunks[number][0] != ""
        if begins_known and not after_unknown:
            gap = form.gap(reached, start)
            if gap:
                placement.gaps[number] = gap
        placement.spans.append(form.in_source(start, end, chunks[number]))
        reached = max(reached, end)
        after_unknown = parts[-1] == ""
    if not after_unknown:
        gap = form.gap(reached, len(form.text))
        if gap:
            placement.gaps[len(chunks)] = gap
    return placement


def _next_content(text: str, start: int, end: int) -> int:
    """Find the first letter or digit of a range, or else its end."""
    position = start
    while position < end and not _fold_character(text[position]):
        position += 1
    return position


def _latest(form: Form, chunks: Sequence[Sequence[str]]) -> list[int] | int:
    """Find the last start of each chunk, given later chunks, or return a chunk not found."""
    latest = [len(form.text)] * len(chunks)
    bound = len(form.text)
    for number in reversed(range(len(chunks))):
        parts = chunks[number]
        if not parts:
            continue
        span = None
        for reach in _REACHES:
            if span is None:
                span = form.find(parts, 0, bound, reach, last=True)
        if span is None:
            return number
        bound, _ = span
        latest[number] = bound
    return latest


def _next(
    form: Form, parts: Sequence[str], before: int, reached: int, last: int
) -> tuple[int, int] | None:
    """Find the next span of a chunk that starts between ``before`` and ``last``.

    Prefer text right after ``reached``, then the span with the least overlap.
    """
    furthest = min(reached + _LONGEST_SEPARATOR, len(form.text))
    following = min(_next_content(form.text, reached, furthest), last)
    for reach in _REACHES:
        continuing = form.find(parts, reached, following, reach)
        if continuing is not None:
            return continuing
        overlapping = form.find(parts, before, min(reached - 1, last), reach, last=True)
        if overlapping is not None and overlapping[1] > reached:
            return overlapping
        later = form.find(parts, reached, last, reach)
        if later is not None:
            return later
        if overlapping is not None:  # contained in earlier chunks
            return overlapping
    return None
