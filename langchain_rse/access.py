"""Access: the stored documents that a retriever lets a caller read, by its filters.

A search filters chunks. Whoever reads documents as a whole, by a list or by their text, comes
through here, so that the filters of the search hold for that as well.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from langchain_core.documents import Document
from langchain_core.stores import BaseStore

from langchain_rse._sync import run
from langchain_rse.config import QuerySettings
from langchain_rse.errors import MissingRecordError
from langchain_rse.query.candidates import Sources
from langchain_rse.query.filters import filters_of, matches
from langchain_rse.query.reading import DocumentSegment, find_changed
from langchain_rse.query.rendering import render
from langchain_rse.query.scoring import Chunk
from langchain_rse.stores.compare_and_set import read_records
from langchain_rse.stores.document_names import find_document, names_of
from langchain_rse.stores.layouts import (
    Layout,
    manifest_keys,
    manifests_at,
    read_blank,
    read_chunks,
    read_layouts,
    read_manifests,
    readable,
)
from langchain_rse.stores.records import (
    DOC_ID,
    END_INDEX,
    SEGMENT,
    START_INDEX,
    Manifest,
    Version,
    content_name,
    description_key,
    document_key,
    manifest_key,
)
from langchain_rse.stores.vectorstores.base import VectorStoreAdapter
from langchain_rse.text.quoting import first_few


class StoredDocument(NamedTuple):
    """A document in the docstore."""

    doc_id: str
    length: int  # in characters
    metadata: dict[str, Any]  # what holds for the whole document


class DocumentPage(NamedTuple):
    """Some of the documents, by their manifests."""

    total: int  # of all pages
    manifests: Sequence[Manifest | None]  # None for one that cannot be read, or is unfinished


@dataclass(frozen=True)
class DocumentAccess:
    """Reads documents as a whole, those that pass all filters of a retriever's search.

    A document passes if its metadata does, as far as it holds for the whole document: a document
    that lacks a field of the filter, or has several values of it, does not pass.
    """

    docstore: BaseStore[str, Document]
    filters: Sequence[Mapping[str, Any]] = ()
    adapter: VectorStoreAdapter | None = None  # of the vector store; None if it is unknown

    def manifests(self) -> list[Manifest]:
        """The manifests of the documents that may be read, ordered by their ids."""
        manifests = [each for each in read_manifests(self.docstore) if self._is_there(each)]
        return sorted(manifests, key=lambda manifest: manifest.doc_id)

    def manifest(self, doc_id: str) -> Manifest:
        """The manifest of a document; the same error for one that must not be read as for none."""
        layouts = read_layouts(self.docstore, {(document_key(doc_id), ""): []})
        layout = layouts[document_key(doc_id)]
        if isinstance(layout, Layout):
            manifest = layout.manifest
            if self._is_there(manifest):
                return manifest
        elif layout is not None and not self.filters:  # which might exclude it
            raise layout
        raise MissingRecordError(f"there is no document {doc_id!r}, or the filter excludes it")

    def find(self, name: str) -> Manifest:
        """The manifest of a document by its id; else by its source or the name of its file.

        Names are looked for in all manifests, an id in one.
        """
        with suppress(MissingRecordError):
            return self.manifest(name)
        manifests = {manifest.doc_id: manifest for manifest in self.manifests()}
        return manifests[find_document(name, names_of(manifests.values()))]

    def page(self, offset: int, limit: int) -> DocumentPage:
        """Some of the documents that may be read, in the order of their keys.

        Without filters, only the manifests of the page are read.
        """
        if self.filters:
            manifests = [each for each in read_manifests(self.docstore) if self._is_there(each)]
            return DocumentPage(len(manifests), manifests[offset : offset + limit])
        keys = manifest_keys(self.docstore)
        on_page = keys[offset : offset + limit]
        by_key = {}
        for manifest in manifests_at(self.docstore, on_page):
            if self._is_there(manifest):
                by_key[manifest_key(manifest.key)] = manifest
        return DocumentPage(len(keys), [by_key.get(key) for key in on_page])

    def manifests_of(self, doc_ids: Iterable[str]) -> dict[str, Manifest]:
        """The manifests of documents by their ids, without those that cannot be read."""
        keys = [manifest_key(document_key(doc_id)) for doc_id in dict.fromkeys(doc_ids)]
        manifests = manifests_at(self.docstore, keys)
        return {each.doc_id: each for each in manifests if self._is_there(each)}

    def documents(self) -> list[StoredDocument]:
        """The documents that may be read, ordered by their ids."""
        manifests = self.manifests()
        return [
            StoredDocument(manifest.doc_id, manifest.length, dict(manifest.metadata))
            for manifest in manifests
        ]

    def text(self, doc_id: str) -> str:
        """Read the whole text of a document."""
        manifest = self.manifest(doc_id)
        if manifest.current is not None and not has_text(manifest):
            key = description_key(manifest.key, manifest.current.name)
            records = read_records(self.docstore, [key])
            return read_blank(records[key], key, manifest)
        passage = self.passage(manifest, 0, manifest.length)
        return passage.page_content

    def around(self, segment: Document, length: int) -> Document:
        """Read a segment with at most ``length`` more characters on each side."""
        if not isinstance(segment.metadata.get(SEGMENT), Mapping):
            raise ValueError(  # noqa: TRY004 - it is one, of another kind
                f"segment must be a Document that this retriever returned; got {segment!r:.200}"
            )
        if length < 0:
            raise ValueError(f"length must be at least 0; got {length!r}")
        manifest = self.manifest(segment.metadata[DOC_ID])
        start = segment.metadata[START_INDEX] - length
        end = segment.metadata[END_INDEX] + length
        version = segment.metadata[SEGMENT]["version"]
        return self.passage(manifest, start, end, version)

    def passage(
        self, manifest: Manifest, start: int, end: int, version: str | None = None
    ) -> Document:
        """Read the characters from start until end of a document, as a segment.

        ``version`` is the one that these characters were counted in; None for the current one.
        """
        current = manifest.current or Version("", 0)
        if not has_text(manifest):
            raise MissingRecordError(
                f"document {manifest.doc_id!r} has no text, only {manifest.length} characters of "
                "white space; a scanned PDF needs OCR first"
            )
        characters = range(max(start, 0), min(end, manifest.length))
        passage = None
        is_current = version is None or content_name(version) == content_name(current.name)
        if characters and is_current:
            passage = read_passage(
                self.docstore,
                manifest.doc_id,
                current.name,
                range(current.chunks),
                characters,
                adapter=self.adapter,
            )
        if passage is None:
            raise MissingRecordError(
                f"there are no characters {start}-{end} in {manifest.doc_id!r}, which has "
                f"{manifest.length}; or not all of them are stored, or it was replaced meanwhile. "
                "If other code changed an adopted index, adopt it again"
            )
        return passage

    def _is_there(self, manifest: Manifest) -> bool:
        """True if a document was added whole, and passes all filters."""
        return manifest.current is not None and self.may_read(manifest)

    def may_read(self, manifest: Manifest) -> bool:
        """True if a document passes all filters."""
        metadata = {**manifest.metadata, DOC_ID: manifest.doc_id}
        return all(matches(condition, metadata) for condition in self.filters)


def has_text(manifest: Manifest) -> bool:
    """True if a document has more than white space, which has no chunks."""
    return manifest.current is not None and manifest.current.chunks > 0


def document_access(sources: Sources, settings: QuerySettings) -> DocumentAccess:
    """Give access to the documents that pass the filters of a retriever.

    Raises:
        ValueError: If a filter cannot be applied to a document as a whole, or if it is unknown
            whether a wrapped retriever filters.
    """
    filters = filters_of(settings.search_kwargs, sources.base_retriever)
    if filters.others and (settings.candidates_only is not False or settings.search_kwargs):
        raise ValueError(
            f"{first_few(filters.others)} may leave documents out for other reasons than "
            "relevance, and cannot be applied to a document as a whole, so documents can be "
            "searched but not be read or listed. Give a filter as a dict of fields and values, "
            "with $eq, $ne, $in, $nin, $gt, $gte, $lt, $lte, $contains, $not_contains, $and and "
            "$or; or set candidates_only=False if a base_retriever does not filter"
        )
    return DocumentAccess(sources.docstore, filters.conditions, sources.adapter)


def read_passage(
    docstore: BaseStore[str, Document],
    doc_id: str,
    version: str,
    chunks: range,
    characters: range = range(sys.maxsize),
    *,
    adapter: VectorStoreAdapter | None = None,
) -> Document | None:
    """Read the text of chunks, limited to a range of the document's characters.

    None if some of them are not stored, the version is no longer current, or the document was
    adopted and the vector store, if it is given, no longer has all of them.
    """
    key = document_key(doc_id)
    layouts = read_layouts(docstore, {(key, version): [chunks]})
    layout = layouts[key]
    if not isinstance(layout, Layout):
        return None
    if layout.version != version and content_name(layout.version) == content_name(version):
        # Segments name the content alone, which another write may have stored.
        layouts = read_layouts(docstore, {(key, layout.version): [chunks]})
        layout = layouts[key]
        if not isinstance(layout, Layout):
            return None
    indexes = _chunks_within(layout, characters)
    if not indexes or len(indexes) <= indexes[-1] - indexes[0]:  # none, or there is a gap
        return None
    read = read_chunks(docstore, {key: layout}, [(key, index) for index in indexes])
    if read.replaced:
        return None
    segment_chunks = []
    for index in indexes:
        record = readable(read.records[key, index])
        if record is None:
            return None
        segment_chunks.append(Chunk(layout, index, record=record))
    start, _ = layout.span_of(indexes[0])
    _, end = layout.span_of(indexes[-1])
    segment = DocumentSegment(
        layout,
        segment_chunks,
        value=0.0,
        skipped=max(characters.start - start, 0),
        dropped=max(end - characters.stop, 0),
    )
    if run(find_changed(adapter, [segment])):
        return None
    return render(segment, QuerySettings())


def _chunks_within(layout: Layout, characters: range) -> Sequence[int]:
    """Return the indexes of the chunks that have some of the characters."""
    indexes = []
    for window in layout.windows:
        for index in window:
            start, end = layout.span_of(index)
            if start < characters.stop and characters.start < end:
                indexes.append(index)
    return indexes
