"""The blocks of a web page: which of them are its content, and how they are written as Markdown.

The default splitter cuts before Markdown's headings, keeps its fenced code whole, and repeats the
header row of its tables.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise

# Links above the first heading with more than this share of the text are content.
_MOST_LINKS_ABOVE = 0.5
# The fewest characters outside headings that are the content of a page without a main part.
# A page with fewer is made of navigation, and this is what it says.
_LEAST_CONTENT = 40
# A fence around more than this share of the content would make code of a plain text.
_MOST_FENCED_SHARE = 0.5
# A list with this share of its text in links has nothing but links, numbers and bullets.
LINKS_ONLY = 0.9
# A paragraph outside the content with this share of its text in links is navigation.
MOSTLY_LINKS = 0.5
_NO_LETTERS_OR_DIGITS = re.compile(r"[\W_]+")
_BACKTICKS = re.compile("`{3,}")


class Place(IntEnum):
    """Where a block stands in its page."""

    MAIN = 0
    ARTICLE = 1
    BODY = 2
    BOILERPLATE = 3


# With a smaller share of the text outside boilerplate, <main> or articles are not all of the
# content. Some pages have little in <main>, and the help of their search beside it.
_LEAST_SHARES = {Place.MAIN: 0.2, Place.ARTICLE: 0.5}


class Kind(IntEnum):
    """What a block is."""

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
    prefix: str = ""  # Markdown's mark of a heading or an item
    gap: int = 1  # line breaks in front
    linked: int = 0  # characters of the text in links

    @property
    def size(self) -> int:
        """The number of characters."""
        return len(self.text)


_END_OF_PAGE = Block("", Place.BODY, Kind.HEADING)


def leave_out_links(blocks: Sequence[Block]) -> None:
    """Make boilerplate of links that say nothing of their own.

    These are headings that have only a table of contents below, and links above the first heading.
    """
    heading_of_contents: Block | None = None
    for before, block in pairwise([*blocks, _END_OF_PAGE]):
        if block.kind == Kind.CONTENTS:
            if before.kind == Kind.HEADING:
                heading_of_contents = before
        elif heading_of_contents is not None:
            if block.kind == Kind.HEADING:  # nothing else stood below the other heading
                heading_of_contents.place = Place.BOILERPLATE
            heading_of_contents = None
    _leave_out_links_above(blocks)


def _leave_out_links_above(blocks: Sequence[Block]) -> None:
    """Make boilerplate of the links above the first heading, unless they are half of the page."""
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
    """Put the title of a page in front, unless the first heading is it or a part of it."""
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
    """The blocks that are the content of the page; all blocks if the rest says too little."""
    sizes = [0] * len(Place)
    sizes_without_headings = [0] * len(Place)
    for block in blocks:
        sizes[block.place] += block.size
        if block.kind != Kind.HEADING:
            sizes_without_headings[block.place] += block.size
    outside_boilerplate = sum(sizes[: Place.BOILERPLATE])
    for last, least_share in _LEAST_SHARES.items():
        size = sum(sizes[: last + 1])
        says_something = sum(sizes_without_headings[: last + 1]) > 0
        if says_something and size >= least_share * outside_boilerplate:
            return [block for block in blocks if block.place <= last]
    if sum(sizes_without_headings[: Place.BOILERPLATE]) >= _LEAST_CONTENT:
        return [block for block in blocks if block.place < Place.BOILERPLATE]
    return list(blocks)


def as_markdown(blocks: Sequence[Block]) -> str:
    """Write blocks one below the other."""
    most_fenced = _MOST_FENCED_SHARE * sum(block.size for block in blocks)
    parts: list[str] = []
    for block in blocks:
        text = block.text
        if block.kind == Kind.CODE and block.size <= most_fenced:
            text = fenced(text)
        parts.append("\n" * block.gap + block.prefix + text)
    return "".join(parts).strip("\n")


def fenced(code: str, language: str = "") -> str:
    """Put code between fences that are longer than any in it."""
    longest = max((len(match[0]) for match in _BACKTICKS.finditer(code)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{code}\n{fence}"
