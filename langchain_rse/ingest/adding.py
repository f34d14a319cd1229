"""Adds documents: reads them ahead in batches, splits them, makes headers, writes them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from langchain_core.documents import Document
from langchain_core.runnables import run_in_executor

from langchain_rse._messages import first_few, warn
from langchain_rse._progress import Advance, progress_bar
from langchain_rse._sync import Steps, call, compute
from langchain_rse.errors import MetadataError
from langchain_rse.ingest.appending import refuse_pieces, with_stored
from langchain_rse.ingest.documents import (
    HeaderMaker,
    IdOrigin,
    SourceDocument,
    out_of_order,
    split_document,
    with_name,
)
from langchain_rse.ingest.loose_chunks import LooseChunks
from langchain_rse.ingest.rejoining import WHOLE, check_one_file, rejoin
from langchain_rse.ingest.splitting import Splitter, warn_of_contained
from langchain_rse.ingest.tokens import TokenSplitter
from langchain_rse.ingest.writing import Writer
from langchain_rse.stores.namespaces import namespace_of
from langchain_rse.stores.records import (
    DOC_ID,
    UNENCODABLE,
    DocumentVersion,
    Manifest,
    Rule,
    Version,
    digest,
)

S = TypeVar("S")
T = TypeVar("T")

# Characters that are read ahead and written together; each document counts at least 1,000.
_CHARACTERS_AHEAD = 1_000_000
_LEAST_CHARACTERS = 1_000

# Documents named in a warning, and in an error; characters of a text that are quoted.
_NAMED, _REFUSED_NAMED = 3, 50
_EXCERPT = 40

# Warnings about documents: how many there are, and the first few.
_DISORDERED = (
    "the parts of {} document(s) are not in order: {}. They were joined as they came, and segments "
    "reach across such places. Add each part once, in order and not split; give different "
    "files ids of their own (ids= or metadata['doc_id'])"
)
_REJOINED = (
    "{} document(s) ({}) were given as chunks, and were put together again by start_index or "
    f"overlap. Instead, {WHOLE}"
)
_SAME_TEXT = (
    "{} document(s) have the text of another one: {}. If they are one file under several names, "
    "delete all but one; to keep each, give ids= or metadata['doc_id']"
)
_SHORTENED = (
    "headers of {} document(s) ({}) have more than half of the tokens of a chunk, and were cut to "
    "half. Name fewer fields in the template, or raise tokens_per_chunk"
)
_REPEATED = (
    "{} document(s) without an id have the same text as another one and were added once ({}); give "
    "ids= or metadata['doc_id'] to keep each"
)


@dataclass
class Adding:
    """One call that adds documents, with the settings of `RSEIndexer`."""

    writer: Writer
    splitter: Splitter
    headers: HeaderMaker | None
    separator: str
    rules: Mapping[str, Rule]
    append: bool = False  # to the end of the stored documents
    force: bool = False  # write and embed unchanged documents as well
    _stored: dict[str, Version | None] = field(default_factory=dict)  # versions to append to
    _ids: dict[str, IdOrigin] = field(default_factory=dict)  # in order of appearance
    _refused: list[str] = field(default_factory=list)  # why documents are left out
    # Documents to warn of, by the message.
    _noted: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    _loose: LooseChunks = field(default_factory=LooseChunks)
    _contained: int = 0

    def add(
        self,
        documents: Iterable[Document] | AsyncIterable[Document],
        ids: Iterable[str] | None,
        *,
        show_progress: bool,
    ) -> Steps[list[str]]:
        """Add documents; return their ids, each once, in order of appearance."""
        reader = _Reader(documents, ids)
        progress = self.writer.vectors.progress
        ask = show_progress and hasattr(self.headers, "llm")
        with (
            progress.shown(show=show_progress),
            progress_bar(None, unit="answers", title="Headers", show=ask) as answered,
        ):
            last: list[SourceDocument] = []
            is_at_end = False
            while not is_at_end:
                batch, is_at_end = yield from reader.next_batch()
                sources = self._joined(last, batch)
                # The last document may have more parts in the next batch.
                last = [] if is_at_end else [sources.pop()]
                progress.length = 0 if is_at_end else reader.length
                if sources:
                    yield from self._write(sources, answered)
                del batch, sources  # the next batch is read without this one in memory
        self._warn()
        if self._refused:
            raise MetadataError(
                f"{len(self._refused)} document(s) were not added, as their id or metadata cannot "
                f"be kept; all others are added. {first_few(self._refused, _REFUSED_NAMED)}"
            )
        return list(self._ids)

    def _joined(
        self, sources: list[SourceDocument], batch: Iterable[SourceDocument]
    ) -> list[SourceDocument]:
        """Join the parts of a batch to documents, the first ones to the last document before."""
        for part in batch:
            if part.id_origin == "text":
                self._loose.look_at(part.parts[0])
            if part.doc_id not in self._ids:
                self._ids[part.doc_id] = part.id_origin
                sources.append(part)
            elif part.id_origin == "text":
                self._noted[_REPEATED].append(f"{part.parts[0].page_content[:_EXCERPT]!r}")
            elif sources and sources[-1].doc_id == part.doc_id:
                sources[-1].parts += part.parts
            else:
                raise ValueError(
                    f"the parts of document {part.doc_id!r} do not follow one another: group them "
                    "by id, or pass a list. Documents before it may have been added already"
                )
        return sources

    def _write(self, sources: Sequence[SourceDocument], answered: Advance) -> Steps[None]:
        """Split documents, give them headers, and write them."""
        sources = self._each(_check_id, sources)
        if self.append:
            sources, self._stored = yield from with_stored(self.writer, sources, self.rules)
        drafts = yield from compute(self._each, self._draft, sources)
        left = drafts if self.headers else []
        while self.headers and left:
            documents = [draft.document for draft in left]
            made = yield from self.headers.make(documents, self.writer.docstore, answered)
            left = yield from compute(self._fit_headers, left, made)
        name = partial(with_name, namespace=namespace_of(self.writer.docstore))
        versions = yield from compute(self._each, name, [draft.document for draft in drafts])
        for version in versions:
            self.writer.vectors.progress.expect(len(version.chunks), version.length)
        yield from self.writer.write(versions, self._check, force=self.force)

    def _each(self, make: Callable[[S], T], items: Iterable[S]) -> list[T]:
        """Convert each item; note and leave out those whose id or metadata cannot be stored."""
        made = []
        for item in items:
            try:
                made.append(make(item))
            except MetadataError as error:
                self._refused.append(str(error))
        return made

    def _draft(self, source: SourceDocument) -> _Draft:
        """Join the parts of a document, also if they are chunks, and split it."""
        whole = rejoin(source, append=self.append)
        if len(whole.parts) < len(source.parts):
            self._noted[_REJOINED].append(repr(source.doc_id))
        check_one_file(whole, self.rules)
        if problems := out_of_order([part.metadata for part in whole.parts], self.rules):
            self._noted[_DISORDERED].append(f"document {source.doc_id!r}: {', '.join(problems)}")
        document, contained = self._split(whole, self.splitter)
        self._contained += contained
        return _Draft(whole, document)

    def _split(self, source: SourceDocument, splitter: Splitter) -> tuple[DocumentVersion, int]:
        return split_document(source, splitter, self.separator, self.rules)

    def _fit_headers(
        self, drafts: Sequence[_Draft], made: Sequence[DocumentVersion]
    ) -> list[_Draft]:
        """Put documents with headers into drafts; return the drafts split again to leave room."""
        too_long = []
        for draft, document in zip(drafts, made, strict=True):
            draft.document = document
            if isinstance(self.splitter, TokenSplitter):
                chunks, reserve = self.splitter.fit_headers(document.chunks, draft.reserve)
                draft.document = replace(document, chunks=chunks)
                if reserve > draft.reserve:
                    draft.reserve = reserve
                    smaller = self.splitter.with_reserve(reserve)
                    draft.document, _ = self._split(draft.source, smaller)
                    too_long.append(draft)
                elif chunks != document.chunks:
                    self._noted[_SHORTENED].append(repr(document.doc_id))
        return too_long

    def _check(self, written: Iterable[tuple[DocumentVersion, Manifest]]) -> Steps[None]:
        if not self.append:
            yield from refuse_pieces(self.writer, written, self.rules)
            return
        for document, manifest in written:
            # Versions have names by content: writing the same document again is no change.
            if manifest.current not in (self._stored[document.doc_id], document.version):
                raise ValueError(
                    f"append=True: document {document.doc_id!r} was changed by another call "
                    "meanwhile, and nothing was added to it. Call again with its new parts"
                )

    def _warn(self) -> None:
        """Give each warning once for all documents."""
        self._noted[_SAME_TEXT] = [
            f"{doc_id!r} has the same text as {other!r}, which is stored"
            for doc_id, other in self.writer.same_texts.items()
            if self._ids[doc_id] == "source"  # ids that are given are meant to differ
        ]
        for message, documents in self._noted.items():
            if documents:
                warn(message.format(len(documents), first_few(documents, _NAMED)))
        if warning := self._loose.warning():
            warn(warning)
        warn_of_contained(self._contained, self.splitter)
        if self.writer.vectors.limit is not None:
            self.writer.vectors.limit.warn()


@dataclass
class _Draft:
    """A document between reading and writing."""

    source: SourceDocument
    document: DocumentVersion
    reserve: int = 0  # tokens that its chunks leave free for headers


class _Reader:
    """Reads documents in batches: a sequence grouped by ids, an iterator as it comes."""

    def __init__(
        self, documents: Iterable[Document] | AsyncIterable[Document], ids: Iterable[str] | None
    ) -> None:
        if isinstance(ids, str):
            raise TypeError(f"ids must be a list of ids, not one string; use [{ids!r}]")
        self.length: int | None = None  # characters of all documents; None if unknown
        self._ids = None if ids is None else iter(ids)
        self._room = _CHARACTERS_AHEAD
        self._sources = (
            self._aread(documents)
            if isinstance(documents, AsyncIterable)
            else self._read(documents)
        )

    def _read(self, documents: Iterable[Document]) -> Iterator[SourceDocument]:
        sources: Iterable[SourceDocument] = map(self._identified, documents)
        if isinstance(documents, Sequence):
            order: dict[str, int] = {}
            sources = sorted(sources, key=lambda one: order.setdefault(one.doc_id, len(order)))
            self.length = sum(len(source.parts[0].page_content) for source in sources)
            self._check_all_ids_used()
        yield from sources
        self._check_all_ids_used()

    async def _aread(self, documents: AsyncIterable[Document]) -> AsyncIterator[SourceDocument]:
        async for document in documents:
            yield self._identified(document)
        self._check_all_ids_used()

    def next_batch(self) -> Steps[tuple[list[SourceDocument], bool]]:
        """Read some documents; async code reads in a thread or awaits them.

        Returns them, and True with the last ones.
        """
        return call(self._next, self._anext)

    def _next(self) -> tuple[list[SourceDocument], bool]:
        if isinstance(self._sources, AsyncIterator):
            raise TypeError("documents is an async iterator; use aadd_documents")
        batch: list[SourceDocument] = []
        return batch, not any(self._fills(batch, source) for source in self._sources)

    async def _anext(self) -> tuple[list[SourceDocument], bool]:
        if isinstance(self._sources, Iterator):
            return await run_in_executor(None, self._next)
        batch: list[SourceDocument] = []
        async for source in self._sources:
            if self._fills(batch, source):
                return batch, False
        return batch, True

    def _fills(self, batch: list[SourceDocument], source: SourceDocument) -> bool:
        """Add a document to a batch; return True if the batch is full."""
        self._room = self._room if batch else _CHARACTERS_AHEAD
        batch.append(source)
        self._room -= max(len(source.parts[0].page_content), _LEAST_CHARACTERS)
        return self._room <= 0

    def _check_all_ids_used(self) -> None:
        if self._ids is not None and any(True for _ in self._ids):
            raise ValueError("ids must have one id for each document; got more ids than documents")

    def _identified(self, document: Document) -> SourceDocument:
        given = self._ids and next(self._ids, None)
        if self._ids is not None and not (isinstance(given, str) and given):
            raise ValueError(
                f"ids must have one id for each document, a string that is not empty; got {given!r}"
            )
        return identified(document, given)


def identified(document: Document, given: object = None) -> SourceDocument:
    """Give a document its id: ``given``, or by its metadata, or a digest of its text."""
    if not isinstance(document, Document):
        raise TypeError(f"documents must be a list of Documents; got {document!r:.200} in it")
    doc_id, source = document.metadata.get(DOC_ID), document.metadata.get("source")
    known: list[tuple[IdOrigin, object]] = [("ids", given), ("metadata", doc_id)]
    known += [("metadata", document.id), ("source", source)]
    for origin, name in known:
        if name is not None and name != "":
            return SourceDocument(str(name), [document], origin)
    return SourceDocument(digest(document.page_content), [document], "text")


def _check_id(source: SourceDocument) -> SourceDocument:
    # Other strings can be changed for the vector store; an id must stay as it is.
    if found := UNENCODABLE.search(source.doc_id):
        raise MetadataError(
            f"the document id {source.doc_id!r} has the character {found.group()!r}, which not "
            "every store can keep; give the document another id with ids= or metadata['doc_id']"
        )
    return source
