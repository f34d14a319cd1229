"""Titles without a model: from a file's name, or the first heading of a text."""

from __future__ import annotations

import os
import re
from typing import Any
from urllib.parse import unquote, urlsplit

__all__ = ["first_heading", "one_line", "title_of_source"]

# Longer values are cut: a header stands in front of every chunk.
_LONGEST_VALUE = 500
# A heading stands at the beginning, or it is none of the document.
_HEADING_WITHIN = 4_000
_LONGEST_LINE = 100

_SUFFIX = re.compile(r"\.[A-Za-z][A-Za-z0-9]{0,4}$")
_PACKED = frozenset({".gz", ".bz2", ".xz", ".zst", ".zip"})
# Digests and the like name nothing; nor do pages that are named after their place.
_NAMELESS = re.compile(r"[0-9a-f]{8}[0-9a-f-]{8,}|index|default|untitled", re.IGNORECASE)
_MARKDOWN_HEADING = re.compile(r"^ {0,3}#{1,6}[ \t]+(.*?)[ \t#]*$", re.MULTILINE)
_LETTER = re.compile(r"[^\W\d_]")


def one_line(value: object) -> str:
    """A value as one line of limited length; empty if there is nothing to show."""
    if value is None or isinstance(value, bytes):
        return ""
    text = " ".join(str(value).split())
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 3]}..."


def title_of_source(source: Any) -> str:  # noqa: ANN401 - anything stands in metadata
    """A file's name without folder and suffix, in words; of an address, that of the page.

    Empty if it says nothing.

    Example:
        >>> title_of_source("reports/3M_2018_10K.pdf")
        '3M 2018 10K'
    """
    if isinstance(source, os.PathLike):
        source = os.fspath(source)
    if not isinstance(source, str):
        return ""
    if "://" in source:
        try:
            source = unquote(urlsplit(source).path)
        except ValueError:
            return ""
    name = re.split(r"[/\\]", source.rstrip("/\\"))[-1]
    suffix = _SUFFIX.search(name)
    while suffix is not None and suffix.start():
        name = name[: suffix.start()]
        suffix = _SUFFIX.search(name) if suffix[0].lower() in _PACKED else None
    name = one_line(name.replace("_", " "))
    return "" if _NAMELESS.fullmatch(name) or not re.search(r"[^\W_]", name) else name


def first_heading(text: str) -> str:
    """The first Markdown heading near the beginning, else the first line if it is short."""
    beginning = text[:_HEADING_WITHIN]
    for heading in _MARKDOWN_HEADING.finditer(beginning):
        if _LETTER.search(heading[1]):
            return one_line(heading[1])
    for line in beginning.splitlines():
        if _LETTER.search(line):
            return one_line(line) if len(line.strip()) <= _LONGEST_LINE else ""
    return ""
