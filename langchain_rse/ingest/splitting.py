"""Converts the chunks of any text splitter to spans that tile the text.

A splitter returns the texts of chunks. RSE needs to know where they lie in the document, so that
neighboring chunks can be joined again without a gap, an overlap or a lost character.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, cast, runtime_checkable

from langchain_core.documents import Document
from langchain_text_splitters import RecursiveJsonSplitter

from langchain_rse._messages import warn
from langchain_rse.errors import SplittingError
from langchain_rse.ingest.alignment import UNKNOWN, Gap, Placement, align, fold
from langchain_rse.ingest.markup import start_of_tags
from langchain_rse.text.quoting import first_few

_EXCERPT = 60
# The most letters and digits that may be in no chunk, such as separators: in one place or, if there
# are more in all places together, as a share of the text.
_MOST_DROPPED = 100
_MOST_DROPPED_SHARE = 0.1
# Splitters for Markdown put this between sections of the same heading, which is not in the chunk.
_SEAM = "  \n"
# The characters before the first letter of a heading: indentation, marks and symbols.
_LONGEST_MARK = 1000
# The most letters and digits before a heading in the text that is in no chunk, such as another one.
_LONGEST_HEADING = 10_000
_MARKDOWN_HEADING = re.compile(r"(?m)^[ \t]*#{1,6}[ \t].*$")


@runtime_checkable
class Splitter(Protocol):
    """A text splitter, such as LangChain's ``TextSplitter``.

    A splitter that knows where its chunks lie may also have a method ``split_spans(text)``, which
    returns a list of `Span` and is used instead.
    """

    def split_text(self, text: str) -> Sequence[str] | Sequence[Document]:
        """Split a text into chunks, in the order of the text."""


class Span(NamedTuple):
    """A chunk's place in its document, and what is embedded for it."""

    start: int  # first character of the chunk in the text
    end: int  # the character after the last, where the next span starts
    # The chunk as the splitter gave it, with overlap and `table_header`, if there are any.
    embedded_text: str
    metadata: Mapping[str, Any] = MappingProxyType({})  # such as the headings above it
    table_header: str = ""  # the header row of the table that it begins in, after that row


def check_splitter(splitter: Any) -> Splitter:  # noqa: ANN401 - checked here
    """Return an object that can split texts into spans; else an error says what is wrong."""
    if isinstance(splitter, type) or not callable(getattr(splitter, "split_text", None)):
        raise TypeError(
            "text_splitter must be an object with a method split_text(text), such as "
            f"RecursiveCharacterTextSplitter(), not a class; got {splitter!r}"
        )
    if isinstance(splitter, RecursiveJsonSplitter):
        raise SplittingError(
            "RecursiveJsonSplitter rewrites the JSON, so its chunks are not in the text. Use "
            "RecursiveCharacterTextSplitter(separators=['},', '],', ',', ' ', ''], "
            "keep_separator='end') on the text"
        )
    return cast("Splitter", splitter)


def warn_of_contained(contained: int, splitter: Splitter) -> None:
    """Warn of chunks that were dropped, if there are any."""
    if contained:
        warn(
            f"{type(splitter).__name__} returned {contained} chunk(s) that lie wholly inside "
            "another chunk; they add nothing and were dropped"
        )


def find_spans(text: str, splitter: Splitter) -> tuple[list[Span], int]:
    """Split a text into spans that tile it, with any splitter that keeps its letters and digits.

    The text is cut where chunks start. Text between two chunks belongs to the first, but a heading
    that the splitter moved into a chunk's metadata belongs to that chunk.

    Returns the spans in the order of the text, and the number of chunks that were dropped because
    they lie wholly inside another one. A SplittingError if a chunk cannot be found, or if more than
    100 letters and digits are left out, and these are in one place or more than a tenth of all.
    """
    check_splitter(splitter)
    if not text:
        return [], 0
    name = type(splitter).__name__
    split_spans = getattr(splitter, "split_spans", None)
    if split_spans is not None:
        spans = list(split_spans(text))
        _check_tiling(spans, len(text), name)
        return spans, 0

    chunks = [_as_document(chunk) for chunk in splitter.split_text(text)]
    if all(not chunk.page_content.strip() for chunk in chunks):
        return [Span(0, len(text), text)], 0
    placement = _place(text, chunks, name)
    _check_dropped(text, chunks, placement, name)
    return _tile(text, chunks, placement)


def _as_document(chunk: str | Document) -> Document:
    return chunk if isinstance(chunk, Document) else Document(chunk)


def _check_tiling(spans: Sequence[Span], length: int, name: str) -> None:
    """Refuse spans of a splitter that do not tile a text of this length."""
    end = 0
    is_tiled = True
    for span in spans:
        if span.start != end or span.end <= span.start:
            is_tiled = False
        end = span.end
    if not is_tiled or end != length:
        raise SplittingError(
            f"the spans that {name}.split_spans returned do not tile the text: each must start "
            f"where the one before ends, the first at 0, and the last end at {length}; got "
            + first_few(f"{span.start} to {span.end}" for span in spans)
        )


