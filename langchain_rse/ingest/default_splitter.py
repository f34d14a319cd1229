"""The default text splitter: chunks end at sections, paragraphs or sentences.

It cuts prose before headings, or else at paragraphs, lines, sentences or words. In text with hard
line breaks, as of PDFs and mails, ends of sentences come before line ends.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise, repeat
from typing import NamedTuple

from langchain_text_splitters import TextSplitter
from typing_extensions import override

from langchain_rse.ingest.splitting import Span
from langchain_rse.ingest.tables import Table, find_tables
from langchain_rse.stores.records import with_table_header
from langchain_rse.text.headings import CODE_LINE, Heading, Range, find_fences, find_headings
from langchain_rse.text.sentences import SPACED_ENDS, UNSPACED_ENDS, character_ends, sentence_ends
from langchain_rse.text.words import has_unspaced

_CHUNK_SIZE = 800

# In chunks: a longer table row is cut like prose.
_LONGEST_ROW = 2
# As a share of a chunk: a longer header row is not repeated in front of other rows.
_LONGEST_HEADER = 0.5

# All shares are of the chunk size.
# A chunk with at least this share of text prefers to end before a heading of a higher level.
_FULL_ENOUGH = 0.5
# A chunk with less than this share takes the beginning of the next section, even if that section
# does not fit.
_TOO_SMALL = 0.25
# Consecutive headings, or a line that introduces, with the first character below them, are kept
# together up to this share.
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
_ENDS_OF_INTRODUCTION = (":", ",", "?", "\uff1f", "**")
_LINE_END = re.compile(r"\n(?:[ \t\r\f]*+\n)*+")

# Leads, in characters and columns.
_LONGEST_TERM = 90
_LONGEST_LEAD = 400
_LEAST_INDENT = 2  # text from PDF files has stray single spaces at the start of lines
_ENDS_OF_NO_TERM = (".", ":", ",")

# The lines above a mail in a file of several.
_MAIL_HEAD = re.compile(
    r"^(?:[-_]{5}[^\n]{0,99}\n)?(?:From|Von|De|Da|Van|\u5dee\u51fa\u4eba):[^\n]{1,200}"
    r"(?:\n[\w-]{1,30}:[^\n]{0,200}){2,20}+",
    re.MULTILINE,
)

_BELOW = re.compile(
    r"(?:[ \t\r\xa0]{0,99}\n){0,9}(?P<indent>[ \t\xa0]{0,99})(?P<content>\S[^\n]{0,99})"
)
# Start of a list item, a fenced block or a table.
_LISTED = re.compile(
    r"(?:[-*+\u2022]|(?:\d{1,3}|[A-Za-z]|[ivxIVX]{2,5})[.)]|\([\dA-Za-z]{1,4}\))[ \t]"
    r"|```|~~~|\||\+[-=]"
)
# The end of the line above a record with indented lines, as in JSON, XML and YAML.
_ABOVE_RECORD = re.compile(
    r"\n(?=(?P<indent>[ \t]*+)(?:(?:\"[^\"\n]{1,99}\":[ ])?[\[{]\r?|[-<][^\n]*)\n"
    r"(?P=indent)[ \t]{2})"
)


def default_text_splitter(chunk_size: int = _CHUNK_SIZE) -> DefaultTextSplitter:
    """Create the splitter that the retriever uses by default.

    It cuts before headings, or else at empty lines (first where there are two), line ends,
    sentence ends (in most scripts) or white space. Where lines are broken at a width, sentence ends
    come before line ends. Short sections share a chunk. A heading stays with the text below it, as
    does the term of a definition or a line that introduces a list, code or a table. A fenced code
    block or a table that fits a chunk is not cut. A longer table is cut between rows, and each of
    its chunks is embedded with the table's header rows in front.

    Args:
        chunk_size: Maximum number of characters in a chunk; 800 by default. A table row may be
            longer: up to twice this size, it is not cut.
    """
    return DefaultTextSplitter(chunk_size)


class DefaultTextSplitter(TextSplitter):
    """The splitter of `default_text_splitter`; see there."""

    def __init__(self, chunk_size: int) -> None:
        super().__init__(chunk_size=chunk_size, chunk_overlap=0)
        self._size = chunk_size

    def __repr__(self) -> str:
        return f"{type(self).__name__}(chunk_size={self._size})"

    @override
    def split_text(self, text: str) -> list[str]:
        """Split a text into chunks, stripped of white space, without repeated header rows."""
        chunks = (text[span.start : span.end].strip() for span in self.split_spans(text))
        return [chunk for chunk in chunks if chunk]

    def split_spans(self, text: str) -> list[Span]:
        """Split a text into spans that tile it; see `langchain_rse.ingest.splitting.Splitter`."""
        if not text:
            return []
        outline = _outline_of(text, self._size)
        # The start of each chunk, with the header row that is embedded in front of it.
        starts: list[tuple[int, str]] = []
        end = 0
        for table in outline.tables:
            table_start, table_end = table.rows[0], table.rows[-1]
            uncut = outline.uncut_from(table_start)
            if not uncut.start <= table_start < table_end <= uncut.end:
                first = start_of_lead(text, table_start)
                first = min(first, outline.uncut_from(first).start)
                if table.rows[1] - first > _LONGEST_ROW * self._size:
                    first = table_start
                first = max(end, first)  # the last row of one table may introduce the next table
                starts += zip(_chunk_starts(text, end, first, self._size, outline), repeat(""))
                starts += self._cut_table(text, table, first, outline)
                end = table_end
        starts += zip(_chunk_starts(text, end, len(text), self._size, outline), repeat(""))
        starts[:1] = [(0, "")]  # the first chunk includes white space at the beginning
        spans: list[Span] = []
        for (start, header), (stop, _) in pairwise([*starts, (len(text), "")]):
            embedded_text = with_table_header(header, text[start:stop].strip())
            spans.append(Span(start, stop, embedded_text, table_header=header))
        return spans

    def _cut_table(
        self, text: str, table: Table, first: int, outline: _Outline
    ) -> Iterator[tuple[int, str]]:
        """Yield the start of each chunk of a table, with the header row embedded in front of it.

        The first chunk starts at ``first``, which includes the table's introduction.
        """
        header = table.header
        if len(header) > _LONGEST_HEADER * self._size:
            header = ""
        room_below_header = self._size - len(with_table_header(header, ""))
        chunk_start = first
        yield chunk_start, ""
        room = self._size  # for rows; the first chunk contains the header row itself
        for row_start, row_end in pairwise(table.rows):
            if row_end - chunk_start <= room:
                continue
            cuts = [row_start]
            if row_end - row_start > _LONGEST_ROW * self._size:
                cuts = list(_chunk_starts(text, row_start, row_end, self._size, outline))
            for cut in cuts:
                is_introduced = cut == table.rows[0]
                if cut > chunk_start and not is_introduced:
                    chunk_start = cut
                    yield cut, header
            room = room_below_header


# Prose


class _Outline(NamedTuple):
    """The structure of a text that guides cuts, in addition to separators."""

    tables: Sequence[Table]
    # The first of consecutive headings, with the highest of their levels.
    sections: Sequence[Heading]
    # Not to be cut inside, in text order, without overlap; then the end of the text.
    uncut: Sequence[Range]

    def uncut_from(self, position: int) -> Range:
        """Return the first uncut range that ends after a position."""
        return self.uncut[bisect_right(self.uncut, position, key=lambda stretch: stretch.end)]


def _outline_of(text: str, size: int) -> _Outline:
    """Find the structure of a text that guides cuts into chunks of a given size."""
    fences = find_fences(text)
    mails = [Heading(*head.span(), 1) for head in _MAIL_HEAD.finditer(text)]
    headings = sorted([*find_headings(text, fences), *mails])
    uncut: list[Range] = []
    sections: list[Heading] = []
    for heading in headings:
        space = _SPACE_AND_TAGS.match(text, heading.end)
        below = heading.end if space is None else space.end()  # the first text below it
        earliest = below + 1 - _LONGEST_INTRODUCTION * size
        follows = bool(uncut) and heading.start < uncut[-1].end
        if follows and uncut[-1].start >= earliest:
            start = uncut.pop().start
            section = sections[-1]
            sections[-1] = section._replace(level=min(section.level, heading.level))
        else:
            start = heading.start
            if follows:  # too many consecutive headings
                uncut[-1] = uncut[-1]._replace(end=start)
            sections.append(heading)
        if start >= earliest:
            uncut.append(Range(start, min(below + 1, len(text))))
    tables = find_tables(text, fences)
    uncut += [Range(table.rows[0], table.rows[-1]) for table in tables]
    uncut = _joined([*uncut, *fences], size)
    return _Outline(tables, sections, [*uncut, Range(len(text), len(text))])


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


def _chunk_starts(text: str, start: int, end: int, size: int, outline: _Outline) -> Iterator[int]:
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
            # The last one of the highest level, if the chunk is then full enough.
            cuts.append(section)
            full = [inner for inner in cuts if inner.start - chunk_start >= _FULL_ENOUGH * size]
            cut = min(reversed(full or cuts[-1:]), key=lambda inner: inner.level).start
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
    """Yield the start of a chunk's text, before its indentation; nothing for white space."""
    chunk = text[start:end]
    if chunk.strip():
        first = start + len(chunk) - len(chunk.lstrip())
        line_start = text.rfind("\n", max(start - 1, 0), first) + 1
        yield line_start or first


