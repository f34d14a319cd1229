"""Titles and names of documents: from a file's name, or from the first heading of a text."""

import os
import re
from urllib.parse import unquote

from langchain_rse.text.headings import markdown_headings
from langchain_rse.text.quoting import one_line

# Further down, a heading is not that of the document.
_HEADING_WITHIN = 4_000
_LONGEST_HEADING = 100

_SUFFIX = re.compile(r"(?<=.)\.[a-zA-Z][a-zA-Z0-9]{0,4}$")
# Scheme and host of an address, or what follows its path.
_AROUND_PATH = re.compile(r"(?s)^.*?://[^/?#]*|[?#].*")
# Names that say nothing: digests, and pages such as index.html.
_NAMELESS = re.compile(r"[0-9a-f]{8}[0-9a-f-]{8,}|index|default|untitled|[\W_]*", re.IGNORECASE)
_AROUND_HEADING = "\ufeff \t\r#"
_LETTER = re.compile(r"[^\W\d_]")


def shown_name(doc_id: str, source: str | None) -> str:
    """The name of a document for people: its source, or its id if the source has several."""
    if source is None or doc_id.startswith(f"{source}, "):
        return doc_id
    return source


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
    for heading in markdown_headings(text, _HEADING_WITHIN):
        title = text[heading.start : heading.end].strip(_AROUND_HEADING)
        if _LETTER.search(title):
            return one_line(title)
    for line in text[:_HEADING_WITHIN].splitlines():
        if _LETTER.search(line):
            heading_line = line.strip()
            return one_line(heading_line) if len(heading_line) <= _LONGEST_HEADING else ""
    return ""
