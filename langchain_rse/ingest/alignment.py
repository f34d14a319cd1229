"""Finds where chunks lie in the text they were made from, even if the splitter changed them.

Chunks are searched for in three forms of the text: the text itself; its letters and digits
without case, accents and ligatures; and, for HTML, the letters and digits outside of tags.
"""

import functools
import itertools
import re
import unicodedata
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from langchain_rse.ingest.finding import Finder
from langchain_rse.ingest.markup import shown_text, start_of_tags, text_outside_tags

UNKNOWN = "\ufffd"
"""In a chunk: anything, or nothing, may stand here in the text."""
# What tokenizers put instead of text that they do not know.
_UNKNOWN = re.compile(r"\[UNK\]|<unk>|\ufffd|\u2047")
# The most letters and digits that one of these replaces: a word or, if the chunk is not found then,
# a long run such as encoded data.
_REACHES = (40, 10_000)

# The longest text without letters and digits after which a chunk is expected, before it is looked
# for in the text before; and the longest tags that are part of the chunk after them.
_LONGEST_SEPARATOR = 1000
_LONGEST_TAGS = 1000


@functools.cache
def _fold_character(character: str) -> str:
    """Fold one character without its context, so that parts of a text fold to parts of its form."""
    plain = unicodedata.normalize("NFKD", character).casefold()
    decomposed = unicodedata.normalize("NFKD", plain)
    return "".join(each for each in decomposed if each.isalnum())


def fold(text: str) -> str:
    """The letters and digits of a text, without case, accents and ligatures."""
    return "".join(map(_fold_character, text))


class Gap(NamedTuple):
    """Text that no chunk covers: its start and end, and its folded letters and digits."""

    start: int
    end: int
    content: str


class Placement(NamedTuple):
    """Where the chunks of a text lie."""

    # Start and end of each chunk; None for a chunk without anything to search for.
    spans: list[tuple[int, int] | None]
    # Text with letters or digits that no chunk covers, by the number of the chunk after it.
    gaps: dict[int, Gap]

    @property
    def lost(self) -> int:
        """The number of letters and digits that no chunk covers."""
        return sum(len(gap.content) for gap in self.gaps.values())


def align(text: str, chunks: Sequence[str]) -> Placement | int:
    """Place chunks by the form of the text that loses least; or number a chunk not found."""
    best: Placement | int = 0
    for form in _forms(text):
        placement = _align(form, chunks)
        if isinstance(placement, int):
            if isinstance(best, int):
                best = placement
            continue
        if isinstance(best, int) or placement.lost < best.lost:
            best = placement
        if best.lost == 0:
            break
    return best


# Forms of a text


class Form(NamedTuple):
    """A form of a source: the text to search, and where each of its characters is from."""

    source: str
    text: str
    places: Sequence[int]  # in the source, of each character, and the length of the source
    is_exact: bool = False
    is_html: bool = False


def _forms(text: str) -> Iterator[Form]:
    yield Form(text, text, range(len(text) + 1), is_exact=True)
    yield folded(text, enumerate(text))
    if "<" in text and ">" in text:
        yield folded(text, text_outside_tags(text))._replace(is_html=True)


def folded(source: str, pieces: Iterable[tuple[int, str]]) -> Form:
    """Make a form of the folded letters and digits of pieces, each with its start in the source."""
    contents: list[str] = []
    places = array("q")
    for start, piece in pieces:
        content = fold(piece)
        contents.append(content)
        places.extend([start] * len(content))
    places.append(len(source))
    return Form(source, "".join(contents), places)


def _parts(form: Form, chunk: str) -> list[str]:
    """Convert a chunk to a form, split at unknown text."""
    if form.is_exact:
        # Chunks of white space are not searched for; their text counts as a separator.
        return [chunk if chunk.strip() else ""]
    return [fold(part) for part in _UNKNOWN.split(chunk)]


def _source_span(form: Form, start: int, end: int, chunk: str) -> tuple[int, int]:
    """Convert a chunk's start and end in a form to those in the source."""
    if form.is_exact:
        return start, end
    first = _with_opening_punctuation(form.source, form.places[start], chunk)
    if form.is_html:
        first = start_of_tags(form.source, max(0, first - _LONGEST_TAGS), first)
    return first, form.places[end - 1] + 1


