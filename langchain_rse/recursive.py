"""What LangChain's RecursiveCharacterTextSplitter cuts, and where, without cutting it up first.

The splitter makes a string of every piece between two separators and joins them again. Here,
the end of each chunk is looked for in the text: it takes work by chunks, not by pieces.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

import langchain_text_splitters.character as splitting_functions
from langchain_text_splitters import RecursiveCharacterTextSplitter

__all__ = ["Cuts", "recursive_cuts"]

# Each of them may be a call within the call before.
_MOST_SEPARATORS = 100

_SETTINGS = frozenset(
    {
        *("_chunk_size", "_chunk_overlap", "_length_function", "_keep_separator"),
        *("_add_start_index", "_strip_whitespace", "_separators", "_is_separator_regex"),
    }
)


class Cuts(NamedTuple):
    """The chunks of a text, in its order.

    Attributes:
        starts: Where each chunk begins in the text. Between chunks, in front of the first and
            after the last, there is nothing but white space.
        chunks: The chunks, as ``split_text`` returns them.
    """

    starts: list[int]
    chunks: list[str]


def recursive_cuts(text: str, splitter: object) -> Cuts | None:
    """Split a text as a RecursiveCharacterTextSplitter does.

    Args:
        text: The text.
        splitter: Any splitter.

    Returns:
        What ``splitter.split_text(text)`` returns, and where it lies. None for another class or
        a subclass, methods that were replaced, another length function than ``len``, separators
        that are regular expressions or are not kept, and a LangChain that cuts otherwise than
        1.0 to 1.1 do: then it is the splitter itself that has to be asked.
    """
    if type(splitter) is not RecursiveCharacterTextSplitter or type(text) is not str or not text:
        return None
    if _methods() != _METHODS or not _is_known():
        return None
    return _cuts(text, splitter)


def _methods() -> list[object]:
    """What the splitter works with, as far as this LangChain has it."""
    names = ("split_text", "_split_text", "_merge_splits", "_join_docs")
    methods = [getattr(RecursiveCharacterTextSplitter, name, None) for name in names]
    return [*methods, getattr(splitting_functions, "_split_text_with_regex", None)]


_METHODS = _methods()


@functools.cache
def _is_known() -> bool:
    """Whether the LangChain that is installed cuts in the way that is known here."""
    text = "\n\n\n\none two\n\n three  four five\nsixsevens\n\n\n ab "
    for keep in (True, "start", "end"):
        for size, overlap, strip in [(6, 0, True), (7, 3, True), (6, 6, False), (1, 0, True)]:
            splitter = RecursiveCharacterTextSplitter(
                chunk_size=size, chunk_overlap=overlap, keep_separator=keep, strip_whitespace=strip
            )
            cuts = _cuts(text, splitter)
            if cuts is None or cuts.chunks != splitter.split_text(text):
                return False
    return True


def _cuts(text: str, splitter: RecursiveCharacterTextSplitter) -> Cuts | None:
    """The chunks, if the splitter's settings are ones that are known here."""
    settings = vars(splitter)
    if settings.keys() != _SETTINGS:  # one of its methods, or something new
        return None
    keep, separators = settings["_keep_separator"], settings["_separators"]
    size, overlap = settings["_chunk_size"], settings["_chunk_overlap"]
    # The splitter checks little of it, and only when it is made.
    if (
        settings["_length_function"] is not len
        or settings["_is_separator_regex"]
        or not (keep is True or (type(keep) is str and keep in {"start", "end"}))
        or not (type(size) is type(overlap) is int and 0 <= overlap <= size > 0)
        or type(separators) is not list
        or not 0 < len(separators) <= _MOST_SEPARATORS
        or not all(type(separator) is str for separator in separators)
    ):
        return None
    strip = bool(settings["_strip_whitespace"])
    cutter = _Cutter(text, size=size, overlap=overlap, at_end=keep == "end", strip=strip)
    cutter.cut(0, len(text), separators)
    return Cuts(cutter.starts, cutter.chunks)


