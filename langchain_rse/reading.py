"""Reading documents from the docstore: manifests with spans, then the chosen chunks."""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from langchain_core.documents import Document
from langchain_core.stores import BaseStore
from numpy.typing import NDArray

from langchain_rse._steps import Steps, call, during
from langchain_rse.schema import (
    SPANS_PER_PAGE,
    CorruptRecordError,
    Manifest,
    chunk_key,
    manifest_key,
    spans_key,
)
from langchain_rse.selection import Window

__all__ = ["Layout", "VersionKey", "read_chunks", "read_layouts"]

VersionKey = tuple[str, str]
"""A document's key and the name of a version."""


@dataclass(frozen=True)
class Layout:
    """Where the chunks of a document's current version lie, as far as it was read.

    Attributes:
        manifest: The document's manifest.
        windows: The windows of the current version that matter, within the document.
        pages: Pages of spans by number; each the starts of its chunks and the end of the
            last one.
        borders: Where sections begin and end in these pages, as numbers of chunks.
    """

    manifest: Manifest
    windows: Sequence[Window]
    pages: dict[int, NDArray[np.int64]]
    borders: set[int] = field(default_factory=set)

    @property
    def version(self) -> str:
        """Name of the current version; empty if there is none."""
        current = self.manifest.current
        return current.name if current else ""

    def lengths(self) -> NDArray[np.int64]:
        """Lengths of the windows' chunks in characters, one window after the other."""
        return np.concatenate([self.lengths_of(start, end) for start, end in self.windows])

    def lengths_of(self, start: int, end: int) -> NDArray[np.int64]:
        """Lengths of chunks ``[start, end)``, which lie in a window, in characters."""
        pieces = []
        for page in range(start // SPANS_PER_PAGE, (end - 1) // SPANS_PER_PAGE + 1):
            first = page * SPANS_PER_PAGE
            pieces.append(np.diff(self.pages[page][max(start - first, 0) : end - first + 1]))
        return np.concatenate(pieces)


def read_layouts(
    docstore: BaseStore[str, Document], windows: Mapping[VersionKey, Sequence[Window]]
) -> Steps[dict[str, Layout | None]]:
    """Read the manifests of documents, and the spans of some windows, in one batch.

    Args:
        docstore: The docstore.
        windows: For versions of documents, the windows that matter. They may reach beyond
            the end of the document.

    Returns:
        By document key: the layout, with the pages of its current version; None if the
        docstore does not know the document.
    """
    documents = dict.fromkeys(key for key, _ in windows)
    page_keys = {
        (key, version, page): spans_key(key, version, page)
        for (key, version), some in windows.items()
        for window in some
        for page in range(window.start // SPANS_PER_PAGE, (window.end - 1) // SPANS_PER_PAGE + 1)
    }
    keys = [*(manifest_key(key) for key in documents), *page_keys.values()]
    with during("reading manifests from the docstore"):
        records = yield from call(docstore.mget, docstore.amget, keys)
    found = dict(zip(keys, records, strict=True))

    layouts: dict[str, Layout | None] = {}
    for key in documents:
        record = found[manifest_key(key)]
        layouts[key] = None
        if record is not None:
            manifest = Manifest.from_document(record, manifest_key(key))
            layouts[key] = Layout(manifest, _within(manifest, windows, key), {})
    gaps: dict[str, list[int]] = {}
    for (key, version, page), place in page_keys.items():
        layout = layouts[key]
        current = layout.manifest.current if layout else None
        if layout and current and current.name == version and page < current.pages:
            layout.pages[page], some, borders = _spans(found[place], place, layout.manifest, page)
            gaps.setdefault(key, []).extend(some)
            layout.borders.update(borders)
    for key, some in gaps.items():
        if some and (layout := layouts[key]):
            layouts[key] = replace(layout, windows=_between(layout.windows, sorted(some)))
    return layouts


def _within(
    manifest: Manifest, windows: Mapping[VersionKey, Sequence[Window]], key: str
) -> list[Window]:
    """The windows of the current version, cut where the document ends."""
    if manifest.current is None:
        return []
    name, chunks, _ = manifest.current
    return [
        Window(start, min(end, chunks))
        for start, end in windows.get((key, name), ())
        if start < chunks
    ]


def _between(windows: Sequence[Window], gaps: Sequence[int]) -> list[Window]:
    """The windows without the gaps in them: no segment lies across one."""
    parts = []
    for start, end in windows:
        cuts = [start - 1, *gaps[bisect_left(gaps, start) : bisect_left(gaps, end)], end]
        parts += [Window(a + 1, b) for a, b in itertools.pairwise(cuts) if a + 1 < b]
    return parts


def _spans(
    record: Document | None, place: str, manifest: Manifest, page: int
) -> tuple[NDArray[np.int64], list[int], list[int]]:
    """The cuts of a page of spans, the numbers of those that are gaps, and sections' borders."""
    chunks = manifest.current.chunks if manifest.current else 0
    expected = min(SPANS_PER_PAGE, chunks - page * SPANS_PER_PAGE) + 1
    try:
        if record is None:
            raise ValueError("it is missing")  # noqa: TRY301
        cuts = np.asarray(record.metadata["cuts"], dtype=np.int64)
        if cuts.shape != (expected,) or (np.diff(cuts) <= 0).any():
            raise ValueError(f"it does not hold {expected} rising numbers")  # noqa: TRY301
        gaps, borders = (
            [page * SPANS_PER_PAGE + int(number) for number in record.metadata.get(name, ())]
            for name in ("gaps", "borders")
        )
    except (KeyError, OverflowError, TypeError, ValueError) as error:
        raise CorruptRecordError(
            f"the docstore's record {place!r} of document {manifest.doc_id!r} cannot be used: "
            f"{error}. Delete the document and add it again"
        ) from error
    return cuts, gaps, borders


def read_chunks(
    docstore: BaseStore[str, Document],
    layouts: Mapping[str, Layout],
    chunks: Iterable[tuple[str, int]],
) -> Steps[dict[tuple[str, int], Document | None] | None]:
    """Read chunks of the layouts' versions in one batch.

    Args:
        docstore: The docstore.
        layouts: The layouts by document key.
        chunks: Pairs of a document's key and a chunk's index.

    Returns:
        The chunks' records, None for those that the docstore lacks. None instead of all of
        them if chunks are gone because a document was replaced or deleted since its layout
        was read.
    """
    wanted = list(dict.fromkeys(chunks))
    keys = [
        chunk_key(key, layout.version, index) for key, index in wanted for layout in (layouts[key],)
    ]
    documents = dict.fromkeys(key for key, _ in wanted)
    # The manifests come along, so that a missing chunk is told from a replaced document.
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
