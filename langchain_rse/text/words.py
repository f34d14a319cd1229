"""Finds the words of texts in any script; all code that compares words uses this module.

Words are compared without regard to case and to letters that their language treats as one. In
scripts without spaces between words (Chinese, Japanese, Thai, Lao, Khmer, Burmese), pairs of
neighboring characters serve as words, and Chinese characters of texts as well. Only the content
words of a query count; function words of its language are ignored.
"""

import itertools
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray

from langchain_rse.text.function_words import ASKING_WORDS, FUNCTION_WORDS, SHARED_WORDS

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
HAN = "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
"""Chinese characters, also of Japanese: each may be a word."""
_HAN_CHARACTER = re.compile(f"[{HAN}]")
# Translates ASCII to lower-case words and spaces, much faster than a regular expression.
_ASCII = bytes(range(128))
_SPACED_ASCII = bytes.maketrans(_ASCII, re.sub(rb"[\W_]", b" ", _ASCII.lower()))
_LAST_OF_MARKS = 0x10000
# Invisible characters within words: soft hyphens, joiners, variation selectors.
INVISIBLE = "\u00ad\u200c\u200d\u2060\ufe00-\ufe0f\ufeff\U000e0100-\U000e01ef"
_INVISIBLE_CHARACTERS = re.compile(f"[{INVISIBLE}]+")
SIGNED_WORD = re.compile(
    r"(?<![\w.+#])(?:(?P<letter>[a-z])(?:(?P<plus>\+\+)|\#)|\.net\b)(?![\w+#])", re.IGNORECASE
)
"""A word with signs: C++, C#, F#, .NET."""
# A sign of such words, an expression that begins with it, which is fast, and the spelling.
_SIGNS = (
    ("+", re.compile(r"\+\+(?<=(?<![\w.+#])[A-Za-z]\+\+)(?![\w+#])"), "pp"),
    ("#", re.compile(r"#(?<=(?<![\w.+#])[A-Za-z]#)(?![\w+#])"), "sharp"),
    (".", re.compile(r"\.(?=[Nn][Ee][Tt](?![\w+#]))(?<![\w.+#]\.)"), "dot"),
)
# The rest of "what's", "don't" and "l'art"; elsewhere, these letters designate: vitamin D.
_RESTS = "cdjlmnst"
_QUOTATION = re.compile(r"`[^`]*`|\"[^\"]*\"|\u201c[^\u201c\u201d]*\u201d")


def without_function_words(query: str) -> str:
    """Remove function words from a query; return it unchanged if it has no other words.

    Of a long query, only the beginning counts. See `function_words_of`.
    """
    query = query[:MAX_QUERY_LENGTH]
    function_words = function_words_of(query)
    if function_words.issuperset(find_words(query)):
        return query
    return without_words(query, function_words.__contains__)


def content_words(query: str) -> list[str]:
    """Return the distinct content words of a query, in order; all words if it has no others."""
    query = query[:MAX_QUERY_LENGTH]
    function_words = function_words_of(query)
    words = dict.fromkeys(find_words(query))
    content = [word for word in words if word not in function_words]
    return content or list(words)


@lru_cache(maxsize=100)
def function_words_of(query: str) -> frozenset[str]:
    """Return the function words of a query's language, except words that it marks as meant.

    A query is in a language if it has two function words of it, or one in a question, and not only
    those that are English words or parts of names, too: "war crimes" is not German. The language
    is the one with the most words, the first one of ties; the result is empty if there is none.
    """
    meant = _meant_words(query)
    words = set(find_words(query)) - meant
    is_question = any(mark in query for mark in "?\uff1f\u061f\u037e")
    shared, asking, english, *others = _function_words()
    best: frozenset[str] = frozenset()
    for listed in (english, *others):
        found = words & listed
        in_question = is_question or found & asking
        own = found if listed is english else found - english - shared
        if own and (in_question or len(found) > 1) and len(found) > len(words & best):
            best = listed
    return best - meant


