"""Finds the structure of a text: headings, the sections between them, and blocks of code.

Headings are Markdown, underlined or numbered ones. Blocks of code are fenced, as defined by
CommonMark, or of HTML.

Lines that could be prose do not count: list items, rows of a table of contents, lines that end like
sentences. Headings in code and comments do not count either.
"""

import html
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from langchain_rse.text.quoting import one_line

_LONGEST_TITLE = 200
_LONGEST_NUMBERED = 100
_LONGEST_OF_CHAPTER = 60  # after one number, as in "4. Title"
_FEWEST_COUNTED = 3
_NEXT = (1, 2)  # one heading may be missed

# "# Title" to "###### Title", or with equals signs, as in AsciiDoc.
_ATX = re.compile(
    rf"^\ufeff?[ ]{{0,3}}(?P<marks>\#{{1,6}}|={{1,6}})[ \t](?P<title>[^\n]{{1,{_LONGEST_TITLE}}})$",
    re.MULTILINE,
)
# The line under a title, in reStructuredText also above it.
_UNDERLINE = re.compile(
    r"""(?<=\n)(?P<mark>[-=~^"*+\#'`:])(?P=mark){2,300}[ \t]{0,9}\r?$""", re.MULTILINE
)
# Lines that are not titles, even above an underline: items, quotations, rows of tables, and what
# AsciiDoc writes above code.
_NO_TITLE = re.compile(r"[-*+>|] |\||.*\|[ \t]*\Z|\[.*\]\Z")
_NUMBERED = re.compile(
    rf"^\ufeff?[ ]{{0,3}}(?P<number>\d{{1,3}}(?:\.\d{{1,3}}){{0,5}})(?P<stop>[.)]?)[ \t\xa0]{{1,9}}"
    rf"(?P<title>[^\W\d_][^\n]{{1,{_LONGEST_NUMBERED}}})$"
    # The rest of a title that is broken in a narrow column.
    r"(?:\n[^\W\d_A-Z][^\n.,;:]{0,50}(?=\n\s{0,9}[A-ZÀ-ÞА-Я]))?",
    re.MULTILINE,
)
_NAMED = re.compile(
    rf"""^\ufeff?[ ]{{0,3}}
    (?=[A-Z§])(?P<name>(?i:
        book|part|title|chapter|article|section|appendix|annex|exhibit|schedule|item|note|§
    ))
    [ \t\xa0]{{1,3}}
    (?P<number>
        \d{{1,3}}[A-Za-z]?(?:\.\d{{1,3}}){{0,5}}
        |[IVXLC][IVXLCivxlc]{{0,7}}
        |[A-Z](?:\.\d{{1,3}}){{0,5}}
    )
    (?P<title>
        (?:[.:)]|[ \t\xa0]{{0,3}}[-\u2013\u2014])?
        (?:[ \t\xa0]{{1,9}}[^\n]{{0,{_LONGEST_NUMBERED}}})?
    )
    \r?$""",
    re.MULTILINE | re.VERBOSE,
)
# Front matter of a Markdown file, in YAML or TOML: it begins with a field, or comments above it.
_FRONT_MATTER = re.compile(
    r"\ufeff?(?P<mark>---|\+\+\+)[ \t]*\r?\n(?:\#[^\n]*\n){0,9}[\w-]+[ \t]*[:=]"
    r"[\s\S]{0,5000}?^(?:(?P=mark)|\.\.\.)[ \t]*\r?$",
    re.MULTILINE,
)

# Matches the last line of a text if it may be a heading with marks.
_MAY_END_HEADING = re.compile(r"""\ufeff?[ ]{0,3}\#|(?P<mark>[-~^"*+'`:])(?P=mark){2,}\Z""")

