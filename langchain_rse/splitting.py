"""From any text splitter to spans that tile the text.

A splitter returns texts; what RSE needs is where they lie, so that neighboring chunks
can be put together again without a gap, an overlap or a lost character.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, runtime_checkable

from langchain_core.documents import Document
from langchain_text_splitters import RecursiveJsonSplitter

from langchain_rse.alignment import HOLE, Gap, Placement, align, content_from, fold
from langchain_rse.recursive import Cuts, recursive_cuts

__all__ = ["Span", "Splitter", "SplittingError", "split_spans"]

_EXCERPT = 60
_SPACE = re.compile(r"\s+")
_NOTHING: Mapping[str, Any] = MappingProxyType({})
# So many characters of a chunk are seldom in the text around it a second time.
_TELLING = 32
# Letters and digits that may be in no chunk: separators and the like, in one place and as a
# share of the text.
_DROPPED = 100
_DROPPED_SHARE = 0.1
# With this, splitters for Markdown and HTML join the parts of a section.
_SEAM = "  \n"
_MARKDOWN_HEADING = re.compile(r"(?m)^[ \t]*#{1,6}[ \t].*$")
# What a line of a heading may begin with, of HTML.
_TAGS_AT_END = re.compile(r"(?:<[A-Za-z][^<>]*>\s*)+\Z")


@runtime_checkable
class Splitter(Protocol):
    """What `split_spans` needs of a splitter: LangChain's ``TextSplitter`` has it.

    One that knows where its chunks lie may have a method ``split_spans(text)`` as well, which
    returns a list of `Span`; it is used then.
    """

    def split_text(self, text: str) -> Sequence[str] | Sequence[Document]:
        """Split a text into chunks, in the order of the text."""
        ...


class Span(NamedTuple):
    """A chunk's place in its document, and what is embedded for it.

    Attributes:
        start: First character of the chunk in the text.
        end: Character after the last. Spans tile the text: the next one starts here.
        embedded_text: The chunk as the splitter gave it, overlap included.
        metadata: What the splitter says of the chunk, such as the headings above it.
    """

    start: int
    end: int
    embedded_text: str
    metadata: Mapping[str, Any] = _NOTHING


class SplittingError(ValueError):
    """A splitter's chunks cannot be found in the text they were made from."""


def split_spans(text: str, splitter: Splitter) -> list[Span]:
    """Split a text into spans that tile it, with any splitter that keeps its words.

    Each chunk is looked up in the text, forward from the chunk before it. The text is
    then cut where chunks start: what lies between two chunks (separators, stripped white
    space) belongs to the first, and where chunks overlap, the later one begins earlier.
    A heading that the splitter took out of the text into a chunk's metadata belongs to that
    chunk.

    Chunks that are not in the text as they are, are found by their letters and digits; then
    by these without case, accents and ligatures; then, in HTML, by those outside of tags.
    What a tokenizer does not know (``[UNK]``, ``<unk>``, U+FFFD) stands for whatever is
    there.

    A chunk that lies wholly inside another one adds nothing; it is dropped, and a warning
    counts such chunks.

    What a plain RecursiveCharacterTextSplitter by characters returns is known without calling
    it (see `langchain_rse.recursive`), so that this takes less time than its ``split_text``.

    Args:
        text: The text, any Unicode. An empty one has no spans.
        splitter: Any LangChain splitter, of strings or of Documents, that keeps the letters
            and digits of the text, and their order.

    Returns:
        The spans in the order of the text; joined, their slices are the text. A text in
        which the splitter finds nothing, such as one of white space, is one span.

    Raises:
        SplittingError: If a chunk cannot be found: the splitter rewrites, reorders or
            invents text; or if it leaves text out, more than 100 letters and digits in one
            place or a tenth of all: no query could find that. What it moves into metadata
            is not left out. The message names the chunk and the splitter.
        TypeError: If the splitter does not return a list of strings or Documents.
    """
    if not text:
        return []
    name = type(splitter).__name__
    _check_splitter(splitter, name)
    own = getattr(splitter, "split_spans", None)
    if own is not None:
        return _checked(text, own(text), name)
    cuts = recursive_cuts(text, splitter)
    if cuts is None:
        return _find_spans(text, splitter.split_text(text), name)
    return _cut_spans(text, cuts) or _find_spans(text, cuts.chunks, name)


def _cut_spans(text: str, cuts: Cuts) -> list[Span]:
    """The spans of chunks whose places are known; empty if they might be found elsewhere.

    They are the same that `_find_spans` finds: it looks for a chunk from where the one before
    ends, then backward. So no more has to be made sure of than that no chunk lies in another,
    and that one that overlaps is not there a second time, up to where the text goes on.
    """
    before = -1
    reached = content = 0
    for start, chunk in zip(*cuts, strict=True):
        if chunk[0].isspace() and (start != reached or chunk.isspace()):
            return []
        end = start + len(chunk)
        if start < reached:
            if start == before or end <= reached:
                return []
            if content < reached:
                content = content_from(text, reached)
            if content - reached > len(chunk):  # looking that far for each chunk takes too long
                return []
            # Most often the first characters are enough to tell.
            if (
                text.find(chunk[:_TELLING], start + 1, content + _TELLING) >= 0
                and text.find(chunk, start + 1, content + len(chunk)) >= 0
            ):
                return []
        before, reached = start, end
    return _in_order(text, cuts.starts, cuts.chunks)


