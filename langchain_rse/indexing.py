"""Writing documents into the two stores, so that they never disagree."""

from __future__ import annotations

import bisect
import itertools
import logging
import os
import warnings
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from langchain_core.documents import Document
from langchain_core.stores import BaseStore
from langchain_core.vectorstores import VectorStore
from langchain_text_splitters import RecursiveCharacterTextSplitter

from langchain_rse._progress import progress_bar
from langchain_rse._steps import Call, Steps, arun, call, compute, during, run
from langchain_rse.docstores import as_docstore, encode_json
from langchain_rse.schema import (
    CHUNK_ID,
    CHUNK_INDEX,
    DOC_ID,
    END_INDEX,
    FIRST,
    LAST,
    SPANS_PER_PAGE,
    START_INDEX,
    Manifest,
    Version,
    chunk_key,
    chunk_metadata,
    digest,
    document_key,
    manifest_key,
    spans_key,
)
from langchain_rse.splitting import Span, Splitter, SplittingError, split_spans

__all__ = ["RSEIndexer", "default_text_splitter"]

logger = logging.getLogger(__name__)

T = TypeVar("T")

# Documents are read ahead up to these, then written together.
_CHARACTERS_AHEAD = 1_000_000
_DOCUMENTS_AHEAD = 1_000

# Part of every version: raised when the same text would be stored in another way.
_FORMAT = "1"

_END = object()


def default_text_splitter() -> RecursiveCharacterTextSplitter:
    """The splitter that is used when none is given: 800 characters, no overlap."""
    return RecursiveCharacterTextSplitter(chunk_size=800, chunk_overlap=0)


