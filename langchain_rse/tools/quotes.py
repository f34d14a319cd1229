"""Checks the quotations in an answer against the passages that it is based on."""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, Literal, NamedTuple
from unicodedata import normalize

from langchain_core.documents import Document

from langchain_rse.ingest.alignment import fold, folded, quotation_pattern
from langchain_rse.stores.records import DOC_ID, END_INDEX, SEGMENT, START_INDEX
from langchain_rse.tools.passages import NUMBER
from langchain_rse.tools.quotations import (
    Quotation,
    find_quotations,
    remove_citations,
    remove_punctuation,
    split_at_omissions,
)

# Numbers; after a letter, digit, % or bracket, a sign is a hyphen.
_SIGN = r"(?<![\w%)\]])[-+\u2010-\u2013\u2212]"
_NUMBER = re.compile(rf"(?:{_SIGN})?\d+(?:[.,]\d+)*|[¹²³⁰-₉]+|[¼-¾⅐-⅞①-⒛]")
_PLAIN = str.maketrans("\u2010\u2011\u2012\u2013\u2212\u2044", "----- ")
# Similar texts are compared by sequences of this many letters, which saves time.
_SEQUENCE_LENGTH = 4
_LONG = 1_000

Verdict = Literal["exact", "similar", "missing", "too short", "unclosed"]


@dataclass(frozen=True)
class Quote:
    """A quotation in an answer, and where it is in the passages.

    Attributes:
        text: The text between the quotation marks, or of a block quote.
        start: Its first character in the answer.
        end: The character after its last one in the answer.
        verdict: ``"exact"``: it is in a passage, except for white space; ``"similar"``: with small
            differences, see ``similarity``; ``"missing"``: it is in none; ``"too short"``: fewer
            than three words; ``"unclosed"``: no mark closes it. The last two are not searched for.
        number: The number of the passage, from 1; None if it was not found, as is ``doc_id``.
        doc_id: The id of the passage's document.
        start_index: The first character of the place in the document's text.
        end_index: The character after the last one of that place.
        found: The text of that place.
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
    answer: str, segments: Iterable[Document | Mapping[str, Any]], *, min_similarity: float = 0.85
) -> list[Quote]:
    """Find the quotations of an answer in the segments that it is based on.

    Quotations are text in quotation marks of any language and Markdown's block quotes, except in
    code. An ellipsis within a quotation stands for text of the segment that was left out. Marks,
    punctuation at the ends, citations such as ``[1]`` and white space are not compared.

    Args:
        answer: The answer, as text or Markdown.
        segments: The segments from a retriever or from the artifacts of `create_rse_tool`, also as
            dicts from a checkpointer. Their numbers are the tool's, or their places here, from 1.
        min_similarity: The share of letters and digits that must be the same in a similar
            quotation, from 0 to 1. Its numbers must all be the same.

    Returns:
        The quotations in the order of the answer.

    Raises:
        ValueError: If ``min_similarity`` is out of its range.
    """
    if not 0 <= min_similarity <= 1:
        raise ValueError(f"min_similarity must be from 0 to 1; got {min_similarity!r}")
    sources = [_read_source(number, segment) for number, segment in enumerate(segments, 1)]
    return [_verify(quotation, sources, min_similarity) for quotation in find_quotations(answer)]


class _Source(NamedTuple):
    """The text of a segment."""

    number: int
    text: str
    doc_id: str | None
    start_index: int  # of the text's first character, in the document
    letters: str  # the folded letters and digits of the text
    positions: Sequence[int]  # of the letters, in the text


class _Match(NamedTuple):
    """Where a quotation, or a part of it, is in the text of a source."""

    similarity: float  # above 0
    start: int
    end: int


_Find = Callable[[str, _Source, int], _Match | None]
"""From a part of a quotation, a source, and the character to begin at, to where the part is."""


def _read_source(number: int, segment: Document | Mapping[str, Any]) -> _Source:
    """Read the source of a segment, without the header that may be above its text."""
    fields = segment if isinstance(segment, Mapping) else vars(segment)
    metadata = fields["metadata"]
    text = fields["page_content"]
    if metadata.keys() >= {START_INDEX, END_INDEX}:
        length = metadata[END_INDEX] - metadata[START_INDEX]
        text = text[max(len(text) - length, 0) :]
    rse = metadata.get(SEGMENT) or {}
    form = folded(text, enumerate(text))
    return _Source(
        number=rse.get(NUMBER, number),
        text=text,
        doc_id=metadata.get(DOC_ID),
        start_index=metadata.get(START_INDEX, 0),
        letters=form.text,
        positions=form.places,
    )


def _verify(quotation: Quotation, sources: Sequence[_Source], min_similarity: float) -> Quote:
    text, start, end, is_closed = quotation
    if not is_closed:
        return Quote(text, start, end, "unclosed")
    if quotation.is_too_short:
        return Quote(text, start, end, "too short")
    # The source may itself contain an ellipsis, or numbers in brackets.
    variants = list(dict.fromkeys([text, remove_citations(text)]))
    attempts: list[tuple[Verdict, _Find, list[str]]] = []
    attempts += [("exact", _find_exact, [variant]) for variant in variants]
    attempts += [("exact", _find_exact, split_at_omissions(variant)) for variant in variants]
    attempts += [("similar", _find_similar, split_at_omissions(variant)) for variant in variants]
    for verdict, find, parts in attempts:
        best = _find_best(parts, sources, find)
        if best is None:
            continue
        source, match = best
        if match.similarity >= min_similarity:
            return Quote(
                text,
                start,
                end,
                verdict,
                number=source.number,
                doc_id=source.doc_id,
                start_index=source.start_index + match.start,
                end_index=source.start_index + match.end,
                found=source.text[match.start : match.end],
                similarity=match.similarity,
            )
    return Quote(text, start, end, "missing")


def _find_best(
    parts: Sequence[str], sources: Iterable[_Source], find: _Find
) -> tuple[_Source, _Match] | None:
    """Find the source that has all parts, one after the other, with the highest similarity."""
    best = None
    highest = 0.0
    for source in sources:
        match = _find_in_order(parts, source, find)
        if match is not None and match.similarity > highest:
            best = (source, match)
            highest = match.similarity
    return best


def _find_in_order(parts: Sequence[str], source: _Source, find: _Find) -> _Match | None:
    matches: list[_Match] = []
    position = 0
    for part in parts:
        match = find(remove_punctuation(part), source, position)
        if match is None:
            return None
        matches.append(match)
        position = match.end
    lowest = min(match.similarity for match in matches)
    return _Match(lowest, matches[0].start, matches[-1].end)


def _find_exact(part: str, source: _Source, position: int) -> _Match | None:
    match = quotation_pattern(part).search(source.text, position)
    if match is None:
        return None
    return _Match(1.0, *match.span())


def _find_similar(part: str, source: _Source, position: int) -> _Match | None:
    """Find the same letters, or most of them, with the same numbers."""
    letters = fold(part)
    numbers = _numbers_in(part, 0, len(part))
    first = bisect_left(source.positions, position)  # among the source's letters
    for equal in re.compile(letters).finditer(source.letters, first):
        match = _match_of_letters(1.0, *equal.span(), source)
        if _numbers_in(source.text, match.start, match.end) == numbers:
            return match
    similar = _find_similar_letters(letters, source.letters, first)
    if similar is None:
        return None
    match = _match_of_letters(*similar, source)
    if match.similarity == 0 or _numbers_in(source.text, match.start, match.end) != numbers:
        return None
    return match


def _match_of_letters(similarity: float, start: int, end: int, source: _Source) -> _Match:
    """Make a match of a range of the source's letters."""
    return _Match(similarity, source.positions[start], source.positions[end - 1] + 1)


