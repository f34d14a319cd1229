"""What a language model says of a document, and how it is read from its answers."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pydantic import BaseModel, Field, TypeAdapter

from langchain_rse._asking import UnusableAnswerError, read_objects, text_of, without_thoughts
from langchain_rse.headers.titles import one_line

__all__ = ["Sections", "read_line", "read_sections"]

# Longer ones are no titles and no sentences, but something else.
LONGEST_TITLE = 200
LONGEST_SENTENCE = 500

_LABEL = re.compile(r"^(?:document |section )?(?:title|summary)\s*:\s*", re.IGNORECASE)
_AROUND = "\"'`*#_\u201c\u201d\u2018\u2019 \t"
_REFUSAL = re.compile(
    r"(?:i['\u2019]?m (?:sorry|unable|not)|i am (?:sorry|unable|not)|sorry\b|i cannot"
    r"|i can['\u2019]?t|unable to|as an ai\b|no (?:title|summary)\b|n/?a$|none$|unknown$)",
    re.IGNORECASE,
)


class SectionStart(BaseModel):
    """What the model says of one section."""

    title: str = Field(description="A heading of a few words that says what the section is about.")
    first_line: int = Field(description="The number of the section's first line.")


class Sections(BaseModel):
    """What the model says of the sections of a text."""

    sections: list[SectionStart] = Field(description="The sections, in the order of the text.")


_LIST = TypeAdapter(list[SectionStart])


def read_line(answer: object, longest: int) -> str:
    """An answer of one line, without quotes, marks and a label.

    Raises:
        UnusableAnswerError: If it is empty, has several lines, is longer than so many
            characters, or says that there is no answer.
    """
    text = text_of(answer)
    if not isinstance(text, str):
        raise UnusableAnswerError(f"the answer is no text: {answer!r}")
    lines = [line.strip() for line in without_thoughts(text).splitlines() if line.strip()]
    if len(lines) != 1:
        kind = f"has {len(lines)} lines instead of one" if lines else "is empty"
        raise UnusableAnswerError(f"the answer {kind}: {text!r}")
    # A full stop may be the sentence's own; a heading's marks are not.
    line = one_line(_LABEL.sub("", lines[0].strip(_AROUND)).strip(_AROUND))
    if len(lines[0]) > longest:
        raise UnusableAnswerError(
            f"the answer has {len(lines[0])} characters, more than {longest}: {text!r}"
        )
    if not re.search(r"[^\W_]", line) or _REFUSAL.match(line):
        raise UnusableAnswerError(f"the answer says nothing of the text: {text!r}")
    return line


def read_sections(answer: object, first: int, last: int) -> list[tuple[int, str]]:
    """The first lines and titles of sections that tile lines ``first`` to ``last``.

    Repaired: sections out of order, a first one that begins late, two that begin at one line.

    Raises:
        UnusableAnswerError: If there are none, a title is no heading, or a section begins
            outside of the lines.
    """
    starts = read_objects(answer, _LIST, key="first_line", name="section")
    return tiled([(start.first_line, start.title) for start in starts], first, last)


def tiled(starts: Sequence[tuple[int, str]], first: int, last: int) -> list[tuple[int, str]]:
    """Sections by their first lines, so that they tile lines ``first`` to ``last``.

    Raises:
        UnusableAnswerError: As `read_sections` does.
    """
    outside = [line for line, _ in starts if not first <= line <= last]
    if outside or not starts:
        what = f"section at line {outside[0]}" if outside else "answer without sections"
        raise UnusableAnswerError(f"{what}, where the lines are {first} to {last}")
    titles: dict[int, str] = {}
    for line, title in sorted(starts, key=lambda start: start[0]):
        titles.setdefault(line, read_line(title, LONGEST_TITLE))
    (_, title), *others = titles.items()
    return [(first, title), *others]
