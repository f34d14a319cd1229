"""Whether the docstore has a document whole: its records, compared with each other."""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

from langchain_core.documents import Document

from langchain_rse._sync import Steps, batches
from langchain_rse.errors import CorruptRecordError
from langchain_rse.stores.changing import DocStore, Record, read_records
from langchain_rse.stores.reading import read_adopted, read_changes, read_parts, read_spans
from langchain_rse.stores.records import (
    HEADER,
    PLACES,
    START_INDEX,
    Chunk,
    DocumentVersion,
    Manifest,
    Part,
    Version,
    chunk_key,
    parts_key,
    spans_key,
)

_BATCH = 500
# Longer texts of white space alone are not read.
_MOST_SPACE = 1_000_000


class StoredDocument(NamedTuple):
    """What the docstore has of a document's current version."""

    # As it was written, but embedded without overlap; None if some is missing, or it was adopted.
    document: DocumentVersion | None
    wrong: dict[str, list[str]]  # keys of records, by what is wrong with them
    vectors: list[str]  # ids, as far as they are known


def read_document(
    docstore: DocStore, manifest: Manifest, version: Version
) -> Steps[StoredDocument]:
    """Read all records of a document's current version, and compare them with each other."""
    reader = _Reader(manifest, version)
    for keys in batches(version.docstore_keys(manifest.key), _BATCH):
        reader.records |= yield from read_records(docstore, keys)
    return reader.read()


class _Reader:
    """Reads the records of a version, and notes what is wrong."""

    def __init__(self, manifest: Manifest, version: Version) -> None:
        self.records: dict[str, Record] = {}
        self._manifest = manifest
        self._version = version
        self._wrong: dict[str, list[str]] = {}

    def read(self) -> StoredDocument:
        manifest, version = self._manifest, self._version
        spans, gaps = self._spans()
        chunks = self._chunks(gaps)
        parts: Sequence[Part] = []
        place = parts_key(manifest.key, version.name)
        try:
            parts = read_parts(self.records[place], place, manifest)
        except CorruptRecordError:
            self._note("unreadable", place)
        document = DocumentVersion(
            doc_id=manifest.doc_id,
            version=version,
            length=manifest.length,
            metadata=manifest.metadata,
            chunks=list(chunks.values()),
            parts=parts,
            rules=manifest.rules,
            header=manifest.header,
        )
        vectors = [*version.vector_ids(manifest.key), *self._adopted()]
        if not self._wrong.keys() - {"spans"} and document.text_digest != manifest.text_digest:
            self._note("unreadable", f"{manifest.key}/{version.name}")
        if spans and any(chunk[:2] != spans[index] for index, chunk in chunks.items()):
            self._note("spans", spans_key(manifest.key, version.name, 0))
        ends = [0, *(chunk.end for chunk in document.chunks)]
        is_whole = all(one.start == end for one, end in zip(document.chunks, ends, strict=False))
        is_lost = version.adopted or self._wrong.keys() - {"spans"} or not is_whole
        return StoredDocument(None if is_lost else document, self._wrong, vectors)

    def _note(self, kind: str, place: str) -> None:
        self._wrong.setdefault(kind, []).append(place)

    def _spans(self) -> tuple[list[tuple[int, int]], set[int]]:
        """The spans of all chunks, none if they do not cover the text; and the gaps."""
        spans: list[tuple[int, int]] = []
        gaps: set[int] = set()
        end, page = 0, 0
        for page in range(self._version.pages):
            place = spans_key(self._manifest.key, self._version.name, page)
            try:
                cuts, some = read_spans(self.records[place], place, self._manifest, page)
                if cuts[0] != end:
                    raise CorruptRecordError(place)  # noqa: TRY301
            except CorruptRecordError:
                self._note("spans", place)
                return [], gaps
            spans += itertools.pairwise(cuts.tolist())
            gaps |= set(some)
            end = int(cuts[-1])
        if spans and end != self._manifest.length:
            self._note("spans", place)
        return spans, gaps

    def _chunks(self, gaps: set[int]) -> dict[int, Chunk]:
        """The chunks that can be read, by their numbers."""
        chunks: dict[int, Chunk] = {}
        for index in range(self._version.chunks):
            place = chunk_key(self._manifest.key, self._version.name, index)
            record = self.records[place]
            if isinstance(record, Document):
                try:
                    chunks[index] = self._chunk(record, place, index)
                except CorruptRecordError:
                    self._note("unreadable", place)
            elif record is not None:
                self._note("unreadable", place)
            elif index not in gaps:
                self._note("missing_chunks", place)
        return chunks

    def _chunk(self, record: Document, place: str, index: int) -> Chunk:
        metadata, text = record.metadata, record.page_content
        start = metadata[START_INDEX] if isinstance(metadata.get(START_INDEX), int) else 0
        end = start + len(text)
        changes = read_changes(record, place, (self._manifest.doc_id, index, start, end))
        header = str(metadata.get(HEADER, ""))
        return Chunk(start, end, text, text.strip(), changes if PLACES in metadata else (), header)

    def _adopted(self) -> list[str]:
        """The ids of the vectors that the document was adopted from."""
        vectors: list[str] = []
        for place in self._version.vectors_keys(self._manifest.key):
            try:
                vectors += read_adopted(self.records[place], place, self._manifest)
            except CorruptRecordError:
                self._note("unreadable", place)
        return vectors


class StoredText(NamedTuple):
    """The text of a document's current version, and the parts that it was given in."""

    text: str
    parts: list[Document]


def read_text(docstore: DocStore, manifest: Manifest) -> Steps[StoredText | None]:
    """Read all text of a document that `RSEIndexer` added; None if some of it cannot be read."""
    version = manifest.current or Version("", 0)
    document = (yield from read_document(docstore, manifest, version)).document
    if document is None:
        return None
    # What is white space alone has no chunks.
    text = document.text or " " * min(manifest.length, _MOST_SPACE)
    if len(text) != manifest.length:
        return None
    parts = [
        Document(text[start : start + length], metadata={**manifest.metadata, **here})
        for start, length, here in document.parts or [(0, len(text), {})]
    ]
    return StoredText(text, parts)
