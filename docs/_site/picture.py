"""Draws two pictures in docs/images, each light and dark.

``passages.svg`` has what top-k chunks return next to our passage, and ``passages-narrow.svg`` the
same for phones, both of ``langchain-rse demo``; ``relevance.svg`` shows how a passage is found, in
the index that the home page makes. `python docs/_site/picture.py` draws all.
"""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from pydoc_data.topics import topics
from typing import NamedTuple

import matplotlib as mpl

from langchain_rse import RSERetriever
from langchain_rse.cli.demo import (
    MAX_CONTEXT_LENGTH,
    QUESTION,
    Paragraph,
    language_reference,
    outline_of,
)
from langchain_rse.embeddings import WordLlamaEmbeddings
from langchain_rse.explaining import RSETrace, SideBySide
from langchain_rse.explaining.plots import DARK, LIGHT, Colors

IMAGES = Path(__file__).parents[1] / "images"

MARGIN, GAP = 10, 12  # in pixels, as all lengths here
PADDING = 8  # beside the texts
SIZE, LINE = 12.5, 16.5
TITLE = 16


class Layout(NamedTuple):
    """A width, and the text that fits it."""

    suffix: str  # of the file's name
    width: int
    letters: int  # in a line of a column
    lines_of_answer: int  # of each of its paragraphs; others have one line

    @property
    def column(self) -> int:
        """Width of a column."""
        return (self.width - 2 * MARGIN - GAP) // 2


# Low enough for code to follow on the first screen of README.
WIDE = Layout("", 860, 60, 1)
# As wide as the text on a phone, which shows letters at their size.
NARROW = Layout("-narrow", 358, 21, 3)


class Shades(NamedTuple):
    """Colors that only this picture has."""

    answer: str  # behind it
    quiet: str  # text outside the answer
    panel: str  # behind texts
    passage: str


SHADES = {
    LIGHT: Shades("#ffe89a", "#5f656c", "#f2f2f2", "#0072b2"),
    DARK: Shades("#5e4c0c", "#9aa1a8", "#2a2e36", "#56b4e9"),
}


def make_retriever(texts: Mapping[str, str]) -> RSERetriever:
    """Index texts with their names, in memory."""
    sources = [{"source": name} for name in texts]
    return RSERetriever.from_texts(texts.values(), WordLlamaEmbeddings(), sources)


class Drawing:
    """The elements of a picture."""

    def __init__(self, layout: Layout, colors: Colors) -> None:
        self.layout = layout
        self.colors = colors
        self.elements: list[str] = []

    def box(
        self, x: float, y: float, width: float, height: float, color: str, *, dashed: bool = False
    ) -> None:
        """Draw a rectangle: filled, or with a dashed border."""
        place = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"'
        look = (
            f'fill="none" stroke="{color}" stroke-dasharray="4 3"' if dashed else f'fill="{color}"'
        )
        self.elements.append(f"<rect {place} {look}/>")

    def text(
        self,
        x: float,
        y: float,
        text: str,
        size: float = SIZE,
        *,
        color: str = "",
        bold: bool = False,
    ) -> None:
        """Draw a line of text with its baseline at ``y``."""
        look = f' fill="{color}"' if color else ""
        look += ' font-weight="bold"' if bold else ""
        words = re.sub(r"^\d\.(?= )", r'<tspan font-weight="bold">\g<0></tspan>', escape(text))
        self.elements.append(f'<text x="{x:g}" y="{y:g}" font-size="{size:g}"{look}>{words}</text>')

    def block(
        self, x: float, y: float, title: str, paragraphs: Sequence[Paragraph], color: str
    ) -> float:
        """Draw a returned text; return where the next thing begins."""
        shades = SHADES[self.colors]
        lines = lines_of(paragraphs, self.layout)
        fits_beside = self.layout is WIDE and len(lines) == 1
        beside = lines.pop().text if fits_beside else ""
        height = (len(lines) + 1) * LINE + 8
        self.box(x, y, self.layout.column, height, shades.panel)
        self.box(x, y, 3, height, color)
        self.text(x + PADDING, y + LINE, title, bold=True)
        if beside:
            self.text(x + PADDING + 60, y + LINE, beside, color=shades.quiet)
        self.lines(x, y + LINE + 6, lines)
        return y + height + 8

    def lines(self, x: float, y: float, lines: Sequence[Line]) -> None:
        """Draw lines of text, the answer's on a shade."""
        shades = SHADES[self.colors]
        for line in lines:
            if line.is_answer:
                self.box(x + 3, y, self.layout.column - 3, LINE + 0.5, shades.answer)  # no seam
            color = "" if line.is_answer else shades.quiet
            self.text(x + PADDING, y + LINE - 4, line.text, color=color)
            y += LINE

    def missing(self, x: float, y: float, height: float, paragraphs: Iterable[Paragraph]) -> None:
        """Draw what no chunk has, in a dashed box."""
        self.box(x + 0.5, y, self.layout.column - 1, height, self.colors.threshold, dashed=True)
        self.text(x + PADDING, y + LINE, "missing", color=self.colors.threshold, bold=True)
        y += LINE + 6
        for line in missing_lines(paragraphs, self.layout):
            self.text(x + PADDING, y + LINE - 4, line, color=self.colors.threshold)
            y += LINE

    def svg(self, height: float, title: str) -> str:
        """The picture."""
        width = self.layout.width
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height:g}" '
            f'viewBox="0 0 {width} {height:g}" fill="{self.colors.ink}" '
            'font-family="system-ui, Segoe UI, Roboto, Noto Sans, sans-serif" '
            f'role="img"><title>{escape(title)}</title>\n' + "\n".join(self.elements) + "\n</svg>\n"
        )


