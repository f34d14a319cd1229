"""Adding documents: read ahead in batches, split, given headers, written."""

from __future__ import annotations

from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, field
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
    Headers,
    IdOrigin,
    SourceDocument,
    SplitDocument,
    document_version,
    out_of_order,
    split_document,
)
from langchain_rse.ingest.rejoining import WHOLE, LooseChunks, check_one_file, rejoin
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

# Characters that are read ahead and written together; a document counts as 1,000 at least.
_CHARACTERS_AHEAD = 1_000_000
_LEAST_CHARACTERS = 1_000

# Documents named in a warning, and in an error.
_NAMED, _REFUSED_NAMED = 3, 50


@dataclass
class Adding:
    """One call that adds documents, with the settings of `RSEIndexer`."""

    writer: Writer
    splitter: Splitter
    headers: HeaderMaker | None
    separator: str
    rules: Mapping[str, Rule]
    append: bool = False  # to what is stored of the documents
    force: bool = False  # write and embed what has not changed as well
    _stored: dict[str, Version | None] = field(default_factory=dict)  # added to by `append`
    _ids: dict[str, IdOrigin] = field(default_factory=dict)  # in order of appearance
    _refused: list[str] = field(default_factory=list)  # why documents are left out
    # What to warn of.
    _repeated: int = 0
    _loose: LooseChunks = field(default_factory=LooseChunks)
    _rejoined: list[str] = field(default_factory=list)
    _disordered: list[str] = field(default_factory=list)
    _shortened: list[str] = field(default_factory=list)
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
        ask = show_progress and hasattr(self.headers, "llm")
        with (
            self.writer.vectors.progress.shown(show=show_progress),
            progress_bar(None, unit="answers", title="Headers", show=ask) as answered,
        ):
            last: list[SourceDocument] = []
            is_at_end = False
            while not is_at_end:
                sources = self._joined(last, (yield from reader.next_batch()))
                is_at_end = reader.is_at_end
                # The last one may go on in the next batch.
                last = [] if is_at_end else sources[-1:]
                self.writer.vectors.progress.length = 0 if is_at_end else reader.length
                if len(last) < len(sources):
                    yield from self._write(sources[: len(sources) - len(last)], answered)
                del sources  # the next batch is read without this one in memory
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
        """Documents with those of a batch, of which parts may follow one another."""
        for part in batch:
            if part.id_origin == "text":
                self._loose.look_at(part.parts[0])
            if part.doc_id not in self._ids:
                self._ids[part.doc_id] = part.id_origin
                sources.append(part)
            elif part.id_origin == "text":
                self._repeated += 1
            elif sources and sources[-1].doc_id == part.doc_id:
                sources[-1].parts += part.parts
            else:
                raise ValueError(
                    f"the parts of document {part.doc_id!r} do not follow one another: group them "
                    "by id, or pass a list instead of an iterator. What came before has been added"
                )
        return sources

    def _write(self, sources: Sequence[SourceDocument], answered: Advance) -> Steps[None]:
        """Split documents, give them headers, and write them."""
        sources = self._each(_check_id, sources)
        if self.append:
            sources, self._stored = yield from with_stored(self.writer, sources, self.rules)
        drafts = yield from compute(self._each, self._draft, sources)
        too_long = drafts if self.headers else []
        while self.headers and too_long:
            documents = [draft.document for draft in too_long]
            made = yield from self.headers.make(documents, self.writer.docstore, answered)
            for draft, headers in zip(too_long, made, strict=True):
                draft.headers = headers
            too_long = yield from compute(lambda some: list(filter(self._resplit, some)), too_long)
        self._contained += sum(draft.document.contained for draft in drafts)
        namespace = namespace_of(self.writer.docstore)

        def version_of(draft: _Draft) -> DocumentVersion:
            return document_version(draft.document, draft.headers, namespace)

        versions = yield from compute(self._each, version_of, drafts)
        for version in versions:
            self.writer.vectors.progress.expect(len(version.chunks), version.length)
        yield from self.writer.write(versions, self._check, force=self.force)

    def _each(self, make: Callable[[S], T], items: Iterable[S]) -> list[T]:
        """What is made of each item, without those whose id or metadata cannot be kept."""
        made = []
        for item in items:
            try:
                made.append(make(item))
            except MetadataError as error:
                self._refused.append(str(error))
        return made

    def _draft(self, source: SourceDocument) -> _Draft:
        """The document, put together if its parts are chunks, and split."""
        whole = rejoin(source, append=self.append)
        if len(whole.parts) < len(source.parts):
            self._rejoined.append(source.doc_id)
        check_one_file(whole, self.rules)
        if problems := out_of_order([part.metadata for part in whole.parts], self.rules):
            self._disordered.append(f"document {source.doc_id!r}: {', '.join(problems)}")
        return _Draft(whole, self._split(whole, self.splitter))

    def _check(self, written: Iterable[tuple[DocumentVersion, Manifest]]) -> Steps[None]:
        if not self.append:
            yield from refuse_pieces(self.writer, written, self.rules)
            return
        for document, manifest in written:
            # By the name: to write the same again is no change.
            if manifest.current not in (self._stored[document.doc_id], document.version):
                raise ValueError(
                    f"append=True: document {document.doc_id!r} was changed by another call "
                    "meanwhile, and nothing was added to it. Call again with its new parts"
                )

    def _split(self, source: SourceDocument, splitter: Splitter) -> SplitDocument:
        return split_document(source, splitter, self.separator, self.rules)

    def _resplit(self, draft: _Draft) -> bool:
        """Split a document into smaller chunks if one is too long with its header."""
        splitter, document, headers = self.splitter, draft.document, draft.headers
        if headers is None or not isinstance(splitter, TokenSplitter):
            return False
        in_front, reserve = splitter.fit_headers(headers.chunks, document.spans, draft.reserve)
        too_long = reserve > draft.reserve
        if too_long:
            draft.reserve = reserve
            draft.document = self._split(draft.source, splitter.with_reserve(reserve))
        elif in_front != list(headers.chunks):
            draft.headers = headers._replace(chunks=in_front)
            self._shortened.append(document.doc_id)
        return too_long

    def _warn(self) -> None:
        """Warn of what came up, once for all documents."""
        if self._disordered:
            warn(
                f"the parts of {len(self._disordered)} document(s) are not in order: "
                f"{first_few(self._disordered, _NAMED)}. They were joined as they came, and "
                "segments reach across such places. Add each part once and in order, not split "
                "before; give different files ids of their own (ids= or metadata['doc_id'])"
            )
        if self._rejoined:
            warn(
                f"{len(self._rejoined)} document(s) ({first_few(map(repr, self._rejoined), _NAMED)}"
                f") were given as chunks, and were put together again as these tell. Better {WHOLE}"
            )
        if warning := self._loose.warning():
            warn(warning)
        same = [
            f"{doc_id!r} has the same text as {other!r}, which is stored"
            for doc_id, other in self.writer.same_texts.items()
            if self._ids[doc_id] == "source"  # an id that is given is meant
        ]
        if same:
            warn(
                f"{len(same)} document(s) have the text of another one: {first_few(same, _NAMED)}. "
                "If they are one file under several names, delete all but one; an id of its own "
                "(ids= or metadata['doc_id']) keeps each"
            )
        warn_of_contained(self._contained, self.splitter)
        if self._shortened:
            warn(
                f"headers of {len(self._shortened)} document(s) "
                f"({first_few(map(repr, self._shortened), _NAMED)}) have more than half of the "
                "tokens of a chunk, and were cut to that. Name less, or raise tokens_per_chunk"
            )
        if self.writer.vectors.limit is not None:
            self.writer.vectors.limit.warn()
        if self._repeated:
            warn(
                f"{self._repeated} document(s) without an id have the same text as another one and "
                "were added once; give ids= or metadata['doc_id'] to keep each"
            )


