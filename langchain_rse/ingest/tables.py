"""Finds tables in a text: the positions of their rows, and the header rows.

HTML tables are found by their tags, and Markdown tables by the line under the header rows. Any
other table consists of rows of cells, at most as many as in the first row, separated by tabs,
semicolons or commas, as in CSV files, or by pipes that also begin and end each row.
"""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from langchain_rse.text.headings import Range, inside_fence

# A table has at least this many rows.
_FEWEST_ROWS = 3
# More rows of names above the line under them are rows of another table.
_MOST_HEADER_ROWS = 4

# The line under the header row of a Markdown table, such as |---|:--:|; databases print ---+---.
# The pattern begins with the line end before it, which is fast to search.
_RULE = re.compile(r"\n(?=[ \t|:+-]+\r?$)(?=[^\n]*[|+])(?=[^\n]*-)[^\n]*", re.MULTILINE)
# Line ends and separators inside quotes are text.
_QUOTED = r'"[^"]*+(?:""[^"]*+)*+"'
# The rows of an HTML table, and its end.
_HTML_ROW = re.compile(r"<(?:tr\b|/table\s*>)", re.IGNORECASE)
# A comma before a space is one of prose. Alternatives that begin with one character are fast.
_MARK_OF_TABLE = re.compile(r"\t|\||;(?! )|,(?! )|<[tT][aA][bB][lL][eE]\b")
_HTML_TABLE = re.compile(r"[ \t]*<table\b", re.IGNORECASE)
_HTML_CELL = re.compile(r"<t(?P<kind>[hd])\b", re.IGNORECASE)
_HTML_HEAD_END = re.compile(r"</thead\b", re.IGNORECASE)
_WORD = re.compile(r"[^\W_]")
# Years and dates may be column names although they have no letters.
_DATE = re.compile(
    r"(?:19|20)\d\d(?:[-/\u2013](?:\d\d){1,2})?"
    r"|\d{1,4}[-/]\d{1,2}(?:[-/]\d{1,4})?"
    r"|\d{1,2}\.\d{1,2}\.\d{2,4}"
)


class Table(NamedTuple):
    """A table in a text."""

    header: str  # the header rows with the line under them; empty without header rows
    # Starts of all rows, then the end of the table; the header rows count as one.
    rows: Sequence[int]


class _Separator:
    """A character between the cells of a row.

    White space follows commas and semicolons in prose, so then cells must not begin with it. Pipes
    must also begin and end each row.
    """

    def __init__(self, mark: str) -> None:
        self.mark = mark
        self.around_cells = f'{mark}" \t\r\n'
        self._is_around_rows = mark == "|"
        is_of_prose = mark in ",;"
        escaped = re.escape(mark)
        no_space = r"\s" if is_of_prose else ""
        plain = rf'[^"\n{escaped}{no_space}][^\n{escaped}]*'
        # A row has several lines only if its quotes are in pairs: each quote then either opens or
        # closes a cell, whichever line is read first, so the lines of failed rows are read twice
        # at most.
        paired = rf'[^"\n{escaped}{no_space}](?:[^"\n{escaped}]|"[^"\n{escaped}]*")*'
        in_line = _QUOTED.replace('[^"]', r'[^"\n]')
        # Indented lines are not rows; neither are list items with commas or semicolons.
        no_item = "(?![-*+] )" if is_of_prose else ""
        self._rows = [
            re.compile(rf"(?!\s){no_item}{cell}(?:{escaped}{cell})++\r?(?:\n|\Z)")
            for cell in (f"(?>{_QUOTED}|{paired})?+", f"(?>{in_line}|{plain})?+")
        ]
        self._cell = re.compile(rf"(?:\A|{escaped})({_QUOTED}|[^\n{escaped}]*)")

    def row_end(self, text: str, start: int) -> int | None:
        """Return the end of the row that starts here; None if no row does."""
        if self._is_around_rows and not text.startswith(self.mark, start):
            return None
        match = self._rows[0].match(text, start) or self._rows[1].match(text, start)
        if match is None:
            return None
        if self._is_around_rows and not match[0].rstrip().endswith(self.mark):
            return None
        return match.end()

    def cells(self, row: str) -> list[str]:
        """Return the cells of a row, without quotes and outer white space."""
        return [cell.strip('" \t\r\n') for cell in self._cell.findall(row)]


_SEPARATORS = [_Separator(mark) for mark in "\t|;,"]


def find_tables(text: str, fences: Sequence[Range] = ()) -> list[Table]:
    """Return the tables of a text in order, without those in fenced code blocks."""
    tables: list[Table] = []
    rules = _rules(text)
    position = 0
    while (mark := _MARK_OF_TABLE.search(text, position)) is not None:
        fence = inside_fence(fences, mark.start())
        if fence is not None:
            position = fence.end
            continue
        start = max(text.rfind("\n", position, mark.start()) + 1, position)
        position = _line_end(text, mark.start())
        table = _table_at(text, start, text[start:position], rules)
        if table is not None:
            tables.append(table)
            position = table.rows[-1]
    return tables


