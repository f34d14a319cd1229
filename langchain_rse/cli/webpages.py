"""Reads the text of HTML as Markdown, without the parts that every page of a site repeats.

The default splitter cuts before Markdown headings, keeps fenced code whole, and repeats the header
rows of tables.
"""

import warnings
from itertools import takewhile
from typing import Any

from bs4 import BeautifulSoup, Tag
from markdownify import ATX, MarkdownConverter

_HEADINGS = "h1, h2, h3, h4, h5, h6"
# Elements without visible text. What a click reveals, such as tabs and folded answers, is read.
# Ruby tags (rp, rt) give the pronunciation of the text before them.
_TITLE = "title:not(svg title)"
_INVISIBLE = f"""
    {_TITLE}, script, style, template, select, datalist, dialog, rp, rt,
    [role=dialog], [role=alertdialog],
    button:not([role=tab], :is(h1, h2, h3, h4, h5, h6) button)
"""
# The parts that every page of a site repeats, also of older generators.
_BOILERPLATE = """
    nav, [role=navigation], [role=search], [role=banner], [role=contentinfo], [role=menu],
    [role=menubar], :not(html, body, main, article):is(
        .nav, .navbar, .navigation, .navheader, .navfooter, .nav-panel, .breadcrumb, .breadcrumbs,
        .sphinxsidebar, .toctree-wrapper.compact, div.contents.topic,
        #nav, #navbar, #navigation, #breadcrumb, #breadcrumbs, #toc,
        #table_of_contents
    ),
    :is(p, div):has(> :is([rel=next], [rel=prev], [rel=index])),
    :is(footer, .footer):not(:is(main, [role=main], article, section) *),
    header:not(:is(main, [role=main], article, section) *, :has(h1))
"""
# <main> or the articles are the content if they have at least this share of the text.
_MAIN_PARTS = (
    ":is(main, [role=main]):not(:is(main, [role=main], article) *)",
    "article:not(:is(main, [role=main], article) *)",
)
_LEAST_MAIN_SHARE = 0.2
# A table that contains one of these, or a longer cell, is used for page layout.
_NOT_IN_TABLES = f"table, pre, :is(td, th) :is(td, th), {_HEADINGS}"
_TABLE_PARTS = "thead, tbody, tfoot, tr, td, th"
_CELLS = "td, th"
_LONGEST_CELL = 1_000
_MOST_COLUMNS = 50  # of one cell
_LAST_HEADER = "last-header"
_NUMBER = "number-in-list"
# Tags that begin a line and are written as <div>.
_BLOCKS = """
    address, aside, blockquote, center, details, dl, fieldset, figcaption, figure, footer, form,
    header, legend, main, nav, summary, textarea
"""
_CONVERTED = f"""
    article, br, caption, dd, div, dt, hr, li, ol, p, pre, q, section, table, td, th, tr, ul,
    {_HEADINGS}
"""
# Of elements within more others than this, only the text is read: the cost of an element grows with
# its depth.
_DEEPEST_ELEMENT = 60
_LINES = f"{_BLOCKS}, {_CONVERTED}".replace(",", " ").split()
# Items of nested lists are indented by two spaces per level, up to this level.
_DEEPEST_INDENTATION = 4


def read_html(source: str) -> tuple[str, str]:
    """Read the content of HTML, well-formed or not, as Markdown, and its title, which may be "".

    Navigation and other boilerplate is skipped, unless the page has no other text.
    """
    soup = _parse(source)
    title_element = soup.select_one(_TITLE)
    title = "" if title_element is None else " ".join(title_element.get_text().split())
    _remove(soup, _INVISIBLE)
    _remove(soup, _BOILERPLATE)
    parts = _main_parts(soup)
    if not any(map(_has_text, parts)):
        whole = _parse(source)
        _remove(whole, _INVISIBLE)
        parts = [whole]
    return "\n\n".join(map(_as_markdown, parts)), title


class _Page(BeautifulSoup):
    """HTML as a tree of limited depth."""

    _depth = 0

    def handle_starttag(self, name: str, *args: Any, **kwargs: Any) -> Tag | None:  # noqa: ANN401
        self._depth += 1
        if self._is_read(name):
            return super().handle_starttag(name, *args, **kwargs)
        self.endData()
        siblings = self.currentTag.contents if self.currentTag else []
        is_behind_text = bool(siblings) and not isinstance(siblings[-1], Tag)
        if is_behind_text and name in _LINES:
            super().handle_starttag("div", None, None, {})
            super().handle_endtag("div")
        return None

    def handle_endtag(self, name: str, nsprefix: str | None = None) -> None:
        if self._is_read(name):
            super().handle_endtag(name, nsprefix)
        self._depth -= 1

    def _is_read(self, name: str) -> bool:
        return self._depth <= _DEEPEST_ELEMENT or name in ("script", "style")


