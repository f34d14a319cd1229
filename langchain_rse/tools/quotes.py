"""Checks the quotations in an answer against the passages that it is based on."""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import Any, Literal, NamedTuple

from langchain_core.documents import Document

from langchain_rse.ingest.alignment import Form, fold, folded, quotation_pattern
from langchain_rse.stores.records import DOC_ID, END_INDEX, SEGMENT, START_INDEX
from langchain_rse.tools.passages import NUMBER

# Opening marks, and the marks that close them.
_PAIRS = {"“": "”", "”": "”", "„": "“”", "«": "»", "»": "«", "「": "」", "『": "』"}
# Marks that may be inches or apostrophes, so must be at the edge of a word; and the text inside.
_AMBIGUOUS = [('"', '"', '[^"]'), ("\u2018", "\u2019", "[^\u2018]"), ("'", "'", r"[\s\S]")]
_LETTER = r"[^\W\u2e80-\U0010ffff]"  # except scripts without spaces
_IN_PARAGRAPH = r"(?!\n\s*\n)"
_UNCLOSED = (
    rf'(?P<open>[{"".join(_PAIRS)}]|(?<!{_LETTER})"(?=\S))(?:{_IN_PARAGRAPH}(?!(?P=open))[\s\S])*'
)
_QUOTATION = re.compile(
    "|".join(
        [
            r"^[ \t]*(?P<block>>.*(?:\n[ \t]*>.*)*)",
            *(f"{a}(?:{_IN_PARAGRAPH}[^{a}{b}])*[{b}]" for a, b in _PAIRS.items()),
            *(
                rf"(?<!{_LETTER}){a}(?=\S)(?:{_IN_PARAGRAPH}{inside})*?(?<=\S){b}(?!{_LETTER})"
                for a, b, inside in _AMBIGUOUS
            ),
            _UNCLOSED,
        ]
    ),
    re.MULTILINE,
)
_CODE = re.compile(r"```(?s:.*?)(?:```|\Z)|`[^`\n]+`")
_LEFT_OUT = re.compile(r"[\[(]\s*(?:…|\.{3})\s*[\])]|…|\.{3,}|\.(?: \.){2,}")
_AROUND = " \t\r\n,.;:!?\"'\u2018\u2019" + "".join(_PAIRS)
# Words; single characters in scripts without spaces.
_WORD = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]|\w+")
_LEAST_WORDS = 3
# The length of sequences of letters by which similar texts are compared, which saves time.
_RUN = 4
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
            differences, see ``similarity``; ``"missing"``: it is in none; ``"too short"``: it has
            fewer than three words, which may occur anywhere; ``"unclosed"``: no mark closes it. The
            last two are not searched for.
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
    punctuation at the ends and white space are not compared.

    Args:
        answer: The answer, as text or Markdown.
        segments: The segments from a retriever or from the artifacts of `create_rse_tool`, also as
            dicts from a checkpointer. Their numbers are the tool's, or their places here, from 1.
        min_similarity: The share of letters and digits that must be the same in a similar
            quotation, from 0 to 1. Its digits must all be the same.

    Returns:
        The quotations in the order of the answer.

    Raises:
        ValueError: If ``min_similarity`` is out of its range.
    """
    if not 0 <= min_similarity <= 1:
        raise ValueError(f"min_similarity must be from 0 to 1; got {min_similarity!r}")
    sources = [_source(number, one) for number, one in enumerate(segments, 1)]
    return [
        _check(quote, sources, min_similarity) if sources and quote.verdict == "missing" else quote
        for quote in _quotations(answer)
    ]


def _quotations(answer: str) -> Iterator[Quote]:
    without_code = _CODE.sub(lambda code: "." * len(code[0]), answer)
    for found in _QUOTATION.finditer(without_code):
        start, end = found.start() + 1, found.end() - 1
        text = answer[start:end]
        if found["open"]:
            yield Quote(answer[start : end + 1], start, end + 1, "unclosed")
            continue
        if found["block"]:
            start, end = found.span("block")
            text = re.sub(r"(?m)^[ \t]*>[ \t>]*", "", answer[start:end]).strip(_AROUND)
        if count := len(_WORD.findall(text)):
            yield Quote(text, start, end, "missing" if count >= _LEAST_WORDS else "too short")


class _Source(NamedTuple):
    number: int
    metadata: Mapping[str, Any]
    text: str
    form: Form  # its letters and digits


def _source(number: int, document: Document | Mapping[str, Any]) -> _Source:
    """Make the source of a segment, without the header that may be above its text."""
    fields = document if isinstance(document, Mapping) else vars(document)
    metadata, text = fields["metadata"], fields["page_content"]
    if metadata.keys() >= {START_INDEX, END_INDEX}:
        text = text[max(len(text) - metadata[END_INDEX] + metadata[START_INDEX], 0) :]
    number = (metadata.get(SEGMENT) or {}).get(NUMBER, number)
    return _Source(number, metadata, text, folded(text, enumerate(text)))


_Place = tuple[float, int, int]  # similarity, start and end
_NOWHERE = (0.0, 0, 0)


def _check(quote: Quote, sources: Sequence[_Source], least: float) -> Quote:
    parts = [part.strip(_AROUND) for part in _LEFT_OUT.split(quote.text) if _WORD.search(part)]
    whole = [quote.text.strip(_AROUND)]  # an ellipsis may be the source's own
    for wanted, find in ((whole, _exact), (parts, _exact), (parts, _similar)):
        found = [(_in_order(wanted, one, find), one) for one in sources]
        (similarity, start, end), source = max(found, key=lambda pair: pair[0][0])
        if similarity >= least and similarity:
            first = source.metadata.get(START_INDEX, 0)
            return replace(
                quote,
                verdict="exact" if find is _exact else "similar",
                number=source.number,
                doc_id=source.metadata.get(DOC_ID),
                start_index=first + start,
                end_index=first + end,
                found=source.text[start:end],
                similarity=similarity,
            )
    return quote


def _in_order(
    parts: Sequence[str], source: _Source, find: Callable[[str, _Source, int], _Place]
) -> _Place:
    """Find all parts one after the other; similarity 0 if one is missing."""
    places: list[_Place] = []
    for part in parts:
        places.append(find(part, source, places[-1][2] if places else 0))
        if not places[-1][0]:
            break
    return min(places)[0], places[0][1], places[-1][2]


def _exact(part: str, source: _Source, least: int) -> _Place:
    found = quotation_pattern(part).search(source.text, least)
    return (1.0, *found.span()) if found else _NOWHERE


def _similar(part: str, source: _Source, least: int) -> _Place:
    """Find the text around the longest run of equal letters, if its digits are the same."""
    letters, (_, text, places, *_) = fold(part), source.form
    least = bisect_left(places, least)
    if (start := text.find(letters, least)) >= 0:
        return 1.0, places[start], places[start + len(letters) - 1] + 1
    matcher = SequenceMatcher(None, _runs(letters), _runs(text[least:]), autojunk=False)
    run = matcher.find_longest_match()
    slack, near = len(letters) // 8, least + run.b - run.a
    first = max(near - slack, least)
    matcher.set_seq2(_runs(text[first : near + len(letters) + slack]))
    *runs, _ = matcher.get_matching_blocks()
    if not runs:
        return _NOWHERE
    start = max(first + runs[0].b - runs[0].a, least)
    end = min(first + runs[-1].b - runs[-1].a + len(letters), len(text))
    found = text[start:end]
    if _digits(letters) != _digits(found):
        return _NOWHERE
    if len(letters) < _LONG:
        similarity = SequenceMatcher(None, letters, found, autojunk=False).ratio()
    else:
        same = sum(one.size + _RUN - 1 for one in runs)
        similarity = min(2 * same / (len(letters) + len(found)), 1.0)
    return similarity, places[start], places[end - 1] + 1


def _runs(letters: str) -> list[str]:
    return [letters[start : start + _RUN] for start in range(len(letters) - _RUN + 1)]


def _digits(letters: str) -> str:
    return "".join(filter(str.isdecimal, letters))
