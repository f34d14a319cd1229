"""Reads the text of HTML as a stream, without a tree of its tags.

So the time is proportional to the length, also for tags that are never closed, and nested tags need
no recursion.
"""

import re
from typing import Any, NamedTuple

# Tags that begin a line.
_BLOCK = re.compile("blockquote|br|d[dt]|div|h[1-6]|li|p|pre|section|t[dhr]|title")
# Tags whose text is not shown; those of Ruby say how the text before them is read aloud.
_HIDDEN = frozenset({"rp", "rt", "script", "style", "template"})


class WebPage(NamedTuple):
    """What a file of HTML says."""

    text: str
    title: str  # empty if there is none


def read_html(source: str) -> WebPage:
    """Read the text of HTML, whether it is well-formed or not."""
    from lxml import etree

    if not source.strip():
        return WebPage("", "")
    reader = _Reader()
    # huge_tree: no limit to nested tags and to the length of a text, since no tree is made.
    parser: Any = etree.HTMLParser(target=reader, encoding="utf-8", huge_tree=True)
    parser.feed(source.replace("\0", " ").encode("utf-8", "replace"))
    parser.close()
    text = re.sub(r"\s+", _one_blank_line, "".join(reader.text))
    return WebPage(text.strip(), " ".join("".join(reader.title).split()))


def _one_blank_line(space: re.Match[str]) -> str:
    """Replace several line breaks by two; the indentation of the line after them stays."""
    if space[0].count("\n") < 2:  # noqa: PLR2004 - no blank line
        return space[0]
    _, _, indentation = space[0].rpartition("\n")
    return f"\n\n{indentation}"


class _Reader:
    """Collects the text between the tags that lxml calls it for."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.title: list[str] = []
        self._titles = 0  # that have begun
        self._is_in_title = False
        self._hidden = 0  # tags around that hide their text

    def start(self, tag: str, _: object) -> None:
        """Begin a tag."""
        if tag in _HIDDEN:
            self._hidden += 1
        elif _BLOCK.fullmatch(tag):
            self.text.append("\n")
        if tag == "title":
            self._titles += 1
            self._is_in_title = self._titles == 1

    def end(self, tag: str) -> None:
        """End a tag, also one that is never closed."""
        if tag in _HIDDEN:
            self._hidden -= 1
        elif _BLOCK.fullmatch(tag):
            self.text.append("\n")
        if tag == "title":
            self._is_in_title = False

    def data(self, text: str) -> None:
        """Read text."""
        if self._hidden:
            return
        self.text.append(text)
        if self._is_in_title:
            self.title.append(text)

    def comment(self, _: str) -> None:
        """Pass over a comment."""

    def close(self) -> None:
        """End the page."""
