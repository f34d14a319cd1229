"""RSEIndexer: documents in, split and written into both stores."""

from __future__ import annotations

import bisect
import itertools
import logging
import os
import warnings
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, field, replace
from typing import Any

from langchain_core.documents import Document
from langchain_core.stores import BaseStore
from langchain_core.vectorstores import VectorStore
from langchain_text_splitters import RecursiveCharacterTextSplitter
from typing_extensions import override

from langchain_rse._progress import progress_bar
from langchain_rse._steps import Call, Steps, arun, compute, during, run
from langchain_rse.adopting import Adoption, ExistingIndex, adopt, list_chunks
from langchain_rse.along import check_rules, out_of_order, rules_to_store, with_rules
from langchain_rse.docstores import as_docstore, encode_json
from langchain_rse.embedding_limits import find_limit
from langchain_rse.headers import DocumentHeaders, LMBasedHeaders
from langchain_rse.headers.documents import Fit, Headings, Run
from langchain_rse.schema import (
    DOC_ID,
    UNENCODABLE,
    Rule,
    Version,
    digest,
    text_digest,
    with_header,
)
from langchain_rse.splitting import Span, Splitter, SplittingError, split_spans
from langchain_rse.tokens import TokenSplitter
from langchain_rse.writing import Changing, Prepared, Spans, Writer, split_metadata

__all__ = ["RSEIndexer", "default_text_splitter"]

logger = logging.getLogger(__name__)

# Documents are read ahead up to these, then written together.
_CHARACTERS_AHEAD = 1_000_000
_DOCUMENTS_AHEAD = 1_000

# So many documents are named in a warning.
_NAMED = 3

