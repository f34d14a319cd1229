"""Reads the text of HTML as Markdown, without the parts that every page of a site repeats.

The tree is walked without recursion, so tags may be nested to any depth.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

from langchain_rse.cli.page_blocks import (
    LINKS_ONLY,
    MOSTLY_LINKS,
    Block,
    Kind,
    Place,
    as_markdown,
    content_of,
    mark_navigation,
    with_title,
)

_HEADINGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
_LISTS = frozenset({"ul", "ol", "dl", "menu"})
_CODE = frozenset({"pre", "textarea", "listing", "xmp", "plaintext"})
# Tags that begin a line: the first set after an empty line.
_PARAGRAPHS = frozenset({"p", "blockquote", "dt", "figure", "hr", "table"})
_PARAGRAPHS |= _LISTS | _HEADINGS | _CODE
_LINES = frozenset({"address", "article", "aside", "body", "br", "caption", "center", "dd"})
_LINES |= {"details", "div", "fieldset", "figcaption", "footer", "form", "header", "legend", "li"}
_LINES |= {"main", "nav", "section", "summary", "td", "th", "tr"}
# Tags without visible text. Ruby tags (rp, rt) give the pronunciation of the text before them.
# Elements that a click reveals, such as tabs and folded answers, are read.
_HIDDEN = frozenset({"rp", "rt", "script", "style", "template", "select", "datalist", "dialog"})
_HIDDEN_ROLES = frozenset({"dialog", "alertdialog"})
# Roles of boilerplate, and the classes or ids that older generators use instead of roles.
_BOILERPLATE_ROLES = frozenset({"navigation", "search", "banner", "contentinfo", "menu", "menubar"})
_BOILERPLATE_NAMES = frozenset({"nav", "navbar", "navigation", "navheader", "navfooter"})
_BOILERPLATE_NAMES |= {"nav-panel", "breadcrumb", "breadcrumbs", "sphinxsidebar"}
_NEVER_BOILERPLATE = frozenset({"html", "body", "main", "article"})
# The kinds of elements, by tag.
_KINDS: dict[str, frozenset[str]] = {
    "a": frozenset({"link"}),
    "article": frozenset({"article", "section"}),
    "aside": frozenset({"edge"}),
    "footer": frozenset({"edge"}),
    "header": frozenset({"edge"}),
    "li": frozenset({"item"}),
    "main": frozenset({"main", "section"}),
    "nav": frozenset({"boilerplate"}),
    "section": frozenset({"section"}),
    **dict.fromkeys(_CODE, frozenset({"code"})),
    **dict.fromkeys(_HEADINGS, frozenset({"heading"})),
    **dict.fromkeys(_LISTS, frozenset({"list"})),
}
_HIDDEN_KIND = frozenset({"hidden"})
_NOTHING: frozenset[str] = frozenset()
# Kinds that determine the place of the text in them.
_PLACES = frozenset({"boilerplate", "main", "article", "edge"})
# Kinds whose text begins with a Markdown marker.
_MARKED = frozenset({"heading", "item"})
# A table that contains one of these tags, or a longer cell, is used for page layout.
_NOT_IN_TABLES = ("table", "nav", *_HEADINGS, *_CODE)
_LONGEST_CELL = 1000
# Items of nested lists are indented by two spaces per level, up to this level.
_DEEPEST_INDENTATION = 4
# Characters of the symbol after a heading that links to it.
_LONGEST_PERMALINK = 2
_SPACE = re.compile(r"[ \t\r\n\f]+")
# Browsers show text after these tags; the parser would drop it.
_ENDS_OF_PAGE = re.compile(r"</(?:body|html)\s*>", re.IGNORECASE)


class WebPage(NamedTuple):
    """The text and title of an HTML file."""

    text: str  # Markdown
    title: str  # empty without a <title>


def read_html(source: str) -> WebPage:
    """Read the content of HTML, well-formed or not.

    Navigation and other boilerplate is skipped, unless the page has no other text.
    """
    from lxml import etree

    # huge_tree lifts the limits on nesting and text length.
    parser: Any = etree.HTMLParser(
        encoding="utf-8", huge_tree=True, remove_comments=True, remove_pis=True
    )
    text = _ENDS_OF_PAGE.sub(" ", source).replace("\0", " ")
    parser.feed(text.encode("utf-8", "replace") or b" ")
    root = parser.close()
    if root is None:
        return WebPage("", "")
    titles = (each for each in root.iter("title") if each.getparent().tag != "svg")
    title_element = next(titles, None)
    title = ""
    if title_element is not None:
        title = " ".join("".join(title_element.itertext()).split())
    anchors = {""}.union(root.xpath("//@id | //@name"))
    reader = _Reader(title_element, anchors)
    reader.read(root)
    mark_navigation(reader.blocks)
    return WebPage(as_markdown(with_title(title, content_of(reader.blocks))), title)


class _List:
    """A list whose items are being read."""

    def __init__(self, tag: str, first: int) -> None:
        self.tag = tag
        self.first = first  # index of its first block
        self.items = 0  # read so far


class _Reader:
    """Collects the text of elements in blocks."""

    def __init__(self, title: Any = None, anchors: Collection[str] = ()) -> None:  # noqa: ANN401
        self.blocks: list[Block] = []
        self._title = title  # the element
        self._anchors = set(anchors)  # targets of links within the page
        self._open: Counter[str] = Counter()  # kinds of the open elements
        self._texts: list[str] = []  # of the current block
        self._prefix = ""
        self._kind = Kind.TEXT
        self._gap = 0
        self._linked = 0
        self._lists: list[_List] = []

    def read(self, root: Any) -> None:  # noqa: ANN401 - an element
        """Read an element and its content."""
        from lxml import etree

        open_elements: list[frozenset[str]] = []  # their kinds
        walk = etree.iterwalk(root, events=("start", "end"))
        for event, element in walk:
            if event == "start":
                self._break(element.tag)
                kinds = self._kinds_of(element)
                open_elements.append(kinds)
                if "hidden" in kinds or (element.tag == "table" and self._add_table(element)):
                    walk.skip_subtree()
                else:
                    self._begin(element.tag, kinds)
                    self._add(element.text)
            else:
                self._end(element, open_elements.pop())
                if element is not root:
                    self._add(element.tail)
        self._end_block()

    def _add(self, text: str | None) -> None:
        if text:
            self._texts.append(text)
            if self._open["link"]:
                self._linked += len(text.strip())

    def _begin(self, tag: str, kinds: frozenset[str]) -> None:
        if kinds & _PLACES:
            self._end_block()
        self._open.update(kinds)
        if "heading" in kinds:
            self._prefix = f"{'#' * int(tag[1])} "
            self._kind = Kind.HEADING
        elif "list" in kinds:
            self._lists.append(_List(tag, len(self.blocks)))
        elif "item" in kinds:
            self._prefix = self._item_marker()

    def _end(self, element: Any, kinds: frozenset[str]) -> None:  # noqa: ANN401
        if kinds & _PLACES or "code" in kinds:
            self._end_block()
        self._break(element.tag)
        if "hidden" in kinds:
            return
        self._open.subtract(kinds)
        if kinds & _MARKED:
            self._prefix = ""
            self._kind = Kind.TEXT
        elif "list" in kinds:
            self._end_list(element)

    def _kinds_of(self, element: Any) -> frozenset[str]:  # noqa: ANN401
        """Return the kinds of an element, which apply to the text in it."""
        tag = element.tag
        role = element.get("role", "")
        is_button = tag == "button" and role != "tab" and not self._open["heading"]
        if tag in _HIDDEN or role in _HIDDEN_ROLES or is_button or element is self._title:
            return _HIDDEN_KIND
        if self._open["code"]:
            return _NOTHING
        if tag == "a" and _is_permalink(element):
            return _HIDDEN_KIND
        names = {element.get("id", "").lower(), *element.get("class", "").lower().split()}
        is_boilerplate = role in _BOILERPLATE_ROLES
        if tag not in _NEVER_BOILERPLATE and not names.isdisjoint(_BOILERPLATE_NAMES):
            is_boilerplate = True
        if (tag == "footer" or "footer" in names) and not self._open["section"]:
            is_boilerplate = True
        kinds = _KINDS.get(tag, _NOTHING)
        if role == "main":
            return kinds | {"main", "section"}
        return kinds | {"boilerplate"} if is_boilerplate else kinds

    def _place(self) -> Place:
        """Return the place of the text that is read now."""
        if self._open["boilerplate"]:
            return Place.BOILERPLATE
        if self._open["main"]:
            return Place.MAIN
        return Place.ARTICLE if self._open["article"] else Place.BODY

    def _break(self, tag: str) -> None:
        """End a line at the start or end of a tag, unless the tag is inline."""
        if tag in _PARAGRAPHS:
            gap = 2
        elif tag in _LINES:
            gap = 1
        else:
            return
        if self._open["code"]:
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
        """Add the text read since the last block, if any."""
        text = "".join(self._texts)
        kind = self._kind
        prefix = self._prefix
        if self._open["code"]:
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

    def _item_marker(self) -> str:
        """Return the marker of a list item, with its indentation."""
        if not self._lists:
            return "- "
        innermost = self._lists[-1]
        innermost.items += 1
        mark = f"{innermost.items}." if innermost.tag == "ol" else "-"
        depth = min(len(self._lists) - 1, _DEEPEST_INDENTATION)
        return f"{'  ' * depth}{mark} "

    def _end_list(self, element: Any) -> None:  # noqa: ANN401
        """Mark an outermost list as boilerplate if it only has links within the page."""
        ended = self._lists.pop()
        if self._lists:
            return
        blocks = self.blocks[ended.first :]
        size = sum(len(block.text) for block in blocks)
        if sum(block.linked for block in blocks) < LINKS_ONLY * size:
            return
        targets = {link.get("href", "").rpartition("#")[2] for link in element.iter("a")}
        if targets <= self._anchors:
            for block in blocks:
                block.kind = Kind.CONTENTS
                block.place = Place.BOILERPLATE

    def _add_table(self, table: Any) -> bool:  # noqa: ANN401
        """Add a table as rows, one line each, after its caption; False for a layout table.

        A layout table has fewer than two rows with at least two filled cells.
        """
        if self._open["code"] or _is_layout_table(table):
            return False
        lines = []
        linked = full_rows = 0
        for row in table.iter("tr"):
            cells = list(row.iter("td", "th"))
            texts = []
            for cell in cells:
                reader = _Reader()
                reader.read(cell)
                texts.append(" ".join(block.text for block in reader.blocks))
                if any(block.place is Place.BOILERPLATE for block in reader.blocks):
                    return False
                linked += sum(block.linked for block in reader.blocks)
            if any(len(text) > _LONGEST_CELL for text in texts):
                return False
            full_rows += sum(map(bool, texts)) > 1
            if not cells:
                continue
            lines.append(f"| {' | '.join(texts)} |")
            in_head = row.getparent().tag == "thead" or all(cell.tag == "th" for cell in cells)
            if len(lines) == 1 and in_head:
                lines.append(f"|{'---|' * len(cells)}")
        if full_rows <= 1:
            return False
        for caption in table.iter("caption"):
            self.read(caption)
        self.blocks.append(Block("\n".join(lines), self._place(), Kind.TEXT, "", 2, linked))
        self._gap = 2
        return True


def _is_layout_table(table: Any) -> bool:  # noqa: ANN401 - an element
    """Tell whether a table has content that data tables lack, such as text between the cells."""
    inner = table.iterdescendants(*_NOT_IN_TABLES)
    if next(inner, None) is not None:
        return True
    return any(text.strip() for text in _texts_outside_cells(table))


def _texts_outside_cells(table: Any) -> Iterator[str]:  # noqa: ANN401 - an element
    for part in table.iter("table", "thead", "tbody", "tfoot", "tr"):
        yield part.text or ""
        for child in part:
            yield child.tail or ""


def _is_permalink(link: Any) -> bool:  # noqa: ANN401 - an element
    """Tell whether a link is only a symbol, such as # or ¶ after a heading."""
    if not link.get("href", "").startswith("#"):
        return False
    text = "".join(link.itertext()).strip()
    return len(text) <= _LONGEST_PERMALINK and not any(map(str.isalnum, text))
