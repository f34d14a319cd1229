"""Recognizes the structure of an existing index from common metadata fields."""

from collections.abc import Callable, Iterable, Sequence

from langchain_core.documents import Document

from langchain_rse.adopting.chunks import is_document_name, whole_number
from langchain_rse.adopting.existing_index import ExistingIndex
from langchain_rse.errors import AdoptionError
from langchain_rse.text.quoting import first_few

# In each list, the first field wins that all chunks have with a value of the right type.
DOCUMENT_FIELDS = (
    "source",
    "doc_id",
    "document_id",
    "ref_doc_id",
    "parent_id",
    "file_path",
    "file_name",
    "filename",
    "url",
    "title",
)
PAGE_FIELDS = ("page", "page_number")
START_FIELDS = ("start_index",)
NUMBER_FIELDS = ("chunk_index", "chunk_number", "chunk", "seq", "sequence")

_HOW = (
    "Name the metadata fields that locate each chunk: ExistingIndex(doc_id_key=..., "
    "start_index_key=...); docs/adopting.md lists all options"
)


def recognize(chunks: Sequence[Document], *, are_in_order: bool) -> ExistingIndex:
    """Describe an index by the metadata that all of its chunks have.

    Args:
        chunks: All chunks; at least one.
        are_in_order: True if they are given in insertion order.

    Raises:
        AdoptionError: If no field names a chunk's document, or the order is unknown.
    """
    doc_id_key = recognize_documents(chunks)
    page_key = _common_field(chunks, PAGE_FIELDS, _is_whole_number)
    start_index_key = _common_field(chunks, START_FIELDS, _is_whole_number)
    chunk_index_key = None
    if start_index_key is None:
        chunk_index_key = _common_field(chunks, NUMBER_FIELDS, _is_whole_number)
    has_order = start_index_key is not None or chunk_index_key is not None
    if not has_order and not are_in_order and page_key is None:
        names = ", ".join([*START_FIELDS, *NUMBER_FIELDS, *PAGE_FIELDS])
        raise AdoptionError(
            f"the order of the chunks is unknown: none of {names} is an integer of at least 0 in "
            "every chunk, and the chunks may not be in insertion order. "
            f"{_describe_fields(chunks)}. {_HOW}"
        )
    return ExistingIndex(
        doc_id_key=doc_id_key,
        page_key=page_key,
        start_index_key=start_index_key,
        chunk_index_key=chunk_index_key,
        in_store_order=not has_order and are_in_order,
    )


def recognize_documents(chunks: Sequence[Document]) -> str:
    """Return the first usual field that names the document of each chunk.

    Raises:
        AdoptionError: If no field does.
    """
    doc_id_key = _common_field(chunks, DOCUMENT_FIELDS, is_document_name)
    if doc_id_key is None:
        raise AdoptionError(
            "no metadata field names the document of each chunk: none of "
            f"{', '.join(DOCUMENT_FIELDS)} is a string or an integer in every chunk. "
            f"{_describe_fields(chunks)}. {_HOW}. If all chunks belong to one document, name it: "
            "ExistingIndex(doc_id='handbook', in_store_order=True, chunk_overlap=...)"
        )
    return doc_id_key


def _is_whole_number(value: object) -> bool:
    return whole_number(value) is not None


def _common_field(
    chunks: Sequence[Document], names: Iterable[str], is_valid: Callable[[object], bool]
) -> str | None:
    """Return the first field that all chunks have with a valid value; None if none qualifies."""
    for name in names:
        if all(is_valid(chunk.metadata.get(name)) for chunk in chunks):
            return name
    return None


def _describe_fields(chunks: Sequence[Document]) -> str:
    """Name the chunks' metadata fields."""
    names = dict.fromkeys(name for chunk in chunks for name in chunk.metadata)
    if not names:
        return "The chunks have no metadata"
    return f"Fields of the chunks: {first_few(map(repr, names), limit=20)}"
