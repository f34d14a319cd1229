"""Splits a text into prose and blocks of code or tables, and joins the lines of wrapped prose."""

import re
from collections.abc import Iterator
from itertools import pairwise

from langchain_rse.text.code import looks_like_code
from langchain_rse.text.fences import find_fences, open_fence

DROPPED = "\ufdd0"
"""A character that is no text: `unwrap` puts it where it removes one."""

_PARAGRAPHS = re.compile(r"(?<=\n)(?:[^\S\n]*\n)+")  # the empty lines after a paragraph
# The longest line of a paragraph has a length in this range if the paragraph is hard-wrapped.
_SHORTEST_WRAPPED = 55
_LONGEST_WRAPPED = 120
_LINE = re.compile(r"[^\n]*\n?")
# The start of a line that stays a line: a list item, a heading, a quotation or a table row.
_OWN_LINE = re.compile(r"\s*(?:[-*+•#>|:]|\.\. |\(?\w{1,3}[.)]\s)")


def blocks_of(text: str) -> list[tuple[str, bool]]:
    """The blocks of a text, each with True for code or a table. Joined, they are the text.

    Fenced blocks of Markdown are code. Outside of them, each paragraph is code if it looks so.
    """
    fences = [*find_fences(text), *open_fence(text)]
    if not fences and looks_like_code(text):
        return [(text, True)]
    blocks: list[tuple[str, bool]] = []
    position = 0
    for start, end in [*fences, (len(text), len(text))]:
        blocks += _paragraphs(text[position:start])
        blocks.append((text[start:end], True))
        position = end
    merged: list[tuple[str, bool]] = []
    for block, is_code in blocks:
        if merged and merged[-1][1] == is_code:
            merged[-1] = (merged[-1][0] + block, is_code)
        elif block:
            merged.append((block, is_code))
    return merged


def _paragraphs(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the paragraphs of a text, each with True if it looks like code."""
    start = 0
    for end in [*(match.end() for match in _PARAGRAPHS.finditer(text)), len(text)]:
        yield text[start:end], looks_like_code(text[start:end])
        start = end


def unwrap(prose: str) -> str:
    """Join the lines of hard-wrapped paragraphs. The result has the same length.

    A line break between two lines of a sentence becomes a space, and the indentation after it
    becomes `DROPPED`. A break is kept if the next word would have fitted on the line.
    """
    parts = []
    start = 0
    for end in [*(match.end() for match in _PARAGRAPHS.finditer(prose)), len(prose)]:
        parts.append(_unwrap_paragraph(prose[start:end]))
        start = end
    return "".join(parts)


def _unwrap_paragraph(paragraph: str) -> str:
    lines = _LINE.findall(paragraph)
    width = max(len(line.rstrip()) for line in lines)
    if not _SHORTEST_WRAPPED <= width <= _LONGEST_WRAPPED:
        return paragraph
    for number, (line, following) in enumerate(pairwise(lines)):
        words = following.split(maxsplit=1)
        if not words or _OWN_LINE.match(following):
            continue
        if len(line.rstrip()) + 1 + len(words[0]) > width:
            body = following.lstrip(" \t")
            lines[number] = f"{lines[number].removesuffix(chr(10))} "
            lines[number + 1] = DROPPED * (len(following) - len(body)) + body
    return "".join(lines)
