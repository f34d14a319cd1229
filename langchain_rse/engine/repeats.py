"""Finds passages that stand word for word in other texts, wherever they begin there.

`shared_shares` is a fast estimate for many texts; `Passages` compares every character. Both look up
windows of some characters, in time proportional to the size of the texts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from langchain_rse.engine.segments import Floats

# The characters of a window.
_WINDOW = 32
# In a repetitive text, only so many places with the same window are compared.
_MOST_PLACES = 8

# `shared_shares` compares the windows with the lowest digests: one in 16.
_WORD = 8  # bytes
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_LOWEST_DIGESTS = np.uint64(1 << 60)
_OWNER_BITS = np.uint64(20)
_SEPARATOR = 0xFF  # no byte of UTF-8
_WHITE_SPACE = b" \t\n\r\v\f"

# Lines below headings: their signs depend on the level of the heading.
_RULE = re.compile(r"([=~^*#+.-])\1{3,}")


def comparable(text: str) -> str:
    """The text without white space, which depends on line breaks, and without rules of signs."""
    return "".join(_RULE.sub("", text).split())


class Passages:
    """Texts in which passages are found that stand there word for word.

    Passages of at least two windows, which is 64 characters, are found, and some shorter ones. All
    texts are given without white space.
    """

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._names: list[str] = []
        # Where the windows begin that lie side by side in the texts: the text, and the place.
        self._places: dict[str, list[tuple[int, int]]] = {}

    def add(self, text: str, name: str) -> None:
        """Add a text."""
        number = len(self._texts)
        self._texts.append(text)
        self._names.append(name)
        for start in range(0, len(text) - _WINDOW + 1, _WINDOW):
            places = self._places.setdefault(text[start : start + _WINDOW], [])
            if len(places) < _MOST_PLACES:
                places.append((number, start))

    def name_with(self, passage: str) -> str | None:
        """The name of the first text that contains all of a passage; None if none does."""
        found = None
        # One of the windows of a text begins within the first window of the passage.
        for offset in range(_WINDOW):
            for number, start in self._places.get(passage[offset : offset + _WINDOW], ()):
                is_there = start >= offset and self._texts[number].startswith(
                    passage, start - offset
                )
                if is_there and (found is None or number < found):
                    found = number
        return None if found is None else self._names[found]

    def shared_ranges(self, text: str) -> list[range]:
        """The characters of a text that stand in these texts, as ascending ranges."""
        ranges: list[range] = []
        position = begin = 0
        while position <= len(text) - _WINDOW:
            found = range(position, position)
            for number, start in self._places.get(text[position : position + _WINDOW], ()):
                common = _common_around(text, begin, position, self._texts[number], start)
                if len(common) > len(found):
                    found = common
            if found:
                ranges.append(found)
                begin = found.stop
            position = max(found.stop, position + 1)
        return ranges


def _common_around(text: str, first: int, position: int, other: str, start: int) -> range:
    """The characters from ``first`` on that are the same in another text, around equal windows."""
    begin, end = position, position + _WINDOW
    shift = start - position
    while begin > max(first, -shift) and text[begin - 1] == other[begin + shift - 1]:
        begin -= 1
    while end < len(text) and end + shift < len(other) and text[end] == other[end + shift]:
        end += 1
    return range(begin, end)


def shared_shares(texts: Sequence[str], owners: Sequence[int]) -> Floats:
    """Estimate the share of each text that stands word for word in texts of other owners.

    The windows of texts are sampled, so a text of fewer than some 100 characters may have none and
    a share of 0.

    Args:
        texts: The texts.
        owners: A number for each text, such as that of its document.

    Returns:
        Shape ``(texts,)``, from 0 to 1.
    """
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    separator = bytes([_SEPARATOR])
    joined = separator.join([*encoded, b""]).translate(None, _WHITE_SPACE)
    digests, numbers = _sample_windows(joined)
    owner_of = np.asarray(owners, np.uint64)
    shared = _shared_digests(digests, owner_of[numbers])
    if not shared.size:
        return np.zeros(len(texts))
    is_shared = np.isin(digests >> _OWNER_BITS, shared)
    sampled = np.bincount(numbers, minlength=len(texts))
    shared_count = np.bincount(numbers, weights=is_shared, minlength=len(texts))
    return np.asarray(shared_count / np.maximum(sampled, 1))


def _sample_windows(joined: bytes) -> tuple[NDArray[np.uint64], NDArray[np.intp]]:
    """The digests of some windows of texts that end with a separator, and the texts' numbers.

    Whether a window is among them depends only on its own characters.
    """
    count = len(joined) - _WINDOW + 1
    if count <= 0:
        return np.zeros(0, np.uint64), np.zeros(0, np.intp)
    # The eight bytes from each place on, as one number.
    words = np.ndarray((len(joined) - _WORD + 1,), "<u8", joined, strides=(1,))
    digests_of_words = words * _MULTIPLIER
    positions = np.flatnonzero(digests_of_words[:count] < _LOWEST_DIGESTS)
    ends = np.flatnonzero(np.frombuffer(joined, np.uint8) == _SEPARATOR)
    numbers = np.searchsorted(ends, positions)
    is_in_one_text = positions + _WINDOW <= ends[numbers]
    positions, numbers = positions[is_in_one_text], numbers[is_in_one_text]
    digests = digests_of_words[positions]
    for offset in range(_WORD, _WINDOW, _WORD):
        digests = digests * _MULTIPLIER + digests_of_words[positions + offset]
    return digests, numbers


def _shared_digests(digests: NDArray[np.uint64], owners: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The high bits of digests that several owners have."""
    # Sorted numbers of a digest's high bits and an owner: equal digests stand together.
    pairs = np.sort((digests >> _OWNER_BITS << _OWNER_BITS) | owners)
    high_bits = pairs >> _OWNER_BITS
    is_shared = (high_bits[1:] == high_bits[:-1]) & (pairs[1:] != pairs[:-1])
    return high_bits[1:][is_shared]
