"""Writing prepared documents into the two stores, so that they never disagree."""

from __future__ import annotations

import bisect
import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, overload

from langchain_core.documents import Document
from langchain_core.stores import BaseStore
from langchain_core.vectorstores import VectorStore
from typing_extensions import override

from langchain_rse._steps import Steps, call, compute, during
from langchain_rse.docstores import encode_json
from langchain_rse.embedding_limits import EmbeddingLimit
from langchain_rse.schema import (
    CHUNK_ID,
    CHUNK_INDEX,
    DOC_ID,
    END_INDEX,
    FIRST,
    HEADER,
    LAST,
    SPANS_PER_PAGE,
    START_INDEX,
    WITHIN,
    CorruptRecordError,
    Manifest,
    Rule,
    Version,
    adopted_key,
    answers_key,
    chunk_key,
    chunk_metadata,
    document_key,
    encodable,
    manifest_key,
    new_document,
    simple_metadata,
    spans_key,
    with_header,
)
from langchain_rse.splitting import Span

__all__ = ["Changing", "Prepared", "Spans", "Writer", "batches", "split_metadata"]

T = TypeVar("T")

Changing = Mapping[str, Any]
"""Metadata that changes along a document, at one place."""


@dataclass(frozen=True)
class Spans(Sequence[Span]):
    """Spans, column by column.

    Documents are read ahead, so that their spans are most of what the garbage collector would
    have to look at: it does so with named tuples, but not with tuples of numbers and strings.

    Attributes:
        starts: Their first characters.
        ends: The characters after the last.
        embedded_texts: What is embedded for them.
        metadata: What the splitter says of them.
    """

    starts: tuple[int, ...]
    ends: tuple[int, ...]
    embedded_texts: tuple[str, ...]
    metadata: tuple[Mapping[str, Any], ...]

    @classmethod
    def of(cls, spans: Sequence[Span]) -> Spans:
        """The columns of spans."""
        return cls(*zip(*spans, strict=True)) if spans else cls((), (), (), ())

    @override
    def __len__(self) -> int:
        return len(self.starts)

    @overload
    def __getitem__(self, index: int) -> Span: ...

    @overload
    def __getitem__(self, index: slice) -> list[Span]: ...

    @override
    def __getitem__(self, index: int | slice) -> Span | list[Span]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        return Span(
            self.starts[index], self.ends[index], self.embedded_texts[index], self.metadata[index]
        )

    @override
    def __iter__(self) -> Iterator[Span]:
        return map(Span, self.starts, self.ends, self.embedded_texts, self.metadata)


