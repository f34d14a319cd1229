"""Joins the chunks of one text by where they start in it.

Serves documents that were given as chunks, and indexes that other code has built. An error says
what is wrong with the chunks; the caller adds which document it is and what to do.
"""

from collections.abc import Sequence
from typing import NamedTuple

from langchain_rse.errors import SplittingError

STRIPPED = 16
"""Splitters strip white space, indentation included: up to this many missing characters between
two chunks are taken for stripped white space."""

EXCERPT = 40
"""The characters of a chunk that a message quotes."""


class ChunkToJoin(NamedTuple):
    """A chunk and its place."""

    text: str
    start: int  # its first character in the text
    description: str  # names the chunk in messages


class JoinedText(NamedTuple):
    """A text, and the position at which each of its chunks starts, in the order of the chunks."""

    text: str
    starts: list[int]


def join_by_start(chunks: Sequence[ChunkToJoin]) -> JoinedText:
    """Join chunks, given in any order, by where they start.

    The text begins with the first of them. Stripped white space between chunks is put back.

    Raises:
        SplittingError: If text is missing, or chunks contradict each other.
    """
    beginning = min(chunk.start for chunk in chunks)
    starts = [chunk.start - beginning for chunk in chunks]

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
