"""Finds chunks in a text in linear time; chunks may contain unknown text."""

from collections.abc import Sequence

# Budget of searches for parts of chunks: a base plus a number per character of text. Adversarial
# text that matches chunks in many wrong ways would otherwise take much longer.
_SEARCHES_PER_CHARACTER = 4
_FEWEST_SEARCHES = 100_000
# This many unknown characters count as one more search.
_CHARACTERS_PER_SEARCH = 1000


class Finder:
    """Finds chunks in one text.

    A chunk is a list of parts with unknown text between them; the first part is not empty.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        # str.find is linear in the text; str.rfind takes time proportional to text times chunk.
        self._reversed = text[::-1]
        self._searches_left = _FEWEST_SEARCHES + _SEARCHES_PER_CHARACTER * len(text)

    def find(
        self, parts: Sequence[str], earliest: int, latest: int, reach: int, *, last: bool = False
    ) -> tuple[int, int] | None:
        """Find the first or last span of a chunk that starts between ``earliest`` and ``latest``.

        Unknown text spans at most ``reach`` characters.
        """
        first_part = parts[0]
        bound = latest + len(first_part)
        while True:
            if last:
                start = self._find_last(first_part, earliest, bound)
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

    def _find_last(self, part: str, earliest: int, bound: int) -> int:
        """Like ``str.rfind``."""
        length = len(self.text)
        start = self._reversed.find(part[::-1], length - min(bound, length), length - earliest)
        return start if start < 0 else length - start - len(part)

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
