"""Reads HTML together with the source positions of its text, in linear time for any input.

HTML parsers do not report positions. To stay linear with unclosed tags, no expression here reads
past the next angle bracket, and the end of an element is searched for only once.
"""

import html
import re
from collections.abc import Iterator

_MARKUP = re.compile(
    r"<(?:(?P<script>script)|(?P<style>style))\b[^<>]*>|<!--|-->|<[^<>]*>"
    r"|(?P<entity>&(?:#\d+|#[xX][\da-fA-F]+|\w+);)",
    re.IGNORECASE,
)
_HIDDEN = re.compile(
    r"(?P<comment><!--)|<(?:(?P<script>script)|(?P<style>style)|(?P<head>head)|(?P<title>title)"
    r"|(?P<template>template))\b",
    re.IGNORECASE,
)
_ENDS = {
    "comment": re.compile("-->"),
    "script": re.compile(r"</script\s*>", re.IGNORECASE),
    "style": re.compile(r"</style\s*>", re.IGNORECASE),
    "head": re.compile(r"</head\s*>", re.IGNORECASE),
    "title": re.compile(r"</title\s*>", re.IGNORECASE),
    "template": re.compile(r"</template\s*>", re.IGNORECASE),
}
_OPENING_TAG = re.compile("<[A-Za-z]")
# Python refuses to parse numbers with thousands of digits; character codes have fewer than 20.
_LONG_NUMBER = re.compile("&#[0-9]{20,};?")
_NO_CHARACTER = "\ufffd"


class _Ends:
    """Finds the ends of elements and comments; scans the text at most once per kind."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._next: dict[str, re.Match[str] | None] = {}

    def after(self, name: str, position: int) -> re.Match[str] | None:
        """Find the first end at or after a position; positions must ascend for each name."""
        if name in self._next:
            known = self._next[name]
            if known is None or known.start() >= position:
                return known
        end = _ENDS[name].search(self._text, position)
        self._next[name] = end
        return end


def text_outside_tags(source: str) -> Iterator[tuple[int, str]]:
    """Yield the characters outside tags with their source positions; entities are decoded.

    Scripts and styles are yielded as they are, because some splitters keep them.
    """
    ends = _Ends(source)
    start = 0
    while markup := _MARKUP.search(source, start):
        yield from enumerate(source[start : markup.start()], start)
        start = markup.end()
        kind = markup.lastgroup
        if kind == "entity":
            yield markup.start(), unescape(markup[0])
        elif kind is not None:
            end = ends.after(kind, start)
            if end is not None:
                yield from enumerate(source[start : end.start()], start)
                start = end.end()
    yield from enumerate(source[start:], start)


def shown_text(source: str) -> str:
    """Return the visible text of HTML: no tags, comments, scripts, styles, titles or templates."""
    ends = _Ends(source)
    shown: list[str] = []
    start = position = 0
    while hidden := _HIDDEN.search(source, position):
        position = hidden.end()
        end = ends.after(hidden.lastgroup or "", position)
        if end is not None:
            shown.append(source[start : hidden.start()])
            start = position = end.end()
    shown.append(source[start:])
    without_tags = _MARKUP.sub(lambda markup: markup["entity"] or " ", " ".join(shown))
    return unescape(without_tags)


def unescape(text: str) -> str:
    """Decode HTML entities; numbers too long for any character become U+FFFD."""
    return html.unescape(_LONG_NUMBER.sub(_NO_CHARACTER, text))


def start_of_tags(text: str, earliest: int, end: int) -> int:
    """Return the start of the opening tags directly before ``end``, or else ``end``.

    White space may separate the tags. Text before ``earliest`` is not read.
    """
    start = end
    while True:
        position = start
        while position > earliest and text[position - 1].isspace():
            position -= 1
        if position == earliest or text[position - 1] != ">":
            return start
        last_bracket = max(
            text.rfind("<", earliest, position - 1), text.rfind(">", earliest, position - 1)
        )
        if last_bracket < 0 or not _OPENING_TAG.match(text, last_bracket):
            return start
        start = last_bracket
