"""Reading documents from the docstore: manifests with spans, then the chosen chunks."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from langchain_core.documents import Document
from langchain_core.stores import BaseStore
from numpy.typing import NDArray

from langchain_rse._sync import Steps, call, during
from langchain_rse.errors import CorruptRecordError
from langchain_rse.stores.records import (
    SPANS_PER_PAGE,
    Manifest,
    chunk_key,
    manifest_key,
    spans_key,
)

VersionKey = tuple[str, str]
"""A document's key and the name of a version."""


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
