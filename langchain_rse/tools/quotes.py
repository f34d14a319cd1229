"""Checks the quotations in an answer against its passages."""

import itertools
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Literal, NamedTuple
from unicodedata import normalize

from rapidfuzz.distance import Indel
from rapidfuzz.fuzz import partial_ratio_alignment

from langchain_rse._messages import check_type
from langchain_rse.ingest.alignment import Form, fold, folded_form
from langchain_rse.tools.passages import ModelCitation, PassageLike, ReadPassage, read_passages

# Each opening mark, with its closing marks.
_MARKS = "“” ”” „“” «» »« \u2039\u203a 「」 『』 《》 \uff02\uff02 ❝❞ 〝〞〟"
_CLOSING_MARKS = {marks[0]: marks[1:] for marks in _MARKS.split()}
# Scripts without spaces between words, or with words joined to a quotation.
_JOINING = "\u0600-\u06ff\u0750-\u077f\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\U0010ffff"
_HEBREW = "\u05d0-\u05ea"
_SUPERSCRIPTS = "\xb2\xb3\xb9\xbc-\xbe\u2070-\u209c"  # notes after a quotation
_LETTER_OR_DIGIT = rf"[^\W_{_JOINING}]"
_LETTER = rf"[^\W\d_{_SUPERSCRIPTS}{_JOINING}]"
# Contexts that let ambiguous marks (inches, commas, arrows) open and close a quotation.
_OPENS = rf"(?<!{_LETTER_OR_DIGIT})"
_CLOSES = rf"(?!{_LETTER})(?!(?<=\d.)\d)"  # 5'6 is a length
# Opening mark, closing mark, and the text inside.
_AMBIGUOUS_MARKS = [
    (rf'(?<![^\W_{_JOINING}{_HEBREW}])"', r'(?<![(\[{<=])"', '[^"]'),
    (rf'(?<={_LETTER})"(?=\w)', f'"(?!{_LETTER})', '[^"]'),  # without a space before it
    (rf"{_OPENS}\u2018", rf"\u2019{_CLOSES}", "[^\u2018]"),
    # No other one opens inside.
    (rf"{_OPENS}'", rf"'{_CLOSES}", rf"(?!{_OPENS}'\S)[\s\S]"),
    (rf"{_OPENS}\u201a", rf"[\u2018\u2019]{_CLOSES}", "[^\u201a]"),
    (rf"{_OPENS}\u203a", rf"\u2039{_CLOSES}", "[^\u203a]"),
]
# In an abbreviation, the mark precedes the last letters. After prefixes and before a word, it opens
# a quotation.
_HEBREW_ABBREVIATION = re.compile(
    rf'(?<![{_HEBREW}])(?P<prefix>[\u05d5\u05e9\u05d4\u05d1\u05db\u05dc\u05de]{{1,4}}"'
    rf'(?=[{_HEBREW}]{{2}}))|(?<=[{_HEBREW}])"(?=[{_HEBREW}])'
)
_SAME_PARAGRAPH = r"(?!\n\s*\n)"
_LIST_MARKS = r"[ \t]*(?:(?:[-*+]|\d+[.)])[ \t]+)*"  # of lists around a block quote


@cache  # compiled on first use: it takes longer than all other imports of the module
def _quotations() -> re.Pattern[str]:
    """Match marked quotations, and block quotes that begin without a mark."""
    marks = "".join(_CLOSING_MARKS)
    other = rf'[\s>]{{0,9}}(?:["\u2014\u2013{marks}]|--)'  # a quotation, or the name of its source
    patterns = [rf"^{_LIST_MARKS}(?P<block>>(?!{other}).*(?:\n[ \t]*>.*)*)"]
    for opening, closing in _CLOSING_MARKS.items():
        patterns.append(f"{opening}(?:{_SAME_PARAGRAPH}[^{opening}{closing}])*[{closing}]")
    for opening, closing, inside in _AMBIGUOUS_MARKS:
        patterns.append(rf"{opening}(?=\S)(?:{_SAME_PARAGRAPH}{inside})*?(?<=\S){closing}")
    return re.compile("|".join(patterns), re.MULTILINE)


