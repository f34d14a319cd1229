"""SideBySide: what a retriever returns beside what another one does, in the same amount of text."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template
from types import MappingProxyType
from typing import Literal, NamedTuple

from langchain_rse.engine.copies import Passages
from langchain_rse.explaining.colors import DARK, LIGHT
from langchain_rse.text.bars import bar_as_html, strip_of
from langchain_rse.text.quoting import as_html as text_as_html
from langchain_rse.text.quoting import counted, one_line, visible
from langchain_rse.text.ranges import format_range

_WIDTH = 80  # characters of a line with a strip
_MOST_STRIPS = 6
_MOST_LISTED = 8  # pieces that only the other retriever returned
_EXCERPT = 60
_NAME = 16  # characters of a document's name beside its strip

Kind = Literal["title", "strip", "place", "only", "both", "other"]
"""What a line of a comparison is; "only" for text that the other retriever lacks."""


PREFIXES: Mapping[Kind, str] = MappingProxyType({"only": "+ ", "both": "  ", "other": "- "})
"""What stands in front of lines, by their kind."""


class Piece(NamedTuple):
    """A text that a retriever returned."""

    name: str  # of the document, for people
    doc_id: str | None
    start: int | None  # the first character in the document; None if it is not known
    text: str

    @property
    def end(self) -> int | None:
        """The character after the last one in the document."""
        return None if self.start is None else self.start + len(self.text)

    @property
    def place(self) -> str:
        """The document and characters, for people."""
        if self.start is None or self.end is None:
            return self.name
        return f"{self.name}, characters {format_range(self.start, self.end)}"


class Part(NamedTuple):
    """A part of a piece's text."""

    text: str
    is_only_here: bool  # True if the other retriever did not return it


