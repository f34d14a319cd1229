"""Writes documents to the docstore and the vector store, so that the two never disagree."""

import itertools
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from langchain_core.documents import Document

from langchain_rse._sync import Steps, batches, call_to_the_end, during
from langchain_rse.errors import CorruptRecordError
from langchain_rse.ingest.ownership import Claims
from langchain_rse.ingest.vectors import Vectors
from langchain_rse.stores.changing import DocStore, Record, read_records
from langchain_rse.stores.namespaces import refuse_namespaces
from langchain_rse.stores.pairing import check_pair
from langchain_rse.stores.reading import read_adopted, readable, stored_versions
from langchain_rse.stores.records import (
    DOC_ID,
    NAMESPACES,
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
    vector_id,
)

Check = Callable[[Iterable[tuple[DocumentVersion, Manifest]]], Steps[None]]
"""Checks documents before they are written, each with its present manifest."""

# What the docstore has for a document: the manifest and its record, None if that cannot be read. A
# manifest that cannot be read is replaced by one with the versions that were found.
_Stored = tuple[Manifest, Document | None]


@dataclass
class Writer:
    """Writes, replaces and deletes documents in both stores, each by one call at a time."""

    vectors: Vectors
    docstore: DocStore
    model: str = ""  # id of the model that embeds the chunks, see `Manifest`
    # Ids of documents that have the text of another one, and the id of that one.
    same_texts: dict[str, str] = field(default_factory=dict)

    def write(
        self, documents: Sequence[DocumentVersion], check: Check, *, force: bool = False
    ) -> Steps[None]:
        """Write the documents that are not stored in this version, and finish interrupted calls.

        A manifest announces the version before its records and vectors are written; the next
        makes it current; then the former version is removed. Chunks whose embedded text has a
        vector in another version of these documents are written with that vector. Before all this,
        ``check`` is called for documents not stored in this version; it may raise an error.
        """
        left = {document.key: document for document in documents}
        stores = self.docstore, self.vectors.vectorstore
        self.model = yield from check_pair(*stores, force=force)
        with Claims(self.docstore, self.vectors.batch_size) as claims:
            while left:
                free = self._write_free(list(left.values()), check, claims, force=force)
                for key in (yield from claims.guarded(free)):
                    del left[key]
                if left:
                    yield from claims.wait(document.doc_id for document in left.values())

    def delete(self, ids: Sequence[str]) -> Steps[list[str]]:
        """Delete documents, the vectors first; return the ids of those that existed."""
        if isinstance(ids, str):
            raise TypeError(f"ids must be a list of ids, not one string; use [{ids!r}]")
        left = {document_key(doc_id): doc_id for doc_id in ids}
        yield from check_pair(self.docstore, self.vectors.vectorstore, record=False)
        deleted: dict[str, bool] = {}
        with Claims(self.docstore, self.vectors.batch_size) as claims:
            while left:
                was_there = yield from claims.guarded(self._delete_free(left, claims))
                deleted |= {left.pop(key): there for key, there in was_there.items()}
                if left:
                    yield from claims.wait(left.values())
        return [doc_id for doc_id in dict.fromkeys(ids) if deleted[doc_id]]

    def _write_free(
        self, documents: Sequence[DocumentVersion], check: Check, claims: Claims, *, force: bool
    ) -> Steps[list[str]]:
        """Write the documents that no other call is writing; return the keys of those now done."""
        stored, owners = yield from self._stored(documents)
        done: list[DocumentVersion] = []
        to_clean: list[_Stored] = []
        new: list[tuple[DocumentVersion, _Stored]] = []
        without_vectors = set() if force else (yield from self._without_vectors(documents, stored))
        for document, entry in zip(documents, stored, strict=True):
            manifest, _ = entry
            is_stored = not force and self._is_stored(document, manifest)
            is_free = claims.is_free(manifest)
            if is_free and (not is_stored or document.key in without_vectors):
                new.append((document, entry))
            elif is_stored:
                self.vectors.progress.advance(len(document.chunks))
                has_text_record = document.adopted or document.text_digest in {"", *owners}
                ended = not (manifest.unfinished or manifest.owner) and has_text_record
                done += [document] if ended or not is_free else []
                to_clean += [entry] if is_free and not ended else []
        if new:
            yield from check((document, manifest) for document, (manifest, _) in new)
        written = yield from self._write_new(new, claims, force=force)
        claimed = yield from claims.claim(to_clean)
        owned = {**written, **claimed}
        some = [*done, *(one for one in documents if one.key in owned)]
        yield from self._record_texts(some, owners, owned)
        # A document that another call took over is not done: this call restores what it removed.
        finished = yield from self._finish(list(owned.values()), claims)
        return [*(document.key for document in done), *finished]

    def _delete_free(self, ids: Mapping[str, str], claims: Claims) -> Steps[dict[str, bool]]:
        """Delete the documents that no other call is writing; return which existed, by keys."""
        entries: list[_Stored] = []
        done: dict[str, bool] = {}
        found = yield from self._read_manifests(ids)
        for doc_id in ids.values():
            manifest, record = yield from self._as_stored(doc_id, found, may_be_lost=True)
            if found[manifest_key(manifest.key)] is None and not manifest.unfinished:
                done[manifest.key] = False
            elif claims.is_free(manifest):
                # Without a current version, no query sees the document any more, and adding it
                # again after a crash does not take it for complete.
                gone = replace(manifest, current=None, unfinished=manifest.versions)
                entries.append((gone, record))
        claimed = yield from claims.claim(entries)
        if claimed:
            yield from self._remove_unfinished(list(claimed.values()), claims)
            yield from self._forget_texts(claimed.values())
            yield from self._delete_records(map(answers_key, claimed))
        removed = yield from claims.update(claimed.values(), remove=True)
        return {**done, **dict.fromkeys(removed, True)}

    # Docstore

    def manifests(self, keys: Iterable[str]) -> Steps[list[Manifest | None]]:
        """Read the manifests of documents by their keys; None for unknown documents."""
        records = yield from self.records(map(manifest_key, keys))
        return [Manifest.from_document(one, key) if one else None for key, one in records.items()]

    def _adopted_vectors(self, manifest: Manifest, version: Version) -> Steps[list[str]]:
        """Read the ids of the vectors that a version was adopted from."""
        records = yield from self.records(version.vectors_keys(manifest.key))
        pages = (  # without pages that an interrupted call did not write
            read_adopted(record, key, manifest) for key, record in records.items() if record
        )
        return list(itertools.chain.from_iterable(pages))

    def records(self, keys: Iterable[str]) -> Steps[dict[str, Document | None]]:
        """Read records; a CorruptRecordError if one of them cannot be read."""
        found = yield from self._read_each(keys)
        return {key: readable(record) for key, record in found.items()}

    def _read_each(self, keys: Iterable[str]) -> Steps[dict[str, Record]]:
        found: dict[str, Record] = {}
        for some in batches(keys, self.vectors.batch_size):
            found |= yield from read_records(self.docstore, some)
        return found

    def set_records(self, records: Iterable[tuple[str, Document]]) -> Steps[None]:
        """Write records to the docstore."""
        with during("writing to the docstore"):
            for some in batches(records, self.vectors.batch_size):
                yield from call_to_the_end(self.docstore.mset, self.docstore.amset, some)

    def _delete_records(self, keys: Iterable[str]) -> Steps[None]:
        with during("deleting from the docstore"):
            for some in batches(keys, self.vectors.batch_size):
                yield from call_to_the_end(self.docstore.mdelete, self.docstore.amdelete, some)

    def _read_manifests(self, keys: Iterable[str], *more: str) -> Steps[dict[str, Record]]:
        found = yield from self._read_each([*map(manifest_key, keys), *more, NAMESPACES])
        refuse_namespaces(found[NAMESPACES])
        return found

    def _as_stored(
        self, doc_id: str, found: Mapping[str, Record], *, may_be_lost: bool = False
    ) -> Steps[_Stored]:
        """Get what the docstore has for a document from the records that were read."""
        key = document_key(doc_id)
        record = found[manifest_key(key)]
        manifest = readable_manifest(record, manifest_key(key))
        if manifest is None:  # versions that a lost manifest listed are found by their keys
            is_lost = record is not None or may_be_lost
            versions = (yield from stored_versions(self.docstore, key)) if is_lost else []
            manifest = Manifest(doc_id, unfinished=versions)
        return manifest, record if isinstance(record, Document) else None

    # Records of texts, to find documents with the same text

    def _stored(
        self, documents: Sequence[DocumentVersion]
    ) -> Steps[tuple[list[_Stored], dict[str, str]]]:
        """Read what is stored of documents; also which have, or had, their texts, by digest."""
        texts = {text_key(one.text_digest): one.text_digest for one in documents if one.text_digest}
        found = yield from self._read_manifests((one.key for one in documents), *texts)
        owners = {
            text: str(record.metadata.get(DOC_ID))
            for key, text in texts.items()
            if isinstance(record := found[key], Document)
        }
        stored: list[_Stored] = []
        for document in documents:
            stored += [(yield from self._as_stored(document.doc_id, found))]
        return stored, owners

    def _record_texts(
        self, documents: Sequence[DocumentVersion], owners: Mapping[str, str], owned: Container[str]
    ) -> Steps[None]:
        """Record the texts of owned documents; note documents whose text another one has."""
        texts = {document.doc_id: document.text_digest for document in documents}
        others = [document_key(owner) for owner in owners.values() if owner not in texts]
        for manifest in (yield from self.manifests(others)):
            if manifest and manifest.current:
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
            if owners.get(text) != owner and document_key(owner) in owned
        )

    def _forget_texts(self, manifests: Iterable[Manifest]) -> Steps[None]:
        """Remove the records of texts that name these documents."""
        texts = [(text_key(one.text_digest), one.doc_id) for one in manifests if one.text_digest]
        found = yield from self.records(dict(texts))
        yield from self._delete_records(
            key for key, owner in texts if (own := found[key]) and own.metadata.get(DOC_ID) == owner
        )

    # Both stores

    def _is_stored(self, document: DocumentVersion, manifest: Manifest) -> bool:
        """True if a document is stored in this version, completely and embedded by this model."""
        return (
            manifest.current == document.version
            and document.version not in manifest.unfinished
            and not self.is_of_another_model(manifest)
        )

    def is_of_another_model(self, manifest: Manifest) -> bool:
        """True if a document's vectors are known to be of another model than this writer's."""
        return bool(manifest.model and self.model) and manifest.model != self.model

    def _without_vectors(
        self, documents: Sequence[DocumentVersion], stored: Sequence[_Stored]
    ) -> Steps[set[str]]:
        """Look for a few vectors of each stored document; return the keys of those lacking one."""
        samples: dict[str, str] = {}
        for document, (manifest, _) in zip(documents, stored, strict=True):
            if self._is_stored(document, manifest):
                name, chunks, adopted = document.version
                few = {0, chunks // 2, chunks - 1} if chunks and not adopted else ()
                for index in few:
                    samples[vector_id(document.key, name, index)] = document.key
        missing: set[str] = set()
        for batch in batches(samples, self.vectors.batch_size):
            existing = yield from self.vectors.existing(batch)
            if existing is None:
                return set()
            missing |= {samples[vector] for vector in batch if vector not in existing}
        return missing

    def _write_new(
        self, new: Sequence[tuple[DocumentVersion, _Stored]], claims: Claims, *, force: bool
    ) -> Steps[dict[str, Manifest]]:
        """Write documents that no other call is writing; return their new manifests by key."""
        claimed = yield from claims.claim(
            (replace(one, unfinished=[*_others(one.unfinished, document), document.version]), old)
            for document, (one, old) in new
        )
        mine = [(document, one) for document, (one, _) in new if document.key in claimed]
        anew = {document.key for document, one in mine if force or self.is_of_another_model(one)}
        kept = yield from self._kept(mine, anew)
        known = yield from self._known(pair for pair in mine if pair[0].key not in anew)
        yield from self.set_records(
            itertools.chain.from_iterable(document_records(document) for document, _ in mine)
        )
        chunks = itertools.chain.from_iterable(chunk_vectors(document) for document, _ in mine)
        yield from self.vectors.add(chunks, kept, known, claims)
        yield from self._forget_texts(
            manifest for document, manifest in mine if manifest.text_digest != document.text_digest
        )
        manifests = (
            Manifest(
                doc_id=document.doc_id,
                current=document.version,
                unfinished=_others(manifest.versions, document),
                owner=claimed[document.key].owner,
                model=self.model,
                length=document.length,
                text_digest=document.text_digest,
                metadata=document.metadata,
                rules=document.rules,
                header=document.header,
            )
            for document, manifest in mine
        )
        return (yield from claims.update(manifests))

    def _finish(self, manifests: Sequence[Manifest], claims: Claims) -> Steps[dict[str, Manifest]]:
        """Remove what manifests list as unfinished, and release the documents; see `update`."""
        yield from self._remove_unfinished([one for one in manifests if one.unfinished], claims)
        ended = (replace(one, unfinished=(), owner="") for one in manifests)
        return (yield from claims.update(ended))

    def _remove_unfinished(self, manifests: Sequence[Manifest], claims: Claims) -> Steps[None]:
        """Remove everything of the versions that manifests list as unfinished."""
        vectors: list[tuple[str, Iterable[str]]] = []
        records: list[tuple[str, Iterable[str]]] = []
        for manifest in manifests:
            key = manifest.key
            # If the index was adopted again, its vectors still belong to the user.
            current = manifest.current if manifest.current and manifest.current.adopted else None
            kept = set((yield from self._adopted_vectors(manifest, current)) if current else ())
            for version in manifest.unfinished:
                adopted = yield from self._adopted_vectors(manifest, version)
                gone = [vector for vector in adopted if vector not in kept]
                vectors += [(key, version.vector_ids(key)), (key, [] if current else gone)]
                # The list of vectors is removed last: it says what is left to do.
                records += [(key, map(adopted_key, gone)), (key, version.docstore_keys(key))]
        for remove, removed in ((self.vectors.delete, vectors), (self._delete_records, records)):
            pairs = ((key, one) for key, some in removed for one in some)
            for batch in batches(pairs, self.vectors.batch_size):
                yield from claims.renew()  # another call may have taken a document over
                yield from remove([one for key, one in batch if key in claims.held])

    def _kept(
        self, new: Iterable[tuple[DocumentVersion, Manifest]], anew: set[str]
    ) -> Steps[set[str]]:
        """Find vectors that need not be added; delete those of documents to embed ``anew``."""
        kept: set[str] = set()
        for document, manifest in new:
            if document.version not in manifest.versions:
                continue
            for some in batches(document.version.vector_ids(document.key), self.vectors.batch_size):
                existing = None
                if document.key not in anew:
                    existing = yield from self.vectors.existing(some)
                if existing is None:  # the store might keep both vectors of an id
                    yield from self.vectors.delete(some)
                else:
                    kept.update(existing)
        return kept

    def _known(self, new: Iterable[tuple[DocumentVersion, Manifest]]) -> Steps[dict[str, str]]:
        """Find vectors of other versions of documents, by the digests of their embedded texts."""
        ids: list[Iterable[str]] = []
        for document, manifest in new if self.vectors.adapter.can_read_vectors else ():
            for version in () if document.adopted else _others(manifest.versions, document):
                ids.append(version.vector_ids(manifest.key))
                ids.append((yield from self._adopted_vectors(manifest, version)))
        known: dict[str, str] = {}
        for some in batches(itertools.chain.from_iterable(ids), self.vectors.batch_size):
            existing = yield from self.vectors.existing(some)
            known.update((digest(text), vector) for vector, text in (existing or {}).items())
        return known


def readable_manifest(record: Record, key: str) -> Manifest | None:
    """Read the manifest of a record; None if there is no record or it cannot be read."""
    try:
        return Manifest.from_document(record, key) if isinstance(record, Document) else None
    except CorruptRecordError:
        return None


def _others(versions: Iterable[Version], document: DocumentVersion) -> list[Version]:
    return [version for version in versions if version != document.version]
