"""Finds the ends of sentences and of characters, in any script."""

import re
import sys
from collections.abc import Sequence
from functools import cache

from langchain_rse.text.words import combining_marks

SPACED_ENDS = ".?!…؟\u06d4\u0589"
"""Marks that end a sentence before white space: Latin, Arabic, Urdu, Armenian."""

UNSPACED_ENDS = "。\uff01\uff1f｡।॥။៕។።།"
"""Marks that end a sentence without white space after them.

Chinese and Japanese (\\uff01 is a wide !, \\uff1f a wide ?), Hindi, Burmese, Khmer, Amharic and
Tibetan.
"""

# Marks that may follow the end of a sentence; in French, a space precedes the last one.
_CLOSING = r"\"'”\u201c\u2019«»)\]"
_UNSPACED_CLOSING = rf"{_CLOSING}」』\uff09"
# Before a full stop that does not end a sentence, by length: a capital letter ("J. Smith"), an
# ordinal ("18. März") or an abbreviation. Nor does any mark end a sentence before a small letter
# ("e.g. this") or a digit ("Fig. 3"), unless it numbers a section ("1.8.").
_ABBREVIATIONS = (
    r"[A-ZÀ-ÞΑ-ΩА-ЯЁ]|\d",
    r"\d\d|No|Nr|Bd|Dr|Mr|Ms|St|Ch|Eq|Rn|pp|cf|vs",
    "Fig|Nos|vol|Vol|Abs|Art|Mrs|Sec|Tab",
    "Figs|Prof|Ziff",
)
_NO_ABBREVIATION = "".join(rf"(?<!\b(?:{words})\.)" for words in _ABBREVIATIONS)
_NO_CONTINUATION = r"(?![a-zß-ÿα-ωа-яё]|(?!\d{1,3}(?:\.\d{1,3})+\.\s)\d)"
_MARKS = SPACED_ENDS + UNSPACED_ENDS
# Behind a mark. The quick checks come first.
_REST_OF_END = (
    rf"(?<=[{UNSPACED_ENDS}])[{_UNSPACED_CLOSING}]*\s*"
    rf"|(?=[{_CLOSING}\s]){_NO_ABBREVIATION}(?:[{_CLOSING}]|[ \xa0\u202f]»)*"
    rf"\s+(?!\s){_NO_CONTINUATION}"
)
# Expressions that begin with a set of characters are fast to search. Each run of closing marks and
# white space follows one mark, so the time is linear.
_SENTENCE_END = re.compile(f"[{_MARKS}](?:{_REST_OF_END})")
_SENTENCE_OR_LINE_END = re.compile(rf"[\n{_MARKS}](?:(?<=\n)|{_REST_OF_END})")


def sentence_ends(text: str, start: int = 0, end: int = sys.maxsize) -> list[int]:
    """Return the ends of sentences in a part of a text, after closing marks and white space.

    The end of the part does not count as the end of a sentence, unless white space follows the
    sentence or its script needs none.
    """
    return [match.end() for match in _SENTENCE_END.finditer(text, start, end)]


def split_sentences(text: str) -> list[str]:
    """Split a text at line ends and sentence ends; the marks at sentence ends are removed."""
    sentences = map(str.strip, _SENTENCE_OR_LINE_END.split(text))
    return list(filter(None, sentences))


def character_ends(text: str, start: int = 0, end: int = sys.maxsize) -> Sequence[int]:
    """Return the ends of characters as a reader sees them: with accents, flags, joined emoji."""
    joined, character = _joined_character()
    if joined.search(text, start, end) is None:
        return range(start + 1, min(end, len(text)) + 1)
    return [match.end() for match in character.finditer(text, start, end)]


@cache
def _joined_character() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Expressions for a part of a character of several code points, and for any character."""
    flags = "\U0001f1e6-\U0001f1ff"
    # Also vowels of Korean and Thai, colors of skin, and the letters of flags of regions.
    extending = (
        f"{combining_marks()}\u200c\u200d\u1160-\u11ff\u0e33\u0eb3\U0001f3fb-\U0001f3ff"
        "\U000e0020-\U000e007f\U000e0100-\U000e01ef"
    )
    character = rf"(?:[{flags}]{{2}}|\r\n|.)(?:\u200d\S|[{extending}])*+"
    return re.compile(rf"[\r{flags}{extending}]"), re.compile(character, re.DOTALL)