class RSEIndexer:
    """Adds, replaces and deletes documents in a vector store and a docstore.

    A document is known by its id. Adding one whose text, chunks and metadata are those
    already stored does nothing; otherwise it replaces the stored one. Queries see either
    the old version or the new one, never a mixture, and a call that was cut off anywhere is
    completed by calling again.

    What is written for a document: a manifest that announces the version, its chunks and
    their spans to the docstore, its vectors, the manifest that makes the version current;
    then the former version is removed.

    The vector store gets those metadata values that every store takes (strings, numbers,
    booleans); the docstore gets all of them.

    Args:
        vectorstore: Where the chunks are embedded. It has to keep the ids it is given and
            to delete by id.
        docstore: Where the chunks' texts stand: a store of Documents or of bytes.
        text_splitter: Any LangChain ``TextSplitter`` that keeps the text;
            `default_text_splitter` if None.
        batch_size: Chunks in one call of a store or of the embedding model, at least 1.
        document_separator: What stands between the parts of one document, such as the
            pages of a PDF.

    Raises:
        ValueError: If ``batch_size`` is below 1.
        TypeError: If one of the stores is not a LangChain store.
    """

    def __init__(
        self,
        vectorstore: VectorStore,
        docstore: BaseStore[str, Document] | BaseStore[str, bytes],
        *,
        text_splitter: Splitter | None = None,
        batch_size: int = 500,
        document_separator: str = "\n\n",
    ) -> None:
        if not isinstance(vectorstore, VectorStore):
            raise TypeError(
                f"vectorstore must be a LangChain VectorStore; got {type(vectorstore).__name__}"
            )
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1; got {batch_size!r}")
        self.vectorstore = vectorstore
        self.docstore = as_docstore(docstore)
        self.text_splitter = text_splitter or default_text_splitter()
        self.batch_size = batch_size
        self.document_separator = document_separator

    def add_documents(
        self,
        documents: Iterable[Document],
        *,
        ids: Iterable[str] | None = None,
        show_progress: bool = False,
    ) -> list[str]:
        """Add documents; those whose id is known are replaced if they differ.

        LangChain Documents with the same id are the parts of one document and are joined
        in their order. A document's id is the one in ``ids``, else the metadata ``doc_id``,
        else ``Document.id``, else the metadata ``source``, else a digest of the text.

        An iterator is read piece by piece and never held whole; the parts of a document
        must then follow one another. In a list they may stand anywhere.

        Args:
            documents: The documents.
            ids: One id for each of ``documents``.
            show_progress: Show a progress bar; needs tqdm.

        Returns:
            The ids of the documents, each once, in order of appearance.

        Raises:
            ValueError: If there are not as many ``ids`` as documents, an id is empty, or the
                parts of a document are scattered over an iterator.
            SplittingError: If the splitter changes the text.
            TypeError: If metadata has a value that cannot be kept.
            CorruptRecordError: If the docstore's record of a document cannot be read.
        """
        return run(self._add(_Feed(documents, ids), show_progress=show_progress))

    async def aadd_documents(
        self,
        documents: Iterable[Document] | AsyncIterable[Document],
        *,
        ids: Iterable[str] | None = None,
        show_progress: bool = False,
    ) -> list[str]:
        """Like `add_documents`, async; takes async iterators as well."""
        return await arun(self._add(_Feed(documents, ids), show_progress=show_progress))

    def delete(self, ids: Sequence[str]) -> list[str]:
        """Delete documents from both stores, the vectors first.

        Args:
            ids: Ids of documents. Those that are not stored are passed over.

        Returns:
            The ids of the documents that were deleted.

        Raises:
            TypeError: If ``ids`` is a single string.
            CorruptRecordError: If the docstore's record of a document cannot be read.
        """
        return run(self._delete(ids))

    async def adelete(self, ids: Sequence[str]) -> list[str]:
        """Like `delete`, async."""
        return await arun(self._delete(ids))

    # Reading ahead

    def _add(self, feed: _Feed, *, show_progress: bool) -> Steps[list[str]]:
        seen: dict[str, None] = {}
        ahead: list[_Source] = []
        characters = repeated = 0
        with progress_bar(
            feed.total, unit="documents", title="Indexing", show=show_progress
        ) as advance:
            while (source := (yield from feed.next())) is not None:
                if source.doc_id in seen:
                    if source.id_from_text:
                        repeated += 1
                        advance(1)
                        continue
                    last = ahead[-1] if ahead else None
                    if last is None or last.doc_id != source.doc_id:
                        raise ValueError(
                            f"the parts of document {source.doc_id!r} do not follow one another: "
                            "group the documents by their id, or pass a list instead of an "
                            "iterator. What came before has been added"
                        )
                    last.parts += source.parts
                else:
                    # Only a new id shows that the parts before it are complete.
                    if characters >= _CHARACTERS_AHEAD or len(ahead) >= _DOCUMENTS_AHEAD:
                        yield from self._add_batch(ahead)
                        advance(sum(len(source.parts) for source in ahead))
                        ahead, characters = [], 0
                    seen[source.doc_id] = None
                    ahead.append(source)
                characters += len(source.parts[0].page_content)
            if ahead:
                yield from self._add_batch(ahead)
                advance(sum(len(source.parts) for source in ahead))
        if repeated:
            warnings.warn(
                f"{repeated} document(s) without an id have the same text as another one and were "
                "added once; give ids= or metadata['doc_id'] to keep each",
                stacklevel=2,
            )
        return list(seen)

    def _add_batch(self, sources: Sequence[_Source]) -> Steps[None]:
        prepared = yield from compute(lambda: [self._prepare(source) for source in sources])
        yield from self._write(prepared)

    def _prepare(self, source: _Source) -> _Prepared:
        parts = source.parts
        text = self.document_separator.join(part.page_content for part in parts)
        shared, changing = _split_metadata(source)
        if text.strip():
            try:
                with during(f"splitting document {source.doc_id!r}"):
                    spans = split_spans(text, self.text_splitter)
            except SplittingError as error:
                raise SplittingError(f"document {source.doc_id!r}: {error}") from error
        else:
            spans = []
            logger.warning(
                "document %r has no text (%d characters, all white space): it is recorded, but "
                "no query can find it. A scanned PDF needs OCR first",
                source.doc_id,
                len(text),
            )
        part_starts = [0]
        for part in parts[:-1]:
            length = len(part.page_content) + len(self.document_separator)
            part_starts.append(part_starts[-1] + length)
        name = digest(
            _FORMAT,
            text,
            ",".join(str(span.start) for span in spans),
            *(span.embedded_text for span in spans),
            encode_json([shared, changing, part_starts], f"metadata of document {source.doc_id!r}"),
        )
        return _Prepared(
            doc_id=source.doc_id,
            key=document_key(source.doc_id),
            version=Version(name, len(spans)),
            text=text,
            spans=spans,
            metadata=shared,
            part_starts=part_starts,
            part_metadata=changing,
        )

    # Writing

    def _write(self, documents: Sequence[_Prepared]) -> Steps[None]:
        stored = yield from self._manifests([document.key for document in documents])
        new: list[_Prepared] = []
        announced: list[Manifest] = []
        unfinished: list[Manifest] = []
        begun: list[Iterable[str]] = []
        for document, manifest in zip(documents, stored, strict=True):
            known = Manifest(document.doc_id) if manifest is None else manifest
            if known.current == document.version:
                if known.leftovers:
                    unfinished.append(known)
                continue
            if document.version in known.leftovers:
                begun.append(document.version.vector_ids(document.key))
            others = known.without([document.version])
            announced.append(replace(others, leftovers=(*others.leftovers, document.version)))
            new.append(document)
        # Given ids that it has, FAISS breaks, and LanceDB keeps both: queries see one of them,
        # but count both as candidates.
        yield from self._delete_vectors(itertools.chain.from_iterable(begun), to_add=True)
        if new:
            yield from self._set_manifests(announced)
            yield from self._set_records(
                itertools.chain.from_iterable(document.records() for document in new)
            )
            yield from self._add_vectors(
                itertools.chain.from_iterable(document.vectors() for document in new)
            )
            current = [
                Manifest(
                    doc_id=document.doc_id,
                    current=document.version,
                    leftovers=manifest.without([document.version]).versions,
                    length=len(document.text),
                    metadata=document.metadata,
                )
                for document, manifest in zip(new, announced, strict=True)
            ]
            yield from self._set_manifests(current)
            unfinished += [manifest for manifest in current if manifest.leftovers]
        if unfinished:
            yield from self._remove_leftovers(unfinished)
            yield from self._set_manifests(
                [replace(manifest, leftovers=()) for manifest in unfinished]
            )

    def _delete(self, ids: Sequence[str]) -> Steps[list[str]]:
        if isinstance(ids, str):
            raise TypeError(f"ids must be a list of ids, not one string; use [{ids!r}]")
        wanted = list(dict.fromkeys(ids))
        found = yield from self._manifests([document_key(doc_id) for doc_id in wanted])
        # Without a current version no query sees the document any more, and adding it
        # again after a crash does not take it for complete.
        doomed = [
            replace(manifest, current=None, leftovers=tuple(manifest.versions))
            for manifest in found
            if manifest is not None
        ]
        if doomed:
            yield from self._set_manifests(doomed)
            yield from self._remove_leftovers(doomed)
            with during("deleting manifests from the docstore"):
                for some in _batches((manifest_key(m.key) for m in doomed), self.batch_size):
                    yield from call(self.docstore.mdelete, self.docstore.amdelete, some)
        return [manifest.doc_id for manifest in doomed]

    def _manifests(self, keys: Sequence[str]) -> Steps[list[Manifest | None]]:
        manifests: list[Manifest | None] = []
        with during("reading manifests from the docstore"):
            for some in _batches((manifest_key(key) for key in keys), self.batch_size):
                records = yield from call(self.docstore.mget, self.docstore.amget, some)
                manifests += [
                    None if record is None else Manifest.from_document(record, key)
                    for key, record in zip(some, records, strict=True)
                ]
        return manifests

    def _set_manifests(self, manifests: Iterable[Manifest]) -> Steps[None]:
        yield from self._set_records(
            (manifest_key(manifest.key), manifest.to_document()) for manifest in manifests
        )

    def _set_records(self, records: Iterable[tuple[str, Document]]) -> Steps[None]:
        with during("writing to the docstore"):
            for some in _batches(records, self.batch_size):
                yield from call(self.docstore.mset, self.docstore.amset, some)

    def _add_vectors(self, vectors: Iterable[Document]) -> Steps[None]:
        store = self.vectorstore
        with during(f"adding vectors to {type(store).__name__}"):
            for some in _batches(vectors, self.batch_size):
                ids = [str(document.id) for document in some]
                kept = yield from call(store.add_documents, store.aadd_documents, some, ids=ids)
                if kept and list(kept) != ids:  # some return nothing at all
                    raise ValueError(
                        f"{type(store).__name__} did not keep the ids it was given, so its vectors "
                        "could never be replaced or deleted; use a store that does"
                    )

    def _delete_vectors(self, vectors: Iterable[str], *, to_add: bool = False) -> Steps[None]:
        """Delete those of the vectors that are there: after a crash, it may be some of them.

        Args:
            vectors: Their ids.
            to_add: They will be added next, so those that could not be deleted do no harm.
        """
        store = self.vectorstore
        with during(f"deleting vectors from {type(store).__name__}"):
            for some in _batches(vectors, self.batch_size):
                try:
                    yield from self._delete_all(some)
                except (AttributeError, LookupError, RuntimeError, ValueError):
                    # FAISS deletes nothing if one is not there; LanceDB and Milvus fail before
                    # anything was added.
                    there = yield from self._existing(some)
                    if there is None and to_add:
                        continue
                    if there is None or len(there) == len(some):
                        raise
                    if there:
                        yield from self._delete_all(there)

    def _delete_all(self, ids: list[str]) -> Steps[None]:
        store = self.vectorstore
        if (yield from call(store.delete, store.adelete, ids)) is False:
            raise RuntimeError(
                f"{type(store).__name__} could not delete vectors (its log may say why); call "
                "again to delete what is left"
            )

    def _existing(self, ids: list[str]) -> Steps[list[str] | None]:
        """Those of the vectors that are there; None if the store cannot tell."""
        store = self.vectorstore
        try:
            found = yield from call(store.get_by_ids, store.aget_by_ids, ids)
        except NotImplementedError:
            return None
        there = {document.id for document in found}
        return None if None in there else [vector for vector in ids if vector in there]

    def _remove_leftovers(self, manifests: Sequence[Manifest]) -> Steps[None]:
        yield from self._delete_vectors(
            vector
            for manifest in manifests
            for version in manifest.leftovers
            for vector in version.vector_ids(manifest.key)
        )
        with during("deleting chunks from the docstore"):
            records = (
                record
                for manifest in manifests
                for version in manifest.leftovers
                for record in version.docstore_keys(manifest.key)
            )
            for some in _batches(records, self.batch_size):
                yield from call(self.docstore.mdelete, self.docstore.amdelete, some)


