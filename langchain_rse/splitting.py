"""From any text splitter to spans that tile the text.

A splitter returns texts; what RSE needs is where they lie, so that neighboring chunks
can be put together again without a gap, an overlap or a lost character.
"""

from __future__ import annotations

import bisect
import re
import warnings
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

__all__ = ["Span", "Splitter", "SplittingError", "split_spans"]

_EXCERPT = 60
_CONTENT = re.compile(r"[^\W_]+")


class Splitter(Protocol):
    """What `split_spans` needs of a splitter: LangChain's ``TextSplitter`` has it."""

    def split_text(self, text: str) -> list[str]:
        """Split a text into chunks, in the order of the text."""
        ...


class Span(NamedTuple):
    """A chunk's place in its document, and what is embedded for it.

    Attributes:
        start: First character of the chunk in the text.
        end: Character after the last. Spans tile the text: the next one starts here.
        embedded_text: The chunk as the splitter gave it, overlap included.
    """

    start: int
    end: int
    embedded_text: str


class SplittingError(ValueError):
    """A splitter's chunks cannot be found in the text they were made from."""


def split_spans(text: str, splitter: Splitter) -> list[Span]:
    """Split a text into spans that tile it, with any splitter that keeps the text.

    Each chunk is looked up in the text, forward from the chunk before it. The text is
    then cut where chunks start: what lies between two chunks (separators, stripped white
    space) belongs to the first, and where chunks overlap, the later one begins earlier.
    Chunks in which only separators were altered (``CharacterTextSplitter`` merges runs of
    them) are found by their letters and digits.

    A chunk that lies wholly inside another one adds nothing; it is dropped, and a warning
    counts such chunks.

    Args:
        text: The text, any Unicode. An empty one has no spans.
        splitter: Any LangChain ``TextSplitter`` that keeps letters and digits as they are.

    Returns:
        The spans in the order of the text; joined, their slices are the text. A text in
        which the splitter finds nothing, such as one of white space, is one span.

    Raises:
        SplittingError: If a chunk cannot be found: the splitter changes, reorders or
            invents text. The message names the chunk and the splitter.
        TypeError: If the splitter does not return a list of strings.
    """
    if not text:
        return []
    name = type(splitter).__name__
    pieces = splitter.split_text(text)
    for number, piece in enumerate(pieces):
        if not isinstance(piece, str):
            raise TypeError(
                f"{name}.split_text must return strings; chunk {number} is of type "
                f"{type(piece).__name__}. Splitters that return Documents are not supported: "
                "give a TextSplitter such as RecursiveCharacterTextSplitter"
            )
    # White space alone is nothing to search for; its place is taken like a separator's.
    numbers = [number for number, piece in enumerate(pieces) if piece.strip()]
    wanted = [pieces[number] for number in numbers]
    placement = _place_best(text, wanted)
    if isinstance(placement, int):
        # A fragment of the chunk before it can stand in the way of the chunk after it.
        fragments = {i for i in range(1, len(wanted)) if wanted[i] in wanted[i - 1]}
        rest = [piece for i, piece in enumerate(wanted) if i not in fragments]
        again = _place_best(text, rest) if fragments else placement
        if isinstance(again, int):
            raise SplittingError(_not_found(name, pieces, numbers[placement]))
        return _tile(text, rest, again.places, name, contained=len(fragments))
    return _tile(text, wanted, placement.places, name)


def _not_found(name: str, pieces: Sequence[str], number: int) -> str:
    excerpt = pieces[number][:_EXCERPT]
    more = "..." if len(pieces[number]) > _EXCERPT else ""
    return (
        f"chunk {number} of {len(pieces)} that {name} returned, {excerpt!r}{more}, is not in the "
        "text after the chunks before it: the splitter changes, reorders or invents text. Use a "
        "splitter that keeps it, such as RecursiveCharacterTextSplitter; with a regular "
        "expression as the separator, set keep_separator=True"
    )


class _Placement(NamedTuple):
    """Where each piece lies in the text; None for one that cannot be told.

    ``lost`` counts the letters and digits of the text that are in no piece.
    """

    places: Sequence[tuple[int, int] | None]
    lost: int