@dataclass(frozen=True)
class Prepared(ABC):
    """A document ready to be written.

    Attributes:
        doc_id: Its id.
        version: Name of this version and number of its chunks.
        length: Characters of its text.
        spans: The chunks' places, one after the other.
        metadata: What holds for the whole document.
        gaps: Numbers of spans whose text nobody has: they are no chunks.
        rules: What segments carry of some fields; the others follow the default rules.
        header: What may stand above its segments; empty for nothing.
        chunk_headers: What is embedded in front of each chunk; none at all for nothing.
        borders: Where sections begin and end, as numbers of chunks, ascending.
        encodable: Whether stores are known to take all characters of the embedded texts.
    """

    doc_id: str
    version: Version
    length: int
    spans: Spans
    metadata: Mapping[str, Any]
    gaps: frozenset[int] = field(default=frozenset(), kw_only=True)
    rules: Mapping[str, Rule] = field(default_factory=dict, kw_only=True)
    header: str = field(default="", kw_only=True)
    chunk_headers: Sequence[str] = field(default=(), kw_only=True)
    borders: Sequence[int] = field(default=(), kw_only=True)
    encodable: bool = field(default=False, kw_only=True)

    @property
    def key(self) -> str:
        """Its key in the docstore."""
        return document_key(self.doc_id)

    @abstractmethod
    def text_of(self, index: int) -> str:
        """The text of a span."""

    @abstractmethod
    def changing(self, index: int) -> tuple[Changing, Changing] | None:
        """Metadata at a span's first and last character; None if none changes."""

    def within(self, index: int) -> Sequence[tuple[int, Changing]]:  # noqa: ARG002
        """Where between these metadata changes, from the span's start, and to what."""
        return ()

    def records(self) -> Iterator[tuple[str, Document]]:
        """The docstore's records: chunks, then pages of spans."""
        key, name = self.key, self.version.name
        for index, metadata in enumerate(self._places()):
            if index not in self.gaps:
                self._add_what_changes(metadata, index)
                yield chunk_key(key, name, index), new_document(self.text_of(index), metadata)
        for page in range(self.version.pages):
            first = page * SPANS_PER_PAGE
            inside = slice(first, first + SPANS_PER_PAGE)
            starts = self.spans.starts[inside]
            metadata = {"cuts": [*starts, self.spans.ends[inside][-1]]}
            gaps = [number for number in range(len(starts)) if first + number in self.gaps]
            if gaps:
                metadata["gaps"] = gaps
            # Those of the page's cuts; the last is the next page's first as well.
            borders = self.borders[
                bisect.bisect_left(self.borders, first) : bisect.bisect_right(
                    self.borders, first + len(starts)
                )
            ]
            if borders:
                metadata["borders"] = [border - first for border in borders]
            yield spans_key(self.key, name, page), Document(page_content="", metadata=metadata)

    def vectors(self) -> Iterator[Document]:
        """What the vector store gets: header and embedded text, with simple metadata."""
        name = self.version.name
        shared = _simple_and_encodable(self.metadata)
        texts = zip(self._places(), self.spans.embedded_texts, strict=True)
        for index, (place, text) in enumerate(texts):
            simple = shared
            if (changing := self.changing(index)) is not None:
                simple = _simple_and_encodable({**self.metadata, **changing[0]})
            metadata = chunk_metadata(simple, place, name)
            if self.chunk_headers or not self.encodable:
                text = encodable(with_header(self.header_of(index), text))  # noqa: PLW2901
            yield new_document(text, metadata, id=metadata[CHUNK_ID])

    def header_of(self, index: int) -> str:
        """What is embedded in front of a chunk; empty for nothing."""
        return self.chunk_headers[index] if self.chunk_headers else ""

    def _places(self) -> Iterator[dict[str, Any]]:
        """Where the chunks lie, as metadata."""
        doc_id = self.doc_id
        places = zip(self.spans.starts, self.spans.ends, strict=True)
        for index, (start, end) in enumerate(places):
            yield {DOC_ID: doc_id, CHUNK_INDEX: index, START_INDEX: start, END_INDEX: end}

    def _add_what_changes(self, metadata: dict[str, Any], index: int) -> None:
        if (changing := self.changing(index)) is not None:
            metadata[FIRST], metadata[LAST] = changing
        if within := self.within(index):
            metadata[WITHIN] = [[place, changed] for place, changed in within]
        if header := self.header_of(index):
            metadata[HEADER] = header


