"""Reads the text of HTML as a stream, without a tree of its tags, as Markdown.

So the time is proportional to the length, also for tags that are never closed, and nested tags need
no recursion.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from langchain_rse.cli.page_blocks import (
    LINKS_ONLY,
    MOSTLY_LINKS,
    Block,
    Cell,
    Kind,
    PageTable,
    Place,
    as_markdown,
    content_of,
    leave_out_links,
    replace_by_rows,
    with_title,
)

_HEADINGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
_LISTS = frozenset({"ul", "ol", "dl", "menu"})
_CODE = frozenset({"pre", "textarea", "listing", "xmp", "plaintext"})
# Tags that begin a line, after an empty one and without.
_PARAGRAPHS = frozenset({"p", "blockquote", "dt", "figure", "hr", "table"})
_PARAGRAPHS |= _LISTS | _HEADINGS | _CODE
_LINES = frozenset({"address", "article", "aside", "body", "br", "caption", "center", "dd"})
_LINES |= {"details", "div", "fieldset", "figcaption", "footer", "form", "header", "legend", "li"}
_LINES |= {"main", "nav", "section", "summary", "td", "th", "tr"}
# Tags whose text is not shown; those of Ruby say how the text before them is read aloud. Elements
# that are hidden at first are shown: tabs and folded answers are opened by a click.
_HIDDEN = frozenset({"rp", "rt", "script", "style", "template", "select", "datalist", "dialog"})
_HIDDEN_ROLES = frozenset({"dialog", "alertdialog"})
# What is the same on other pages, by tags, roles, and classes or ids from before there were roles.
_BOILERPLATE_ROLES = frozenset({"navigation", "search", "banner", "contentinfo", "menu", "menubar"})
_BOILERPLATE_NAMES = frozenset({"nav", "navbar", "navigation", "navheader", "navfooter"})
_BOILERPLATE_NAMES |= {"nav-panel", "breadcrumb", "breadcrumbs", "sphinxsidebar"}
_NEVER_BOILERPLATE = frozenset({"html", "body", "main", "article"})
# What elements are, by their tags.
_KINDS: Mapping[str, frozenset[str]] = {
    "a": frozenset({"link"}),
    "article": frozenset({"article", "section"}),
    "aside": frozenset({"edge"}),
    "dt": frozenset({"term"}),
    "footer": frozenset({"edge"}),
    "header": frozenset({"edge"}),
    "li": frozenset({"item"}),
    "main": frozenset({"main", "section"}),
    "nav": frozenset({"boilerplate"}),
    "section": frozenset({"section"}),
    "svg": frozenset({"svg"}),
    "table": frozenset({"table"}),
    "td": frozenset({"cell"}),
    "th": frozenset({"cell"}),
    "thead": frozenset({"thead"}),
    "tr": frozenset({"row"}),
    **dict.fromkeys(_CODE, frozenset({"pre"})),
    **dict.fromkeys(_HEADINGS, frozenset({"heading"})),
    **dict.fromkeys(_LISTS, frozenset({"list"})),
}
# Kinds that say where text stands, also of elements with any tag; those whose text has a mark in
# front or is found by its kind; and those of a table.
_PLACES = frozenset({"boilerplate", "main", "article", "edge"})
_MARKED = frozenset({"heading", "item", "term"})
_CELLS_AND_ROWS = frozenset({"cell", "row"})
_TABLE_PARTS = _CELLS_AND_ROWS | {"table"}
_ALL_KINDS = frozenset({"hidden", "title"}).union(_PLACES, *_KINDS.values())
_NOTHING: frozenset[str] = frozenset()
# Items of nested lists are indented by two spaces for each list, up to this many.
_DEEPEST_INDENTATION = 4
# The sign beside a heading that links to it.
_LONGEST_PERMALINK = 2
_SPACE = re.compile(r"[ \t\r\n\f]+")


class WebPage(NamedTuple):
    """What a file of HTML says."""

    text: str  # Markdown
    title: str  # empty if there is none


def read_html(source: str) -> WebPage:
    """Read the content of HTML, whether it is well-formed or not.

    Navigation and other boilerplate is left out, unless there is nothing else.
    """
    from lxml import etree

    if not source.strip():
        return WebPage("", "")
    reader = _Reader()
    # huge_tree: no limit to nested tags and to the length of a text, since no tree is made.
    parser: Any = etree.HTMLParser(target=reader, encoding="utf-8", huge_tree=True)
    parser.feed(source.replace("\0", " ").encode("utf-8", "replace"))
    parser.close()
    title = " ".join("".join(reader.title).split())
    blocks = with_title(title, content_of(reader.blocks))
    return WebPage(as_markdown(blocks), title)


@dataclass
class _List:
    """A list whose items are being read."""

    tag: str
    first: int  # its first block
    items: int = 0  # so far


class _Reader:
    """Collects the text between the tags that lxml calls it for, in blocks."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self.title: list[str] = []
        # The kinds of each open element, and how many elements of each kind are open.
        self._elements: list[frozenset[str]] = []
        self._open = dict.fromkeys(_ALL_KINDS, 0)
        self._texts: list[str] = []  # of the block that is being read
        self._prefix = ""
        self._kind = Kind.TEXT
        self._gap = 0
        self._linked = 0
        self._link_start: int | None = None  # the first text of an open link
        self._link_is_within = False
        self._lists: list[_List] = []
        self._tables: list[PageTable] = []
        self._cells: list[Cell] = []
        self._link_lists: list[list[Block]] = []

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Begin a tag."""
        self._break(tag)
        kinds = self._kinds_of(tag, attributes)
        self._elements.append(kinds)
        if not kinds:
            return
        if kinds & _PLACES:
            self._end_block()
        for kind in kinds:
            self._open[kind] += 1
        if "heading" in kinds:
            self._prefix = f"{'#' * int(tag[1])} "
            self._kind = Kind.HEADING
        elif "term" in kinds:
            self._kind = Kind.TERM
        elif "list" in kinds:
            self._lists.append(_List(tag, len(self.blocks)))
        elif "item" in kinds:
            self._prefix = self._mark_of_item()
        elif "link" in kinds:
            self._link_start = len(self._texts)
            self._link_is_within = attributes.get("href", "").startswith("#")
        elif kinds & _TABLE_PARTS:
            self._begin_part_of_table(tag)

    def end(self, tag: str) -> None:
        """End a tag, also one that is never closed."""
        kinds = self._elements.pop()
        if not kinds:
            self._break(tag)
            return
        if "link" in kinds:
            self._end_link()
        if kinds & _PLACES or "pre" in kinds:
            self._end_block()
        self._break(tag)
        for kind in kinds:
            self._open[kind] -= 1
        if kinds & _MARKED:
            self._prefix = ""
            self._kind = Kind.TEXT
        elif "list" in kinds:
            self._end_list()
        elif kinds & _TABLE_PARTS:
            self._end_part_of_table(tag)

    def data(self, text: str) -> None:
        """Read text."""
        if self._open["hidden"]:
            return
        if self._open["title"]:
            self.title.append(text)
            return
        self._texts.append(text)
        if self._open["link"]:
            self._linked += len(text.strip())

    def comment(self, _: str) -> None:
        """Pass over a comment."""

    def close(self) -> None:
        """End the page."""
        self._end_block()
        leave_out_links(self.blocks, self._link_lists)

    def _kinds_of(self, tag: str, attributes: Mapping[str, str]) -> frozenset[str]:
        """What an element is, for the text in it."""
        role = attributes.get("role", "") if attributes else ""
        is_button = tag == "button" and role != "tab" and not self._open["heading"]
        if tag in _HIDDEN or role in _HIDDEN_ROLES or is_button:
            return frozenset({"hidden"})
        if tag == "title" and not self._open["svg"] and not self.title:
            return frozenset({"title"})
        if self._open["hidden"] or self._open["pre"]:
            return _NOTHING
        kinds = _KINDS.get(tag, _NOTHING)
        if kinds & _CELLS_AND_ROWS and not self._tables:
            kinds = _NOTHING
        names: set[str] = set()  # of the element
        if attributes and tag not in _NEVER_BOILERPLATE:
            names = {attributes.get("id", "").lower(), *attributes.get("class", "").lower().split()}
        is_boilerplate = role in _BOILERPLATE_ROLES or not names.isdisjoint(_BOILERPLATE_NAMES)
        if (tag == "footer" or "footer" in names) and not self._open["section"]:
            is_boilerplate = True
        if role == "main":
            kinds |= {"main", "section"}
        elif is_boilerplate:
            kinds |= {"boilerplate"}
        return kinds

    def _place(self) -> Place:
        """Where text stands that is read now."""
        if self._open["boilerplate"]:
            return Place.BOILERPLATE
        if self._open["main"]:
            return Place.MAIN
        return Place.ARTICLE if self._open["article"] else Place.BODY

    def _break(self, tag: str) -> None:
        """End a line at the start or end of a tag, unless it stands within a line."""
        if tag in _PARAGRAPHS:
            gap = 2
        elif tag in _LINES:
            gap = 1
        else:
            return
        if self._open["pre"]:
            if self._texts and not self._texts[-1].endswith("\n"):
                self._texts.append("\n")
        elif tag == "br" and self._kind == Kind.HEADING:
            self._texts.append(" ")
        else:
            self._end_block()
            if tag in _LISTS and self._open["item"]:
                gap = 1
            self._gap = max(self._gap, gap)

    def _end_block(self) -> None:
        """Add the text that was read since the last block, if there is any."""
        if not self._texts:
            return
        text = "".join(self._texts)
        kind = self._kind
        prefix = self._prefix
        if self._open["pre"]:
            text = text.strip("\r\n").rstrip()
            kind = Kind.CODE
            prefix = ""
            self._gap = 2
        else:
            text = _SPACE.sub(" ", text).strip()
        if text and not text.isspace():
            place = self._place()
            if self._open["edge"] and self._linked >= MOSTLY_LINKS * len(text):
                place = Place.BOILERPLATE
            self.blocks.append(Block(text, place, kind, prefix, self._gap, self._linked))
            self._gap = 2 if kind == Kind.CODE else 1
            self._prefix = ""
            if self._kind == Kind.HEADING:
                self._kind = Kind.TEXT
        self._texts.clear()
        self._linked = 0
        self._link_start = None

    def _mark_of_item(self) -> str:
        """What stands in front of an item of a list."""
        if not self._lists:
            return "- "
        innermost = self._lists[-1]
        innermost.items += 1
        mark = f"{innermost.items}." if innermost.tag == "ol" else "-"
        depth = min(len(self._lists) - 1, _DEEPEST_INDENTATION)
        return f"{'  ' * depth}{mark} "

    def _end_link(self) -> None:
        """Remove a link that is only a sign, such as # or ¶ beside a heading."""
        start = self._link_start
        self._link_start = None
        if start is None or not self._link_is_within:
            return
        text = "".join(self._texts[start:]).strip()
        if len(text) <= _LONGEST_PERMALINK and not any(map(str.isalnum, text)):
            del self._texts[start:]
            self._linked -= len(text)

    def _end_list(self) -> None:
        """Note an outermost list if it has nothing but links."""
        ended = self._lists.pop()
        if self._lists:
            return
        blocks = self.blocks[ended.first :]
        size = sum(len(block.text) for block in blocks)
        if sum(block.linked for block in blocks) >= LINKS_ONLY * size:
            self._link_lists.append(blocks)

    def _begin_part_of_table(self, tag: str) -> None:
        if tag == "table":
            if self._tables:
                self._tables[-1].has_tables = True
            self._tables.append(PageTable(len(self.blocks), []))
        elif tag == "tr":
            self._tables[-1].rows.append([])
        else:
            names_column = tag == "th" or self._open["thead"] > 0
            self._cells.append(Cell(len(self.blocks), 0, names_column))

    def _end_part_of_table(self, tag: str) -> None:
        if tag == "table":
            replace_by_rows(self.blocks, self._tables.pop(), self._place())
        elif tag != "tr":
            cell = self._cells.pop()
            cell.end = len(self.blocks)
            rows = self._tables[-1].rows
            if not rows:
                rows.append([])
            rows[-1].append(cell)
