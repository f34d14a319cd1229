"""Cuts prose into chunks: before headings, or else at paragraphs, lines, sentences or words.

In text with hard line breaks, as of PDFs and mails, ends of sentences come before line ends.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from langchain_rse.text.fences import Fence, find_fences
from langchain_rse.text.headings import CODE_LINE, Heading, find_headings
from langchain_rse.text.sentences import (
    SPACED_ENDS,
    UNSPACED_ENDS,
    character_ends,
    sentence_ends,
)
from langchain_rse.text.words import has_unspaced

# All shares are of the chunk size.
# A chunk with at least this share of text prefers to end before a heading of a higher level.
_FULL_ENOUGH = 0.5
# A chunk with less than this share takes the beginning of the next section, even if that section
# does not fit.
_TOO_SMALL = 0.25
# Consecutive headings or introducing lines, with the first character below them, are kept together
# up to this share.
_LONGEST_INTRODUCTION = 0.5
# White space and tags between a heading and the text below it.
_SPACE_AND_TAGS = re.compile(
    r"(?:\s{1,1000}|<(?!h[1-6]\b|pre\b|table\b)[a-zA-Z/][^<>]{0,300}>){0,50}"
)

# A text has hard line breaks if more than this share of the lines that end no sentence is full and
# followed by a small letter. A line is full with this share of the width, which few lines exceed.
_BROKEN_LINES = 0.4
_FULL_LINE = 0.7
_NOT_OUTLYING = 0.9
_LEAST_WIDTH = 30  # lines of lists may be shorter
_SENTENCE_ENDS = tuple(SPACED_ENDS + UNSPACED_ENDS)
_ENDS_OF_BROKEN = (",", "-", "\u2010", "\u00ad")
_LINE_END = re.compile("\n")

# Leads, in characters and columns.
_LONGEST_TERM = 90
_LONGEST_LEAD = 200
_LEAST_INDENT = 2  # text from PDF files has stray single spaces at the start of lines
_ENDS_OF_NO_TERM = (".", ":", ",")

_LINE = re.compile(r"(?P<indent>[ \t]*)(?P<content>[^\n]*)(?:\n|\Z)")
_LETTER = re.compile(r"[^\W\d_]")
# Start of a list item, a fenced block or a table.
_LISTED = re.compile(
    r"(?:[-*+\u2022]|(?:\d{1,3}|[A-Za-z]|[ivxIVX]{2,5})[.)]|\([\dA-Za-z]{1,4}\))[ \t]"
    r"|```|~~~|\||\+[-=]"
)


class Range(NamedTuple):
    """A range of text that must not be cut inside; cuts at its start and end are allowed."""

    start: int
    end: int


class Outline(NamedTuple):
    """The structure of a text that guides cuts, in addition to separators."""

    fences: Sequence[Fence]
    # The first of consecutive headings, with the highest of their levels.
    sections: Sequence[Heading]
    uncut: Sequence[Range]  # in text order, without overlap

    def start_uncut(self, position: int) -> int:
        """Return the start of the uncut range around a position, or else the position."""
        number = bisect_right(self.uncut, position, key=lambda stretch: stretch.end)
        if number == len(self.uncut):
            return position
        return min(position, self.uncut[number].start)


def outline_of(text: str, size: int) -> Outline:
    """Find the structure of a text that guides cuts into chunks of a given size."""
    fences = find_fences(text)
    headings = find_headings(text, fences)
    uncut: list[Range] = []
    sections: list[Heading] = []
    for heading in headings:
        below = _start_of_text(text, heading)
        follows = bool(uncut) and heading.start < uncut[-1].end
        start = uncut[-1].start if follows else heading.start
        if below + 1 - start > _LONGEST_INTRODUCTION * size:
            # Too long, or too many consecutive headings.
            start, follows = heading.start, False
            if uncut and uncut[-1].end > start:
                uncut[-1] = Range(uncut[-1].start, start)
        if follows:
            uncut.pop()
            section = sections[-1]
            sections[-1] = section._replace(level=min(section.level, heading.level))
        else:
            sections.append(heading)
        if below + 1 - start <= _LONGEST_INTRODUCTION * size:
            uncut.append(Range(start, min(below + 1, len(text))))
    uncut = _joined([*uncut, *(Range(*fence) for fence in fences)], size)
    leads = _fitting_leads(text, headings, uncut, size)
    uncut = _joined([*uncut, *leads], size)
    return Outline(fences, sections, uncut)


def _start_of_text(text: str, heading: Heading) -> int:
    """Return the position of the first text below a heading, after white space and HTML tags."""
    end = _SPACE_AND_TAGS.match(text, heading.end)
    return heading.end if end is None else end.end()


def _joined(ranges: Sequence[Range], size: int) -> list[Range]:
    """Join overlapping ranges where the result fits a chunk."""
    joined: list[Range] = []
    for start, end in sorted(ranges):
        if joined and start < joined[-1].end:
            # For example, a heading's range contains the first character of a fenced block.
            if max(end, joined[-1].end) - joined[-1].start <= size:
                joined[-1] = Range(joined[-1].start, max(end, joined[-1].end))
        elif end - start <= size:
            joined.append(Range(start, end))
    return joined


def _fitting_leads(
    text: str, headings: Sequence[Heading], uncut: Sequence[Range], size: int
) -> list[Range]:
    """Keep the leads that still fit a chunk together with the uncut ranges around them."""
    fitting: list[Range] = []
    for lead in _leads_in_rows(text, headings, size):
        number = bisect_right(uncut, lead.start, key=lambda stretch: stretch.start)
        start, end = lead
        if number > 0 and uncut[number - 1].end > start:
            start = uncut[number - 1].start  # start of the headings above
        if number < len(uncut) and uncut[number].start < end:
            end = uncut[number].end  # end of the fenced block below
        if lead.end - start <= _LONGEST_INTRODUCTION * size and end - start <= size:
            fitting.append(lead)
    return fitting


def _leads_in_rows(text: str, headings: Sequence[Heading], size: int) -> list[Range]:
    """Find leads outside headings; consecutive leads become one range.

    A range that is too long keeps only its last lines.
    """
    rows: list[Range] = []
    for start, below in find_leads(text):
        number = bisect_right(headings, below, key=lambda heading: heading.start)
        if number > 0 and headings[number - 1].end > start:
            continue
        lead = Range(start, below + 1)
        earliest = lead.end - int(_LONGEST_INTRODUCTION * size)
        if start < earliest:
            # Keep the last lines.
            lead = Range(text.find("\n", earliest - 1, below) + 1, lead.end)
            if lead.start == 0 or not text[lead.start : below].strip():
                continue
        if rows and lead.start < rows[-1].end:
            first = rows[-1].start
            if lead.end - first <= _LONGEST_INTRODUCTION * size:
                lead = Range(first, lead.end)
                rows.pop()
            else:
                rows[-1] = Range(first, lead.start)
        rows.append(lead)
    return rows


def chunk_starts(text: str, start: int, end: int, size: int, outline: Outline) -> Iterator[int]:
    """Yield the start of each chunk of a range of prose; white space ends the chunk before it.

    Consecutive sections share a chunk while they fit. A section that does not fit is cut at
    paragraphs, or else at lines, sentences, words or characters; sections after it may share the
    chunk of its last part.
    """
    first = bisect_right(outline.sections, start, key=lambda section: section.start)
    last = bisect_left(outline.sections, end, key=lambda section: section.start)
    chunk_start = start
    cuts: list[Heading] = []  # sections that begin inside the chunk
    bounds = [*outline.sections[first:last], Heading(end, end, 0)]
    section = Heading(start, start, 0)
    for following in bounds:
        while (
            following.start - chunk_start > size
            and section.start - chunk_start >= _TOO_SMALL * size
            and chunk_start < section.start
        ):
            cut = _best_cut(chunk_start, [*cuts, section], size)
            yield from _without_space(text, chunk_start, cut)
            chunk_start = cut
            cuts = [inner for inner in cuts if inner.start > cut]
        if following.start - chunk_start > size:
            *starts, chunk_start = _cut(text, Range(chunk_start, following.start), size, outline)
            for inner_start, inner_end in pairwise([*starts, chunk_start]):
                yield from _without_space(text, inner_start, inner_end)
            cuts = []
        elif section.start > chunk_start:
            cuts.append(section)
        section = following
    yield from _without_space(text, chunk_start, end)


def _without_space(text: str, start: int, end: int) -> Iterator[int]:
    """Yield the start of a chunk's text; nothing for white space."""
    chunk = text[start:end]
    if not chunk.isspace() and chunk:
        yield start + len(chunk) - len(chunk.lstrip())


