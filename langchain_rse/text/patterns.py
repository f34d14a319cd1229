"""Finds literals, regular expressions and the words of queries, in time proportional to the text.

Both ignore case. Literals and words are found in all spellings: letters are one where their words
are (see `fold_case`), and where only typography differs: case, ligatures, wide letters, soft
hyphens, decomposed letters, quotation marks and dashes.
"""

import importlib
import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import accumulate
from typing import Any

from langchain_rse.text.words import (
    SIGNED_WORD,
    fold_case,
    has_unspaced,
    split_words,
    without_function_words,
)

MOST_OF_PATTERN = 1_000
"""The most characters of a pattern."""

# The most instructions of a compiled expression: in the worst case, each reads each character.
_MOST_INSTRUCTIONS = 4_000

_SURROGATE = re.compile("[\ud800-\udfff]")

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


class Pattern:
    r"""A literal or a regular expression to find in texts.

    White space in a literal matches any run of white space, so phrases are found across line ends.
    Ligatures, wide and decomposed letters, soft hyphens, and the forms of quotation marks and
    dashes make no difference to a literal.

    Args:
        text: The literal, or the expression in RE2's syntax: ``^`` and ``$`` match at line ends,
            and ``\w``, ``\d``, ``\s`` and ``\b`` know ASCII only.
        regex: Whether ``text`` is a regular expression.

    Raises:
        ValueError: If ``text`` is blank or too long, or is no expression that RE2 can use.
        ImportError: For an expression, if google-re2 is not installed.
    """

    def __init__(self, text: str, *, regex: bool = False) -> None:
        if not text or (not regex and text.isspace()):
            raise ValueError("a pattern needs at least one character that is not white space")
        if len(text) > MOST_OF_PATTERN:
            raise ValueError(
                f"a pattern has at most {MOST_OF_PATTERN:,} characters; got {len(text):,}"
            )
        text = _without_surrogates(text)
        words = usual_spelling(text).split()
        self._expression: Any
        if regex:
            self._expression = _compile(text)
        elif words:
            # Only at the beginning of a run, so that long runs are not tried from each character.
            before = r"(?<!\s)\s+" if text[0].isspace() else ""
            after = r"\s+" if text[-1].isspace() else ""
            phrase = before + r"\s+".join(map(re.escape, words)) + after
            self._expression = SpelledExpression(phrase)
        else:  # only characters that spellings leave out, such as a byte order mark
            self._expression = re.compile(re.escape(text))

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        """Find the matches in a text: first character and the one after the last, without overlaps.

        Empty matches do not count. A lone surrogate in the text matches as U+FFFD.
        """
        text = _without_surrogates(text)
        if isinstance(self._expression, SpelledExpression):
            return self._expression.finditer(text)
        return (match.span() for match in self._expression.finditer(text) if match[0])


def _without_surrogates(text: str) -> str:
    try:
        text.encode()  # ten times faster than the expression
    except UnicodeEncodeError:
        return _SURROGATE.sub("\ufffd", text)
    return text


def _compile(expression: str) -> Any:  # noqa: ANN401 - of a package without types
    try:
        re2: Any = importlib.import_module("re2")
    except ImportError as error:
        message = "regex=True needs google-re2: pip install 'langchain-rse[regex]'"
        raise ImportError(message) from error
    options = re2.Options()
    options.log_errors = False
    options.case_sensitive = False
    try:
        compiled = re2.compile(f"(?m){expression}", options)
    except re2.error as error:
        [problem] = error.args
        reason = problem.decode(errors="replace") if isinstance(problem, bytes) else problem
        reason = reason.replace("(?m)", "", 1)
        raise ValueError(f"the regular expression {expression!r} is wrong: {reason}") from error
    if compiled.programsize > _MOST_INSTRUCTIONS:
        raise ValueError(
            f"the regular expression {expression!r:.100} is too large: repeat less in it"
        )
    return compiled


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
