"""Patterns: literals and regular expressions, found in time proportional to the text.

Both ignore case; literals are found in all spellings, see `spellings`.
"""

import importlib
import re
from collections.abc import Iterator
from typing import Any

from langchain_rse.text.spellings import SpelledExpression, usual_spelling

MOST_OF_PATTERN = 1_000
"""The most characters of a pattern."""

# The most instructions of a compiled expression: in the worst case, each reads each character.
_MOST_INSTRUCTIONS = 4_000

_SURROGATE = re.compile("[\ud800-\udfff]")


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
        self._expression: Any = _compile(text) if regex else _phrase_of(text)

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        """Find the matches in a text: first character and the one after the last, without overlaps.

        Empty matches do not count. A lone surrogate in the text matches as U+FFFD.
        """
        text = _without_surrogates(text)
        if isinstance(self._expression, SpelledExpression):
            return self._expression.finditer(text)
        return (match.span() for match in self._expression.finditer(text) if match[0])


def _phrase_of(literal: str) -> SpelledExpression | re.Pattern[str]:
    """An expression for a literal, in which white space matches any run of white space."""
    words = usual_spelling(literal).split()
    if not words:  # only characters that spellings leave out, such as a byte order mark
        return re.compile(re.escape(literal))
    # Only at the beginning of a run, so that long runs are not tried from each character.
    before = r"(?<!\s)\s+" if literal[0].isspace() else ""
    after = r"\s+" if literal[-1].isspace() else ""
    return SpelledExpression(before + r"\s+".join(map(re.escape, words)) + after)


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
