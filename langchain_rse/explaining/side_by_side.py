"""SideBySide: compares the passages of an answer with the result of another retriever."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template
from types import MappingProxyType
from typing import Literal, NamedTuple

from langchain_rse.explaining.blocks import DROPPED, blocks_of, unwrap
from langchain_rse.explaining.colors import DARK, LIGHT
from langchain_rse.text.bars import bar_as_html, strip_of
from langchain_rse.text.quoting import as_html as text_as_html
from langchain_rse.text.quoting import counted, one_line, shortened, visible
from langchain_rse.text.ranges import format_range
from langchain_rse.text.titles import short_names

TOP_K = "top-k chunks"
"""The name of the other side if it is the best chunks of the same search."""

_PASSAGES = "passages"
_WIDTH = 80  # characters of a line with a strip
_MOST_STRIPS = 6
_MOST_LISTED = 8  # pieces that only the other retriever returned
_EXCERPT = 60
_SHORTEST_NAME, _LONGEST_NAME = 16, 24  # column of the names in front of strips
_CUT = " (cut to equal length)"
_SHORTEST_COPY = 64  # characters without white space

Kind = Literal["title", "strip", "place", "only", "both", "other"]
"""The kind of a line. "only": text that the other retriever did not return. "other": text that only
the other retriever returned."""


PREFIXES: Mapping[Kind, str] = MappingProxyType({"only": "+ ", "both": "  ", "other": "- "})
"""The prefix of a line, by its kind."""


class Piece(NamedTuple):
    """A text that a retriever returned."""

    name: str  # of the document, for people
    doc_id: str | None
    start: int | None  # the first character in the document; None if unknown
    text: str
    is_cut: bool = False  # True for the last piece of the other side if it is not whole

    @property
    def end(self) -> int | None:
        """The character after the last one in the document."""
        return None if self.start is None else self.start + len(self.text)

    @property
    def place(self) -> str:
        """The document and characters, as people read them."""
        return self.place_in(self.name)

    def place_in(self, name: str) -> str:
        """The characters of a document with this name, and whether they are cut."""
        cut = _CUT if self.is_cut else ""
        if self.start is None or self.end is None:
            return f"{name}{cut}"
        return f"{name}, characters {format_range(self.start, self.end)}{cut}"


class Part(NamedTuple):
    """A part of a piece's text."""

    text: str
    is_only_here: bool  # True if the other side does not have it


