"""Finds the ends of sentences, in any script."""

import re
import sys
from collections.abc import Iterator

SPACED_ENDS = ".?!…؟\u06d4\u0589"
"""Marks that end a sentence before white space: Latin, Arabic, Urdu, Armenian."""

UNSPACED_ENDS = "。\uff01\uff1f｡।॥။៕។።།"
"""Marks that end a sentence without white space after them.

Chinese and Japanese (\\uff01 is a wide !, \\uff1f a wide ?), Hindi, Burmese, Khmer, Amharic and
Tibetan.
"""

_CLOSING = r"\"'”\u2019»)\]"  # marks that may follow the end of a sentence
_UNSPACED_CLOSING = rf"{_CLOSING}」』\uff09"
# A full stop after a single capital letter ("J. Smith") or before a small letter ("e.g. this") does
# not end a sentence.
_NO_INITIAL = r"(?<!\b[A-ZÀ-ÞΑ-ΩА-ЯЁ])"
_NO_SMALL_LETTER = r"(?![a-zß-ÿα-ωа-яё])"
_SENTENCE_END = (
    rf"(?:{_NO_INITIAL}[{SPACED_ENDS}][{_CLOSING}]*\s+(?!\s){_NO_SMALL_LETTER}"
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
