"""RSEIndexer: documents in, split and written into both stores."""

from __future__ import annotations

import bisect
import logging
import os
import warnings
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from langchain_core.documents import Document
from langchain_core.stores import BaseStore
from langchain_core.vectorstores import VectorStore
from langchain_text_splitters import RecursiveCharacterTextSplitter
from typing_extensions import override

from langchain_rse._progress import progress_bar
from langchain_rse._steps import Call, Steps, arun, compute, during, run
from langchain_rse.adopting import Adoption, ExistingIndex, adopt, list_chunks
from langchain_rse.docstores import as_docstore, encode_json
from langchain_rse.schema import DOC_ID, Version, digest
from langchain_rse.splitting import Splitter, SplittingError, split_spans
from langchain_rse.writing import Changing, Prepared, Writer, split_metadata

__all__ = ["RSEIndexer", "default_text_splitter"]

logger = logging.getLogger(__name__)

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
        self._writer = Writer(self.vectorstore, self.docstore, batch_size)

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
        return run(self._writer.delete(ids))

    async def adelete(self, ids: Sequence[str]) -> list[str]:
        """Like `delete`, async."""
        return await arun(self._writer.delete(ids))

    def adopt(
        self,
        index: ExistingIndex,
        *,
        documents: Iterable[Document] | None = None,
        show_progress: bool = False,
    ) -> Adoption:
        """Bring in an index that the vector store holds already, without embedding anything.

        The vector store is read out page by page and not written to. The docstore gets the
        documents, put together from their chunks, and a record for each vector. Calling again
        brings in what has been added or changed since.

        An adopted document can be deleted, or replaced by adding it: its vectors then go.

        Args:
            index: What the metadata of the store's chunks says.
            documents: The store's chunks with their ids, as it lists them, for stores that are
                not known here. Known are Chroma, FAISS, InMemoryVectorStore, PGVector and
                QdrantVectorStore.
            show_progress: Show progress bars; needs tqdm.

        Returns:
            What was adopted, and what came up: overlap, gaps, duplicates.

        Raises:
            AdoptionError: If chunks cannot be put together, unless
                ``index.on_error="skip"``.
            TypeError: If the store is not known and ``documents`` is not given.
            ValueError: If ``index.in_store_order`` is set and the store has no order.
            CorruptRecordError: If the docstore's record of a document cannot be read.
        """
        return run(self._adopt(index, documents, show_progress=show_progress))

    async def aadopt(
        self,
        index: ExistingIndex,
        *,
        documents: Iterable[Document] | None = None,
        show_progress: bool = False,
    ) -> Adoption:
        """Like `adopt`, async."""
        return await arun(self._adopt(index, documents, show_progress=show_progress))

    def _adopt(
        self, index: ExistingIndex, documents: Iterable[Document] | None, *, show_progress: bool
    ) -> Steps[Adoption]:
        listing = list_chunks(self.vectorstore, documents, self.batch_size)
        return adopt(self._writer, listing, index, show_progress=show_progress)

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
        yield from self._writer.write(prepared)

    def _prepare(self, source: _Source) -> _SplitDocument:
        parts = source.parts
        text = self.document_separator.join(part.page_content for part in parts)
        metadata = f"metadata of document {source.doc_id!r}"
        shared, changing = split_metadata(
            [{k: v for k, v in part.metadata.items() if k != DOC_ID} for part in parts], metadata
        )
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
            encode_json([shared, changing, part_starts], metadata),
        )
        return _SplitDocument(
            doc_id=source.doc_id,
            version=Version(name, len(spans)),
            length=len(text),
            spans=spans,
            metadata=shared,
            text=text,
            part_starts=part_starts,
            part_metadata=changing,
        )


@dataclass
class _Source:
    """A document as it comes in: its id and its parts."""

    doc_id: str
    id_from_text: bool
    parts: list[Document]


@dataclass(frozen=True)
class _SplitDocument(Prepared):
    """A document that was split here.

    Attributes:
        text: Its text.
        part_starts: Where its parts start in it.
        part_metadata: The parts' metadata, but what holds for all of them; empty if nothing else.
    """

    text: str = field(kw_only=True)
    part_starts: Sequence[int] = field(kw_only=True)
    part_metadata: Sequence[Changing] = field(kw_only=True)

    @override
    def text_of(self, index: int) -> str:
        span = self.spans[index]
        return self.text[span.start : span.end]

    @override
    def changing(self, index: int) -> tuple[Changing, Changing] | None:
        if not self.part_metadata:
            return None
        span = self.spans[index]
        return self._metadata_at(span.start), self._metadata_at(span.end - 1)

    def _metadata_at(self, place: int) -> Changing:
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
