"""Checks the quotations in an answer against the passages that it is based on."""

import itertools
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, Literal, NamedTuple
from unicodedata import category, normalize

from langchain_core.documents import Document
from rapidfuzz.distance import Indel, LCSseq

from langchain_rse.ingest.alignment import fold, folded
from langchain_rse.stores.records import DOC_ID, END_INDEX, START_INDEX
from langchain_rse.tools.places import Place, number_in, source_in, text_and_metadata, title_in
from langchain_rse.tools.quotations import (
    Quotation,
    count_omissions,
    find_quotations,
    remove_citations,
    remove_punctuation,
    split_at_omissions,
)

# Numbers; after a letter, digit, % or bracket, a sign is a hyphen.
_SIGN = r"(?<![\w%)\]])[-+\u2010-\u2013\u2212]"
_NUMBER = re.compile(rf"(?:{_SIGN})?\d+(?:[.,]\d+)*|[¹²³⁰-₉]+|[¼-¾⅐-⅞①-⒛]")
_PLAIN = str.maketrans("\u2010\u2011\u2012\u2013\u2212\u2044", "----- ")
# Characters before and after a place in which a number or a symbol may begin or end.
_AROUND = 100
# Of a repetitive text, only so many places with the same letters are looked at.
_MOST_PLACES = 1_000
# A similar text is found by samples of its letters: so many, each of this length.
_SAMPLES = 64
_SEQUENCE_LENGTH = 4
# Similar texts are compared in blocks of this many letters, in time proportional to their length.
_BLOCK_LENGTH = 1_000
# Symbols that change what is said; their categories are those of mathematics and currencies.
_SYMBOLS = frozenset("%\u2030\u2031\u00b0")
# Markdown, the signs of numbers, which are compared with the numbers, and fraction slashes.
_NO_SYMBOLS = frozenset("|~`^+\u2212\u2044")

Verdict = Literal["exact", "shortened", "similar", "missing", "too short", "unclosed"]


@dataclass(frozen=True)
class Quote(Place):
    """A quotation in an answer, and where it is in the passages.

    Attributes:
        text: The text between the quotation marks, or of a block quote.
        start: Its first character in the answer.
        end: The character after its last one in the answer.
        verdict: ``"exact"``: it is in a passage, except for white space; ``"shortened"``: so are
            its parts, but an ellipsis stands for text that is left out, see ``omitted``;
            ``"similar"``: with small differences, see ``similarity``; ``"missing"``: it is in
            none; ``"too short"``: fewer than three words; ``"unclosed"``: no mark closes it. The
            last two are not searched for.
        number: The number of the passage, from 1; None if it was not found, as is ``doc_id``.
        doc_id: The id of the passage's document.
        start_index: The first character of the place in the document's text.
        end_index: The character after the last one of that place.
        found: The text of that place.
        similarity: The share of letters, digits and symbols that are the same, from 0 to 1; below
            1 if any of them differs.
        omitted: What the passage has in place of each ellipsis between two parts. It may be a
            "not": look at it before the quotation is shown.
        source: The source of the passage's document, or else its id.
        title: The title of the passage's document, or else its name.
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
    omitted: Sequence[str] = ()
    source: str | None = None
    title: str | None = None


def verify_quotes(
    answer: str, segments: Iterable[Document | Mapping[str, Any]], *, min_similarity: float = 0.85
) -> list[Quote]:
    """Find the quotations of an answer in the segments that it is based on.

    Quotations are text in quotation marks of any language and Markdown's block quotes, except in
    code. An ellipsis stands for text of the segment that was left out. Marks,
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
    metadata: Mapping[str, Any]
    start_index: int  # of the text's first character, in the document
    letters: str  # the folded letters and digits of the text
    positions: Sequence[int]  # of the letters, in the text
    compact: str  # the text without white space
    compact_positions: Sequence[int]  # of its characters, in the text


class _Match(NamedTuple):
    """Where a quotation, or a part of it, is in the text of a source."""

    similarity: float  # above 0
    start: int
    end: int
    omitted: tuple[tuple[int, int], ...] = ()  # the ranges between its parts


_Find = Callable[[str, _Source, int], _Match | None]
"""From a part of a quotation, a source, and the character to begin at, to where the part is."""


def _read_source(number: int, segment: Document | Mapping[str, Any]) -> _Source:
    """Read the source of a segment, without the header that may be above its text."""
    text, metadata = text_and_metadata(segment)
    if metadata.keys() >= {START_INDEX, END_INDEX}:
        length = metadata[END_INDEX] - metadata[START_INDEX]
        text = text[max(len(text) - length, 0) :]
    form = folded(text, enumerate(text))
    return _Source(
        number=number_in(metadata, number),
        text=text,
        metadata=metadata,
        start_index=metadata.get(START_INDEX, 0),
        letters=form.text,
        positions=form.places,
        compact="".join(text.split()),
        compact_positions=[place for place, each in enumerate(text) if not each.isspace()],
    )


