"""Where chunks lie in the text they were made from, whatever was done to them.

Chunks are looked for in several forms of the text: as it is, by its letters and digits, by
these without case and accents, and by those of an HTML page without its tags. Only whole
forms are compared, so that what survives has to survive everywhere.
"""

from __future__ import annotations

import bisect
import html
import itertools
import re
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from typing_extensions import override

__all__ = ["HOLE", "Gap", "Placement", "align", "content_from", "fold"]

# What stands in a chunk for something that a tokenizer does not know.
_HOLES = ("[UNK]", "<unk>", "\ufffd", "\u2047")
HOLE = "\ufffd"
"""In a chunk: anything, or nothing, may stand here in the text."""
_HOLE = re.compile("|".join(map(re.escape, _HOLES)))
# So many letters and digits an unknown token stands for at most: a word; if that does not do, a
# long run, such as encoded data.
_HOLE_REACHES = (40, 10_000)

_CONTENT = re.compile(r"[^\W_]")
_RUN = re.compile(r"[^\W_]+")
_BLOCK = 1024
_HIDDEN = re.compile(
    r"<!--.*?-->|<(script|style|head|title|template)\b.*?</\1\s*>", re.DOTALL | re.IGNORECASE
)
# Scripts and styles are not looked into for tags.
_MARKUP = re.compile(
    r"<(script|style)\b[^<>]*>(?P<raw>.*?)</\1\s*>|<!--|-->|<[^<>]*>"
    r"|(?P<entity>&(?:#\d+|#[xX][\da-fA-F]+|\w+);)",
    re.DOTALL | re.IGNORECASE,
)
_OPENING_TAGS = re.compile(r"(?:<[A-Za-z][^<>]*>\s*)+\Z")


class _Letters(dict[int, int | str | None]):
    """For ``str.translate``: letters and digits as they are, nothing else."""

    def __missing__(self, code: int) -> int | None:
        self[code] = code if chr(code).isalnum() else None
        return self[code]  # type: ignore[return-value]


class _Folded(dict[int, int | str | None]):
    """For ``str.translate``: letters and digits without case, accents and ligatures.

    Context-free, so that a part of a text becomes a part of what the text becomes.
    """

    def __missing__(self, code: int) -> int | str | None:
        plain = unicodedata.normalize("NFKD", chr(code)).casefold()
        kept = "".join(filter(str.isalnum, unicodedata.normalize("NFKD", plain)))
        self[code] = ord(kept) if len(kept) == 1 else kept or None
        return self[code]


_LETTERS = _Letters()
_FOLDED = _Folded()


def fold(text: str) -> str:
    """The letters and digits of a text, without case, accents and ligatures."""
    return text.translate(_FOLDED)


def content_from(text: str, place: int) -> int:
    """The first letter or digit at or after a place; the length of the text if there is none."""
    found = _CONTENT.search(text, place)
    return found.start() if found else len(text)


class _Piece(NamedTuple):
    """A chunk in one of the forms: what survives of it, between holes.

    The longest fragment is looked for; the others have to be around it.

    Attributes:
        before: Fragments before the longest one, the nearest first, each with the number of
            unknown tokens between it and the one nearer.
        anchor: The longest; empty if nothing survives.
        after: Fragments after it, in the same way.
        opens: The number of unknown tokens before all of them.
        closes: There is one after them.
    """

    before: Sequence[tuple[str, int]]
    anchor: str
    after: Sequence[tuple[str, int]]
    opens: int = 0
    closes: bool = False

    @property
    def is_whole(self) -> bool:
        """There is no hole between fragments."""
        return not self.before and not self.after

    def farthest(self, start: int, reach: int) -> int:
        """The last place of the anchor if the piece starts there."""
        return start + sum(len(fragment) + reach * tokens for fragment, tokens in self.before)


@dataclass(frozen=True)
class Gap:
    """Text that no chunk covers.

    Attributes:
        start: First character.
        end: Character after the last.
        content: Its letters and digits.
    """

    start: int
    end: int
    content: str