@dataclass
class _Source:
    """A document as it comes in: its id and its parts."""

    doc_id: str
    id_from_text: bool
    parts: list[Document]


@dataclass(frozen=True)
class _Prepared:
    """A document ready to be written."""

    doc_id: str
    key: str
    version: Version
    text: str
    spans: Sequence[Span]
    metadata: dict[str, Any]
    part_starts: Sequence[int]
    part_metadata: Sequence[dict[str, Any]]

    def records(self) -> Iterator[tuple[str, Document]]:
        """The docstore's records: chunks, then pages of spans."""
        name = self.version.name
        for index, span in enumerate(self.spans):
            text = self.text[span.start : span.end]
            yield (
                chunk_key(self.key, name, index),
                Document(page_content=text, metadata=self._record_metadata(index, span)),
            )
        for page in range(self.version.pages):
            some = self.spans[page * SPANS_PER_PAGE : (page + 1) * SPANS_PER_PAGE]
            cuts = [*(span.start for span in some), some[-1].end]
            yield (
                spans_key(self.key, name, page),
                Document(page_content="", metadata={"cuts": cuts}),
            )

    def vectors(self) -> Iterator[Document]:
        """What the vector store gets: the embedded text, with simple metadata."""
        for index, span in enumerate(self.spans):
            record = self._record_metadata(index, span)
            metadata = chunk_metadata(self.metadata, record, self.version.name)
            yield Document(
                id=metadata[CHUNK_ID], page_content=span.embedded_text, metadata=metadata
            )

    def _record_metadata(self, index: int, span: Span) -> dict[str, Any]:
        metadata: dict[str, Any] = {
            DOC_ID: self.doc_id,
            CHUNK_INDEX: index,
            START_INDEX: span.start,
            END_INDEX: span.end,
        }
        if self.part_metadata:
            metadata[FIRST] = self._metadata_at(span.start)
            metadata[LAST] = self._metadata_at(span.end - 1)
        return metadata

    def _metadata_at(self, place: int) -> dict[str, Any]:
        return self.part_metadata[bisect.bisect_right(self.part_starts, place) - 1]


