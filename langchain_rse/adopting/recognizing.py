"""Recognizes what the metadata of an existing index says about its chunks, by usual field names."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from langchain_core.documents import Document

from langchain_rse.adopting.chunks import is_document_name, is_whole_number
from langchain_rse.adopting.existing_index import ExistingIndex
from langchain_rse.errors import AdoptionError
from langchain_rse.text.quoting import counted, first_few

# The first field of each list counts that all chunks have, with a value of the right type.
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
    "Say where each chunk belongs: ExistingIndex(doc_id_key=..., start_index_key=...), with the "
    "names of metadata fields; docs/adopting.md lists all ways"
)


def recognize(chunks: Sequence[Document], *, are_in_order: bool) -> ExistingIndex:
    """Describe an index by the metadata that all of its chunks have.

    Args:
        chunks: All chunks; at least one.
        are_in_order: True if they are given in the order in which they were added.

    Raises:
        AdoptionError: If nothing names a chunk's document, or nothing gives the order.
    """
    doc_id_key = _common_field(chunks, DOCUMENT_FIELDS, is_document_name)
    if doc_id_key is None:
        raise AdoptionError(
            "no metadata field names the document of each chunk: none of "
            f"{', '.join(DOCUMENT_FIELDS)} is in all chunks, as a string or a whole number. "
            f"{_describe_fields(chunks)}. {_HOW}. If all chunks are of one document, name it: "
            "ExistingIndex(doc_id='handbook', in_store_order=True, chunk_overlap=...)"
        )
    page_key = _common_field(chunks, PAGE_FIELDS, is_whole_number)
    start_index_key = _common_field(chunks, START_FIELDS, is_whole_number)
    chunk_index_key = None
    if start_index_key is None:
        chunk_index_key = _common_field(chunks, NUMBER_FIELDS, is_whole_number)
    has_order = start_index_key is not None or chunk_index_key is not None
    if not has_order and not are_in_order and page_key is None:
        names = ", ".join([*START_FIELDS, *NUMBER_FIELDS, *PAGE_FIELDS])
        raise AdoptionError(
            f"nothing gives the order of the chunks: none of {names} is in all chunks, as a whole "
            "number of at least 0, and it is not known whether the chunks come in the order in "
            f"which they were added. {_describe_fields(chunks)}. {_HOW}"
        )
    return ExistingIndex(
        doc_id_key=doc_id_key,
        page_key=page_key,
        start_index_key=start_index_key,
        chunk_index_key=chunk_index_key,
        in_store_order=not has_order and are_in_order,
    )


def _common_field(
    chunks: Sequence[Document], names: Iterable[str], is_valid: Callable[[object], bool]
) -> str | None:
    """The first of some fields that all chunks have, with a valid value; None if there is none."""
    for name in names:
        if all(is_valid(chunk.metadata.get(name)) for chunk in chunks):
            return name
    return None


def _describe_fields(chunks: Sequence[Document]) -> str:
    """Say which metadata fields chunks have, and how many chunks have them."""
    counts = Counter(name for chunk in chunks for name in chunk.metadata)
    if not counts:
        return f"The {counted(len(chunks), 'chunk')} have no metadata"
    fields = [f"{name!r} ({count:,})" for name, count in counts.most_common()]
    listed = first_few(fields, limit=20)
    return f"The fields of {counted(len(chunks), 'chunk')}, and how many have them: {listed}"