@dataclass(frozen=True, repr=False)
class SideBySide:
    """Segments beside what another retriever returned; `RSERetriever.compare` makes it.

    Printed, a strip of each document, the segments with ``+`` in front of lines that have text
    which the other one lacks, and what only the other one has. In a notebook, both beside each
    other, with that text marked.

    Attributes:
        query: The question.
        segments: The segments, in their order.
        other: What the other retriever returned, cut at the length of the segments.
        other_name: The name of the other retriever.
        lengths: The lengths of documents in characters, by id, where they are known.
        reason: Why there are no segments; None if there are.
    """

    query: str
    segments: Sequence[Piece]
    other: Sequence[Piece]
    other_name: str
    lengths: dict[str, int]
    reason: str | None = None

    @property
    def only_in_segments(self) -> int:
        """The number of characters that only the segments have."""
        return _count_only(self.segments, self.other)

    @property
    def only_in_other(self) -> int:
        """The number of characters that only the other retriever returned."""
        return _count_only(self.other, self.segments)

    @property
    def summary(self) -> str:
        """One line on how much each side has."""
        if not self.segments:
            return f"No segments: {self.reason}"
        characters = sum(len(piece.text) for piece in self.segments)
        passages = counted(len(self.segments), "passage")
        return (
            f"{characters:,} characters each: {passages}; {self.only_in_segments:,} characters "
            f"not in {self.other_name} ({len(self.other)})"
        )

    def lines(self, width: int = _WIDTH) -> Iterator[tuple[Kind, str]]:
        """The comparison line by line, with what each line is; strips end at ``width``."""
        yield "title", self.query
        yield "title", self.summary
        for strip in self._strips(width):
            yield "strip", strip
        for piece in self.segments:
            yield "place", piece.place
            yield from _lines_of(parts_of(piece, self.other))
        missed = [piece for piece in self.other if _has_only(parts_of(piece, self.segments))]
        if missed and self.segments:
            yield "place", f"Only {self.other_name}:"
        for piece in missed[:_MOST_LISTED]:
            yield "other", f"{piece.place}: {one_line(piece.text, _EXCERPT)}"
        if len(missed) > _MOST_LISTED:
            yield "other", f"and {len(missed) - _MOST_LISTED} more"

    def _strips(self, width: int) -> Iterator[str]:
        """Two strips for each document: which parts of it are returned by each side."""
        label_width = max(len("segments"), len(self.other_name))
        cells = width - _NAME - label_width - 2
        for doc_id, name in self.strip_documents():
            length = self.length_of(doc_id)
            for label, pieces in ((self.other_name, self.other), ("segments", self.segments)):
                strip = _strip_of_pieces(pieces, doc_id, length, cells)
                shown_name = ""
                if label == self.other_name:
                    shown_name = name.rpartition("/")[2][:_NAME]
                yield f"{shown_name:{_NAME}} {label:>{label_width}} {strip}"

    def strip_documents(self) -> list[tuple[str, str]]:
        """The ids and names of the documents of which strips are shown."""
        names: dict[str, str] = {}
        for piece in [*self.segments, *self.other]:
            if piece.doc_id is not None and piece.start is not None:
                names.setdefault(piece.doc_id, piece.name)
        return list(names.items())[:_MOST_STRIPS]

    def length_of(self, doc_id: str) -> int:
        """The length of a document, at least up to the end of its last piece."""
        ends = [
            piece.end
            for piece in [*self.segments, *self.other]
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
        """Make an HTML page, and write it to ``path`` if given. It loads and runs nothing."""
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
    """Cut a piece into parts that other pieces have or lack.

    Text counts as the same if it has the same place, or if it stands word for word in another
    piece, such as one of another document. Pieces without a place are compared by their text.
    """
    text = piece.text
    is_shared = [False] * len(text)
    ranges = [_overlap(piece, other) for other in others]
    for start, end in [*ranges, *_copied(text, others)]:
        is_shared[start:end] = [True] * (end - start)
    parts: list[Part] = []
    begin = 0
    for position in range(1, len(text) + 1):
        if position == len(text) or is_shared[position] != is_shared[begin]:
            parts.append(Part(text[begin:position], not is_shared[begin]))
            begin = position
    return parts


def _overlap(piece: Piece, other: Piece) -> tuple[int, int]:
    """Which characters of a piece's text another piece has, as a range."""
    both_known = piece.start is not None and other.start is not None
    if both_known and piece.doc_id is not None:
        if piece.doc_id != other.doc_id:
            return 0, 0
        start = max((other.start or 0) - (piece.start or 0), 0)
        end = min((other.end or 0) - (piece.start or 0), len(piece.text))
        return start, max(start, end)
    own, theirs = piece.text.strip(), other.text.strip()
    if theirs and theirs in piece.text:
        start = piece.text.index(theirs)
        return start, start + len(theirs)
    if own and own in other.text:
        return 0, len(piece.text)
    return 0, 0


def _copied(text: str, others: Iterable[Piece]) -> Iterator[tuple[int, int]]:
    """Which characters of a text stand word for word in other pieces, as ranges."""
    passages = Passages()
    for other in others:
        passages.add("".join(other.text.split()))
    # Where the characters that are compared stand in the text; then its end.
    positions = [position for position, sign in enumerate(text) if not sign.isspace()]
    positions.append(len(text))
    for number in passages.shared_characters("".join(text.split())).nonzero()[0]:
        yield positions[number], positions[number + 1]  # with the white space after it


def _count_only(pieces: Iterable[Piece], others: Sequence[Piece]) -> int:
    count = 0
    for piece in pieces:
        count += sum(len(part.text) for part in parts_of(piece, others) if part.is_only_here)
    return count


def _has_only(parts: Iterable[Part]) -> bool:
    return any(part.is_only_here and part.text.strip() for part in parts)


def _lines_of(parts: Iterable[Part]) -> Iterator[tuple[Kind, str]]:
    """The lines of a text; a line is "only" if part of its words are."""
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


def _strip_of_pieces(pieces: Iterable[Piece], doc_id: str, length: int, cells: int) -> str:
    """A strip of a document in characters: blocks where pieces are."""
    bars = []
    for piece in pieces:
        if piece.doc_id == doc_id and piece.start is not None and piece.end is not None:
            bars.append((piece.start, piece.end, 1.0))
    return strip_of(bars, length, cells)


# HTML

_STYLE = Template("""
.rse-compare { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; color: CanvasText;
  background: Canvas; padding: 0 .5rem; overflow-wrap: anywhere; max-width: 72rem; margin: 0 auto; }
.rse-compare h2 { font-size: 1.15rem; margin: .2rem 0; }
.rse-compare .sides { display: grid; gap: 1.5rem;
  grid-template-columns: repeat(2, minmax(0, 1fr)); }
.rse-compare h3 { font-size: 1rem; margin: .8rem 0 .2rem; }
.rse-compare .place { opacity: .75; font-size: .85em; margin: .8rem 0 .1rem; }
.rse-compare .text { white-space: pre-wrap; padding: .4rem .6rem;
  border-left: 3px solid $segment; background: color-mix(in srgb, CanvasText 5%, Canvas); }
.rse-compare .other .text { border-color: $chunk; }
.rse-compare mark { background: $segment_mark; color: inherit; }
.rse-compare .other mark { background: $chunk_mark; }
.rse-compare .strip { position: relative; height: .8rem; margin: .15rem 0;
  background: color-mix(in srgb, CanvasText 12%, Canvas); }
.rse-compare .strip i { position: absolute; top: 0; bottom: 0; background: $segment;
  min-width: 2px; print-color-adjust: exact; }
.rse-compare .strip.other i { background: $chunk; }
@media (max-width: 700px) { .rse-compare .sides { grid-template-columns: minmax(0, 1fr); } }
""").substitute(
    segment=f"light-dark({LIGHT.segment}, {DARK.segment})",
    chunk=f"light-dark({LIGHT.chunk}, {DARK.chunk})",
    segment_mark=f"light-dark({LIGHT.segment_mark}, {DARK.segment_mark})",
    chunk_mark=f"light-dark({LIGHT.chunk_mark}, {DARK.chunk_mark})",
)


def _as_html(comparison: SideBySide) -> str:
    query = text_as_html(comparison.query)
    summary = text_as_html(comparison.summary)
    other = _side_as_html(
        comparison.other_name, comparison.other, comparison.segments, comparison, "other"
    )
    segments = _side_as_html(
        "segments", comparison.segments, comparison.other, comparison, "segments"
    )
    return (
        f'<style>{_STYLE}</style><div class="rse-compare"><h2 dir="auto">{query}</h2>'
        f'<p>{summary}. Marked: what the other side lacks.</p><div class="sides">{other}{segments}'
        "</div></div>"
    )


def _side_as_html(
    title: str,
    pieces: Sequence[Piece],
    others: Sequence[Piece],
    comparison: SideBySide,
    css_class: str,
) -> str:
    """One column: strips of the documents, then the texts."""
    rows = [f'<section class="{css_class}"><h3>{text_as_html(title)}</h3>']
    for doc_id, name in comparison.strip_documents():
        length = comparison.length_of(doc_id)
        bars = []
        for piece in pieces:
            if piece.doc_id == doc_id and piece.start is not None:
                bars.append(bar_as_html("i", piece.start, piece.start + len(piece.text), length))
        rows.append(f'<div class="place">{text_as_html(name)}</div>')
        rows.append(f'<div class="strip {css_class}">{"".join(bars)}</div>')
    for piece in pieces:
        texts = []
        for part in parts_of(piece, others):
            text = text_as_html(part.text, "\t\n")
            texts.append(f"<mark>{text}</mark>" if part.is_only_here else text)
        rows.append(f'<div class="place">{text_as_html(piece.place)}</div>')
        rows.append(f'<div class="text" dir="auto">{"".join(texts)}</div>')
    if not pieces:
        rows.append("<p>Nothing.</p>")
    rows.append("</section>")
    return "".join(rows)
