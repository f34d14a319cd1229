"""Checks what an answer quotes against the passages that it was made of."""

import difflib
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from langchain_core.documents import Document

from langchain_rse.ingest.alignment import Form, fold, folded, quotation_pattern
from langchain_rse.stores.records import DOC_ID, END_INDEX, SEGMENT, START_INDEX
from langchain_rse.tools.passages import NUMBER

# Opening marks, and those that close them.
_PAIRS = {"“": "”", "”": "”", "„": "“”", "«": "»", "»": "«", "「": "」", "『": "』"}
_MARKS = {**_PAIRS, '"': '"', "\u2018": "\u2019", "'": "'"}
# These are apostrophes, inches and the like as well, so that they need a place beside a word.
_APOSTROPHES = "\u2018'"
_AMBIGUOUS = f'"{_APOSTROPHES}'
_LETTER = r"[^\W\u2e80-\U0010ffff]"  # but of scripts without spaces
_OPENING = re.compile(
    rf"```(?s:.*?)(?:```|\Z)|`[^`\n]+`"
    rf"|^[ \t]*(?P<block>>.*(?:\n[ \t]*>.*)*)"
    rf"|(?P<mark>[{''.join(_PAIRS)}]|(?<!{_LETTER})[{_AMBIGUOUS}](?=\S))",
    re.MULTILINE,
)
_PARAGRAPH = re.compile(r"\n\s*\n|\Z")
_LEFT_OUT = re.compile(r"[\[(]\s*(?:…|\.{3})\s*[\])]|…|\.{3,}|\.(?: \.){2,}")
_AROUND = " \t\r\n,.;:!?" + "".join(_MARKS) + "\u2019"
# Words; in scripts without spaces, characters.
_WORD = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]|\w+")
_LEAST_WORDS = 3
_GRAM = 4
# Letters that are compared at once: the time that takes grows with their square.
_LONGEST = 300

Verdict = Literal["exact", "similar", "missing", "too short", "unclosed"]


@dataclass(frozen=True)
class Quote:
    """A quotation in an answer, and where it is in the passages.

    Attributes:
        text: What is between the quotation marks, or in a block quote.
        start: Its first character in the answer.
        end: The character after its last one there.
        verdict: ``"exact"``: it is in a passage, white space aside; ``"similar"``: with small
            differences, see ``similarity``; ``"missing"``: it is in none; ``"too short"``: it has
            fewer than three words, which stand anywhere; ``"unclosed"``: no mark closes it. The
            last two are not looked for.
        number: The number of the passage, from 1; None if it was not found, as is ``doc_id``.
        doc_id: The document's id.
        start_index: Its first character in the document's text.
        end_index: The character after its last one there.
        found: What stands there.
        similarity: The share of letters and digits that are the same, from 0 to 1.
    """

    text: str
    start: int
    end: int
    verdict: Verdict
    number: int | None = None
    doc_id: str | None = None
    start_index: int = 0
    end_index: int = 0
    found: str = ""
    similarity: float = 0.0


def verify_quotes(
    answer: str, segments: Iterable[Document], *, min_similarity: float = 0.85
) -> list[Quote]:
    """Find the text that an answer quotes in the segments that it was made of.

    Quotations are text in quotation marks of any language and Markdown's block quotes, but nothing
    in code. An ellipsis within a quotation stands for text that was left out of one segment. Marks,
    punctuation at the ends and white space are not compared.

    Args:
        answer: The answer, as text or Markdown.
        segments: What a retriever or the artifacts of `create_rse_tool` returned. A segment's
            number is that of the tool, or its place here, from 1.
        min_similarity: The share of letters and digits that must be the same in a similar
            quotation, from 0 to 1. Its digits must all be the same.

    Returns:
        The quotations in the order of the answer.

    Raises:
        ValueError: If ``min_similarity`` is out of its range.
    """
    if not 0 <= min_similarity <= 1:
        raise ValueError(f"min_similarity must be from 0 to 1; got {min_similarity!r}")
    sources = [_Source.of(number, one) for number, one in enumerate(segments, 1)]
    return [
        _check(quote, sources, min_similarity) if quote.verdict == "missing" else quote
        for quote in _quotations(answer)
    ]


# What is quoted


def _quotations(answer: str) -> Iterator[Quote]:
    place = 0
    while opening := _OPENING.search(answer, place):
        start, place = opening.start(), opening.end()
        if block := opening["block"]:
            text = re.sub(r"(?m)^[ \t]*>[ \t>]*", "", block).strip(_AROUND)
            yield from _quotation(text, opening.start("block"), place)
        elif mark := opening["mark"]:
            end, after = _end(answer, mark, place)
            if after:
                yield from _quotation(answer[place:end], start + 1, end)
                place = after
            elif mark not in _APOSTROPHES:
                yield Quote(answer[place:end], start + 1, end, "unclosed")
                place = end


def _quotation(text: str, start: int, end: int) -> Iterator[Quote]:
    count = len(_WORD.findall(text))
    if count:
        yield Quote(text, start, end, "missing" if count >= _LEAST_WORDS else "too short")