@dataclass(frozen=True, repr=False)
class SideBySide:
    """Passages next to the result of another retriever, in the same amount of text.

    `RSERetriever.compare` makes it. Printed, it shows strips of the first six documents and the
    passages, with ``+`` before each line that has text only the passages have, then a list of the
    text that only the other retriever returned. In a notebook, the two sides are columns, or tabs
    on a narrow screen, and text that only one side has is highlighted.

    Attributes:
        query: The question.
        passages: The passages, in the order of the answer.
        other: The result of the other retriever, best first, cut to the length of the passages; a
            rest of under 40 characters is dropped.
        other_name: The name of the other retriever.
        lengths: The lengths of documents in characters, by document id, where known.
        reason: Why there are no passages; None if there are some.
    """

    query: str
    passages: Sequence[Piece]
    other: Sequence[Piece]
    other_name: str
    lengths: dict[str, int]
    reason: str | None = None

    @property
    def only_in_passages(self) -> int:
        """The number of characters that only the passages have."""
        return _count_only(self.passages, self.other)

    @property
    def only_in_other(self) -> int:
        """The number of characters that only the other retriever returned."""
        return _count_only(self.other, self.passages)

    @property
    def summary(self) -> str:
        """The lengths of both sides and of the text that only one side has, without a full stop."""
        if not self.passages:
            return f"No passages: {self.reason}"
        ours = counted(len(self.passages), "passage")
        theirs = f"{len(self.other)} from {self.other_name}"
        if self.other_name == TOP_K:
            theirs = counted(len(self.other), "chunk")
        length = sum(len(piece.text) for piece in self.passages)
        other_length = sum(len(piece.text) for piece in self.other)
        if length == other_length:
            sides = f"Same length ({length:,} characters): {ours} vs {theirs}"
        else:
            sides = f"{ours} ({length:,} characters) vs {theirs} ({other_length:,} characters)"
        return f"{sides}. {self._difference}"

    @property
    def _difference(self) -> str:
        ours, theirs = self.only_in_passages, self.only_in_other
        if not ours and not theirs:
            return "Both sides have the same text"
        length = sum(len(piece.text) for piece in self.passages)
        other_length = sum(len(piece.text) for piece in self.other)
        if ours == length and theirs == other_length:
            return "They share no text"
        if ours == theirs:
            return f"Highlighted: {ours:,} characters on each side that the other does not have"
        if not theirs:
            return f"Highlighted: {ours:,} characters only in the passages"
        if not ours:
            return f"Highlighted: {theirs:,} characters only in {self.other_name}"
        return (
            f"Highlighted: {ours:,} characters only in the passages, "
            f"{theirs:,} only in {self.other_name}"
        )

    def lines(self, width: int = _WIDTH, *, in_full: bool = False) -> Iterator[tuple[Kind, str]]:
        """Yield the comparison as lines with their kinds; strips end at column ``width``.

        With ``in_full``, the other retriever's texts are whole; by default, an excerpt of each.
        """
        yield "title", self.query
        yield "title", f"{self.summary}."
        yield from (("strip", strip) for strip in self._strips(width))
        names = self.shown_names()
        passages = [parts_of(piece, self.other) for piece in self.passages]
        missed = []
        for rank, piece in enumerate(self.other, start=1):
            if _has_only(parts_of(piece, self.passages)):
                missed.append((rank, piece))
        signs = []
        if any(map(_has_only, passages)):
            signs.append("+ marks lines with text only in the passages")
        if missed:
            signs.append(f"- marks text only in {self.other_name}")
        if signs and self.passages:
            yield "place", f"{'; '.join(signs)}."
        for number, (piece, parts) in enumerate(zip(self.passages, passages, strict=True), start=1):
            yield "place", f"Passage {number}: {piece.place_in(names[piece.name])}"
            yield from _lines_of(parts)
        if in_full:
            yield from self._other_lines(names)
        else:
            yield from self._missed_lines(missed, names)

    def _missed_lines(
        self, missed: Sequence[tuple[int, Piece]], names: Mapping[str, str]
    ) -> Iterator[tuple[Kind, str]]:
        """An excerpt of each text, with its rank, that only the other retriever returned."""
        if missed and self.passages:
            yield "place", f"Only in {self.other_name}:"
        for rank, piece in missed[:_MOST_LISTED]:
            place = piece.place_in(names[piece.name])
            yield "other", f"rank {rank}: {place}: {one_line(piece.text, _EXCERPT)}"
        if len(missed) > _MOST_LISTED:
            yield "other", f"and {len(missed) - _MOST_LISTED} more"

    def _other_lines(self, names: Mapping[str, str]) -> Iterator[tuple[Kind, str]]:
        """The texts of the other retriever in full."""
        for rank, piece in enumerate(self.other, start=1):
            place = piece.place_in(names[piece.name])
            yield "place", f"{self.other_name}, rank {rank}: {place}"
            for kind, line in _lines_of(parts_of(piece, self.passages)):
                yield "other" if kind == "only" else kind, line

    def _strips(self, width: int) -> Iterator[str]:
        """A strip for each document and side that has text of it."""
        names = self.shown_names()
        documents = self.strip_documents()
        longest = max((len(names[name]) for _, name in documents), default=0)
        name_width = min(max(longest, _SHORTEST_NAME), _LONGEST_NAME)
        label_width = max(len(_PASSAGES), len(self.other_name))
        cells = width - name_width - label_width - 2
        for doc_id, name in documents:
            length = self.length_of(doc_id)
            shown_name = shortened(names[name], name_width)
            for label, pieces in ((self.other_name, self.other), (_PASSAGES, self.passages)):
                ranges = _ranges_in(pieces, doc_id)
                if ranges:
                    strip = strip_of([(*each, 1.0) for each in ranges], length, cells)
                    yield f"{shown_name:{name_width}} {label:>{label_width}} {strip}"
                    shown_name = ""
        not_drawn = len(self.placed_documents()) - len(documents)
        if not_drawn:
            yield f"and {counted(not_drawn, 'more document')}"

    def shown_names(self) -> dict[str, str]:
        """The names of all pieces, with paths shortened to what tells them apart."""
        return short_names(piece.name for piece in [*self.passages, *self.other])

    def placed_documents(self) -> list[tuple[str, str]]:
        """The ids and names of the documents whose pieces have a place."""
        names: dict[str, str] = {}
        for piece in [*self.passages, *self.other]:
            if piece.doc_id is not None and piece.start is not None:
                names.setdefault(piece.doc_id, piece.name)
        return list(names.items())

    def strip_documents(self) -> list[tuple[str, str]]:
        """The ids and names of the documents that have strips."""
        return self.placed_documents()[:_MOST_STRIPS]

    def length_of(self, doc_id: str) -> int:
        """The length of a document; if unknown, the end of its last piece."""
        ends = [
            piece.end
            for piece in [*self.passages, *self.other]
            if piece.doc_id == doc_id and piece.end is not None
        ]
        return max([self.lengths.get(doc_id, 1), *ends])

    def __repr__(self) -> str:
        return f"<SideBySide of {visible(self.query)[:_EXCERPT]!r}: {visible(self.summary)}>"

    def __str__(self) -> str:
        lines = [f"{PREFIXES.get(kind, '')}{visible(line)}" for kind, line in self.lines()]
        return "\n".join(line.rstrip() for line in lines)

    def _repr_html_(self) -> str:
        return _as_html(self)

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return an HTML page, and write it to ``path`` if given.

        The page has no scripts and loads no other files.
        """
        page = (
            '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            '<meta name="color-scheme" content="light dark">'
            f"<title>{text_as_html(self.query)}</title></head>"
            f"<body>{_as_html(self)}</body></html>\n"
        )
        if path is not None:
            Path(path).write_text(page, encoding="utf-8", errors="replace")
        return page


def parts_of(piece: Piece, others: Sequence[Piece]) -> list[Part]:
    """Cut a piece into parts that other pieces have, and parts that they do not have.

    Text is the same if it has the same place, or if another piece has a copy of it, for example in
    another document. Pieces without a place are compared by their text.
    """
    text = piece.text
    is_shared = [False] * len(text)
    overlaps = [_overlap(piece, other) for other in others]
    for start, end in [*overlaps, *_copied(text, others)]:
        is_shared[start:end] = [True] * (end - start)
    parts: list[Part] = []
    begin = 0
    for position in range(1, len(text) + 1):
        if position == len(text) or is_shared[position] != is_shared[begin]:
            parts.append(Part(text[begin:position], not is_shared[begin]))
            begin = position
    return parts


def _overlap(piece: Piece, other: Piece) -> tuple[int, int]:
    """The range of a piece's text that another piece has; empty if none."""
    both_known = piece.start is not None and other.start is not None
    if both_known and piece.doc_id is not None:
        if piece.doc_id != other.doc_id:
            return 0, 0
        start = max((other.start or 0) - (piece.start or 0), 0)
        end = min((other.end or 0) - (piece.start or 0), len(piece.text))
        return start, max(start, end)
    text, other_text = piece.text.strip(), other.text.strip()
    if other_text and other_text in piece.text:
        start = piece.text.index(other_text)
        return start, start + len(other_text)
    if text and text in other.text:
        return 0, len(piece.text)
    return 0, 0


