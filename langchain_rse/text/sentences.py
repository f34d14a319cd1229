"""Finds the ends of sentences and of characters, in any script."""

import re
import sys
from collections.abc import Iterator
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
# Words before a full stop that does not end a sentence.
_ABBREVIATIONS = """
    Fig Figs No Nos Nr vol Vol Abs Art Bd Dr Mr Mrs Ms Prof St Sec Ch Eq Tab Ziff Rn pp cf vs"""
# Nor does a full stop after a capital letter ("J. Smith") or an ordinal ("18. März"), nor any mark
# before a small letter ("e.g. this") or a digit ("Fig. 3"), unless it numbers a section ("1.8.").
_NO_ABBREVIATION = "".join(
    rf"(?<!\b{word})" for word in [r"[A-ZÀ-ÞΑ-ΩА-ЯЁ]", r"\d", r"\d\d", *_ABBREVIATIONS.split()]
)
_NO_CONTINUATION = r"(?![a-zß-ÿα-ωа-яё]|(?!\d{1,3}(?:\.\d{1,3})+\.\s)\d)"
_SENTENCE_END = (
    rf"(?:(?:{_NO_ABBREVIATION}\.|[{SPACED_ENDS[1:]}])(?:[{_CLOSING}]|[ \xa0\u202f]»)*"
    rf"\s+(?!\s){_NO_CONTINUATION}"
    rf"|[{UNSPACED_ENDS}][{_UNSPACED_CLOSING}]*\s*)"
)
# Each run of closing marks and white space follows one mark, so the time is linear.
_SENTENCE_END_PATTERN = re.compile(_SENTENCE_END)
_SENTENCE_OR_LINE_END = re.compile(rf"\n|{_SENTENCE_END}")


def sentence_ends(text: str, start: int = 0, end: int = sys.maxsize) -> Iterator[int]:
    """Yield the ends of sentences in a part of a text, after closing marks and white space.

    The end of the part does not count as the end of a sentence, unless white space follows the
    sentence or its script needs none.
    """
    for match in _SENTENCE_END_PATTERN.finditer(text, start, end):
        yield match.end()


def split_sentences(text: str) -> list[str]:
    """Split a text at line ends and sentence ends; the marks at sentence ends are removed."""
    sentences = (sentence.strip() for sentence in _SENTENCE_OR_LINE_END.split(text))
    return [sentence for sentence in sentences if sentence]


def character_ends(text: str, start: int = 0, end: int = sys.maxsize) -> Iterator[int]:
    """Yield the ends of characters as a reader sees them: with accents, flags, joined emoji."""
    for match in _character().finditer(text, start, end):
        yield match.end()


@cache
def _character() -> re.Pattern[str]:
    flag = "[\U0001f1e6-\U0001f1ff]"
    # Also vowels of Korean and Thai, colors of skin, and the letters of flags of regions.
    extending = (
        f"[{combining_marks()}\u200c\u200d\u1160-\u11ff\u0e33\u0eb3\U0001f3fb-\U0001f3ff"
        "\U000e0020-\U000e007f\U000e0100-\U000e01ef]"
    )
    return re.compile(rf"(?:{flag}{{2}}|\r\n|.)(?:\u200d\S|{extending})*+", re.DOTALL)
