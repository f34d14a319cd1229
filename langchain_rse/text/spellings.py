"""Finds phrases in all spellings of a text.

Letters are one where their words are (see `fold_case`) and where only typography differs:
ligatures, wide letters, soft hyphens, composed and decomposed letters, quotation marks and dashes.
Case is ignored by Unicode's simple folding, one character for one: "É" is "é", but "ß" is not "ss".
"""

import itertools
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from functools import cache, cached_property

from langchain_rse.text.words import INVISIBLE, fold_case, letter_forms

_LAST_WITH_CASE = 0x20000
_MARKS = {
    "'": "\u2018\u2019\u201a\u201b\u2032\u02bc",
    '"': "\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb",
    "-": "\u2010\u2011\u2012\u2013\u2014\u2015\u2212",
}
# Compatible letters and ligatures are in these ranges.
_LETTERS = (range(0x80, 0x3000), range(0xFB00, 0xFFF0))
_LONGEST_LIGATURE = 3
_OMITTED = "\u00ad"  # stands for all characters that may be missing inside a word


class SpelledExpression:
    """An expression that matches phrases in all spellings.

    Args:
        write: Returns the expression, in lower case; gets a function that writes the expression of
            a phrase without white space.
    """

    def __init__(self, write: Callable[[Callable[[str], str]], str]) -> None:
        self._write = write

    @cached_property
    def _plain(self) -> re.Pattern[str]:
        return re.compile(self._write(lambda phrase: re.escape(_usual(phrase))))

    @cached_property
    def _any_length(self) -> re.Pattern[str]:
        return re.compile(self._write(_spelled))

    def finditer(self, text: str) -> Iterator[re.Match[str]]:
        """Yield the matches; their positions are those of the text."""
        folded = fold(text)
        has_sequences = not text.isascii() and _sequences().search(folded) is not None
        return (self._any_length if has_sequences else self._plain).finditer(folded)

    def split(self, text: str) -> list[str]:
        """Split a text into what does not match and what does, in turn."""
        bounds = [0]
        for match in self.finditer(text):
            bounds += match.span()
        bounds.append(len(text))
        return [text[start:end] for start, end in itertools.pairwise(bounds)]


def fold(text: str) -> str:
    """Return the text in its usual spelling as far as each character stays one."""
    if text.isascii():
        return text.lower()
    folded = text.casefold()
    if len(folded) != len(text):
        folded = text.translate(_simple_foldings())  # slower
    forms = _usual_forms()
    return _other_forms().sub(lambda form: forms[form[0]], folded)


def _usual(phrase: str) -> str:
    """Return the usual spelling of a phrase, in which nothing is omitted."""
    usual = ""
    for character in unicodedata.normalize("NFC", phrase):
        compatible = unicodedata.normalize("NFKC", character)
        usual += compatible if len(compatible) <= _LONGEST_LIGATURE else character
    folded = fold(usual)
    return folded.replace(_OMITTED, "") or folded


def _spelled(phrase: str) -> str:
    """Return an expression for a phrase with sequences of several characters for one."""
    usual = _usual(phrase)
    pieces: list[str] = []
    start = 0
    while start < len(usual):
        length = _LONGEST_LIGATURE
        while length > 1 and usual[start : start + length] not in _ligatures():
            length -= 1
        pieces.append(_piece(usual[start : start + length]))
        start += length
    return f"{_OMITTED}*".join(pieces)


def _piece(sequence: str) -> str:
    """Return the expression of a character or of a sequence that may consist of ligatures."""
    first, rest = sequence[0], sequence[1:]
    decomposed = fold(unicodedata.normalize("NFD", first))
    letter = re.escape(first) if decomposed == first else f"(?:{first}|{decomposed})"
    if not rest:
        return letter
    options = [f"{letter}{_OMITTED}*{_piece(rest)}"]
    for length in range(2, len(sequence) + 1):
        following = sequence[length:]
        after = f"{_OMITTED}*{_piece(following)}" if following else ""
        options += [ligature + after for ligature in _ligatures().get(sequence[:length], "")]
    return f"(?:{'|'.join(options)})"


@cache
def _usual_forms() -> Mapping[str, str]:
    """By other forms of a character, its usual one."""
    forms = {mark: usual for usual, marks in _MARKS.items() for mark in marks}
    for character in map(chr, itertools.chain(*_LETTERS)):
        usual = fold_case(character)
        is_other = usual != character.lower() and not character.isspace()
        if len(usual) == 1 and is_other:
            forms[character] = usual
        elif re.match(f"[{INVISIBLE}]", character) or letter_forms().get(character) == "":
            forms[character] = _OMITTED
    return forms


@cache
def _other_forms() -> re.Pattern[str]:
    return re.compile(f"[{''.join(_usual_forms())}]")


@cache
def _ligatures() -> Mapping[str, str]:
    """By sequences of characters, the ligatures for them."""
    ligatures: dict[str, str] = {}
    for character in map(chr, itertools.chain(*_LETTERS)):
        compatible = unicodedata.normalize("NFKC", character)
        if compatible != character and 1 < len(compatible) <= _LONGEST_LIGATURE:
            sequence = fold(compatible)
            ligatures[sequence] = ligatures.get(sequence, "") + character.lower()
    return ligatures


@cache
def _sequences() -> re.Pattern[str]:
    """Match what is several characters in the usual spelling, or one of several for a letter."""
    return re.compile(f"[{_OMITTED}\u0300-\u036f{''.join(_ligatures().values())}]")


@cache
def _simple_foldings() -> dict[int, str]:
    """The foldings of characters to one character, where they are not the same."""
    foldings = {}
    for code in range(_LAST_WITH_CASE):
        character = chr(code)
        forms = (character.casefold(), character.lower(), character)
        form = next(form for form in forms if len(form) == 1)
        if form != character:
            foldings[code] = form
    return foldings
