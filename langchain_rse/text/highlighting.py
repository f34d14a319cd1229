"""Makes a pattern that highlights the words of a query in texts."""

import re
from collections.abc import Iterable

from langchain_rse.text.words import has_unspaced, split_words, without_function_words

_SHORT = 3  # maximum length of a short word, such as "the"
# Every pattern is tried at every character of a text, so only this many words are highlighted.
_MOST_PATTERNS = 256
_LONGEST_WORD = 100  # of a longer word, only the beginning is compared


def query_words(queries: Iterable[str]) -> re.Pattern[str] | None:
    """Make a pattern that matches the content words of queries; None if there are none.

    Short words match only if they are names or numbers. Longer words match all words with the same
    beginning.
    """
    patterns: dict[str, None] = {}
    content = " ".join(without_function_words(query) for query in queries)
    for word in split_words(content):
        pattern = _pattern_of(word)
        if pattern is not None:
            patterns[pattern] = None
        if len(patterns) >= _MOST_PATTERNS:
            break
    if not patterns:
        return None
    return re.compile(f"({'|'.join(patterns)})", re.IGNORECASE)


def _pattern_of(word: str) -> str | None:
    """Return the pattern of a word (letters, digits, marks); None if it is not highlighted."""
    if has_unspaced(word):  # two neighboring characters
        return word
    if len(word) > _LONGEST_WORD:
        return rf"\b{word[:_LONGEST_WORD]}\w*"
    if len(word) > _SHORT:
        return rf"\b{word.removesuffix('s')}\w*"
    is_name = len(word) > 1 and not word.islower()
    if is_name or word.isdigit():
        return rf"\b{word}\b"
    return None
