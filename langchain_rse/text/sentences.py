"""Where sentences end, in any script: the one list of the marks that end them."""

import re
import sys
from collections.abc import Iterator

SPACED_ENDS = ".?!…؟\u06d4\u0589"
"""Marks before white space: of Latin, of Arabic, and the full stops of Urdu and of Armenian."""

UNSPACED_ENDS = "。\uff01\uff1f｡।॥။៕។።།"
"""Marks that need no white space behind them.

Of Chinese and Japanese (\\uff01 is a wide !, \\uff1f a wide ?), then of Hindi, Burmese, Khmer,
Amharic and Tibetan.
"""

_CLOSING = r"\"'”\u2019»)\]"  # marks that may follow the end of a sentence
_UNSPACED_CLOSING = rf"{_CLOSING}」』\uff09"
# A full stop after a single capital letter, as in "J. Smith", or before a small letter, as in
# "e.g. this", ends no sentence.
_NO_INITIAL = r"(?<!\b[A-ZÀ-ÞΑ-ΩА-ЯЁ])"
_NO_SMALL_LETTER = r"(?![a-zß-ÿα-ωа-яё])"
_SENTENCE_END = (
    rf"(?:{_NO_INITIAL}[{SPACED_ENDS}][{_CLOSING}]*\s+(?!\s){_NO_SMALL_LETTER}"
    rf"|[{UNSPACED_ENDS}][{_UNSPACED_CLOSING}]*\s*)"
)
# Each run of closing marks and of white space follows one mark, so none is read twice.
_SENTENCE_END_PATTERN = re.compile(_SENTENCE_END)
_SENTENCE_OR_LINE_END = re.compile(rf"\n|{_SENTENCE_END}")


def sentence_ends(text: str, start: int = 0, end: int = sys.maxsize) -> Iterator[int]:
    """Where sentences of a part of a text end: after closing marks and white space.

    A part without white space behind its last sentence does not have that end, unless the script
    needs none.
    """
    for match in _SENTENCE_END_PATTERN.finditer(text, start, end):
        yield match.end()


def split_sentences(text: str) -> list[str]:
    """Split a text at ends of lines and of sentences, without what ends them in a line."""
    sentences = (sentence.strip() for sentence in _SENTENCE_OR_LINE_END.split(text))
    return [sentence for sentence in sentences if sentence]
