"""Reads whole documents from the docstore and reports problems with their records."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from langchain_core.documents import Document

from langchain_rse._sync import batches
from langchain_rse.errors import CorruptRecordError
from langchain_rse.stores.compare_and_set import DocStore, Record, read_records
from langchain_rse.stores.layouts import (
    read_adopted,
    read_blank,
    read_changes,
    read_parts,
    read_spans,
    readable,
)
from langchain_rse.stores.records import (
    HEADER,
    METADATA_CHANGES,
    START_INDEX,
    Chunk,
    DocumentVersion,
    Manifest,
    Part,
    Version,
    chunk_key,
    description_key,
    spans_key,
    table_header_of,
    with_table_header,
)

# Records per call.
_BATCH = 500


class StoredDocument(NamedTuple):
    """A document's current version as stored in the docstore, and its problems."""

    # As written, but without overlap; None if it is incomplete or adopted.
    document: DocumentVersion | None
    problems: dict[str, list[str]]  # keys of records, by kind of problem
    vectors: list[str]  # ids of its vectors, as far as known


def read_document(docstore: DocStore, manifest: Manifest) -> StoredDocument:
    """Read all records of a document's current version and check that they are consistent."""
    version = manifest.current or Version("", 0)
    records: dict[str, Record] = {}
    for keys in batches(version.docstore_keys(manifest.key), _BATCH):
        records |= read_records(docstore, keys)
    return _DocumentReader(records, manifest, version).read()


@dataclass
class _DocumentReader:
    """Assembles a document from its records and collects the problems."""

    records: Mapping[str, Record]
    manifest: Manifest
    version: Version
    problems: dict[str, list[str]] = field(default_factory=dict)

    def read(self) -> StoredDocument:
        manifest = self.manifest
        spans, gaps = self._read_spans()
        chunks = self._read_chunks(gaps)
        parts, blank = self._read_description()
        document = DocumentVersion(
            doc_id=manifest.doc_id,
            version=self.version,
            length=manifest.length,
            metadata=manifest.metadata,
            chunks=list(chunks.values()),
            parts=parts,
            blank=blank,
            rules=manifest.rules,
            header=manifest.header,
            counts_in_source=manifest.counts_in_source,
        )
        vectors = self._read_vectors()
        if not self._is_damaged() and document.text_digest != manifest.text_digest:
            self.problems["unreadable"] = [f"{manifest.key}/{self.version.name}"]
        if "spans" not in self.problems and not self._fits(spans, chunks):
            self.problems["spans"] = [spans_key(manifest.key, self.version.name, 0)]
        chunk_spans = [(chunk.start, chunk.end) for chunk in document.chunks]
        is_whole = not self._is_damaged() and _tile(chunk_spans, len(document.text))
        if self.version.adopted or not is_whole:
            return StoredDocument(None, self.problems, vectors)
        return StoredDocument(document, self.problems, vectors)

    def _read_spans(self) -> tuple[list[tuple[int, int]], set[int]]:
        """Read the spans of all chunks and the numbers of gaps."""
        spans: list[tuple[int, int]] = []
        gaps: set[int] = set()
        for page in range(self.version.pages):
            key = spans_key(self.manifest.key, self.version.name, page)
            with self._collecting("spans", key):
                cuts, gaps_of_page = read_spans(self.records[key], key, self.manifest, page)
                spans += itertools.pairwise(cuts.tolist())
                gaps.update(gaps_of_page)
        return spans, gaps

    def _read_chunks(self, gaps: set[int]) -> dict[int, Chunk]:
        """Read the chunks that have a record, by number."""
        chunks: dict[int, Chunk] = {}
        for index in range(self.version.chunks):
            key = chunk_key(self.manifest.key, self.version.name, index)
            with self._collecting("unreadable", key):
                record = readable(self.records[key])
                if record is not None:
                    chunks[index] = _read_chunk(record, key, self.manifest, index)
                elif index not in gaps:
                    self._collect("missing_chunks", key)
        return chunks

    def _read_description(self) -> tuple[Sequence[Part], str]:
        """Read the parts of the document and, for a document of white space, its text."""
        key = description_key(self.manifest.key, self.version.name)
        try:
            return (
                read_parts(self.records[key], key, self.manifest),
                read_blank(self.records[key], key, self.manifest),
            )
        except CorruptRecordError:
            # Even without parts, the chunks have the complete text.
            self._collect("parts" if self.version.chunks else "unreadable", key)
            return [], ""

    def _read_vectors(self) -> list[str]:
        """Read the ids of the document's vectors."""
        vectors = list(self.version.vector_ids(self.manifest.key))
        for key in self.version.vectors_keys(self.manifest.key):
            with self._collecting("unreadable", key):
                vectors += read_adopted(self.records[key], key, self.manifest)
        return vectors

    @contextmanager
    def _collecting(self, kind: str, key: str) -> Iterator[None]:
        """Collect a corrupt record as a problem."""
        try:
            yield
        except CorruptRecordError:
            self._collect(kind, key)

    def _collect(self, kind: str, key: str) -> None:
        self.problems.setdefault(kind, []).append(key)

    def _is_damaged(self) -> bool:
        """True for problems other than spans, which chunks also contain, and parts."""
        return bool(self.problems.keys() - {"spans", "parts"})

    def _fits(self, spans: Sequence[tuple[int, int]], chunks: Mapping[int, Chunk]) -> bool:
        """True if spans tile the text and match the chunks."""
        if not _tile(spans, self.manifest.length):
            return False
        return all(chunks[index][:2] == spans[index] for index in chunks)


def _tile(spans: Sequence[tuple[int, int]], length: int) -> bool:
    """True if spans tile a text of this length; also without spans."""
    if not spans:
        return True
    starts = [start for start, _ in spans]
    ends = [end for _, end in spans]
    return [*starts, length] == [0, *ends]


def _read_chunk(record: Document, key: str, manifest: Manifest, index: int) -> Chunk:
    text = record.page_content
    start = record.metadata.get(START_INDEX)
    if not isinstance(start, int):
        start = 0
    end = start + len(text)
    changes = read_changes(record, key, (manifest.doc_id, index, start, end))
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


class StoredText(NamedTuple):
    """The text of a document's current version, and its parts as they were added."""

    text: str
    parts: list[Document]


def read_text(docstore: DocStore, manifest: Manifest) -> StoredText | None:
    """Read the whole text of a document; None if it is incomplete or adopted."""
    document = read_document(docstore, manifest).document
    if document is None:
        return None
    text = document.text
    parts = [
        Document(text[start : start + length], metadata={**manifest.metadata, **part_metadata})
        for start, length, part_metadata in document.parts or [(0, len(text), {})]
    ]
    return StoredText(text, parts)