class _Feed:
    """The documents one by one, from any iterable, each with its id."""

    def __init__(
        self,
        documents: Iterable[Document] | AsyncIterable[Document],
        ids: Iterable[str] | None,
    ) -> None:
        if isinstance(ids, str):
            raise TypeError(f"ids must be a list of ids, not one string; use [{ids!r}]")
        if isinstance(documents, Document):
            raise TypeError("documents must be a list of Documents, not one; use [document]")
        self.total: int | None = None
        if isinstance(documents, Sequence):
            self.total = len(documents)
            if ids is not None:
                ids = list(ids)
                if len(ids) != self.total:
                    raise ValueError(
                        f"ids must have one id for each document; got {len(ids)} ids for "
                        f"{self.total} documents"
                    )
        self._ids: Iterator[object] | None = None if ids is None else iter(ids)
        self._async_documents: AsyncIterator[Document] | None = None
        self._sources: Iterator[_Source] = iter(())
        if isinstance(documents, AsyncIterable):
            self._async_documents = aiter(documents)
        elif self.total is None:
            self._sources = self._identified(documents)
        else:
            # The parts of a document follow one another, documents as they first appear.
            places: dict[str, int] = {}
            self._sources = iter(
                sorted(
                    self._identified(documents),
                    key=lambda source: places.setdefault(source.doc_id, len(places)),
                )
            )

    def next(self) -> Steps[_Source | None]:
        """The next document; None at the end."""
        source: _Source | None = yield Call(self._next, self._anext)
        return source

    def _next(self) -> _Source | None:
        if self._async_documents is not None:
            raise TypeError("documents is an async iterator; use aadd_documents")
        return next(self._sources, None)

    async def _anext(self) -> _Source | None:
        if self._async_documents is None:
            return next(self._sources, None)
        return self._identify(await anext(self._async_documents, None))

    def _identified(self, documents: Iterable[Document]) -> Iterator[_Source]:
        for document in documents:
            source = self._identify(document)
            if source is not None:
                yield source
        self._identify(None)

    def _identify(self, document: Document | None) -> _Source | None:
        """The document, None at the end, with the id that comes with it."""
        doc_id = None
        if self._ids is not None:
            given = next(self._ids, _END)
            if (document is None) != (given is _END):
                raise ValueError(
                    "ids must have one id for each document; there are "
                    f"{'more' if document is None else 'fewer'} ids than documents"
                )
            doc_id = None if document is None else _checked_id(given)
        return None if document is None else _identify(document, doc_id)


