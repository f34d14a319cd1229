"""Finds the words of a query in texts, to highlight them."""

import re
from collections.abc import Iterable

from langchain_rse.text.spellings import ACCENTS, SpelledExpression, usual_spelling
from langchain_rse.text.words import (
    SIGNED_WORD,
    has_unspaced,
    split_words,
    without_function_words,
)

_SHORT = 3  # letters of short words
# Every pattern is tried at every character of a text, so long queries are cut.
_MOST_PATTERNS = 256
_LONGEST_WORD = 100


def query_words(queries: Iterable[str]) -> SpelledExpression | None:
    """Make an expression of the content words of queries; None if there are none to highlight.

    Words of three letters or fewer match only if they are names or numbers. Longer words match
    every word that begins with them, without a final "s".
    """
    content = " ".join(without_function_words(query) for query in queries)
    signed = [match[0] for match in SIGNED_WORD.finditer(content)]
    words = [word for word in split_words(content) if _is_shown(word)]
    words = list(dict.fromkeys([*signed, *words]))[:_MOST_PATTERNS]
    if not words:
        return None
    return SpelledExpression("|".join(map(_pattern_of, words)))


def _is_shown(word: str) -> bool:
    """True for pairs of characters, longer words, names and numbers."""
    is_name = len(word) > 1 and not word.islower()
    return has_unspaced(word) or len(word) > _SHORT or is_name or word.isdigit()


def _pattern_of(word: str) -> str:
    spelled = re.escape(usual_spelling(word.removesuffix("s")[:_LONGEST_WORD]))
    if has_unspaced(word):  # two neighboring characters
        return spelled
    if len(word) > _SHORT:
        # Longer words match by their beginning.
        return rf"(?<!\w){spelled}[\w{ACCENTS}]*"
    return rf"(?<!\w){re.escape(usual_spelling(word))}(?!\w)"