def _with_opening_punctuation(source: str, first: int, chunk: str) -> int:
    """Move a chunk's start to the left of the punctuation with which the chunk begins."""
    opening = re.split(r"[^\W_]", chunk, maxsplit=1)[0]
    for character in reversed("".join(opening.split())):
        before = first - 1
        while before >= 0 and source[before].isspace():
            before -= 1
        if before < 0 or source[before] != character:
            break
        first = before
    return first


def _add_gap(
    placement: Placement, number: int, form: Form, finder: Finder, *, start: int, end: int
) -> None:
    """Note the text that no chunk covers before the chunk of this number, if there is any."""
    content = fold(form.text[start:end])
    if not content:
        return
    if form.is_html:
        # Scripts, styles and comments are in some splitters' chunks, but are no text.
        source_start = form.places[start - 1] + 1 if start else 0
        content = fold(shown_text(form.source[source_start : form.places[end]]))
        if not content:
            return
    first = form.places[finder.next_content(start)]
    placement.gaps[number] = Gap(first, form.places[end - 1] + 1, content)


# The search


def _align(form: Form, chunks: Sequence[str]) -> Placement | int:
    """Find where chunks lie, in one form of the text; or return the number of one not found.

    If text repeats itself, a chunk occurs several times. First, from the end of the text, find the
    last start of each chunk that leaves room for the chunks after it. Then, from the beginning,
    take the span up to there that continues the text or, if there is none, overlaps it least.
    """
    parts_of_chunks = [_parts(form, chunk) for chunk in chunks]
    known_parts = [_without_unknown_start(parts) for parts in parts_of_chunks]
    finder = Finder(form.text, _fold_character)
    latest = _latest(finder, known_parts)
    if isinstance(latest, int):
        return latest
    placement = Placement([], {})
    start = 0  # of the last chunk that was placed
    reached = 0  # the end of the text that the chunks so far cover
    after_unknown = False  # True if any text may stand before the next chunk
    for number, (parts, last) in enumerate(zip(known_parts, latest, strict=True)):
        if not parts:
            placement.spans.append(None)
            if len(parts_of_chunks[number]) > 1:
                after_unknown = True
            continue
        span = _next(finder, parts, start, reached, last)
        if span is None:
            return number
        start, end = span
        begins_known = parts_of_chunks[number][0] != ""
        if begins_known and not after_unknown:
            _add_gap(placement, number, form, finder, start=reached, end=start)
        placement.spans.append(_source_span(form, start, end, chunks[number]))
        reached = max(reached, end)
        after_unknown = parts[-1] == ""
    if not after_unknown:
        _add_gap(placement, len(chunks), form, finder, start=reached, end=len(form.text))
    return placement


def _without_unknown_start(parts: Sequence[str]) -> list[str]:
    """The parts of a chunk from the first that has any text; none if no part has."""
    return list(itertools.dropwhile(lambda part: not part, parts))


def _latest(finder: Finder, chunks: Sequence[Sequence[str]]) -> list[int] | int:
    """The last start of each chunk with room for those after it; or the number of one without."""
    latest = [len(finder.text)] * len(chunks)
    bound = len(finder.text)
    for number in reversed(range(len(chunks))):
        parts = chunks[number]
        if not parts:
            continue
        span = None
        for reach in _REACHES:
            if span is None:
                span = finder.find(parts, 0, bound, reach, last=True)
        if span is None:
            return number
        bound, _ = span
        latest[number] = bound
    return latest


def _next(
    finder: Finder, parts: Sequence[str], before: int, reached: int, last: int
) -> tuple[int, int] | None:
    """Find the next span of a chunk that starts from ``before`` to ``last``.

    The first choice is the text after ``reached``, the second a span that overlaps it least.
    """
    following = min(finder.next_content(reached), reached + _LONGEST_SEPARATOR, last)
    for reach in _REACHES:
        continuing = finder.find(parts, reached, following, reach)
        if continuing is not None:
            return continuing
        overlapping = finder.find(parts, before, min(reached - 1, last), reach, last=True)
        if overlapping is not None and overlapping[1] > reached:
            return overlapping
        later = finder.find(parts, reached, last, reach)
        if later is not None:
            return later
        if overlapping is not None:  # it is contained in the chunks before it
            return overlapping
    return None
