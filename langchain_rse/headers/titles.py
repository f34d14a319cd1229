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
# Names that tell nothing: digests, and pages such as index.html.
_NAMELESS = re.compile(r"[0-9a-f]{8}[0-9a-f-]{8,}|index|default|untitled|[\W_]*", re.IGNORECASE)
_MARKDOWN_HEADING = re.compile(r"^ {0,3}#{1,6}[ \t]+(.*?)[ \t#]*$", re.MULTILINE)
_LETTER = re.compile(r"[^\W\d_]")


def one_line(value: object) -> str:
    """A value of metadata as one line of at most 500 characters; empty for None."""
    text = "" if value is None else " ".join(str(value).split())
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 3]}..."


def title_of_source(source: object) -> str:
    """The name of a file or web page, without folders and suffix; empty if it tells nothing."""
    if not isinstance(source, (str, os.PathLike)):
        return ""
    path = str(source)
    if "://" in path:
        path = unquote(re.sub(r"(?s)^.*?://[^/?#]*|[?#].*", "", path))
    name = re.split(r"[/\\]", path.rstrip("/\\"))[-1]
    name = one_line(_SUFFIX.sub("", name).replace("_", " "))
    return "" if _NAMELESS.fullmatch(name) else name


def first_heading(text: str) -> str:
    """The first Markdown heading near the beginning, else the first line if it is short."""
    beginning = text[:_HEADING_WITHIN]
    for heading in _MARKDOWN_HEADING.finditer(beginning):
        if _LETTER.search(heading[1]):
            return one_line(heading[1])
    lines = (line.strip() for line in beginning.splitlines())
    first = next(filter(_LETTER.search, lines), "")
    return one_line(first) if len(first) <= _LONGEST_HEADING else ""
