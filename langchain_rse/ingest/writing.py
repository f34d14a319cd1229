"""Writing documents to the docstore and the vector store, so that the two never disagree."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from langchain_core.documents import Document
from langchain_core.stores import BaseStore
from langchain_core.vectorstores import VectorStore

from langchain_rse._progress import ChunkBar
from langchain_rse._sync import Steps, batches, call, compute, during
from langchain_rse.errors import CorruptRecordError
from langchain_rse.ingest.embedding_limits import EmbeddingLimit
from langchain_rse.ingest.known_vectors import gives_vectors, read_vectors, write_vectors
from langchain_rse.stores.records import (
    DOC_ID,
    DocumentVersion,
    Manifest,
    Version,
    adopted_key,
    answers_key,
    chunk_vectors,
    digest,
    document_key,
    document_records,
    manifest_key,
    text_key,
    vector_of,
)

Check = Callable[[Iterable[tuple[DocumentVersion, Manifest]]], Steps[None]]
"""Looks at documents that are to be written, each with its manifest so far."""


@dataclass(frozen=True)
class Writer:
    """Writes, replaces and deletes documents in a vector store and a docstore.

    Attributes:
        vectorstore: Where the chunks are embedded.
        docstore: Where their texts stand.
        batch_size: Items in one call of a store, at least 1.
        limit: Counts embedded texts that are longer than the model reads; None counts none.
        progress: Counts chunks that are written.
        same_texts: Documents that were written with the text of another one, and that one.
    """

    vectorstore: VectorStore
    docstore: BaseStore[str, Document]
    batch_size: int
    limit: EmbeddingLimit | None = None
    progress: ChunkBar = field(default_factory=ChunkBar)
    same_texts: dict[str, str] = field(default_factory=dict)

    def write(
        self, documents: Sequence[DocumentVersion], check: Check | None = None
    ) -> Steps[None]:
        """Write the documents that are not stored in this version, and finish interrupted calls.

        A manifest announces the version before its records and vectors are written; the next
        makes it current; then the former version is removed. Chunks whose embedded text has a
        vector in another version of these documents are written with that vector. Before all that,
        ``check`` looks at the documents that are not stored in this version; it may raise an error.
        """
        stored, owners = yield from self._stored(documents)
        new: list[tuple[DocumentVersion, Manifest]] = []
        written: list[Manifest] = []
        for document, known in zip(documents, stored, strict=True):
            manifest = known or Manifest(document.doc_id)
            if manifest.current == document.version:
                written.append(manifest)
                self.progress.advance(len(document.chunks))
            else:
                new.append((document, manifest))
        if new:
            if check is not None:
                yield from check(new)
            written += yield from self._write_new(new)
        yield from self._record_texts(documents, owners)
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
            yield from self._forget_texts(deleted)
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
        return [_manifest(record, key) for key, record in records]

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

    # Texts, to find documents with the same one

    def _stored(
        self, documents: Sequence[DocumentVersion]
    ) -> Steps[tuple[list[Manifest | None], dict[str, str]]]:
        """The manifests of documents, and by digests of their texts the documents that have them.

        The latter may not be true any more.
        """
        keys = [manifest_key(document.key) for document in documents]
        texts = {text_key(one.text_digest): one.text_digest for one in documents if one.text_digest}
        found = dict((yield from self._read_records([*keys, *texts])))
        owners = {
            text: str(record.metadata.get(DOC_ID))
            for key, text in texts.items()
            if (record := found[key])
        }
        return [_manifest(found[key], key) for key in keys], owners

    def _record_texts(
        self, documents: Sequence[DocumentVersion], owners: Mapping[str, str]
    ) -> Steps[None]:
        """Record which document has a text; note those whose text another document has."""
        texts = {document.doc_id: document.text_digest for document in documents}
        others = [document_key(owner) for owner in owners.values() if owner not in texts]
        for manifest in (yield from self.manifests(others)):
            if manifest is not None and manifest.current is not None:
                texts[manifest.doc_id] = manifest.text_digest
        true = {text: owner for text, owner in owners.items() if texts.get(owner) == text}
        for document in documents:
            if document.text_digest and not document.adopted:
                owner = true.setdefault(document.text_digest, document.doc_id)
                if owner != document.doc_id:
                    self.same_texts[document.doc_id] = owner
        yield from self.set_records(
            (text_key(text), Document("", metadata={DOC_ID: owner}))
            for text, owner in true.items()
            if owners.get(text) != owner
        )

    def _forget_texts(self, manifests: Iterable[Manifest]) -> Steps[None]:
        """Remove the records that say that these documents have their texts."""
        texts = [(text_key(one.text_digest), one.doc_id) for one in manifests if one.text_digest]
        found = dict((yield from self._read_records(dict(texts))))
        yield from self._delete_records(
            key for key, owner in texts if (own := found[key]) and own.metadata.get(DOC_ID) == owner
        )

    # Both stores

    def _write_new(self, new: Sequence[tuple[DocumentVersion, Manifest]]) -> Steps[list[Manifest]]:
        """Write documents, given their manifests so far; return their new manifests."""
        kept = yield from self._kept(new)
        known = yield from self._known(new)
        yield from self._set_manifests(
            replace(one, unfinished=[*_others(one.unfinished, document), document.version])
            for document, one in new
        )
        yield from self.set_records(
            itertools.chain.from_iterable(document_records(document) for document, _ in new)
        )
        chunks = itertools.chain.from_iterable(chunk_vectors(document) for document, _ in new)
        yield from self._add_vectors(chunks, kept, known)
        yield from self._forget_texts(
            manifest for document, manifest in new if manifest.text_digest != document.text_digest
        )
        written = [
            Manifest(
                doc_id=document.doc_id,
                current=document.version,
                unfinished=_others(manifest.versions, document),
                length=document.length,
                text_digest=document.text_digest,
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

    def _kept(self, new: Iterable[tuple[DocumentVersion, Manifest]]) -> Steps[set[str]]:
        """The vectors of interrupted calls that are in the store, and need not be added again.

        If the store cannot tell, they are deleted: LanceDB would keep both vectors of an id.
        """
        interrupted = (
            document.version.vector_ids(document.key)
            for document, manifest in new
            if document.version in manifest.unfinished
        )
        kept: set[str] = set()
        for some in batches(itertools.chain.from_iterable(interrupted), self.batch_size):
            existing = yield from self._existing(some)
            if existing is None:
                yield from self._delete_vectors(some, required=False)
            else:
                kept.update(existing)
        return kept

    def _known(self, new: Iterable[tuple[DocumentVersion, Manifest]]) -> Steps[dict[str, str]]:
        """The vectors of other versions of documents, by the digests of their embedded texts."""
        ids: list[Iterable[str]] = []
        for document, manifest in new if gives_vectors(self.vectorstore) else ():
            for version in () if document.adopted else _others(manifest.versions, document):
                ids.append(version.vector_ids(manifest.key))
                ids.append((yield from self._adopted_vectors(manifest, version)))
        known: dict[str, str] = {}
        for some in batches(itertools.chain.from_iterable(ids), self.batch_size):
            existing = yield from self._existing(some)
            known.update((digest(text), vector) for vector, text in (existing or {}).items())
        return known

    def _add_vectors(
        self, chunks: Iterable[Document], kept: Collection[str], known: Mapping[str, str]
    ) -> Steps[None]:
        """Write chunks to the vector store, but those that it has `_kept`."""
        with during(f"adding vectors to {type(self.vectorstore).__name__}"):
            for some in batches(chunks, self.batch_size):
                self.progress.advance(0, some[0].metadata[DOC_ID])
                missing = [chunk for chunk in some if chunk.id not in kept]
                if new := (yield from self._reuse(missing, known)):
                    yield from self._embed(new)
                self.progress.advance(len(some))

    def _reuse(self, chunks: list[Document], known: Mapping[str, str]) -> Steps[list[Document]]:
        """Write the chunks whose embedded text has a `_known` vector; return the others."""
        sources = [known.get(digest(chunk.page_content), "") for chunk in chunks] if known else []
        if not any(sources):
            return chunks
        vectors = yield from read_vectors(self.vectorstore, filter(None, sources))
        rows = [
            (str(chunk.id), chunk.page_content, chunk.metadata, vectors[source])
            for chunk, source in zip(chunks, sources, strict=True)
            if source in vectors
        ]
        if rows:
            yield from write_vectors(self.vectorstore, rows)
        return [c for c, source in zip(chunks, sources, strict=True) if source not in vectors]

    def _embed(self, chunks: list[Document]) -> Steps[None]:
        store = self.vectorstore
        if self.limit is not None:
            yield from compute(self.limit.look_at, [chunk.page_content for chunk in chunks])
        ids = [str(chunk.id) for chunk in chunks]
        kept = yield from call(store.add_documents, store.aadd_documents, chunks, ids=ids)
        if kept and list(kept) != ids:  # some stores return nothing at all
            raise ValueError(
                f"{type(store).__name__} did not keep the ids it was given, so its vectors "
                "could never be replaced or deleted; use a store that does"
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
                        yield from self._delete_all(list(existing))

    def _delete_all(self, ids: list[str]) -> Steps[None]:
        store = self.vectorstore
        if (yield from call(store.delete, store.adelete, ids)) is False:
            raise RuntimeError(
                f"{type(store).__name__} could not delete vectors (its log may say why); call "
                "again to delete what is left"
            )

    def _existing(self, ids: list[str]) -> Steps[dict[str, str] | None]:
        """The embedded texts of vectors that are in the store; None if the store cannot tell."""
        store = self.vectorstore
        try:
            with during(f"reading from {type(store).__name__}"):
                found = yield from call(store.get_by_ids, store.aget_by_ids, ids)
        except NotImplementedError:
            return None
        existing = {vector_of(document): document.page_content for document in found}
        if None in existing:
            return None
        return {vector: existing[vector] for vector in ids if vector in existing}


def _manifest(record: Document | None, key: str) -> Manifest | None:
    return None if record is None else Manifest.from_document(record, key)


def _others(versions: Iterable[Version], document: DocumentVersion) -> list[Version]:
    return [version for version in versions if version != document.version]
