"""Reads whole documents from the docstore and reports problems with their records."""

import itertools
from typing import NamedTuple

from langchain_core.documents import Document

from langchain_rse._sync import batches
from langchain_rse.errors import CorruptRecordError
from langchain_rse.stores.compare_and_set import DocStore, read_records
from langchain_rse.stores.layouts import cuts_of, read_changes, read_description, readable
from langchain_rse.stores.records import (
    HEADER,
    METADATA_CHANGES,
    Chunk,
    DocumentVersion,
    Manifest,
    Version,
    chunk_key,
    description_key,
    manifest_key,
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
    version = manifest.current or Version("", 0)
    chunks, problems = _read_chunks(docstore, manifest)
    description = read_description(docstore, manifest.key, version.name)
    is_described = description is not None and description.manifest.current == version
    parts = description.parts if description is not None else ()
    vectors = description.vectors if description is not None else ()
    document = DocumentVersion(
        doc_id=manifest.doc_id,
        version=version,
        length=manifest.length,
        metadata=manifest.metadata,
        chunks=chunks,
        parts=parts,
        blank=manifest.blank,
        rules=manifest.rules,
        header=manifest.header,
        counts_in_source=manifest.counts_in_source,
    )
    if not problems and document.text_digest != manifest.text_digest:
        problems = [f"{manifest.key}/{version.name}"]
    is_whole = not problems and not version.adopted
    if not is_described:  # even without parts, the chunks have the complete text
        problems.append(description_key(manifest.key, version.name))
    all_vectors = [*version.vector_ids(manifest.key), *vectors]
    return StoredDocument(document if is_whole else None, problems, all_vectors)


def _read_chunks(docstore: DocStore, manifest: Manifest) -> tuple[list[Chunk], list[str]]:
    """Read a document's chunks; also return the keys of records that do not match each other."""
    try:
        spans = list(itertools.pairwise(cuts_of(manifest).tolist()))
    except CorruptRecordError:
        return [], [manifest_key(manifest.key)]
    gaps = set(manifest.gaps)
    chunks: list[Chunk] = []
    problems: list[str] = []
    for batch in batches(enumerate(spans), _BATCH):
        keys = {index: chunk_key(manifest.key, manifest.version, index) for index, _ in batch}
        records = read_records(docstore, list(keys.values()))
        for index, span in batch:
            key = keys[index]
            try:
                record = readable(records[key])
                if record is not None:
                    chunks.append(_read_chunk(record, key, (manifest.doc_id, index, *span)))
                elif index not in gaps:
                    problems.append(key)
            except CorruptRecordError:
                problems.append(key)
    return chunks, problems


def _read_chunk(record: Document, key: str, location: tuple[str, int, int, int]) -> Chunk:
    changes = read_changes(record, key, location)
    _, _, start, end = location
    text = record.page_content
    table_header = table_header_of(record)
    return Chunk(
        start=start,
        end=end,
        text=text,
        embedded_text=with_table_header(table_header, text.strip()),
        metadata=changes if METADATA_CHANGES in record.metadata else (),
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
