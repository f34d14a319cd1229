"""Finds phrases and the words of queries in all spellings, in time proportional to the text.

Letters are one where their words are (see `fold_case`), and where only typography differs: case,
ligatures, wide letters, soft hyphens, decomposed letters, quotation marks and dashes.
"""

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import accumulate

from langchain_rse.text.words import (
    SIGNED_WORD,
    fold_case,
    has_unspaced,
    split_words,
    without_function_words,
)

_SHORT = 3  # letters of short words
# Every pattern is tried at every character of a text, so long queries are cut.
_MOST_PATTERNS = 256
_LONGEST_WORD = 100

_MARKS = {
    "'": "\u2018\u2019\u201a\u201b\u2032\u02bc",
    '"': "\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb",
    "-": "\u2010\u2011\u2012\u2013\u2014\u2015\u2212",
}
ACCENTS = "\u0300-\u036f"
"""Marks of decomposed letters."""


@cache
def _usual_character(character: str) -> str:
    """Return the usual spelling of a character, which may be of several characters or empty."""
    for usual, marks in _MARKS.items():
        if character in marks:
            return usual
    spelling = fold_case(character)
    # The accents of other forms are kept: Korean letters stay composed.
    decomposed = unicodedata.normalize("NFD", spelling)
    return decomposed if re.fullmatch(f".[{ACCENTS}]+", decomposed) else spelling


def usual_spelling(text: str) -> str:
    """Return a text in the spelling in which texts are compared."""
    return "".join(map(_usual_character, text))


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
        spelled = list(map(_usual_character, text))
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


def query_words(queries: Iterable[str]) -> SpelledExpression | None:
    """Make an expression of the content words of queries; None if there are none to highlight.

    Words of three letters or fewer match only if they are names or numbers. Longer words match
    every word that begins with them, without a final "s".
    """
    content = " ".join(without_function_words(query) for query in queries)
    words = [match[0] for match in SIGNED_WORD.finditer(content)]
    for word in split_words(content):
        is_name = len(word) > 1 and not word.islower()
        if has_unspaced(word) or len(word) > _SHORT or is_name or word.isdigit():
            words.append(word)
    patterns = []
    for word in list(dict.fromkeys(words))[:_MOST_PATTERNS]:
        beginning = re.escape(usual_spelling(word.removesuffix("s")[:_LONGEST_WORD]))
        if has_unspaced(word):  # two neighboring characters
            patterns.append(beginning)
        elif len(word) > _SHORT:
            patterns.append(rf"(?<!\w){beginning}[\w{ACCENTS}]*")
        else:
            patterns.append(rf"(?<!\w){re.escape(usual_spelling(word))}(?!\w)")
    return SpelledExpression("|".join(patterns)) if patterns else None
