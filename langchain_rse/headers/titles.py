"""Titles without a model: from a file's name, or from the first heading of a text."""

import os
import re
from urllib.parse import unquote

# Short, since a header stands in front of every chunk.
_LONGEST_VALUE = 500
# Further down, a heading is not that of the document.
_HEADING_WITHIN = 4_000
_LONGEST_HEADING = 100

_SUFFIX = re.compile(r"(?<=.)\.[a-zA-Z][a-zA-Z0-9]{0,4}$")
# Scheme and host of an address, or what follows its path.
_AROUND_PATH = re.compile(r"(?s)^.*?://[^/?#]*|[?#].*")
# Names that say nothing: digests, and pages such as index.html.
_NAMELESS = re.compile(r"[0-9a-f]{8}[0-9a-f-]{8,}|index|default|untitled|[\W_]*", re.IGNORECASE)
_MARKDOWN_HEADING = re.compile(r"^ {0,3}#{1,6}[ \t]+(.*?)[ \t#]*$", re.MULTILINE)
_LETTER = re.compile(r"[^\W\d_]")


def one_line(value: object) -> str:
    """Show a value of metadata as one line of at most 500 characters; None as an empty one."""
    if value is None:
        return ""
    text = " ".join(str(value).split())
    if len(text) > _LONGEST_VALUE:
        text = f"{text[: _LONGEST_VALUE - 3]}..."
    return text


def title_of_source(source: object) -> str:
    """The name of a file or web page, without folders and suffix; empty if it says nothing."""
    if not isinstance(source, (str, os.PathLike)):
        return ""
    path = str(source)
    if "://" in path:
        path = unquote(_AROUND_PATH.sub("", path))
    file_name = re.split(r"[/\\]", path.rstrip("/\\"))[-1]
    title = one_line(_SUFFIX.sub("", file_name).replace("_", " "))
    if _NAMELESS.fullmatch(title):
        return ""
    return title


def first_heading(text: str) -> str:
    """The first Markdown heading near the beginning, else the first line if it is short."""
    beginning = text[:_HEADING_WITHIN]
    for heading in _MARKDOWN_HEADING.finditer(beginning):
        if _LETTER.search(heading[1]):
            return one_line(heading[1])
    for line in beginning.splitlines():
        if _LETTER.search(line):
            heading_line = line.strip()
            return one_line(heading_line) if len(heading_line) <= _LONGEST_HEADING else ""
    return ""
