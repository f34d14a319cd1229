"""Draws docs/images/passages.svg, and its dark variant: what `retriever.compare` returns.

The text is the reference that ships with Python, the question that of ``langchain-rse demo``.
`python docs/_site/picture.py` draws both.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from pydoc_data.topics import topics
from typing import NamedTuple

from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_rse import RSERetriever, SQLDocStore
from langchain_rse.embeddings import WordLlamaEmbeddings
from langchain_rse.explaining.colors import DARK, LIGHT, Colors
from langchain_rse.explaining.side_by_side import Piece, SideBySide, parts_of

IMAGES = Path(__file__).parents[1] / "images"
QUESTION = "How does a metaclass create a class?"
CHARACTERS = 4_000

# In pixels. A phone shows the picture at five sixths of its size, so letters are large.
WIDTH, MARGIN, GAP = 430, 10, 12
COLUMN = (WIDTH - 2 * MARGIN - GAP) // 2
PADDING = 8  # beside the texts
LETTERS = 27  # in a line of a column
SIZE, LINE = 12.5, 16.5
BOTTOM = 520  # of the columns
LINES_OF_CHUNK = 5  # of each chunk, at most
LINES_BEFORE = 9  # of the passage, above the first one that the chunks lack


class Line(NamedTuple):
    """A line of text in a column."""

    text: str
    is_only_here: bool


def compare() -> SideBySide:
    """Ask the question."""
    retriever = RSERetriever(
        vectorstore=InMemoryVectorStore(WordLlamaEmbeddings()), docstore=SQLDocStore("sqlite://")
    )
    names_by_text = {topics[name]: name for name in sorted(topics, reverse=True)}
    retriever.add_documents(
        Document(text, metadata={"source": name}) for text, name in names_by_text.items()
    )
    return retriever.compare(QUESTION, max_context_length=CHARACTERS)


def lines_of(piece: Piece, others: Iterable[Piece]) -> list[Line]:
    """A piece in lines of a column, without empty ones and rules."""
    lines = []
    for part in parts_of(piece, others):
        for paragraph in part.text.split("\n\n"):
            words = " ".join(word for word in paragraph.split() if word.strip("-="))
            for text in textwrap.wrap(words, LETTERS, break_long_words=False):
                lines.append(Line(text, part.is_only_here))
    return lines


def shorten_chunks(comparison: SideBySide) -> list[Sequence[Line]]:
    """The first lines of each chunk."""
    blocks = []
    for piece in comparison.other:
        lines = lines_of(piece, comparison.segments)
        blocks.append(cut(lines, LINES_OF_CHUNK))
    return blocks


def cut(lines: Sequence[Line], most: int) -> Sequence[Line]:
    """At most so many lines; the last one ends with an ellipsis if there are more."""
    if len(lines) <= most:
        return lines
    last = lines[most - 1]
    return [*lines[: most - 1], last._replace(text=f"{last.text} …")]


def shorten_passages(comparison: SideBySide) -> list[list[Line]]:
    """The passages, the first one from a little above the text that the chunks lack."""
    first, *others = [lines_of(piece, comparison.other) for piece in comparison.segments]
    start = 0
    for number, line in enumerate(first):
        if line.is_only_here:
            start = max(number - LINES_BEFORE, 0)
            break
    if start:
        first = [Line("…", is_only_here=False), *first[start:]]
    return [first, *others]


class Drawing:
    """The elements of the picture."""

    def __init__(self, colors: Colors) -> None:
        self.colors = colors
        self.elements: list[str] = []

    def box(self, x: float, y: float, width: float, height: float, color: str) -> None:
        """Draw a filled rectangle."""
        place = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"'
        self.elements.append(f'<rect {place} fill="{color}"/>')

    def text(
        self, x: float, y: float, text: str, size: float = SIZE, *, bold: bool = False
    ) -> None:
        """Draw a line of text, of which ``y`` is the baseline."""
        weight = ' font-weight="bold"' if bold else ""
        self.elements.append(
            f'<text x="{x:g}" y="{y:g}" font-size="{size:g}"{weight}>{escape(text)}</text>'
        )

    def strips(
        self, x: float, y: float, comparison: SideBySide, pieces: Sequence[Piece], color: str
    ) -> float:
        """Draw which parts of the documents the pieces are; return where the next thing begins."""
        for doc_id, name in comparison.strip_documents():
            self.text(x, y + SIZE, name)
            y += LINE + 2
            self.box(x, y, COLUMN, 10, self.colors.strip)
            for piece in pieces:
                if piece.doc_id == doc_id and piece.start is not None:
                    scale = COLUMN / comparison.length_of(doc_id)
                    width = max(len(piece.text) * scale, 2)
                    self.box(x + round(piece.start * scale, 1), y, round(width, 1), 10, color)
            y += 20
        return y

    def blocks(
        self, x: float, y: float, blocks: Iterable[Sequence[Line]], color: str, mark: str
    ) -> None:
        """Draw texts below one another, as far as there is room."""
        for lines in blocks:
            room = int((BOTTOM - y - 8) // LINE)
            if room <= 0:
                return
            shown = cut(lines, room)
            height = len(shown) * LINE + 8
            self.box(x, y, COLUMN, height, self.colors.panel)
            self.box(x, y, 3, height, color)
            for number, line in enumerate(shown):
                top = y + 4 + number * LINE
                if line.is_only_here:
                    self.box(x + 3, top, COLUMN - 3, LINE + 0.5, mark)  # without a seam
                self.text(x + PADDING, top + LINE - 4, line.text)
            y += height + 8


def draw(comparison: SideBySide, colors: Colors) -> str:
    """Both sides, as the comparison's page has them, with less text."""
    drawing = Drawing(colors)
    height = BOTTOM + MARGIN
    drawing.box(0, 0, WIDTH, height, colors.background)
    drawing.text(MARGIN, 28, comparison.query, 18, bold=True)
    y = 48
    for line in textwrap.wrap(f"{comparison.summary}. Marked: what the other side lacks.", 63):
        drawing.text(MARGIN, y, line)
        y += LINE
    y += 8
    sides = (
        (
            comparison.other_name,
            comparison.other,
            shorten_chunks(comparison),
            colors.chunk,
            colors.chunk_mark,
        ),
        (
            "segments",
            comparison.segments,
            shorten_passages(comparison),
            colors.segment,
            colors.segment_mark,
        ),
    )
    x = MARGIN
    for title, pieces, blocks, color, mark in sides:
        drawing.text(x, y + 4, title, 15, bold=True)
        below = drawing.strips(x, y + 10, comparison, pieces, color)
        drawing.blocks(x, below, blocks, color, mark)
        x += COLUMN + GAP
    title = f"{comparison.query} {comparison.summary}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}" '
        f'fill="{colors.ink}" font-family="system-ui, Segoe UI, Roboto, Noto Sans, sans-serif" '
        f'role="img"><title>{escape(title)}</title>\n' + "\n".join(drawing.elements) + "\n</svg>\n"
    )


def main(folder: Path) -> None:
    """Write both variants."""
    comparison = compare()
    for name, colors in (("passages.svg", LIGHT), ("passages-dark.svg", DARK)):
        (folder / name).write_text(draw(comparison, colors), encoding="utf-8")


if __name__ == "__main__":
    main(IMAGES)
