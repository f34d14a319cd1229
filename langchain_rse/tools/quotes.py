"""Checks the quotations in an answer against its passages."""

import itertools
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple
from unicodedata import normalize

from rapidfuzz.distance import Indel
from rapidfuzz.fuzz import partial_ratio_alignment

from langchain_rse.ingest.alignment import Form, fold, folded_form
from langchain_rse.tools.passages import Passage, PassageLike, Place, read_passages
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

Verdict = Literal["exact", "shortened", "similar", "missing"]


@dataclass(frozen=True)
class Quote(Place):
    """A quotation in an answer, and its place in the passages.

    Attributes:
        text: The text between the quotation marks, or of a block quote, without marks of lines.
        start: The first character of ``text`` in the answer.
        end: The character after the last one of ``text``.
        verdict: ``"exact"``: a passage contains it, except for white space; ``"shortened"``: a
            passage contains its parts, with ``omitted`` text at each ellipsis; ``"similar"``: a
            passage contains it with small differences, see ``similarity``; ``"missing"``: no
            passage contains it.
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
    code. Those of fewer than three words could match anywhere, and are skipped. An ellipsis stands
    for omitted text of the passage. Quotation marks, punctuation at the ends, citations such as
    ``[1]`` and white space are not compared.

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
    sources = []
    for passage in read_passages(passages):
        sources.append(_Source(passage, folded_form(passage.text)))
    return [_verify(quotation, sources, min_similarity) for quotation in find_quotations(answer)]


class _Source(NamedTuple):
    """A passage, and the letters and digits of its text."""

    passage: Passage
    letters: Form


class _Match(NamedTuple):
    """The place of a quotation, or of a part of it, in the text of a source."""

    is_exact: bool
    similarity: float
    start: int
    end: int
    omitted: Sequence[str] = ()  # the texts between its parts


def _verify(quotation: Quotation, sources: Sequence[_Source], min_similarity: float) -> Quote:
    text = quotation.text
    quote = Quote(text, quotation.start, quotation.end, verdict="missing")
    variants = dict.fromkeys([text, remove_citations(text)])  # the source may have such numbers
    found = []
    for variant, source in itertools.product(variants, sources):
        match = _find_in_order(split_at_omissions(variant), source)
        if match is not None and match.similarity >= min_similarity:
            found.append((match, source.passage))
    if not found:
        return quote
    match, passage = max(found, key=lambda pair: pair[0][:2])
    verdict: Verdict = "similar"
    if match.is_exact:
        verdict = "shortened" if has_omission(text) else "exact"
    return replace(
        quote,
        verdict=verdict,
        similarity=match.similarity,
        omitted=match.omitted,
        **passage.place(match.start, match.end),
    )


def _find_in_order(parts: Sequence[str], source: _Source) -> _Match | None:
    """Find the parts of a quotation, each after the one before."""
    if len(parts) > _MOST_PARTS:
        return None
    matches: list[_Match] = []
    position = 0
    for part in parts:
        match = _find(remove_punctuation(part), source, position)
        if match is None:
            return None
        matches.append(match)
        position = match.end
    weakest = min(matches)
    omitted = []
    for before, after in itertools.pairwise(matches):
        omitted.append(source.passage.text[before.end : after.start])
    return weakest._replace(start=matches[0].start, end=matches[-1].end, omitted=omitted)


def _find(part: str, source: _Source, position: int) -> _Match | None:
    """Find the characters of a part of a quotation, or most of its letters with the same numbers.

    Args:
        part: The part.
        source: Where to find it.
        position: The first character of the source's text to search.
    """
    letters = fold(part)
    if not letters:
        return None
    text = source.passage.text
    places = source.letters.places
    numbers = _numbers_in(part, 0, len(part))
    similar = None
    for first, last in _ranges(letters, source.letters.text, bisect_left(places, position)):
        start, end = places[first], places[last - 1] + 1
        if _numbers_in(text, start, end) != numbers:
            continue
        # White space is not compared; symbols around the letters are.
        before = places[first - 1] + 1 if first > 0 else 0
        is_exact = _compact(part) in _compact(text[before : places[last]])
        similarity = Indel.normalized_similarity(letters, source.letters.text[first:last])
        match = _Match(is_exact, similarity, start, end)
        if is_exact:
            return match
        similar = similar or match
    return similar


def _compact(text: str) -> str:
    return "".join(text.split())


def _ranges(letters: str, text: str, position: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges of equal letters from a position on, then the range of similar ones."""
    start = text.find(letters, position)
    while start >= 0:
        end = start + len(letters)
        yield start, end
        start = text.find(letters, end)
    similar = _align(letters, text[position:])
    if similar is not None:
        start, end = similar
        yield position + start, position + end


def _align(letters: str, text: str) -> tuple[int, int] | None:
    """Find the range of a text that is most similar to the letters."""
    if len(letters) > _MOST_LETTERS:
        return None
    place = None
    highest = float(_LEAST_SIMILAR)
    last_run = max(len(letters) - _RUN, 0)
    for run_start in (0, last_run // 2, last_run):
        run = letters[run_start : run_start + _RUN]
        found = partial_ratio_alignment(run, text, score_cutoff=highest)
        if found is not None and found.score > highest:
            highest = found.score
            place = found.dest_start - found.src_start - run_start
    if place is None:
        return None
    slack = len(letters) // 8
    window_start = max(place - slack, 0)
    window = text[window_start : max(place, 0) + len(letters) + slack]
    blocks = Indel.editops(letters, window).as_matching_blocks()
    runs = [block for block in blocks if block.size >= _FEWEST] or blocks
    start = window_start + runs[0].b - runs[0].a
    end = window_start + runs[-1].b - runs[-1].a + len(letters)
    return max(start, 0), min(end, len(text))


def _numbers_in(text: str, start: int, end: int) -> str:
    """Join the numbers between two positions of a text, whole and in plain characters."""
    matches = _NUMBER.finditer(text, max(start - _AROUND, 0), end + _AROUND)
    numbers = [match[0] for match in matches if start < match.end() and match.start() < end]
    return normalize("NFKD", " ".join(numbers)).translate(_PLAIN)