def _in_order(text: str, starts: Sequence[int], chunks: Iterable[str]) -> list[Span]:
    """The spans of chunks, by where they start; none if there are no chunks."""
    return list(map(Span, [0, *starts[1:]], [*starts[1:], len(text)], chunks))


def _find_spans(text: str, returned: Sequence[str] | Sequence[Document], name: str) -> list[Span]:
    """The spans of what a splitter returned, looked for in the text."""
    chunks = _chunks_of(returned, name)
    in_a_row = _in_a_row(text, chunks)
    if in_a_row:
        return in_a_row
    # White space alone is nothing to search for; its place is taken like a separator's.
    worded = [chunk for chunk in chunks if chunk.text.strip()]
    if not worded:
        return [Span(0, len(text), text)]
    placement = align(text, [chunk.text for chunk in worded])
    contained = 0
    if isinstance(placement, int):
        failed = worded[placement]
        # A fragment of the chunk before it can stand in the way of the chunk after it.
        folded = [fold(chunk.text) for chunk in worded]
        rest = [
            chunk
            for number, chunk in enumerate(worded)
            if number == 0 or folded[number] not in folded[number - 1]
        ]
        contained = len(worded) - len(rest)
        if contained:
            worded = rest
            placement = align(text, [chunk.text for chunk in worded])
        if isinstance(placement, int) and any(_SEAM in c.text for c in worded if c.metadata):
            # Between two parts of a section, there may be a heading that is not in the chunk.
            seamed = (c.text.replace(_SEAM, HOLE) if c.metadata else c.text for c in worded)
            placement = align(text, list(seamed))
        if isinstance(placement, int):
            raise SplittingError(_not_found(name, failed, len(chunks)))
    _check_dropped(text, worded, placement, name, len(chunks))
    return _tile(text, worded, placement, name, contained)


def _in_a_row(text: str, chunks: Sequence[_Chunk]) -> list[Span]:
    """The spans, if there is but white space between chunks, as most splitters leave it.

    Nothing is lost then, and no other places could be better; empty if it is otherwise.
    """
    starts = []
    reached = 0
    for _, piece, metadata in chunks:
        if metadata or not piece or piece.isspace():
            return []
        if not text.startswith(piece, reached):
            reached = _after_space(text, reached)
            if not text.startswith(piece, reached):
                return []
        starts.append(reached)
        reached += len(piece)
    if _after_space(text, reached) < len(text):
        return []
    return _in_order(text, starts, (chunk.text for chunk in chunks))


def _after_space(text: str, place: int) -> int:
    match = _SPACE.match(text, place)
    return place if match is None else match.end()


def _check_splitter(splitter: object, name: str) -> None:
    if isinstance(splitter, RecursiveJsonSplitter):
        raise SplittingError(
            f"{name} writes JSON anew, with the keys above a value repeated in each chunk, so its "
            "chunks are not in the text. Use RecursiveCharacterTextSplitter(separators="
            "['},', '],', ',', ' ', ''], keep_separator='end') on the text"
        )


class _Chunk(NamedTuple):
    """What a splitter returns for a chunk: its number, its text, what is said of it."""

    number: int
    text: str
    metadata: Mapping[str, Any]


def _chunks_of(returned: Sequence[str] | Sequence[Document], name: str) -> list[_Chunk]:
    chunks = []
    for number, chunk in enumerate(returned):
        if isinstance(chunk, str):
            chunks.append(_Chunk(number, chunk, _NOTHING))
        elif isinstance(chunk, Document):
            chunks.append(_Chunk(number, chunk.page_content, dict(chunk.metadata)))
        else:
            raise TypeError(
                f"{name}.split_text must return strings or Documents; chunk {number} is of type "
                f"{type(chunk).__name__}"
            )
    return chunks


def _checked(text: str, spans: Sequence[Span], name: str) -> list[Span]:
    """Spans that a splitter gives itself, if they tile the text."""
    reached = 0
    for number, span in enumerate(spans):
        if not isinstance(span, Span):
            raise TypeError(
                f"{name}.split_spans must return Spans; number {number} is of type "
                f"{type(span).__name__}"
            )
        if span.start != reached or span.end <= span.start:
            raise SplittingError(
                f"span {number} of {len(spans)} that {name}.split_spans returned is from "
                f"{span.start} to {span.end}; it must start at {reached}, where the one before "
                "ends, and end after that"
            )
        reached = span.end
    if reached != len(text):
        raise SplittingError(
            f"the spans that {name}.split_spans returned end at {reached}; the text has "
            f"{len(text)} characters"
        )
    return list(spans)