_CODE = re.compile(r"```(?s:.*?)(?:```|\Z)|`[^`\n]+`")
_CITATION = re.compile(r"\[\d+(?:\s*,\s*\d+)*\]")
_BLOCK_MARKS = re.compile(rf"^(?:{_LIST_MARKS}>)+[ \t]*", re.MULTILINE)
_ATTRIBUTION = re.compile(r"\n(?:[—\u2013]|--).*\Z")
_OMISSION = re.compile(r"[\[(]\s*(?:…|\.{3})\s*[\])]|…|\.{3,}|\.(?: \.){2,}")
_PUNCTUATION = "\t\r\n,.;:!?\"'\u2018\u2019\u201a" + _MARKS
# Words; single characters in scripts without spaces.
_WORD = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]|[^\W_]\w*")
_MIN_WORDS = 3  # shorter quotations could match anywhere

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
class Quote(ModelCitation):
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
    check_type("answer", answer, str, "a text")
    if not 0 <= min_similarity <= 1:
        raise ValueError(f"min_similarity must be from 0 to 1; got {min_similarity!r}")
    read = [(each, folded_form(each.text)) for each in read_passages(passages)]
    without_code = _CODE.sub(lambda code: "." * len(code[0]), answer)
    without_code = _HEBREW_ABBREVIATION.sub(lambda mark: mark["prefix"] or ".", without_code)
    quotes = []
    for match in _quotations().finditer(without_code):
        start, end = match.start() + 1, match.end() - 1
        if match["block"]:
            start, end = match.span("block")
        text = _BLOCK_MARKS.sub("", answer[start:end])
        if match["block"]:
            text = _ATTRIBUTION.sub("", text.strip()).strip(_PUNCTUATION)
        if len(_WORD.findall(_CITATION.sub("", text))) >= _MIN_WORDS:
            quote = Quote(text, start, end, verdict="missing")
            quotes.append(_verify(quote, read, min_similarity))
    return quotes


class _Match(NamedTuple):
    """The place of a quotation, or of a part of it, in the text of a passage."""

    is_exact: bool
    similarity: float
    start: int
    end: int
    omitted: Sequence[str] = ()  # the texts between its parts


def _verify(quote: Quote, read: Sequence[tuple[ReadPassage, Form]], min_similarity: float) -> Quote:
    text = quote.text
    variants = dict.fromkeys([text, _CITATION.sub("", text)])  # the source may have such numbers
    found = []
    for variant, (passage, letters) in itertools.product(variants, read):
        parts = [part for part in _OMISSION.split(variant) if _WORD.search(part)]
        match = _find_in_order(parts, letters)
        if match is not None and match.similarity >= min_similarity:
            found.append((match, passage))
    if not found:
        return quote
    match, passage = max(found, key=lambda pair: pair[0][:2])
    verdict: Verdict = "similar"
    if match.is_exact:
        verdict = "shortened" if _OMISSION.search(text) else "exact"
    return replace(
        quote,
        verdict=verdict,
        similarity=match.similarity,
        omitted=match.omitted,
        **passage.place(match.start, match.end),
    )


def _find_in_order(parts: Sequence[str], passage: Form) -> _Match | None:
    """Find the parts of a quotation, each after the one before."""
    if len(parts) > _MOST_PARTS:
        return None
    matches = []
    position = 0
    for part in parts:
        match = _find(part.strip(_PUNCTUATION), passage, position)
        if match is None:
            return None
        matches.append(match)
        position = match.end
    weakest = min(matches)
    omitted = []
    for before, after in itertools.pairwise(matches):
        omitted.append(passage.source[before.end : after.start])
    return weakest._replace(start=matches[0].start, end=matches[-1].end, omitted=omitted)


def _find(part: str, passage: Form, position: int) -> _Match | None:
    """Find the characters of a part of a quotation, or most of its letters with the same numbers.

    Args:
        part: The part.
        passage: The text of a passage, and its letters.
        position: The first character of the text to search.
    """
    letters = fold(part)
    if not letters:
        return None
    text = passage.source
    places = passage.places
    numbers = _numbers_in(part, 0, len(part))
    similar = None
    for first, last in _ranges(letters, passage.text, bisect_left(places, position)):
        start, end = places[first], places[last - 1] + 1
        if _numbers_in(text, start, end) != numbers:
            continue
        # White space is not compared; symbols around the letters are.
        before = places[first - 1] + 1 if first > 0 else 0
        around = text[before : places[last]]
        is_exact = "".join(part.split()) in "".join(around.split())
        similarity = Indel.normalized_similarity(letters, passage.text[first:last])
        match = _Match(is_exact, similarity, start, end)
        if is_exact:
            return match
        similar = similar or match
    return similar


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
