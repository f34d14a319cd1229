"""Adds documents in batches: reads, splits, adds headers, and hands them to the `Writer`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from langchain_core.documents import Document

from langchain_rse._messages import warn
from langchain_rse._progress import Advance, progress_bar
from langchain_rse._sync import run
from langchain_rse.errors import MetadataError
from langchain_rse.ingest.appending import read_stored_parts
from langchain_rse.ingest.source_documents import (
    HeaderMaker,
    SourceDocument,
    split_document,
    with_name,
)
from langchain_rse.ingest.sources import Reader, check_one_document
from langchain_rse.ingest.splitting import Splitter
from langchain_rse.ingest.writing import ExpectedVersions, Writer
from langchain_rse.stores.compare_and_set import namespace_of
from langchain_rse.stores.records import DocumentVersion, Rule
from langchain_rse.text.quoting import UNENCODABLE, first_few

S = TypeVar("S")
T = TypeVar("T")

# Documents named in a warning and in an error, at most.
_NAMED = 3
_REFUSED_NAMED = 50


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
    # Documents without text.
    _blank: list[str] = field(default_factory=list)
    # Reasons why documents were not stored: their id or metadata is unsupported.
    _refused: list[str] = field(default_factory=list)

    def add(
        self,
        documents: Iterable[Document],
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
        reader = Reader(documents, ids, separate=self.separate, append=self.append)
        has_model = hasattr(self.headers, "llm")
        with (
            progress_bar(None, unit="chunks", title="Indexing", show=show_progress) as advance,
            progress_bar(
                None, unit="answers", title="Headers", show=show_progress and has_model
            ) as answered,
        ):
            self.writer.vectors = replace(self.writer.vectors, advance=advance)
            for sources in reader.batches():
                self._add_batch(sources, answered)
        self._warn(reader.repeated)
        if self._refused:
            raise MetadataError(
                f"{len(self._refused)} document(s) were not added, because their id or metadata "
                "cannot be stored. All others were added. "
                f"{first_few(self._refused, _REFUSED_NAMED)}"
            )
        return list(reader.digests)

    def _warn(self, repeated: Sequence[str]) -> None:
        """Warn once for all documents."""
        if repeated:
            warn(
                f"{len(repeated)} document(s) had the same text as an earlier one and were stored "
                f"only once ({first_few(repeated, _NAMED)}). To keep each, set ids= or "
                "metadata['doc_id']"
            )
        if self._blank:
            warn(
                f"{len(self._blank)} document(s) have no text ({first_few(self._blank, _NAMED)}). "
                "They are listed, but no query can find them. A scanned PDF needs OCR first"
            )

    def _add_batch(self, batch: Iterable[SourceDocument], answered: Advance) -> None:
        """Add documents."""
        sources = self._convert_each(_check_id, batch)
        expected: ExpectedVersions | None = None
        if self.append:
            sources, expected = read_stored_parts(self.writer, sources, self.rules)
        documents = self._convert_each(self._split, sources)
        if self.headers is not None and documents:
            documents = run(self.headers.make(documents, self.writer.docstore, answered))
        name = partial(with_name, namespace=namespace_of(self.writer.docstore))
        versions = self._convert_each(name, documents)
        if versions:
            self.writer.write(versions, expected, force=self.force)

    def _split(self, source: SourceDocument) -> DocumentVersion:
        """Join the parts of a document, and split the text."""
        check_one_document(source, append=self.append)
        document = split_document(source, self.splitter, self.separator, self.rules)
        if not document.chunks:
            self._blank.append(repr(source.doc_id))
        return document

    def _convert_each(self, convert: Callable[[S], T], items: Iterable[S]) -> list[T]:
        """Convert items; record and exclude items whose id or metadata cannot be stored."""
        converted: list[T] = []
        for item in items:
            try:
                converted.append(convert(item))
            except MetadataError as error:
                self._refused.append(str(error))
        return converted


def _check_id(source: SourceDocument) -> SourceDocument:
    """Refuse an id that some stores cannot keep; ids are never altered."""
    refused = UNENCODABLE.search(source.doc_id)
    if refused:
        raise MetadataError(
            f"document id {source.doc_id!r} contains {refused.group()!r}, a character that some "
            "stores cannot keep. Set another id with ids= or metadata['doc_id']"
        )
    return source
