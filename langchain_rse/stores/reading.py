"""Reads documents from the docstore: whole ones, or the spans and chunks that a query needs."""

import itertools
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from langchain_core.documents import Document
from numpy.typing import NDArray
from pydantic import NonNegativeInt, TypeAdapter

from langchain_rse._sync import Steps, batches
from langchain_rse.errors import CorruptRecordError
from langchain_rse.stores.changing import DocStore, Record, list_keys, read_records
from langchain_rse.stores.namespaces import refuse_namespaces
from langchain_rse.stores.records import (
    HEADER,
    NAMESPACES,
    PLACE,
    PLACES,
    SPANS_PER_PAGE,
    START_INDEX,
    Chunk,
    DocumentVersion,
    Manifest,
    Part,
    Version,
    chunk_document,
    chunk_key,
    manifest_key,
    metadata_changes,
    parts_key,
    spans_key,
)

# Records to read in one call when all records are read.
_BATCH = 500
# Longer texts that are only white space are not read.
_MOST_SPACE = 1_000_000

VersionKey = tuple[str, str]
"""A document's key and the name of a version."""

_IDS = TypeAdapter(list[str])
_PARTS = TypeAdapter(list[tuple[NonNegativeInt, NonNegativeInt, dict[str, Any]]])


@dataclass(frozen=True)
class Layout:
    """Where chunks of a document's current version lie."""

    manifest: Manifest
    windows: Sequence[range]  # requested chunks that exist, without gaps; ascending
    pages: Mapping[int, NDArray[np.int64]]  # starts of the chunks, and the end of the last one

    @property
    def version(self) -> str:
        """Name of the current version; empty if there is none."""
        current = self.manifest.current
        return current.name if current else ""

    def lengths(self) -> NDArray[np.int64]:
        """The lengths of the windows' chunks in characters, one window after the other."""
        spans = [self.span_of(index) for window in self.windows for index in window]
        return np.diff(np.array(spans, np.int64).reshape(-1, 2))[:, 0]

    def span_of(self, index: int) -> tuple[int, int]:
        """The first character of a chunk in a window, and the character after its last one."""
        page, place = divmod(index, SPANS_PER_PAGE)
        return int(self.pages[page][place]), int(self.pages[page][place + 1])


Layouts = dict[str, Layout | CorruptRecordError | None]
"""By document key: the layout or the error of reading it; None if there is no manifest."""


def unreadable(layouts: Layouts) -> dict[str, CorruptRecordError]:
    """The errors of documents that cannot be read, by their keys."""
    return {key: one for key, one in layouts.items() if isinstance(one, CorruptRecordError)}


def read_layouts(
    docstore: DocStore, windows: Mapping[VersionKey, Sequence[range]]
) -> Steps[Layouts]:
    """Read the manifests of documents and the spans of ascending ranges of chunks, in one batch."""
    documents = dict.fromkeys(key for key, _ in windows)
    pages = dict.fromkeys(
        spans_key(key, version, page)
        for (key, version), some in windows.items()
        for window in some
        for page in _pages_of(window)
    )
    keys = [*map(manifest_key, documents), *pages, NAMESPACES]
    found = yield from read_records(docstore, keys)
    refuse_namespaces(found[NAMESPACES])

    layouts: Layouts = {}
    for key in documents:
        try:
            record, layouts[key] = readable(found[manifest_key(key)]), None
            if record is not None:
                manifest = Manifest.from_document(record, manifest_key(key))
                layouts[key] = _layout(manifest, windows, found)
        except CorruptRecordError as error:
            layouts[key] = error
    return layouts


def readable(record: Record) -> Document | None:
    """Return the record, None if there is none; raise its error if it cannot be read."""
    if isinstance(record, CorruptRecordError):
        raise record
    return record


