"""Reads whole documents from the docstore and reports problems with their records."""

from typing import NamedTuple

from langchain_core.documents import Document

from langchain_rse._sync import batches
from langchain_rse.errors import CorruptRecordError
from langchain_rse.stores.compare_and_set import DocStore
from langchain_rse.stores.layouts import Layout, read_chunks, read_description
from langchain_rse.stores.records import (
    HEADER,
    METADATA_CHANGES,
    Chunk,
    Description,
    DocumentVersion,
    Manifest,
    chunk_key,
    description_key,
    digest,
    manifest_key,
    metadata_changes,
    table_header_of,
    with_table_header,
)

# Records per call.
_BATCH = 500


class StoredDocument(NamedTuple):
    """A document's current version as stored in the docstore, and its problems."""

    # As written, but without overlap; None if its text is incomplete, or if it is adopted.
    document: DocumentVersion | None
    problems: list[str]  # keys of records that are missing, corrupt or inconsistent
    vectors: list[str]  # ids of its vectors, as far as known


def read_document(docstore: DocStore, manifest: Manifest) -> StoredDocument:
    """Read all records of a document's current version and check that they are consistent."""
    chunks, problems = _read_chunks(docstore, manifest)
    stored = read_description(docstore, manifest.key, manifest.version)
    description = stored or Description(manifest)  # the chunks have the complete text
    document = DocumentVersion(manifest=manifest, chunks=chunks, parts=description.parts)
    if not problems and chunks and digest(document.text) != manifest.text_digest:
        problems = [f"{manifest.key}/{manifest.version}"]
    is_whole = not problems and not document.version.adopted
    if stored is None:
        problems.append(description_key(manifest.key, manifest.version))
    all_vectors = [*document.version.vector_ids(manifest.key), *description.vectors]
    return StoredDocument(document if is_whole else None, problems, all_vectors)


def _read_chunks(docstore: DocStore, manifest: Manifest) -> tuple[list[Chunk], list[str]]:
    """Read a document's chunks; also return the keys of records that do not match each other."""
    try:
        layout = Layout(manifest)
    except CorruptRecordError:
        return [], [manifest_key(manifest.key)]
    chunks: list[Chunk] = []
    problems: list[str] = []
    for indexes in batches(range(manifest.chunk_count), _BATCH):
        numbers = [(manifest.key, index) for index in indexes]
        records = read_chunks(docstore, {manifest.key: layout}, numbers).records
        for (_, index), record in records.items():
            key = chunk_key(manifest.key, manifest.version, index)
            if isinstance(record, Document):
                chunks.append(_chunk_of(record, key, layout.span_of(index)))
            elif record is not None or index not in manifest.gaps:
                problems.append(key)
    return chunks, problems


def _chunk_of(record: Document, key: str, span: tuple[int, int]) -> Chunk:
    text = record.page_content
    table_header = table_header_of(record)
    return Chunk(
        *span,
        text=text,
        embedded_text=with_table_header(table_header, text.strip()),
        metadata=metadata_changes(record, key) if METADATA_CHANGES in record.metadata else (),
        header=str(record.metadata.get(HEADER, "")),
        table_header=table_header,
    )


def read_parts(docstore: DocStore, manifest: Manifest) -> list[Document] | None:
    """Read a document's parts as they were added; None if it is incomplete or adopted."""
    document = read_document(docstore, manifest).document
    if document is None:
        return None
    text = document.text
    parts: list[Document] = []
    for start, length, changes in document.parts or [(0, len(text), {})]:
        metadata = {**manifest.metadata, **changes}
        parts.append(Document(text[start : start + length], metadata=metadata))
    return parts
