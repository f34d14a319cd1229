"""Finds where chunks lie in the text they were made from, even if the splitter changed them.

Chunks are searched for in three forms of the text: the text itself; its letters and digits
without case, accents and ligatures; and, for HTML, the letters and digits outside of tags.
"""

import bisect
import functools
import html
import itertools
import operator
import re
import unicodedata
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

UNKNOWN = "\ufffd"
"""In a chunk: anything, or nothing, may stand here in the text."""
# What tokenizers put in the place of text that they do not know.
_UNKNOWN = re.compile(r"\[UNK\]|<unk>|\ufffd|\u2047")
# The most letters and digits that one of these replaces: a word or, if no place is found then, a
# long run such as encoded data.
_REACHES = (40, 10_000)

_HIDDEN = re.compile(
    r"<!--.*?-->|<(script|style|head|title|template)\b.*?</\1\s*>", re.DOTALL | re.IGNORECASE
)
# Scripts and styles are not searched for tags; some splitters keep them.
_MARKUP = re.compile(
    r"<(?P<raw>script|style)\b[^<>]*>(?P<code>.*?)</(?P=raw)\s*>|<!--|-->|<[^<>]*>"
    r"|(?P<entity>&(?:#\d+|#[xX][\da-fA-F]+|\w+);)",
    re.DOTALL | re.IGNORECASE,
)
OPENING_TAGS = re.compile(r"(?:<[A-Za-z][^<>]*>\s*)+\Z")
_LONGEST_TAGS = 1000


@functools.cache
def _fold_character(character: str) -> str:
    """Fold one character without its context, so that parts of a text fold to parts of its form."""
    plain = unicodedata.normalize("NFKD", character).casefold()
    return "".join(filter(str.isalnum, unicodedata.normalize("NFKD", plain)))


def fold(text: str) -> str:
    """The letters and digits of a text, without case, accents and ligatures."""
    return "".join(map(_fold_character, text))


def quotation_pattern(quotation: str) -> re.Pattern[str]:
    """Make a pattern that finds a quotation in a text, whatever the white space."""
    return re.compile(r"\s*".join(map(re.escape, "".join(quotation.split()))))


class Gap(NamedTuple):
    """Text that no chunk covers: its place, and its folded letters and digits."""

    start: int
    end: int
    content: str


class Placement(NamedTuple):
    """Where the chunks of a text lie."""

    # Start and end of each chunk; None for a chunk without anything to search for.
    places: list[tuple[int, int] | None]
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
        found = _align(form, chunks)
        if isinstance(best, int) or (not isinstance(found, int) and found.lost < best.lost):
            best = found
        if not isinstance(best, int) and not best.lost:
            break
    return best


# Forms of a text


class Form(NamedTuple):
    """A form of a source: the text to search, and the places in the source of each character."""

    source: str
    text: str
    places: Sequence[int]
    is_exact: bool = False
    is_html: bool = False


def _forms(text: str) -> Iterator[Form]:
    yield Form(text, text, range(len(text) + 1), is_exact=True)
    yield folded(text, enumerate(text))
    if "<" in text and ">" in text:
        yield folded(text, _outside_tags(text))._replace(is_html=True)


def folded(source: str, pieces: Iterable[tuple[int, str]]) -> Form:
    """Make a form of the folded letters and digits of pieces, each with its place in the source."""
    content: list[str] = []
    places = array("q")
    for place, piece in pieces:
        content.append(fold(piece))
        places.extend([place] * len(content[-1]))
    places.append(len(source))
    return Form(source, "".join(content), places)


def _outside_tags(source: str) -> Iterator[tuple[int, str]]:
    start = 0
    for markup in _MARKUP.finditer(source):
        yield from enumerate(source[start : markup.start()], start)
        start = markup.end()
        if markup["code"]:
            yield from enumerate(markup["code"], markup.start("code"))
        elif markup["entity"]:
            yield markup.start(), html.unescape(markup["entity"])
    yield from enumerate(source[start:], start)


def _parts(form: Form, chunk: str) -> list[str]:
    """Convert a chunk to a form, split at unknown text."""
    if form.is_exact:
        # Chunks of white space are not searched for; their text counts as a separator.
        return [chunk if chunk.strip() else ""]
    return [fold(part) for part in _UNKNOWN.split(chunk)]


def _next_content(form: Form, place: int) -> int:
    """Find the first letter or digit at or after a place."""
    while place < len(form.text) and not _fold_character(form.text[place]):
        place += 1
    return place


