"""The chunks of an existing index, and the place that their metadata gives them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from langchain_core.documents import Document
from pydantic import NonNegativeInt, TypeAdapter, ValidationError

from langchain_rse.adopting.existing_index import ExistingIndex
from langchain_rse.errors import AdoptionError
from langchain_rse.stores.vectorstores import IN_ORDER

# Some stores keep whole numbers as floats or strings: both are read.
_WHOLE_NUMBER: TypeAdapter[int] = TypeAdapter(NonNegativeInt)

_WITHOUT_PAGES = "If the chunks are not of pages, leave page_key out"
_WITHOUT_POSITIONS = (
    "If no field has positions, set in_store_order=True and chunk_overlap instead of {argument}: "
    "chunks are then taken in the order of insertion, in stores that list them so: "
    f"{IN_ORDER}"
)


@dataclass(frozen=True)
class StoredChunk:
    """A chunk as the vector store has it, and its place in the document."""

    text: str
    metadata: Mapping[str, Any]
    vectors: list[str]  # the ids of all vectors with this text and place
    page: int
    position: int  # in the page: the first character, the number, or the place in the store

    @property
    def end(self) -> int:
        """The position after its last character, if positions are characters."""
        return self.position + len(self.text)


class JoinedChunk(NamedTuple):
    """A chunk of the joined text of a document, without overlap."""

    start: int  # its first character in the document's text
    end: int  # the character after its last one
    text: str  # empty for a gap
    metadata: Mapping[str, Any]  # for text without a vector, that of the chunk before it
    vectors: Sequence[str]  # the ids of its vectors, if there are any


class Piece(NamedTuple):
    """A piece of a text, which ends where the next one starts."""

    start: int
    metadata: Mapping[str, Any]
    vectors: Sequence[str]


def cut_text(text: str, pieces: Sequence[Piece], text_start: int = 0) -> list[JoinedChunk]:
    """Cut a text, which starts at a character of the document, into pieces."""
    chunks: list[JoinedChunk] = []
    for number, piece in enumerate(pieces):
        start = piece.start
        end = len(text)
        if number + 1 < len(pieces):
            end = pieces[number + 1].start
        chunk = JoinedChunk(
            start=text_start + start,
            end=text_start + end,
            text=text[start:end],
            metadata=piece.metadata,
            vectors=piece.vectors,
        )
        chunks.append(chunk)
    return chunks


def is_document_name(value: object) -> bool:
    """True for a value that can name a document: a string that is not empty, or a whole number."""
    return isinstance(value, (str, int)) and value != ""


def doc_id_of(document: Document, index: ExistingIndex) -> str:
    """Return the id of a chunk's document; AdoptionError if it has none."""
    if index.doc_id_key is None:
        return str(index.doc_id)
    value = document.metadata.get(index.doc_id_key)
    if not is_document_name(value):
        raise AdoptionError(
            f"chunk {document.id!r} has {index.doc_id_key}={value!r} in its metadata; doc_id_key "
            "must name a field that holds the document's name, a string or a whole number. "
            f"{_fields_of_type(document, (str, int))}. If all chunks are of one document, give its "
            "name instead: doc_id='handbook'"
        )
    return str(value)


def read_chunks(
    documents: Mapping[str, Document], index: ExistingIndex, *, in_given_order: bool
) -> list[StoredChunk]:
    """Read the places of a document's chunks, which are given by the ids of their vectors.

    With ``in_given_order``, a chunk without a position comes after the one given before it.

    Raises:
        AdoptionError: If a field does not hold a whole number.
    """
    position_key = index.start_index_key or index.chunk_index_key
    argument = "start_index_key" if index.start_index_key else "chunk_index_key"
    without_positions = _WITHOUT_POSITIONS.format(argument=argument)
    chunks: list[StoredChunk] = []
    for number, (vector, document) in enumerate(documents.items()):
        page = 0
        if index.page_key is not None:
            page = _whole_number(document, index.page_key, _WITHOUT_PAGES)
        position = 0
        if position_key is not None:
            position = _whole_number(document, position_key, without_positions)
        elif in_given_order:
            position = number
        text = document.page_content
        chunks.append(StoredChunk(text, document.metadata, [vector], page, position))
    return chunks


def merge_equal(chunks: Iterable[StoredChunk]) -> list[StoredChunk]:
    """Sort chunks by their places; those with equal text at one stated place become one chunk.

    Of chunks at one place, longer ones come first, before those inside them.
    """
    merged: dict[tuple[int, int, int, str], StoredChunk] = {}
    for chunk in chunks:
        length = len(chunk.text)
        place = (chunk.page, chunk.position, -length, chunk.text)
        if place in merged:
            vectors = merged[place].vectors
            vectors.extend(chunk.vectors)
        else:
            merged[place] = chunk
    return [merged[place] for place in sorted(merged)]


def is_whole_number(value: object) -> bool:
    """True for a whole number of at least 0, also as a float or string, as some stores keep it."""
    if isinstance(value, bool):
        return False
    try:
        _WHOLE_NUMBER.validate_python(value)
    except ValidationError:
        return False
    return True


def _whole_number(document: Document, key: str, advice: str) -> int:
    value = document.metadata.get(key)
    try:
        return _WHOLE_NUMBER.validate_python(value)
    except ValidationError as error:
        reason = ""
        if value == -1:
            reason = ": the splitter could not tell where it lies"
        raise AdoptionError(
            f"chunk {document.id!r} has {key}={value!r} in its metadata{reason}; this field must "
            f"hold whole numbers of at least 0. {_fields_of_type(document, int)}. {advice}"
        ) from error


def _fields_of_type(document: Document, kind: type | tuple[type, ...]) -> str:
    """Make a sentence that lists the fields of a chunk with values of a type."""
    fields = []
    for name, value in document.metadata.items():
        if isinstance(value, kind):
            fields.append(f"{name}={value!r:.60}")
    listed = ", ".join(sorted(fields)) or "none"
    return f"Its fields of this kind: {listed}"
