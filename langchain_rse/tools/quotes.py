"""Checks the quotations in an answer against the passages that it is based on."""

import itertools
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple
from unicodedata import category, normalize

from rapidfuzz.distance import Indel, LCSseq
from rapidfuzz.fuzz import partial_ratio_alignment

from langchain_rse.ingest.alignment import Form, fold, folded
from langchain_rse.tools.places import Passage, Place, Segment, read_passage
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
# Symbols that change what is said; their categories are those of mathematics and currencies.
_SYMBOLS = frozenset("%\u2030\u2031\u00b0")
# Markdown, the signs of numbers, which are compared with the numbers, and fraction slashes.
_NO_SYMBOLS = frozenset("|~`^+\u2212\u2044")

# At most this many places with the same letters are compared, and parts of a similar quotation.
_MOST_PLACES = 1_000
_MOST_PARTS = 50
# Similar letters are located by runs of this many, the longest that rapidfuzz slides in one step
# a letter, at least this similar in percent ...
_RUN = 64
_LEAST_SIMILAR = 60
# ... and compared in blocks of this many, in time proportional to their number.
_BLOCK = 1_000
_FEWEST = 4  # letters that are the same by chance

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

    verdict: Verdict = field(kw_only=True)
    similarity: float = 0.0
    omitted: Sequence[str] = ()