_WORD = re.compile(r"[^\W_]")
CODE_LINE = re.compile(
    r"""\s*(?:
    (?:from[ ]\S+[ ])?import[ ]\w|(?:def|class|function|export|alias|set)[ ][\w-]|return\b|@\w|\$
    |(?:if|elif|for|while|case|with|try|else)\b[^\n]{0,200}(?::|then|do|in)\s*$
    |(?:FROM|RUN|COPY|ADD|ENV|ARG|CMD|ENTRYPOINT|WORKDIR|EXPOSE|USER|LABEL|VOLUME|SHELL)[ ]\S
    |(?:cd|echo|sudo|apt|apt-get|pip|npm|git|mkdir|rm|cp|curl|exec)[ ]\S|[a-z-]{1,30}[ ]-\w
    |[\w.\[\]"'-]{1,99}[ ]?[-+*/|&:?]?=|\[{1,2}[\w."-]{1,99}\]{1,2}\s*$
    |[a-z_"'][\w."'-]{0,99}:(?:[ ]\S{1,99})?\s*$|[a-z_][\w.]{0,99}\([^\n]{0,200}[](),]:?\s*$
    )|[^\n]{0,299}[{};\\]\s*$""",
    re.VERBOSE,
)
"""A line of a program, a script, a Dockerfile or a configuration file."""
_PARAGRAPH_START = re.compile(r"\n[ \t\r]*\n")
_NEXT_LINE = re.compile(r"\r?\n(?P<line>[^\n]{1,300})")
_LIST_ITEM = re.compile(r"[ \t]{0,3}(?:\d{1,3}[.)]|[-*+])[ \t]")
# A line end with nothing on the next line, and then no item of a list or text of one.
_EMPTY_LINE = re.compile(rf"\n?\s*\Z|\n[^\S\n]*\n[\r\n]*+(?![ ]{{2}}|\t|{_LIST_ITEM.pattern})")
# Columns, or the page number in a row of contents.
_NOT_IN_TITLE = re.compile(r"[ ]{2}|\t|(?:\.{2,}|\s)[ \t]*\d{1,4}\Z")
_ENDS_LIKE_PROSE = (".", ",", ";", ":", "!", "-")
# Tags that Markdown often has in headings: not "List<String>".
_INLINE_TAG = re.compile(
    r"</?(?:a|abbr|b|br|code|em|font|i|img|kbd|mark|small|span|strong|sub|sup|tt|u)\b[^<>]*>",
    re.IGNORECASE,
)
_LINE_BREAK = re.compile(r"<br\b[^<>]*>", re.IGNORECASE)
_CLOSING_MARKS = re.compile(r"[ \t]\#+\Z")


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


class Range(NamedTuple):
    """A range of text, such as a fenced code block with the lines that open and close it."""

    start: int
    end: int


def find_fences(text: str) -> list[Range]:
    """Find the fenced blocks of a text, in order. An unclosed block does not count."""
    if "```" not in text and "~~~" not in text:  # faster than to look at each line
        return []
    lines = list(_FENCE_LINE.finditer(text))
    longest_behind = _longest_closings(lines)
    fences: list[Range] = []
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
        fences.append(Range(opening.start(), min(closing.end() + 1, len(text))))
    return fences


def find_html_code(text: str) -> list[Range]:
    """Find the comments, scripts, styles and preformatted texts of HTML, in order."""
    blocks: list[Range] = []
    start = 0
    end_mark = ""  # of the open block
    for tag in _HTML_TAG.finditer(text):
        mark = tag[0].lower()
        if not end_mark and mark in _HTML_END_MARKS:
            start, end_mark = tag.start(), _HTML_END_MARKS[mark]
        elif end_mark == mark:
            blocks.append(Range(start, tag.end()))
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


def inside_fence(fences: Sequence[Range], position: int) -> Range | None:
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


# Headings


class Heading(NamedTuple):
    """A heading, including its underline."""

    start: int
    end: int  # exclusive; usually the position of a line end
    level: int  # 1 is the highest


class Section(NamedTuple):
    """A heading and the text below it, with all sections of lower levels in it."""

    title: str  # without marks; with its number
    level: int  # 1 is the highest
    start: int  # the first character of the heading
    end: int  # where the next heading of this level or a higher one begins, or the text ends