def _place_best(text: str, pieces: Sequence[str]) -> _Placement | int:
    """Place pieces as they are, or by their letters and digits if that finds more of the text.

    Returns the number of a piece that cannot be placed, if there is one.
    """
    exact = _place(text, pieces)
    if not isinstance(exact, int) and not exact.lost:
        return exact
    # A piece in which separators were altered is not in the text, or only by chance.
    by_content = _place_by_content(text, pieces)
    if isinstance(by_content, int):
        return by_content if isinstance(exact, int) else exact
    if isinstance(exact, int) or by_content.lost < exact.lost:
        return by_content
    return exact


def _place(text: str, pieces: Sequence[str]) -> _Placement | int:
    """Place pieces exactly as they are; or return the number of a piece not found.

    Repeated text has several places for a piece. The backward pass finds the last place
    that leaves room for all later pieces; within it, the forward pass takes the place
    that continues the text, and otherwise the one that overlaps it least.
    """
    latest = [0] * len(pieces)
    bound = len(text)
    for number in range(len(pieces) - 1, -1, -1):
        bound = text.rfind(pieces[number], 0, bound + len(pieces[number]))
        if bound < 0:
            return number
        latest[number] = bound

    places = []
    lost = start = end = 0
    for piece, last in zip(pieces, latest, strict=True):
        after = text.find(piece, end, last + len(piece))
        skipped = _content_length(text, end, after) if after >= 0 else 0
        if after < 0 or skipped:
            overlapping = text.rfind(piece, start, min(end - 1, last) + len(piece))
            if overlapping >= 0 and (after < 0 or overlapping + len(piece) > end):
                after, skipped = overlapping, 0
        start = after
        lost += skipped
        end = max(end, start + len(piece))
        places.append((start, start + len(piece)))
    return _Placement(places, lost + _content_length(text, end, len(text)))


def _place_by_content(text: str, pieces: Sequence[str]) -> _Placement | int:
    """Like `_place`, by letters and digits alone."""
    place_in_text = _content_map(text)
    contents = ["".join(_CONTENT.findall(piece)) for piece in pieces]
    having = [number for number, content in enumerate(contents) if content]
    found = _place("".join(_CONTENT.findall(text)), [contents[number] for number in having])
    if isinstance(found, int):
        return having[found]
    places: list[tuple[int, int] | None] = [None] * len(pieces)
    for number, place in zip(having, found.places, strict=True):
        if place is None:
            continue
        start, end = place_in_text(place[0]), place_in_text(place[1] - 1) + 1
        # Take along the punctuation with which the piece begins, as far as it is there.
        piece = pieces[number]
        first = _CONTENT.search(piece)
        lead = first.start() if first else 0
        taken = 0
        while taken < min(lead, start) and text[start - taken - 1] == piece[lead - taken - 1]:
            taken += 1
        places[number] = (start - taken, end)
    return _Placement(places, found.lost)


def _content_length(text: str, start: int, end: int) -> int:
    """How many letters and digits are in ``text[start:end]``."""
    return sum(run.end() - run.start() for run in _CONTENT.finditer(text, start, end))


def _content_map(text: str) -> Callable[[int], int]:
    """A function from a place among the letters and digits to the place in the text."""
    in_content: list[int] = []
    in_text: list[int] = []
    length = 0
    for run in _CONTENT.finditer(text):
        in_content.append(length)
        in_text.append(run.start())
        length += run.end() - run.start()

    def place_in_text(place: int) -> int:
        run = bisect.bisect_right(in_content, place) - 1
        return in_text[run] + place - in_content[run]

    return place_in_text


def _tile(
    text: str,
    pieces: Sequence[str],
    places: Sequence[tuple[int, int] | None],
    name: str,
    contained: int = 0,
) -> list[Span]:
    """Cut the text where pieces start, and leave out pieces that are inside others."""
    kept: list[tuple[int, str]] = []
    reached = 0
    for place, piece in zip(places, pieces, strict=True):
        if place is None:
            continue
        start, end = place
        if kept and start <= kept[-1][0]:
            # Both begin at one place: the longer has all of the shorter.
            contained += 1
            if end > reached:
                kept[-1] = (kept[-1][0], piece)
        elif kept and end <= reached:
            contained += 1
        else:
            kept.append((start, piece))
        reached = max(reached, end)
    if contained:
        warnings.warn(
            f"{name} returned {contained} chunk(s) that lie wholly inside another chunk; they "
            "add nothing and were dropped",
            stacklevel=3,
        )
    if not kept:
        return [Span(0, len(text), text)]
    cuts = [0, *(start for start, _ in kept[1:]), len(text)]
    return [Span(cuts[number], cuts[number + 1], piece) for number, (_, piece) in enumerate(kept)]
