"""The chunks of a vector store, and what their metadata says of their places."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from langchain_core.documents import Document

from langchain_rse.adopting.reports import AdoptionError, ExistingIndex
from langchain_rse.schema import vector_of

__all__ = ["Piece", "Reader", "first_of"]


class Piece(NamedTuple):
    """A chunk as the store has it.

    Attributes:
        number: Its place in the order in which the store lists chunks.
        vector: The id of its vector.
        page: Its page; 0 if there are none.
        chunk: Its number there, if that is known.
        start: Its first character there, if that is known.
        text: Its text.
        metadata: Its metadata.
    """

    number: int
    vector: str
    page: int
    chunk: int | None
    start: int | None
    text: str
    metadata: dict[str, Any]

    @property
    def place(self) -> tuple[int, int]:
        """Its page and its place there: what puts it in order."""
        return self.page, first_of(self.chunk, self.start, 0)


def first_of(*values: int | None) -> int:
    """The first that is not None."""
    return next(value for value in values if value is not None)


class Reader:
    """Reads what the metadata of the store's chunks says.

    Its methods raise an `AdoptionError` where it says nothing that can be used.

    Args:
        index: Says which fields to read.
    """

    def __init__(self, index: ExistingIndex) -> None:
        self._index = index

    def vector(self, document: Document) -> str:
        """The id of a chunk's vector."""
        vector = vector_of(document)
        if vector is None:
            raise AdoptionError(
                f"a chunk has no id, so that nobody can say what its vector stands for: its text "
                f"begins {document.page_content[:60]!r}. Build this index again with ids"
            )
        return vector

    def doc_id(self, document: Document) -> str:
        """The id of a chunk's document."""
        key = self._index.doc_id_key
        value = document.metadata.get(key)
        named = isinstance(value, (str, int, float)) and not isinstance(value, bool)
        if not named or value == "" or (isinstance(value, float) and not math.isfinite(value)):
            known = ", ".join(map(repr, sorted(map(str, document.metadata)))) or "none"
            raise AdoptionError(
                f"chunk {document.id!r} has {key}={value!r} in its metadata; doc_id_key must name "
                f"a field that holds the document's name, a string or a number (its fields: "
                f"{known})"
            )
        return str(int(value) if isinstance(value, float) and value.is_integer() else value)

    def piece(self, number: int, document: Document) -> Piece:
        """A chunk and its place; ``number`` is its place in the store."""
        index = self._index
        return Piece(
            number,
            self.vector(document),
            first_of(self._number(document, "page_key", index.page_key), 0),
            self._number(document, "chunk_index_key", index.chunk_index_key),
            self._number(document, "start_index_key", index.start_index_key),
            document.page_content,
            document.metadata,
        )

    def _number(self, document: Document, what: str, key: str | None) -> int | None:
        if key is None:
            return None
        value: Any = document.metadata.get(key)
        if isinstance(value, float) and value.is_integer():
            value = int(value)  # some stores know floats only
        elif isinstance(value, str) and value.isascii() and value.isdecimal():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            why = ": its splitter could not tell where it lies" if value == -1 else ""
            raise AdoptionError(
                f"chunk {document.id!r} has {key}={value!r} in its metadata{why}; {what} must "
                "name a field that holds whole numbers of at least 0"
            )
        return value
