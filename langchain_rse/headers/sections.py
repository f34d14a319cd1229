"""Sections of a text by a language model: the numbered lines it is shown, and its answers."""

import itertools
import re
from collections.abc import Sequence

from pydantic import BaseModel, Field

from langchain_rse._asking import read_json, text_of
from langchain_rse.headers.titles import one_line

# Longer lines are cut at white space where there is some, so that sections can begin in them.
_LINE = re.compile(r"[^\n]{1,400}(?:\n|\Z|(?<=\s))|[^\n]{1,400}|\n")
_LABEL = re.compile(r"^(?:document |section )?(?:title|summary)\s*:\s*", re.IGNORECASE)
_AROUND = "\"'`*#_\u201c\u201d\u2018\u2019 \t"
_REFUSAL = re.compile(
    r"i(?:['\u2019]m| am) (?:sorry|unable|not)|sorry\b|i can(?:not|['\u2019]?t)\b|unable to"
    r"|as an ai\b|no (?:title|summary)\b|(?:n/?a|none|unknown)$",
    re.IGNORECASE,
)


class SectionStart(BaseModel):
    """Where a section begins, and its title."""

    title: str = Field(description="A heading of a few words that says what the section is about.")
    first_line: int = Field(description="The number of the section's first line.")


class Sections(BaseModel):
    """The sections of a text."""

    sections: list[SectionStart] = Field(description="The sections, in the order of the text.")


def windows(text: str, size: int) -> list[list[int]]:
    """Windows of at most ``size`` characters or one line: where lines start, and the last ends."""
    found: list[list[int]] = []
    for line in _LINE.finditer(text):
        if not found or line.end() - found[-1][0] > size:
            found.append([line.start()])
        found[-1].append(line.end())
    return found


def numbered(text: str, window: Sequence[int]) -> str:
    """The lines of a window as ``[number] text``, without those of white space."""
    lines = [" ".join(text[start:end].split()) for start, end in itertools.pairwise(window)]
    return "\n".join(f"[{number}] {line}" for number, line in enumerate(lines) if line)


def read_line(answer: object, longest: int = 500) -> str:
    """An answer of one line, without quotes, Markdown and label; ValueError if it is none."""
    text = text_of(answer)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) != 1 or len(lines[0]) > longest:
        raise ValueError(
            f"the answer has {len(lines)} lines, not one of at most {longest} characters: {text!r}"
        )
    line = one_line(_LABEL.sub("", lines[0].strip(_AROUND)).strip(_AROUND))
    if not re.search(r"[^\W_]", line) or _REFUSAL.match(line):
        raise ValueError(f"the answer says nothing of the text: {text!r}")
    return line


def read_title(answer: object) -> str:
    """Like `read_line`, of at most 200 characters."""
    return read_line(answer, 200)


def read_sections(answer: object, lines: int) -> list[tuple[int, str]]:
    """The numbers of the lines where sections begin, the first at 0, with titles; or ValueError."""
    titles: dict[int, str] = {}
    for section in sorted(read_json(answer, Sections).sections, key=lambda s: s.first_line):
        if not 0 <= section.first_line < lines:
            raise ValueError(f"there is no line {section.first_line}; the last is {lines - 1}")
        titles.setdefault(section.first_line, read_title(section.title))
    if not titles:
        raise ValueError("the answer has no sections")
    (_, title), *others = titles.items()
    return [(0, title), *others]
