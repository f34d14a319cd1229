"""Joins the chunks of one text, by where they start in it or by their overlap.

Serves documents that were given as chunks, and indexes that other code has built. An error says
what is wrong with the chunks; the caller adds which document it is and what to do.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from langchain_rse.errors import SplittingError
from langchain_rse.ingest.overlap import overlap, sure_overlap

STRIPPED = 16
"""Splitters strip white space, indentation included: up to this many missing characters between
two chunks are taken for stripped white space."""

EXCERPT = 40
"""The characters of a chunk that a message quotes."""

_SEPARATOR = "\n"


class ChunkToJoin(NamedTuple):
    """A chunk, and what is known of its place."""

    text: str
    start: int | None  # its first character in the text; None if it is unknown
    description: str  # names the chunk in messages


class JoinedText(NamedTuple):
    """A text, and the position at which each of its chunks starts, in the order of the chunks."""

    text: str
    starts: list[int]


def find_starts(chunks: Sequence[ChunkToJoin]) -> list[int]:
    """Return where each chunk starts; unknown starts follow from the overlap with the one before.

    Raises:
        SplittingError: If a start is unknown, and there is no sure overlap.
    """
    starts: list[int] = []
    for number, chunk in enumerate(chunks):
        start = chunk.start
        if start is None:
            before = chunks[number - 1].text if number > 0 else ""
            shared = sure_overlap(before, chunk.text)
            if not shared:
                raise SplittingError(f"the place of one is unknown ({chunk.description})")
            start = starts[-1] + len(before) - shared
        starts.append(start)
    return starts


def join_by_start(chunks: Sequence[ChunkToJoin]) -> JoinedText:
    """Join chunks, given in any order, by where they start.

    The text begins with the first of them. A chunk with an unknown start is placed by its overlap
    with the chunk given before it. Stripped white space between chunks is put back.

    Raises:
        SplittingError: If a start is unknown, text is missing, or chunks contradict each other.
    """
    starts_in_whole = find_starts(chunks)
    beginning = min(starts_in_whole)
    starts = [start - beginning for start in starts_in_whole]

    def place(number: int) -> tuple[int, int]:
        # Of chunks with the same start, the longest comes first: it contains the others.
        return starts[number], -len(chunks[number].text)

    order = sorted(range(len(chunks)), key=place)
    text = ""
    last = chunks[order[0]]  # the chunk that reaches furthest
    for number in order:
        chunk = chunks[number]
        start = starts[number]
        missing = start - len(text)
        if missing > STRIPPED:
            raise SplittingError(
                f"{missing} characters are missing before the one with {chunk.description}"
            )
        if not _agrees(text, start, chunk.text):
            raise different_texts(last.description, chunk.description)
        if start + len(chunk.text) > len(text):
            last = chunk
        if missing > 0:
            text += _white_space(missing) + chunk.text
        else:
            text += chunk.text[-missing:]
    return JoinedText(text, starts)


def join_by_overlap(
    chunks: Sequence[ChunkToJoin],
    *,
    max_overlap: int | None = None,
    separator: str = _SEPARATOR,
    allow_repetition: bool = False,
) -> JoinedText:
    """Join chunks, given in the order of the text, by the overlap of neighbors.

    Args:
        chunks: The chunks; their starts are not used.
        max_overlap: The most characters that neighbors share, if it is known.
        separator: The text to put between neighbors that neither overlap nor have white space.
        allow_repetition: True to take the longest overlap where the text repeats itself.

    Raises:
        SplittingError: If text repeats itself, so that the length of an overlap is unknown.
    """
    text = chunks[0].text
    starts = [0]
    for before, chunk in pairwise(chunks):
        shared: int | None
        if allow_repetition:
            shared = overlap(before.text, chunk.text, max_overlap)
        else:
            shared = sure_overlap(before.text, chunk.text)
        if shared is None:
            raise SplittingError(
                f"their text repeats itself ({chunk.text[:EXCERPT]!r}), so the length of their "
                "overlap is unknown"
            )
        has_white_space = text[-1:].isspace() or chunk.text[:1].isspace()
        if shared == 0 and not has_white_space:
            text += separator
        starts.append(len(text) - shared)
        text += chunk.text[shared:]
    return JoinedText(text, starts)


def different_texts(first: str, second: str) -> SplittingError:
    """Make the error for two chunks, given by their descriptions, that contradict each other."""
    return SplittingError(f"two chunks have different texts at one place: {first} and {second}")


def _agrees(text: str, start: int, chunk: str) -> bool:
    """Return True if a chunk that starts within a text, or after it, does not contradict it."""
    rest = text[start:]
    return rest.startswith(chunk) or chunk.startswith(rest)


def _white_space(length: int) -> str:
    """Return the white space that was most likely stripped, of a length of at least 1.

    It is a space, or a blank line and indentation.
    """
    if length == 1:
        return " "
    return "\n\n" + " " * (length - 2)