def _best_cut(start: int, cuts: Sequence[Heading], size: int) -> int:
    """Return the last cut of the highest level in a full enough chunk, or else the last cut."""
    best = cuts[-1]
    for cut in reversed(cuts):
        if cut.start - start < _FULL_ENOUGH * size:
            break
        if cut.level < best.level:
            best = cut
    return best.start


def _cut(text: str, part: Range, size: int, outline: Outline, level: int = 0) -> Iterator[int]:
    """Yield the starts of a part's chunks, using the end finders from ``level`` on."""
    if part.end - part.start <= size or level == len(_END_FINDERS):
        yield from range(part.start, part.end, size)
        return
    chunk_start = piece_start = part.start
    ends = _END_FINDERS[level](text, part.start, part.end)
    for piece_end in _piece_ends(ends, part, outline.uncut):
        if piece_end - chunk_start > size:
            if piece_start > chunk_start:
                yield chunk_start
            chunk_start = piece_start
            if piece_end - piece_start > size:
                yield from _cut(text, Range(piece_start, piece_end), size, outline, level + 1)
                chunk_start = piece_end
        piece_start = piece_end
    if chunk_start < part.end:
        yield chunk_start


def _piece_ends(ends: Iterator[int], part: Range, uncut: Sequence[Range]) -> Iterator[int]:
    """Yield the ends of pieces where a cut is allowed, then the end of the part."""
    number = bisect_right(uncut, part.start, key=lambda stretch: stretch.end)
    for end in ends:
        while number < len(uncut) and uncut[number].end <= end:
            number += 1
        if number == len(uncut) or end <= uncut[number].start:
            if end < part.end:
                yield end
    yield part.end