def _parse(source: str) -> BeautifulSoup:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # XHTML is read as HTML
        return _Page(source.replace("\0", " "), "lxml")


def _remove(soup: BeautifulSoup, selectors: str) -> None:
    for element in soup.select(selectors):
        element.decompose()


def _main_parts(soup: BeautifulSoup) -> list[Tag]:
    """Return the elements with the content of a page."""
    page_length = _length(soup)
    for selector in _MAIN_PARTS:
        parts = list(soup.select(selector))
        length = sum(_length(part) for part in parts)
        if any(map(_has_text, parts)) and length >= _LEAST_MAIN_SHARE * page_length:
            return parts
    return [soup]


def _length(element: Tag) -> int:
    return len(element.get_text(strip=True))


def _has_text(element: Tag) -> bool:
    """Tell whether an element has text outside headings."""
    headings = element.select(_HEADINGS)
    return _length(element) > sum(_length(heading) for heading in headings)


def _as_markdown(element: Tag) -> str:
    for link in element.select('a[href^="#"]'):
        if not any(map(str.isalnum, link.get_text())):  # a link to a heading, such as # or ¶
            link.decompose()
    for block in element.select(_BLOCKS):
        block.name = "div"
    for numbered in element.find_all("ol"):
        for number, item in enumerate(numbered.find_all("li", recursive=False), 1):
            item[_NUMBER] = str(number)
    for table in element.find_all("table"):
        parts = [part for part in table.select(_TABLE_PARTS) if part.find_parent("table") is table]
        rows = [part for part in parts if part.name == "tr" and part.select_one(_CELLS)]
        if table.select_one(_NOT_IN_TABLES) or _is_layout(rows):
            for part in (table, *parts):
                part.name = "div"
        headers = [*takewhile(lambda row: not row.find("td") or row.find_parent("thead"), rows)]
        if headers:
            headers[-1]["class"] = _LAST_HEADER
    # Without a width, wrapping turns white space into single spaces.
    converter = _Converter(
        convert=_CONVERTED.replace(",", " ").split(),
        heading_style=ATX,
        wrap=True,
        wrap_width=None,
        escape_asterisks=False,
        escape_underscores=False,
    )
    return converter.convert_soup(element).strip()


def _is_layout(rows: list[Tag]) -> bool:
    """Tell whether a table has longer cells than data tables, or less than two rows of cells."""
    full_rows = 0
    for row in rows:
        lengths = [_length(cell) for cell in row.select(_CELLS)]
        if max(lengths) > _LONGEST_CELL:
            return True
        full_rows += sum(length > 0 for length in lengths) > 1
    return full_rows < 2  # noqa: PLR2004


class _Converter(MarkdownConverter):
    """Writes headings, lists, code and tables as the default splitter finds them.

    Code and headings are not indented, and links and emphasis are their text.
    """

    def convert_div(self, _: Tag, text: str, parent_tags: set[str]) -> str:
        if "pre" in parent_tags:
            return text if text.endswith("\n") else f"{text}\n"
        if "_inline" in parent_tags:
            return f" {text.strip()} "
        return f"\n\n{text.strip()}\n\n" if text.strip() else "\n"

    def convert_dd(self, _: Tag, text: str, parent_tags: set[str]) -> str:  # noqa: ARG002
        return f"\n{text.strip()}\n"

    def convert_li(self, item: Tag, text: str, parent_tags: set[str]) -> str:  # noqa: ARG002
        depth = sum(parent.name == "li" for parent in item.parents)
        depth = min(depth, _DEEPEST_INDENTATION)
        mark = f"{item[_NUMBER]}." if _NUMBER in item.attrs else "-"
        return f"{'  ' * depth}{mark} {text.strip()}\n"

    def convert_td(self, cell: Tag, text: str, parent_tags: set[str]) -> str:  # noqa: ARG002
        return f" {' '.join(text.split())} |" + " |" * (_columns_of(cell) - 1)

    convert_th = convert_td

    def convert_tr(self, row: Tag, text: str, parent_tags: set[str]) -> str:  # noqa: ARG002
        if not text.strip():
            return ""
        rule = ""
        if _LAST_HEADER in row.get_attribute_list("class"):
            columns = sum(map(_columns_of, row.select(_CELLS)))
            rule = f"|{'---|' * columns}\n"
        return f"|{text}\n{rule}"


def _columns_of(cell: Tag) -> int:
    span = str(cell.get("colspan", ""))
    return min(int(span[:3]), _MOST_COLUMNS) if span.isdecimal() else 1
