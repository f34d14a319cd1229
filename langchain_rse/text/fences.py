"""Finds blocks of code in a text: fenced ones, as defined by CommonMark, and those of HTML."""

import re
from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

# A line of three or more backticks or tildes, optionally after the marker of a list item.
_FENCE_LINE = re.compile(
    r"^[ \t]{0,12}(?P<item>(?:[-*+]|\d{1,3}[.)])[ \t]{1,4})?"
    r"(?P<marks>`{3,}(?!`)|~{3,}(?!~))(?P<info>[^\n]{0,200})$",
    re.MULTILINE,
)

_HTML_TAG = re.compile(r"<!--|-->|</?(?:pre|script|style)\b", re.IGNORECASE)
_HTML_END_MARKS = {
    "<!--": "-->",
    "<pre": "</pre",
    "<script": "</script",
    "<style": "</style",
}


class Fence(NamedTuple):
    """A fenced code block, including the lines that open and close it."""

    start: int
    end: int  # the start of the next line


def find_fences(text: str) -> list[Fence]:
    """Find the fenced blocks of a text, in order. An unclosed block does not count."""
    if "```" not in text and "~~~" not in text:  # faster than to look at each line
        return []
    lines = list(_FENCE_LINE.finditer(text))
    longest_behind = _longest_closings(lines)
    fences: list[Fence] = []
    number = 0
    while number < len(lines):
        opening = lines[number]
        number += 1
        marks = opening["marks"]
        if len(marks) > longest_behind[marks[0]][number] or not _may_open(text, opening):
            continue
        closing = None
        while closing is None:
            if lines[number]["marks"].startswith(marks) and _may_close(lines[number]):
                closing = lines[number]
            number += 1
        fences.append(Fence(opening.start(), min(closing.end() + 1, len(text))))
    return fences


def find_html_code(text: str) -> list[Fence]:
    """Find the comments, scripts, styles and preformatted texts of HTML, in order."""
    blocks: list[Fence] = []
    start = 0
    end_mark = ""  # of the open block
    for tag in _HTML_TAG.finditer(text):
        mark = tag[0].lower()
        if not end_mark and mark in _HTML_END_MARKS:
            start, end_mark = tag.start(), _HTML_END_MARKS[mark]
        elif end_mark == mark:
            blocks.append(Fence(start, tag.end()))
            end_mark = ""
    return blocks


def _longest_closings(lines: Sequence[re.Match[str]]) -> dict[str, list[int]]:
    """By mark, the length of the longest closing line from each line on."""
    longest: dict[str, list[int]] = {}
    for mark in "`~":
        lengths = [0]
        for line in reversed(lines):
            closes = line["marks"][0] == mark and _may_close(line)
            lengths.append(max(lengths[-1], len(line["marks"]) if closes else 0))
        longest[mark] = lengths[::-1]
    return longest


def outside_fences(text: str) -> str:
    """Return a text without fenced blocks, cut at the opening of an unclosed block."""
    parts: list[str] = []
    position = 0
    for fence in find_fences(text):
        parts.append(text[position : fence.start])
        position = fence.end
    outside = "".join([*parts, text[position:]])
    for line in _FENCE_LINE.finditer(outside):
        if _may_open(outside, line):
            return outside[: line.start()]
    return outside


def inside_fence(fences: Sequence[Fence], position: int) -> Fence | None:
    """Return the block that contains a position, or None."""
    number = bisect_right(fences, position, key=lambda fence: fence.start) - 1
    if number >= 0 and position < fences[number].end:
        return fences[number]
    return None


def _may_open(text: str, line: re.Match[str]) -> bool:
    if line["marks"][0] == "`":
        return "`" not in line["info"]
    if line["info"].strip():
        return True
    # In reStructuredText, a line of tildes underlines a title, which is at most as long as the line
    # and follows an empty line.
    length = len(line["marks"])
    above = text[max(line.start() - length - 4, 0) : line.start()].split("\n")[:-1]
    if not above:
        return True
    title = above[-1].strip()
    follows_empty_line = len(above) == 1 or not above[-2].strip()
    return not (follows_empty_line and 0 < len(title) <= length)


def _may_close(line: re.Match[str]) -> bool:
    return not line["item"] and not line["info"].strip()
