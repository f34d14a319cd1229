"""Converts the chunks of any text splitter to spans that tile the text.

A splitter returns only the texts of chunks. RSE also needs their positions, so that it can join
neighboring chunks without a gap, an overlap or a lost character.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, runtime_checkable

from langchain_core.documents import Document

from langchain_rse._messages import check_type
from langchain_rse.errors import SplittingError
from langchain_rse.ingest.alignment import UNKNOWN, Placement, align, fold
from langchain_rse.text.quoting import first_few

_EXCERPT = 60
# Letters and digits that chunks may omit, such as separators and headings: a few in a short text,
# and this share of any text.
_FEW_OMITTED = 100
_MOST_OMITTED = 0.2
# Markdown splitters put this between sections under one heading and omit the heading.
_SEAM = "  \n"


@runtime_checkable
class Splitter(Protocol):
    """A text splitter, such as LangChain's ``TextSplitter``.

    A splitter that knows the positions of its chunks may also have a method
    ``split_spans(text)`` that returns a list of `Span`; it is then used instead.
    """

    def split_text(self, text: str) -> Sequence[str] | Sequence[Document]:
        """Split a text into chunks, in the order of the text."""


class Span(NamedTuple):
    """A chunk's range in its document and the text to embed for it.

    Attributes:
        start: The position of the first character.
        end: The position after the last character, where the next span starts.
        embedded_text: The splitter's chunk, including any overlap and the ``table_header``.
        metadata: Metadata of the chunk, such as the headings above it.
        table_header: The header row of a table that began in an earlier chunk.
    """

    start: int
    end: int
    embedded_text: str
    metadata: Mapping[str, Any] = MappingProxyType({})
    table_header: str = ""


def check_splitter(splitter: Splitter) -> Splitter:
    """Return the splitter if it can be used; otherwise raise a TypeError."""
    allowed = "an object with a method split_text(text), such as RecursiveCharacterTextSplitter()"
    check_type("text_splitter", splitter, Splitter, allowed)
    return splitter


def find_spans(text: str, splitter: Splitter) -> list[Span]:
    """Split a text into spans that tile it, with any splitter that keeps its letters and digits.

    The text is cut at the start of each chunk. Text between two chunks belongs to the first, except
    a heading that the splitter moved into the metadata of the second. A chunk that another one
    contains is dropped.

    Raises:
        SplittingError: If the text does not contain a chunk, or if the chunks omit more than a
            fifth of its letters and digits, and more than 100.
    """
    if not text:
        return []
    name = type(splitter).__name__
    split_spans = getattr(splitter, "split_spans", None)
    if split_spans is not None:
        spans = list(split_spans(text))
        _check_tiling(spans, len(text), name)
        return spans

    chunks: list[Document] = []
    for chunk in splitter.split_text(text):
        chunks.append(chunk if isinstance(chunk, Document) else Document(chunk))
    if all(not chunk.page_content.strip() for chunk in chunks):
        return [Span(0, len(text), text)]
    placement = _place(text, chunks, name)
    _check_omitted(text, placement, name)
    return _tile(text, chunks, placement)


def _check_tiling(spans: Sequence[Span], length: int, name: str) -> None:
    """Refuse spans that do not tile a text of this length."""
    ends = [0, *(span.end for span in spans)]
    starts = [*(span.start for span in spans), length]
    if starts != ends or any(span.start >= span.end for span in spans):
        raise SplittingError(
            f"the spans from {name}.split_spans do not tile the text: the first must start at 0, "
            f"each next one where the previous one ends, and the last must end at {length}; got "
            + first_few(f"{span.start} to {span.end}" for span in spans)
        )


def _place(text: str, chunks: Sequence[Document], name: str) -> Placement:
    """Locate the chunks in the text; raise a SplittingError if one cannot be found."""
    texts = [chunk.page_content for chunk in chunks]
    placement = align(text, texts)
    # Metadata may contain headings that the splitter moved out of the text.
    if isinstance(placement, int) and any(chunk.metadata for chunk in chunks):
        placement = align(text, [chunk.replace(_SEAM, UNKNOWN) for chunk in texts])
    if isinstance(placement, int):
        raise SplittingError(
            f"chunk {placement} of {len(chunks)} from {name}, "
            f"{texts[placement][:_EXCERPT]!r}, was not found in the text after the earlier chunks: "
            "the splitter rewrites, reorders or invents text. Use a splitter that keeps the text, "
            "such as RecursiveCharacterTextSplitter; for HTML, its from_language('html'). "
            "With a regular expression as separator, set keep_separator=True"
        )
    return placement


def _check_omitted(text: str, placement: Placement, name: str) -> None:
    """Refuse a splitter that omits much of the text, whether from chunks or into metadata."""
    omitted = placement.lost
    # Folding a text takes as long as splitting it, and is seldom needed.
    if omitted <= _FEW_OMITTED or omitted <= _MOST_OMITTED * len(fold(text)):
        return
    excerpt = max(placement.gaps.values(), key=len)[:_EXCERPT]
    raise SplittingError(
        f"the chunks from {name} omit {omitted} letters and digits of the text in "
        f"{len(placement.gaps)} place(s), such as {excerpt!r}. "
        "Use a splitter that keeps the text, such as RecursiveCharacterTextSplitter, or set "
        "keep_separator=True"
    )


def _tile(text: str, chunks: Sequence[Document], placement: Placement) -> list[Span]:
    """Cut the text at the starts of chunks; drop chunks inside other chunks."""
    kept: list[tuple[int, Document]] = []  # chunks with their starts
    reached = 0  # end of the text covered so far
    for number, (span, chunk) in enumerate(zip(placement.spans, chunks, strict=True)):
        if span is None:
            continue
        start, end = span
        if kept and start <= kept[-1][0]:
            # Both start at the same position: the longer one contains the shorter one.
            if end > reached:
                kept[-1] = (kept[-1][0], chunk)
        elif not kept or end > reached:
            gap = placement.gaps.get(number)
            if gap:
                start = _start_with_heading(text, chunk, gap, reached, start)
            kept.append((start, chunk))
        reached = max(reached, end)
    if not kept:
        return [Span(0, len(text), text)]

    cuts = [0, *(start for start, _ in kept[1:]), len(text)]
    spans: list[Span] = []
    for (_, chunk), (start, end) in zip(kept, pairwise(cuts), strict=True):
        spans.append(Span(start, end, chunk.page_content, chunk.metadata))
    return spans


def _start_with_heading(text: str, chunk: Document, gap: str, reached: int, start: int) -> int:
    """Return a chunk's start, moved before a heading that is in the chunk's metadata.

    Args:
        text: The whole text.
        chunk: The chunk.
        gap: The uncovered text before the chunk.
        reached: The end of earlier chunks.
        start: The chunk's start without the heading.
    """
    headings = [fold(value) for value in chunk.metadata.values() if isinstance(value, str)]
    content = fold(gap)
    if not any(heading and heading in content for heading in headings):
        return start
    line_break = text.rfind("\n", reached, text.find(gap, reached))
    return reached if line_break < 0 else line_break + 1