def _checked_id(doc_id: object) -> str:
    if not isinstance(doc_id, str) or not doc_id:
        raise ValueError(f"ids must be strings that are not empty; got {doc_id!r}")
    return doc_id


def _identify(document: Document, doc_id: str | None) -> _Source:
    if not isinstance(document, Document):
        raise TypeError(f"documents must be LangChain Documents; got {type(document).__name__}")
    metadata = document.metadata
    for candidate in (doc_id, metadata.get(DOC_ID), document.id, metadata.get("source")):
        if candidate is None or candidate == "":
            continue
        if isinstance(candidate, os.PathLike):
            candidate = os.fspath(candidate)  # noqa: PLW2901
        return _Source(str(candidate), id_from_text=False, parts=[document])
    return _Source(digest(document.page_content), id_from_text=True, parts=[document])


def _split_metadata(source: _Source) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What all parts agree on; and, part by part, the rest (empty if there is none)."""
    place = f"metadata of document {source.doc_id!r}"
    everything = [
        {name: value for name, value in part.metadata.items() if name != DOC_ID}
        for part in source.parts
    ]
    # Values are compared as they are stored: arrays and the like cannot be compared.
    written = [
        {name: encode_json({name: value}, place) for name, value in metadata.items()}
        for metadata in everything
    ]
    names = dict.fromkeys(name for metadata in everything for name in metadata)
    same = {name for name in names if len({metadata.get(name) for metadata in written}) == 1}
    shared = {name: everything[0][name] for name in names if name in same}
    if len(same) == len(names):
        return shared, []
    return shared, [
        {name: value for name, value in metadata.items() if name not in same}
        for metadata in everything
    ]


def _batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    iterator = iter(items)
    while batch := list(itertools.islice(iterator, size)):
        yield batch