def _line_end(text: str, start: int) -> int:
    """Return the start of the next line, or the end of the text."""
    line_break = text.find("\n", start)
    return len(text) if line_break < 0 else line_break + 1


def _table_at(text: str, start: int, line: str, rules: Mapping[int, int]) -> Table | None:
    """Return the table whose first row starts with this line; None if no table does."""
    if start in rules:
        return _ruled_table(text, start, rules[start])
    html = _HTML_TABLE.match(line) if "<" in line else None
    if html is not None:
        return _html_table(text, start, start + html.end())
    has_open_quote = line.count('"') % 2 == 1  # the row may end on another line
    for separator in _SEPARATORS:
        # A mark between the first cell that is filled and the last one.
        if separator.mark in (line if has_open_quote else line.strip(separator.around_cells)):
            table = _separated_table(text, start, separator)
            if table is not None:
                return table
    return None


def _rules(text: str) -> dict[int, int]:
    """Map the starts of tables to the ends of the lines under their header rows."""
    rules: dict[int, int] = {}
    for rule in _RULE.finditer(text):
        start = end = rule.start() + 1
        pipes = 0  # in each header row
        for _ in range(_MOST_HEADER_ROWS):
            line_start = text.rfind("\n", 0, max(end - 1, 0)) + 1
            count = text.count("|", line_start, end)
            if count == 0 or (pipes and count != pipes):
                break
            pipes = count
            start = end = line_start
        if pipes:
            rules[start] = min(rule.end() + 1, len(text))
    return rules


def _ruled_table(text: str, start: int, rule_end: int) -> Table:
    """Return the table with a line under its header rows; it ends before a line without a pipe."""
    header = text[start:rule_end].rstrip()
    rows = [start, rule_end]
    while True:
        line_end = _line_end(text, rows[-1])
        if "|" not in text[rows[-1] : line_end]:
            return Table(header if _WORD.search(header) else "", rows)
        rows.append(line_end)


def _html_table(text: str, start: int, tag_end: int) -> Table:
    """Return the HTML table up to its end tag."""
    row_starts: list[int] = []
    table_end = len(text)
    for match in _HTML_ROW.finditer(text, tag_end):
        if match[0][1] == "/":
            table_end = match.end()
            break
        row_starts.append(match.start())
    rows = [start, *row_starts[1:], table_end]  # the first row includes the table's tag
    head = _HTML_HEAD_END.search(text, start, table_end)
    head_end = start if head is None else head.start()
    names = 0  # header rows: those in <thead>, and those of <th> only at the beginning
    while names < len(rows) - 1:
        cells = _HTML_CELL.finditer(text, rows[names], rows[names + 1])
        kinds = {cell["kind"].lower() for cell in cells}
        if rows[names] >= head_end and kinds != {"h"}:
            break
        names += 1
    if 0 < names < len(rows) - 1:
        return Table(text[start : rows[names]].strip(), [start, *rows[names:]])
    return Table("", rows)


def _separated_table(text: str, start: int, separator: _Separator) -> Table | None:
    """Return the table of rows with at most as many cells as the first; None for too few rows."""
    ends: list[int] = []  # ends of the rows
    first_rows: list[list[str]] = []  # cells of the first two rows
    row_start = start
    row_end = separator.row_end(text, row_start)
    while row_end is not None:
        cells = separator.cells(text[row_start:row_end])
        if not ends and len(cells) - cells.count("") <= 1:
            return None  # such as a list item that ends with a semicolon
        # A row may leave out cells at its end.
        if first_rows and not min(3, len(first_rows[0])) <= len(cells) <= len(first_rows[0]):
            break
        if len(first_rows) <= 1:
            first_rows.append(cells)
        ends.append(row_end)
        row_start = row_end
        row_end = separator.row_end(text, row_start)
    if len(ends) < _FEWEST_ROWS:
        return None
    header = text[start : ends[0]].rstrip() if _name_columns(*first_rows) else ""
    return Table(header, [start, *ends])


def _name_columns(first_row: Sequence[str], second_row: Sequence[str]) -> bool:
    """True if the cells of the first row can be column names: distinct, and not amounts.

    Years and dates can be column names unless the cells below them are years or dates, too.
    """
    names = [cell for cell in first_row if cell]
    if len(set(names)) < len(names):
        return False
    for name in names:
        has_digit = any(map(str.isdigit, name))
        if has_digit and not any(map(str.isalpha, name)) and not _DATE.fullmatch(name):
            return False
    columns = zip(first_row, second_row, strict=False)
    below_dates = [below for name, below in columns if _DATE.fullmatch(name)]
    return not below_dates or not all(map(_DATE.fullmatch, below_dates))
