"""Finds the words of texts in any script; all code that compares words uses this module.

Words are compared without regard to case. In scripts without spaces between words (Chinese,
Japanese, Thai, Lao, Khmer, Burmese), pairs of neighboring characters serve as words. Only the
content words of a query count; function words of its language are ignored.
"""

import itertools
import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray

from langchain_rse.text.function_words import FUNCTION_WORDS

MAX_QUERY_LENGTH = 10_000
"""Number of characters of a query whose words count.

Tools for agents and the command line reject longer queries. Counting words takes time proportional
to the length of the query, and blocks the event loop.
"""

# Thai, Lao, Burmese, Khmer, Chinese characters and kana.
UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uaa60-\uaa7f\uf900-\ufaff\U00020000-\U0003ffff"
)
_UNSPACED_RUN = re.compile(f"([{UNSPACED}]+)")
# Translates ASCII to lower-case words and spaces, much faster than a regular expression.
_ASCII = bytes(range(128))
_SPACED_ASCII = bytes.maketrans(_ASCII, re.sub(rb"[\W_]", b" ", _ASCII.lower()))
_LAST_OF_MARKS = 0x10000  # marks of higher code points are rare
# Invisible characters within words: soft hyphens, joiners, variation selectors.
INVISIBLE = "\u00ad\u200c\u200d\u2060\ufe00-\ufe0f\ufeff\U000e0100-\U000e01ef"
_INVISIBLE_CHARACTERS = re.compile(f"[{INVISIBLE}]+")
_QUOTATION = re.compile(r"`[^`]*`|\"[^\"]*\"|\u201c[^\u201c\u201d]*\u201d")


def beginning_of(query: str) -> str:
    """Return the part of a query whose words count."""
    return query[:MAX_QUERY_LENGTH]


@lru_cache(maxsize=100)  # each step of a query calls it
def without_function_words(query: str) -> str:
    """Remove function words from a query; return it unchanged if it has no other words.

    Function words are from one language; see `function_words_of`.
    """
    function_words = function_words_of(query)
    if function_words.issuperset(find_words(query)):
        return query
    return without_words(query, function_words.__contains__)


def content_words(query: str) -> list[str]:
    """Return the distinct content words of a query, in order."""
    return list(dict.fromkeys(find_words(without_function_words(query))))


@lru_cache(maxsize=100)
def function_words_of(query: str) -> frozenset[str]:
    """Return the function words of a query's language, except words that it quotes or capitalizes.

    So ``is`` counts in "What does `is` compare?", and WHO is not a pronoun. The language is the one
    whose list contains the most words of the query, the first one of ties. The result is empty if
    no list contains any of them.
    """
    words = find_words(query)
    function_words = max(
        _function_words(), key=lambda listed: sum(word in listed for word in words)
    )
    marked = split_words(" ".join(_QUOTATION.findall(query)))
    if not query.isupper():
        marked += [word for word in split_words(query) if len(word) > 1 and word.isupper()]
    return function_words.difference(map(fold_case, marked))


@cache
def _function_words() -> Sequence[frozenset[str]]:
    """Return the lists of all languages, normalized; the first is empty, for unknown ones."""
    return [frozenset(find_words(words)) for words in ("", *FUNCTION_WORDS.values())]


def find_words(text: str) -> list[str]:
    """Find the words of a text, in order, normalized for comparison."""
    if text.isascii():
        return text.encode().translate(_SPACED_ASCII).decode().split()
    return split_words(fold_case(text))


def split_words(text: str) -> list[str]:
    """Find the words of a text, in order, as written."""
    words: list[str] = _word_pattern().findall(text)
    if not has_unspaced(text):
        return words
    split: list[str] = []
    for word in words:
        for part in _UNSPACED_RUN.split(word):
            if part:
                split += _pairs(part)
    return split


