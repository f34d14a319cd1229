"""A text in numbered lines, and the windows of it that a model is shown."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from langchain_rse.splitting import Span

__all__ = ["Window", "section_of", "windows"]

# Longer lines are cut, so that sections can begin within them.
_LONGEST_LINE = 400
_SOME = rf"[^\n]{{1,{_LONGEST_LINE}}}"
# A line, or what of it ends at white space, or as much as may be.
_LINE = re.compile(rf"{_SOME}(?:\n|\Z|(?<=\s))|{_SOME}|\n")


class Window(NamedTuple):
    """A part of a text in lines.

    Attributes:
        first: The number of its first line, from 0 in the text.
        starts: Where its lines start in the text.
        end: Where it ends.
    """

    first: int
    starts: Sequence[int]
    end: int

    @property
    def last(self) -> int:
        """The number of its last line."""
        return self.first + len(self.starts) - 1

    def start_of(self, line: int) -> int:
        """Where a line starts in the text."""
        return self.starts[line - self.first]

    def numbered(self, text: str) -> str:
        """Its lines, each behind its number; those without any text are left out."""
        ends = [*self.starts[1:], self.end]
        return "\n".join(
            f"[{number}] {line}"
            for number, (start, end) in enumerate(zip(self.starts, ends, strict=True), self.first)
            if (line := " ".join(text[start:end].split()))
        )


def windows(text: str, size: int) -> Iterator[Window]:
    """Windows of at most so many characters, cut between lines; they tile the text."""
    first = 0
    starts: list[int] = []
    for number, line in enumerate(_LINE.finditer(text)):
        if starts and line.end() - starts[0] > size:
            yield Window(first, starts, line.start())
            first, starts = number, []
        starts.append(line.start())
    if starts:
        yield Window(first, starts, len(text))


def section_of(spans: Sequence[Span], starts: Sequence[int]) -> list[int]:
    """The section of each chunk: the one that has its middle.

    Args:
        spans: The chunks.
        starts: Where sections start in the text, ascending, the first at 0.
    """
    return [bisect_right(starts, (span.start + span.end) // 2) - 1 for span in spans]