def _cut(text: str, part: Range, size: int, outline: _Outline, level: int = 0) -> Iterator[int]:
    """Yield the starts of a part's chunks, using the end finders from ``level`` on."""
    if text[part.start : part.end].isspace():
        yield part.start
        return
    if part.end - part.start <= size or level == len(_END_FINDERS):
        yield from range(part.start, part.end, size)
        return
    ends = _END_FINDERS[level](text, part.start, part.end)
    last = bisect_left(ends, part.end)
    chunk_start = part.start
    while part.end - chunk_start > size:
        first = bisect_right(ends, chunk_start)
        behind = bisect_right(ends, chunk_start + size)
        cut = _allowed_cut(text, ends, range(behind - 1, first - 1, -1), size, outline)
        if cut is not None:
            yield chunk_start
            chunk_start = cut
        following = _allowed_cut(text, ends, range(behind, last), size, outline)
        piece_end = part.end if following is None else following
        if piece_end - chunk_start > size:
            yield from _cut(text, Range(chunk_start, piece_end), size, outline, level + 1)
            chunk_start = piece_end
    if chunk_start < part.end:
        yield chunk_start


def _allowed_cut(
    text: str, ends: Sequence[int], numbers: range, size: int, outline: _Outline
) -> int | None:
    """Return the first of the numbered ends at which a cut is allowed."""
    for number in numbers:
        end = ends[number]
        following = outline.uncut_from(end)
        if end <= following.start and not _is_led(text, end, size, following):
            return end
    return None


