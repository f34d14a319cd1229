"""SideBySide: compares the passages of an answer with the result of another retriever."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from langchain_rse.text.names import short_names
from langchain_rse.text.quoting import as_html as text_as_html
from langchain_rse.text.quoting import counted, format_range, visible

TOP_K = "top-k chunks"
"""The name of the other side if it is the best chunks of the same search."""

_EXCERPT = 60
_CUT = " (cut to equal length)"
_SHORTEST_COPY = 64  # characters without white space
# The beginning of a block of code or of a table, or indented code.
_CODE = re.compile(r"^(?: {0,3}(?:```|~~~)|\|.*\n\||(?:(?: {4}|\t).*\n){3})", re.MULTILINE)

# Passage and chunk have Okabe and Ito's colors, which color-blind people can tell apart.
# Some pages choose a theme themselves: Material for MkDocs, JupyterLab, Colab, VS Code.
_STYLE = """
.rse-compare { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; color: CanvasText;
  background: Canvas; padding: .1rem .5rem .5rem; overflow-wrap: anywhere; max-width: 72rem;
  margin: 0 auto; }
:is([data-md-color-scheme=default], [data-jp-theme-light=true], .vscode-light) .rse-compare {
  color-scheme: light; }
:is([data-md-color-scheme=slate], [data-jp-theme-light=false], [theme=dark], .vscode-dark)
  .rse-compare { color-scheme: dark; }
