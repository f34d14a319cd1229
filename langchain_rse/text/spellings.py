"""Finds phrases in all spellings of a text.

Letters are one where their words are (see `fold_case`), and where only typography differs: case,
ligatures, wide letters, soft hyphens, decomposed letters, quotation marks and dashes.
"""

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import accumulate

from langchain_rse.text.words import fold_case

_MARKS = {
    "'": "\u2018\u2019\u201a\u201b\u2032\u02bc",
    '"': "\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb",
    "-": "\u2010\u2011\u2012\u2013\u2014\u2015\u2212",
}
ACCENTS = "\u0300-\u036f"
"""Marks of decomposed letters."""


class _Spellings(dict[str, str]):
    """By character, its usual spelling, which may be of several characters or empty."""

    def __missing__(self, character: str) -> str:
        spelling = fold_case(character)
        # The accents of other forms are kept: Korean letters stay composed.
        decomposed = unicodedata.normalize("NFD", spelling)
        if re.fullmatch(f".[{ACCENTS}]+", decomposed):
            spelling = decomposed
        self[character] = spelling
        return spelling


_SPELLINGS = _Spellings((mark, usual) for usual, marks in _MARKS.items() for mark in marks)


def usual_spelling(text: str) -> str:
    """Return a text in the spelling in which texts are compared."""
    return "".join(map(_SPELLINGS.__getitem__, text))


class SpelledExpression:
    """An expression that matches in all spellings; it is written in the usual one."""

    def __init__(self, expression: str) -> None:
        # A letter without an accent is another one.
        self._expression = re.compile(f"(?:{expression})(?![{ACCENTS}])")

    def finditer(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield the start and the end of each match that is not empty."""
        if text.isascii():
            matches = self._expression.finditer(text.lower())
            yield from (match.span() for match in matches if match[0])
            return
        spelled = list(map(_SPELLINGS.__getitem__, text))
        ends = list(accumulate(map(len, spelled)))
        for match in self._expression.finditer("".join(spelled)):
            if match[0]:
                yield bisect_right(ends, match.start()), bisect_left(ends, match.end()) + 1

    def split(self, text: str) -> list[str]:
        """Split a text into what does not match and what does, in turn."""
        parts: list[str] = []
        position = 0
        for start, end in self.finditer(text):
            parts += [text[position:start], text[start:end]]
            position = end
        return [*parts, text[position:]]
