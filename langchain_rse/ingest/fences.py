"""Finds the fenced blocks of code in a text, as CommonMark defines them."""

import re
from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

# A line of three or more backticks or tildes, in a list also after the mark of an item.
_FENCE_LINE = re.compile(
    r"^[ \t]{0,12}(?P<item>(?:[-*+]|\d{1,3}[.)])[ \t]{1,4})?"
    r"(?P<marks>`{3,}(?!`)|~{3,}(?!~))(?P<info>[^\n]{0,200})$",
    re.MULTILINE,
)


class Fence(NamedTuple):
    """A fenced block of code, with the lines that open and close it."""

    start: int
    end: int  # where the line after it starts


class _FenceLine(NamedTuple):
    """A line that may open a block, close one, or both."""

    start: int
    end: int
    marks: str
    may_open: bool
    may_close: bool


def find_fences(text: str) -> list[Fence]:
    """The fenced blocks of a text, in its order; one that never closes is none."""
    lines = _fence_lines(text)
    fences: list[Fence] = []
    # The fewest marks of a block that never closes: others of as many marks do not either.
    shortest_unclosed: dict[str, int] = {}
    number = 0
    while number < len(lines):
        opening = lines[number]
        number += 1
        mark, length = opening.marks[0], len(opening.marks)
        if not opening.may_open or length >= shortest_unclosed.get(mark, length + 1):
            continue
        for closing_number in range(number, len(lines)):
            closing = lines[closing_number]
            if closing.may_close and closing.marks.startswith(opening.marks):
                fences.append(Fence(opening.start, closing.end))
                number = closing_number + 1
                break
        else:
            shortest_unclosed[mark] = length
    return fences


def inside_fence(fences: Sequence[Fence], position: int) -> Fence | None:
    """The block that a position lies in; None if there is none."""
    number = bisect_right(fences, position, key=lambda fence: fence.start) - 1
    if number >= 0 and position < fences[number].end:
        return fences[number]
    return None


def _fence_lines(text: str) -> list[_FenceLine]:
    lines: list[_FenceLine] = []
    for match in _FENCE_LINE.finditer(text):
        marks, info = match["marks"], match["info"].strip()
        may_open = "`" not in info or marks[0] == "~"
        is_underline = marks[0] == "~" and not info and _is_below_title(text, match)
        line = _FenceLine(
            match.start(),
            min(match.end() + 1, len(text)),
            marks,
            may_open and not is_underline,
            may_close=not info and not match["item"] and not is_underline,
        )
        if line.may_open or line.may_close:
            lines.append(line)
    return lines


def _is_below_title(text: str, line: re.Match[str]) -> bool:
    """True if a line of tildes is as long as the one above it, which reStructuredText underlines.

    The line above that one is empty.
    """
    length = len(line["marks"])
    title_end = line.start() - 1
    if title_end < 0:
        return False
    earliest = max(title_end - length - 2, 0)  # with a carriage return
    before = text.rfind("\n", earliest, title_end)
    title = text[before + 1 : title_end].strip()
    stands_alone = before <= 0 or text[max(before - 2, 0) : before].endswith(("\n", "\n\r"))
    return (before >= 0 or earliest == 0) and bool(title) and stands_alone
