"""Splits a text into prose and blocks of code or tables, to show them in different fonts."""

import re

from langchain_rse.text.code import looks_like_code

_PARAGRAPHS = re.compile(r"(?<=\n)(?:[^\S\n]*\n)+")  # the empty lines after a paragraph


def blocks_of(text: str) -> list[tuple[str, bool]]:
    """The blocks of a text, each with True for code or a table. Joined, they are the text."""
    if not text:
        return []
    if looks_like_code(text):
        return [(text, True)]
    blocks: list[tuple[str, bool]] = []
    start = 0
    for end in [*(match.end() for match in _PARAGRAPHS.finditer(text)), len(text)]:
        paragraph = text[start:end]
        is_code = looks_like_code(paragraph)
        if blocks and blocks[-1][1] == is_code:
            blocks[-1] = (blocks[-1][0] + paragraph, is_code)
        elif paragraph:
            blocks.append((paragraph, is_code))
        start = end
    return blocks