class _Cutter:
    """Cuts one text; the settings are those of the splitter."""

    def __init__(self, text: str, *, size: int, overlap: int, at_end: bool, strip: bool) -> None:
        self.text = text
        self.size = size
        self.overlap = overlap
        self.at_end = at_end
        self.strip = strip
        self.starts: list[int] = []
        self.chunks: list[str] = []

    def cut(self, start: int, stop: int, separators: Sequence[str]) -> None:
        """Cut a part of the text by the first of the separators that is in it."""
        text = self.text
        for number, separator in enumerate(separators):
            if not separator:
                self._cut_characters(start, stop)
                return
            if text.find(separator, start, stop) >= 0:
                self._cut_at(start, stop, separator, separators[number + 1 :])
                return
        if stop - start < self.size:
            self._merged(start, stop)
        else:
            self._whole(start, stop)

    def _merged(self, start: int, end: int) -> None:
        """Add a chunk of pieces."""
        piece = chunk = self.text[start:end]
        if self.strip:
            chunk = piece.strip()
            if not chunk:
                return
            start += piece.index(chunk[0])
        self.starts.append(start)
        self.chunks.append(chunk)

    def _whole(self, start: int, end: int) -> None:
        """Add a piece that is too long and that no separator cuts; it is not stripped."""
        self.starts.append(start)
        self.chunks.append(self.text[start:end])

    def _cut_characters(self, start: int, stop: int) -> None:
        size = self.size
        if size == 1:
            for place in range(start, stop):
                self._whole(place, place + 1)
            return
        end = min(start + size, stop)
        self._merged(start, end)
        while end < stop:
            start = max(end - self.overlap, end + 1 - size)
            end = min(start + size, stop)
            self._merged(start, end)

    def _cut_at(self, start: int, stop: int, separator: str, rest: Sequence[str]) -> None:
        size, overlap = self.size, self.overlap
        boundaries = _Boundaries(self.text, stop, separator, at_end=self.at_end)
        while start < stop:
            limit = start + size
            end = stop if stop <= limit else boundaries.last(start, limit)
            # Two pieces are a chunk; one alone of that length is too long.
            if end == limit and boundaries.last(start, limit - 1) < 0:
                end = -1
            if end < 0:
                end = boundaries.next(start)
                if rest:
                    self.cut(start, end, rest)
                else:
                    self._whole(start, end)
                start = end
                continue
            self._merged(start, end)
            if overlap and end < stop:
                following = boundaries.next(end)
                if following - end < size:
                    least = max(end - overlap, following - size)
                    start = boundaries.at_or_after(least, start, end)
                    continue
            start = end


class _Boundaries:
    """Where the splitter cuts a part of a text: in front of each separator, or behind it.

    Separators do not overlap, even if their text could: they count from the left. So all is
    looked for from a boundary, or from the start of the part.

    Args:
        text: The text.
        stop: Where the part ends.
        separator: A separator that is in the part.
        at_end: Cut behind separators.
    """

    def __init__(self, text: str, stop: int, separator: str, *, at_end: bool) -> None:
        self.text = text
        self.stop = stop
        self.separator = separator
        self.width = width = len(separator)
        self.from_start = width if at_end else 0
        self.may_overlap = any(separator[n:] == separator[:-n] for n in range(1, width))

    def _first(self, start: int) -> int:
        """Where the first separator may begin that makes a boundary after this one."""
        if self.from_start:
            return start
        return start + (self.width if self.text.startswith(self.separator, start, self.stop) else 1)

    def last(self, start: int, limit: int) -> int:
        """The last boundary after one up to ``limit``, in front of the end; -1 if there is none."""
        text, separator, width = self.text, self.separator, self.width
        first, bound = self._first(start), min(limit + width - self.from_start, self.stop)
        place = text.rfind(separator, first, bound)
        if place < 0:
            return -1
        if self.may_overlap:
            left = max(first, place - width + 1)
            if text.rfind(separator, left, place + width - 1) >= 0:
                place = bound - len(text[first:bound].split(separator)[-1]) - width
        return place + self.from_start

    def next(self, start: int) -> int:
        """The next boundary after one; the end of the part is one."""
        place = self.text.find(self.separator, self._first(start), self.stop)
        return self.stop if place < 0 else place + self.from_start

    def at_or_after(self, least: int, start: int, end: int) -> int:
        """The first boundary from ``least`` on, of those between two boundaries."""
        if self.may_overlap:
            while start < least:
                start = self.next(start)
            return start
        first = max(start, least - self.from_start)
        bound = end + self.width - self.from_start
        return self.text.find(self.separator, first, bound) + self.from_start