def _copied(text: str, others: Iterable[Piece]) -> Iterator[tuple[int, int]]:
    """The ranges of a text that other pieces have copies of."""
    windows: set[str] = set()  # of the other pieces, without white space
    for other in others:
        other_text = "".join(other.text.split())
        for start in range(len(other_text) - _SHORTEST_COPY + 1):
            windows.add(other_text[start : start + _SHORTEST_COPY])
    compared = "".join(text.split())
    # The positions of the compared characters in the text, then its end.
    positions = [position for position, sign in enumerate(text) if not sign.isspace()]
    positions.append(len(text))
    for start in range(len(compared) - _SHORTEST_COPY + 1):
        end = start + _SHORTEST_COPY
        if compared[start:end] in windows:
            yield positions[start], positions[end]  # with the white space after it


def _count_only(pieces: Iterable[Piece], others: Sequence[Piece]) -> int:
    count = 0
    for piece in pieces:
        count += sum(len(part.text) for part in parts_of(piece, others) if part.is_only_here)
    return count


def _has_only(parts: Iterable[Part]) -> bool:
    return any(part.is_only_here and part.text.strip() for part in parts)


def _lines_of(parts: Iterable[Part]) -> Iterator[tuple[Kind, str]]:
    """The lines of a text; a line is "only" if the other side does not have some of its words."""
    line = ""
    has_only = False
    for part in parts:
        first, *others = part.text.split("\n")
        line += first
        has_only = has_only or (part.is_only_here and bool(first.strip()))
        for text in others:
            yield "only" if has_only else "both", line
            line = text
            has_only = part.is_only_here and bool(text.strip())
    if line:
        yield "only" if has_only else "both", line