def verify_quotes(
    answer: str, segments: Iterable[Segment], *, min_similarity: float = 0.85
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
    sources = [_read_source(segment, position) for position, segment in enumerate(segments, 1)]
    return [_verify(quotation, sources, min_similarity) for quotation in find_quotations(answer)]


class _Source(NamedTuple):
    """A passage, and two forms of its text."""

    passage: Passage
    letters: Form  # the folded letters and digits
    compact: Form  # without white space


class _Match(NamedTuple):
    """Where a quotation, or a part of it, is in the text of a source."""

    similarity: float
    start: int
    end: int
    omitted: tuple[tuple[int, int], ...] = ()  # the ranges between its parts


_Find = Callable[[str, _Source, int], _Match | None]
"""From a part of a quotation, a source, and the character to begin at, to where the part is."""


def _read_source(segment: Segment, position: int) -> _Source:
    passage = read_passage(segment, position)
    text = passage.text
    places = [place for place, character in enumerate(text) if not character.isspace()]
    return _Source(
        passage, folded(text, enumerate(text)), Form(text, "".join(text.split()), places)
    )


def _verify(quotation: Quotation, sources: Sequence[_Source], min_similarity: float) -> Quote:
    text, start, end, is_closed = quotation
    if not is_closed:
        return Quote(text, start, end, verdict="unclosed")
    if quotation.is_too_short:
        return Quote(text, start, end, verdict="too short")
    for verdict, find, parts in _attempts(text):
        best = _find_best(parts, sources, find)
        if best is None:
            continue
        passage, match = best
        if match.similarity >= min_similarity:
            return Quote(
                text,
                start,
                end,
                verdict=verdict,
                similarity=match.similarity,
                omitted=[passage.text[slice(*omitted)] for omitted in match.omitted],
                **passage.place(match.start, match.end),
            )
    return Quote(text, start, end, verdict="missing")


def _attempts(text: str) -> Iterator[tuple[Verdict, _Find, list[str]]]:
    """The ways to find a quotation, best first, each with the verdict that it gives."""
    # The source may itself contain an ellipsis, or numbers in brackets.
    variants = list(dict.fromkeys([text, remove_citations(text)]))
    for variant in variants:
        # An ellipsis at the end is an omission too, unless the source has it.
        if count_omissions(remove_punctuation(variant)) == count_omissions(variant):
            yield "exact", _find_exact, [variant]
    for variant in variants:
        if count_omissions(variant):
            yield "shortened", _find_exact, split_at_omissions(variant)
    for variant in variants:
        parts = split_at_omissions(variant)
        if len(parts) <= _MOST_PARTS:
            yield "similar", _find_similar, parts


def _find_best(
    parts: Sequence[str], sources: Iterable[_Source], find: _Find
) -> tuple[Passage, _Match] | None:
    """Find the source that has all parts, one after the other, with the highest similarity."""
    best = None
    highest = 0.0
    for source in sources:
        match = _find_in_order(parts, source, find)
        if match is not None and match.similarity > highest:
            best = (source.passage, match)
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
    first = bisect_left(source.compact.places, position)
    start = source.compact.text.find(characters, first)
    if start < 0 or not characters:
        return None
    return _match(source.compact, 1.0, start, start + len(characters))


def _match(form: Form, similarity: float, start: int, end: int) -> _Match:
    """Make a match of a range of characters of a form."""
    return _Match(similarity, form.places[start], form.places[end - 1] + 1)


# Similar text


def _find_similar(part: str, source: _Source, position: int) -> _Match | None:
    """Find the same letters, or most of them, with the same numbers."""
    letters = fold(part)
    if not letters:
        return None
    numbers = _numbers_in(part, 0, len(part))
    first = bisect_left(source.letters.places, position)
    best = None
    for similarity, start, end in _similar_ranges(letters, source.letters.text, first):
        if best is not None and similarity < 1:
            break
        match = _match(source.letters, similarity, start, end)
        if _numbers_in(source.passage.text, match.start, match.end) != numbers:
            continue
        match = _with_symbols(match, part, source.passage.text)
        if match.similarity == 1:
            return match
        best = best or match
    return best


_Range = tuple[float, int, int]
"""A similarity, and the range of a source's letters that has it."""


def _similar_ranges(letters: str, source: str, first: int) -> Iterator[_Range]:
    """Where the same letters are, from the first place on; then, where most of them are."""
    start = source.find(letters, first)
    for _ in range(_MOST_PLACES):
        if start < 0:
            break
        end = start + len(letters)
        yield 1.0, start, end
        start = source.find(letters, end)
    head = _align(letters[:_BLOCK], source, first)
    if head is None:
        return
    start, end = head
    if len(letters) > _BLOCK:
        before_tail = len(letters) - _BLOCK
        tail = _align(letters[-_BLOCK:], source, start + before_tail * 3 // 4)
        if tail is None:
            return
        _, end = tail
    yield _similarity(letters, source[start:end]), start, end


def _align(letters: str, source: str, first: int) -> tuple[int, int] | None:
    """Find the range of the source, from the first letter on, that is most like a block."""
    remaining = source[first:]
    nearest = None
    expected = 0
    last_run = max(len(letters) - _RUN, 0)
    for place in sorted({0, last_run // 2, last_run}):
        least = _LEAST_SIMILAR if nearest is None else nearest.score
        run = letters[place : place + _RUN]
        found = partial_ratio_alignment(run, remaining, score_cutoff=least)
        if found is not None and (nearest is None or found.score > nearest.score):
            nearest = found
            expected = found.dest_start - found.src_start - place
    slack = len(letters) // 8
    start = max(expected - slack, 0)
    window = remaining[start : expected + len(letters) + slack]
    blocks = Indel.editops(letters, window).as_matching_blocks()
    runs = [block for block in blocks if block.size >= _FEWEST]
    if nearest is None or not runs:
        return None
    begin = start + runs[0].b - runs[0].a
    end = start + runs[-1].b - runs[-1].a + len(letters)
    return first + max(begin, 0), first + min(end, len(remaining))


def _similarity(letters: str, found: str) -> float:
    """The share of equal letters of two texts that differ, compared block by block."""
    reach = min(abs(len(letters) - len(found)), _BLOCK) + _BLOCK // 10
    equal = 0
    for start in range(0, len(letters), _BLOCK):
        block = letters[start : start + _BLOCK]
        expected = start * len(found) // len(letters)
        window = found[max(expected - reach, 0) : expected + len(block) + reach]
        equal += LCSseq.similarity(block, window)
    similarity = 2 * equal / (len(letters) + len(found))
    return min(similarity, 1 - 1 / (2 * len(letters)))


# Symbols and numbers


def _with_symbols(match: _Match, part: str, text: str) -> _Match:
    """Lower the similarity of a match by the symbols that differ."""
    quoted = _symbols_in(part)
    # Symbols at the ends belong to the match if the quotation has them.
    before = text[max(match.start - 2, 0) : match.start]
    after = text[match.end : match.end + 2]
    found = _symbols_in(text[match.start : match.end])
    missing = quoted - found - _symbols_in(before) - _symbols_in(after)
    # The source has more: within the match, or right at its ends, as a "%" that was dropped.
    adjacent = _symbols_in(before[-1:]) + _symbols_in(after[:1])
    added = found + adjacent - quoted
    count = max(missing.total(), added.total())
    length = len(fold(part))
    return match._replace(similarity=match.similarity * length / (length + count))


def _symbols_in(text: str) -> Counter[str]:
    """Count the symbols of mathematics and currencies, and percent signs, of a text."""
    symbols: Counter[str] = Counter()
    for character in normalize("NFKC", text).replace("!=", "\u2260"):
        is_symbol = category(character) in {"Sm", "Sc"} and character not in _NO_SYMBOLS
        if is_symbol or character in _SYMBOLS:
            symbols[character] += 1
    return symbols


def _numbers_in(text: str, start: int, end: int) -> str:
    """Join the numbers between two positions of a text, each as a whole, in plain characters."""
    matches = _NUMBER.finditer(text, max(start - _AROUND, 0), end + _AROUND)
    numbers = [match[0] for match in matches if start < match.end() and match.start() < end]
    return normalize("NFKD", " ".join(numbers)).translate(_PLAIN)