def _end(answer: str, mark: str, start: int) -> tuple[int, int]:
    """Where a quotation ends that is open, and the place after its closing mark or, without, 0."""
    paragraph = _PARAGRAPH.search(answer, start)
    stop = paragraph.start() if paragraph else len(answer)
    closing = f"[{_MARKS[mark]}]"
    if mark in _AMBIGUOUS:
        closing = rf"(?<=\S){closing}(?!{_LETTER})"
    found = re.compile(closing).search(answer, start, stop)
    again = -1 if mark in _MARKS[mark] else answer.find(mark, start, found.end() if found else stop)
    if again >= 0:  # another one opens before this one is closed
        return again, 0
    return (found.start(), found.end()) if found else (stop, 0)


# Where it is


class _Source(NamedTuple):
    number: int
    document: Document
    text: str
    form: Form  # its letters and digits

    @classmethod
    def of(cls, number: int, document: Document) -> "_Source":
        """The text of a segment without the header that may stand above it."""
        metadata, text = document.metadata, document.page_content
        length = metadata.get(END_INDEX, len(text)) - metadata.get(START_INDEX, 0)
        text = text[max(len(text) - length, 0) :]
        number = (metadata.get(SEGMENT) or {}).get(NUMBER, number)
        return cls(number, document, text, folded(text, enumerate(text)))


class _Place(NamedTuple):
    similarity: float
    start: int
    end: int


def _check(quote: Quote, sources: Sequence[_Source], least: float) -> Quote:
    whole = [quote.text.strip(_AROUND)]
    parts = [
        one for part in _LEFT_OUT.split(quote.text) if _WORD.search(one := part.strip(_AROUND))
    ]
    for wanted in (whole, parts):  # an ellipsis may be the source's own
        for source in sources:
            if place := _exact(wanted, source.text):
                return _at(quote, "exact", place, source)
    found = [(place, source) for source in sources if (place := _similar(parts, source))]
    best = max(found, key=lambda one: one[0].similarity, default=None)
    if best is None or best[0].similarity < least:
        return quote
    return _at(quote, "similar", *best)


def _at(quote: Quote, verdict: Verdict, place: _Place, source: _Source) -> Quote:
    metadata = source.document.metadata
    first = metadata.get(START_INDEX, 0)
    return Quote(
        *(quote.text, quote.start, quote.end, verdict, source.number, metadata.get(DOC_ID)),
        *(first + place.start, first + place.end, source.text[place.start : place.end]),
        place.similarity,
    )


def _exact(parts: Sequence[str], text: str) -> _Place | None:
    """Where all parts are, one after the other."""
    places: list[tuple[int, int]] = []
    for part in parts:
        found = quotation_pattern(part).search(text, places[-1][1] if places else 0)
        if not found:
            return None
        places.append(found.span())
    return _Place(1.0, places[0][0], places[-1][1]) if places else None


def _similar(parts: Sequence[str], source: _Source) -> _Place | None:
    """Where what is most like all parts is, one after the other, with the same digits."""
    form, reached = source.form, 0
    places: list[_Place] = []
    for part in parts:
        letters, first = fold(part), len(places)
        size = math.ceil(len(letters) / math.ceil(len(letters) / _LONGEST))
        for at in range(0, len(letters), size):
            place = _closest(letters[at : at + size], form.text, reached)
            if place is None:
                return None
            places.append(place)
            reached = place.end - size // 10  # which is known about
        if _digits(letters) != _digits(form.text[places[first].start : places[-1].end]):
            return None
        reached = places[-1].end
    if not places:
        return None
    similarity = min(place.similarity for place in places)
    start, end = form.places[places[0].start], form.places[places[-1].end - 1] + 1
    return _Place(similarity, start, end)


def _digits(letters: str) -> str:
    return "".join(filter(str.isdecimal, letters))


def _closest(letters: str, text: str, least: int) -> _Place | None:
    """The part of a text that is most like some letters, by the few that both have in a row."""
    if (start := text.find(letters, least)) >= 0:
        return _Place(1.0, start, start + len(letters))
    grams = {letters[at : at + _GRAM]: at for at in range(len(letters) - _GRAM + 1)}
    width = max(len(letters) // 8, 8)
    votes = Counter(
        (at - grams[gram]) // width
        for at in range(least, len(text) - _GRAM + 1)
        if (gram := text[at : at + _GRAM]) in grams
    )
    if not votes:
        return None
    best = max(votes, key=lambda number: votes[number] + votes[number + 1])
    first = max((best - 1) * width, least)
    window = text[first : (best + 3) * width + len(letters)]
    blocks = difflib.SequenceMatcher(None, letters, window, autojunk=False).get_matching_blocks()
    blocks = [block for block in blocks if block.size >= _GRAM]
    if not blocks:
        return None
    start = max(first + blocks[0].b - blocks[0].a, least)
    end = min(first + blocks[-1].b + len(letters) - blocks[-1].a, len(text))
    ratio = difflib.SequenceMatcher(None, letters, text[start:end], autojunk=False).ratio()
    return _Place(ratio, start, end)
