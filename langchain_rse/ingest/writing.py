"""Writes documents to the docstore and the vector store, so that the two never disagree."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

from langchain_core.documents import Document

from langchain_rse._sync import Steps, batches
from langchain_rse.errors import AdoptionError, EmbeddingError
from langchain_rse.ingest.ownership import Ownership
from langchain_rse.ingest.records import Records, Stored
from langchain_rse.ingest.replacing import (
    ExpectedVersions,
    check_adopted,
    check_expected,
    is_unrelated,
    may_be_piece,
    refuse_piece,
)
from langchain_rse.ingest.vectors import Vectors
from langchain_rse.stores.changing import DocStore
from langchain_rse.stores.pairing import Model, check_pair
from langchain_rse.stores.records import (
    DocumentVersion,
    Manifest,
    Version,
    adopted_key,
    answers_key,
    chunk_vectors,
    digest,
    document_key,
    document_records,
    vector_id,
)
from langchain_rse.stores.whole_documents import read_text
from langchain_rse.text.quoting import first_few


class _Replacement(NamedTuple):
    """A document to be written, and what it replaces."""

    document: DocumentVersion  # its version is that of the write, once this is announced
    stored: Stored


class _Removal(NamedTuple):
    """Ids of vectors, or keys of records, of one document that are to be removed."""

    key: str  # the document's
    items: Iterable[str]


@dataclass
class Writer:
    """Writes, replaces and deletes documents in both stores, each by one call at a time.

    A call that is stopped for longer than its lease loses its document to another one, and goes on
    later without knowing. It can do no harm: it writes and removes only what belongs to writes that
    the other call does not use, or writes what the other one would have written as well; and it
    removes later what it has written in vain.
    """

    vectors: Vectors
    records: Records
    model: Model = field(default_factory=Model)  # the one that embeds the chunks
    # The versions that this writer has begun to write, by the keys of their documents.
    _begun: dict[str, list[Version]] = field(default_factory=dict, init=False)
    # What is wrong with vectors of documents that the current call has left out, by their ids.
    _refused: dict[str, str] = field(default_factory=dict, init=False)
    # Ids of documents that have no sentence in common with what they replace.
    unrelated: set[str] = field(default_factory=set)

    @property
    def docstore(self) -> DocStore:
        """The docstore that the records are in."""
        return self.records.docstore

    def write(
        self,
        documents: Sequence[DocumentVersion],
        expected: ExpectedVersions | None = None,
        *,
        force: bool = False,
        repair: bool = False,
    ) -> Steps[None]:
        """Write the documents that are not stored in this version, and finish interrupted calls.

        A manifest announces the version before its records and vectors are written; the next
        makes it current; then the former version is removed. A version that an interrupted call
        has announced is written to its end. Chunks whose embedded text has a vector in another
        version of these documents are written with that vector.

        Args:
            documents: Documents with different ids.
            expected: The version that each document must have when it is written. If None, any
                version is replaced, but not by what looks like a later piece of it.
            force: Write and embed unchanged documents as well.
            repair: Write unchanged documents as well, and embed chunks that lack a vector.

        Raises:
            UnexpectedVersionError: If a document does not have the expected version.
            AdoptionError: If an adopted document was added as well, or its vectors are gone.
            EmbeddingError: If vectors of documents cannot be searched. All others are written.
            ValueError: If a document looks like a later piece of what is stored.
        """
        self.model = yield from check_pair(self.docstore, self.vectors.vectorstore, force=force)
        remaining = {document.key: document for document in documents}
        with Ownership(self.docstore, self.vectors.batch_size) as ownership:
            while remaining:
                steps = self._write_free(
                    list(remaining.values()), expected, ownership, force=force, repair=repair
                )
                for key in (yield from ownership.guarded(steps)):
                    del remaining[key]
                if remaining:
                    yield from ownership.wait(document.doc_id for document in remaining.values())
        if self._refused:
            self._raise_refused()

    def delete(self, ids: Sequence[str]) -> Steps[list[str]]:
        """Delete documents, the vectors first; return the ids of those that existed."""
        if isinstance(ids, str):
            raise TypeError(f"ids must be a list of ids, not one string; use [{ids!r}]")
        yield from check_pair(self.docstore, self.vectors.vectorstore, record=False)
        remaining = {document_key(doc_id): doc_id for doc_id in ids}
        existed: dict[str, bool] = {}  # by id
        with Ownership(self.docstore, self.vectors.batch_size) as ownership:
            while remaining:
                steps = self._delete_free(remaining, ownership)
                deleted = yield from ownership.guarded(steps)
                for key, was_there in deleted.items():
                    existed[remaining.pop(key)] = was_there
                if remaining:
                    yield from ownership.wait(remaining.values())
        return [doc_id for doc_id in dict.fromkeys(ids) if existed[doc_id]]

    def clean(
        self,
        manifest: Manifest,
        record: Document | None,
        *,
        vectors: Iterable[str] = (),
        records: Iterable[str] = (),
    ) -> Steps[None]:
        """Remove a document's unfinished versions; also its manifest if no version is current.

        Nothing is removed if another call has changed the document since it was read.

        Args:
            manifest: The manifest to write first.
            record: The manifest's record as it was read; None if there was none.
            vectors: Ids of further vectors to remove, which belong to no version.
            records: Keys of further records to remove.
        """
        with Ownership(self.docstore, self.vectors.batch_size) as ownership:
            claimed = yield from ownership.claim([(manifest, record)])
            if claimed:
                steps = self._clean_owned(list(claimed.values()), vectors, records, ownership)
                yield from ownership.guarded(steps)

    # Writing

    def _write_free(
        self,
        documents: Sequence[DocumentVersion],
        expected: ExpectedVersions | None,
        ownership: Ownership,
        *,
        force: bool,
        repair: bool,
    ) -> Steps[list[str]]:
        """Write the documents that no other call is writing; return the keys of those now done."""
        replacements = yield from self._read_stored(documents)
        incomplete: set[str] = set()
        if repair:
            incomplete.update(document.key for document in documents)
        elif not force:
            incomplete = yield from self._without_vectors(replacements)

        done: list[str] = []
        new: list[_Replacement] = []
        interrupted: list[tuple[Manifest, Document | None]] = []
        for replacement in replacements:
            document, stored = replacement
            manifest = stored.manifest
            is_free = ownership.is_free(manifest)
            is_unchanged = not force and self._is_stored(document, manifest)
            is_complete = is_unchanged and document.key not in incomplete
            if is_free and not is_complete:
                new.append(replacement)
            elif is_unchanged:
                self.vectors.progress.advance(len(document.chunks))
                manifest = manifest.removing(self._written_in_vain(manifest))
                if is_free and (manifest.unfinished or manifest.owner):
                    interrupted.append((manifest, stored.record))
                else:
                    done.append(document.key)

        if new:
            yield from self._check(new, expected)
        written = yield from self._write_new(new, ownership, force=force)
        claimed = yield from ownership.claim(interrupted)
        # A document that another call took over is not done: this call restores what it removed.
        finished = yield from self._finish([*written.values(), *claimed.values()], ownership)
        return [*done, *finished]

    def _check(
        self, replacements: Sequence[_Replacement], expected: ExpectedVersions | None
    ) -> Steps[None]:
        """Refuse documents that must not replace what is stored.

        This holds until the documents are claimed, since a claim fails if the manifest was changed.
        """
        adopted: list[DocumentVersion] = []
        for document, stored in replacements:
            manifest = stored.manifest
            if expected is not None:
                check_expected(document, manifest, expected)
            elif document.adopted:
                check_adopted(document, manifest)
                adopted.append(document)
            elif may_be_piece(document, manifest):
                stored_text = yield from read_text(self.docstore, manifest)
                if stored_text is not None:  # else it is damaged, and replacing it repairs it
                    refuse_piece(document, stored_text)
                    if is_unrelated(document, stored_text):
                        self.unrelated.add(document.doc_id)
        if adopted:
            yield from self._check_vectors_of(adopted)

    def _check_vectors_of(self, adopted: Sequence[DocumentVersion]) -> Steps[None]:
        """Refuse adopted documents whose vectors another call has deleted meanwhile."""
        doc_ids: dict[str, str] = {}  # by the first vector of each document
        for document in adopted:
            doc_ids[document.adopted[0].id] = document.doc_id
        existing = yield from self.vectors.existing(list(doc_ids))
        if existing is None:
            return
        gone = [repr(doc_id) for vector, doc_id in doc_ids.items() if vector not in existing]
        if gone:
            raise AdoptionError(
                f"document(s) {first_few(gone)} were deleted while the index was read; adopt again"
            )

    def _write_new(
        self, replacements: Sequence[_Replacement], ownership: Ownership, *, force: bool
    ) -> Steps[dict[str, Manifest]]:
        """Write documents that no other call is writing; return their new manifests by key."""
        to_embed: set[str] = set()  # keys of documents of which no vector is used again
        for document, stored in replacements:
            if force or self.is_of_another_model(stored.manifest):
                to_embed.add(document.key)
        replacements, kept = yield from self._choose_writes(replacements, to_embed)

        announcing: list[tuple[Manifest, Document | None]] = []
        for document, stored in replacements:
            announcing.append((self._announcement(document, stored.manifest), stored.record))
        claimed = yield from ownership.claim(announcing)
        owned = [each for each in replacements if each.document.key in claimed]
        for document, _ in owned:
            self._begun.setdefault(document.key, []).append(document.version)

        reusable = yield from self._reusable_vectors(owned, to_embed)
        yield from self.records.write(_each_record(owned))
        refused = yield from self.vectors.add(
            _each_chunk(owned), kept, reusable, ownership, self.model.dimensions
        )
        self._refused.update(refused)

        manifests: list[Manifest] = []
        for document, stored in owned:
            announced = claimed[document.key]
            if document.doc_id in refused:  # it stays as it was
                manifests.append(announced.removing(()))
                continue
            new_manifest = Manifest(
                doc_id=document.doc_id,
                current=document.version,
                unfinished=announced.unfinished,
                owner=announced.owner,
                model=self.model.id,
                length=document.length,
                text_digest=document.text_digest,
                metadata=document.metadata,
                rules=document.rules,
                header=document.header,
                counts_in_source=document.counts_in_source,
            )
            former = stored.manifest.current
            manifests.append(new_manifest.removing([former] if former else []))
        return (yield from ownership.update(manifests))

    def _announcement(self, document: DocumentVersion, stored: Manifest) -> Manifest:
        """The manifest that announces a version, before anything of it is written."""
        announced = replace(stored, writing=None)
        others = [*self._written_in_vain(stored)]
        if stored.writing is not None:
            others.append(stored.writing)
        announced = announced.removing(version for version in others if version != document.version)
        return replace(announced, writing=document.version)

    def _written_in_vain(self, manifest: Manifest) -> list[Version]:
        """The versions that this writer has begun and that another call has removed since.

        This writer may have written more of them before it noticed.
        """
        begun = self._begun.get(manifest.key, [])
        return [version for version in begun if version not in manifest.versions]

    def _finish(
        self, manifests: Sequence[Manifest], ownership: Ownership
    ) -> Steps[dict[str, Manifest]]:
        """Remove unfinished versions and give up the documents; return those still owned by key."""
        unfinished = [manifest for manifest in manifests if manifest.unfinished]
        yield from self._remove_unfinished(unfinished, ownership)
        finished: list[Manifest] = []
        without_version: list[Manifest] = []  # of which nothing could be written
        for manifest in manifests:
            if manifest.current is None:
                without_version.append(manifest)
            else:
                finished.append(replace(manifest, unfinished=(), owner=""))
        removed = yield from ownership.update(without_version, remove=True)
        return {**removed, **(yield from ownership.update(finished))}

    def _raise_refused(self) -> None:
        """Raise an error that names the documents that were left out."""
        refused, self._refused = self._refused, {}
        problems = [f"{doc_id!r} ({problem})" for doc_id, problem in refused.items()]
        raise EmbeddingError(
            f"{len(refused)} document(s) were not written, all others were: {first_few(problems)}. "
            "The embedding model returned vectors that cannot be searched; change the text or the "
            "model, and add the document(s) again"
        )

    # What is stored

    def _read_stored(self, documents: Sequence[DocumentVersion]) -> Steps[list[_Replacement]]:
        """Read what the docstore has for these documents."""
        stored_documents = yield from self.records.stored([each.doc_id for each in documents])
        pairs = zip(documents, stored_documents, strict=True)
        return [_Replacement(document, stored) for document, stored in pairs]

    def _is_stored(self, document: DocumentVersion, manifest: Manifest) -> bool:
        """True if a document is stored in this version, completely and embedded by this model."""
        return (
            document.version.has_content_of(manifest.current)
            and manifest.writing != manifest.current
            and not self.is_of_another_model(manifest)
        )

    def is_of_another_model(self, manifest: Manifest) -> bool:
        """True if a document's vectors are known to be of another model than this writer's."""
        if not manifest.model or not self.model.id:
            return False
        return manifest.model != self.model.id

    def _without_vectors(self, replacements: Sequence[_Replacement]) -> Steps[set[str]]:
        """Look for a few vectors of each stored document; return the keys of those lacking one."""
        samples: dict[str, str] = {}  # keys of documents by ids of vectors
        for document, stored in replacements:
            current = stored.manifest.current
            if current is None or not self._is_stored(document, stored.manifest):
                continue
            name, chunks, adopted = current
            if chunks and not adopted:
                for index in (0, chunks // 2, chunks - 1):
                    samples[vector_id(document.key, name, index)] = document.key
        missing: set[str] = set()
        for batch in batches(samples, self.vectors.batch_size):
            existing = yield from self.vectors.existing(batch)
            if existing is None:
                return set()
            missing.update(samples[vector] for vector in batch if vector not in existing)
        return missing

    # Versions and vectors of interrupted calls

    def _choose_writes(
        self, replacements: Sequence[_Replacement], to_embed: set[str]
    ) -> Steps[tuple[list[_Replacement], set[str]]]:
        """Give each document the version to write; return also the ids of vectors that are there.

        It is one that another call has begun, or that lacks vectors, if the store can tell which;
        else a new one, as it is for documents ``to_embed``.
        """
        chosen: list[_Replacement] = []
        kept: set[str] = set()
        for document, stored in replacements:
            version = None
            if document.key not in to_embed:
                version = _begun_version(document, stored.manifest)
            if version is not None:
                existing = yield from self._existing_vectors(version.vector_ids(document.key))
                if existing is None:
                    version = None
                else:
                    kept.update(existing)
            if version is None:
                version = document.version.in_new_write()
            chosen.append(_Replacement(replace(document, version=version), stored))
        return chosen, kept

    def _existing_vectors(self, vectors: Iterable[str]) -> Steps[set[str] | None]:
        """Those of the vectors that are there; None if the store cannot tell."""
        all_existing: set[str] = set()
        for ids in batches(vectors, self.vectors.batch_size):
            existing = yield from self.vectors.existing(ids)
            if existing is None:
                return None
            all_existing.update(existing)
        return all_existing

    def _reusable_vectors(
        self, replacements: Sequence[_Replacement], to_embed: set[str]
    ) -> Steps[dict[str, str]]:
        """Find vectors of other versions of documents, by the digests of their embedded texts."""
        if not self.vectors.adapter.can_read_vectors:
            return {}
        vectors: list[Iterable[str]] = []
        for document, stored in replacements:
            if document.adopted or document.key in to_embed:
                continue
            manifest = stored.manifest
            for version in manifest.versions:
                if version == document.version:
                    continue
                vectors.append(version.vector_ids(document.key))
                vectors.append((yield from self.records.adopted_vectors(manifest, version)))
        reusable: dict[str, str] = {}
        for ids in batches(itertools.chain.from_iterable(vectors), self.vectors.batch_size):
            existing = yield from self.vectors.existing(ids)
            if existing is not None:
                for vector, text in existing.items():
                    reusable[digest(text)] = vector
        return reusable

    # Removing

    def _delete_free(self, ids: Mapping[str, str], ownership: Ownership) -> Steps[dict[str, bool]]:
        """Delete the documents that no other call is writing; return which existed, by keys."""
        existed: dict[str, bool] = {}
        deleting: list[tuple[Manifest, Document | None]] = []
        stored_documents = yield from self.records.stored(list(ids.values()), may_be_lost=True)
        for stored in stored_documents:
            manifest = stored.manifest
            if not stored.is_known and not manifest.unfinished:
                existed[manifest.key] = False
            elif ownership.is_free(manifest):
                # Without a current version, no query sees the document any more, and adding it
                # again after a crash does not take it for complete.
                without_current = replace(manifest, current=None).removing(manifest.versions)
                deleting.append((without_current, stored.record))
        claimed = yield from ownership.claim(deleting)
        if claimed:
            yield from self._remove_unfinished(list(claimed.values()), ownership)
            yield from self.records.delete(map(answers_key, claimed))
        removed = yield from ownership.update(claimed.values(), remove=True)
        return {**existed, **dict.fromkeys(removed, True)}

    def _clean_owned(
        self,
        manifests: Sequence[Manifest],
        vectors: Iterable[str],
        records: Iterable[str],
        ownership: Ownership,
    ) -> Steps[None]:
        """Do the work of `clean`, for the one document that was claimed."""
        yield from self.vectors.delete(vectors)
        yield from self.records.delete(records)
        if manifests[0].current is not None:
            yield from self._finish(manifests, ownership)
        else:
            yield from self._remove_unfinished(manifests, ownership)
            yield from ownership.update(manifests, remove=True)

    def _remove_unfinished(
        self, manifests: Sequence[Manifest], ownership: Ownership
    ) -> Steps[None]:
        """Remove everything of the versions that manifests list as unfinished."""
        vectors: list[_Removal] = []
        records: list[_Removal] = []
        adopted_records: list[_Removal] = []
        removed_names: set[str] = set()
        for manifest in manifests:
            key = manifest.key
            current = manifest.current
            is_adopted = current is not None and bool(current.adopted)
            still_adopted: set[str] = set()
            if current is not None and is_adopted:
                still_adopted.update((yield from self.records.adopted_vectors(manifest, current)))
            for version in manifest.unfinished:
                adopted = yield from self.records.adopted_vectors(manifest, version)
                former = [vector for vector in adopted if vector not in still_adopted]
                vectors.append(_Removal(key, version.vector_ids(key)))
                if not is_adopted:  # if the index was adopted again, its vectors stay the user's
                    vectors.append(_Removal(key, former))
                # The version's list of vectors is removed last: it says what remains to be done.
                adopted_records.append(_Removal(key, map(adopted_key, former)))
                records.append(_Removal(key, version.docstore_keys(key)))
                removed_names.add(version.name)
        yield from self._remove_owned(self.vectors.delete, vectors, ownership)
        delete_adopted = partial(self.records.delete_adopted, versions=removed_names)
        yield from self._remove_owned(delete_adopted, adopted_records, ownership)
        yield from self._remove_owned(self.records.delete, records, ownership)

    def _remove_owned(
        self,
        remove: Callable[[Iterable[str]], Steps[None]],
        removals: Sequence[_Removal],
        ownership: Ownership,
    ) -> Steps[None]:
        """Remove items in batches, except those of documents that another call has taken over."""
        for batch in batches(_each_item(removals), self.vectors.batch_size):
            yield from ownership.renew()
            yield from remove([item for key, item in batch if key in ownership.owned])


def _begun_version(document: DocumentVersion, manifest: Manifest) -> Version | None:
    """The stored or announced version that a document can be written to; None if there is none."""
    for version in (manifest.current, manifest.writing):
        if document.version.has_content_of(version):
            return version
    return None


def _each_record(replacements: Iterable[_Replacement]) -> Iterator[tuple[str, Document]]:
    for document, _ in replacements:
        yield from document_records(document)


def _each_chunk(replacements: Iterable[_Replacement]) -> Iterator[Document]:
    for document, _ in replacements:
        yield from chunk_vectors(document)


def _each_item(removals: Iterable[_Removal]) -> Iterator[tuple[str, str]]:
    for key, items in removals:
        for item in items:
            yield key, item