def _ranges_in(pieces: Iterable[Piece], doc_id: str) -> list[tuple[int, int]]:
    """The characters of a document that pieces have, as ranges."""
    ranges = []
    for piece in pieces:
        if piece.doc_id == doc_id and piece.start is not None and piece.end is not None:
            ranges.append((piece.start, piece.end))
    return ranges


# HTML

# Pages that choose a theme themselves: Material for MkDocs, JupyterLab, Colab, VS Code.
_LIGHT_PAGES = "[data-md-color-scheme=default], [data-jp-theme-light=true], .vscode-light"
_DARK_PAGES = (
    "[data-md-color-scheme=slate], [data-jp-theme-light=false], [theme=dark], .vscode-dark"
)
_STYLE = Template("""
.rse-compare { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; color: CanvasText;
  background: Canvas; padding: .1rem .5rem .5rem; overflow-wrap: anywhere; max-width: 72rem;
  margin: 0 auto; container-type: inline-size; }
:is($light_pages) .rse-compare { color-scheme: light; }
:is($dark_pages) .rse-compare { color-scheme: dark; }
.rse-compare h2 { font-size: 1.15rem; margin: .2rem 0; }
.rse-compare p { margin: .4rem 0; }
.rse-compare .sides { display: grid; gap: 1.5rem;
  grid-template-columns: repeat(2, minmax(0, 1fr)); }
.rse-compare h3 { font-size: 1rem; margin: .8rem 0 .2rem; }
.rse-compare .place { opacity: .75; font-size: .85em; margin: .8rem 0 .1rem; }
.rse-compare .text { white-space: pre-wrap; print-color-adjust: exact; padding: .4rem .6rem;
  border-left: 3px solid $passage; background: color-mix(in srgb, CanvasText 5%, Canvas); }
.rse-compare code { display: block; white-space: pre; overflow-x: auto; padding: 0; color: inherit;
  background: none; font: .8em/1.5 ui-monospace, monospace; }
.rse-compare .other .text { border-color: $chunk; }
.rse-compare mark { background: $passage_mark; color: inherit; print-color-adjust: exact; }
.rse-compare .other mark { background: $chunk_mark; }
.rse-compare .strip { position: relative; height: .8rem; margin: .15rem 0;
  print-color-adjust: exact;
  background: color-mix(in srgb, CanvasText 12%, Canvas); }
.rse-compare .strip i { position: absolute; top: 0; bottom: 0; background: $passage;
  min-width: 2px; print-color-adjust: exact; }
.rse-compare .other .strip i { background: $chunk; }
.rse-compare .tabs { display: none; }
.rse-compare .tabs label { margin-right: 1.2rem; font-weight: 600; }
@container (max-width: 600px) {
  .rse-compare .sides { grid-template-columns: minmax(0, 1fr); }
  .rse-compare .tabs { display: block; }
  .rse-compare h3 { display: none; }
  .rse-compare:has(.to-other:checked) section.passages { display: none; }
  .rse-compare:has(.to-passages:checked) section.other { display: none; }
}
@media print {
  .rse-compare code { white-space: pre-wrap; }
  .rse-compare .place { break-after: avoid; }
}
""").substitute(
    passage=f"light-dark({LIGHT.passage}, {DARK.passage})",
    chunk=f"light-dark({LIGHT.chunk}, {DARK.chunk})",
    passage_mark=f"light-dark({LIGHT.passage_mark}, {DARK.passage_mark})",
    chunk_mark=f"light-dark({LIGHT.chunk_mark}, {DARK.chunk_mark})",
    light_pages=_LIGHT_PAGES,
    dark_pages=_DARK_PAGES,
)


