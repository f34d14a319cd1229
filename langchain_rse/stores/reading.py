"""Reading documents from the docstore: manifests with spans, then the chosen chunks."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from langchain_core.documents import Document
from langchain_core.stores import BaseStore
from numpy.typing import NDArray
from pydantic import NonNegativeInt, TypeAdapter, ValidationError

from langchain_rse._sync import Steps, batches, call, during
from langchain_rse.errors import CorruptRecordError
from langchain_rse.stores.changing import read_records
from langchain_rse.stores.metadata import chunk_document
from langchain_rse.stores.records import (
    SPANS_PER_PAGE,
    Manifest,
    Version,
    chunk_key,
    manifest_key,
    parts_key,
    spans_key,
)

# Records that are read at once where all are read.
_BATCH = 500

VersionKey = tuple[str, str]
"""A document's key and the name of a version."""

_PARTS = TypeAdapter(list[tuple[NonNegativeInt, NonNegativeInt, dict[str, Any]]])


@dataclass(frozen=True)
class Layout:
    """Where chunks of a document's current version lie.

    Attributes:
        manifest: The document's manifest.
        windows: Ranges of chunks that were asked for and exist, without gaps; ascending.
        pages: Pages of spans by number: the starts of their chunks and the end of the last one.
    """

    manifest: Manifest
    windows: Sequence[range]
    pages: Mapping[int, NDArray[np.int64]]

    @property
    def version(self) -> str:
        """Name of the current version; empty if there is none."""
        current = self.manifest.current
        return current.name if current else ""

    def lengths(self) -> NDArray[np.int64]:
        """Lengths of the windows' chunks in characters, one window after the other."""
        some = [self.lengths_of(window.start, window.stop) for window in self.windows]
        return np.concatenate([np.empty(0, np.int64), *some])

    def lengths_of(self, start: int, end: int) -> NDArray[np.int64]:
        """Lengths of chunks ``[start, end)``, which lie in a window, in characters."""
        some = []
        for page in _pages_of(range(start, end)):
            first = page * SPANS_PER_PAGE
            some.append(np.diff(self.pages[page][max(start - first, 0) : end - first + 1]))
        return np.concatenate(some)


def read_layouts(
    docstore: BaseStore[str, Document], windows: Mapping[VersionKey, Sequence[range]]
) -> Steps[dict[str, Layout | None]]:
    """Read the manifests of documents, and the spans of some windows, in one batch.

    Windows are ranges of chunks, ascending, which may reach beyond the end of the document.

    Returns:
        The layouts by document key, None for documents that the docstore does not know.

    Raises:
        CorruptRecordError: If a record cannot be read.
    """
    documents = dict.fromkeys(key for key, _ in windows)
    pages = dict.fromkeys(
        spans_key(key, version, page)
        for (key, version), some in windows.items()
        for window in some
        for page in _pages_of(window)
    )
    keys = [*map(manifest_key, documents), *pages]
    with during("reading manifests from the docstore"):
        records = yield from call(docstore.mget, docstore.amget, keys)
    found = dict(zip(keys, records, strict=True))

    layouts: dict[str, Layout | None] = {}
    for key in documents:
        record = found[manifest_key(key)]
        layouts[key] = None
        if record is not None:
            manifest = Manifest.from_document(record, manifest_key(key))
            layouts[key] = _layout(manifest, windows, found)
    return layouts