def _find_similar_letters(
    letters: str, source_letters: str, first: int
) -> tuple[float, int, int] | None:
    """Find the letters around the longest run of equal ones, from the first on.

    Returns:
        The share of equal letters, and the range of the source's letters; None if no sequence is
        equal.
    """
    is_long = len(letters) >= _LONG
    sequences = _sequences_of(letters)
    # Frequent sequences are left out: in repetitive text they would take very long.
    matcher = SequenceMatcher(None, sequences, _sequences_of(source_letters[first:]))
    longest = matcher.find_longest_match()
    slack = len(letters) // 8
    expected_start = first + longest.b - longest.a
    window_start = max(expected_start - slack, first)
    window = source_letters[window_start : expected_start + len(letters) + slack]
    matcher = SequenceMatcher(None, sequences, _sequences_of(window), autojunk=is_long)
    *blocks, _ = matcher.get_matching_blocks()  # the last one is a dummy
    if not blocks:
        return None
    start = max(window_start + blocks[0].b - blocks[0].a, first)
    end = window_start + blocks[-1].b - blocks[-1].a + len(letters)
    end = min(end, len(source_letters))
    if is_long:
        equal = sum(block.size + _SEQUENCE_LENGTH - 1 for block in blocks)
        similarity = min(2 * equal / (len(letters) + end - start), 1.0)
    else:
        matcher = SequenceMatcher(None, letters, source_letters[start:end], autojunk=False)
        similarity = matcher.ratio()
    return similarity, start, end


def _sequences_of(letters: str) -> list[str]:
    count = len(letters) - _SEQUENCE_LENGTH + 1
    return [letters[start : start + _SEQUENCE_LENGTH] for start in range(count)]


def _numbers_in(text: str, start: int, end: int) -> str:
    """Join the numbers between two positions of a text, each as a whole, in plain characters."""
    matches = _NUMBER.finditer(text, max(start - _LONG, 0), end + _LONG)
    numbers = [match[0] for match in matches if start < match.end() and match.start() < end]
    return normalize("NFKD", " ".join(numbers)).translate(_PLAIN)