@dataclass(frozen=True)
class Placement:
    """Where the chunks lie.

    Attributes:
        places: Start and end of each chunk in the text; None for one without anything that
            could be found.
        gaps: By number of the chunk after it, text with letters or digits that no chunk
            covers; the number of chunks for what is after the last.
        lost: How many letters and digits these have.
    """

    places: Sequence[tuple[int, int] | None]
    gaps: dict[int, Gap]
    lost: int


class _Form(ABC):
    """A form of a text.

    Attributes:
        text: The text in this form, in which chunks are looked for.
    """

    text: str

    @abstractmethod
    def piece(self, chunk: str) -> _Piece:
        """A chunk in this form."""

    @abstractmethod
    def content_from(self, place: int) -> int:
        """The first letter or digit at or after a place."""

    @abstractmethod
    def source(self, start: int, end: int, chunk: str) -> tuple[int, int]:
        """Where a chunk that lies there in this form lies in the text."""

    @abstractmethod
    def content(self, start: int, end: int) -> str:
        """The letters and digits between two places."""


class _AsItIs(_Form):
    def __init__(self, text: str) -> None:
        self.text = text
        self._without = range(0)

    @override
    def piece(self, chunk: str) -> _Piece:
        return _Piece((), chunk, ())

    @override
    def content_from(self, place: int) -> int:
        if place not in self._without:
            self._without = range(place, content_from(self.text, place))
        return self._without.stop

    @override
    def source(self, start: int, end: int, chunk: str) -> tuple[int, int]:
        return start, end

    @override
    def content(self, start: int, end: int) -> str:
        if end <= self.content_from(start):
            return ""
        return "".join(_RUN.findall(self.text, start, end))


class _Sizes(dict[int, int]):
    """How much of a table's form a character becomes."""

    def __init__(self, table: dict[int, int | str | None]) -> None:
        super().__init__()
        self._table = table

    def __missing__(self, code: int) -> int:
        new = self._table[code]
        self[code] = 0 if new is None else 1 if isinstance(new, int) else len(new)
        return self[code]


class _Translated(_Form):
    """A form by a table, and the way back, block by block."""

    def __init__(self, source: str, table: dict[int, int | str | None]) -> None:
        self._source = source
        self._table = table
        self._sizes = _Sizes(table)
        self._blocks = list(self._cut())
        parts = [self._translated(*block) for block in self._blocks]
        self.text = "".join(parts)
        self._starts = [0, *itertools.accumulate(map(len, parts))]
        self._last: tuple[int, list[int]] = (-1, [])

    def _cut(self) -> Iterable[tuple[int, int]]:
        """The blocks of the text that have a form."""
        length = len(self._source)
        return ((at, min(at + _BLOCK, length)) for at in range(0, length, _BLOCK))

    def _translated(self, start: int, end: int) -> str:
        return self._source[start:end].translate(self._table)

    def _ends(self, start: int, end: int) -> list[int]:
        """How much of the form there is up to each character of a block, inclusive."""
        codes = map(ord, self._source[start:end])
        return list(itertools.accumulate(map(self._sizes.__getitem__, codes)))

    @override
    def piece(self, chunk: str) -> _Piece:
        if not any(hole in chunk for hole in _HOLES):
            return _Piece((), chunk.translate(self._table), ())
        fragments = [part.translate(self._table) for part in _HOLE.split(chunk)]
        found = [number for number, fragment in enumerate(fragments) if fragment]
        if not found:
            return _Piece((), "", (), opens=len(fragments) - 1, closes=True)
        longest = max(range(len(found)), key=lambda number: len(fragments[found[number]]))
        tokens = [after - before for before, after in itertools.pairwise(found)]
        words = [fragments[number] for number in found]
        return _Piece(
            list(zip(words[:longest][::-1], tokens[:longest][::-1], strict=True)),
            words[longest],
            list(zip(words[longest + 1 :], tokens[longest:], strict=True)),
            opens=found[0],
            closes=not fragments[-1],
        )

    @override
    def content_from(self, place: int) -> int:
        return place

    def _at(self, place: int) -> int:
        """Where in the text a letter or digit of this form stands."""
        number = bisect.bisect_right(self._starts, place) - 1
        start, end = self._blocks[number]
        if self._last[0] != number:
            self._last = number, self._ends(start, end)
        return start + bisect.bisect_right(self._last[1], place - self._starts[number])

    @override
    def source(self, start: int, end: int, chunk: str) -> tuple[int, int]:
        first = self._at(start)
        lead = _CONTENT.search(chunk)
        opening = chunk[: lead.start()] if lead else ""
        return self._opened(first, opening), self._at(end - 1) + 1

    def _opened(self, first: int, opening: str) -> int:
        """Take along the punctuation with which a chunk begins, as far as it is there."""
        for character in reversed("".join(opening.split())):
            before = first
            while before > 0 and self._source[before - 1].isspace():
                before -= 1
            if before == 0 or self._source[before - 1] != character:
                break
            first = before - 1
        return first

    @override
    def content(self, start: int, end: int) -> str:
        return self.text[start:end]


