"""Checks the quotations in an answer against its passages."""

import itertools
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple
from unicodedata import normalize

from rapidfuzz.distance import Indel
from rapidfuzz.fuzz import partial_ratio_alignment

from langchain_rse.ingest.alignment import Form, fold, folded
from langchain_rse.tools.places import Passage, PassageLike, Place, read_passages
from langchain_rse.tools.quotations import (
    Quotation,
    find_quotations,
    has_omission,
    remove_citations,
    remove_punctuation,
    split_at_omissions,
)

# Numbers. After a letter, digit, % or bracket, a sign is a hyphen.
_SIGN = r"(?<![\w%)\]])[-+\u2010-\u2013\u2212]"
_NUMBER = re.compile(rf"(?:{_SIGN})?\d+(?:[.,]\d+)*|[¹²³⁰-₉]+|[¼-¾⅐-⅞①-⒛]")
_PLAIN = str.maketrans("\u2010\u2011\u2012\u2013\u2212\u2044", "----- ")
# A number at the edge of a match may extend this many characters beyond it.
_AROUND = 100

# At most this many parts of a quotation are compared.
_MOST_PARTS = 50
# Similar text is located by runs of this many letters, the longest that rapidfuzz slides in one
# step per letter. One of them must be at least this similar, in percent.
_RUN = 64
_LEAST_SIMILAR = 60
# The alignment takes time and memory by the square of the letters.
_MOST_LETTERS = 20_000
_FEWEST = 4  # shorter runs of equal letters occur by chance

Verdict = Literal["exact", "shortened", "similar", "missing", "too short", "unclosed"]


@dataclass(frozen=True)
class Quote(Place):
    """A quotation in an answer, and its place in the passages.

    Attributes:
        text: The text between the quotation marks, or of a block quote.
        start: The first character of ``text`` in the answer.
        end: The character after the last one of ``text``.
        verdict: ``"exact"``: a passage contains it, except for white space; ``"shortened"``: a
            passage contains its parts, with ``omitted`` text at each ellipsis; ``"similar"``: a
            passage contains it with small differences, see ``similarity``; ``"missing"``: no
            passage contains it; ``"too short"``: it has fewer than three words; ``"unclosed"``: its
            closing mark is missing. The last two are not searched for.
        number: The number of the passage, from 1; None if no passage contains the quotation.
        doc_id: The id of the passage's document; None if ``number`` is None.
        start_index: The first character of the place in the document's text.
        end_index: The character after the last one of the place.
        found: The text of the place.
        similarity: The share of equal letters and digits, from 0 to 1; below 1 if any differs.
        omitted: The passage's text at each ellipsis between two parts. It may be a "not": check it
            before you show the quotation.
        source: The source of the passage's document, or its id.
        title: The title of the passage's document, or its name.
    """

    verdict: Verdict = field(kw_only=True)
    similarity: float = 0.0
    omitted: Sequence[str] = ()


def verify_quotes(
    answer: str, passages: Iterable[PassageLike], *, min_similarity: float = 0.85
) -> list[Quote]:
    """Find the quotations of an answer in its passages.

    Quotations are text in quotation marks of any language, and Markdown block quotes, except in
    code. An ellipsis stands for omitted text of the passage. Quotation marks, punctuation at the
    ends, citations such as ``[1]`` and white space are not compared.

    Args:
        answer: The answer, as text or Markdown.
        passages: The passages from a retriever or from the artifacts of `create_rse_tool`; dicts
            from a checkpointer work. Passages without a number from the tool count from 1.
        min_similarity: Minimum share of equal letters and digits in a similar quotation, from 0 to
            1. Its numbers must be equal in any case.

    Returns:
        The quotations in the order of the answer.

    Raises:
        ValueError: If ``min_similarity`` is out of its range.
    """
    if not 0 <= min_similarity <= 1:
        raise ValueError(f"min_similarity must be from 0 to 1; got {min_similarity!r}")
    sources = [_read_source(passage) for passage in read_passages(passages)]
    return [_verify(quotation, sources, min_similarity) for quotation in find_quotations(answer)]


class _Source(NamedTuple):
    """A passage, and two searchable forms of its text."""

    passage: Passage
    compact: Form  # without white space
    letters: Form  # letters and digits without case


class _Match(NamedTuple):
    """The place of a quotation, or of a part of it, in the text of a source."""

    similarity: float
    start: int
    end: int
    omitted: Sequence[str] = ()  # the texts between its parts


_Find = Callable[[str, _Source, int], _Match | None]
"""Finds a part of a quotation in a source, from a character on."""