def _ends_of(separator: re.Pattern[str], text: str, start: int, end: int) -> Iterator[int]:
    """Yield the end of each occurrence of a separator in a part of a text."""
    for match in separator.finditer(text, start, end):
        yield match.end()


def _line_ends(text: str, start: int, end: int) -> Iterator[int]:
    """Yield the ends of lines; not of lines that were broken because of their length."""
    ends = [*_ends_of(_LINE_END, text, start, end)]
    lines = [text[first:last].strip() for first, last in pairwise([start, *ends, end])]
    lengths = sorted(map(len, lines))
    width = lengths[int(_NOT_OUTLYING * len(lines))]
    open_lines = broken_lines = 0  # lines that end within a sentence, or may do so
    is_last: list[bool] = []  # true for a line that ends a paragraph
    for line, following in pairwise(lines):
        is_full = len(line) >= _FULL_LINE * width
        continues = following[:1].islower() or has_unspaced(following[:1])
        open_lines += not line.endswith(_SENTENCE_ENDS)
        broken_lines += is_full and continues and _may_be_broken(line)
        is_last.append(not is_full and not continues)
    has_hard_breaks = broken_lines > _BROKEN_LINES * open_lines and width >= _LEAST_WIDTH
    for position, is_paragraph in zip(ends, is_last, strict=True):
        if is_paragraph or not has_hard_breaks:
            yield position


def _may_be_broken(line: str) -> bool:
    """False for lines of code, and for lines that end like sentences."""
    ends_openly = line[-1:].isalnum() or line.endswith(_ENDS_OF_BROKEN)
    return ends_openly and CODE_LINE.match(line) is None


# Finders of paragraph, line, sentence, word, phrase and character ends, best first.
_END_FINDERS: Sequence[Callable[[str, int, int], Iterator[int]]] = (
    partial(_ends_of, re.compile(r"\n(?:[ \t\r]*+\n)+")),
    _line_ends,
    sentence_ends,
    partial(_ends_of, re.compile(r"\s+|\u200b")),
    partial(_ends_of, re.compile("[\uff0c\u3001\uff1b]")),
    character_ends,
)


# Leads: short lines that mean little without the text below them. They are terms of definitions,
# with the definition indented below, and paragraphs that end with a colon and introduce a list,
# code or a table.


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
        is_short = length < _LONGEST_LEAD or start == self.start
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
