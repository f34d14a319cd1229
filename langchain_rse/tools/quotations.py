"""Finds quotations in text and Markdown, in quotation marks of any language."""

import html
import re
from collections.abc import Iterator
from typing import NamedTuple

# Opening marks, and the marks that close them.
_MARKS = "“” ”” „“” «» »« \u2039\u203a 「」 『』 《》 \uff02\uff02 ❝❞ 〝〞〟"
_CLOSING_MARKS = {marks[0]: marks[1:] for marks in _MARKS.split()}
# Marks that may be inches, commas or arrows, so must be at the edge of a word: opening mark,
# closing mark, and the text inside.
_AMBIGUOUS_MARKS = [
    ('"', '"', '[^"]'),
    ("\u2018", "\u2019", "[^\u2018]"),
    ("'", "'", r"(?!(?<=[\s(\[])'\S)[\s\S]"),  # no other one opens within
    ("\u201a", "[\u2018\u2019]", "[^\u201a]"),
    ("\u203a", "\u2039", "[^\u203a]"),
]
_LETTER = r"[^\W_\u2e80-\U0010ffff]"  # except scripts without spaces
_SAME_PARAGRAPH = r"(?!\n\s*\n)"
_LIST_MARKS = r"[ \t]*(?:(?:[-*+]|\d+[.)])[ \t]+)*"  # of lists around a block quote


def _quotation_pattern() -> str:
    """Make the pattern of block quotes, marked quotations and, last, those without an end."""
    patterns = [rf"^{_LIST_MARKS}(?P<block>>.*(?:\n[ \t]*>.*)*)"]
    for name in ("q", "blockquote"):
        patterns.append(rf"<{name}\b[^<>]*>(?P<{name}>(?:(?!</?{name}\b)[\s\S])*)</{name}\s*>")
    patterns.append(rf"&quot;(?P<entity>(?:{_SAME_PARAGRAPH}(?!&quot;)[\s\S])*)&quot;")
    for opening, closing in _CLOSING_MARKS.items():
        patterns.append(f"{opening}(?:{_SAME_PARAGRAPH}[^{opening}{closing}])*[{closing}]")
    for opening, closing, inside in _AMBIGUOUS_MARKS:
        patterns.append(
            rf"(?<!{_LETTER}){opening}(?=\S)"
            rf"(?:{_SAME_PARAGRAPH}{inside})*?"
            rf"(?<=\S){closing}(?!{_LETTER})"
        )
    opening = f'[{"".join(_CLOSING_MARKS)}]|(?<!{_LETTER})"(?=\\S)'
    patterns.append(rf"(?P<open>{opening})(?:{_SAME_PARAGRAPH}(?!(?P=open))[\s\S])*")
    return "|".join(patterns)


_QUOTATION = re.compile(_quotation_pattern(), re.MULTILINE | re.IGNORECASE)
_TAG = re.compile(r"<[^<>]*>")
_CODE = re.compile(r"```(?s:.*?)(?:```|\Z)|`[^`\n]+`")
_CITATION = re.compile(r"\[\d+(?:\s*,\s*\d+)*\]")
_BLOCK_MARKS = re.compile(rf"^(?:{_LIST_MARKS}>)+[ \t]*", re.MULTILINE)
_ATTRIBUTION = re.compile(r"\n(?:[—\u2013]|--).*\Z")
_OMISSION = re.compile(r"[\[(]\s*(?:…|\.{3})\s*[\])]|…|\.{3,}|\.(?: \.){2,}")
_PUNCTUATION = "\t\r\n,.;:!?\"'\u2018\u2019\u201a" + _MARKS
# Words; single characters in scripts without spaces.
_WORD = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]|[^\W_]\w*")
_MIN_WORDS = 3  # fewer could be found anywhere


class Quotation(NamedTuple):
    """A quotation in an answer."""

    text: str
    start: int
    end: int
    is_closed: bool = True

    @property
    def is_too_short(self) -> bool:
        """True if there are fewer than three words, without citations."""
        return _count_words(self.text) < _MIN_WORDS


def find_quotations(answer: str) -> Iterator[Quotation]:
    """Find the quotations in an answer that have words, in their order; none in code."""
    without_code = _CODE.sub(lambda code: "." * len(code[0]), answer)
    for match in _QUOTATION.finditer(without_code):
        start = match.start() + 1
        end = match.end() - 1
        in_html = match["q"] or match["blockquote"] or match["entity"]
        if match["block"]:
            yield from _find_in_block(answer, *match.span("block"))
        elif in_html:
            text = html.unescape(_TAG.sub(" ", in_html)).strip()
            if _count_words(text):
                yield Quotation(text, *match.span(match.lastgroup or 0))
        elif match["open"]:
            yield Quotation(answer[start : end + 1], start, end + 1, is_closed=False)
        elif _count_words(answer[start:end]):
            yield Quotation(answer[start:end], start, end)


def _find_in_block(answer: str, start: int, end: int) -> Iterator[Quotation]:
    """Find the quotation that a block quote is, or those in quotation marks within it."""
    block = answer[start:end]
    text = _BLOCK_MARKS.sub("", block).strip()
    text = _ATTRIBUTION.sub("", text).strip(_PUNCTUATION)
    # If most of the block is in quotation marks, the words around them are not the source's.
    unmarked_block = _BLOCK_MARKS.sub(lambda marks: " " * len(marks[0]), block)
    marked = [
        quotation
        for quotation in find_quotations(unmarked_block)
        if quotation.is_closed and not quotation.is_too_short
    ]
    if 2 * sum(len(quotation.text) for quotation in marked) >= len(text):
        for quotation in marked:
            yield quotation._replace(start=start + quotation.start, end=start + quotation.end)
        return
    if _count_words(text):
        yield Quotation(text, start, end)


def _count_words(text: str) -> int:
    return len(_WORD.findall(remove_citations(text)))


def remove_citations(text: str) -> str:
    """Remove citations such as ``[1]`` or ``[2, 3]``."""
    return _CITATION.sub("", text)


def remove_punctuation(text: str) -> str:
    """Remove punctuation and white space at the ends."""
    return text.strip(_PUNCTUATION)


def count_omissions(text: str) -> int:
    """Count the ellipses of a quotation."""
    return len(_OMISSION.findall(text))


def split_at_omissions(text: str) -> list[str]:
    """Return the parts of a quotation between ellipses; those that have words."""
    return [part for part in _OMISSION.split(text) if _WORD.search(part)]
