"""Finds chunks in a text, also with unknown text within them, in time proportional to the text."""

from collections.abc import Callable, Sequence

# The most searches for parts of chunks, for each character of the text, and in any text. A text
# that fits chunks in many ways, none of them right, would take more.
_SEARCHES_PER_CHARACTER = 4
_FEWEST_SEARCHES = 100_000
# The unknown characters that count as one more search.
_CHARACTERS_PER_SEARCH = 1000


class Finder:
    """Finds chunks in one text.

    A chunk is given as its parts, between which unknown text may stand; the first one has text.
    """

    def __init__(self, text: str, is_content: Callable[[str], object]) -> None:
        """Search a text; ``is_content`` tells letters and digits from other characters."""
        self.text = text
        # str.find takes time in proportion to the text, str.rfind to its product with the chunk.
        self._reversed = text[::-1]
        self._is_content = is_content
        self._content_range = (0, 0)  # from the start of a search to the letter that it found
        self._searches_left = _FEWEST_SEARCHES + _SEARCHES_PER_CHARACTER * len(text)

    def next_content(self, start: int) -> int:
        """Find the first letter or digit at or after ``start``, fastest if starts ascend."""
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
        """Find the first or the last span of a chunk that starts from ``earliest`` to ``latest``.

        Unknown text is at most ``reach`` characters long.
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
        """The first end of a chunk that starts here, if all of its parts follow within reach."""
        following = _parts_after_first(parts, reach)
        ends = [start + len(parts[0])]  # of the parts up to the one that was found last
        tried = [0] * len(following)  # all places of a part before this one lead to no end
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
    """The parts after the first one that have text, each with the room for unknown text before."""
    following: list[tuple[str, int]] = []
    room = 0
    for part in parts[1:]:
        room += reach
        if part:
            following.append((part, room))
            room = 0
    return following
