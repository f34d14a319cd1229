"""Reads the docstore: layouts and chunks for queries, and all documents, listed and whole."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

import numpy as np
from langchain_core.documents import Document
from numpy.typing import NDArray

from langchain_rse._messages import warn
from langchain_rse._sync import batches
from langchain_rse.errors import CorruptRecordError, FormatError
from langchain_rse.stores.compare_and_set import (
    DocStore,
    Record,
    list_keys,
    parse_if_readable,
    read_records,
    readable,
    refuse_namespaces,
)
from langchain_rse.stores.records import (
    FLOORS,
    HEADER,
    LOCATION_FIELDS,
    METADATA_CHANGES,
    NAMESPACES,
    Chunk,
    DocumentVersion,
    Manifest,
    Version,
    VersionDescription,
    adopted_vectors,
    chunk_document,
    chunk_key,
    description_key,
    digest,
    manifest_key,
    metadata_changes,
    table_header_of,
    unusable,
    with_table_header,
)
from langchain_rse.text.quoting import counted

T = TypeVar("T")

# Records per call when all records are read.
_BATCH = 500

VersionKey = tuple[str, str]
"""A document's key and the name of a version."""


# Layouts, for queries


class Layout:
    """The positions of chunks in a document's current version.

    Attributes:
        manifest: The manifest of the document.
        version: Name of the current version; empty without one.
        chunk_count: Number of chunks of the current version; 0 without one.
        is_adopted: True if other code wrote the vectors of the current version.
        cuts: The starts of all chunks, ascending, and the end of the last one.
    """

    def __init__(self, manifest: Manifest) -> None:
        """Check the starts of the chunks; raise a CorruptRecordError if they cannot be right."""
        self.manifest = manifest
        self.version = manifest.version
        self.chunk_count = manifest.chunk_count
        self.is_adopted = manifest.current is not None and manifest.current.adopted > 0
        self.cuts: NDArray[np.int64] = np.zeros(1, np.int64)
        if not self.chunk_count:
            return
        try:
            cuts = self.cuts = np.array([*manifest.starts, manifest.length])
            is_right = cuts.dtype == np.int64 and len(cuts) == self.chunk_count + 1
            is_right = is_right and cuts[0] >= 0 and bool((cuts[1:] > cuts[:-1]).all())
        except ValueError:  # lists within the list
            is_right = False
        if not is_right:
            problem = f"the starts of its chunks are not {self.chunk_count} ascending numbers from "
            raise unusable(manifest_key(manifest.key), f"{problem}0 to {manifest.length}")

    def span_of(self, index: int) -> tuple[int, int]:
        """Return the start and end of a chunk, in characters of the document."""
        return int(self.cuts[index]), int(self.cuts[index + 1])

    def within(self, windows: Iterable[range]) -> list[range]:
        """Clip ascending ranges of chunks to the document, and cut them at gaps.

        No passage may contain a gap.
        """
        gaps = self.manifest.gaps
        existing: list[range] = []
        for window in windows:
            stop = min(window.stop, self.chunk_count)
            inside = gaps[bisect_left(gaps, window.start) : bisect_left(gaps, stop)]
            starts = [window.start, *(gap + 1 for gap in inside)]
            existing += map(range, starts, [*inside, stop])
        return [window for window in existing if window]


Layouts = dict[str, Layout | CorruptRecordError | None]
"""Layouts by document key: an error if a record is corrupt, None without a manifest."""


def read_layouts(docstore: DocStore, keys: Iterable[str]) -> tuple[Layouts, Record]:
    """Read the layouts of documents, and the record of score floors, in one batch."""
    manifest_keys_of = {key: manifest_key(key) for key in keys}
    records = read_records(docstore, [*manifest_keys_of.values(), NAMESPACES, FLOORS])
    refuse_namespaces(records[NAMESPACES])
    layouts: Layouts = {}
    for key, record_key in manifest_keys_of.items():
        record = records[record_key]
        layouts[key] = None
        if isinstance(record, CorruptRecordError):
            layouts[key] = record
        elif record is not None:
            try:
                layouts[key] = Layout(Manifest.from_document(record, record_key))
            except CorruptRecordError as error:
                layouts[key] = error
    return layouts, records[FLOORS]


# Chunks


def read_chunks(
    docstore: DocStore, layouts: Mapping[str, Layout], chunks: Iterable[tuple[str, int]]
) -> tuple[dict[tuple[str, int], Record], set[str]]:
    """Read chunks of the layouts' versions in one batch.

    Returns:
        The records by document key and chunk index: an error for a corrupt chunk or one that does
        not match its layout, None for a missing chunk. And the keys of documents with missing
        chunks because they were replaced since the layout was read.
    """
    chunk_keys = {
        (key, index): chunk_key(key, layouts[key].version, index) for key, index in chunks
    }
    records = read_records(docstore, list(chunk_keys.values()))
    checked: dict[tuple[str, int], Record] = {}
    missing: set[str] = set()  # document keys
    for (key, index), record_key in chunk_keys.items():
        record = records[record_key]
        checked[key, index] = record
        if record is None:
            missing.add(key)
        elif isinstance(record, Document):
            try:
                _check_chunk(record, record_key, layouts[key], index)
            except CorruptRecordError as error:
                checked[key, index] = error
    replaced: set[str] = set()
    if missing:
        # The latest manifests show whether chunks are lost or documents were replaced.
        latest, _ = read_layouts(docstore, missing)
        for key, layout in latest.items():
            if not isinstance(layout, Layout) or layout.version != layouts[key].version:
                replaced.add(key)
    return checked, replaced


