"""The sections of a text, as a language model sees them and says where they begin."""

import itertools
import re
from bisect import bisect_right
from collections.abc import Sequence
from operator import attrgetter, itemgetter

from pydantic import BaseModel, Field

from langchain_rse.headers.answers import Answer, read_title

SECTIONS_EXAMPLE = '{"sections": [{"title": "...", "first_line": 0}]}'
"""An example of `Sections` in JSON."""

# Longer lines are cut at white space where there is some, so that sections can begin in them.
_LINE = re.compile(r"[^\n]{1,400}(?:\n|\Z|(?<=\s))|[^\n]{1,400}|\n")


class SectionStart(BaseModel):
    """Where a section begins, and its title."""

    title: str = Field(description="A heading of a few words that says what the section is about.")
    first_line: int = Field(description="The number of the section's first line.")


class Sections(BaseModel):
    """The sections of a text."""

    sections: list[SectionStart] = Field(description="The sections, in the order of the text.")


def cut_windows(text: str, size: int) -> list[list[int]]:
    """Cut a text into windows of whole lines, of at most ``size`` characters or one line.

    Returns the windows, each as the first characters of its lines, then its end.
    """
    windows: list[list[int]] = []
    for line in _LINE.finditer(text):
        if not windows or line.end() - windows[-1][0] > size:
            windows.append([line.start()])
        windows[-1].append(line.end())
    return windows


def numbered_lines(text: str, window: Sequence[int]) -> str:
    """Show the lines of a window as ``[number] text``, without blank ones."""
    lines = []
    for number, (start, end) in enumerate(itertools.pairwise(window)):
        line = " ".join(text[start:end].split())
        if line:
            lines.append(f"[{number}] {line}")
    return "\n".join(lines)


def read_sections(answer: Sections, lines: int) -> list[tuple[int, str]]:
    """Read the first lines of sections, the first of them 0, with their titles.

    Args:
        answer: The model's answer.
        lines: The number of lines that the model was shown.

    Raises:
        ValueError: If there are no sections, or a line or title cannot be used.
    """
    titles: dict[int, str] = {}
    for section in sorted(answer.sections, key=attrgetter("first_line")):
        if not 0 <= section.first_line < lines:
            raise ValueError(f"there is no line {section.first_line}; the last is {lines - 1}")
        titles.setdefault(section.first_line, read_title(section.title))
    if not titles:
        raise ValueError("the answer has no sections")
    (_, first_title), *later_sections = titles.items()
    return [(0, first_title), *later_sections]


def starts_in(window: Sequence[int], answer: Answer | None) -> list[tuple[int, str | None]]:
    """The first characters of a window's sections, with their titles; None without an answer."""
    if not isinstance(answer, list):
        return [(window[0], None)]
    # Forged records may name lines that do not exist.
    return [(window[line], title) for line, title in answer if line < len(window)]


def title_at(position: int, starts: Sequence[tuple[int, str | None]]) -> str | None:
    """The title of the section at a character of the text; ``starts`` are those of all windows."""
    index = bisect_right(starts, position, key=itemgetter(0)) - 1
    _, title = starts[index]
    return title