def _place(text: str, chunks: Sequence[Document], name: str) -> Placement:
    """Find where chunks lie in the text; a SplittingError if one cannot be found."""
    texts = [chunk.page_content for chunk in chunks]
    placement = align(text, texts)
    if isinstance(placement, int) and _moves_headings(chunks):
        placement = align(text, [chunk.replace(_SEAM, UNKNOWN) for chunk in texts])
    if isinstance(placement, int):
        raise SplittingError(
            f"chunk {placement} of {len(chunks)} that {name} returned, "
            f"{texts[placement][:_EXCERPT]!r}, is not in the text after the chunks before it: the "
            "splitter rewrites, reorders or invents text. Use one that keeps it, such as "
            "RecursiveCharacterTextSplitter, for HTML its from_language('html') or "
            "HTMLSectionSplitter; with a regular expression, set keep_separator=True"
        )
    return placement


def _moves_headings(chunks: Sequence[Document]) -> bool:
    """True if the splitter gives its chunks metadata, which may be headings of the text."""
    return any(chunk.metadata for chunk in chunks)


def _check_dropped(text: str, chunks: Sequence[Document], placement: Placement, name: str) -> None:
    """Refuse a splitter that leaves text out of chunks and of their metadata."""
    dropped: list[tuple[int, Gap]] = []  # each gap after its number of letters and digits
    moves_headings = _moves_headings(chunks)
    for number, gap in placement.gaps.items():
        content = gap.content
        if moves_headings:
            # Headings without text below them are in no chunk's metadata.
            content = _without_headings(content, _markdown_headings(text, gap))
        for heading in _headings(chunks[number]) if number < len(chunks) else []:
            content = content.replace(heading, "", 1)
        dropped.append((len(content), gap))
    total = sum(length for length, _ in dropped)
    if total <= _MOST_DROPPED:
        return
    longest, gap = max(dropped)
    if longest > _MOST_DROPPED or total > _MOST_DROPPED_SHARE * len(fold(text)):
        raise SplittingError(
            f"{name} left {total} letters and digits of the text out of its chunks, in "
            f"{len(dropped)} place(s), such as {text[gap.start : gap.end][:_EXCERPT]!r}. Use one "
            "that keeps the text, such as RecursiveCharacterTextSplitter, or set "
            "keep_separator=True"
        )


def _markdown_headings(text: str, gap: Gap) -> list[str]:
    """The folded Markdown headings of a gap, in their order."""
    first = max(gap.start - _LONGEST_MARK, 0)
    line_break = text.rfind("\n", first, gap.start)
    if line_break >= 0:
        first = line_break + 1
    return [fold(line) for line in _MARKDOWN_HEADING.findall(text, first, gap.end)]


def _without_headings(content: str, headings: Sequence[str]) -> str:
    """Remove headings, given in their order, from folded text."""
    kept: list[str] = []
    reached = 0
    for heading in headings:
        start = content.find(heading, reached, reached + _LONGEST_HEADING + len(heading))
        if start >= 0:
            kept.append(content[reached:start])
            reached = start + len(heading)
    kept.append(content[reached:])
    return "".join(kept)


def _headings(chunk: Document) -> list[str]:
    """The folded texts in the metadata of a chunk."""
    headings: list[str] = []
    for value in chunk.metadata.values():
        heading = fold(value) if isinstance(value, str) else ""
        if heading:
            headings.append(heading)
    return headings


def _tile(text: str, chunks: Sequence[Document], placement: Placement) -> tuple[list[Span], int]:
    """Cut the text where chunks start; leave out and count chunks that are inside others."""
    kept: list[tuple[int, Document]] = []  # chunks with their starts
    reached = 0  # the end of the text that the chunks so far cover
    contained = 0
    for number, (span, chunk) in enumerate(zip(placement.spans, chunks, strict=True)):
        if span is None:
            continue
        start, end = span
        if kept and start <= kept[-1][0]:
            # Both begin at one place: the longer one contains the shorter one.
            contained += 1
            if end > reached:
                kept[-1] = (kept[-1][0], chunk)
        elif kept and end <= reached:
            contained += 1
        else:
            gap = placement.gaps.get(number)
            if gap is not None:
                start = _start_with_heading(text, chunk, gap, reached, start)
            kept.append((start, chunk))
        reached = max(reached, end)
    if not kept:
        return [Span(0, len(text), text)], 0

    cuts = [0, *(start for start, _ in kept[1:]), len(text)]
    spans: list[Span] = []
    for (_, chunk), (start, end) in zip(kept, pairwise(cuts), strict=True):
        spans.append(Span(start, end, chunk.page_content, chunk.metadata))
    return spans, contained


def _start_with_heading(text: str, chunk: Document, gap: Gap, reached: int, start: int) -> int:
    """Where a chunk starts if the text before it is a heading that is in its metadata.

    ``reached`` is the end of the chunks before it, ``start`` where it starts without the heading.
    """
    if not any(heading in gap.content for heading in _headings(chunk)):
        return start
    # The heading's line, or the tags before it, start before its first letter.
    start_with_tags = start_of_tags(text, reached, gap.start)
    if start_with_tags < gap.start:
        return start_with_tags
    line_break = text.rfind("\n", reached, gap.start)
    return reached if line_break < 0 else line_break + 1