def _verify(quotation: Quotation, sources: Sequence[_Source], min_similarity: float) -> Quote:
    text, start, end, is_closed = quotation
    if not is_closed:
        return Quote(text, start, end, "unclosed")
    if quotation.is_too_short:
        return Quote(text, start, end, "too short")
    for verdict, find, parts in _attempts(text):
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
                doc_id=source.metadata.get(DOC_ID),
                start_index=source.start_index + match.start,
                end_index=source.start_index + match.end,
                found=source.text[match.start : match.end],
                similarity=match.similarity,
                omitted=[source.text[start:end] for start, end in match.omitted],
                source=source_in(source.metadata),
                title=title_in(source.metadata),
            )
    return Quote(text, start, end, "missing")


def _attempts(text: str) -> list[tuple[Verdict, _Find, list[str]]]:
    """The ways to find a quotation, best first, each with the verdict that it gives."""
    # The source may itself contain an ellipsis, or numbers in brackets.
    variants = list(dict.fromkeys([text, remove_citations(text)]))
    attempts: list[tuple[Verdict, _Find, list[str]]] = []
    for variant in variants:
        # An ellipsis at the end is an omission too, unless the source has it.
        if count_omissions(remove_punctuation(variant)) == count_omissions(variant):
            attempts.append(("exact", _find_exact, [variant]))
    for variant in variants:
        if count_omissions(variant):
            attempts.append(("shortened", _find_exact, split_at_omissions(variant)))
    for variant in variants:
        attempts.append(("similar", _find_similar, split_at_omissions(variant)))
    return attempts


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
    omitted: list[tuple[int, int]] = []
    for before, after in itertools.pairwise(matches):
        omitted.append((before.end, after.start))
    return _Match(lowest, matches[0].start, matches[-1].end, tuple(omitted))


def _find_exact(part: str, source: _Source, position: int) -> _Match | None:
    """Find the same characters, whatever the white space."""
    characters = "".join(part.split())
    first = bisect_left(source.compact_positions, position)
    start = source.compact.find(characters, first)
    if start < 0 or not characters:
        return None
    last = start + len(characters) - 1
    return _Match(1.0, source.compact_positions[start], source.compact_positions[last] + 1)


def _find_similar(part: str, source: _Source, position: int) -> _Match | None:
    """Find the same letters, or most of them, with the same numbers."""
    letters = fold(part)
    if not letters:
        return None
    numbers = _numbers_in(part, 0, len(part))
    first = bisect_left(source.positions, position)  # among the source's letters
    best = None
    for start in itertools.islice(_places_of(letters, source.letters, first), _MOST_PLACES):
        match = _match_of_letters(1.0, start, start + len(letters), source)
        if _numbers_in(source.text, match.start, match.end) != numbers:
            continue
        match = _with_symbols(match, part, source)
        if match.similarity == 1:
            return match
        best = best or match
    if best is not None:
        return best
    similar = _find_similar_letters(letters, source.letters, first)
    if similar is None:
        return None
    match = _match_of_letters(*similar, source)
    if match.similarity == 0 or _numbers_in(source.text, match.start, match.end) != numbers:
        return None
    return _with_symbols(match, part, source)


def _places_of(letters: str, source_letters: str, first: int) -> Iterator[int]:
    """Where a text begins in another one, from the first place on; places do not overlap."""
    start = source_letters.find(letters, first)
    while start >= 0:
        yield start
        start = source_letters.find(letters, start + len(letters))


def _match_of_letters(similarity: float, start: int, end: int, source: _Source) -> _Match:
    """Make a match of a range of the source's letters."""
    return _Match(similarity, source.positions[start], source.positions[end - 1] + 1)


def _with_symbols(match: _Match, part: str, source: _Source) -> _Match:
    """Lower the similarity of a match by the symbols that differ."""
    quoted = _symbols_in(part)
    # Symbols at the ends belong to the match if the quotation has them.
    before = source.text[max(match.start - 2, 0) : match.start]
    after = source.text[match.end : match.end + 2]
    found = _symbols_in(source.text[match.start : match.end])
    missing = quoted - found
    missing -= _symbols_in(before) + _symbols_in(after)
    # The source has more: within the match, or right at its ends, as a "%" that was dropped.
    adjacent = _symbols_in(before[-1:]) + _symbols_in(after[:1])
    added = found + adjacent - quoted
    count = max(sum(missing.values()), sum(added.values()))
    if count == 0:
        return match
    length = len(fold(part))
    return match._replace(similarity=match.similarity * length / (length + count))


