"""Finds leads: short lines that mean little without the text below them.

Leads are terms of definitions, with the definition indented below, and paragraphs that end with a
colon and introduce a list, code or a table.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

_LONGEST_TERM = 90
_LONGEST_INTRODUCTION = 200
_LEAST_INDENT = 2  # text from PDF files has stray single spaces at the start of lines
_ENDS_OF_NO_TERM = (".", ":", ",")

_LINE = re.compile(r"(?P<indent>[ \t]*)(?P<content>[^\n]*)(?:\n|\Z)")
_LETTER = re.compile(r"[^\W\d_]")
# Start of a list item, a fenced block or a table.
_LISTED = re.compile(
    r"(?:[-*+\u2022]|(?:\d{1,3}|[A-Za-z]|[ivxIVX]{2,5})[.)]|\([\dA-Za-z]{1,4}\))[ \t]"
    r"|```|~~~|\||\+[-=]"
)


class Lead(NamedTuple):
    """Lines that must stay with the text below them."""

    start: int
    below: int  # position of the first character of the text below


class _Block:
    """Consecutive lines without an empty line between them."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.is_introduction = False  # True if the block may introduce a list, code or a table
        self.terms_start: int | None = None  # start of the last lines that may be terms
        self.indent = ""  # indentation of the last line
        self.has_empty_line_below = False

    def add(self, start: int, indent: str, content: str) -> None:
        """Add a line that starts at ``start``."""
        length = start + len(indent) + len(content) - self.start
        is_short = length < _LONGEST_INTRODUCTION or start == self.start
        self.is_introduction = content.endswith(":") and is_short
        if not _may_be_term(content):
            self.terms_start = None
        elif self.terms_start is None or indent != self.indent:
            self.terms_start = start
        self.indent = indent


def find_leads(text: str) -> Iterator[Lead]:
    """Yield the leads of a text in order.

    Leads may be consecutive, without text between them.
    """
    block: _Block | None = None
    unsure: tuple[Lead, int] | None = None  # a lead only if a term starts at this position
    for line in _LINE.finditer(text):
        content = line["content"].rstrip()
        if not content:
            if block is not None:
                block.has_empty_line_below = True
            continue
        indent = line["indent"]
        below = line.start("content")
        if block is not None:
            is_indented = _is_deeper(indent, block.indent)
            if block.terms_start is not None and is_indented and _LETTER.search(content):
                if unsure is not None and unsure[1] == block.terms_start:
                    yield unsure[0]
                yield Lead(block.terms_start, below)
            elif block.is_introduction:
                introduction = Lead(block.start, below)
                if _LISTED.match(content) or (block.has_empty_line_below and is_indented):
                    yield introduction
                else:
                    unsure = (introduction, line.start())
        if block is None or block.has_empty_line_below:
            block = _Block(line.start())
        block.add(line.start(), indent, content)


def _is_deeper(indent: str, above: str) -> bool:
    """True if a line is indented deeper than the line above it."""
    columns = len(indent.expandtabs()) - len(above.expandtabs())
    return columns >= _LEAST_INDENT


def _may_be_term(content: str) -> bool:
    """True for a short line that does not end as prose does."""
    is_short = len(content) < _LONGEST_TERM and not content.endswith(_ENDS_OF_NO_TERM)
    return is_short and _LETTER.search(content) is not None
