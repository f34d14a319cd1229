"""Finds headings in a text: Markdown, underlined, numbered and HTML headings.

Lines that could be prose do not count: list items, rows of a table of contents, lines that end like
sentences. Headings in fenced code do not count either.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from langchain_rse.text.fences import Fence, find_fences, inside_fence

_LONGEST_TITLE = 200
_LONGEST_NUMBERED = 100
_LONGEST_OF_CHAPTER = 60  # after one number, as in "4. Title"

# "# Title" to "###### Title".
_ATX = re.compile(
    rf"^\ufeff?[ ]{{0,3}}(?P<marks>\#{{1,6}})[ \t](?P<title>[^\n]{{1,{_LONGEST_TITLE}}})$",
    re.MULTILINE,
)
# The line under a title, in reStructuredText also above it.
_UNDERLINE = re.compile(
    r"""^(?P<mark>[-=~^"*+\#'`:])(?P=mark){2,300}[ \t]{0,9}\r?$""", re.MULTILINE
)
# Lines that are not titles, even above an underline: items, quotations, rows of tables.
_NO_TITLE = re.compile(r"[-*+>|] |\||.*\|[ \t]*\Z")
_NUMBERED = re.compile(
    rf"^\ufeff?[ ]{{0,3}}(?P<number>\d{{1,3}}(?:\.\d{{1,3}}){{0,5}})(?P<stop>[.)]?)[ \t\xa0]{{1,9}}"
    rf"(?P<title>[^\W\d_][^\n]{{1,{_LONGEST_NUMBERED}}})$",
    re.MULTILINE,
)
_NAMED = re.compile(
    rf"""^\ufeff?[ ]{{0,3}}
    (?P<name>book|part|title|chapter|article|section|appendix|annex|exhibit|schedule|item|note|§)
    [ \t\xa0]{{1,3}}
    (?P<number>\d{{1,3}}[A-Z]?(?:\.\d{{1,3}}){{0,5}}|[IVXLC]{{1,8}}|[A-Z](?:\.\d{{1,3}}){{0,5}})
    (?P<title>
        (?:[.:)]|[ \t\xa0]{{0,3}}[-\u2013\u2014])?
        (?:[ \t\xa0]{{1,9}}[^\n]{{0,{_LONGEST_NUMBERED}}})?
    )
    \r?$""",
    re.MULTILINE | re.VERBOSE | re.IGNORECASE,
)
_HTML = re.compile(
    rf"<h(?P<level>[1-6])\b[^<>]{{0,300}}>(?:(?!</?h[1-6]\b)[\s\S]){{0,{_LONGEST_TITLE}}}</h(?P=level)\s*>",
    re.IGNORECASE,
)
# Front matter of a Markdown file, in YAML or TOML: it begins with a field, or comments above it.
_FRONT_MATTER = re.compile(
    r"\ufeff?(?P<mark>---|\+\+\+)[ \t]*\r?\n(?:\#[^\n]*\n){0,9}[\w-]+[ \t]*[:=]"
    r"[\s\S]{0,5000}?^(?:(?P=mark)|\.\.\.)[ \t]*\r?$",
    re.MULTILINE,
)

# Matches the last line of a text if it may be a heading with marks.
_MAY_END_HEADING = re.compile(r"""\ufeff?[ ]{0,3}\#|(?P<mark>[-~^"*+'`:])(?P=mark){2,}\Z|.*>\Z""")

_WORD = re.compile(r"[^\W_]")
_LIST_ITEM = re.compile(r"[ \t]{0,3}(?:\d{1,3}[.)]|[-*+])[ \t]")
_PAGE_NUMBER = re.compile(r"(?:\.{2,}|\s)[ \t]*\d{1,4}\Z")
_ENDS_LIKE_PROSE = (".", ",", ";", ":", "!", "-")
_LEVELS_OF_NAMES = {"book": 1, "part": 1, "title": 1, "chapter": 1, "article": 1, "item": 2}


class Heading(NamedTuple):
    """A heading, including its underline."""

    start: int
    end: int  # exclusive; usually the position of a line end
    level: int  # 1 is the highest


def find_headings(text: str, fences: Sequence[Fence] | None = None) -> list[Heading]:
    """Find the headings of a text, in order.

    Args:
        text: The text.
        fences: The fenced blocks of the text; None to find them.
    """
    candidates = [*_marked_headings(text), *_numbered_headings(text), *_named_headings(text)]
    return _outside_fences(text, candidates, find_fences(text) if fences is None else fences)


def markdown_headings(text: str) -> list[Heading]:
    """Find headings like "## Title" and "<h2>Title</h2>" in a text without fenced blocks."""
    return sorted([*_atx_headings(text), *_html_headings(text)])


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
    for heading in reversed(_outside_fences(text, _marked_headings(text), find_fences(text))):
        if text[heading.end : end].strip():
            break
        end = heading.start
    return end


def _marked_headings(text: str) -> list[Heading]:
    """Find headings that are recognized by marks alone."""
    finders = (_atx_headings, _html_headings, _underlined_headings)
    return [heading for find in finders for heading in find(text)]


def _outside_fences(
    text: str, candidates: Sequence[Heading], fences: Sequence[Fence]
) -> list[Heading]:
    """Keep headings outside of fenced blocks and front matter; drop overlapping ones."""
    first = end_of_front_matter(text)
    headings: list[Heading] = []
    for heading in sorted(candidates):
        is_new = not headings or heading.start >= headings[-1].end
        if is_new and heading.start >= first and inside_fence(fences, heading.start) is None:
            headings.append(heading)
    return headings


def _atx_headings(text: str) -> Iterator[Heading]:
    """Yield headings like "## Title"; consecutive lines of one level are a comment of a script."""
    last_end, last_level = -2, 0
    lines: list[tuple[Heading, bool]] = []
    for match in _ATX.finditer(text):
        level = len(match["marks"])
        continues = match.start() == last_end + 1 and level == last_level
        if continues:
            lines[-1] = (lines[-1][0], True)
        if _WORD.search(match["title"]):
            lines.append((Heading(match.start(), match.end(), level), continues))
            last_end, last_level = match.end(), level
    for heading, is_comment in lines:
        if not is_comment:
            yield heading


def _html_headings(text: str) -> Iterator[Heading]:
    """Yield HTML headings at the beginning of a line or after another tag."""
    for match in _HTML.finditer(text):
        before = text[max(match.start() - 100, 0) : match.start()].rstrip(" \t")
        if not before or before[-1] in "\n>\ufeff":
            yield Heading(match.start(), match.end(), int(match["level"]))


def _underlined_headings(text: str) -> Iterator[Heading]:
    """Yield titles above a line of marks or, in reStructuredText, between two such lines.

    Levels follow the order in which the marks first occur.
    """
    levels: dict[tuple[str, bool], int] = {}
    last_end = -1
    for match in _UNDERLINE.finditer(text):
        title_end = match.start() - 1
        title_start = _line_start(text, title_end)
        if title_end <= 0 or title_start is None or title_start <= last_end:
            continue
        title = text[title_start:title_end].strip(" \t\r\ufeff")
        underline = match[0].rstrip()
        if not _WORD.search(title) or _NO_TITLE.match(title):
            continue
        line_before = _line_before(text, title_start)
        is_overlined = line_before is not None and line_before == underline
        if not is_overlined and line_before and title_start - 1 != last_end:
            continue
        if len(underline) < len(title):
            # Markdown allows shorter underlines.
            if underline[0] not in "=-" or title.endswith(_ENDS_LIKE_PROSE):
                continue
        start = title_start
        if is_overlined:
            start = _line_start(text, title_start - 1) or 0
        level = levels.setdefault((underline[0], is_overlined), len(levels) + 1)
        last_end = match.end()
        yield Heading(start, last_end, min(level, 6))


def _numbered_headings(text: str) -> Iterator[Heading]:
    """Yield headings like "4.2 Title", and "4. Title" between empty lines and not in a list."""
    for match in _NUMBERED.finditer(text):
        title = match["title"].strip()
        if not _is_title(title) or _line_before(text, match.start()):
            continue
        depth = match["number"].count(".") + 1
        if depth == 1:
            below = _line_after(text, match.end())
            is_long = len(title) > _LONGEST_OF_CHAPTER
            if below or is_long or match["stop"] != "." or _is_in_list(text, match):
                continue
        yield Heading(match.start(), match.end(), min(depth, 6))


def _named_headings(text: str) -> Iterator[Heading]:
    """Yield headings like "CHAPTER 3", "Article IV" and "Section 4.1 Title"."""
    for match in _NAMED.finditer(text):
        title = match["title"].strip(" \t\r\xa0.:)-\u2013\u2014")
        if title and not _is_title(title):
            continue
        if not match["name"][0].isupper() and match["name"] != "§":
            continue
        if not match["number"][0].isupper() and not match["number"][0].isdigit():
            continue
        if _line_before(text, match.start()):
            continue
        level = match["number"].count(".") + _LEVELS_OF_NAMES.get(match["name"].lower(), 1)
        yield Heading(match.start(), match.end(), min(level, 6))


def _is_title(title: str) -> bool:
    """True if text after a number can be a title, not a sentence or a row of contents."""
    if not title[0].isupper() or title.endswith(_ENDS_LIKE_PROSE):
        return False
    return "  " not in title and "\t" not in title and _PAGE_NUMBER.search(title) is None


def _is_in_list(text: str, match: re.Match[str]) -> bool:
    """True if a numbered line between empty lines is a list item."""
    start = match.start()
    before = text[max(start - 400, 0) : start].rstrip()
    last_line = before[before.rfind("\n") + 1 :]
    after = text[match.end() : match.end() + 400].lstrip("\r\n")
    return bool(
        _LIST_ITEM.match(last_line) or _LIST_ITEM.match(after) or after.startswith(("  ", "\t"))
    )


def _line_start(text: str, line_end: int) -> int | None:
    """Return the start of the line that ends at a position; None if it is too long for a title."""
    earliest = max(line_end - _LONGEST_TITLE, 0)
    before = text.rfind("\n", earliest, max(line_end, 0))
    if before < 0 and earliest > 0:
        return None
    return before + 1


def _line_before(text: str, start: int) -> str | None:
    """Return the line before a line start (the end of a long one); None if there is none."""
    if start == 0:
        return None
    line_start = text.rfind("\n", max(start - 1 - _LONGEST_TITLE, 0), start - 1) + 1
    return text[max(line_start, start - 1 - _LONGEST_TITLE) : start - 1].strip(" \t\r\xa0\ufeff")


def _line_after(text: str, end: int) -> str:
    """Return the line after a line end (the beginning of a long one)."""
    line = text[end + 1 : end + 1 + _LONGEST_TITLE]
    return line.split("\n", 1)[0].strip()