# Part of every version: raised when the same text would be stored in another way.
_FORMAT = "2"

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
        text_splitter: Any LangChain splitter, of strings or of Documents, that keeps the words of
            the text (``docs/splitters.md`` has a table); `default_text_splitter` if None.
        batch_size: Chunks in one call of a store or of the embedding model, at least 1.
        headers: What is embedded in front of each chunk, see `langchain_rse.headers`; None for
            nothing. A `langchain_rse.tokens.TokenSplitter` leaves room for them: where a chunk and
            its header have more tokens than it allows, the document is split into smaller chunks.
            Headers that would take more than half of a chunk are cut to that, with a warning.
        document_separator: What stands between the parts of one document, such as the
            pages of a PDF.
        changing: For fields of metadata that change along a document, such as ``page``, what a
            segment carries: ``"ends"``, the values at its first and last character as
            ``{name}_start`` and ``{name}_end``; ``"first"`` or ``"last"``, one of these under
            the field's own name; ``"all"``, a list of the values along it, each once; ``"same"``,
            the one value: two are a ``ValueError``; ``"drop"``, nothing: the field is not kept
            at all. What is named here follows its rule in every document. Of other fields,
            those that differ between the parts of a document follow ``"ends"``; ``page`` and
            ``page_label`` do in any case. Whole numbers with the rule ``"ends"`` are expected to
            rise one by one: a warning names the documents in which they do not. The rules are
            stored with the documents.
        max_embedded_length: The most that the embedding model reads of a text. Longer ones
            are counted, all that is embedded with a chunk included, and named in one warning
            at the end of a call. None: what is known of the model, see
            `langchain_rse.embedding_limits`.
        embedded_length_function: From a text to its length, in the units of
            ``max_embedded_length``. None: tokens of the model's own tokenizer where that is at
            hand, else characters.

    Raises:
        ValueError: If ``batch_size`` or ``max_embedded_length`` is below 1, there is an
            ``embedded_length_function`` without a limit, or a rule in ``changing`` is unknown.
        TypeError: If one of the stores is not a LangChain store, or ``headers`` is none.
    """

    def __init__(
        self,
        vectorstore: VectorStore,
        docstore: BaseStore[str, Document] | BaseStore[str, bytes],
        *,
        text_splitter: Splitter | None = None,
        headers: DocumentHeaders | None = None,
        batch_size: int = 500,
        document_separator: str = "\n\n",
        changing: Mapping[str, Rule] | None = None,
        max_embedded_length: int | None = None,
        embedded_length_function: Callable[[str], float] | None = None,
    ) -> None:
        if not isinstance(vectorstore, VectorStore):
            raise TypeError(
                f"vectorstore must be a LangChain VectorStore; got {type(vectorstore).__name__}"
            )
        if headers is not None and not isinstance(headers, DocumentHeaders):
            raise TypeError(
                "headers must be of langchain_rse.headers, such as DocumentHeaders(), or None; got "
                f"{headers!r}"
            )
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1; got {batch_size!r}")
        self.vectorstore = vectorstore
        self.docstore = as_docstore(docstore)
        self.text_splitter = text_splitter or default_text_splitter()
        self.headers = headers
        self.batch_size = batch_size
        self.document_separator = document_separator
        self.changing = check_rules(changing)
        self._limit = find_limit(
            vectorstore.embeddings, max_embedded_length, embedded_length_function
        )
        self._writer = Writer(self.vectorstore, self.docstore, batch_size, self._limit)

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
            ValueError: If there are not as many ``ids`` as documents, an id is empty or has
                characters that not every store can keep (NUL, lone surrogates), the parts of a
                document are scattered over an iterator, or a field differs between them that
                ``changing`` says is the same.
            SplittingError: If the splitter rewrites, reorders, invents or drops text.
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
        return adopt(self._writer, listing, index, rules=self.changing, show_progress=show_progress)

    # Reading ahead

    def _add(self, feed: _Feed, *, show_progress: bool) -> Steps[list[str]]:
        seen: dict[str, None] = {}
        ahead: list[_Source] = []
        disordered: list[str] = []
        characters = repeated = 0
        headers = self.headers
        asks = show_progress and isinstance(headers, LMBasedHeaders)
        with (
            progress_bar(
                feed.total, unit="documents", title="Indexing", show=show_progress
            ) as advance,
            progress_bar(None, unit="answers", title="Headers", show=asks) as answered,
        ):
            heading = None if headers is None else headers.start(self.docstore, answered)
            cut: set[str] = set()
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
                        yield from self._add_batch(ahead, heading, cut)
                        disordered += self._disordered(ahead)
                        advance(sum(len(source.parts) for source in ahead))
                        ahead, characters = [], 0
                    seen[source.doc_id] = None
                    ahead.append(source)
                characters += len(source.parts[0].page_content)
            if ahead:
                yield from self._add_batch(ahead, heading, cut)
                disordered += self._disordered(ahead)
                advance(sum(len(source.parts) for source in ahead))
        if heading:
            heading.finish()
        _warn_of_disorder(disordered)
        _warn_of_cut_headers(cut)
        if self._limit is not None:
            self._limit.warn(stacklevel=4)
        if repeated:
            warnings.warn(
                f"{repeated} document(s) without an id have the same text as another one and were "
                "added once; give ids= or metadata['doc_id'] to keep each",
                stacklevel=2,
            )
        return list(seen)

    def _disordered(self, sources: Iterable[_Source]) -> Iterator[str]:
        """What is wrong with the order of the parts, a sentence for each document concerned."""
        for source in sources:
            found = out_of_order([part.metadata for part in source.parts], self.changing)
            if found:
                yield f"document {source.doc_id!r}: {', '.join(found)}"

    def _add_batch(
        self, sources: Sequence[_Source], heading: Run | None, cut: set[str]
    ) -> Steps[None]:
        prepared = yield from compute(lambda: [self._prepare(source) for source in sources])
        if heading:
            headed = yield from heading.headings(prepared, self._fit(sources, cut))
            prepared = list(itertools.starmap(_with_headings, headed))
        yield from self._writer.write(prepared)

    def _fit(self, sources: Sequence[_Source], cut: set[str]) -> Fit[_SplitDocument]:
        """Makes chunks so small that they fit in with their headers, where tokens are counted.

        Args:
            sources: The documents.
            cut: Gets the ids of those of which a header was cut.
        """
        splitter = self.text_splitter
        if not isinstance(splitter, TokenSplitter):
            return lambda document, headings: (document, headings)
        by_id = {source.doc_id: source for source in sources}
        reserves: dict[str, int] = {}

        def fit(
            document: _SplitDocument, headings: Headings
        ) -> tuple[_SplitDocument, Headings | None]:
            doc_id, text = document.doc_id, document.text
            most = splitter.most_of_header(text)
            shortened = {header: splitter.shortened(header, most) for header in headings.chunks}
            chunks = [shortened[header] for header in headings.chunks]
            lacking = splitter.lacking(text, zip(chunks, document.spans, strict=True))
            if not lacking:
                if any(header != kept for header, kept in shortened.items()):
                    cut.add(doc_id)
                return document, headings._replace(chunks=chunks)
            longest = max(splitter.count(with_header(header, "")) for header in set(chunks))
            # Tokens may be others where header and chunk meet: then one more round, or two.
            reserves[doc_id] = max(longest, reserves.get(doc_id, 0) + lacking)
            smaller = splitter.with_reserve(reserves[doc_id])
            return self._prepare(by_id[doc_id], smaller), None

        return fit

    def _prepare(self, source: _Source, splitter: Splitter | None = None) -> _SplitDocument:
        parts = source.parts
        text = self.document_separator.join(part.page_content for part in parts)
        metadata = f"metadata of document {source.doc_id!r}"
        known = [{k: v for k, v in part.metadata.items() if k != DOC_ID} for part in parts]
        known = with_rules(known, self.changing, source.doc_id)
        shared, changing = split_metadata(known, metadata)
        if text and not text.isspace():
            try:
                with during(f"splitting document {source.doc_id!r}"):
                    spans = split_spans(text, splitter or self.text_splitter)
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
        said: list[dict[str, Any]] = []
        if any(span.metadata for span in spans):
            said = with_rules([span.metadata for span in spans], self.changing, source.doc_id)
            spans = [span._replace(metadata=here) for span, here in zip(spans, said, strict=True)]
            shared, changing = _apart(shared, changing or [{} for _ in parts], said)
        rules = rules_to_store(self.changing, itertools.chain(shared, *changing, *said))
        read = text_digest(text)
        described = list(_describe(text, spans))
        name = digest(
            _FORMAT,
            read.name,
            *described,
            encode_json([shared, changing, part_starts, *([rules] if rules else [])], metadata),
            *([encode_json(said, metadata)] if said else []),
        )
        return _SplitDocument(
            doc_id=source.doc_id,
            version=Version(name, len(spans)),
            length=len(text),
            spans=Spans.of(spans),
            metadata=shared,
            text=text,
            part_starts=part_starts,
            part_metadata=changing,
            rules=rules,
            encodable=read.encodable and len(described) == 1,
        )


def _describe(text: str, spans: Sequence[Span]) -> Iterator[str]:
    """Strings that tell spans of a text from all others.

    The first has the places of spans, and of embedded text that is in the text there; each
    that is not is a string of its own.
    """
    inside = [text.startswith(span.embedded_text, span.start) for span in spans]
    yield ",".join(
        f"{span.start}:{len(span.embedded_text)}" if is_inside else str(span.start)
        for span, is_inside in zip(spans, inside, strict=True)
    )
    for span, is_inside in zip(spans, inside, strict=True):
        if not is_inside:
            yield span.embedded_text


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
        return self.text[self.spans.starts[index] : self.spans.ends[index]]

    @override
    def changing(self, index: int) -> tuple[Changing, Changing] | None:
        if not (self.part_metadata or self.spans.metadata[index]):
            return None
        first, last = self._parts_of(index)
        return self._metadata_of(first, index), self._metadata_of(last, index)

    @override
    def within(self, index: int) -> Sequence[tuple[int, Changing]]:
        if not (self.part_metadata or self.spans.metadata[index]):
            return ()
        first, last = self._parts_of(index)
        start = self.spans.starts[index]
        return [
            (self.part_starts[part] - start, self._metadata_of(part, index))
            for part in range(first + 1, last + 1)
        ]

    def _parts_of(self, index: int) -> tuple[int, int]:
        """The parts in which a span has its first and last character but white space."""
        text = self.text_of(index)
        start = self.spans.starts[index]
        first = start + len(text) - len(text.lstrip() or text)
        last = start + len(text.rstrip() or text) - 1
        return self._part_at(first), self._part_at(last)

    def _metadata_of(self, part: int, index: int) -> Changing:
        """What holds in a part, as far as a span reaches into it."""
        of_part = self.part_metadata[part] if self.part_metadata else {}
        return {**of_part, **self.spans.metadata[index]}

    def _part_at(self, place: int) -> int:
        return bisect.bisect_right(self.part_starts, place) - 1


def _warn_of_disorder(disordered: Sequence[str]) -> None:
    """Warn of documents whose parts are not in order, given a sentence for each."""
    if not disordered:
        return
    more = len(disordered) - _NAMED
    warnings.warn(
        f"the parts of {len(disordered)} document(s) are not in order: "
        + "; ".join(disordered[:_NAMED])
        + (f"; and {more} more" if more > 0 else "")
        + ". They were joined as they came, and segments reach across such places. Add each part "
        "once and in order, as a loader gives them, not split before; if they are of different "
        "files, give each file an id of its own (ids= or metadata['doc_id'])",
        stacklevel=3,
    )


def _warn_of_cut_headers(cut: Collection[str]) -> None:
    """Warn of headers that left too little room for text, given the ids of their documents."""
    if not cut:
        return
    named = ", ".join(map(repr, sorted(cut)[:_NAMED]))
    warnings.warn(
        f"headers of {len(cut)} document(s) ({named}{', ...' if len(cut) > _NAMED else ''}) have "
        "more than half of the tokens that a chunk may have, and were cut to that. Name less in "
        "the template of the headers, or raise tokens_per_chunk of the splitter, if the embedding "
        "model reads more",
        stacklevel=3,
    )


def _with_headings(document: _SplitDocument, headings: Headings) -> _SplitDocument:
    """A document with headers; they are part of its version."""
    if not headings.document and not any(headings.chunks):
        return document
    borders = ",".join(map(str, headings.borders))
    name = digest(document.version.name, headings.document, *headings.chunks, borders)
    return replace(
        document,
        version=document.version._replace(name=name),
        header=headings.document,
        chunk_headers=headings.chunks,
        borders=headings.borders,
    )


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


def _apart(
    shared: dict[str, Any], changing: list[dict[str, Any]], said: Iterable[Mapping[str, Any]]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The document's and the parts' metadata, where chunks have some of their own.

    What a splitter says of some chunks does not hold for the whole document, whatever it says.
    """
    names = set(itertools.chain.from_iterable(said))
    moved = {name: value for name, value in shared.items() if name in names}
    rest = {name: value for name, value in shared.items() if name not in names}
    parts = [{**moved, **part} for part in changing]
    return rest, parts if any(parts) else []


def _checked_id(doc_id: object) -> str:
    if not isinstance(doc_id, str) or not doc_id:
        raise ValueError(f"ids must be strings that are not empty; got {doc_id!r}")
    _check_characters(doc_id)
    return doc_id


def _check_characters(doc_id: str) -> None:
    # Other texts can be changed for the vector store; by this one, chunks are recognized.
    if found := UNENCODABLE.search(doc_id):
        raise ValueError(
            f"the document id {doc_id!r} has the character {found.group()!r}, which not every "
            "store can keep; give the document another one with ids= or metadata['doc_id']"
        )


def _identify(document: Document, doc_id: str | None) -> _Source:
    if not isinstance(document, Document):
        raise TypeError(f"documents must be LangChain Documents; got {type(document).__name__}")
    metadata = document.metadata
    for candidate in (doc_id, metadata.get(DOC_ID), document.id, metadata.get("source")):
        if candidate is None or candidate == "":
            continue
        if isinstance(candidate, os.PathLike):
            candidate = os.fspath(candidate)  # noqa: PLW2901
        _check_characters(str(candidate))
        return _Source(str(candidate), id_from_text=False, parts=[document])
    return _Source(digest(document.page_content), id_from_text=True, parts=[document])
