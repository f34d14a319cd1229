"""Finds the words of texts in any script; everything that compares words finds them here.

Words are compared without regard to case. Scripts that put no spaces between words (Chinese,
Japanese, Thai, Lao, Khmer, Burmese) have pairs of neighboring characters in place of words.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator
from functools import cache, lru_cache

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
        if not has_unspaced(word):
            yield word
            continue
        for part in _unspaced_pattern().findall(word):
            if has_unspaced(part):
                yield from _pairs(part)
            else:
                yield part


def without_words(text: str, is_left_out: Callable[[str], bool]) -> str:
    """The text as it is written, without some words, in single spaces.

    Args:
        text: The text.
        is_left_out: True for words to leave out, as `find_words` finds them.
    """

    def remaining(match: re.Match[str]) -> str:
        kept = []
        for part in _unspaced_pattern().findall(match[0]):
            if has_unspaced(part):
                kept.append(_without_pairs(part, is_left_out))
            elif not is_left_out(fold_case(part)):
                kept.append(part)
        return "".join(kept)

    return " ".join(_word_pattern().sub(remaining, text).split())


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