def _source_span(form: Form, start: int, end: int, chunk: str) -> tuple[int, int]:
    """Convert a chunk's start and end in a form to those in the source."""
    if form.is_exact:
        return start, end
    first = form.places[start]
    # The punctuation with which a chunk begins belongs to it.
    opening = re.split(r"[^\W_]", chunk, maxsplit=1)[0]
    for character in reversed("".join(opening.split())):
        before = first - 1
        while before >= 0 and form.source[before].isspace():
            before -= 1
        if before < 0 or form.source[before] != character:
            break
        first = before
    if form.is_html:
        tags = OPENING_TAGS.search(form.source, max(0, first - _LONGEST_TAGS), first)
        first = tags.start() if tags else first
    return first, form.places[end - 1] + 1


def _add_gap(placement: Placement, number: int, form: Form, start: int, end: int) -> None:
    """Note the text that no chunk covers, if there is any."""
    content = fold(form.text[start:end])
    if form.is_html and content:
        # Scripts, styles and comments are in some splitters' chunks, but are no text.
        first = form.places[start - 1] + 1 if start else 0
        shown = _HIDDEN.sub(" ", form.source[first : form.places[end]])
        content = fold(html.unescape(_MARKUP.sub(lambda tag: tag["entity"] or " ", shown)))
    if content:
        first = form.places[_next_content(form, start)]
        placement.gaps[number] = Gap(first, form.places[end - 1] + 1, content)


# The search


def _align(form: Form, chunks: Sequence[str]) -> Placement | int:
    """Find where chunks lie, in one form of the text; or return the number of one not found.

    If text repeats itself, a chunk has several places. First, from the end of the text, find the
    last place of each chunk that leaves room for the chunks after it. Then, from the start, take
    the place up to there that continues the text or, if there is none, overlaps it least.
    """
    pieces = [_parts(form, chunk) for chunk in chunks]
    known = [list(itertools.dropwhile(operator.not_, parts)) for parts in pieces]
    latest = _latest(form.text, known)
    if isinstance(latest, int):
        return latest
    placement = Placement([], {})
    reached = before = 0
    after_unknown = False
    for number, (parts, last) in enumerate(zip(known, latest, strict=True)):
        if not parts:
            placement.places.append(None)
            after_unknown = after_unknown or len(pieces[number]) > 1
            continue
        place = _next(form, parts, before, reached, last)
        if place is None:
            return number
        before, end = place
        if pieces[number][0] and not after_unknown:
            _add_gap(placement, number, form, reached, before)
        placement.places.append(_source_span(form, before, end, chunks[number]))
        reached = max(reached, end)
        after_unknown = not parts[-1]
    if not after_unknown:
        _add_gap(placement, len(pieces), form, reached, len(form.text))
    return placement


def _latest(text: str, chunks: Sequence[Sequence[str]]) -> list[int] | int:
    """The last place of each chunk with room for those after it; or the number of one without."""
    latest = [len(text)] * len(chunks)
    bound = len(text)
    for number in reversed(range(len(chunks))):
        if parts := chunks[number]:
            found = (_find(text, parts, 0, bound, reach, last=True) for reach in _REACHES)
            if (place := next(filter(None, found), None)) is None:
                return number
            bound = latest[number] = place[0]
    return latest


def _next(
    form: Form, parts: Sequence[str], before: int, reached: int, last: int
) -> tuple[int, int] | None:
    """Place a chunk from ``before`` to ``last``: after ``reached``, or as little before it."""
    following = min(_next_content(form, reached), last)
    for reach in _REACHES:
        place = _find(form.text, parts, reached, following, reach)
        if place is None:
            place = _find(form.text, parts, before, min(reached - 1, last), reach, last=True)
            if place is None or place[1] <= reached:
                place = _find(form.text, parts, reached, last, reach) or place
        if place is not None:
            return place
    return None


def _find(
    text: str, parts: Sequence[str], least: int, most: int, reach: int, *, last: bool = False
) -> tuple[int, int] | None:
    """The first or the last place of a chunk whose start is from ``least`` to ``most``."""
    find = text.rfind if last else text.find
    bound = most + len(parts[0])
    while (start := find(parts[0], least, bound)) >= 0:
        if (end := _end(text, parts, start, reach)) is not None:
            return start, end
        if last:
            bound = start + len(parts[0]) - 1
        else:
            least = start + 1
    return None


def _end(text: str, parts: Sequence[str], start: int, reach: int) -> int | None:
    """The first end of a chunk that starts here, if all of its parts follow within reach."""
    ends = [start + len(parts[0])]
    room = 0
    for part in parts[1:]:
        room += reach
        if not part:
            continue
        bound = ends[-1] + room + len(part)
        following = []
        place = text.find(part, ends[0], bound)
        while place >= 0:
            if place - ends[bisect.bisect_right(ends, place) - 1] <= room:
                following.append(place + len(part))
            place = text.find(part, place + 1, bound)
        if not following:
            return None
        ends, room = following, 0
    return ends[0]
