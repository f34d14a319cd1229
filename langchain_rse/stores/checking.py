"""Whether the docstore has a document whole: its records, compared with each other."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from langchain_core.documents import Document

from langchain_rse._sync import Steps, batches
from langchain_rse.errors import CorruptRecordError
from langchain_rse.stores.changing import DocStore, Record, read_records
from langchain_rse.stores.reading import (
    read_adopted,
    read_changes,
    read_parts,
    read_spans,
    readable,
)
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
    records: dict[str, Record] = {}
    for keys in batches(version.docstore_keys(manifest.key), _BATCH):
        records |= yield from read_records(docstore, keys)
    return _compare(records, manifest, version)


def _compare(records: Mapping[str, Record], manifest: Manifest, version: Version) -> StoredDocument:
    wrong: dict[str, list[str]] = {}

    @contextmanager
    def noting(kind: str, place: str) -> Iterator[Record]:
        try:
            yield records[place]
        except CorruptRecordError:
            wrong.setdefault(kind, []).append(place)

    spans: list[tuple[int, int]] = []
    gaps: set[int] = set()
    for page in range(version.pages):
        place = spans_key(manifest.key, version.name, page)
        with noting("spans", place) as record:
            cuts, some = read_spans(record, place, manifest, page)
            spans += itertools.pairwise(cuts.tolist())
            gaps.update(some)
    chunks: dict[int, Chunk] = {}
    for index in range(version.chunks):
        place = chunk_key(manifest.key, version.name, index)
        with noting("unreadable", place) as record:
            if (found := readable(record)) is not None:
                chunks[index] = _chunk(found, place, manifest, index)
            elif index not in gaps:
                wrong.setdefault("missing_chunks", []).append(place)
    parts: Sequence[Part] = []
    place = parts_key(manifest.key, version.name)
    with noting("unreadable", place) as record:
        parts = read_parts(record, place, manifest)
    vectors = list(version.vector_ids(manifest.key))
    for place in version.vectors_keys(manifest.key):
        with noting("unreadable", place) as record:
            vectors += read_adopted(record, place, manifest)
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
    if not wrong.keys() - {"spans"} and document.text_digest != manifest.text_digest:
        wrong["unreadable"] = [f"{manifest.key}/{version.name}"]
    if "spans" not in wrong and not (
        _tile(spans, manifest.length)
        and all(chunk[:2] == spans[index] for index, chunk in chunks.items())
    ):
        wrong["spans"] = [spans_key(manifest.key, version.name, 0)]
    is_whole = _tile([chunk[:2] for chunk in document.chunks], manifest.length)
    is_lost = version.adopted or wrong.keys() - {"spans"} or not is_whole
    return StoredDocument(None if is_lost else document, wrong, vectors)


def _tile(spans: Sequence[tuple[int, int]], length: int) -> bool:
    """True if spans, if there are any, tile a text of this length."""
    starts, ends = [start for start, _ in spans], [end for _, end in spans]
    return not spans or [*starts, length] == [0, *ends]


def _chunk(record: Document, place: str, manifest: Manifest, index: int) -> Chunk:
    metadata, text = record.metadata, record.page_content
    start = metadata[START_INDEX] if isinstance(metadata.get(START_INDEX), int) else 0
    end = start + len(text)
    changes = read_changes(record, place, (manifest.doc_id, index, start, end))
    header = str(metadata.get(HEADER, ""))
    return Chunk(start, end, text, text.strip(), changes if PLACES in metadata else (), header)


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