class _Html(_Translated):
    """The letters and digits of an HTML page without its tags, its entities decoded."""

    def __init__(self, source: str) -> None:
        self._entities: set[int] = set()
        super().__init__(source, _FOLDED)

    @override
    def _cut(self) -> Iterable[tuple[int, int]]:
        start = 0
        for markup in _MARKUP.finditer(self._source):
            yield from self._pieces(start, markup.start())
            start = markup.end()
            if markup["raw"]:
                yield from self._pieces(*markup.span("raw"))
            elif markup["entity"]:
                self._entities.add(markup.start())
                yield markup.span()
        yield from self._pieces(start, len(self._source))

    def _pieces(self, start: int, end: int) -> Iterable[tuple[int, int]]:
        return ((at, min(at + _BLOCK, end)) for at in range(start, end, _BLOCK))

    @override
    def _translated(self, start: int, end: int) -> str:
        text = self._source[start:end]
        return fold(html.unescape(text) if start in self._entities else text)

    @override
    def _ends(self, start: int, end: int) -> list[int]:
        if start in self._entities:  # all of it stands where it begins
            return [len(self._translated(start, end))]
        return super()._ends(start, end)

    @override
    def _opened(self, first: int, opening: str) -> int:
        first = super()._opened(first, opening)
        tags = _OPENING_TAGS.search(self._source, max(0, first - _BLOCK), first)
        return tags.start() if tags else first

    @override
    def content(self, start: int, end: int) -> str:
        if start == end:
            return ""
        # Scripts and the like are part of some splitters' chunks, and no text.
        first = self._at(start - 1) + 1 if start else 0
        last = self._at(end) if end < len(self.text) else len(self._source)
        shown = _HIDDEN.sub(" ", self._source[first:last])
        return fold(html.unescape(_MARKUP.sub(lambda markup: markup["entity"] or " ", shown)))


def align(text: str, chunks: Sequence[str]) -> Placement | int:
    """Find where chunks lie in their text, in the order of the text.

    Chunks may overlap, and text may lie between them. Time and memory grow linearly with
    the text.

    Args:
        text: The text.
        chunks: Its chunks, each with more than white space.

    Returns:
        Their places in the form in which the least of the text is lost; or the number of a
        chunk that is in the text in none of the forms, after those before it.
    """
    best: Placement | int = 0
    forms: list[Callable[[str], _Form]] = [
        _AsItIs,
        lambda text: _Translated(text, _LETTERS),
        lambda text: _Translated(text, _FOLDED),
    ]
    if "<" in text and ">" in text:
        forms.append(_Html)
    for make in forms:
        placement = _align(make(text), chunks)
        if isinstance(placement, int):
            best = placement if isinstance(best, int) else best
        elif isinstance(best, int) or placement.lost < best.lost:
            best = placement
        if not isinstance(best, int) and not best.lost:
            break
    return best


