"""The blocks of a web page: which of them are its content, and how they are written as Markdown.

The default splitter cuts before Markdown's headings, keeps its fenced code whole, and repeats the
header row of its tables.
"""

import re
from collections.abc import Container, Sequence
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
# Longer cells have paragraphs of their own.
_LONGEST_CELL = 1000
_NO_LETTERS_OR_DIGITS = re.compile(r"[\W_]+")
_DIGITS = "0123456789"
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
    TERM = 1  # of a definition list
    HEADING = 2
    CODE = 3
    TABLE = 4


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


def leave_out_links(blocks: Sequence[Block], link_lists: Sequence[Sequence[Block]]) -> None:
    """Make boilerplate of links that say nothing of their own.

    Args:
        blocks: Those of the page.
        link_lists: Lists of it that have nothing but links, with their blocks. A table of contents
            is one whose items are headings of the page; it is left out.
    """
    in_lists: set[int] = set()
    for items in link_lists:
        in_lists.update(map(id, items))
    headings: set[str] = set()
    for block in blocks:
        if block.kind in {Kind.HEADING, Kind.TERM} and id(block) not in in_lists:
            headings |= _spellings(block.text)
    contents: set[int] = set()
    for items in link_lists:
        repeated = sum(not headings.isdisjoint(_spellings(item.text)) for item in items)
        if repeated >= LINKS_ONLY * len(items):
            contents.update(map(id, items))
    _leave_out_contents(blocks, contents)
    _leave_out_links_above(blocks)


def _leave_out_contents(blocks: Sequence[Block], contents: Container[int]) -> None:
    """Make boilerplate of tables of contents, by their ids, and of headings that only they have."""
    heading_of_contents: Block | None = None
    for before, block in pairwise([*blocks, _END_OF_PAGE]):
        if id(block) in contents:
            block.place = Place.BOILERPLATE
            if before.kind == Kind.HEADING:
                heading_of_contents = before
        elif heading_of_contents is not None:
            if block.kind == Kind.HEADING:  # nothing else stood below the other heading
                heading_of_contents.place = Place.BOILERPLATE
            heading_of_contents = None


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


def _spellings(heading: str) -> set[str]:
    """The letters and digits of a heading, with and without its number."""
    text = _letters_and_digits(heading)
    return {text, text.lstrip(_DIGITS)} - {""}


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


@dataclass
class Cell:
    """A cell of a table."""

    first: int  # its first block
    end: int  # the block after its last one
    names_column: bool


@dataclass
class PageTable:
    """A table whose cells are being read."""

    first: int  # its first block
    rows: list[list[Cell]]
    has_tables: bool = False  # in its cells


def replace_by_rows(blocks: list[Block], table: PageTable, place: Place) -> None:
    """Replace the blocks of a table by its rows, one line each, after its caption.

    Tables that arrange the page stay as they are: those with headings, code, tables, navigation or
    long texts in cells, and those without two rows of at least two filled cells.
    """
    rows = _rows_of(blocks, table)
    full_rows = sum(sum(map(bool, row)) > 1 for row in rows)
    if full_rows <= 1:
        return
    lines = [f"| {' | '.join(row)} |" for row in rows]
    first_cells = next(cells for cells in table.rows if cells)
    if all(cell.names_column for cell in first_cells):
        lines.insert(1, f"|{'---|' * len(first_cells)}")
    in_cells: set[int] = set()
    for row in table.rows:
        for cell in row:
            in_cells.update(range(cell.first, cell.end))
    outside_cells: list[Block] = []
    linked = 0
    for number in range(table.first, len(blocks)):
        block = blocks[number]
        if number in in_cells:
            linked += block.linked
        else:
            outside_cells.append(block)
    text = "\n".join(lines)
    rendered = Block(text, place, Kind.TABLE, "", 2, linked)
    blocks[table.first :] = [*outside_cells, rendered]


def _rows_of(blocks: Sequence[Block], table: PageTable) -> list[list[str]]:
    """The texts of the cells of each row; nothing if the table arranges the page."""
    if table.has_tables:
        return []
    rows: list[list[str]] = []
    for cells in filter(None, table.rows):
        row: list[str] = []
        for cell in cells:
            blocks_of_cell = blocks[cell.first : cell.end]
            for block in blocks_of_cell:
                if block.kind in {Kind.HEADING, Kind.CODE} or block.place == Place.BOILERPLATE:
                    return []
            text = " ".join(block.text for block in blocks_of_cell)
            if len(text) > _LONGEST_CELL:
                return []
            row.append(text)
        rows.append(row)
    return rows
