"""Finds passages that occur word for word in other texts, at any position.

Looks up windows of fixed size, in time proportional to the length of the texts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

# The size of a window in characters.
_WINDOW = 32
# At most this many occurrences of a window are compared, for repetitive texts.
_MOST_PLACES = 8
# The length of the shortest text that counts as a copy, without white space: about 30 words.
_SHORTEST_COPY = 150

# Underlines of headings: their characters depend on the level of the heading.
_RULE = re.compile(r"([=~^*#+.-])\1\1\1+")

ChunkPlace = tuple[int, int]
"""The numbers of a document and of one of its chunks."""


def find_copied(
    documents: Sequence[Mapping[int, str]],
    may_drop: Callable[[ChunkPlace, int], bool],
) -> dict[ChunkPlace, int]:
    """Find chunks whose whole text occurs word for word in chunks of a better document.

    Neighboring chunks are compared as one text, because two documents rarely split a passage at the
    same positions. White space is ignored. Short texts, such as a turn of a chat or a heading,
    never count as copies.

    Args:
        documents: For each document, best first: the texts of its chunks by number, without
            overlap.
        may_drop: Called with a copy and the number of the document that contains its text. Returns
            False to keep the copy.

    Returns:
        For each copy, the number of the first document that contains its text; copies are in the
        order of ``documents``.
    """
    if len(documents) <= 1:
        return {}
    comparable_documents = []
    for texts in documents:
        comparable_documents.append({index: comparable(text) for index, text in texts.items()})
    if not _may_share(comparable_documents):  # true for most queries
        return {}
    passages = Passages()
    document_of_text: list[int] = []
    copied: dict[ChunkPlace, int] = {}
    for number, texts in enumerate(comparable_documents):
        for index, text in texts.items():
            if len(text) < _SHORTEST_COPY:
                continue
            found = passages.find(text)
            if found is not None and may_drop((number, index), document_of_text[found]):
                copied[number, index] = document_of_text[found]
        for text in _joined_neighbors(texts):
            passages.add(text)
            document_of_text.append(number)
    return copied


def comparable(text: str) -> str:
    """Return a text without white space and underlines, which vary with the layout."""
    without_rules = _RULE.sub("", text)
    return "".join(without_rules.replace(" ", "").split())  # fewer words are split faster


def _may_share(documents: Sequence[Mapping[int, str]]) -> bool:
    """True if a chunk may occur in a better document: a quick check that misses no copy."""
    known: set[str] = set()  # consecutive windows of better documents
    for texts in documents:
        for text in texts.values():
            if len(text) < _SHORTEST_COPY:
                continue
            # If a text contains this one, one of its windows begins in the first window here.
            beginning = [text[offset : offset + _WINDOW] for offset in range(_WINDOW)]
            if not known.isdisjoint(beginning):
                return True
        for text in _joined_neighbors(texts):
            starts = range(0, len(text) - _WINDOW + 1, _WINDOW)
            known.update([text[start : start + _WINDOW] for start in starts])
    return False


def _joined_neighbors(texts: Mapping[int, str]) -> Iterator[str]:
    """Join the texts of consecutive chunks; ``texts`` is by chunk number."""
    joined: list[str] = []
    previous = None
    for index in sorted(texts):
        if joined and index - 1 != previous:
            yield "".join(joined)
            joined = []
        joined.append(texts[index])
        previous = index
    yield "".join(joined)


@dataclass
class Passages:
    """An index of texts that finds passages occurring word for word in them.

    It finds all passages of at least two windows (64 characters), and some shorter ones. All texts
    are given without white space.
    """

    _texts: list[str] = field(init=False, default_factory=list)
    # The number and position of each text's consecutive windows, by window.
    _places: dict[str, list[tuple[int, int]]] = field(init=False, default_factory=dict)

    def add(self, text: str) -> None:
        """Add a text; texts are numbered from 0."""
        number = len(self._texts)
        self._texts.append(text)
        for start in range(0, len(text) - _WINDOW + 1, _WINDOW):
            places = self._places.setdefault(text[start : start + _WINDOW], [])
            if len(places) < _MOST_PLACES:
                places.append((number, start))

    def find(self, passage: str) -> int | None:
        """Return the number of the first text that contains a whole passage, or None."""
        found: list[int] = []
        # If a text contains the passage, one of its windows begins in the passage's first window.
        for offset in range(_WINDOW):
            for number, start in self._places.get(passage[offset : offset + _WINDOW], ()):
                passage_start = start - offset
                if passage_start >= 0 and self._texts[number].startswith(passage, passage_start):
                    found.append(number)
        return min(found, default=None)

    def shared_characters(self, text: str) -> NDArray[np.bool_]:
        """Return a mask of the characters in passages that also occur in the indexed texts."""
        is_shared = np.zeros(len(text), np.bool_)
        for begin in range(len(text) - _WINDOW + 1):
            end = begin + _WINDOW
            for number, start in self._places.get(text[begin:end], ()):
                other = self._texts[number]
                # A passage extends less than one window beyond its first and last window.
                before = text[max(begin - _WINDOW, 0) : begin]
                other_before = other[max(start - _WINDOW, 0) : start]
                after = text[end : end + _WINDOW]
                other_after = other[start + _WINDOW : start + 2 * _WINDOW]
                first = begin - _count_equal(before[::-1], other_before[::-1])
                is_shared[first : end + _count_equal(after, other_after)] = True
        return is_shared


def _count_equal(one: str, other: str) -> int:
    """Return the length of the common beginning of two texts."""
    count = 0
    for sign, other_sign in zip(one, other, strict=False):
        if sign != other_sign:
            break
        count += 1
    return count
