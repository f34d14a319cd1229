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

# `shared_shares` compares one window in 32, by its first and last bytes: if the first bytes have a
# low digest. Digests are products with an odd number near the golden ratio, which spreads high bits
# (Knuth).
_EIGHT = 8
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_SAMPLED = np.uint64(1 << 59)
_OWNER_BITS = np.uint64(20)
_SEPARATOR = 0xFF  # no byte of UTF-8
_LAST_WHITE_SPACE = ord(" ")

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


def shared_shares(texts: Sequence[str], owners: Sequence[int]) -> Floats:
    """Estimate the share of each text that stands word for word in texts of other owners.

    The windows of texts are sampled, so a text of fewer than some 200 characters may have none and
    a share of 0.

    Args:
        texts: The texts.
        owners: A number for each text, such as that of its document.

    Returns:
        Shape ``(texts,)``, from 0 to 1.
    """
    separator = bytes([_SEPARATOR])
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    joined = np.frombuffer(separator.join([*encoded, b""]), np.uint8)
    digests, numbers = _sample_windows(np.compress(joined > _LAST_WHITE_SPACE, joined))
    owner_of = np.asarray(owners, np.uint64)
    shared = _shared_digests(digests, owner_of[numbers])
    if not shared.size:
        return np.zeros(len(texts))
    is_shared = np.isin(digests >> _OWNER_BITS, shared)
    sampled = np.bincount(numbers, minlength=len(texts))
    shared_count = np.bincount(numbers, weights=is_shared, minlength=len(texts))
    return np.asarray(shared_count / np.maximum(sampled, 1))


def _sample_windows(
    joined: NDArray[np.uint8],
) -> tuple[NDArray[np.uint64], NDArray[np.intp]]:
    """The digests of some windows of texts that end with a separator, and the texts' numbers.

    Whether a window is among them depends only on its first eight bytes.
    """
    if joined.size < _WINDOW:
        return np.zeros(0, np.uint64), np.zeros(0, np.intp)
    # The next eight bytes from each place on, as one number.
    eights = np.ndarray((joined.size - _EIGHT + 1,), "<u8", joined, strides=(1,))
    positions = np.flatnonzero(eights[: joined.size - _WINDOW + 1] * _MULTIPLIER < _SAMPLED)
    text_ends = np.flatnonzero(joined == _SEPARATOR)
    numbers = np.searchsorted(text_ends, positions)
    is_in_one_text = positions + _WINDOW <= text_ends[numbers]
    positions, numbers = positions[is_in_one_text], numbers[is_in_one_text]
    begins, ends = eights[positions], eights[positions + _WINDOW - _EIGHT]
    digests = ((begins * _MULTIPLIER) ^ ends) * _MULTIPLIER
    return digests, numbers


def _shared_digests(digests: NDArray[np.uint64], owners: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The high bits of digests that several owners have."""
    # Sorted numbers of a digest's high bits and an owner: equal digests stand together.
    pairs = np.sort((digests >> _OWNER_BITS << _OWNER_BITS) | owners)
    high_bits = pairs >> _OWNER_BITS
    is_shared = (high_bits[1:] == high_bits[:-1]) & (pairs[1:] != pairs[:-1])
    return np.asarray(high_bits[1:][is_shared])
