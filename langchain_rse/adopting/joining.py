"""Joins the chunks of one text by their start positions.

Errors describe the chunks; the caller adds the document and the advice.
"""

from collections.abc import Sequence
from typing import NamedTuple

from langchain_rse.adopting.chunks import AdoptedChunk
from langchain_rse.errors import SplittingError

STRIPPED = 32
"""Up to this many missing characters between two chunks count as white space, indentation
included, that the splitter stripped."""


class JoinedText(NamedTuple):
    """A text and the start of each of its chunks, in the order of the chunks."""

    text: str
    starts: list[int]


def join_by_start(chunks: Sequence[AdoptedChunk]) -> JoinedText:
    """Join chunks, given in any order, by their start positions.

    The text begins with the first chunk. Stripped white space between chunks is restored.

    Raises:
        SplittingError: If text is missing or chunks contradict each other.
    """
    beginning = min(chunk.start for chunk in chunks)
    starts = [chunk.start - beginning for chunk in chunks]

    def place(number: int) -> tuple[int, int]:
        # Among chunks with the same start, the longest comes first: it contains the others.
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
                f"{missing} characters are missing before the chunk with {chunk.description}"
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
    """Make the error for two contradicting chunks, given their descriptions."""
    return SplittingError(f"two chunks disagree about the text they share: {first} and {second}")


def _agrees(text: str, start: int, chunk: str) -> bool:
    """True if a chunk agrees with the text from its start on, as far as both reach."""
    rest = text[start:]
    return rest.startswith(chunk) or chunk.startswith(rest)


def _white_space(length: int) -> str:
    """Guess the stripped white space of a given length (at least 1).

    A single character is a space; more are a blank line and indentation.
    """
    if length == 1:
        return " "
    return "\n\n" + " " * (length - 2)