def _read_source(passage: Passage) -> _Source:
    text = passage.text
    places = [place for place, character in enumerate(text) if not character.isspace()]
    compact = Form(text, "".join(text.split()), places)
    return _Source(passage, compact, folded(text, enumerate(text)))


def _verify(quotation: Quotation, sources: Sequence[_Source], min_similarity: float) -> Quote:
    text = quotation.text
    quote = Quote(text, quotation.start, quotation.end, verdict="missing")
    if not quotation.is_closed:
        return replace(quote, verdict="unclosed")
    if quotation.is_too_short:
        return replace(quote, verdict="too short")
    variants = dict.fromkeys([text, remove_citations(text)])  # the source may have such numbers
    for find, variant in itertools.product((_find_exact, _find_similar), variants):
        parts = split_at_omissions(variant)
        found = []
        for source in sources:
            match = _find_in_order(parts, source, find)
            if match is not None and match.similarity >= min_similarity:
                found.append((match, source.passage))
        if not found:
            continue
        match, passage = max(found, key=lambda pair: pair[0].similarity)
        verdict: Verdict = "shortened" if has_omission(variant) else "exact"
        return replace(
            quote,
            verdict=verdict if find is _find_exact else "similar",
            similarity=match.similarity,
            omitted=match.omitted,
            **passage.place(match.start, match.end),
        )
    return quote


def _find_in_order(parts: Sequence[str], source: _Source, find: _Find) -> _Match | None:
    """Find the parts of a quotation, each after the one before."""
    if len(parts) > _MOST_PARTS:
        return None
    matches: list[_Match] = []
    position = 0
    for part in parts:
        match = find(remove_punctuation(part), source, position)
        if match is None:
            return None
        matches.append(match)
        position = match.end
    lowest = min(match.similarity for match in matches)
    omitted = []
    for before, after in itertools.pairwise(matches):
        omitted.append(source.passage.text[before.end : after.start])
    return _Match(lowest, matches[0].start, matches[-1].end, omitted)


def _find_exact(part: str, source: _Source, position: int) -> _Match | None:
    """Find the same characters, ignoring white space."""
    characters = "".join(part.split())
    first = bisect_left(source.compact.places, position)
    start = source.compact.text.find(characters, first)
    if start < 0:
        return None
    return _match(source.compact, 1.0, start, start + len(characters))


def _match(form: Form, similarity: float, start: int, end: int) -> _Match:
    """Make a match of a range of characters of a form."""
    return _Match(similarity, form.places[start], form.places[end - 1] + 1)


def _find_similar(part: str, source: _Source, position: int) -> _Match | None:
    """Find most of the letters, with the same numbers."""
    letters = fold(part)
    first = bisect_left(source.letters.places, position)
    text = source.letters.text[first:]
    place = _locate(letters, text)
    if place is None:
        return None
    start, end = _align(letters, text, place)
    similarity = Indel.normalized_similarity(letters, text[start:end])
    match = _match(source.letters, similarity, first + start, first + end)
    numbers = _numbers_in(source.passage.text, match.start, match.end)
    return match if numbers == _numbers_in(part, 0, len(part)) else None


def _locate(letters: str, text: str) -> int | None:
    """Find the place in a text that is similar to the letters."""
    if len(letters) > _MOST_LETTERS:
        return None
    place = None
    highest = float(_LEAST_SIMILAR)
    last_run = max(len(letters) - _RUN, 0)
    for start in (0, last_run // 2, last_run):
        run = letters[start : start + _RUN]
        found = partial_ratio_alignment(run, text, score_cutoff=highest)
        if found is not None and (place is None or found.score > highest):
            highest = found.score
            place = max(found.dest_start - found.src_start - start, 0)
    return place


def _align(letters: str, text: str, place: int) -> tuple[int, int]:
    """Find the range of a text near a place that is most similar to the letters."""
    slack = len(letters) // 8
    window_start = max(place - slack, 0)
    window = text[window_start : place + len(letters) + slack]
    blocks = Indel.editops(letters, window).as_matching_blocks()
    runs = [block for block in blocks if block.size >= _FEWEST] or blocks
    before_first = runs[0].b - runs[0].a
    before_last = runs[-1].b - runs[-1].a
    start = max(window_start + before_first, 0)
    end = min(window_start + before_last + len(letters), len(text))
    return start, end


def _numbers_in(text: str, start: int, end: int) -> str:
    """Join the numbers between two positions of a text, whole and in plain characters."""
    matches = _NUMBER.finditer(text, max(start - _AROUND, 0), end + _AROUND)
    numbers = [match[0] for match in matches if start < match.end() and match.start() < end]
    return normalize("NFKD", " ".join(numbers)).translate(_PLAIN)
