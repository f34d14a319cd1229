"""Checks the quotations in an answer against the passages that it is based on."""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import Any, Literal, NamedTuple
from unicodedata import normalize

from langchain_core.documents import Document

from langchain_rse.ingest.alignment import Form, fold, folded, quotation_pattern
from langchain_rse.stores.records import DOC_ID, END_INDEX, SEGMENT, START_INDEX
from langchain_rse.tools.passages import NUMBER

# Opening marks, and the marks that close them.
_MARKS = "“” ”” „“” «» »« \u2039\u203a 「」 『』 《》 \uff02\uff02"
_PAIRS = {pair[0]: pair[1:] for pair in _MARKS.split()}
# Marks that may be inches, commas or arrows, so must be at the edge of a word; and the text inside.
_AMBIGUOUS = [('"', '"', '[^"]'), ("\u2018", "\u2019", "[^\u2018]"), ("'", "'", r"[\s\S]")]
_AMBIGUOUS += [("\u201a", "[\u2018\u2019]", "[^\u201a]"), ("\u203a", "\u2039", "[^\u203a]")]
_LETTER = r"[^\W_\u2e80-\U0010ffff]"  # except scripts without spaces
_IN_PARAGRAPH = r"(?!\n\s*\n)"
_UNCLOSED = (
    rf'(?P<open>[{"".join(_PAIRS)}]|(?<!{_LETTER})"(?=\S))(?:{_IN_PARAGRAPH}(?!(?P=open))[\s\S])*'
)
_MARKED = [f"{a}(?:{_IN_PARAGRAPH}[^{a}{b}])*[{b}]" for a, b in _PAIRS.items()]
_MARKED += [
    rf"(?<!{_LETTER}){a}(?=\S)(?:{_IN_PARAGRAPH}{inside})*?(?<=\S){b}(?!{_LETTER})"
    for a, b, inside in _AMBIGUOUS
]
_ITEMS = r"[ \t]*(?:(?:[-*+]|\d+[.)])[ \t]+)*"  # of lists around a block quote
_BLOCK_QUOTE = rf"^{_ITEMS}(?P<block>>.*(?:\n[ \t]*>.*)*)"
_QUOTATION = re.compile("|".join([_BLOCK_QUOTE, *_MARKED, _UNCLOSED]), re.MULTILINE)
# Numbers; after a letter, digit, % or bracket, a sign is a hyphen.
_SIGN = r"(?<![\w%)\]])[-+\u2010-\u2013\u2212]"
_NUMBER = re.compile(rf"(?:{_SIGN})?\d+(?:[.,]\d+)*|[¹²³⁰-₉]+|[¼-¾⅐-⅞①-⒛]")
_PLAIN = str.maketrans("\u2010\u2011\u2012\u2013\u2212\u2044", "----- ")
_CODE = re.compile(r"```(?s:.*?)(?:```|\Z)|`[^`\n]+`")
_CITATION = re.compile(r"\[\d+(?:\s*,\s*\d+)*\]")
_BLOCK_MARKS = re.compile(rf"^(?:{_ITEMS}>)+[ \t]*", re.MULTILINE)
_ATTRIBUTION = re.compile(r"\n(?:[—\u2013]|--).*\Z")
_LEFT_OUT = re.compile(r"[\[(]\s*(?:…|\.{3})\s*[\])]|…|\.{3,}|\.(?: \.){2,}")
_AROUND = "\t\r\n,.;:!?\"'\u2018\u2019\u201a" + _MARKS
# Words; single characters in scripts without spaces.
_WORD = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]|[^\W_]\w*")
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
    sources = [_source(number, one) for number, one in enumerate(segments, 1)]
    return [
        _check(quote, sources, min_similarity) if sources and quote.verdict == "missing" else quote
        for quote in _quotations(answer)
    ]


def _quotations(answer: str) -> Iterator[Quote]:
    for found in _QUOTATION.finditer(_CODE.sub(lambda code: "." * len(code[0]), answer)):
        start, end = found.start() + 1, found.end() - 1
        text = answer[start:end]
        if found["open"]:
            yield Quote(answer[start : end + 1], start, end + 1, "unclosed")
            continue
        if found["block"]:
            start, end = found.span("block")
            text = _BLOCK_MARKS.sub("", answer[start:end]).strip()
            text = _ATTRIBUTION.sub("", text).strip(_AROUND)
            # If most of the block is in marks, the words around them are not the source's.
            block = _BLOCK_MARKS.sub(lambda marks: " " * len(marks[0]), answer[start:end])
            marked = [one for one in _quotations(" " * start + block) if one.verdict == "missing"]
            if 2 * sum(len(one.text) for one in marked) >= len(text):
                yield from marked
                continue
        if count := len(_WORD.findall(_CITATION.sub("", text))):
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
    # The source may itself contain an ellipsis, or numbers in brackets.
    whole = list(dict.fromkeys([quote.text, _CITATION.sub("", quote.text)]))
    split = [[part for part in _LEFT_OUT.split(text) if _WORD.search(part)] for text in whole]
    tries = [([text], _exact) for text in whole] + [(parts, _exact) for parts in split]
    for wanted, find in tries + [(parts, _similar) for parts in split]:
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
        places.append(find(part.strip(_AROUND), source, places[-1][2] if places else 0))
        if not places[-1][0]:
            break
    return min(places)[0], places[0][1], places[-1][2]


def _exact(part: str, source: _Source, least: int) -> _Place:
    found = quotation_pattern(part).search(source.text, least)
    return (1.0, *found.span()) if found else _NOWHERE


def _similar(part: str, source: _Source, least: int) -> _Place:
    """Find the text around the longest run of equal letters, if its numbers are the same."""
    letters, numbers, (_, text, places, *_) = fold(part), _numbers(part, 0, len(part)), source.form
    least = bisect_left(places, least)
    for equal in re.compile(letters).finditer(text, least):
        place = (1.0, places[equal.start()], places[equal.end() - 1] + 1)
        if _numbers(source.text, *place[1:]) == numbers:
            return place
    # Frequent runs are left out: in repetitive text they would take very long.
    wanted, is_long = _runs(letters), len(letters) >= _LONG
    run = SequenceMatcher(None, wanted, _runs(text[least:])).find_longest_match()
    slack, near = len(letters) // 8, least + run.b - run.a
    first = max(near - slack, least)
    around = _runs(text[first : near + len(letters) + slack])
    *runs, _ = SequenceMatcher(None, wanted, around, autojunk=is_long).get_matching_blocks()
    if not runs:
        return _NOWHERE
    start = max(first + runs[0].b - runs[0].a, least)
    end = min(first + runs[-1].b - runs[-1].a + len(letters), len(text))
    if is_long:
        same = sum(one.size + _RUN - 1 for one in runs)
        similarity = min(2 * same / (len(letters) + end - start), 1.0)
    else:
        similarity = SequenceMatcher(None, letters, text[start:end], autojunk=False).ratio()
    place = (similarity, places[start], places[end - 1] + 1)
    return place if _numbers(source.text, *place[1:]) == numbers else _NOWHERE


def _runs(letters: str) -> list[str]:
    return [letters[start : start + _RUN] for start in range(len(letters) - _RUN + 1)]


def _numbers(text: str, start: int, end: int) -> str:
    """Join the numbers between two places of a text, each as a whole and in plain characters."""
    near = _NUMBER.finditer(text, max(start - _LONG, 0), end + _LONG)
    inside = (one[0] for one in near if start < one.end() and one.start() < end)
    return normalize("NFKD", " ".join(inside)).translate(_PLAIN)
