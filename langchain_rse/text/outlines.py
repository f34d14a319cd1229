"""Outlines: the sections of a text, by its headings."""

import html
import re
from typing import NamedTuple

from langchain_rse.text.headings import find_headings
from langchain_rse.text.quoting import one_line

# Tags that Markdown often has in headings: not "List<String>".
_INLINE_TAG = re.compile(
    r"</?(?:a|abbr|b|br|code|em|font|i|img|kbd|mark|small|span|strong|sub|sup|tt|u)\b[^<>]*>",
    re.IGNORECASE,
)
_LINE_BREAK = re.compile(r"<br\b[^<>]*>", re.IGNORECASE)
_CLOSING_MARKS = re.compile(r"[ \t]\#+\Z")
_WORD = re.compile(r"[^\W_]")


class Section(NamedTuple):
    """A heading and the text below it, with all sections of lower levels in it."""

    title: str  # without marks; with its number
    level: int  # 1 is the highest
    start: int  # the first character of the heading
    end: int  # where the next heading of this level or a higher one begins, or the text ends


def outline(text: str) -> list[Section]:
    """The sections of a text, in its order."""
    sections: list[Section] = []
    open_sections: list[int] = []  # their numbers; levels rise
    for heading in find_headings(text):
        while open_sections and sections[open_sections[-1]].level >= heading.level:
            number = open_sections.pop()
            sections[number] = sections[number]._replace(end=heading.start)
        open_sections.append(len(sections))
        title = title_of_heading(text[heading.start : heading.end])
        sections.append(Section(title, heading.level, heading.start, len(text)))
    return sections


def title_of_heading(heading: str) -> str:
    """The words of a heading on one line, without its marks."""
    title = heading.strip("\ufeff \t\r\n")
    if "\n" in title:  # the lines under and above a title have marks only
        title = next(line for line in title.splitlines() if _WORD.search(line))
    elif title.startswith("#"):
        title = _CLOSING_MARKS.sub("", title.lstrip("#"))
    title = _INLINE_TAG.sub("", _LINE_BREAK.sub(" ", title))
    return one_line(html.unescape(title))