def _meant_words(query: str) -> set[str]:
    """Return the words that a query quotes or capitalizes, and letters that designate.

    So ``is`` counts in "What does `is` compare?", WHO is not a pronoun, and A is no article in
    "Which series is Series A?".
    """
    meant = split_words(" ".join(_QUOTATION.findall(query)))
    pronouns = _function_words()[2]
    is_shouted = query.isupper()
    before = ""
    for match in _word_pattern().finditer(query):
        word = match[0]
        if len(word) > 1:
            is_meant = word.isupper() and not is_shouted
        elif word.lower() in _RESTS:
            around = query[max(match.start() - 1, 0) : match.end() + 1]
            is_meant = not any(mark in around for mark in "'\u2019")
        else:
            # "I" is a pronoun after function words: "How do I", not "type I".
            is_pronoun = word == "I" and before in pronouns
            is_meant = word.isupper() and bool(before) and not is_shouted and not is_pronoun
        if is_meant:
            meant.append(word)
        before = word.lower()
    return set(map(fold_case, meant))


@cache
def _function_words() -> Sequence[frozenset[str]]:
    """Return shared words, words that ask, and the lists of all languages, normalized."""
    lists = (SHARED_WORDS, ASKING_WORDS, *FUNCTION_WORDS.values())
    return [frozenset(find_words(words)) for words in lists]


def find_words(text: str) -> list[str]:
    """Find the words of a text, in order, normalized for comparison."""
    text = _with_signs_spelled(text)
    if text.isascii():
        return text.encode().translate(_SPACED_ASCII).decode().split()
    return split_words(fold_case(text))


def _with_signs_spelled(text: str) -> str:
    """Spell words with signs by letters only: C++ is cpp, C# csharp, and .NET dotnet."""
    for sign, expression, spelling in _SIGNS:
        if sign in text:
            text = expression.sub(spelling, text)
    return text


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


def with_pairs(text: str, *, is_query: bool = False) -> str:
    """Prepare a text for an index that splits at spaces: fold letters, split unspaced scripts."""
    text = _with_signs_spelled(text)
    if text.isascii():
        return text

    def words_of(run: re.Match[str]) -> str:
        singles = [] if is_query else _single_characters(run[0])
        return f" {' '.join([*_pairs(run[0]), *singles])} "

    return _UNSPACED_RUN.sub(words_of, fold_case(text))


def has_unspaced(word: str) -> bool:
    """True if a word contains a character of a script without spaces between words."""
    return _UNSPACED_RUN.search(word) is not None


def fold_case(text: str) -> str:
    """Normalize case and letters that are one, and remove invisible characters.

    Compatible forms (wide letters) are one, and what `letter_forms` lists.
    """
    if text.isascii():
        return text.lower()
    visible_text = _INVISIBLE_CHARACTERS.sub("", text)
    # NFKC may produce capitals, and case folding may produce decomposed forms.
    folded = unicodedata.normalize("NFKC", visible_text).casefold()
    forms = letter_forms()
    return _other_forms().sub(lambda form: forms[form[0]], unicodedata.normalize("NFKC", folded))


@cache
def letter_forms() -> Mapping[str, str]:
    """Return the letters that are another one in some spellings; "" for marks that may be missing.

    Persian and Arabic forms, Russian \u0451, Greek letters with accents, digits of all scripts,
    and vowel marks of Arabic and Hebrew.
    """
    forms = dict.fromkeys("\u0622\u0623\u0625\u0671", "\u0627")  # alif, often without hamza
    forms |= {"\u06cc": "\u064a", "\u0649": "\u064a", "\u06a9": "\u0643", "\u0451": "\u0435"}
    forms["\u0640"] = ""  # stretches Arabic words
    for character in map(chr, range(128, _LAST_OF_MARKS)):
        kind = unicodedata.category(character)
        base = unicodedata.normalize("NFD", character)[0]
        if kind == "Nd":
            forms[character] = str(unicodedata.decimal(character))
        elif kind == "Mn" and "\u0590" < character < "\u06ef":
            forms[character] = ""
        elif kind == "Ll" and "\u0370" < base < "\u0400":
            forms[character] = base
    return {character: base for character, base in forms.items() if character != base}


@cache
def _other_forms() -> re.Pattern[str]:
    return re.compile(f"[{''.join(letter_forms())}]")


