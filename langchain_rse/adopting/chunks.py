"""The chunks of a vector store, and what their metadata says of their places."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from langchain_core.documents import Document
from pydantic import NonNegativeInt, TypeAdapter, ValidationError

from langchain_rse.adopting.index import ExistingIndex
from langchain_rse.errors import AdoptionError

# Some stores keep whole numbers as floats or strings: both are read.
_NUMBER: TypeAdapter[int] = TypeAdapter(NonNegativeInt)


@dataclasses.dataclass
class StoredChunk:
    """A chunk as the vector store has it, and its place in the document."""

    text: str  # empty for a gap
    metadata: Mapping[str, Any]  # for text in no vector, that of the chunk beside it
    vectors: list[str]  # ids of all vectors of this text and position; none for text in no vector
    page: int = 0
    position: int = 0  # in the page: first character, number, or place in the store
    start: int = 0  # first character in the document's text, once that is joined

    @property
    def end(self) -> int:
        """The character after its last one in the text of the document."""
        return self.start + len(self.text)


def doc_id_of(document: Document, key: str) -> str:
    """The id of a chunk's document; AdoptionError if it has none."""
    value = document.metadata.get(key)
    if not isinstance(value, (str, int)) or value == "":
        raise AdoptionError(
            f"chunk {document.id!r} has {key}={value!r} in its metadata; doc_id_key must name a "
            "field that holds the document's name, a string or a whole number. "
            f"{_fields(document, (str, int))}"
        )
    return str(value)


def read_chunk(vector: str, document: Document, index: ExistingIndex, number: int) -> StoredChunk:
    """Read a chunk's position; `number` is its position if no metadata field gives one."""
    page = _number(document, index.page_key, 0)
    position = _number(document, index.start_index_key or index.chunk_index_key, number)
    return StoredChunk(document.page_content, document.metadata, [vector], page, position)


def _number(document: Document, key: str | None, default: int) -> int:
    if key is None:
        return default
    value = document.metadata.get(key)
    try:
        return _NUMBER.validate_python(value)
    except ValidationError as error:
        why = ": the splitter could not tell where it lies" if value == -1 else ""
        raise AdoptionError(
            f"chunk {document.id!r} has {key}={value!r} in its metadata{why}; this field must hold "
            f"whole numbers of at least 0. {_fields(document, int)}"
        ) from error


def _fields(document: Document, kind: type | tuple[type, ...]) -> str:
    """A sentence that names the fields of a chunk that may be meant."""
    some = [f"{n}={v!r:.60}" for n, v in document.metadata.items() if isinstance(v, kind)]
    return f"Its fields of this kind: {', '.join(sorted(some)) or 'none'}"


def distinct(chunks: Iterable[StoredChunk]) -> list[StoredChunk]:
    """The chunks in order, those with equal text at one position once, with all their vectors."""
    found: dict[tuple[int, int, int, str], StoredChunk] = {}
    for chunk in chunks:
        # Longer ones first: those inside them follow.
        place = (chunk.page, chunk.position, -len(chunk.text), chunk.text)
        if place in found:
            found[place].vectors += chunk.vectors
        else:
            found[place] = chunk
    return [found[place] for place in sorted(found)]
