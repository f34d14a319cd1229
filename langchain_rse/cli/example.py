"""The example of the demo and of the docs' pictures: a question about Python's own reference.

Of some 40 questions tried, its answer shows best what chunks miss: it has three numbered steps,
whole in one passage, while the top-k chunks of the same length tear it apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
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


class Paragraph(NamedTuple):
    """A paragraph in one line, without the rules that underline headings."""

    text: str
    is_answer: bool


class Outline(NamedTuple):
    """The texts that a retriever returned, with one line per paragraph.

    Where more than two paragraphs in a row are not part of the answer, the first one is kept.
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
    answer = _paragraphs_of(document[start:end])
    found = []
    outlines = []
    for piece in pieces:
        paragraphs = []
        for text in _paragraphs_of(piece.text):
            is_answer = text in answer
            paragraphs.append(Paragraph(text, is_answer))
            if is_answer:
                found.append(text)
        outlines.append(_shortened(paragraphs))
    missing = [Paragraph(text, is_answer=True) for text in answer if text not in found]
    answered = len("".join(found)) / len("".join(answer))
    return Outline(outlines, answered, missing)


def _paragraphs_of(text: str) -> list[str]:
    """Split a text into paragraphs of one line each."""
    paragraphs = []
    for match in _PARAGRAPH.finditer(text):
        words = [word for word in match[0].split() if not _RULE.fullmatch(word)]
        paragraphs.append(" ".join(words))
    return paragraphs


def _shortened(paragraphs: Iterable[Paragraph]) -> list[Paragraph]:
    """Replace all but the first of many neighbors outside the answer by an ellipsis."""
    kept: list[Paragraph] = []
    for is_answer, run in groupby(paragraphs, key=lambda paragraph: paragraph.is_answer):
        neighbors = list(run)
        if not is_answer and len(neighbors) > _MOST_NEIGHBORS:
            neighbors = [neighbors[0], Paragraph("...", is_answer=False)]
        kept += neighbors
    return kept
