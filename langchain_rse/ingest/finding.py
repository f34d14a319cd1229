"""Finds chunks in a text in linear time; chunks may contain unknown text."""

from collections.abc import Callable, Sequence

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

    def __init__(self, text: str, is_content: Callable[[str], object]) -> None:
        """Prepare a search; ``is_content`` recognizes letters and digits."""
        self.text = text
        # str.find is linear in the text; str.rfind takes time proportional to text times chunk.
        self._reversed = text[::-1]
        self._is_content = is_content
        self._content_range = (0, 0)  # start and result of the last `next_content`
        self._searches_left = _FEWEST_SEARCHES + _SEARCHES_PER_CHARACTER * len(text)

    def next_content(self, start: int) -> int:
        """Find the first letter or digit at or after ``start``; fastest for ascending starts."""
        first, position = self._content_range
        if not first <= start <= position:
            position = start
        while position < len(self.text) and not self._is_content(self.text[position]):
            position += 1
        self._content_range = (start, position)
        return position

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
        following = _parts_after_first(parts, reach)
        ends = [start + len(parts[0])]  # ends of the parts found so far
        tried = [0] * len(following)  # positions of a part before this one are dead ends
        while len(ends) <= len(following):
            number = len(ends) - 1
            part, room = following[number]
            self._searches_left -= 1 + room // _CHARACTERS_PER_SEARCH
            if self._searches_left < 0:
                return None
            last = ends[-1] + room
            place = self.text.find(part, max(ends[-1], tried[number]), last + len(part))
            if place >= 0:
                tried[number] = place + 1
                ends.append(place + len(part))
                continue
            tried[number] = max(tried[number], last + 1)
            ends.pop()
            if not ends:
                return None
        return ends[-1]


def _parts_after_first(parts: Sequence[str], reach: int) -> list[tuple[str, int]]:
    """Pair the non-empty parts after the first with the length of unknown text before each."""
    following: list[tuple[str, int]] = []
    room = 0
    for part in parts[1:]:
        room += reach
        if part:
            following.append((part, room))
            room = 0
    return following