def _is_led(text: str, position: int, size: int, following: Range) -> bool:
    """True below a line that must stay with what follows, and fits a chunk with it."""
    if text[position - 1] != "\n":  # the common case, checked first for speed
        return False
    ends_with_colon = text[max(position - 9, 0) : position].rstrip().endswith(":")
    if not ends_with_colon and text[position] not in " \t\xa0":
        return False
    lead = start_of_lead(text, position)
    if lead == position or position - lead > _LONGEST_INTRODUCTION * size:
        return False
    begins_uncut = not text[position : min(following.start, position + size)].strip()
    return not begins_uncut or following.end - lead <= size


def _ends_of(separator: re.Pattern[str], text: str, start: int, end: int) -> list[int]:
    """Return the end of each occurrence of a separator in a part of a text."""
    return [match.end() for match in separator.finditer(text, start, end)]


def _ends_at_empty_lines(
    empty_lines: re.Pattern[str], text: str, start: int, end: int
) -> list[int]:
    """Return the ends of runs of empty lines; not in mid-sentence, as where a page ends.

    Nor below what introduces the next paragraph: a question, a greeting, a title in bold type, or
    what ends with a colon.
    """
    ends: list[int] = []
    for match in empty_lines.finditer(text, start, end):
        above = text[max(match.start() - _LONGEST_LEAD, start) : match.start()]
        line = above.rpartition("\n")[2].strip()
        below = text[match.end() : match.end() + _LEAST_WIDTH].lstrip()
        continues = below[:1].islower() and CODE_LINE.match(below) is None
        is_broken = continues and len(line) >= _LEAST_WIDTH and _may_be_broken(line)
        if not (is_broken or line.endswith(_ENDS_OF_INTRODUCTION)):
            ends.append(match.end())
    return ends


