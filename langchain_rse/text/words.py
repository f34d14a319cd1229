"""Finds the words of texts in any script; everything that compares words finds them here.

Words are compared without regard to case. Scripts that put no spaces between words (Chinese,
Japanese, Thai, Lao, Khmer, Burmese) have pairs of neighboring characters in place of words. Of a
query, the content words count: those that are no function words of its language.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache

from langchain_rse.text.function_words import FUNCTION_WORDS

MAX_QUERY_LENGTH = 10_000
"""The characters of a query whose words count. Agents' tools and the command line refuse more.

Counting words takes time in proportion to the query, during which an event loop does nothing else.
"""

# Thai, Lao, Burmese, Khmer, Chinese characters and kana.
UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uaa60-\uaa7f\uf900-\ufaff\U00020000-\U0003ffff"
)
_UNSPACED_CHARACTER = re.compile(f"[{UNSPACED}]")
# Translates ASCII to words in lower case with spaces between, much faster than the expression.
_ASCII = bytes(range(128))
_SPACED_ASCII = bytes.maketrans(_ASCII, re.sub(rb"[\W_]", b" ", _ASCII.lower()))
_LAST_OF_MARKS = 0x10000  # those of later scripts are rare
# Characters within words that are not seen: soft hyphens, joiners, selectors of a character's form.
INVISIBLE = "\u00ad\u200c\u200d\u2060\ufe00-\ufe0f\ufeff\U000e0100-\U000e01ef"
_INVISIBLE_CHARACTERS = re.compile(f"[{INVISIBLE}]+")
_QUOTATION = re.compile(r"`[^`]*`|\"[^\"]*\"|\u201c[^\u201c\u201d]*\u201d")


def beginning_of(query: str) -> str:
    """The part of a query whose words count."""
    return query[:MAX_QUERY_LENGTH]


@lru_cache(maxsize=100)  # each step of a query asks for them
def without_function_words(query: str) -> str:
    """The query as it is written, without function words; all of it if it has no other words.

    The words that are left out are those of one language, see `function_words_of`.
    """
    function_words = function_words_of(query)
    if function_words.issuperset(find_words(query)):
        return query
    return without_words(query, function_words.__contains__)


@lru_cache(maxsize=100)
def function_words_of(query: str) -> frozenset[str]:
    """The function words of a query's language, but those that the query quotes or capitalizes.

    So ``is`` counts in "What does `is` compare?", and WHO is no pronoun. The language is the one
    whose list has most of the query's words, the first of the lists if several have as many. Empty
    if no list has any of them.
    """
    words = find_words(query)
    function_words: frozenset[str] = frozenset()
    most = 0
    for listed_words in _function_words():
        count = sum(word in listed_words for word in words)
        if count > most:
            function_words = listed_words
            most = count
    meant = list(split_words(" ".join(_QUOTATION.findall(query))))
    if not query.isupper():
        meant += [word for word in split_words(query) if len(word) > 1 and word.isupper()]
    return function_words.difference(map(fold_case, meant))


@cache
def _function_words() -> Sequence[frozenset[str]]:
    """The lists of all languages, in the form in which words are compared."""
    return [frozenset(find_words(words)) for words in FUNCTION_WORDS.values()]


@lru_cache(maxsize=2_000)  # a query needs the words of its candidates twice
def spaced_words(text: str) -> bytes:
    """The words of a text as UTF-8, with spaces between."""
    if text.isascii():
        return text.encode().translate(_SPACED_ASCII)
    return " ".join(find_words(text)).encode(errors="replace")


def find_words(text: str) -> list[str]:
    """Find the words of a text, in its order, in the form in which they are compared."""
    return list(split_words(fold_case(text)))


def split_words(text: str) -> Iterator[str]:
    """Find the words of a text, in its order, as they are written."""
    for match in _word_pattern().finditer(text):
        word = match[0]
        if not _UNSPACED_CHARACTER.search(word):
            yield word
            continue
        for part in _unspaced_pattern().findall(word):
            if _UNSPACED_CHARACTER.match(part):
                yield from _pairs(part)
            else:
                yield part


def without_words(text: str, is_left_out: Callable[[str], bool]) -> str:
    """The text as it is written, without some words, in single spaces.

    Args:
        text: The text.
        is_left_out: True for words to leave out, as `find_words` finds them.
    """
    remaining: list[str] = []
    end = 0
    for match in _word_pattern().finditer(text):
        remaining.append(text[end : match.start()])
        end = match.end()
        for part in _unspaced_pattern().findall(match[0]):
            if _UNSPACED_CHARACTER.match(part):
                remaining.append(_without_pairs(part, is_left_out))
            elif not is_left_out(fold_case(part)):
                remaining.append(part)
    remaining.append(text[end:])
    return " ".join("".join(remaining).split())


def with_pairs(text: str) -> str:
    """A text for an index that splits it at spaces: folded, its unspaced scripts in pairs."""
    if text.isascii():
        return text
    return _unspaced_run().sub(lambda run: f" {' '.join(_pairs(run[0]))} ", fold_case(text))


def has_unspaced(word: str) -> bool:
    """True if a word has a character of a script that puts no spaces between words."""
    return _UNSPACED_CHARACTER.search(word) is not None


def fold_case(text: str) -> str:
    """The text without differences of case and of compatible forms, such as wide letters.

    Without invisible characters, such as soft hyphens, too.
    """
    if text.isascii():
        return text.lower()
    visible_text = _INVISIBLE_CHARACTERS.sub("", text)
    # Compatible forms may have capitals, and folding may leave forms that are not composed.
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", visible_text).casefold())


def _pairs(run: str) -> list[str]:
    """The pairs of neighboring characters of a run; the run itself if it is shorter."""
    if len(run) == 1:
        return [run]
    return [run[start : start + 2] for start in range(len(run) - 1)]


def _without_pairs(run: str, is_left_out: Callable[[str], bool]) -> str:
    """A run without the characters of some pairs."""
    left_out: set[int] = set()
    for start, pair in enumerate(_pairs(run)):
        if is_left_out(fold_case(pair)):
            left_out.update(range(start, start + len(pair)))
    return "".join(character for number, character in enumerate(run) if number not in left_out)


@cache
def _marks() -> str:
    """All combining marks, such as the vowel signs of Hindi, for a class of characters."""
    characters = map(chr, range(_LAST_OF_MARKS))
    return "".join(
        character for character in characters if unicodedata.category(character)[0] == "M"
    )


@cache
def _word_pattern() -> re.Pattern[str]:
    """Letters and digits, and marks and invisible characters after them."""
    within_words = f"[{_marks()}{INVISIBLE}]"
    return re.compile(rf"[^\W_]+(?:{within_words}+[^\W_]*)*")


@cache
def _unspaced_run() -> re.Pattern[str]:
    return re.compile(f"[{UNSPACED}]+")


@cache
def _unspaced_pattern() -> re.Pattern[str]:
    """Runs of characters of scripts without spaces, and of others."""
    return re.compile(f"[{UNSPACED}]+|[^{UNSPACED}]+")