class TextWords:
    """The words of several texts, in arrays.

    Attributes:
        numbers: The number of each text; equal texts have one number.
        sizes: The number of words in each text.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        """Find the words of all texts."""
        self.numbers = dict(zip(dict.fromkeys(texts), itertools.count()))
        words_of_texts = spaced_words(list(self.numbers))
        joined = b" ".join([b"", *words_of_texts, b""])
        self._codes = np.frombuffer(joined, np.uint8)
        # Words begin and end at changes between spaces and other bytes.
        is_space = self._codes == ord(" ")
        changes = np.flatnonzero(np.diff(is_space))
        edges = (changes + 1).astype(np.int32)  # half the memory
        self._starts = edges[::2]
        lengths = edges[1::2] - self._starts
        first_bytes = self._codes[self._starts]
        self._keys = lengths * 256 + first_bytes
        text_lengths = [len(words) + 1 for words in words_of_texts]
        self._text_ends = np.cumsum(text_lengths)
        words_before_end = np.searchsorted(self._starts, self._text_ends)
        self.sizes = np.diff(words_before_end, prepend=0).astype(np.float64)
        self._counts: dict[str, NDArray[np.intp]] = {}  # of words that were counted before

    def counts(self, words: Sequence[str]) -> NDArray[np.float64]:
        """Count words, in the form of `find_words`, in each text; shape ``(texts, words)``."""
        counts = np.zeros((len(self.numbers), len(words)))
        for column, word in enumerate(words):
            if word not in self._counts:
                self._counts[word] = self._count(word)
            counts[:, column] = self._counts[word]
        return counts

    def _count(self, word: str) -> NDArray[np.intp]:
        codes = np.frombuffer(word.encode(), np.uint8)
        length = len(codes)
        key = length * 256 + int(codes[0])
        starts = self._starts[self._keys == key]
        places = starts[:, None] + np.arange(length)
        is_word = (self._codes[places] == codes).all(axis=1)
        found = starts[is_word]
        numbers = np.searchsorted(self._text_ends, found)
        return np.bincount(numbers, minlength=len(self.numbers))


def spaced_words(texts: Sequence[str]) -> list[bytes]:
    """Return the words of each text, in any order, as UTF-8 with spaces between them."""
    words_of_texts: list[bytes] = []
    other_pieces: dict[int, str] = {}  # pieces that are not ASCII, by the number of the text
    for number, text in enumerate(map(_with_signs_spelled, texts)):
        ascii_text = text
        if not text.isascii():
            pieces = text.split()
            ascii_text = " ".join(filter(str.isascii, pieces))
            other_pieces[number] = " ".join(itertools.filterfalse(str.isascii, pieces))
        words_of_texts.append(ascii_text.encode().translate(_SPACED_ASCII))
    folded_pieces = fold_case("\n".join(other_pieces.values()))  # in one call, which is faster
    for number, folded in zip(other_pieces, folded_pieces.split("\n"), strict=False):
        words = " ".join(["", *split_words(folded), *_single_characters(folded)])
        words_of_texts[number] += words.encode().translate(_SPACED_ASCII)
    return words_of_texts


def _pairs(part: str) -> list[str]:
    """Return the pairs of neighboring characters of an unspaced run; other parts whole."""
    if len(part) == 1 or not has_unspaced(part):
        return [part]
    return [part[start : start + 2] for start in range(len(part) - 1)]


def _single_characters(text: str) -> list[str]:
    """Return the Chinese characters beside others, which may be words of their own."""
    singles: list[str] = []
    for run in _UNSPACED_RUN.findall(text):
        if len(run) > 1:
            singles += _HAN_CHARACTER.findall(run)
    return singles


@cache
def combining_marks() -> str:
    """Return all marks that belong to the character before them."""
    characters = map(chr, range(_LAST_OF_MARKS))  # marks of higher code points are rare
    return "".join(each for each in characters if unicodedata.category(each)[0] == "M")


@cache
def _word_pattern() -> re.Pattern[str]:
    """Match letters and digits, with the marks (vowel signs of Hindi) and invisible characters."""
    within_words = f"[{combining_marks()}{INVISIBLE}]"
    return re.compile(rf"[^\W_]+(?:{within_words}+[^\W_]*)*")