def _line_ends(text: str, start: int, end: int) -> list[int]:
    """Return the ends of lines; not of lines that were broken because of their length.

    Nor of short lines that introduce the next one: a question, the names of columns, or the first
    line of a paragraph, such as the date above its entries.
    """
    ends = _ends_of(_LINE_END, text, start, end)
    texts = [text[first:last] for first, last in pairwise([start, *ends, end])]
    lines = [*map(str.strip, texts)]
    lengths = sorted(map(len, lines))
    width = lengths[int(_NOT_OUTLYING * len(lines))]
    open_lines = 0  # lines that end within a sentence, or may do so
    broken_lines = 0
    whole: list[int] = []  # ends of lines that were not broken
    last: list[int] = []  # ends of paragraphs
    is_first = False  # true for a line below an empty one
    for line, following, line_end, with_end in zip(lines, lines[1:], ends, texts, strict=False):
        is_full = len(line) >= _FULL_LINE * width
        continues = following[:1].islower() or has_unspaced(following[:1])
        is_broken = is_full and continues and _may_be_broken(line)
        open_lines += not line.endswith(_SENTENCE_ENDS)
        broken_lines += is_broken
        is_alone = with_end.count("\n") > 1
        is_header = line[-1:].isalpha() and following[-1:].isdigit()
        is_asked = line.endswith("?") and not following.endswith("?")
        may_introduce = (is_first or is_header or is_asked) and not is_alone
        is_first = is_alone
        if is_broken or (may_introduce and len(line) < _LONGEST_TERM):
            continue
        whole.append(line_end)
        if not is_full and not continues:
            last.append(line_end)
    has_hard_breaks = broken_lines > _BROKEN_LINES * open_lines and width >= _LEAST_WIDTH
    return last if has_hard_breaks else whole


def _may_be_broken(line: str) -> bool:
    """False for lines of code, rows of columns, and lines that end like sentences."""
    ends_openly = line[-1:].isalnum() or line.endswith(_ENDS_OF_BROKEN)
    return ends_openly and "   " not in line and CODE_LINE.match(line) is None


# Finders of part, paragraph, record, line, sentence, word, phrase and character ends, best first.
_END_FINDERS: Sequence[Callable[[str, int, int], Sequence[int]]] = (
    partial(_ends_at_empty_lines, re.compile(r"\n(?:[ \t\r\f]*+\n){2,}+")),
    partial(_ends_at_empty_lines, re.compile(r"\n(?:[ \t\r\f]*+\n)++")),
    partial(_ends_of, _ABOVE_RECORD),
    _line_ends,
    sentence_ends,
    partial(_ends_of, re.compile(r"\s+|\u200b")),
    partial(_ends_of, re.compile("[\uff0c\u3001\uff1b]")),
    character_ends,
)


def start_of_lead(text: str, position: int) -> int:
    """Return the start of the line above a position if it means little without the text below it.

    It is a term with its definition indented below, or introduces a list, code or a table. For any
    other line, return the position.
    """
    below = _BELOW.match(text, position)
    window = max(position - 2 * _LONGEST_LEAD, 0)
    above = text[window:position].rstrip()
    line = above.rpartition("\n")[2]
    content = line.strip()
    if below is None or not content or len(line) > _LONGEST_LEAD:
        return position
    indent = line[: len(line) - len(line.lstrip())]
    columns = len(below["indent"].expandtabs()) - len(indent.expandtabs())
    is_indented = columns >= _LEAST_INDENT
    has_empty_line = text.count("\n", window + len(above), below.start("content")) > 1
    # A short line that does not end as prose does.
    is_term = len(content) < _LONGEST_TERM and not content.endswith(_ENDS_OF_NO_TERM)
    has_letters = _has_letter(content) and _has_letter(below["content"])
    is_lead = is_indented and is_term and has_letters
    if content.endswith(":"):
        is_listed = _LISTED.match(below["content"]) is not None
        is_lead = is_listed or (is_indented and has_empty_line)
    return window + len(above) - len(line) if is_lead else position


def _has_letter(text: str) -> bool:
    return any(map(str.isalpha, text))