def _pages_of(chunks: range) -> range:
    """The numbers of the pages with the spans of these chunks."""
    return range(chunks.start // SPANS_PER_PAGE, -(-chunks.stop // SPANS_PER_PAGE))


def _layout(
    manifest: Manifest, windows: Mapping[VersionKey, Sequence[range]], found: Mapping[str, Record]
) -> Layout:
    """Make the layout of a document's current version; windows end where the document does."""
    if manifest.current is None:
        return Layout(manifest, [], {})
    name, chunks, _ = manifest.current
    cut = [range(w.start, min(w.stop, chunks)) for w in windows.get((manifest.key, name), ())]
    existing = [window for window in cut if window]
    pages, gaps = {}, []
    for page in sorted({page for window in existing for page in _pages_of(window)}):
        place = spans_key(manifest.key, name, page)
        pages[page], gaps_of_page = read_spans(readable(found[place]), place, manifest, page)
        gaps += gaps_of_page
    return Layout(manifest, _without(gaps, existing), pages)


def _without(gaps: Sequence[int], windows: Sequence[range]) -> Sequence[range]:
    """Cut ascending windows at gaps, since no segment may contain one."""
    if not gaps:
        return windows
    parts = []
    for window in windows:
        cuts = [window.start - 1, *(gap for gap in gaps if gap in window), window.stop]
        parts += [range(a + 1, b) for a, b in itertools.pairwise(cuts)]
    return [part for part in parts if part]


@contextmanager
def _reading(record: Record, place: str, manifest: Manifest) -> Iterator[Document]:
    try:
        if not isinstance(record, Document):
            raise TypeError(record or "it is missing")  # noqa: TRY301 - like all other errors
        yield record
    except (KeyError, OverflowError, TypeError, ValueError) as error:
        raise CorruptRecordError(
            f"the docstore's record {place!r} of document {manifest.doc_id!r} cannot be used: "
            f"{error}. Delete the document and add it again"
        ) from error


def read_spans(
    record: Record, place: str, manifest: Manifest, page: int
) -> tuple[NDArray[np.int64], list[int]]:
    """Read the cuts of a page of spans, and the numbers of the chunks that are gaps."""
    first = page * SPANS_PER_PAGE
    chunks = manifest.current.chunks if manifest.current else 0
    expected = min(SPANS_PER_PAGE, chunks - first) + 1
    with _reading(record, place, manifest) as found:
        cuts = np.asarray(found.metadata["cuts"], dtype=np.int64)
        gaps = [first + int(number) for number in found.metadata.get("gaps", ())]
        rising = (
            cuts.shape == (expected,) and (cuts[1:] > cuts[:-1]).all() and gaps == sorted({*gaps})
        )
        if not rising or cuts[0] < 0 or cuts[-1] > manifest.length:
            allowed = f"{expected} rising numbers from 0 to {manifest.length}"
            raise ValueError(f"it does not hold {allowed}")
    return cuts, gaps


def read_parts(record: Record, place: str, manifest: Manifest) -> Sequence[Part]:
    """Read the parts that a document was given in; empty if it was one, without a record."""
    if record is None:
        return []
    with _reading(record, place, manifest) as found:
        parts = _PARTS.validate_python(found.metadata["parts"])
        ends = [0, *(start + length for start, length, _ in parts)]
        starts = [*(start for start, _, _ in parts), manifest.length]
        if ends[-1] != manifest.length or any(map(operator.lt, starts, ends)):
            raise ValueError("they are not the parts of its text")
    return parts


def read_adopted(record: Record, place: str, manifest: Manifest) -> list[str]:
    """Read the ids of a page of adopted vectors."""
    with _reading(record, place, manifest) as found:
        return _IDS.validate_python(found.metadata["ids"])


def read_chunks(
    docstore: DocStore, layouts: Mapping[str, Layout], chunks: Iterable[tuple[str, int]]
) -> Steps[dict[tuple[str, int], Record] | None]:
    """Read chunks of the layouts' versions in one batch, by document keys and chunk indexes.

    A chunk that cannot be read or does not fit its place has its error, a missing one None. Returns
    None if chunks are missing because a document was replaced since its layout was read.
    """
    wanted = list(dict.fromkeys(chunks))
    keys = [chunk_key(key, layouts[key].version, index) for key, index in wanted]
    records = yield from read_records(docstore, keys)
    found: dict[tuple[str, int], Record] = {}
    for (key, index), place in zip(wanted, keys, strict=True):
        layout, record = layouts[key], records[place]
        found[key, index] = record
        if isinstance(record, Document):
            try:
                read_changes(record, place, (layout.manifest.doc_id, index, *layout.span_of(index)))
            except CorruptRecordError as error:
                found[key, index] = error
    # The present manifest tells whether a chunk is missing or its document was replaced.
    missing = dict.fromkeys(key for (key, _), record in found.items() if record is None)
    if not missing:
        return found
    records = yield from read_records(docstore, [manifest_key(key) for key in missing])
    for key, (place, record) in zip(missing, records.items(), strict=True):
        manifest = isinstance(record, Document) and Manifest.from_document(record, place)
        if not manifest or manifest.current != layouts[key].manifest.current:
            return None
    return found


def read_changes(
    record: Document, place: str, expected: tuple[str, int, int, int]
) -> list[tuple[int, Mapping[str, Any]]]:
    """The `metadata_changes` of a chunk; an error if its fields in `PLACE` are not as expected."""
    found, length = tuple(map(record.metadata.get, PLACE)), len(record.page_content)
    if found != expected or length != expected[3] - expected[2]:
        raise CorruptRecordError(
            f"the docstore's chunk {place!r} has {length} characters and {found} as "
            f"{', '.join(PLACE)}, which should be {expected}"
        )
    return metadata_changes(record, place)


def stored_versions(docstore: DocStore, key: str) -> Steps[list[Version]]:
    """Find versions of a document by the keys in the docstore, each at least as large as these."""
    found: dict[str, Version] = {}
    for place in (yield from list_keys(docstore, f"{key}/")):
        _, name, *kind, last = place.split("/")
        number = int(last) if last.isdecimal() and last.isascii() else -1
        _, chunks, adopted = found.get(name, Version(name, 0))
        if kind == ["vectors"]:
            adopted = max(adopted, (number + 1) * SPANS_PER_PAGE)
        else:  # a page of spans has at least one chunk
            first = number * SPANS_PER_PAGE if kind == ["spans"] else number
            chunks = max(chunks, first + 1)
        found[name] = Version(name, chunks, adopted)
    return list(found.values())


def read_manifests(docstore: DocStore, most: int | None = None) -> Steps[list[Manifest]]:
    """Read the manifests of all documents, or of the first ``most``, ordered by their keys."""
    keys = yield from list_keys(docstore, manifest_key(""))
    refuse_namespaces(any("-" in key for key in keys))
    manifests: list[Manifest] = []
    for some in batches(sorted(keys)[:most], _BATCH):
        found = (yield from read_records(docstore, some)).items()
        records = ((readable(record), key) for key, record in found)
        manifests += [Manifest.from_document(record, key) for record, key in records if record]
    return manifests


def every_chunk(docstore: DocStore) -> Iterator[Steps[list[Document]]]:
    """Read the chunks of current versions, one batch with each item."""
    manifests: list[Manifest] = []

    def first() -> Steps[list[Document]]:
        manifests.extend((yield from read_manifests(docstore)))
        return []

    def read(chunks: Sequence[tuple[str, Manifest]]) -> Steps[list[Document]]:
        found = yield from read_records(docstore, [key for key, _ in chunks])
        return [
            chunk_document(record, key, manifest)
            for key, manifest in chunks
            if (record := readable(found[key])) is not None
        ]

    yield first()
    chunks = (
        (chunk_key(one.key, one.current.name, index), one)
        for one in manifests
        if one.current
        for index in range(one.current.chunks)
    )
    yield from map(read, batches(chunks, _BATCH))


# All records of a document


class StoredDocument(NamedTuple):
    """A document's current version as the docstore has it, and its problems."""

    # As it was written, but without overlap; None if something is missing, or it was adopted.
    document: DocumentVersion | None
    wrong: dict[str, list[str]]  # keys of records, by the kind of problem
    vectors: list[str]  # the known ids


def read_document(docstore: DocStore, manifest: Manifest) -> Steps[StoredDocument]:
    """Read all records of a document's current version, and compare them with each other."""
    version = manifest.current or Version("", 0)
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
    is_whole = _tile([chunk[:2] for chunk in document.chunks], len(document.text))
    is_lost = version.adopted or wrong.keys() - {"spans"} or not is_whole
    return StoredDocument(None if is_lost else document, wrong, vectors)


def _tile(spans: Sequence[tuple[int, int]], length: int) -> bool:
    """True if spans tile a text of this length, or if there are none."""
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
    document = (yield from read_document(docstore, manifest)).document
    if document is None:
        return None
    # A text that is only white space has no chunks.
    text = document.text or " " * min(manifest.length, _MOST_SPACE)
    if len(text) != manifest.length:
        return None
    parts = [
        Document(text[start : start + length], metadata={**manifest.metadata, **here})
        for start, length, here in document.parts or [(0, len(text), {})]
    ]
    return StoredText(text, parts)
