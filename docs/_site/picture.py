"""Draws docs/images/passages.svg: the same question, answered by chunks and by segments.

The text is the reference that ships with Python; `python docs/_site/picture.py` asks it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from html import escape
from pathlib import Path
from pydoc_data.topics import topics

from langchain_core.documents import Document
from langchain_core.stores import InMemoryByteStore
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_rse import RSERetriever
from langchain_rse.embeddings import WordLlamaEmbeddings

PICTURE = Path(__file__).parents[1] / "images" / "passages.svg"
QUESTION, SOURCE = "How does a metaclass create a class?", "specialnames"
BUDGET = 10_000
# What of the document is drawn, and the sections that answer, by their headings.
FIRST, LAST = "Customizing class creation", "Emulating generic types"
ANSWER = {
    "Metaclasses": "What a metaclass is",
    "Resolving MRO entries": "1. Resolve the bases",
    "Determining the appropriate metaclass": "2. Determine the metaclass",
    "Preparing the class namespace": "3. Prepare the namespace",
    "Executing the class body": "4. Execute the class body",
    "Creating the class object": "5. Create the class",
    "Uses for metaclasses": "",
}
WIDTH, TOP, PITCH = 960, 122, 1.62
PAGE, LEFT, RIGHT = 318, 24, 618
INK, PALE, MISSING = "#1f2937", "#d5dae1", "#b3261e"

Ranges = Sequence[tuple[int, int]]


def found() -> tuple[list[Document], list[Document]]:
    """The best chunks and the segments, each within the budget."""
    vectorstore = InMemoryVectorStore(WordLlamaEmbeddings())
    retriever = RSERetriever(vectorstore=vectorstore, docstore=InMemoryByteStore())
    retriever.add_documents(
        Document(text, id=name, metadata={"source": name}) for name, text in sorted(topics.items())
    )
    chunks: list[Document] = []
    for chunk in vectorstore.similarity_search(QUESTION, k=50):
        if sum(len(one.page_content) for one in [*chunks, chunk]) > BUDGET:
            break
        chunks.append(chunk)
    return chunks, retriever.invoke(QUESTION, max_context_length=BUDGET)


def ranges_in(documents: list[Document]) -> Ranges:
    """Where they are in the document that is drawn."""
    own = (one.metadata for one in documents if one.metadata["source"] == SOURCE)
    return [(one["start_index"], one["end_index"]) for one in own]


def covered(ranges: Ranges, start: int, end: int) -> float:
    """The share of ``[start, end)`` that ranges have, which do not overlap."""
    return sum(max(0, min(e, end) - max(s, start)) for s, e in ranges) / (end - start)


def text_at(x: float, y: float, text: str, **attributes: str) -> str:
    """A line of text."""
    attributes.setdefault("fill", INK)
    given = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in attributes.items())
    return f'<text x="{x:g}" y="{y:g}"{given}>{escape(text)}</text>'


class Drawn:
    """The part of the document that is drawn, line by line."""

    def __init__(self, text: str) -> None:
        self.start, self.end = (text.index(f"\n{name}\n") + 1 for name in (FIRST, LAST))
        self.lines = [
            (match.start() + self.start, match.end() - match.start())
            for match in re.finditer(r".*\n", text[self.start : self.end])
        ]
        self._starts = [start for start, _ in self.lines]
        self.height = len(self.lines) * PITCH

    def y(self, place: int) -> float:
        """How far down a character is."""
        place = min(max(place, self.start), self.end - 1)
        line = bisect_right(self._starts, place) - 1
        start, length = self.lines[line]
        return TOP + PITCH * (line + (place - start) / length)

    def page(self, x: float, ranges: Ranges, color: str) -> list[str]:
        """The page, with what was found marked."""
        box = f'x="{x:g}" y="{TOP - 8}" width="{PAGE}" height="{self.height + 16:.1f}" rx="4"'
        drawn = [f'<rect {box} fill="#fff" stroke="#9aa3af"/>']
        inside = [(s, e) for s, e in ranges if e > self.start and s < self.end]
        for start, end in inside:
            y, below = self.y(start), self.y(end)
            drawn.append(
                f'<rect x="{x + 1:g}" y="{y:.1f}" width="{PAGE - 2}" '
                f'height="{below - y - 0.8:.1f}" '
                f'fill="{color}" fill-opacity=".22"/>'
            )
        for name, is_marked in ((PALE, False), (color, True)):
            path = "".join(
                f"M{x + 14:g} {TOP + PITCH * (n + 0.5):.1f}h{(length - 1) * (PAGE - 28) / 80:.1f}"
                for n, (start, length) in enumerate(self.lines)
                if length > 1 and (covered(inside, start, start + length) > 0.5) == is_marked  # noqa: PLR2004
            )
            drawn.append(f'<path d="{path}" stroke="{name}" stroke-width="1"/>')
        return drawn


def mark(x: float, y: float, share: float) -> str:
    """A tick where a section was found, a cross where most of it is missing."""
    is_found = share > 0.9  # noqa: PLR2004
    path = f"M{x:g} {y:.1f}l4 4l7 -9" if is_found else f"M{x + 1:g} {y - 4:.1f}l8 8m0 -8l-8 8"
    color = "#0f766e" if is_found else MISSING
    return f'<path d="{path}" stroke="{color}" stroke-width="2.4" stroke-linecap="round"/>'


def draw() -> str:
    """The picture."""
    text = topics[SOURCE]
    drawn, (chunks, segments) = Drawn(text), found()
    places = [text.index(f"\n{name}\n-") + 1 for name in ANSWER]
    sections = list(zip(list(ANSWER.values()), places, places[1:], strict=False))
    height = TOP + drawn.height + 62
    sides = [
        (LEFT, chunks, "#b45309", "Top-k chunks", "fragments, with holes in the answer"),
        (RIGHT, segments, "#0f766e", "langchain-rse", "the passage, whole and in order"),
    ]
    body = [
        f'<rect width="{WIDTH}" height="{height:.0f}" rx="10" fill="#f8fafc"/>',
        text_at(WIDTH / 2, 36, f"“{QUESTION}”", font_size="21", text_anchor="middle"),
    ]
    y, below = drawn.y(places[0]), drawn.y(places[-1])
    for x, documents, color, name, note in sides:
        ranges = ranges_in(documents)
        body += drawn.page(x, ranges, color)
        body += [
            text_at(x, 80, name, font_size="19", font_weight="bold", fill=color),
            text_at(x, 101, note, font_size="14"),
        ]
        size = sum(len(one.page_content) for one in documents)
        kind = "chunks" if documents is chunks else "segments"
        summary = f"{len(documents)} {kind}, {size:,} characters"
        body.append(text_at(x, TOP + drawn.height + 30, summary, font_size="13", fill="#4b5563"))
        edge = LEFT + PAGE if x == LEFT else RIGHT
        side = 1 if x == LEFT else -1
        body.append(
            f'<path d="M{edge + side * 5:g} {y:.1f}h{side * 7}V{below - 6:.1f}h{side * -7}" '
            f'stroke="{INK}" stroke-width="1.4"/>'
        )
        for _, start, end in sections:
            middle = (drawn.y(start) + drawn.y(end)) / 2
            body.append(mark(edge + (20 if side > 0 else -31), middle, covered(ranges, start, end)))
    center = (LEFT + PAGE + RIGHT) / 2
    for label, start, end in sections:
        middle = (drawn.y(start) + drawn.y(end)) / 2 + 4.5
        body.append(text_at(center, middle, label, font_size="13", text_anchor="middle"))
    body += [
        text_at(
            center, y - 12, "the answer", font_size="13", text_anchor="middle", font_style="italic"
        ),
        text_at(
            WIDTH / 2,
            height - 14,
            f"Part of a text of {len(text):,} characters. A cross: not all of the step is there.",
            font_size="12",
            text_anchor="middle",
            fill="#4b5563",
        ),
    ]
    title = (
        f"{QUESTION} Of {BUDGET:,} characters, the best chunks have fragments of the section that "
        "answers, and the segments have all of it."
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" fill="none" '
        'font-family="system-ui, Segoe UI, Roboto, Noto Sans, sans-serif" role="img">'
        f"<title>{escape(title)}</title>\n<g>{chr(10).join(body)}</g></svg>\n"
    )


if __name__ == "__main__":
    PICTURE.write_text(draw(), encoding="utf-8")
