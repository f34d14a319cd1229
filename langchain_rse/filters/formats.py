"""What a language model sees of a document: format strings, filled in as plain text."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from langchain_core.documents import Document

from langchain_rse._steps import during
from langchain_rse._templates import Piece, fill, parse

__all__ = ["ChunkFormat", "check_format", "fields_of", "show"]

ChunkFormat = str | Callable[[Document], str]
"""A format string, or a function."""

_CONTENT, _METADATA = "content", "metadata"

_WANTED = (
    "must be a format string with {content}, {metadata} or names of metadata fields, with "
    "literal braces doubled, or, for more than names, a function from a Document to a string"
)


def _parse(chunk_format: str) -> list[Piece]:
    """The pieces of a format string: text, and the name of the field that follows it."""
    return parse(chunk_format, _WANTED, reserved=(_CONTENT, _METADATA))


def fields_of(chunk_format: ChunkFormat) -> list[str]:
    """The metadata fields that a format string names, each once; none for a function."""
    if not isinstance(chunk_format, str):
        return []
    names = dict.fromkeys(name for _, name in _parse(chunk_format) if name is not None)
    return [name for name in names if name not in (_CONTENT, _METADATA)]


def check_format(chunk_format: ChunkFormat) -> ChunkFormat:
    """Return the format if it can be used.

    Raises:
        ValueError: If it is a string that is no format string, or shows no field.
    """
    if isinstance(chunk_format, str) and not any(name for _, name in _parse(chunk_format)):
        raise ValueError(f"{_WANTED}; got {chunk_format!r}, which shows nothing of a document")
    return chunk_format


def show(document: Document, chunk_format: ChunkFormat, fields: Sequence[str]) -> str:
    """A document in the format, ``fields`` being what {metadata} shows.

    Raises:
        TypeError: If the format is a function that returns something else than a string.
    """
    if isinstance(chunk_format, str):
        known = {name: value for name, value in document.metadata.items() if value is not None}
        lines = [f"{name}: {known[name]}" for name in fields if name in known]
        values = {**known, _METADATA: "\n".join(lines), _CONTENT: document.page_content}
        return fill(_parse(chunk_format), values).strip()
    with during(f"formatting document {document.id!r} with chunk_format"):
        shown: object = chunk_format(document)
    if not isinstance(shown, str):
        raise TypeError(
            f"chunk_format must return a string; got {shown!r} for document {document.id!r}"
        )
    return shown