@dataclass
class _Draft:
    """A document on its way."""

    source: SourceDocument
    document: SplitDocument
    headers: Headers | None = None
    reserve: int = 0  # tokens that its chunks leave free for headers


class _Reader:
    """Reads documents in batches, a sequence sorted by their ids, an iterator one batch ahead."""

    def __init__(
        self, documents: Iterable[Document] | AsyncIterable[Document], ids: Iterable[str] | None
    ) -> None:
        if isinstance(ids, str):
            raise TypeError(f"ids must be a list of ids, not one string; use [{ids!r}]")
        self.is_at_end = False
        self.length: int | None = None  # characters of all documents; None if unknown
        self._ids: Iterator[object] | None = None if ids is None else iter(ids)
        self._sources: Iterator[SourceDocument] | AsyncIterator[SourceDocument] = (
            self._aread(documents)
            if isinstance(documents, AsyncIterable)
            else self._read(documents)
        )
        self._room = 0

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

    def next_batch(self) -> Steps[list[SourceDocument]]:
        """Read some documents, in another thread or by awaiting them if the caller is async."""
        return call(self._next, self._anext)

    def _next(self) -> list[SourceDocument]:
        if isinstance(self._sources, AsyncIterator):
            raise TypeError("documents is an async iterator; use aadd_documents")
        batch: list[SourceDocument] = []
        self.is_at_end = not any(self._fills(batch, source) for source in self._sources)
        return batch

    async def _anext(self) -> list[SourceDocument]:
        if isinstance(self._sources, Iterator):
            return await run_in_executor(None, self._next)
        batch: list[SourceDocument] = []
        async for source in self._sources:
            if self._fills(batch, source):
                return batch
        self.is_at_end = True
        return batch

    def _fills(self, batch: list[SourceDocument], source: SourceDocument) -> bool:
        """Add a document to a batch; return True if the batch is full."""
        self._room = self._room if batch else _CHARACTERS_AHEAD
        batch.append(source)
        self._room -= max(len(source.parts[0].page_content), _LEAST_CHARACTERS)
        return self._room <= 0

    def _check_all_ids_used(self) -> None:
        if self._ids is not None and any(True for _ in self._ids):
            raise ValueError(
                "ids must have one id for each document; there are more ids than documents"
            )

    def _identified(self, document: Document) -> SourceDocument:
        given = None if self._ids is None else next(self._ids, None)
        if self._ids is not None and not (isinstance(given, str) and given):
            raise ValueError(
                f"ids must have one id for each document, a string that is not empty; got {given!r}"
            )
        return identified(document, given)


def identified(document: Document, given: object = None) -> SourceDocument:
    """The document with its id, which is ``given`` if that is not None."""
    if not isinstance(document, Document):
        raise TypeError(f"documents must be a list of Documents; got {document!r:.200} in it")
    metadata = document.metadata
    known: list[tuple[IdOrigin, object]] = [
        ("ids", given),
        ("metadata", metadata.get(DOC_ID)),
        ("metadata", document.id),
        ("source", metadata.get("source")),
    ]
    for origin, doc_id in known:
        if doc_id is not None and doc_id != "":
            return SourceDocument(str(doc_id), [document], origin)
    return SourceDocument(digest(document.page_content), [document], "text")


def _check_id(source: SourceDocument) -> SourceDocument:
    # Other texts can be changed for the vector store; an id has to stay what it is.
    if found := UNENCODABLE.search(source.doc_id):
        raise MetadataError(
            f"the document id {source.doc_id!r} has the character {found.group()!r}, which not "
            "every store can keep; give the document another one with ids= or metadata['doc_id']"
        )
    return source