class Writer:
    """Writes, replaces and deletes documents in a vector store and a docstore.

    Args:
        vectorstore: Where the chunks are embedded.
        docstore: Where their texts stand.
        batch_size: Items in one call of a store, at least 1.
        limit: Sees what is embedded; None for nobody.
    """

    def __init__(
        self,
        vectorstore: VectorStore,
        docstore: BaseStore[str, Document],
        batch_size: int,
        limit: EmbeddingLimit | None = None,
    ) -> None:
        self.vectorstore = vectorstore
        self.docstore = docstore
        self.batch_size = batch_size
        self._limit = limit

    def write(self, documents: Sequence[Prepared]) -> Steps[None]:
        """Write documents whose current version is another one, and finish what was begun.

        The manifest announces the version, before its records and vectors are written; the
        next one makes it current; then the former version is removed.
        """
        stored = yield from self.manifests([document.key for document in documents])
        new: list[Prepared] = []
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
            yield from self.set_records(
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
                    length=document.length,
                    metadata=dict(document.metadata),
                    rules=document.rules,
                    header=document.header,
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

    def delete(self, ids: Sequence[str]) -> Steps[list[str]]:
        """Delete documents, the vectors first; return the ids of those that were there."""
        if isinstance(ids, str):
            raise TypeError(f"ids must be a list of ids, not one string; use [{ids!r}]")
        wanted = list(dict.fromkeys(ids))
        found = yield from self.manifests([document_key(doc_id) for doc_id in wanted])
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
            keys = (key for m in doomed for key in (answers_key(m.key), manifest_key(m.key)))
            with during("deleting manifests from the docstore"):
                for some in batches(keys, self.batch_size):
                    yield from call(self.docstore.mdelete, self.docstore.amdelete, some)
        return [manifest.doc_id for manifest in doomed]

    def manifests(self, keys: Sequence[str]) -> Steps[list[Manifest | None]]:
        """Read the manifests of documents by their keys."""
        manifests: list[Manifest | None] = []
        with during("reading manifests from the docstore"):
            for some in batches((manifest_key(key) for key in keys), self.batch_size):
                records = yield from call(self.docstore.mget, self.docstore.amget, some)
                manifests += [
                    None if record is None else Manifest.from_document(record, key)
                    for key, record in zip(some, records, strict=True)
                ]
        return manifests

    def _set_manifests(self, manifests: Iterable[Manifest]) -> Steps[None]:
        yield from self.set_records(
            (manifest_key(manifest.key), manifest.to_document()) for manifest in manifests
        )

    def set_records(self, records: Iterable[tuple[str, Document]]) -> Steps[None]:
        """Write records to the docstore."""
        with during("writing to the docstore"):
            # Nothing here keeps a batch: else it were there until the next one is made, and the
            # garbage collector looked at twice as much.
            for writing in map(self._set_batch, batches(records, self.batch_size)):
                yield from writing

    def _set_batch(self, records: list[tuple[str, Document]]) -> Steps[None]:
        return call(self.docstore.mset, self.docstore.amset, records)

    def _add_vectors(self, vectors: Iterable[Document]) -> Steps[None]:
        with during(f"adding vectors to {type(self.vectorstore).__name__}"):
            for adding in map(self._add_batch, batches(vectors, self.batch_size)):
                yield from adding

    def _add_batch(self, vectors: list[Document]) -> Steps[None]:
        store = self.vectorstore
        if self._limit is not None:
            texts = [document.page_content for document in vectors]
            yield from compute(self._limit.look_at, texts)
        ids = [str(document.id) for document in vectors]
        kept = yield from call(store.add_documents, store.aadd_documents, vectors, ids=ids)
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
            for some in batches(vectors, self.batch_size):
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
        vectors: list[Iterable[str]] = []
        records: list[Iterable[str]] = []
        for manifest in manifests:
            kept: set[str] = set()
            is_adopted = manifest.current is not None and manifest.current.adopted > 0
            if manifest.current and is_adopted:
                kept.update((yield from self.adopted_vectors(manifest, manifest.current)))
            for version in manifest.leftovers:
                adopted = yield from self.adopted_vectors(manifest, version)
                gone = [vector for vector in adopted if vector not in kept]
                vectors.append(version.vector_ids(manifest.key))
                if not is_adopted:  # else nothing was replaced: the index was read again
                    vectors.append(gone)
                # The list of vectors goes last: it says what is left to do.
                records += [map(adopted_key, gone), version.docstore_keys(manifest.key)]
        yield from self._delete_vectors(itertools.chain.from_iterable(vectors))
        with during("deleting chunks from the docstore"):
            for some in batches(itertools.chain.from_iterable(records), self.batch_size):
                yield from call(self.docstore.mdelete, self.docstore.amdelete, some)

    def adopted_vectors(self, manifest: Manifest, version: Version) -> Steps[list[str]]:
        """The ids of the vectors that a version was adopted from, as far as they are recorded."""
        vectors: list[str] = []
        with during("reading the ids of vectors from the docstore"):
            for some in batches(version.vectors_keys(manifest.key), self.batch_size):
                found = yield from call(self.docstore.mget, self.docstore.amget, some)
                for key, record in zip(some, found, strict=True):
                    if record is None:  # a call was cut off
                        continue
                    ids = record.metadata.get("ids")
                    if not isinstance(ids, list):
                        raise CorruptRecordError(
                            f"the docstore's record {key!r} of document {manifest.doc_id!r} does "
                            "not hold ids of vectors; delete this key and adopt the index again"
                        )
                    vectors += ids
        return vectors


def _simple_and_encodable(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The values that every vector store takes, as it takes them."""
    return {
        name: encodable(value) if isinstance(value, str) else value
        for name, value in simple_metadata(metadata).items()
    }


def split_metadata(
    parts: Sequence[Mapping[str, Any]], place: str
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What all parts of a document agree on; and, part by part, the rest (empty if none).

    Args:
        parts: The parts' metadata.
        place: Names the document in errors.

    Raises:
        TypeError: If a value cannot be kept.
    """
    # Values are compared as they are stored: arrays and the like cannot be compared.
    written = [
        {name: encode_json({name: value}, place) for name, value in metadata.items()}
        for metadata in parts
    ]
    names = dict.fromkeys(name for metadata in parts for name in metadata)
    same = {name for name in names if len({metadata.get(name) for metadata in written}) == 1}
    shared = {name: parts[0][name] for name in names if name in same}
    if len(same) == len(names):
        return shared, []
    return shared, [
        {name: value for name, value in metadata.items() if name not in same} for metadata in parts
    ]


def batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Lists of so many items; the last may be shorter."""
    iterator = iter(items)
    return iter(lambda: list(itertools.islice(iterator, size)), [])
