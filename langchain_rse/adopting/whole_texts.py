"""Finds the chunks of an existing index in the whole text of their document."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

from langchain_core.documents import Document

from langchain_rse.adopting.chunks import JoinedChunk, StoredChunk
from langchain_rse.errors import AdoptionError
from langchain_rse.ingest.joining import EXCERPT

_LETTER_OR_DIGIT = re.compile(r"[^\W_]")


class _Piece(NamedTuple):
    """A piece of the text, which ends where the next one starts."""

    start: int
    metadata: Mapping[str, Any]
    vectors: list[str]


def find_in_text(whole: Document, chunks: Iterable[StoredChunk]) -> list[StoredChunk]:
    """Find each chunk in the text after the start of the one before, else anywhere.

    The chunks that are returned have their positions in the text, and the metadata of its document
    as well, since chunks may have only some of it.

    Raises:
        AdoptionError: If a chunk is not in the text.
    """
    text = whole.page_content
    chunks_in_order = sorted(chunks, key=lambda chunk: (chunk.page, chunk.position))
    placed: list[StoredChunk] = []
    start = -1
    for chunk in chunks_in_order:
        start = text.find(chunk.text, start + 1)
        if start < 0:
            start = text.find(chunk.text)
        if start < 0:
            raise AdoptionError(
                f"chunk {chunk.vectors[0]!r}, which begins {chunk.text[:EXCERPT]!r}, is not in the "
                "text of its document in texts: it is of another version, or its splitter changes "
                "text"
            )
        metadata = {**whole.metadata, **chunk.metadata}
        placed.append(replace(chunk, metadata=metadata, page=0, position=start))
    return placed


def divide_text(text: str, chunks: Iterable[StoredChunk]) -> list[JoinedChunk]:
    """Divide a text at its chunks, which are sorted by their positions.

    Letters or digits between two chunks become a chunk without a vector. Chunks that are inside
    those before them are left out.
    """
    pieces: list[_Piece] = []
    end = 0
    for chunk in chunks:
        if not chunk.text or chunk.end <= end:
            continue
        neighbor = pieces[-1].metadata if pieces else chunk.metadata
        pieces += _text_between(text, end, chunk.position, neighbor)
        pieces.append(_Piece(chunk.position, chunk.metadata, chunk.vectors))
        end = chunk.end
    if pieces:
        pieces += _text_between(text, end, len(text), pieces[-1].metadata)
        pieces[0] = pieces[0]._replace(start=0)

    starts = [piece.start for piece in pieces]
    divided: list[JoinedChunk] = []
    for piece, (start, next_start) in zip(pieces, pairwise([*starts, len(text)]), strict=True):
        content = text[start:next_start]
        divided.append(JoinedChunk(start, next_start, content, piece.metadata, piece.vectors))
    return divided


def _text_between(text: str, start: int, end: int, neighbor: Mapping[str, Any]) -> list[_Piece]:
    """Return the piece between two chunks, if there is a letter or digit in it."""
    content = text[start:end].lstrip()
    if _LETTER_OR_DIGIT.search(content) is None:
        return []
    return [_Piece(end - len(content), neighbor, [])]
