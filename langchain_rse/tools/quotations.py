"""Finds quotations in text and Markdown, with the quotation marks of any language."""

import re
from collections.abc import Iterator
from typing import NamedTuple

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


def _quotation_pattern() -> str:
    """Make the pattern of marked quotations, and of block quotes that begin without a mark."""
    marks = "".join(_CLOSING_MARKS)
    other = rf'[\s>]{{0,9}}(?:["\u2014\u2013{marks}]|--)'  # a quotation, or the name of its source
    patterns = [rf"^{_LIST_MARKS}(?P<block>>(?!{other}).*(?:\n[ \t]*>.*)*)"]
    for opening, closing in _CLOSING_MARKS.items():
        patterns.append(f"{opening}(?:{_SAME_PARAGRAPH}[^{opening}{closing}])*[{closing}]")
    for opening, closing, inside in _AMBIGUOUS_MARKS:
        patterns.append(rf"{opening}(?=\S)(?:{_SAME_PARAGRAPH}{inside})*?(?<=\S){closing}")
    return "|".join(patterns)


_QUOTATION = re.compile(_quotation_pattern(), re.MULTILINE | re.IGNORECASE)
_CODE = re.compile(r"```(?s:.*?)(?:```|\Z)|`[^`\n]+`")
_CITATION = re.compile(r"\[\d+(?:\s*,\s*\d+)*\]")
_BLOCK_MARKS = re.compile(rf"^(?:{_LIST_MARKS}>)+[ \t]*", re.MULTILINE)
_ATTRIBUTION = re.compile(r"\n(?:[—\u2013]|--).*\Z")
_OMISSION = re.compile(r"[\[(]\s*(?:…|\.{3})\s*[\])]|…|\.{3,}|\.(?: \.){2,}")
_PUNCTUATION = "\t\r\n,.;:!?\"'\u2018\u2019\u201a" + _MARKS
# Words; single characters in scripts without spaces.
_WORD = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]|[^\W_]\w*")
_MIN_WORDS = 3  # shorter quotations could match anywhere


class Quotation(NamedTuple):
    """A quotation in an answer."""

    text: str
    start: int
    end: int


def find_quotations(answer: str) -> Iterator[Quotation]:
    """Find the quotations of at least three words in an answer, in order; code is skipped."""
    without_code = _CODE.sub(lambda code: "." * len(code[0]), answer)
    without_code = _HEBREW_ABBREVIATION.sub(lambda mark: mark["prefix"] or ".", without_code)
    for match in _QUOTATION.finditer(without_code):
        start, end = match.start() + 1, match.end() - 1
        if match["block"]:
            start, end = match.span("block")
        text = _BLOCK_MARKS.sub("", answer[start:end])
        if match["block"]:
            text = _ATTRIBUTION.sub("", text.strip()).strip(_PUNCTUATION)
        if len(_WORD.findall(remove_citations(text))) >= _MIN_WORDS:
            yield Quotation(text, start, end)


def remove_citations(text: str) -> str:
    """Remove citations such as ``[1]`` or ``[2, 3]``."""
    return _CITATION.sub("", text)


def remove_punctuation(text: str) -> str:
    """Remove punctuation and white space at the ends."""
    return text.strip(_PUNCTUATION)


def has_omission(text: str) -> bool:
    """True if a quotation has an ellipsis."""
    return _OMISSION.search(text) is not None


def split_at_omissions(text: str) -> list[str]:
    """Return the parts of a quotation between ellipses that contain words."""
    return [part for part in _OMISSION.split(text) if _WORD.search(part)]