def find_headings(text: str, fences: Sequence[Range] | None = None) -> list[Heading]:
    """Find the headings of a text, in order, given its fenced blocks; None to find them."""
    candidates = [*_marked_headings(text), *_numbered_headings(text), *_named_headings(text)]
    return _outside_fences(text, candidates, find_fences(text) if fences is None else fences)


def end_of_front_matter(text: str) -> int:
    """Return the end of the front matter of a Markdown file; 0 if there is none."""
    front_matter = _FRONT_MATTER.match(text)
    return 0 if front_matter is None else front_matter.end()


def end_before_headings(text: str) -> int:
    """Return the position of the headings at the end of a text; its length if there are none.

    Numbered lines do not count: only the following text shows whether they are list items.
    """
    end = len(text)
    last_line = text.rstrip().rpartition("\n")[2]
    if not _MAY_END_HEADING.match(last_line):  # true for most texts
        return end
    marked = _outside_fences(text, _marked_headings(text), find_fences(text))
    for heading in reversed(marked):
        if text[heading.end : end].strip():
            break
        end = heading.start
    return end


def _marked_headings(text: str) -> list[Heading]:
    """Find headings that are recognized by marks alone."""
    return [*atx_headings(text), *_underlined_headings(text)]


def _outside_fences(
    text: str, candidates: Sequence[Heading], fences: Sequence[Range]
) -> list[Heading]:
    """Keep headings outside of code and front matter; drop overlapping ones."""
    headings: list[Heading] = []
    end = end_of_front_matter(text)
    html_code = find_html_code(text)
    for heading in sorted(candidates):
        is_in_code = any(inside_fence(blocks, heading.start) for blocks in (fences, html_code))
        if heading.start >= end and not is_in_code:
            headings.append(heading)
            end = heading.end
    return without_comments(text, headings)


def without_comments(text: str, headings: Sequence[Heading]) -> list[Heading]:
    """Drop lines like "# Title" if most of them stand above code: they are a program's comments."""
    marked = [heading for heading in headings if text.startswith("#", heading.start)]
    above_code = 0
    for heading in marked:
        below = _NEXT_LINE.match(text, heading.end)
        if below is not None and CODE_LINE.match(below["line"]):
            above_code += 1
    if not above_code or 2 * above_code < len(marked):
        return list(headings)
    return sorted({*headings} - {*marked})


def atx_headings(text: str) -> list[Heading]:
    """Find headings like "## Title"; consecutive lines of one level are a comment of a script."""
    headings: list[Heading] = []
    comments: set[Heading] = set()
    for match in _ATX.finditer(text):
        heading = Heading(match.start(), match.end(), len(match["marks"]))
        last = headings[-1:]
        if last and last[0][1:] == (heading.start - 1, heading.level):
            comments.update([*last, heading])
        if _WORD.search(match["title"]):
            headings.append(heading)
    return [heading for heading in headings if heading not in comments]


def _underlined_headings(text: str) -> Iterator[Heading]:
    """Yield titles above a line of marks or, in reStructuredText, between two such lines.

    Levels follow the order in which the marks first occur.
    """
    levels: dict[tuple[str, bool], int] = {}
    last_end = -1
    for match in _UNDERLINE.finditer(text):
        title_end = match.start() - 1
        earliest = max(title_end - _LONGEST_TITLE, 0)
        title_start = text.rfind("\n", earliest, title_end) + 1
        if title_start < earliest or title_start <= last_end:
            continue
        title = text[title_start:title_end].strip(" \t\r\ufeff")
        underline = match[0].rstrip()
        if not _WORD.search(title) or _NO_TITLE.match(title):
            continue
        line_before = _line_before(text, title_start)
        is_overlined = line_before == underline
        if not is_overlined and line_before and title_start - 1 != last_end:
            # A title may have several lines, if they are as wide as the line under them.
            paragraph = _PARAGRAPH_START.split(text[earliest:title_end])[-1]
            if max(map(len, paragraph.splitlines())) != len(underline):
                continue
            title_start = title_end - len(paragraph)
        if len(underline) < len(title):
            # Markdown allows shorter underlines.
            if underline[0] not in "=-" or title.endswith(_ENDS_LIKE_PROSE):
                continue
        start = title_start
        if is_overlined:
            start = text.rfind("\n", 0, title_start - 1) + 1
        level = levels.setdefault((underline[0], is_overlined), len(levels) + 1)
        last_end = match.end()
        yield Heading(start, last_end, min(level, 6))


