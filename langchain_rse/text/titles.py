"""Finds the title of a document in its text, and the names to show for documents."""

import html
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from langchain_rse.text.fences import outside_fences
from langchain_rse.text.headings import atx_headings, end_of_front_matter, without_comments
from langchain_rse.text.outlines import title_of_heading
from langchain_rse.text.quoting import one_line

# A title must be in this many characters at the beginning of a text.
_HEADING_WITHIN = 4_000
_LONGEST_HEADING = 100
_READ = 10 * _HEADING_WITHIN  # including comments

_DEEPEST = 10  # maximum number of path components in a short name

_TITLE_FIELD = re.compile(
    r"""^title[ \t]*[:=][ \t]*(?P<mark>["']?)(?P<title>[^\n]*?)(?P=mark)[ \t]*\r?$""",
    re.MULTILINE | re.IGNORECASE,
)
# HTML comments; reStructuredText directives and comments, including their indented lines.
_HIDDEN = re.compile(
    r"<!--[\s\S]*?(?:-->|\Z)|^\.\.(?:[ ][^\n]*)?(?:\n|\Z)(?:[ \t]*\n|[ \t]+[^\n]*(?:\n|\Z))*",
    re.MULTILINE,
)
_TAG = re.compile(r"</?[a-zA-Z][^<>]*>")
_LETTER = re.compile(r"[^\W\d_]")


def shown_name(doc_id: str, source: str | None) -> str:
    """Return the display name of a document: its source, or its id if it shares the source."""
    if source is None or doc_id.startswith(f"{source}, "):
        return doc_id
    return source


def name_of(doc_id: str, metadata: Mapping[str, Any]) -> str:
    """Return the display name of a document: source, else title, else id."""
    source = metadata.get("source") or metadata.get("title")
    return shown_name(doc_id, None if source is None else str(source))


def short_names(names: Iterable[str]) -> dict[str, str]:
    """Shorten absolute paths to the shortest unique endings; keep other names."""
    short = {name: name for name in names}
    parts_of = {name: Path(name).parts for name in short if Path(name).is_absolute()}
    pending = list(parts_of)
    for depth in range(1, _DEEPEST + 1):
        for path in pending:
            short[path] = str(Path(*parts_of[path][-depth:]))
        count_of = Counter(short.values())
        pending = [path for path in pending if count_of[short[path]] > 1]
    return short | {path: path for path in pending}


def first_heading(text: str) -> str:
    """Return the title in the front matter, else the first heading near the beginning.

    Without a heading, a short first line is the title. Code blocks and comments are ignored.
    """
    front_matter_end = end_of_front_matter(text)
    field = _TITLE_FIELD.search(text, 0, front_matter_end)
    if field is not None and _LETTER.search(field["title"]):
        return one_line(field["title"])
    below = text[front_matter_end:].removeprefix("\ufeff")
    text = _HIDDEN.sub("", outside_fences(below)[:_READ])
    beginning = text[:_HEADING_WITHIN]
    for heading in without_comments(beginning, atx_headings(beginning)):
        title = title_of_heading(beginning[heading.start : heading.end])
        if _LETTER.search(title):
            return title
    for line in beginning.splitlines():
        title = html.unescape(_TAG.sub(" ", line)).strip()
        if _LETTER.search(title):
            return one_line(title) if len(title) <= _LONGEST_HEADING else ""
    return ""