class Line(NamedTuple):
    """A line of text in a column."""

    text: str
    is_answer: bool


def lines_of(paragraphs: Sequence[Paragraph], layout: Layout) -> list[Line]:
    """Paragraphs in lines of a column."""
    lines = []
    for text, is_answer in paragraphs:
        most = layout.lines_of_answer if is_answer or len(paragraphs) == 1 else 1
        for line in wrap(text, layout.letters, most):
            lines.append(Line(line, is_answer))
    return lines


def missing_lines(paragraphs: Iterable[Paragraph], layout: Layout) -> list[str]:
    """What no chunk has: the numbered steps, and how many other paragraphs."""
    lines = []
    others = 0
    for text, _ in paragraphs:
        if text[0].isdigit():
            lines += wrap(text, layout.letters, layout.lines_of_answer - 1)
        else:
            others += 1
    return [*lines, f"and {others} more paragraphs"]


def in_short(paragraphs: Sequence[Paragraph], length: int) -> list[Paragraph]:
    """The paragraphs of a returned text without marks of omission.

    If none of them answers, how long they are is all that matters.
    """
    if not any(is_answer for _, is_answer in paragraphs):
        return [(f"{length} characters, none of the answer", False)]
    return [(text, is_answer) for text, is_answer in paragraphs if text != "..."]


def wrap(text: str, letters: int, most: int) -> list[str]:
    """The first lines of a text; the last one ends with an ellipsis if there are more."""
    return textwrap.wrap(text.replace("...", "…"), letters, max_lines=most, placeholder=" …")


def draw(comparison: SideBySide, layout: Layout, colors: Colors) -> str:
    """Chunks on the left, passages on the right, each with as many lines of a paragraph."""
    drawing = Drawing(layout, colors)
    left, right = MARGIN, MARGIN + layout.column + GAP
    title_size = TITLE if layout is WIDE else SIZE
    drawing.text(MARGIN, 26, comparison.query, title_size, bold=True)
    subtitle = "Embeddings: WordLlama. Highlighted: the answer."
    if layout is WIDE:
        drawing.text(right, 26, subtitle)
        top = 40
    else:
        drawing.text(MARGIN, 47, subtitle)
        top = 64
    chunks, passages = outline_of(comparison.other), outline_of(comparison.passages)
    ends = []
    for x, name, kind, outline, pieces, color in (
        (left, "Top-k chunks", "rank", chunks, comparison.other, colors.chunk),
        (right, "langchain-rse", "passage", passages, comparison.passages, SHADES[colors].passage),
    ):
        length = sum(len(piece.text) for piece in pieces)
        drawing.text(x, top + 16, name, 16, bold=True)
        y = shares(drawing, x, top + 16, outline.answered, length)
        for number, (paragraphs, piece) in enumerate(zip(outline.pieces, pieces, strict=True), 1):
            shown = in_short(paragraphs, len(piece.text))
            y = drawing.block(x, y, f"{kind} {number}", shown, color)
        ends.append(y)
    missing_height = (len(missing_lines(chunks.missing, layout)) + 1) * LINE + 8
    bottom = max(ends[0] + missing_height, ends[1] - 8)
    if chunks.missing:
        drawing.missing(left, ends[0], bottom - ends[0], chunks.missing)
    title = (
        f"{comparison.query} Top-k chunks have {chunks.answered:.0%} of the answer, in pieces; "
        f"langchain-rse's passage of the same length has {passages.answered:.0%}. {subtitle}"
    )
    return drawing.svg(bottom + MARGIN, title)


def shares(drawing: Drawing, x: float, y: float, answered: float, length: int) -> float:
    """Draw what a side has, beside or below its name; return where its texts begin."""
    answer, room = f"{answered:.0%} of the answer", f"in {length:,} characters"
    if drawing.layout is WIDE:
        drawing.text(x + 140, y, f"{answer} {room}", 13)
        return y + 10
    drawing.text(x, y + 18, answer, 14)
    drawing.text(x, y + 36, room, SIZE)
    return y + 46


def save_plot(trace: RSETrace, chunk_count: int, path: Path, *, dark: bool) -> None:
    """Write the plot of a trace; the same plot gives the same file."""
    with mpl.rc_context({"svg.hashsalt": "relevance", "svg.fonttype": "none"}):
        figure = trace.plot(dark=dark)
        (axes,) = figure.axes
        left, right = axes.get_xlim()
        shown = f"{math.ceil(left)} to {math.floor(right)} of {chunk_count}"
        axes.set_xlabel(f"chunks {shown}, in the order of the text")
        figure.savefig(path, metadata={"Date": None}, transparent=True)


def main(folder: Path) -> None:
    """Write all pictures."""
    retriever = make_retriever(language_reference())
    comparison = retriever.compare(QUESTION, max_context_length=MAX_CONTEXT_LENGTH)
    retriever = make_retriever(topics)
    trace = retriever.explain(QUESTION)
    ids = [chunk.metadata["doc_id"] for chunk in retriever.indexer.chunks()]
    chunk_count = ids.count("compound")  # the document of the passages
    for suffix, colors in (("", LIGHT), ("-dark", DARK)):
        for layout in (WIDE, NARROW):
            picture = draw(comparison, layout, colors)
            name = f"passages{layout.suffix}{suffix}.svg"
            (folder / name).write_text(picture, encoding="utf-8")
        save_plot(trace, chunk_count, folder / f"relevance{suffix}.svg", dark=colors is DARK)


if __name__ == "__main__":
    main(IMAGES)