def _pages_of(chunks: range) -> range:
    """The pages that have the spans of some chunks."""
    return range(chunks.start // SPANS_PER_PAGE, -(-chunks.stop // SPANS_PER_PAGE))


def _layout(
    manifest: Manifest,
    windows: Mapping[VersionKey, Sequence[range]],
    found: Mapping[str, Document | None],
) -> Layout:
    """The layout of the windows of a document's current version, cut where the document ends."""
    if manifest.current is None:
        return Layout(manifest, [], {})
    name, chunks, _ = manifest.current
    cut = [range(w.start, min(w.stop, chunks)) for w in windows.get((manifest.key, name), ())]
    existing = [window for window in cut if window]
    pages, gaps = {}, []
    for page in sorted({page for window in existing for page in _pages_of(window)}):
        place = spans_key(manifest.key, name, page)
        pages[page], gaps_of_page = _read_spans(found[place], place, manifest, page)
        gaps += gaps_of_page
    return Layout(manifest, _without(gaps, existing), pages)


def _without(gaps: Sequence[int], windows: Sequence[range]) -> Sequence[range]:
    """The windows cut at gaps, ascending: no segment lies across one."""
    if not gaps:
        return windows
    parts = []
    for window in windows:
        cuts = [window.start - 1, *(gap for gap in gaps if gap in window), window.stop]
        parts += [range(a + 1, b) for a, b in itertools.pairwise(cuts)]
    return [part for part in parts if part]


def _read_spans(
    record: Document | None, place: str, manifest: Manifest, page: int
) -> tuple[NDArray[np.int64], list[int]]:
    """The cuts of a page of spans, and the numbers of the chunks that are gaps."""
    first = page * SPANS_PER_PAGE
    chunks = manifest.current.chunks if manifest.current else 0
    expected = min(SPANS_PER_PAGE, chunks - first) + 1
    try:
        if record is None:
            raise ValueError("it is missing")  # noqa: TRY301
        cuts = np.asarray(record.metadata["cuts"], dtype=np.int64)
        if cuts.shape != (expected,) or (np.diff(cuts) <= 0).any():
            raise ValueError(f"it does not hold {expected} rising numbers")  # noqa: TRY301
        return cuts, [first + int(number) for number in record.metadata.get("gaps", ())]
    except (KeyError, OverflowError, TypeError, ValueError) as error:
        raise CorruptRecordError(
            f"the docstore's record {place!r} of document {manifest.doc_id!r} cannot be used: "
            f"{error}. Delete the document and add it again"
        ) from error


def read_chunks(
    docstore: BaseStore[str, Document],
    layouts: Mapping[str, Layout],
    chunks: Iterable[tuple[str, int]],
) -> Steps[dict[tuple[str, int], Document | None] | None]:
    """Read chunks of the layouts' versions in one batch, by document keys and chunk indexes.

    Returns:
        The chunks' records, None for those that the docstore lacks. None instead of all of
        them if chunks are gone because a document was replaced or deleted since its layout
        was read.
    """
    wanted = list(dict.fromkeys(chunks))
    keys = [chunk_key(key, layouts[key].version, index) for key, index in wanted]
    documents = dict.fromkeys(key for key, _ in wanted)
    # With the manifests, a missing chunk can be told from a document that was replaced.
    manifests = [manifest_key(key) for key in documents]
    with during("reading chunks from the docstore"):
        records = yield from call(docstore.mget, docstore.amget, [*keys, *manifests])
    found = dict(zip(wanted, records[: len(keys)], strict=True))
    if any(record is None for record in found.values()):
        for key, record in zip(documents, records[len(keys) :], strict=True):
            manifest = record and Manifest.from_document(record, manifest_key(key))
            if not manifest or manifest.current != layouts[key].manifest.current:
                return None
    return found


def list_keys(docstore: BaseStore[str, Document], beginning: str) -> Steps[list[str]]:
    """The keys of the docstore that begin with some text."""

    def find(prefix: str | None) -> list[str]:
        return [key for key in docstore.yield_keys(prefix=prefix) if key.startswith(beginning)]

    async def afind(prefix: str | None) -> list[str]:
        found = docstore.ayield_keys(prefix=prefix)
        return [key async for key in found if key.startswith(beginning)]

    with during("listing the keys of the docstore"):
        # Some stores take the prefix for a whole key.
        return (yield from call(find, afind, beginning)) or (yield from call(find, afind, None))


def stored_versions(docstore: BaseStore[str, Document], key: str) -> Steps[list[Version]]:
    """Versions of a document of which the docstore has records, whatever its manifest says.

    They have as many chunks, and pages of adopted vectors, as the records need.
    """
    found: dict[str, Version] = {}
    for place in (yield from list_keys(docstore, f"{key}/")):
        parts = place.split("/")
        version = found.get(parts[1], Version(parts[1], 0))
        number = int(parts[-1]) if parts[-1].isdecimal() and parts[-1].isascii() else -1
        if len(parts) == 3:  # noqa: PLR2004 - a chunk, or the record on the parts
            version = version._replace(chunks=max(version.chunks, number + 1))
        elif parts[2] == "spans":
            chunks = max(version.chunks, number * SPANS_PER_PAGE + 1)
            version = version._replace(chunks=chunks)
        else:
            version = version._replace(adopted=max(version.adopted, (number + 1) * SPANS_PER_PAGE))
        found[version.name] = version
    return list(found.values())


def read_manifests(
    docstore: BaseStore[str, Document], most: int | None = None
) -> Steps[list[Manifest]]:
    """Read the manifests of all documents, or the first ones, ordered by their keys."""
    keys = yield from list_keys(docstore, manifest_key(""))
    manifests: list[Manifest] = []
    for some in batches(sorted(keys)[:most], _BATCH):
        with during("reading manifests from the docstore"):
            records = yield from call(docstore.mget, docstore.amget, some)
        found = zip(records, some, strict=True)
        manifests += [Manifest.from_document(record, key) for record, key in found if record]
    return manifests


def every_chunk(
    docstore: BaseStore[str, Document],
) -> tuple[Steps[list[Manifest]], Callable[[Iterable[Manifest]], Iterator[Steps[list[Document]]]]]:
    """Read all chunks of current versions a batch at a time, see `langchain_rse._sync.run_each`.

    Those that are missing are left out.
    """

    def then(manifests: Iterable[Manifest]) -> Iterator[Steps[list[Document]]]:
        chunks = (
            (manifest, manifest.current.name, index)
            for manifest in manifests
            if manifest.current
            for index in range(manifest.current.chunks)
        )
        return (_read_batch(docstore, batch) for batch in batches(chunks, _BATCH))

    return read_manifests(docstore), then


def _read_batch(
    docstore: BaseStore[str, Document], chunks: Sequence[tuple[Manifest, str, int]]
) -> Steps[list[Document]]:
    keys = [chunk_key(manifest.key, version, index) for manifest, version, index in chunks]
    with during("reading chunks from the docstore"):
        records = yield from call(docstore.mget, docstore.amget, keys)
    return [
        chunk_document(record, key, manifest, version)
        for record, key, (manifest, version, _) in zip(records, keys, chunks, strict=True)
        if record is not None
    ]


class StoredText(NamedTuple):
    """The text of a document's current version, and the parts that it was given in."""

    text: str
    parts: list[Document]


def read_text(docstore: BaseStore[str, Document], manifest: Manifest) -> Steps[StoredText | None]:
    """Read all text of a document that `RSEIndexer` added; None if some of it cannot be read."""
    version = manifest.current or Version("", 0)
    keys = [chunk_key(manifest.key, version.name, index) for index in range(version.chunks)]
    place = parts_key(manifest.key, version.name)
    with during("reading from the docstore"):
        found = yield from read_records(docstore, [*keys, place])
    record = found.pop(place)
    chunks = [chunk.page_content for chunk in found.values() if isinstance(chunk, Document)]
    # What is white space alone has no chunks.
    text = "".join(chunks) or " " * manifest.length
    if len(text) != manifest.length or isinstance(record, CorruptRecordError):
        return None
    try:
        parts = _PARTS.validate_python(record.metadata["parts"] if record else [(0, len(text), {})])
    except (KeyError, ValidationError):
        return None
    return StoredText(
        text,
        [
            Document(text[start : start + length], metadata={**manifest.metadata, **here})
            for start, length, here in parts
        ],
    )
