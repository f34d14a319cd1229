"""The chunks of an existing index and their positions in their documents."""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from langchain_core.documents import Document
from pydantic import NonNegativeInt, TypeAdapter, ValidationError

from langchain_rse.adopting.existing_index import ExistingIndex
from langchain_rse.errors import AdoptionError
from langchain_rse.stores.vectorstores import IN_ORDER

# Some stores keep integers as floats or strings: accept both.
_WHOLE_NUMBER: TypeAdapter[int] = TypeAdapter(NonNegativeInt)
_LETTER_OR_DIGIT = re.compile(r"[^\W_]")

EXCERPT = 40
"""Length of quoted text in messages, in characters."""


class AdoptedChunk(NamedTuple):
    """A chunk of an existing index; first as it is stored, then without overlap.

    Attributes:
        text: Its text; empty for a gap.
        metadata: Its metadata; for text without a vector, that of the chunk before it.
        vectors: Ids of all vectors with this text and position; may be empty.
        start: As stored: the position of its first character in the page, its number, or its rank
            in the store. Then: the position of its first character in the document.
        end: The position after its last character.
        page: The number of its page; 0 without pages.
    """

    text: str
    metadata: Mapping[str, Any]
    vectors: list[str]
    start: int
    end: int
    page: int = 0

    @property
    def description(self) -> str:
        """The chunk's name in messages."""
        return (
            f"{self.vectors[0]!r} (page {self.page}, position {self.start}, begins "
            f"{self.text[:EXCERPT]!r})"
        )


# Positions from metadata


def is_document_name(value: object) -> bool:
    """True for a value that can name a document: a non-empty string or an integer."""
    return isinstance(value, (str, int)) and value != ""


def doc_id_of(document: Document, index: ExistingIndex) -> str:
    """Return the id of a chunk's document; raise an AdoptionError if it has none."""
    if index.doc_id_key is None:
        return str(index.doc_id)
    value = document.metadata.get(index.doc_id_key)
    if not is_document_name(value):
        raise AdoptionError(
            f"chunk {document.id!r} has {index.doc_id_key}={value!r} in its metadata; doc_id_key "
            "must name a field with the document's name, a string or an integer. Its metadata: "
            f"{document.metadata!r:.500}. If all chunks belong to one document, name it instead: "
            "doc_id='handbook'"
        )
    return str(value)


def read_chunks(documents: Mapping[str, Document], index: ExistingIndex) -> list[AdoptedChunk]:
    """Read the positions of a document's chunks, given by vector id.

    Raises:
        AdoptionError: If a position field does not hold an integer.
    """
    position_key = index.start_index_key or index.chunk_index_key
    is_in_given_order = index.in_store_order or index.texts is not None
    chunks: list[AdoptedChunk] = []
    for number, (vector, document) in enumerate(documents.items()):
        page = 0
        if index.page_key is not None:
            page = _whole_number(document, index.page_key)
        start = number if is_in_given_order else 0
        if position_key is not None:
            start = _whole_number(document, position_key)
        text = document.page_content
        end = start + len(text)
        chunks.append(AdoptedChunk(text, document.metadata, [vector], start, end, page))
    return chunks


def merge_equal(chunks: Iterable[AdoptedChunk]) -> list[AdoptedChunk]:
    """Sort chunks by position; merge chunks with equal text at the same position.

    At the same position, longer chunks come before the chunks that they contain.
    """
    merged: dict[tuple[int, int, int, str], AdoptedChunk] = {}
    for chunk in chunks:
        place = (chunk.page, chunk.start, -len(chunk.text), chunk.text)
        if place in merged:
            merged[place].vectors.extend(chunk.vectors)
        else:
            merged[place] = chunk
    return [merged[place] for place in sorted(merged)]