def without_words(text: str, is_removed: Callable[[str], bool]) -> str:
    """Remove words from a text, and collapse white space.

    Args:
        text: The text.
        is_removed: Returns True for words to remove, in the form of `find_words`.
    """

    def remaining_of(word: re.Match[str]) -> str:
        remaining = ""
        for part in _UNSPACED_RUN.split(word[0]):
            kept = list(part)
            for start, unit in enumerate(_pairs(part)):
                if is_removed(fold_case(unit)):
                    kept[start : start + len(unit)] = [""] * len(unit)
            remaining += "".join(kept)
        return remaining

    return " ".join(_word_pattern().sub(remaining_of, text).split())


def with_pairs(text: str) -> str:
    """Prepare a text for an index that splits at spaces: fold case, split unspaced scripts."""
    if text.isascii():
        return text
    return _UNSPACED_RUN.sub(lambda run: f" {' '.join(_pairs(run[0]))} ", fold_case(text))


def has_unspaced(word: str) -> bool:
    """True if a word contains a character of a script without spaces between words."""
    return _UNSPACED_RUN.search(word) is not None


def fold_case(text: str) -> str:
    """Normalize case and compatible forms (wide letters), and remove invisible characters."""
    if text.isascii():
        return text.lower()
    visible_text = _INVISIBLE_CHARACTERS.sub("", text)
    # NFKC may produce capitals, and case folding may produce decomposed forms.
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", visible_text).casefold())


class TextWords:
    """The words of several texts, counted in arrays.

    Attributes:
        sizes: The number of words in each text.
    """

    def __init__(self, words_of_texts: Sequence[bytes]) -> None:
        """Put the words of all texts, from `spaced_words`, in one array of bytes."""
        joined = b" ".join([b"", *words_of_texts, b""])
        self._codes = np.frombuffer(joined, np.uint8)
        is_space = self._codes == ord(" ")
        # Words begin and end at changes between spaces and other bytes.
        edges = np.flatnonzero(np.diff(is_space)) + 1
        self._starts = edges[::2]
        lengths = edges[1::2] - self._starts
        first_codes = self._codes[self._starts]
        self._keys = lengths * 256 + first_codes
        text_lengths = [len(words) + 1 for words in words_of_texts]
        self._text_ends = np.cumsum(text_lengths)
        words_before_end = np.searchsorted(self._starts, self._text_ends)
        self.sizes = np.diff(words_before_end, prepend=0).astype(np.float64)

    def counts(self, words: Sequence[str]) -> NDArray[np.float64]:
        """Count words, in the form of `find_words`, in each text; shape ``(texts, words)``."""
        counts = np.zeros((self.sizes.size, len(words)))
        for column, word in enumerate(words):
            codes = word.encode()
            matches = self._starts[self._keys == len(codes) * 256 + codes[0]]
            for offset, code in enumerate(codes[1:], 1):
                matches = matches[self._codes[matches + offset] == code]
            numbers = np.searchsorted(self._text_ends, matches)
            counts[:, column] = np.bincount(numbers, minlength=len(counts))
        return counts


def spaced_words(text: str) -> bytes:
    """Return the words of a text, in any order, as UTF-8 with spaces between them."""
    if not text.isascii():
        pieces = text.split()
        other_words = find_words(" ".join(itertools.filterfalse(str.isascii, pieces)))
        text = " ".join([*filter(str.isascii, pieces), *other_words])
    return text.encode().translate(_SPACED_ASCII)


def _pairs(part: str) -> list[str]:
    """Return the pairs of neighboring characters of an unspaced run; other parts whole."""
    if len(part) == 1 or not has_unspaced(part):
        return [part]
    return [part[start : start + 2] for start in range(len(part) - 1)]


@cache
def _word_pattern() -> re.Pattern[str]:
    """Match letters and digits, with the marks (vowel signs of Hindi) and invisible characters."""
    characters = map(chr, range(_LAST_OF_MARKS))
    marks = "".join(each for each in characters if unicodedata.category(each)[0] == "M")
    within_words = f"[{marks}{INVISIBLE}]"
    return re.compile(rf"[^\W_]+(?:{within_words}+[^\W_]*)*")
