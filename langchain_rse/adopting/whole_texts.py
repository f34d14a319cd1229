"""Finds the chunks of an existing index in the whole text of their document."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from langchain_core.documents import Document

from langchain_rse.adopting.chunks import JoinedChunk, Piece, StoredChunk, cut_text
from langchain_rse.errors import AdoptionError
from langchain_rse.ingest.joining import EXCERPT

_LETTER_OR_DIGIT = re.compile(r"[^\W_]")


def find_in_text(whole: Document, chunks: Sequence[StoredChunk]) -> list[StoredChunk]:
    """Find each chunk in the text after the start of the one before, else anywhere.

    Returns the chunks in the order given, with their positions in the text and with the metadata of
    its document as well, since chunks may have only some of it.

    Raises:
        AdoptionError: If a chunk is not in the text.
    """
    text = whole.page_content

    def place(number: int) -> tuple[int, int]:
        return chunks[number].page, chunks[number].position

    placed = list(chunks)
    start = -1
    for number in sorted(range(len(chunks)), key=place):
        chunk = chunks[number]
        start = text.find(chunk.text, start + 1)
        if start < 0:
            start = text.find(chunk.text)
        if start < 0:
            raise _not_in_text(text, chunk, chunks)
        metadata = {**whole.metadata, **chunk.metadata}
        placed[number] = replace(chunk, metadata=metadata, page=0, position=start)
    return placed


def _not_in_text(text: str, chunk: StoredChunk, chunks: Sequence[StoredChunk]) -> AdoptionError:
    """Make the error for a chunk that is not in the text of its document."""
    problem = (
        f"chunk {chunk.vectors[0]!r}, which begins {chunk.text[:EXCERPT]!r}, is not in the text of "
        "its document in texts: "
    )
    if any(other.text in text for other in chunks):
        problem += "it is of another version, or its splitter changes text"
    else:
        problem += (
            "nor is any other chunk of it. If these are summaries or questions, as a "
            "MultiVectorRetriever has them, they are no parts of the text and cannot be adopted: "
            "add the documents with add_documents, and with headers= for context in front of "
            "each chunk. Otherwise they are of another version, or their splitter changes text"
        )
    return AdoptionError(problem)


def divide_text(text: str, chunks: Iterable[StoredChunk]) -> list[JoinedChunk]:
    """Divide a text at its chunks, which are sorted by their positions.

    Letters or digits between two chunks become a chunk without a vector. Chunks that are inside
    those before them are left out.
    """
    pieces: list[Piece] = []
    end = 0
    for chunk in chunks:
        if not chunk.text or chunk.end <= end:
            continue
        neighbor_metadata = chunk.metadata
        if pieces:
            neighbor_metadata = pieces[-1].metadata
        pieces += _text_between(text, end, chunk.position, neighbor_metadata)
        pieces.append(Piece(chunk.position, chunk.metadata, chunk.vectors))
        end = chunk.end
    if not pieces:
        return []
    pieces += _text_between(text, end, len(text), pieces[-1].metadata)
    pieces[0] = pieces[0]._replace(start=0)
    return cut_text(text, pieces)


def _text_between(text: str, start: int, end: int, metadata: Mapping[str, Any]) -> list[Piece]:
    """Return the piece between two chunks, if there is a letter or digit in it."""
    content = text[start:end].lstrip()
    if _LETTER_OR_DIGIT.search(content) is None:
        return []
    return [Piece(end - len(content), metadata, [])]