def _align(form: _Form, chunks: Sequence[str]) -> Placement | int:
    """Find where chunks lie, in one form of the text; or return the number of one not found.

    Repeated text has several places for a chunk. The backward pass finds the last place
    that leaves room for all later chunks; within it, the forward pass takes the place that
    continues the text, and otherwise the one that overlaps it least. What is found inside of
    what is covered already, and ahead of it as well, is taken to lie ahead, unless less of
    the text is lost where all such chunks lie inside.
    """
    pieces = [form.piece(chunk) for chunk in chunks]
    latest = _latest(form.text, pieces)
    if isinstance(latest, int):
        return latest
    ahead = _forward(form, chunks, pieces, latest, ahead=True)
    if isinstance(ahead, int) or not ahead.lost:
        return ahead
    inside = _forward(form, chunks, pieces, latest, ahead=False)
    return ahead if isinstance(inside, int) or inside.lost >= ahead.lost else inside


def _forward(
    form: _Form,
    chunks: Sequence[str],
    pieces: Sequence[_Piece],
    latest: Sequence[int],
    *,
    ahead: bool,
) -> Placement | int:
    """Place one piece after the other, each not after its last place; see `_align`."""
    places: list[tuple[int, int] | None] = []
    gaps: dict[int, Gap] = {}
    reached = before = lost = 0
    after_hole = False
    for number, (piece, last) in enumerate(zip(pieces, latest, strict=True)):
        if not piece.anchor:
            places.append(None)
            after_hole = after_hole or piece.closes
            continue
        after_hole = after_hole or piece.opens > 0
        place = _next(form, piece, reached, (before, last), ahead=ahead)
        if place is None:
            return number
        start, end = place
        if start > reached and not after_hole:
            lost += _add_gap(gaps, number, form, reached, start)
        reached = max(reached, end)
        places.append(form.source(start, end, chunks[number]))
        _draw_back(places, pieces)
        before = max(before, start - _HOLE_REACHES[0] * piece.opens)
        after_hole = piece.closes
    if not after_hole:
        lost += _add_gap(gaps, len(pieces), form, reached, len(form.text))
    return Placement(places, gaps, lost)


def _draw_back(places: list[tuple[int, int] | None], pieces: Sequence[_Piece]) -> None:
    """Let pieces that open with something unknown begin no later than the last one."""
    start = places[-1][0] if places[-1] else 0
    for number in range(len(places) - 2, -1, -1):
        place = places[number]
        if place is None:
            continue
        if place[0] <= start or not pieces[number].opens:
            break
        places[number] = start, place[1]


def _latest(text: str, pieces: Sequence[_Piece]) -> list[int] | int:
    """The last place of each piece that leaves room for those after it."""
    latest = [0] * len(pieces)
    bound = len(text)
    for number in range(len(pieces) - 1, -1, -1):
        piece = pieces[number]
        latest[number] = bound
        if piece.anchor:
            for reach in _HOLE_REACHES:
                # What is unknown may begin before the next piece, and what is known after it.
                place = _last(text, piece, (0, bound + reach * piece.opens), reach)
                if place is not None:
                    break
            else:
                return number
            latest[number] = place[0]
            bound = min(bound, place[0])
    return latest


def _next(
    form: _Form, piece: _Piece, reached: int, bounds: tuple[int, int], *, ahead: bool
) -> tuple[int, int] | None:
    """Where a piece lies.

    Args:
        form: The form of the text.
        piece: The piece.
        reached: Up to where the text is covered.
        bounds: Where the piece before starts; the last place of this one.
        ahead: Whether it rather leaves a gap than lies inside of what is covered.
    """
    text, (least, last) = form.text, bounds
    following = reached, min(form.content_from(reached), last)
    reaches = _HOLE_REACHES if piece.is_whole else (0, *_HOLE_REACHES)
    for some in (reaches[:-1], reaches[-1:]):
        # With unknown words, text that goes on is likelier than text that is there twice without.
        for reach in some:
            place = _first(text, piece, following, reach)
            if place is not None:
                return place
        for reach in some:
            place = _last(text, piece, (least, min(reached - 1, last)), reach)
            if place is None or (ahead and place[1] <= reached <= last):
                place = _first(text, piece, (reached, last), reach) or place
            if place is not None:
                return place
    return None