.rse-compare h2 { font-size: 1.15rem; margin: .2rem 0; }
.rse-compare p { margin: .4rem 0; }
.rse-compare .sides { display: grid; gap: 1.5rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 20rem), 1fr)); }
.rse-compare h3 { font-size: 1rem; margin: .8rem 0 .2rem; }
.rse-compare .place { opacity: .75; font-size: .85em; margin: .8rem 0 .1rem; }
.rse-compare .text { white-space: pre-wrap; print-color-adjust: exact; padding: .4rem .6rem;
  border-left: 3px solid light-dark(#0072b2, #56b4e9);
  background: color-mix(in srgb, CanvasText 5%, Canvas); }
.rse-compare .code { font: .85em/1.5 ui-monospace, monospace; }
.rse-compare .other .text { border-color: light-dark(#d55e00, #e8853a); }
.rse-compare mark { background: light-dark(#cfe8f7, #124a6b); color: inherit;
  print-color-adjust: exact; }
.rse-compare .other mark { background: light-dark(#fbdcc8, #6b3312); }
.rse-compare.in-both mark { background: light-dark(#ffe58a, #5e4d0b) !important; }
@media print {
  .rse-compare .place { break-after: avoid; }
}
"""


class Piece(NamedTuple):
    """A text that a retriever returned."""

    name: str  # of the document, for people
    doc_id: str | None
    start: int | None  # the first character in the document; None if unknown
    text: str
    is_cut: bool = False  # True for the last piece of the other side if it is not whole
    header: str = ""  # above the text, with its line end; not counted and not compared

    def place_in(self, name: str) -> str:
        """The characters of a document with this name, and whether they are cut."""
        cut = _CUT if self.is_cut else ""
        if self.start is None:
            return f"{name}{cut}"
        end = self.start + len(self.text)
        return f"{name}, characters {format_range(self.start, end)}{cut}"


class Side(NamedTuple):
    """One side of a comparison."""

    name: str
    noun: str  # in front of the number of a piece
    pieces: Sequence[Piece]
    only_here: Sequence[Sequence[bool]]  # as `only_in` returns it

    def __repr__(self) -> str:
        return f"<Side of {visible(self.summary)}>"

    @property
    def summary(self) -> str:
        """The number of texts, and their length."""
        length = sum(len(piece.text) for piece in self.pieces)
        return f"{self.name}: {counted(len(self.pieces), 'text')}, {length:,} characters"


@dataclass(frozen=True, repr=False)
class SideBySide:
    """Passages next to the result of another retriever, in the same amount of text.

    `RSERetriever.compare` makes it. Printed, it shows the passages, with ``+ |`` before each line
    that has text only they have, and the other texts, with ``- |`` likewise. In a notebook, the two
    sides are columns; text that only one side has is highlighted, or text in both if that is less.

    Attributes:
        query: The question.
        passages: The passages, in the order of the answer.
        other: The result of the other retriever, best first, cut to the length of the passages; a
            rest of under 40 characters is dropped.
        other_name: The name of the other retriever.
        reason: Why there are no passages; None if there are some.
    """

    query: str
    passages: Sequence[Piece]
    other: Sequence[Piece]
    other_name: str
    reason: str | None = None

    @cached_property
    def sides(self) -> tuple[Side, Side]:
        """The side of the passages and that of the other retriever."""
        return (
            Side("passages", "Passage", self.passages, only_in(self.passages, self.other)),
            Side(self.other_name, "Rank", self.other, only_in(self.other, self.passages)),
        )

    @property
    def summary(self) -> str:
        """The lengths of both sides and of the text that both have, without a full stop."""
        passages, other = self.sides
        if not self.passages:
            return f"No passages: {self.reason}; {other.summary} shown"
        in_both = f"{self._in_both:,} characters are in both"
        return f"{passages.summary.capitalize()}; {other.summary}; {in_both}"

    @cached_property
    def _in_both(self) -> int:
        """The number of characters that both sides have."""
        passages, _ = self.sides
        return sum(marks.count(False) for marks in passages.only_here)

    @property
    def _marks_shared(self) -> bool:
        """True if the page marks text in both, because most text is in one."""
        return 2 * self._in_both <= sum(len(piece.text) for piece in self.passages)

    def _lines(self) -> Iterator[str]:
        """Yield the comparison as lines for a terminal."""
        yield f"Query: {self.query}"
        yield f"{self.summary}."
        if self.passages:
            yield f"+ | marks text only in the passages, - | text only in {self.other_name}."
        for side, mark in zip(self.sides, "+-", strict=True):
            if not side.pieces:
                continue
            yield ""
            yield f"== {side.name} =="
            for piece, marks, place in self._places(side):
                yield ""
                yield place
                for line in piece.header.splitlines():
                    yield f"    {line}"
                for line, has_only in _lines_of(piece.text, marks):
                    yield f"{mark} | {line}" if has_only else f"    {line}"

    @cached_property
    def short_names(self) -> dict[str, str]:
        """The printed names of documents, by their names; see `TraceByDocument.short_names`."""
        return short_names({piece.name: piece.name for piece in [*self.passages, *self.other]})

    def _places(self, side: Side) -> Iterator[tuple[Piece, Sequence[bool], str]]:
        """Yield the pieces of a side without empty outer lines, with their marks and places."""
        marked = zip(side.pieces, side.only_here, strict=True)
        for number, (piece, marks) in enumerate(marked, start=1):
            place = f"{side.noun} {number}: {piece.place_in(self.short_names[piece.name])}"
            text = piece.text.rstrip()
            start = text.rfind("\n", 0, len(text) - len(text.lstrip())) + 1
            yield piece._replace(text=text[start:]), marks[start:], place

    def __repr__(self) -> str:
        return f"<SideBySide of {visible(self.query)[:_EXCERPT]!r}: {visible(self.summary)}>"

    def __str__(self) -> str:
        return "\n".join(visible(line).rstrip() for line in self._lines())

    def _repr_html_(self) -> str:
        """Both sides as columns, one below the other where there is no room."""
        passages, other = self.sides
        # The headings have the lengths.
        note = f"{self._in_both:,} characters are in both" if self.passages else self.summary
        note = text_as_html(note)
        legend = f"<mark>{note}.</mark>" if self._in_both else f"{note}."
        css_class = "rse-compare in-both"
        if not self._marks_shared:
            css_class = "rse-compare"
            legend = (
                f"{note}. <mark>Text only in the passages</mark>, "
                f'<span class="other"><mark>only in {text_as_html(other.name)}</mark></span>'
            )
        return (
            f'<style>{_STYLE}</style><div class="{css_class}">'
            f'<h2 dir="auto">{text_as_html(self.query)}</h2><p>{legend}</p>'
            f'<div class="sides">{self._section("passages", passages)}'
            f"{self._section('other', other)}</div></div>"
        )

    def _section(self, css_class: str, side: Side) -> str:
        """The column of a side."""
        heading = side.summary[:1].upper() + side.summary[1:]
        rows = [f'<section class="{css_class}"><h3>{text_as_html(heading)}</h3>']
        for piece, marks, place in self._places(side):
            # Pointing at the place shows the whole name of the document.
            title = "" if piece.name in place else f' title="{text_as_html(piece.name)}"'
            rows.append(f'<div class="place"{title}>{text_as_html(place)}</div>')
            header = text_as_html(piece.header, "\t\n")
            text = _marked(piece.text, marks, marks_shared=self._marks_shared)
            css_class = "text code" if _CODE.search(piece.text) else "text"
            rows.append(f'<div class="{css_class}" dir="auto">{header}{text}</div>')
        return "".join([*rows, "</section>"])

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return an HTML page, and write it to ``path`` if given.

        The page has no scripts and loads no other files.
        """
        page = (
            '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            '<meta name="color-scheme" content="light dark">'
            f"<title>{text_as_html(self.query)}</title></head>"
            f"<body>{self._repr_html_()}</body></html>\n"
        )
        if path is not None:
            Path(path).write_text(page, encoding="utf-8")
        return page


def only_in(pieces: Sequence[Piece], others: Sequence[Piece]) -> list[list[bool]]:
    """For each character of each piece, True if the other pieces do not have it.

    Text is the same if it has the same place, or if another piece has a longer copy of it, for
    example in another document. White space does not count.
    """
    windows = set()  # of the other pieces
    for other in others:
        compared = "".join(other.text.split())
        for start in range(len(compared) - _SHORTEST_COPY + 1):
            windows.add(compared[start : start + _SHORTEST_COPY])
    marks = []
    for piece in pieces:
        is_only_here = [True] * len(piece.text)
        compared = "".join(piece.text.split())
        # The positions of the compared characters in the text, then its end.
        positions = [position for position, sign in enumerate(piece.text) if not sign.isspace()]
        positions.append(len(piece.text))
        for start in range(len(compared) - _SHORTEST_COPY + 1):
            end = start + _SHORTEST_COPY
            if compared[start:end] in windows:
                copied = slice(positions[start], positions[end])
                is_only_here[copied] = [False] * len(is_only_here[copied])
        for other in others:
            is_same_document = piece.doc_id is not None and piece.doc_id == other.doc_id
            if is_same_document and piece.start is not None and other.start is not None:
                start = other.start - piece.start
                for position in range(max(start, 0), min(start + len(other.text), len(piece.text))):
                    is_only_here[position] = False
        marks.append(is_only_here)
    return marks


def _lines_of(text: str, is_only_here: Sequence[bool]) -> Iterator[tuple[str, bool]]:
    """The lines of a text, each with True if the other pieces do not have some of its words."""
    start = 0
    for line in text.split("\n"):
        end = start + len(line)
        only_here = itertools.compress(line, is_only_here[start:end])
        yield line.expandtabs(), bool("".join(only_here).strip())
        start = end + 1


def _marked(text: str, marks: Sequence[bool], *, marks_shared: bool) -> str:
    """A text as HTML; what the other pieces do not have is marked, or what they have."""
    marked = ""
    for is_only_here, group in itertools.groupby(zip(text, marks, strict=False), itemgetter(1)):
        part = "".join(character for character, _ in group)
        shown = text_as_html(part, "\t\n")
        marked += (
            f"<mark>{shown}</mark>" if is_only_here != marks_shared and part.strip() else shown
        )
    return marked
