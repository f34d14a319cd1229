"""Access: reads and lists whole documents, subject to the filters of a retriever.

A search filters chunks. All code that lists documents or reads their text goes through this module,
so that the same filters apply.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from langchain_core.documents import Document

from langchain_rse._messages import check_type, did_you_mean
from langchain_rse._sync import run
from langchain_rse.config import QuerySettings
from langchain_rse.errors import MissingRecordError
from langchain_rse.query.candidates import Reason, Sources
from langchain_rse.query.filters import filters_of
from langchain_rse.query.reading import Passage, render, without_changed
from langchain_rse.query.scoring import Chunk
from langchain_rse.stores.compare_and_set import DocStore, readable
from langchain_rse.stores.conditions import OPERATORS, matches
from langchain_rse.stores.layouts import (
    Layout,
    manifests_at,
    read_chunks,
    read_description,
    read_layouts,
    read_manifests,
)
from langchain_rse.stores.records import (
    DOC_ID,
    END_INDEX,
    PASSAGE,
    START_INDEX,
    Manifest,
    Part,
    content_name,
    document_key,
    manifest_key,
)
from langchain_rse.stores.vectorstores.base import VectorStoreAdapter
from langchain_rse.text.quoting import first_few, format_range

READ_ATTEMPTS = 20
"""A document that is replaced while it is read is read again, this many times at most."""


class StoredDocument(NamedTuple):
    """A document in the docstore.

    Attributes:
        doc_id: The id of the document.
        length: The number of characters of its text.
        metadata: The metadata fields that are the same throughout the document.
    """

    doc_id: str
    length: int
    metadata: dict[str, Any]


@dataclass(frozen=True)
class DocumentAccess:
    """Reads whole documents that pass all filters of a retriever.

    The filters apply to metadata that is the same throughout a document. If a field of a filter is
    missing, or has several values in the document, the document does not pass.
    """

    docstore: DocStore
    filters: Sequence[Mapping[str, Any]] = ()
    adapter: VectorStoreAdapter | None = None  # of the vector store; None if unknown
    include_header: bool = False

    def manifests(self) -> list[Manifest]:
        """Return the manifests of the documents that may be read, ordered by id."""
        manifests = [
            each for each in read_manifests(self.docstore) if each.current and self.may_read(each)
        ]
        return sorted(manifests, key=lambda manifest: manifest.doc_id)

    def manifest(self, doc_id: str) -> Manifest:
        """Return the manifest of a document.

        Raises:
            MissingRecordError: If the document does not exist or a filter excludes it. The message
                does not reveal which, and has the nearest ids.

        Warns:
            UserWarning: If the record of the document is corrupt.
        """
        check_type("the id of a document", doc_id, str, "a string")
        manifest = self.manifests_of([doc_id]).get(doc_id)
        if manifest is None:
            ids = [each.doc_id for each in self.manifests()]
            excluded = ", or the filter excludes it" if self.filters else ""
            listed = f"; documents() lists {first_few(ids) or 'none'}"
            advice = did_you_mean(doc_id, ids) or listed
            raise MissingRecordError(f"there is no document {doc_id!r}{excluded}{advice}")
        return manifest

    def manifests_of(self, doc_ids: Iterable[str]) -> dict[str, Manifest]:
        """Return the manifests of documents by id, omitting documents that may not be read."""
        keys = [manifest_key(document_key(doc_id)) for doc_id in dict.fromkeys(doc_ids)]
        manifests = manifests_at(self.docstore, keys)
        return {each.doc_id: each for each in manifests if each.current and self.may_read(each)}

    def documents(self) -> list[StoredDocument]:
        """List the documents that may be read, ordered by id."""
        return [
            StoredDocument(manifest.doc_id, manifest.length, dict(manifest.metadata))
            for manifest in self.manifests()
        ]

    def text(self, doc_id: str) -> str:
        """Read the whole text of a document."""
        _, text = self.whole_text(doc_id)
        return text

    def whole_text(self, doc_id: str) -> tuple[Manifest, str]:
        """Read the whole text of a document, with the manifest of its version.

        If the document is replaced meanwhile, the new version is read.
        """
        for _ in range(READ_ATTEMPTS):
            manifest = self.manifest(doc_id)
            if not manifest.chunk_count:
                return manifest, manifest.blank
            try:
                return manifest, self.passage(manifest, 0, manifest.length).page_content
            except MissingRecordError as error:
                missing = error
            if self.manifest(doc_id).version == manifest.version:
                break
        raise missing

    def parts(self, manifest: Manifest) -> Sequence[Part]:
        """Read where the parts of a document lie, such as pages; empty if it has one part."""
        if manifest.current is None or manifest.current.adopted:
            return ()
        description = read_description(self.docstore, manifest.key, manifest.version)
        if description is None:
            raise MissingRecordError(
                f"cannot read where the parts of document {manifest.doc_id!r} begin: it was "
                "replaced, or its record is damaged. Read it again, or add it again"
            )
        return description.parts

    def around(self, passage: Document, length: int) -> Document:
        """Read a passage with at most ``length`` more characters on each side."""
        allowed = "a Document returned by this retriever"
        check_type("passage", passage, Document, allowed)
        metadata = passage.metadata
        if not isinstance(metadata.get(PASSAGE), Mapping):
            raise ValueError(  # noqa: TRY004 - it is a Document, but not a passage
                f"passage must be {allowed}; got another, {passage.page_content[:40]!r}"
            )
        check_type("length", length, int, "a whole number")
        if length < 0:
            raise ValueError(f"length must be at least 0; got {length!r}")
        manifest = self.manifest(metadata[DOC_ID])
        # A later write may have stored the same content again, as another version.
        if content_name(manifest.version) != metadata[PASSAGE]["version"]:
            raise MissingRecordError(
                f"cannot read around the passage of {manifest.doc_id!r}: the document was "
                "replaced. Search again"
            )
        start = metadata[START_INDEX] - length
        return self.passage(manifest, start, metadata[END_INDEX] + length)

    def passage(self, manifest: Manifest, start: int, end: int) -> Document:
        """Read the characters from ``start`` to ``end`` (exclusive) of a document, as a passage."""
        if not manifest.chunk_count:
            raise MissingRecordError(
                f"document {manifest.doc_id!r} has no text, only {manifest.length} characters of "
                "white space. A scanned PDF needs OCR first"
            )
        characters = range(max(start, 0), min(end, manifest.length))
        passage = self._read(manifest, range(manifest.chunk_count), characters)
        # An adopted document may begin with a gap.
        if passage is None or passage.metadata[START_INDEX] > characters.start:
            raise MissingRecordError(
                f"cannot read characters {format_range(start, end)} of {manifest.doc_id!r}, which "
                f"has {manifest.length:,}: the range is outside the document, some of its text is "
                "missing or was never adopted, or the document was replaced. If other code changed "
                "an adopted index, adopt it again"
            )
        return passage

    def chunks(self, doc_id: str, version: str, chunks: range) -> Document | None:
        """Read consecutive chunks of a document, by number, as a passage.

        Returns None if text is missing, or if the document no longer has the content of this
        version.
        """
        manifest = self.manifests_of([doc_id]).get(doc_id)
        if manifest is None or content_name(manifest.version) != content_name(version):
            return None
        return self._read(manifest, chunks, range(manifest.length))

    def _read(self, manifest: Manifest, chunks: range, characters: range) -> Document | None:
        """Read the text of chunks, limited to a range of the document's characters.

        Returns None if text is missing, if the document was replaced, or if it was adopted and the
        vector store (if known) no longer has all chunks.
        """
        layouts, _ = read_layouts(self.docstore, [manifest.key])
        layout = layouts[manifest.key]
        if not isinstance(layout, Layout) or layout.version != manifest.version or not characters:
            return None
        bounds = [characters.start + 1, characters.stop]
        after_first, stop = np.searchsorted(layout.cuts, bounds).tolist()
        indexes = range(max(after_first - 1, chunks.start), min(stop, chunks.stop))
        if layout.within([indexes]) != [indexes]:  # empty, or with a gap
            return None
        keys = [(manifest.key, index) for index in indexes]
        records, _ = read_chunks(self.docstore, {manifest.key: layout}, keys)
        found = [Chunk(layout, key[1], record=readable(records[key])) for key in keys]
        if any(chunk.record is None for chunk in found):
            return None
        whole = Passage(layout, found, value=0.0)
        start, end = whole.span
        skipped = max(characters.start - start, 0)
        dropped = max(end - characters.stop, 0)
        passage = whole._replace(skipped=skipped, dropped=dropped)
        [checked] = run(without_changed(self.adapter, [passage]))
        settings = QuerySettings(include_header=self.include_header)
        return None if checked.outcome is Reason.CHANGED else render(passage, settings)

    def may_read(self, manifest: Manifest) -> bool:
        """True if a document passes all filters."""
        metadata = {**manifest.metadata, DOC_ID: manifest.doc_id}
        return all(matches(condition, metadata) for condition in self.filters)


def document_access(sources: Sources, settings: QuerySettings) -> DocumentAccess:
    """Return access to the documents that pass the filters of a retriever.

    Raises:
        ValueError: If a filter cannot be applied to a whole document, or if a wrapped retriever may
            filter in an unknown way.
    """
    filters = filters_of(settings.search_kwargs, sources.base_retriever)
    if filters.others and (settings.candidates_only is not False or settings.search_kwargs):
        raise ValueError(
            f"{first_few(filters.others)} may exclude documents for reasons other than relevance "
            "and cannot be applied to a whole document. Documents can therefore be searched, but "
            "not listed or read. Pass the filter as a dict of fields and values, with "
            f"{OPERATORS}; or set candidates_only=False if base_retriever does not filter"
        )
    return DocumentAccess(sources.docstore, filters.conditions, sources.adapter)
