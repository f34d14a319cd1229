"""The words of a query, to highlight them in texts."""

import re
from collections.abc import Iterable

_SHORT = 3  # letters of words such as "the"
# Scripts without spaces between words: Thai, Lao, Burmese, Khmer, Chinese and Japanese.
_SPACELESS = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\ua4cf\uf900-\ufaff]")


def query_words(queries: Iterable[str]) -> re.Pattern[str] | None:
    """Make a pattern that matches the words of queries; None if they have no word to highlight.

    Short words match only if they are names or numbers, others in all forms that begin alike.
    """
    patterns: dict[str, None] = {}
    for word in re.findall(r"\w+", " ".join(queries)):
        patterns.update(dict.fromkeys(_patterns_of(word)))
    if not patterns:
        return None
    return re.compile(f"({'|'.join(patterns)})", re.IGNORECASE)


def _patterns_of(word: str) -> list[str]:
    if _SPACELESS.search(word):
        # Any two neighboring characters.
        last = max(len(word) - 1, 1)
        return [word[start : start + 2] for start in range(last)]
    if len(word) > _SHORT:
        return [rf"\b{word.removesuffix('s')}\w*"]
    is_name = len(word) > 1 and not word.islower()
    if is_name or word.isdigit():
        return [rf"\b{word}\b"]
    return []