def _as_html(comparison: SideBySide) -> str:
    """Both sides, in a form so that the tabs of several comparisons on a page are independent."""
    other = _Side("other", comparison.other_name, "Rank", comparison.other, comparison.passages)
    passages = _Side("passages", _PASSAGES, "Passage", comparison.passages, comparison.other)
    tabs = f"{other.tab()}{passages.tab(is_chosen=True)}"
    sections = f"{other.section(comparison)}{passages.section(comparison)}"
    return (
        f'<style>{_STYLE}</style><form class="rse-compare">'
        f'<h2 dir="auto">{text_as_html(comparison.query)}</h2>'
        f"<p>{text_as_html(comparison.summary)}.</p>"
        f'<div class="tabs">{tabs}</div><div class="sides">{sections}</div></form>'
    )


class _Side(NamedTuple):
    """One side of a comparison, as HTML."""

    css_class: str
    name: str
    noun: str  # in front of the number of a piece
    pieces: Sequence[Piece]
    others: Sequence[Piece]

    @property
    def title(self) -> str:
        return text_as_html(f"{self.name} ({len(self.pieces)})")

    def tab(self, *, is_chosen: bool = False) -> str:
        """The tab that shows this side on a narrow screen."""
        checked = " checked" if is_chosen else ""
        button = f'<input type="radio" name="side" class="to-{self.css_class}"{checked}>'
        return f"<label>{button} {self.title}</label>"

    def section(self, comparison: SideBySide) -> str:
        """The column of this side: strips of the documents, then the texts."""
        rows = [f'<section class="{self.css_class}"><h3>{self.title}</h3>']
        names = comparison.shown_names()
        placed = [
            each for each in comparison.placed_documents() if _ranges_in(self.pieces, each[0])
        ]
        with_strips = [each for each in comparison.strip_documents() if each in placed]
        for doc_id, name in with_strips:
            length = comparison.length_of(doc_id)
            bars = (bar_as_html("i", *each, length) for each in _ranges_in(self.pieces, doc_id))
            rows.append(_place_as_html(name, names[name]))
            rows.append(f'<div class="strip">{"".join(bars)}</div>')
        not_drawn = len(placed) - len(with_strips)
        if not_drawn:
            rows.append(f'<div class="place">and {counted(not_drawn, "more document")}</div>')
        for number, piece in enumerate(self.pieces, start=1):
            place = piece.place_in(names[piece.name])
            rows.append(_place_as_html(piece.name, f"{self.noun} {number}: {place}"))
            rows.append(f'<div class="text" dir="auto">{self._text_of(piece)}</div>')
        if not self.pieces:
            rows.append("<p>No text.</p>")
        rows.append("</section>")
        return "".join(rows)

    def _text_of(self, piece: Piece) -> str:
        """The text of a piece, with marks, without white space at its end."""
        parts = parts_of(piece, self.others)
        texts = []
        start = 0
        for block, is_code in blocks_of(piece.text.rstrip()):
            shown = block if is_code else unwrap(block)
            within = _parts_within(parts, start, shown)
            marked = "".join(map(_part_as_html, within))
            texts.append(f"<code>{marked}</code>" if is_code else marked)
            start += len(block)
        return "".join(texts)


def _place_as_html(name: str, shown: str) -> str:
    """A line with the place of a piece; pointing at it shows the whole name of the document."""
    title = "" if name in shown else f' title="{text_as_html(name)}"'
    return f'<div class="place"{title}>{text_as_html(shown)}</div>'


def _parts_within(parts: Iterable[Part], start: int, shown: str) -> Iterator[Part]:
    """The parts of a block that starts at a position of a piece, with the texts as shown."""
    position = 0
    for part in parts:
        begin, end = position - start, position - start + len(part.text)
        text = shown[max(begin, 0) : max(end, 0)]
        if text:
            yield part._replace(text=text.replace(DROPPED, ""))
        position += len(part.text)


def _part_as_html(part: Part) -> str:
    text = text_as_html(part.text, "\t\n")
    return f"<mark>{text}</mark>" if part.is_only_here and text.strip() else text