def _last(text: str, piece: _Piece, bounds: tuple[int, int], reach: int) -> tuple[int, int] | None:
    """The last place where a piece starts within bounds, both included."""
    least, most = bounds
    anchor = min(piece.farthest(most, reach), len(text) - len(piece.anchor)) + 1
    while (anchor := _last_at(text, piece.anchor, anchor - 1, least)) >= 0:
        place = _place(text, piece, anchor, bounds, reach)
        if place is not None:
            return place
    return None


def _first(text: str, piece: _Piece, bounds: tuple[int, int], reach: int) -> tuple[int, int] | None:
    """The first place where a piece starts within bounds, both included."""
    least, most = bounds
    stop = piece.farthest(most, reach) + len(piece.anchor)
    anchor = least - 1
    while (anchor := text.find(piece.anchor, anchor + 1, stop)) >= 0:
        place = _place(text, piece, anchor, bounds, reach)
        if place is not None:
            return place
    return None


def _place(
    text: str, piece: _Piece, anchor: int, bounds: tuple[int, int], reach: int
) -> tuple[int, int] | None:
    """The narrowest place of a piece with its longest fragment at ``anchor``.

    All places of the other fragments are followed: short ones have many.
    """
    starts, ends = [anchor], [anchor + len(piece.anchor)]
    for fragment, tokens in piece.before:
        size, hole = len(fragment), reach * tokens
        low, high = max(0, starts[0] - hole - size), starts[-1] - size
        starts = [
            place
            for place in _all_at(text, fragment, low, high)
            if _any_in(starts, place + size, place + size + hole)
        ]
        if not starts:
            return None
    for fragment, tokens in piece.after:
        size, hole = len(fragment), reach * tokens
        ends = [
            place + size
            for place in _all_at(text, fragment, ends[0], ends[-1] + hole)
            if _any_in(ends, place - hole, place)
        ]
        if not ends:
            return None
    fitting = bisect.bisect_right(starts, bounds[1]) - 1
    if fitting < 0 or starts[fitting] < bounds[0]:
        return None
    return starts[fitting], ends[0]


def _all_at(text: str, part: str, least: int, bound: int) -> Iterable[int]:
    """All places of a part from ``least`` to ``bound``, in order."""
    place = text.find(part, least, bound + len(part))
    while place >= 0:
        yield place
        place = text.find(part, place + 1, bound + len(part))


def _any_in(places: Sequence[int], least: int, bound: int) -> bool:
    """Whether one of some places, in order, is from ``least`` to ``bound``."""
    number = bisect.bisect_left(places, least)
    return number < len(places) and places[number] <= bound


def _last_at(text: str, part: str, bound: int, least: int = 0) -> int:
    """The last place of a part that is at most ``bound`` and at least ``least``; -1 if none.

    ``str.rfind`` takes quadratic time on repetitive text; ``str.find`` does not. So nothing
    but the place that is most likely, right in front, is looked for by the faster way.
    """
    if bound < least:
        return -1
    stop = min(bound + len(part), len(text))
    found = text.rfind(part, max(least, bound - len(part) - 64), stop)
    if found >= 0:
        return found
    backward = part[::-1]
    width = 4 * len(part) + 256
    while True:
        low = max(least, stop - width)
        found = text[low:stop][::-1].find(backward)
        if found >= 0:
            return stop - found - len(part)
        if low == least:
            return -1
        width *= 4


def _add_gap(gaps: dict[int, Gap], number: int, form: _Form, start: int, end: int) -> int:
    """Note the text that no piece covers, if there is any; return how much it is."""
    content = form.content(start, end)
    if content:
        gaps[number] = Gap(*form.source(form.content_from(start), end, ""), content)
    return len(content)
