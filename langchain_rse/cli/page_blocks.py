"""Selects the content blocks of a web page, and writes them as Markdown.

The default splitter cuts before Markdown headings, keeps fenced code whole, and repeats the header
row of tables.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise

# Links above the first heading are content if they are more than this share of the text.
_MOST_LINKS_ABOVE = 0.5
# A page without a main part and with less text outside headings consists of navigation, and is
# read whole.
_LEAST_CONTENT = 40
# Code that is more than this share of the content is a plain text file, and not fenced.
_MOST_FENCED_SHARE = 0.5
# A list with at least this share of its text in links contains only links, numbers and bullets.
LINKS_ONLY = 0.9
# A paragraph outside the content with at least this share of its text in links is navigation.
MOSTLY_LINKS = 0.5
_NO_LETTERS_OR_DIGITS = re.compile(r"[\W_]+")
_BACKTICKS = re.compile("`{3,}")


class Place(IntEnum):
    """The part of the page that contains a block."""

    MAIN = 0
    ARTICLE = 1
    BODY = 2
    BOILERPLATE = 3


# <main> or the articles are the whole content if they have at least this share of the text outside
# boilerplate. Some pages have little text in <main>, and search help next to it.
_LEAST_SHARES = {Place.MAIN: 0.2, Place.ARTICLE: 0.5}


class Kind(IntEnum):
    """The kind of a block."""

    TEXT = 0
    HEADING = 1
    CODE = 2
    CONTENTS = 3  # an item of a table of contents


@dataclass(slots=True)
class Block:
    """A paragraph, heading, item, table or piece of code."""

    text: str
    place: Place
    kind: Kind = Kind.TEXT
    prefix: str = ""  # the Markdown marker of a heading or an item
    gap: int = 1  # line breaks before the block
    linked: int = 0  # characters of the text in links

    @property
    def size(self) -> int:
        """The number of characters."""
        return len(self.text)


_END_OF_PAGE = Block("", Place.BODY, Kind.HEADING)


def mark_navigation(blocks: Sequence[Block]) -> None:
    """Mark links above the first heading, and headings of tables of contents, as boilerplate."""
    heading_of_contents: Block | None = None
    for before, block in pairwise([*blocks, _END_OF_PAGE]):
        if block.kind == Kind.CONTENTS:
            if before.kind == Kind.HEADING:
                heading_of_contents = before
        elif heading_of_contents is not None:
            if block.kind == Kind.HEADING:  # the section has only a table of contents
                heading_of_contents.place = Place.BOILERPLATE
            heading_of_contents = None
    _mark_links_above(blocks)


def _mark_links_above(blocks: Sequence[Block]) -> None:
    """Mark links above the first heading as boilerplate, unless they are half of the page."""
    links: list[Block] = []
    for block in blocks:
        if block.place != Place.BODY:
            continue
        if block.kind == Kind.HEADING:
            break
        if block.linked >= MOSTLY_LINKS * len(block.text):
            links.append(block)
    else:
        return  # no heading
    page_size = sum(block.size for block in blocks if block.place != Place.BOILERPLATE)
    if sum(block.size for block in links) < _MOST_LINKS_ABOVE * page_size:
        for block in links:
            block.place = Place.BOILERPLATE


def _letters_and_digits(text: str) -> str:
    return _NO_LETTERS_OR_DIGITS.sub("", text).casefold()


def with_title(title: str, blocks: list[Block]) -> list[Block]:
    """Put the title of a page in front, unless the title contains the first heading."""
    first_heading = ""
    for block in blocks:
        if block.kind == Kind.HEADING:
            first_heading = _letters_and_digits(block.text)
            break
    if not title or (first_heading and first_heading in _letters_and_digits(title)):
        return blocks
    for block in blocks[:1]:
        block.gap = 2
    return [Block(title, Place.MAIN, Kind.HEADING, "# "), *blocks]


def content_of(blocks: Sequence[Block]) -> list[Block]:
    """Return the content blocks of the page, or all blocks if the content is too short."""
    sizes = [0] * len(Place)
    sizes_without_headings = [0] * len(Place)
    for block in blocks:
        sizes[block.place] += block.size
        if block.kind != Kind.HEADING:
            sizes_without_headings[block.place] += block.size
    outside_boilerplate = sum(sizes[: Place.BOILERPLATE])
    for last, least_share in _LEAST_SHARES.items():
        size = sum(sizes[: last + 1])
        has_text = sum(sizes_without_headings[: last + 1]) > 0
        if has_text and size >= least_share * outside_boilerplate:
            return [block for block in blocks if block.place <= last]
    if sum(sizes_without_headings[: Place.BOILERPLATE]) >= _LEAST_CONTENT:
        return [block for block in blocks if block.place < Place.BOILERPLATE]
    return list(blocks)


def as_markdown(blocks: Sequence[Block]) -> str:
    """Join blocks as Markdown."""
    most_fenced = _MOST_FENCED_SHARE * sum(block.size for block in blocks)
    parts: list[str] = []
    for block in blocks:
        text = block.text
        if block.kind == Kind.CODE and block.size <= most_fenced:
            text = fenced(text)
        parts.append("\n" * block.gap + block.prefix + text)
    return "".join(parts).strip("\n")


def fenced(code: str, language: str = "") -> str:
    """Put code between fences longer than any fence in it."""
    longest = max((len(match[0]) for match in _BACKTICKS.finditer(code)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{code}\n{fence}"
