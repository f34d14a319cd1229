"""Adds documents in batches: reads, splits, adds headers, and hands them to the `Writer`."""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from langchain_core.documents import Document

from langchain_rse._progress import Advance, progress_bar
from langchain_rse._sync import run
from langchain_rse.errors import MetadataError
from langchain_rse.ingest.add_warnings import AddWarnings
from langchain_rse.ingest.appending import read_stored_parts
from langchain_rse.ingest.parts import check_one_document
from langchain_rse.ingest.replacing import ExpectedVersions, UnexpectedVersionError
from langchain_rse.ingest.source_documents import (
    HeaderMaker,
    SourceDocument,
    split_document,
    with_name,
)
from langchain_rse.ingest.sources import Reader
from langchain_rse.ingest.splitting import Splitter
from langchain_rse.ingest.writing import Writer
from langchain_rse.stores.json import encode_json
from langchain_rse.stores.namespaces import namespace_of
from langchain_rse.stores.records import DocumentVersion, Rule, digest
from langchain_rse.text.quoting import UNENCODABLE

S = TypeVar("S")
T = TypeVar("T")

# Length of quoted text in messages, in characters.
_EXCERPT = 40


@dataclass
class AddOperation:
    """One call that adds documents, with the settings of `RSEIndexer`."""

    writer: Writer
    splitter: Splitter
    headers: HeaderMaker | None
    separator: str
    rules: Mapping[str, Rule]
    append: bool = False  # add new parts to the end of stored documents
    separate: bool | None = None  # see `Reader`
    force: bool = False  # write and embed unchanged documents as well
    _warnings: AddWarnings = field(default_factory=AddWarnings)
    # Digests of each document's parts, by document id, in order of appearance.
    _ids: dict[str, set[str]] = field(default_factory=dict)
    # The last document of a batch, held back because the next batch may continue it.
    _held_back: list[SourceDocument] = field(default_factory=list)

    def add(
        self,
        documents: Iterable[Document] | AsyncIterable[Document],
        ids: Iterable[str] | None,
        *,
        show_progress: bool,
    ) -> list[str]:
        """Add documents; return their ids without duplicates, in order of appearance."""
        if self.append and self.separate:
            raise ValueError(
                "append=True and separate=True exclude each other: append=True adds parts to "
                "stored documents, separate=True makes every part a document. Set one of them"
            )
        reader = Reader(documents, ids, separate=self.separate)
        has_model = hasattr(self.headers, "llm")
        with (
            progress_bar(None, unit="chunks", title="Indexing", show=show_progress) as advance,
            progress_bar(
                None, unit="answers", title="Headers", show=show_progress and has_model
            ) as answered,
        ):
            self.writer.vectors = replace(self.writer.vectors, advance=advance)
            while not reader.is_at_end:
                self._add_batch(reader, answered)
        self._warnings.warn(self.splitter)
        self._warnings.raise_refused()
        return list(self._ids)

    def _add_batch(self, reader: Reader, answered: Advance) -> None:
        """Read the next documents and add them."""
        parts = reader.next_batch()
        sources = self._join_parts(parts, is_at_end=reader.is_at_end)
        if not sources:
            return
        sources = self._convert_each(_check_id, sources)

        expected: ExpectedVersions | None = None
        if self.append:
            sources, expected = read_stored_parts(self.writer, sources, self.rules)
        documents = self._convert_each(self._split, sources)
        if self.headers is not None and documents:
            documents = run(self.headers.make(documents, self.writer.docstore, answered))
        versions = self._convert_each(self._with_name, documents)
        self._write(versions, expected)

    def _join_parts(
        self, parts: Sequence[SourceDocument], *, is_at_end: bool
    ) -> list[SourceDocument]:
        """Join parts with the same id; hold back the last document, which may continue."""
        sources = self._held_back
        for part in parts:
            text = part.parts[0]
            part_digest = _digest(text)
            digests = self._ids.setdefault(part.doc_id, set())
            is_repeated = part_digest in digests and not self.append
            is_first = not digests
            digests.add(part_digest)
            if is_first:
                sources.append(part)
            elif part.id_origin == "text":
                self._warnings.repeated.append(f"{text.page_content[:_EXCERPT]!r}")
            elif is_repeated:
                self._warnings.repeated.append(repr(part.doc_id))
            elif self.separate and part.id_origin != "source":
                raise ValueError(
                    f"separate=True: two documents have the id {part.doc_id!r}. Give each a unique "
                    "id with ids= or metadata['doc_id']. Earlier documents may already be stored"
                )
            elif sources and sources[-1].doc_id == part.doc_id:
                sources[-1].parts.append(text)
            else:
                raise ValueError(
                    f"the parts of document {part.doc_id!r} are not consecutive. Group the parts "
                    "by document id, or pass a list. Earlier documents may already be stored"
                )
        self._held_back = [] if is_at_end else [sources.pop()]
        return sources

    def _split(self, source: SourceDocument) -> DocumentVersion:
        """Join the parts of a document, and split the text."""
        check_one_document(source, append=self.append)
        document, contained = split_document(source, self.splitter, self.separator, self.rules)
        self._warnings.contained += contained
        if not document.chunks:
            self._warnings.blank.append(repr(source.doc_id))
        return document

    def _with_name(self, document: DocumentVersion) -> DocumentVersion:
        return with_name(document, namespace_of(self.writer.docstore))

    def _write(
        self, versions: Sequence[DocumentVersion], expected: ExpectedVersions | None
    ) -> None:
        try:
            self.writer.write(versions, expected, force=self.force)
        except UnexpectedVersionError as error:
            raise ValueError(
                f"append=True: another call changed document {error.doc_id!r} at the same time, so "
                "no part was added. Call again with the new parts"
            ) from error

    def _convert_each(self, convert: Callable[[S], T], items: Iterable[S]) -> list[T]:
        """Convert items; record and exclude items whose id or metadata cannot be stored."""
        converted: list[T] = []
        for item in items:
            try:
                converted.append(convert(item))
            except MetadataError as error:
                self._warnings.refused.append(str(error))
        return converted


def _digest(part: Document) -> str:
    """Compute a digest of a part's text and metadata, to recognize repeated parts."""
    try:
        fields = encode_json(dict(sorted(part.metadata.items())), "metadata")
    except (MetadataError, TypeError):
        fields = f"refused later: {id(part)}"
    return digest(fields, part.page_content)


def _check_id(source: SourceDocument) -> SourceDocument:
    """Refuse an id that some stores cannot keep; ids are never altered."""
    refused = UNENCODABLE.search(source.doc_id)
    if refused:
        raise MetadataError(
            f"document id {source.doc_id!r} contains {refused.group()!r}, a character that some "
            "stores cannot keep. Set another id with ids= or metadata['doc_id']"
        )
    return source
