"""Writing documents to the docstore and the vector store, so that the two never disagree."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from langchain_core.documents import Document
from langchain_core.stores import BaseStore
from langchain_core.vectorstores import VectorStore

from langchain_rse._sync import Steps, call, compute, during
from langchain_rse.errors import CorruptRecordError
from langchain_rse.ingest.embedding_limits import EmbeddingLimit
from langchain_rse.stores.records import (
    DocumentVersion,
    Manifest,
    Version,
    adopted_key,
    answers_key,
    chunk_vectors,
    document_key,
    document_records,
    manifest_key,
)

T = TypeVar("T")


@dataclass(frozen=True)
class Writer:
    """Writes, replaces and deletes documents in a vector store and a docstore.

    Attributes:
        vectorstore: Where the chunks are embedded.
        docstore: Where their texts stand.
        batch_size: Items in one call of a store, at least 1.
        limit: Counts embedded texts that are longer than the model reads; None counts none.
    """

    vectorstore: VectorStore
    docstore: BaseStore[str, Document]
    batch_size: int
    limit: EmbeddingLimit | None = None

    def write(self, documents: Sequence[DocumentVersion]) -> Steps[None]:
        """Write the documents that are not stored in this version, and finish interrupted calls.

        A manifest announces the version before its records and vectors are written; the next
        makes it current; then the former version is removed.
        """
        stored = yield from self.manifests([document.key for document in documents])
        new: list[tuple[DocumentVersion, Manifest]] = []
        written: list[Manifest] = []
        for document, known in zip(documents, stored, strict=True):
            manifest = known or Manifest(document.doc_id)
            if manifest.current == document.version:
                written.append(manifest)
            else:
                new.append((document, manifest))
        if new:
            written += yield from self._write_new(new)
        to_clean = [manifest for manifest in written if manifest.unfinished]
        if to_clean:
            yield from self._remove_unfinished(to_clean)
            yield from self._set_manifests(replace(one, unfinished=()) for one in to_clean)

    def delete(self, ids: Sequence[str]) -> Steps[list[str]]:
        """Delete documents, the vectors first; return the ids of those that were there.

        Raises:
            TypeError: If ``ids`` is a single string.
        """
        if isinstance(ids, str):
            raise TypeError(f"ids must be a list of ids, not one string; use [{ids!r}]")
        keys = [document_key(doc_id) for doc_id in dict.fromkeys(ids)]
        found = yield from self.manifests(keys)
        # Without a current version no query sees the document any more, and adding it again
        # after a crash does not take it for complete.
        deleted = [
            replace(one, current=None, unfinished=one.versions) for one in found if one is not None
        ]
        if deleted:
            yield from self._set_manifests(deleted)
            yield from self._remove_unfinished(deleted)
            yield from self._delete_records(
                key for one in deleted for key in (answers_key(one.key), manifest_key(one.key))
            )
        return [manifest.doc_id for manifest in deleted]

    # Docstore

    def manifests(self, keys: Iterable[str]) -> Steps[list[Manifest | None]]:
        """Read the manifests of documents by their keys; None for unknown documents.

        Raises:
            CorruptRecordError: If a record is not one of a manifest.
        """
        records = yield from self._read_records(map(manifest_key, keys))
        return [
            None if record is None else Manifest.from_document(record, key)
            for key, record in records
        ]

    def _adopted_vectors(self, manifest: Manifest, version: Version) -> Steps[list[str]]:
        """The recorded ids of the vectors that a version was adopted from."""
        vectors: list[str] = []
        for key, record in (yield from self._read_records(version.vectors_keys(manifest.key))):
            ids = record.metadata.get("ids") if record else []  # an interrupted call
            if not isinstance(ids, list):
                raise CorruptRecordError(
                    f"the docstore's record {key!r} of document {manifest.doc_id!r} does not hold "
                    "ids of vectors; delete this key and adopt the index again"
                )
            vectors += ids
        return vectors

    def _read_records(self, keys: Iterable[str]) -> Steps[list[tuple[str, Document | None]]]:
        found: list[tuple[str, Document | None]] = []
        with during("reading from the docstore"):
            for some in batches(keys, self.batch_size):
                records = yield from call(self.docstore.mget, self.docstore.amget, some)
                found += zip(some, records, strict=True)
        return found

    def set_records(self, records: Iterable[tuple[str, Document]]) -> Steps[None]:
        """Write records to the docstore."""
        with during("writing to the docstore"):
            for some in batches(records, self.batch_size):
                yield from call(self.docstore.mset, self.docstore.amset, some)

    def _set_manifests(self, manifests: Iterable[Manifest]) -> Steps[None]:
        return self.set_records((manifest_key(one.key), one.to_document()) for one in manifests)

    def _delete_records(self, keys: Iterable[str]) -> Steps[None]:
        with during("deleting from the docstore"):
            for some in batches(keys, self.batch_size):
                yield from call(self.docstore.mdelete, self.docstore.amdelete, some)

    # Both stores

    def _write_new(self, new: Sequence[tuple[DocumentVersion, Manifest]]) -> Steps[list[Manifest]]:
        """Write documents, given their manifests so far; return their new manifests.

        The vectors of an interrupted call are deleted before they are added again: FAISS
        refuses ids that it has, and LanceDB keeps both vectors.
        """
        interrupted = (
            document.version.vector_ids(document.key)
            for document, manifest in new
            if document.version in manifest.unfinished
        )
        yield from self._delete_vectors(itertools.chain.from_iterable(interrupted), required=False)
        yield from self._set_manifests(
            replace(known, unfinished=[*_others(known.unfinished, document), document.version])
            for document, known in new
        )
        yield from self.set_records(
            itertools.chain.from_iterable(document_records(document) for document, _ in new)
        )
        yield from self._add_vectors(
            itertools.chain.from_iterable(chunk_vectors(document) for document, _ in new)
        )
        written = [
            Manifest(
                doc_id=document.doc_id,
                current=document.version,
                unfinished=_others(manifest.versions, document),
                length=document.length,
                metadata=document.metadata,
                rules=document.rules,
                header=document.header,
            )
            for document, manifest in new
        ]
        yield from self._set_manifests(written)
        return written

    def _remove_unfinished(self, manifests: Sequence[Manifest]) -> Steps[None]:
        """Remove everything of the versions that manifests list as unfinished.

        Adopted vectors stay where the current version is adopted as well: then the index was
        read again, and its vectors are still those of the user.
        """
        vectors: list[Iterable[str]] = []
        records: list[Iterable[str]] = []
        for manifest in manifests:
            current = manifest.current if manifest.current and manifest.current.adopted else None
            kept = set((yield from self._adopted_vectors(manifest, current)) if current else ())
            for version in manifest.unfinished:
                adopted = yield from self._adopted_vectors(manifest, version)
                gone = [vector for vector in adopted if vector not in kept]
                vectors += [version.vector_ids(manifest.key), [] if current else gone]
                # The list of vectors goes last: it says what is left to do.
                records += [map(adopted_key, gone), version.docstore_keys(manifest.key)]
        yield from self._delete_vectors(itertools.chain.from_iterable(vectors))
        yield from self._delete_records(itertools.chain.from_iterable(records))

    # Vector store

    def _add_vectors(self, vectors: Iterable[Document]) -> Steps[None]:
        store = self.vectorstore
        with during(f"adding vectors to {type(store).__name__}"):
            for some in batches(vectors, self.batch_size):
                if self.limit is not None:
                    texts = [document.page_content for document in some]
                    yield from compute(self.limit.look_at, texts)
                ids = [str(document.id) for document in some]
                kept = yield from call(store.add_documents, store.aadd_documents, some, ids=ids)
                if kept and list(kept) != ids:  # some stores return nothing at all
                    raise ValueError(
                        f"{type(store).__name__} did not keep the ids it was given, so its "
                        "vectors could never be replaced or deleted; use a store that does"
                    )

    def _delete_vectors(self, vectors: Iterable[str], *, required: bool = True) -> Steps[None]:
        """Delete vectors, of which some may not be there.

        If not ``required``, a store that fails and cannot tell what it has is passed over.
        """
        with during(f"deleting vectors from {type(self.vectorstore).__name__}"):
            for some in batches(vectors, self.batch_size):
                try:
                    yield from self._delete_all(some)
                except (AttributeError, LookupError, RuntimeError, ValueError):
                    # FAISS deletes nothing if one vector is not there; LanceDB and Milvus fail
                    # before anything was added.
                    existing = yield from self._existing(some)
                    if existing is None and not required:
                        continue
                    if existing is None or len(existing) == len(some):
                        raise
                    if existing:
                        yield from self._delete_all(existing)

    def _delete_all(self, ids: list[str]) -> Steps[None]:
        store = self.vectorstore
        if (yield from call(store.delete, store.adelete, ids)) is False:
            raise RuntimeError(
                f"{type(store).__name__} could not delete vectors (its log may say why); call "
                "again to delete what is left"
            )

    def _existing(self, ids: list[str]) -> Steps[list[str] | None]:
        """The vectors that are in the store; None if the store cannot tell."""
        store = self.vectorstore
        try:
            found = yield from call(store.get_by_ids, store.aget_by_ids, ids)
        except NotImplementedError:
            return None
        existing = {document.id for document in found}
        return None if None in existing else [vector for vector in ids if vector in existing]


def _others(versions: Iterable[Version], document: DocumentVersion) -> list[Version]:
    return [version for version in versions if version != document.version]


def batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Lists of ``size`` items; the last may be shorter."""
    iterator = iter(items)
    return iter(lambda: list(itertools.islice(iterator, size)), [])
