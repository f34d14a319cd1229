"""The example of the demo and of the docs' pictures: a question about Python's own reference.

Of some 40 questions tried, its answer shows best what chunks miss: it has three numbered steps,
whole in one passage, while the top-k chunks of the same length tear it apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from langchain_rse.explaining import Piece

QUESTION = "How does a match statement choose a case?"
MAX_CONTEXT_LENGTH = 2_400  # characters

_TITLE = "Compound statements"  # of the document with the answer
_FIRST_WORDS = "1. The subject expression"
_LAST_WORDS = "the match statement is\n     completed."

_PARAGRAPH = re.compile(r"(?:Note:\s+)?\S.*?(?=\n\s*\n|\s*\Z)", re.DOTALL)
_RULE = re.compile(r"[-=*]{3,}")  # below a heading
_MOST_NEIGHBORS = 2
_FEWEST_CHARACTERS = 40


class Paragraph(NamedTuple):
    """A paragraph in one line, without the rules that underline headings."""

    text: str
    is_answer: bool


class Outline(NamedTuple):
    """The texts that a retriever returned, with one line per paragraph.

    Where more than two paragraphs in a row are not part of the answer, the first one is kept. The
    last piece is omitted if the common length cut it down to a few characters.
    """

    pieces: list[list[Paragraph]]
    answered: float  # share of the answer, in characters
    missing: list[Paragraph]  # the answer's paragraphs that no piece has


@cache
def language_reference() -> dict[str, str]:
    """Python's language reference by title: half a megabyte, part of CPython for `help()`."""
    from pydoc_data.topics import topics

    # Some topics have the same text, such as "else" and "if".
    return {text.partition("\n")[0]: text for text in sorted(set(topics.values()))}


def outline_of(pieces: Sequence[Piece]) -> Outline:
    """Split texts into paragraphs, and mark those of the answer."""
    document = language_reference()[_TITLE]
    start = document.index(_FIRST_WORDS)
    end = document.index(_LAST_WORDS, start) + len(_LAST_WORDS)
    found: set[int] = set()  # positions in the document
    outlines = []
    for piece in pieces:
        if len(piece.text) < _FEWEST_CHARACTERS:
            continue
        answer = range(0)
        if piece.start is not None and document.startswith(piece.text, piece.start):
            answer = range(max(piece.start, start), min(piece.start + len(piece.text), end))
            found.update(answer)
        paragraphs = []
        for positions, text in _split(piece.text, piece.start or 0):
            overlaps = positions.start < answer.stop and answer.start < positions.stop
            paragraphs.append(Paragraph(text, is_answer=overlaps))
        outlines.append(_shortened(paragraphs))
    missing = [
        Paragraph(text, is_answer=True)
        for positions, text in _split(document[start:end], start)
        if found.isdisjoint(positions)
    ]
    return Outline(outlines, len(found) / (end - start), missing)


def _split(text: str, start: int) -> Iterator[tuple[range, str]]:
    """The paragraphs of a text: their positions in the document, and their words."""
    for match in _PARAGRAPH.finditer(text):
        words = [word for word in match[0].split() if not _RULE.fullmatch(word)]
        first = start + match.start()
        yield range(first, first + len(match[0])), " ".join(words)


def _shortened(paragraphs: Iterable[Paragraph]) -> list[Paragraph]:
    """Replace all but the first of many neighbors outside the answer by an ellipsis."""
    kept: list[Paragraph] = []
    for is_answer, run in groupby(paragraphs, key=lambda paragraph: paragraph.is_answer):
        neighbors = list(run)
        if not is_answer and len(neighbors) > _MOST_NEIGHBORS:
            neighbors = [neighbors[0], Paragraph("...", is_answer=False)]
        kept += neighbors
    return kept