def _excerpt(text: str) -> str:
    return f"{text[:_EXCERPT]!r}{'...' if len(text) > _EXCERPT else ''}"


def _not_found(name: str, chunk: _Chunk, chunks: int) -> str:
    advice = (
        "Use a splitter that keeps it, such as RecursiveCharacterTextSplitter; with a regular "
        "expression as the separator, set keep_separator=True"
    )
    if name.startswith("HTML"):
        advice = (
            "It moves text that stands around links, emphasis or comments, and may write links "
            "and media anew. Extract the text first, or use HTMLSectionSplitter or "
            "RecursiveCharacterTextSplitter.from_language('html')"
        )
    return (
        f"chunk {chunk.number} of {chunks} that {name} returned, {_excerpt(chunk.text)}, is not "
        "in the text after the chunks before it, not by its letters and digits either: the "
        f"splitter rewrites, reorders or invents text. {advice}"
    )


def _check_dropped(
    text: str, chunks: Sequence[_Chunk], placement: Placement, name: str, returned: int
) -> None:
    """Refuse a splitter that leaves out text that it does not put into metadata either."""
    dropped = 0
    moves_headings = any(chunk.metadata for chunk in chunks)
    for number, gap in placement.gaps.items():
        content = fold(gap.content)
        headings = _headings(chunks[number]) if number < len(chunks) else []
        if moves_headings:
            # Those that nothing stands under, so that no chunk has them in its metadata.
            line = text.rfind("\n", 0, gap.start) + 1
            headings += map(fold, _MARKDOWN_HEADING.findall(text, line, gap.end))
        for heading in headings:
            content = content.replace(heading, "", 1)
        dropped += len(content)
        if len(content) > _DROPPED:
            before = f"before chunk {chunks[number].number} of" if number < len(chunks) else "after"
            raise SplittingError(
                f"{name} left {len(content)} letters and digits of the text out of its chunks, "
                f"{before} the {returned} it returned: {_excerpt(text[gap.start : gap.end])}. No "
                "query could find them; use a splitter that keeps the text, such as "
                "RecursiveCharacterTextSplitter"
            )
    if dropped > _DROPPED and dropped > _DROPPED_SHARE * len(fold(text)):
        gap = next(iter(placement.gaps.values()))
        raise SplittingError(
            f"{name} left {dropped} letters and digits of the text out of its chunks, in "
            f"{len(placement.gaps)} places, first {_excerpt(text[gap.start : gap.end])}. No query "
            "could find them; use a splitter that keeps the text, such as "
            "RecursiveCharacterTextSplitter, or set keep_separator=True"
        )


def _headings(chunk: _Chunk) -> list[str]:
    """What the metadata of a chunk says, in the form of a gap's content."""
    values = (fold(value) for value in chunk.metadata.values() if isinstance(value, str))
    return [value for value in values if value]


def _heading_start(text: str, gap: Gap, chunk: _Chunk, reached: int) -> int | None:
    """Where the headings of a chunk begin that the splitter took out of the text in front of it.

    Args:
        text: The text.
        gap: The text between the chunk and the one before it.
        chunk: The chunk.
        reached: Where the chunk before it ends, but for punctuation.
    """
    content = fold(gap.content)
    if not any(heading in content for heading in _headings(chunk)):
        return None
    between = text[reached : gap.start]
    tags = _TAGS_AT_END.search(between)
    if tags:
        return reached + tags.start()
    return reached + between.rfind("\n") + 1


def _tile(
    text: str, chunks: Sequence[_Chunk], placement: Placement, name: str, contained: int
) -> list[Span]:
    """Cut the text where chunks start, and leave out chunks that are inside others."""
    kept: list[tuple[int, _Chunk]] = []
    reached = 0
    for number, (place, chunk) in enumerate(zip(placement.places, chunks, strict=True)):
        if place is None:
            continue
        start, end = place
        if kept and start <= kept[-1][0]:
            # Both begin at one place: the longer has all of the shorter.
            contained += 1
            if end > reached:
                kept[-1] = (kept[-1][0], chunk)
        elif kept and end <= reached:
            contained += 1
        else:
            gap = placement.gaps.get(number)
            if gap is not None:
                heading = _heading_start(text, gap, chunk, reached)
                start = start if heading is None else heading
            kept.append((start, chunk))
        reached = max(reached, end)
    if contained:
        warnings.warn(
            f"{name} returned {contained} chunk(s) that lie wholly inside another chunk; they "
            "add nothing and were dropped",
            stacklevel=4,
        )
    if not kept:
        return [Span(0, len(text), text)]
    cuts = [0, *(start for start, _ in kept[1:]), len(text)]
    return [
        Span(cuts[number], cuts[number + 1], chunk.text, chunk.metadata)
        for number, (_, chunk) in enumerate(kept)
    ]