def merge_copies(chunks: Sequence[AdoptedChunk]) -> list[AdoptedChunk]:
    """Merge the copies of a document that was added several times, in order without positions.

    Returns the chunks of the first copy.
    """
    contents = [(chunk.page, chunk.text) for chunk in chunks]
    for length in range(1, len(chunks) // 2 + 1):
        count, incomplete = divmod(len(chunks), length)
        if not incomplete and contents == contents[:length] * count:
            for number, chunk in enumerate(chunks[length:]):
                chunks[number % length].vectors.extend(chunk.vectors)
            return list(chunks[:length])
    return list(chunks)


def whole_number(value: object) -> int | None:
    """Read an integer of at least 0, even if a store keeps it as a float or string; else None."""
    if isinstance(value, bool):
        return None
    try:
        return _WHOLE_NUMBER.validate_python(value)
    except ValidationError:
        return None


def _whole_number(document: Document, key: str) -> int:
    value = document.metadata.get(key)
    number = whole_number(value)
    if number is None:
        raise AdoptionError(
            f"chunk {document.id!r} has {key}={value!r} in its metadata; this field must hold "
            f"integers of at least 0. Its metadata: {document.metadata!r:.500}. Name another "
            "field, or drop it and set in_store_order=True and chunk_overlap: chunks are then read "
            f"in insertion order (supported by {IN_ORDER})"
        )
    return number


# Positions in a whole text


def find_in_text(whole: Document, chunks: Sequence[AdoptedChunk]) -> list[AdoptedChunk]:
    """Locate each chunk in the text, after the start of the previous chunk or else anywhere.

    Returns the chunks in the given order, with their positions in the text. The document's metadata
    is added, because chunks may have only some of it.

    Raises:
        AdoptionError: If the text does not contain a chunk.
    """
    text = whole.page_content
    places = [(chunk.page, chunk.start, number) for number, chunk in enumerate(chunks)]
    placed = list(chunks)
    start = -1
    for _, _, number in sorted(places):
        chunk = chunks[number]
        start = text.find(chunk.text, start + 1)
        if start < 0:
            start = text.find(chunk.text)
        if start < 0:
            raise AdoptionError(
                f"chunk {chunk.vectors[0]!r}, which begins {chunk.text[:EXCERPT]!r}, was not found "
                "in the document's text in texts: it is from another version, or its splitter "
                "changes the text. Summaries and questions, as used by MultiVectorRetriever, are "
                "not part of the text and cannot be adopted; use add_documents instead, with "
                "headers= for context in front of each chunk"
            )
        metadata = {**whole.metadata, **chunk.metadata}
        end = start + len(chunk.text)
        placed[number] = chunk._replace(metadata=metadata, page=0, start=start, end=end)
    return placed


def cut_text(text: str, chunks: Iterable[AdoptedChunk]) -> list[AdoptedChunk]:
    """Cut a text at the starts of its chunks, given in text order.

    Letters or digits between two chunks become a chunk without a vector. Chunks inside earlier
    chunks are dropped.
    """
    pieces: list[AdoptedChunk] = []
    end = 0
    for chunk in chunks:
        if not chunk.text or chunk.end <= end:
            continue
        pieces += _text_between(text, end, chunk.start, pieces[-1] if pieces else chunk)
        pieces.append(chunk)
        end = chunk.end
    if not pieces:
        return []
    pieces += _text_between(text, end, len(text), pieces[-1])
    cuts = [0, *(piece.start for piece in pieces[1:]), len(text)]
    joined: list[AdoptedChunk] = []
    for piece, (start, end) in zip(pieces, pairwise(cuts), strict=True):
        joined.append(piece._replace(start=start, end=end, text=text[start:end]))
    return joined


def _text_between(text: str, start: int, end: int, neighbor: AdoptedChunk) -> list[AdoptedChunk]:
    """Return the text between two chunks as a chunk, if it has a letter or digit."""
    content = text[start:end].lstrip()
    if _LETTER_OR_DIGIT.search(content) is None:
        return []
    return [AdoptedChunk(content, neighbor.metadata, [], end - len(content), end)]