def _check_chunk(record: Document, key: str, layout: Layout, index: int) -> None:
    """Raise a CorruptRecordError if a chunk's record does not match its layout."""
    start, end = layout.span_of(index)
    location = (layout.manifest.doc_id, index, start, end)
    stored_location = tuple(map(record.metadata.get, LOCATION_FIELDS))
    length = len(record.page_content)
    if stored_location != location or length != end - start:
        stored = f"it has {length} characters and ({', '.join(LOCATION_FIELDS)}) = "
        raise unusable(key, f"{stored}{stored_location}; expected {location}")
    metadata_changes(record, key)
    adopted_vectors(record, key)


# All documents


def stored_versions(docstore: DocStore, key: str) -> list[Version]:
    """Find the versions of a document that have records, from the keys in the docstore.

    Without a readable description, the number of chunks is a lower bound.
    """
    counts: dict[str, int] = {}  # of chunks, by the name of the version
    for record_key in list_keys(docstore, f"{key}/"):
        _, name, last = record_key.split("/")
        count = int(last) + 1 if last.isdecimal() else 0
        counts[name] = max(count, counts.get(name, 0))
    versions: list[Version] = []
    for name, count in counts.items():
        description = read_description(docstore, key, name)
        current = None if description is None else description.manifest.current
        versions.append(current or Version(name, count))
    return versions


def read_description(docstore: DocStore, key: str, version: str) -> VersionDescription | None:
    """Read what a version keeps beside its chunks; None if it is missing or corrupt."""
    record_key = description_key(key, version)
    record = read_records(docstore, [record_key])[record_key]
    return parse_if_readable(record, record_key, VersionDescription.from_document)


def read_manifests(docstore: DocStore, most: int | None = None) -> list[Manifest]:
    """Read the manifests of all documents, or of the first ``most``, sorted by key."""
    keys = list_keys(docstore, manifest_key(""))
    if not keys:  # documents may be in namespaces
        refuse_namespaces(read_records(docstore, [NAMESPACES])[NAMESPACES])
    return manifests_at(docstore, sorted(keys)[:most])


def manifests_at(docstore: DocStore, keys: Sequence[str]) -> list[Manifest]:
    """Read manifests by key; warn about corrupt ones and exclude them."""
    manifests: list[Manifest] = []
    unreadable = 0
    for batch in batches(keys, _BATCH):
        records = read_records(docstore, batch)
        for key, record in records.items():
            try:
                stored = readable(record)
                if stored is not None:
                    manifests.append(Manifest.from_document(stored, key))
            except FormatError:
                raise
            except CorruptRecordError:
                unreadable += 1
    if unreadable:
        warn(
            f"excluded {counted(unreadable, 'document')} of the docstore with a corrupt record. "
            "retriever.indexer.check() reports the problems, check(repair=True) repairs them where "
            "possible"
        )
    return manifests


def every_chunk(docstore: DocStore, most: int | None = None) -> Iterator[list[Document]]:
    """Yield the chunks of all current versions, or of ``most`` documents, in batches."""
    manifests = [manifest.as_in_vector_store() for manifest in read_manifests(docstore, most)]
    for batch in batches(chunk_keys(manifests), _BATCH):
        records = read_records(docstore, [key for key, _ in batch])
        documents: list[Document] = []
        for key, manifest in batch:
            record = readable(records[key])
            if record is not None:
                documents.append(chunk_document(record, key, manifest))
        yield documents


def chunk_keys(manifests: Iterable[Manifest]) -> Iterator[tuple[str, Manifest]]:
    """Yield the keys of all chunks of current versions, with their documents' manifests."""
    for manifest in manifests:
        for index in range(manifest.chunk_count):
            yield chunk_key(manifest.key, manifest.version, index), manifest


# Whole documents


def read_document(
    docstore: DocStore, manifest: Manifest
) -> tuple[DocumentVersion | None, list[str]]:
    """Read all records of a document's current version and check that they are consistent.

    Returns:
        The document as written, but without overlap; None if its text is incomplete, or if it is
        adopted. And the keys of records that are missing, corrupt or inconsistent.
    """
    chunks, problems = _read_chunks(docstore, manifest)
    description = read_description(docstore, manifest.key, manifest.version)
    parts = () if description is None else description.parts  # the chunks have the complete text
    document = DocumentVersion(manifest=manifest, chunks=chunks, parts=parts)
    if not problems and chunks and digest(document.text) != manifest.text_digest:
        problems = [f"{manifest.key}/{manifest.version}"]
    is_whole = not problems and not document.version.adopted
    if description is None:
        problems.append(description_key(manifest.key, manifest.version))
    return document if is_whole else None, problems


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
        records, _ = read_chunks(docstore, {manifest.key: layout}, numbers)
        for (_, index), record in records.items():
            key = chunk_key(manifest.key, manifest.version, index)
            if isinstance(record, Document):
                text = record.page_content
                table_header = table_header_of(record)
                chunk = Chunk(
                    *layout.span_of(index),
                    text=text,
                    embedded_text=with_table_header(table_header, text.strip()),
                    metadata=metadata_changes(record, key)
                    if METADATA_CHANGES in record.metadata
                    else (),
                    header=str(record.metadata.get(HEADER, "")),
                    table_header=table_header,
                )
                chunks.append(chunk)
            elif record is not None or index not in manifest.gaps:
                problems.append(key)
    return chunks, problems


def read_parts(docstore: DocStore, manifest: Manifest) -> list[Document] | None:
    """Read a document's parts as they were added; None if it is incomplete or adopted."""
    document, _ = read_document(docstore, manifest)
    if document is None:
        return None
    text = document.text
    parts: list[Document] = []
    for start, length, changes in document.parts or [(0, len(text), {})]:
        metadata = {**manifest.metadata, **changes}
        parts.append(Document(text[start : start + length], metadata=metadata))
    return parts
