"""Finds passages that stand word for word in other texts, wherever they begin there.

Windows of some characters are looked up, in time proportional to the size of the texts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

# The characters of a window.
_WINDOW = 32
# In a repetitive text, only so many places with the same window are compared.
_MOST_PLACES = 8
# The fewest characters, without white space, of a text that counts as a copy: some 30 words.
_SHORTEST_COPY = 150

# Lines below headings: their signs depend on the level of the heading.
_RULE = re.compile(r"([=~^*#+.-])\1\1\1+")

ChunkPlace = tuple[int, int]
"""The number of a document, and the number of a chunk of it."""


def find_copied(
    documents: Sequence[Mapping[int, str]],
    may_drop: Callable[[ChunkPlace, int], bool],
) -> dict[ChunkPlace, int]:
    """Find chunks whose whole text stands word for word in chunks of a better document.

    Neighboring chunks are compared as one text, since chunks of two documents rarely end at the
    same places of a passage. White space does not count. Short texts, such as a turn of a chat or a
    heading, are no copies.

    Args:
        documents: The texts of the chunks of each document by their numbers, without overlap; the
            best document first.
        may_drop: Gets a copy, and the number of the document that has its text. Returns False if
            the copy is to be kept.

    Returns:
        The number of the document that has the text of each copy, the first one that has it; copies
        are in the order of ``documents``.
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
    """The text without white space, which depends on line breaks, and without rules of signs."""
    without_rules = _RULE.sub("", text)
    return "".join(without_rules.replace(" ", "").split())  # fewer words are split faster


def _may_share(documents: Sequence[Mapping[int, str]]) -> bool:
    """True if a chunk may stand in a better document: a quick check that misses no copy."""
    known: set[str] = set()  # the windows that lie side by side in better documents
    for texts in documents:
        for text in texts.values():
            if len(text) < _SHORTEST_COPY:
                continue
            # One of the windows of a text that has this one begins within the first window here.
            beginning = [text[offset : offset + _WINDOW] for offset in range(_WINDOW)]
            if not known.isdisjoint(beginning):
                return True
        for text in _joined_neighbors(texts):
            starts = range(0, len(text) - _WINDOW + 1, _WINDOW)
            known.update([text[start : start + _WINDOW] for start in starts])
    return False


def _joined_neighbors(texts: Mapping[int, str]) -> Iterator[str]:
    """Join the texts of chunks that follow one another; texts are given by chunk numbers."""
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
    """Texts in which passages are found that stand there word for word.

    Passages of at least two windows, which is 64 characters, are found, and some shorter ones. All
    texts are given without white space.
    """

    _texts: list[str] = field(init=False, default_factory=list)
    # Where the windows begin that lie side by side in the texts: the text's number, and the place.
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
        """The number of the first text that contains all of a passage; None if none does."""
        found: list[int] = []
        # One of the windows of a text begins within the first window of the passage.
        for offset in range(_WINDOW):
            for number, start in self._places.get(passage[offset : offset + _WINDOW], ()):
                passage_start = start - offset
                if passage_start >= 0 and self._texts[number].startswith(passage, passage_start):
                    found.append(number)
        return min(found, default=None)

    def shared_characters(self, text: str) -> NDArray[np.bool_]:
        """Which characters of a text are in passages that stand in these texts."""
        is_shared = np.zeros(len(text), np.bool_)
        for begin in range(len(text) - _WINDOW + 1):
            end = begin + _WINDOW
            for number, start in self._places.get(text[begin:end], ()):
                other = self._texts[number]
                # Beside the first and the last window of a passage, less than a window is left.
                before = text[max(begin - _WINDOW, 0) : begin]
                other_before = other[max(start - _WINDOW, 0) : start]
                after = text[end : end + _WINDOW]
                other_after = other[start + _WINDOW : start + 2 * _WINDOW]
                first = begin - _count_equal(before[::-1], other_before[::-1])
                is_shared[first : end + _count_equal(after, other_after)] = True
        return is_shared


def _count_equal(one: str, other: str) -> int:
    """The number of characters with which both texts begin."""
    count = 0
    for sign, other_sign in zip(one, other, strict=False):
        if sign != other_sign:
            break
        count += 1
    return count