def _symbols_in(text: str) -> Counter[str]:
    """Count the symbols of mathematics and currencies, and percent signs, of a text."""
    symbols: Counter[str] = Counter()
    characters = normalize("NFKC", text).replace("!=", "\u2260")
    for character in characters:
        is_symbol = category(character) in {"Sm", "Sc"} and character not in _NO_SYMBOLS
        if is_symbol or character in _SYMBOLS:
            symbols[character] += 1
    return symbols


def _find_similar_letters(
    letters: str, source_letters: str, first: int
) -> tuple[float, int, int] | None:
    """Find most of the letters, from the first place on, in time proportional to their number.

    Returns:
        The share of equal letters, below 1, and the range of the source's letters; None if nothing
        is like them.
    """
    if len(letters) <= _BLOCK_LENGTH:
        return _find_similar_block(letters, source_letters, first)
    beginning = _find_similar_block(letters[:_BLOCK_LENGTH], source_letters, first)
    if beginning is None:
        return None
    _, start, block_end = beginning
    ending = _find_similar_block(letters[-_BLOCK_LENGTH:], source_letters, block_end)
    if ending is None:
        return None
    _, _, end = ending
    return _similarity_of_blocks(letters, source_letters[start:end]), start, end


def _find_similar_block(
    letters: str, source_letters: str, first: int
) -> tuple[float, int, int] | None:
    expected_start = _likely_start(letters, source_letters, first)
    if expected_start is None:
        return None
    slack = len(letters) // 8
    window_start = max(expected_start - slack, first)
    window = source_letters[window_start : expected_start + len(letters) + slack]
    # Sequences that are frequent in a long window are left out: they would take very long.
    matcher = SequenceMatcher(None, _sequences_of(letters), _sequences_of(window))
    *blocks, _ = matcher.get_matching_blocks()  # the last one is a dummy
    if not blocks:
        return None
    start = max(window_start + blocks[0].b - blocks[0].a, first)
    end = window_start + blocks[-1].b - blocks[-1].a + len(letters)
    end = min(end, len(source_letters))
    similarity = Indel.normalized_similarity(letters, source_letters[start:end])
    return _below_one(similarity, letters), start, end


def _likely_start(letters: str, source_letters: str, first: int) -> int | None:
    """Where letters begin by most of their samples; None if no sample is found."""
    width = max(len(letters) // 8, 1)
    starts: dict[int, list[int]] = {}
    last = max(len(letters) - _SEQUENCE_LENGTH, 0)
    # Short texts have fewer places than samples; a place counts as often as it is sampled.
    sampled_places = Counter(last * number // (_SAMPLES - 1) for number in range(_SAMPLES))
    for place, samples in sampled_places.items():
        sample = letters[place : place + _SEQUENCE_LENGTH]
        for found in itertools.islice(_places_of(sample, source_letters, first), _SAMPLES):
            start = max(found - place, first)
            starts.setdefault(start // width, []).extend([start] * samples)
    if not starts:
        return None
    most = max(starts.values(), key=len)  # the first one, of several
    return sorted(most)[len(most) // 2]


def _similarity_of_blocks(letters: str, found: str) -> float:
    """The share of equal letters of two long texts, compared block by block."""
    reach = abs(len(letters) - len(found)) + _BLOCK_LENGTH // 10
    equal = 0
    for start in range(0, len(letters), _BLOCK_LENGTH):
        block = letters[start : start + _BLOCK_LENGTH]
        expected = start * len(found) // len(letters)
        window = found[max(expected - reach, 0) : expected + len(block) + reach]
        equal += LCSseq.similarity(block, window)
    return _below_one(2 * equal / (len(letters) + len(found)), letters)


def _below_one(similarity: float, letters: str) -> float:
    """A similarity of letters that are known to differ."""
    return min(similarity, 1 - 1 / (2 * len(letters)))


def _sequences_of(letters: str) -> list[str]:
    count = len(letters) - _SEQUENCE_LENGTH + 1
    return [letters[start : start + _SEQUENCE_LENGTH] for start in range(count)]


def _numbers_in(text: str, start: int, end: int) -> str:
    """Join the numbers between two positions of a text, each as a whole, in plain characters."""
    matches = _NUMBER.finditer(text, max(start - _AROUND, 0), end + _AROUND)
    numbers = [match[0] for match in matches if start < match.end() and match.start() < end]
    return normalize("NFKD", " ".join(numbers)).translate(_PLAIN)