def _numbered_headings(text: str) -> Iterator[Heading]:
    """Yield headings like "4.2 Title", and "4. Title" between empty lines and not in a list.

    In text without empty lines, as of PDF files, three or more must follow one another, such as 3,
    3.1, 3.2, 4, and stand between sentences.
    """
    counted: list[Heading] = []
    last = [0]  # the number of the last one
    for match in _NUMBERED.finditer(text):
        title = match["title"].strip()
        if not _is_title(title.capitalize()):
            continue
        number = [*map(int, match["number"].split("."))]
        depth = len(number)
        heading = Heading(match.start(), match.end(), min(depth, 6))
        above = _line_before(text, match.start())
        if not above and title[0].isupper() and (depth > 1 or _is_chapter(text, match)):
            yield heading
        before = last[depth - 1] if depth <= len(last) else 0
        is_next = number[:-1] == last[: depth - 1] and number[-1] - before in _NEXT
        below = text[match.end() : match.end() + _LONGEST_TITLE].lstrip()
        is_inside = above.endswith(",") or above[-1:].islower() or below[:1].islower()
        is_listed = below[:1].isdigit() and not below.startswith(f"{match['number']}.1")
        if (is_next or number == [1]) and not is_inside and not is_listed:
            counted.append(heading)
            last = number
    if len(counted) >= _FEWEST_COUNTED:
        yield from counted


def _is_chapter(text: str, match: re.Match[str]) -> bool:
    """True if a line like "4. Title" stands between empty lines, and not in a list."""
    last_line = text[max(match.start() - 400, 0) : match.start()].rstrip().rpartition("\n")[2]
    is_marked = match["stop"] == "." and len(match["title"]) <= _LONGEST_OF_CHAPTER
    is_apart = _EMPTY_LINE.match(text, match.end()) and not _LIST_ITEM.match(last_line)
    return is_marked and bool(is_apart)


def _named_headings(text: str) -> Iterator[Heading]:
    """Yield headings like "CHAPTER 3", "Article IV" and "Section 4.1 Title"."""
    for match in _NAMED.finditer(text):
        title = match["title"].strip(" \t\r\xa0.:)-\u2013\u2014")
        if (title and not _is_title(title)) or _line_before(text, match.start()):
            continue
        level = match["number"].count(".") + 1
        if match["name"].lower() == "item":
            level += 1
        yield Heading(match.start(), match.end(), min(level, 6))


def _is_title(title: str) -> bool:
    """True if text after a number can be a title, not a sentence or a row of contents."""
    is_prose = title.endswith(_ENDS_LIKE_PROSE) or _NOT_IN_TITLE.search(title)
    return title[0].isupper() and not is_prose


def _line_before(text: str, start: int) -> str:
    """Return the line before a line start (the end of a long one); "" if there is none."""
    end = max(start - 1, 0)
    before = text[max(end - _LONGEST_TITLE, 0) : end]
    return before.rpartition("\n")[2].strip(" \t\r\xa0\ufeff")


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
        title = " ".join(filter(_WORD.search, title.splitlines()))
    elif title.startswith(("#", "=")):
        title = _CLOSING_MARKS.sub("", title.lstrip("#="))
    title = _INLINE_TAG.sub("", _LINE_BREAK.sub(" ", title))
    return one_line(html.unescape(title))
