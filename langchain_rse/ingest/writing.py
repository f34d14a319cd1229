"""Writes documents to both stores so that the stores always agree.

Each write of a document creates a version with a unique name:

1. The manifest announces the version.
2. The version's records are written, and then, if it is still announced, the record that describes
   it. The vectors follow.
3. The manifest makes the version current and turns the previous version into garbage.
4. Garbage is removed from both stores by version name, then from the manifest.

If two calls write the same document, the one that finishes last wins. A call that fails, is killed
or pauses for a day can neither block nor harm another call, because it only touches its own version
and garbage. The next write of the document cleans up announcements that are older than
`ANNOUNCEMENT_LIFETIME`.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from langchain_core.documents import Document

from langchain_rse._sync import Steps, batches, compute, compute_to_the_end
from langchain_rse.errors import AdoptionError, EmbeddingError, MissingRecordError
from langchain_rse.ingest.docstore import DocStoreWriter, StoredManifest
from langchain_rse.ingest.replacing import (
    ExpectedVersions,
    UnexpectedVersionError,
    check_adopted,
    is_expected,
)
from langchain_rse.ingest.vectors import Vectors
from langchain_rse.stores.compare_and_set import DocStore, read_records
from langchain_rse.stores.pairing import Model, check_pair
from langchain_rse.stores.records import (
    VERSION,
    DocumentVersion,
    Manifest,
    Version,
    adopted_key,
    adopted_records,
    answers_key,
    chunk_records,
    chunk_vectors,
    describe,
    digest,
    vector_id,
)
from langchain_rse.text.quoting import first_few

# A version whose announcement was removed is written again, this many times at most.
_ATTEMPTS = 10


class _Write(NamedTuple):
    """A document to write, and the stored state that it replaces."""

    document: DocumentVersion
    stored: StoredManifest


_Writes = Mapping[str, _Write]
"""Writes by document key."""


@dataclass
class Writer:
    """Writes, replaces and deletes documents in both stores."""

    vectors: Vectors
    records: DocStoreWriter
    model: Model = field(default_factory=Model)  # the embedding model
    # Problems with the vectors of documents that this call did not write, by document id.
    _refused: dict[str, str] = field(default_factory=dict, init=False)

    @property
    def docstore(self) -> DocStore:
        """The docstore of the records."""
        return self.records.docstore

    def write(
        self,
        documents: Sequence[DocumentVersion],
        expected: ExpectedVersions | None = None,
        *,
        force: bool = False,
        repair: bool = False,
    ) -> Steps[None]:
        """Write new and changed documents, and remove their garbage.

        A chunk is not embedded again if another version of its document, finished or not, already
        has a vector of the same text.

        Args:
            documents: Documents with distinct ids.
            expected: The version that each document must have when it is written. If None, any
                version is replaced.
            force: Write and embed unchanged documents as well.
            repair: Write unchanged documents as well, and embed chunks without a vector.

        Raises:
            UnexpectedVersionError: If a document does not have the expected version.
            AdoptionError: If an adopted document was also added, or its vectors were deleted.
            EmbeddingError: If vectors of some documents are unusable. All others are written.
            MissingRecordError: If the docstore loses writes.
        """
        self.model = yield from check_pair(self.docstore, self.vectors.vectorstore, force=force)
        pending = {document.key: document for document in documents}
        for _ in range(_ATTEMPTS):
            writes = yield from self._choose_writes(pending.values(), force=force, repair=repair)
            if not writes:
                break
            yield from self._check(writes, expected)
            done = yield from self._write_all(writes, expected, force=force)
            pending = {key: pending[key] for key in writes if key not in done}
            if not pending:
                break
        else:
            names = first_few(repr(document.doc_id) for document in pending.values())
            raise MissingRecordError(
                f"document(s) {names} were removed {_ATTEMPTS} times while being written: another "
                "process keeps deleting them, or the docstore evicts records"
            )
        if self._refused:
            self._raise_refused()

    def delete(self, ids: Sequence[str]) -> Steps[list[str]]:
        """Delete documents, vectors first; return the ids of documents that existed."""
        if isinstance(ids, str):
            raise TypeError(f"ids must be a list of ids, not one string; use [{ids!r}]")
        yield from check_pair(self.docstore, self.vectors.vectorstore, record=False)
        read = self.records.stored_manifests
        stored = yield from compute(read, ids, may_be_lost=True)
        existing = [each for each in stored if each.is_known or each.manifest.versions]
        # Without a current version, queries no longer see the document, and adding it again after a
        # crash does not mistake it for complete.
        changed = yield from compute_to_the_end(
            self.records.change_manifests, existing, _all_garbage
        )
        yield from self.remove_garbage(changed.values())
        yield from compute_to_the_end(self.records.delete, map(answers_key, changed))
        return [each.manifest.doc_id for each in existing]

    def remove_garbage(self, stored: Iterable[StoredManifest]) -> Steps[None]:
        """Remove the versions that manifests list as garbage, then clear the list."""
        with_garbage = [each for each in stored if each.manifest.garbage]
        if not with_garbage:
            return
        garbage = {each.manifest.key: each.manifest.garbage for each in with_garbage}
        versions: list[tuple[Manifest, Version]] = []
        for manifest, _, _ in with_garbage:
            versions += ((manifest, version) for version in manifest.garbage)
        yield from self.remove_versions(versions)

        def without_garbage(manifest: Manifest) -> Manifest:
            return manifest.without_garbage(garbage[manifest.key])

        yield from compute_to_the_end(self.records.change_manifests, with_garbage, without_garbage)

    # What has to be written

    def _choose_writes(
        self, documents: Iterable[DocumentVersion], *, force: bool, repair: bool
    ) -> Steps[dict[str, _Write]]:
        """Choose the documents to write; remove leftovers of the unchanged ones."""
        by_id = {document.doc_id: document for document in documents}
        stored_manifests = yield from compute(self.records.stored_manifests, by_id)
        writes: dict[str, _Write] = {}
        unchanged: dict[str, _Write] = {}
        for stored in stored_manifests:
            document = by_id[stored.manifest.doc_id]
            is_stored = self._is_stored(document, stored.manifest)
            target = unchanged if is_stored and not force and not repair else writes
            target[document.key] = _Write(document, stored)
        for key in (yield from self._find_incomplete(unchanged)):
            writes[key] = unchanged.pop(key)

        leftovers: list[StoredManifest] = []
        for document, stored in unchanged.values():
            self.vectors.advance(len(document.chunks))
            if stored.manifest.garbage or stored.manifest.abandoned():
                leftovers.append(stored)
        changed = yield from compute_to_the_end(
            self.records.change_manifests, leftovers, without_abandoned
        )
        yield from self.remove_garbage(changed.values())
        return writes

    def _is_stored(self, document: DocumentVersion, manifest: Manifest) -> bool:
        """True if this version of a document is stored, embedded by this model."""
        is_same = document.version.has_content_of(manifest.current)
        return is_same and not manifest.is_damaged and not self.is_of_another_model(manifest)

    def is_of_another_model(self, manifest: Manifest) -> bool:
        """True if a document's vectors are known to come from another model."""
        if not manifest.model or not self.model.id:
            return False
        return manifest.model != self.model.id

    def _find_incomplete(self, writes: _Writes) -> Steps[set[str]]:
        """Check a few vectors of each document; return the keys of documents that miss one."""
        vectors: dict[str, str] = {}  # document keys by vector id
        for key, (_, stored) in writes.items():
            current = stored.manifest.current
            if current is not None and current.chunks and not current.adopted:
                for number in (0, current.chunks // 2, current.chunks - 1):
                    vectors[vector_id(key, current.name, number)] = key
        incomplete = yield from self._find_unrecorded(writes)
        for batch in batches(vectors, self.vectors.batch_size):
            existing = yield from self.vectors.existing(batch)
            if existing is None:
                break
            incomplete.update(vectors[vector] for vector in batch if vector not in existing)
        return incomplete

    def _find_unrecorded(self, writes: _Writes) -> Steps[set[str]]:
        """Find adopted documents whose vectors have no record of the current version."""
        keys: dict[str, str] = {}  # document keys by record key
        for key, (document, _) in writes.items():
            if document.adopted:
                for vector in (document.adopted[0], document.adopted[-1]):
                    keys[adopted_key(vector.id)] = key
        unrecorded: set[str] = set()
        for batch in batches(keys, self.records.batch_size):
            records = yield from compute(read_records, self.docstore, batch)
            for record_key, record in records.items():
                current = writes[keys[record_key]].stored.manifest.current
                named = record.metadata.get(VERSION) if isinstance(record, Document) else None
                if current is not None and named != current.name:
                    unrecorded.add(keys[record_key])
        return unrecorded

    def _check(self, writes: _Writes, expected: ExpectedVersions | None) -> Steps[None]:
        """Refuse documents that must not replace the stored ones."""
        adopted: list[DocumentVersion] = []
        for document, stored in writes.values():
            manifest = stored.manifest
            if expected is not None:
                if not is_expected(document, manifest, expected):
                    raise UnexpectedVersionError(document.doc_id)
            elif document.adopted:
                check_adopted(document, manifest)
                adopted.append(document)
        if adopted:
            yield from self._check_vectors_of(adopted)

    def _check_vectors_of(self, adopted: Sequence[DocumentVersion]) -> Steps[None]:
        """Refuse adopted documents whose vectors were deleted during adoption."""
        doc_ids: dict[str, str] = {}  # by the first vector of each document
        for document in adopted:
            doc_ids[document.adopted[0].id] = document.doc_id
        existing = yield from self.vectors.existing(list(doc_ids))
        if existing is None:
            return
        gone = [repr(doc_id) for vector, doc_id in doc_ids.items() if vector not in existing]
        if gone:
            raise AdoptionError(
                f"document(s) {first_few(gone)} were deleted while the index was read. Adopt again"
            )

    # Writing

    def _write_all(
        self, writes: _Writes, expected: ExpectedVersions | None, *, force: bool
    ) -> Steps[set[str]]:
        """Write documents; return the keys of documents that are done.

        The other documents were removed by another call during the write.
        """
        announced = yield from self._announce(writes)
        try:
            yield from compute_to_the_end(self.records.write, _all_chunk_records(announced))
            yield from self._describe(announced)
            refused = yield from self._write_vectors(announced, force=force)
            written = {key: announced[key] for key in announced if key not in refused}
            current = yield from self._make_current(written, expected)
        except GeneratorExit:  # no more calls are possible
            raise
        except BaseException:
            # Withdraw the announcements, so that the next write need not wait until they are old.
            with suppress(Exception):  # the first error is raised
                yield from self._abandon(announced.values())
            raise
        # Not written: changed by other calls, or their vectors are unusable.
        abandoned = [announced[key] for key in announced if key not in current]
        garbage = yield from self._abandon(abandoned)
        yield from self.remove_garbage([*current.values(), *garbage.values()])
        unlisted = [write for write in abandoned if write.document.key not in garbage]
        yield from self.remove_versions(
            (write.stored.manifest, write.document.version) for write in unlisted
        )
        return {*current, *refused}

    def _announce(self, writes: _Writes) -> Steps[dict[str, _Write]]:
        """Announce a new version of each document that has not changed since it was read."""
        named: dict[str, DocumentVersion] = {}
        for key, (document, _) in writes.items():
            named[key] = replace(document, version=document.version.in_new_write(self.model.id))

        def announce(manifest: Manifest) -> Manifest | None:
            if manifest.current != writes[manifest.key].stored.manifest.current:
                return None
            return without_abandoned(manifest).with_announcement(named[manifest.key].version)

        stored = (write.stored for write in writes.values())
        announced = yield from compute_to_the_end(self.records.change_manifests, stored, announce)
        return {key: _Write(named[key], announced[key]) for key in announced}

    def _make_current(
        self, writes: _Writes, expected: ExpectedVersions | None
    ) -> Steps[dict[str, StoredManifest]]:
        """Make written versions current, except those whose announcement was removed."""
        rivals: set[str] = set()  # keys of documents that other calls were writing, too

        def make_current(manifest: Manifest) -> Manifest | None:
            document, announced = writes[manifest.key]
            if not manifest.announces(document.version):
                return None
            if expected is not None and not is_expected(document, manifest, expected):
                return None
            if manifest.versions != announced.manifest.versions or len(manifest.announced) > 1:
                rivals.add(manifest.key)
            return manifest.with_current(document.manifest(self.model.id))

        stored = (write.stored for write in writes.values())
        current = yield from compute_to_the_end(self.records.change_manifests, stored, make_current)
        for key in rivals & current.keys():  # rivals may have overwritten records of these vectors
            yield from compute_to_the_end(self.records.write, adopted_records(writes[key].document))
        return current

    def _abandon(self, writes: Iterable[_Write]) -> Steps[dict[str, StoredManifest]]:
        """Turn announced versions into garbage."""
        versions: dict[str, Version] = {}
        stored: list[StoredManifest] = []
        for write in writes:
            versions[write.document.key] = write.document.version
            stored.append(write.stored)

        def abandon(manifest: Manifest) -> Manifest | None:
            version = versions[manifest.key]
            return manifest.with_garbage([version]) if manifest.announces(version) else None

        return (yield from compute_to_the_end(self.records.change_manifests, stored, abandon))

    def _raise_refused(self) -> None:
        """Raise an error that names the documents with unusable vectors."""
        refused, self._refused = self._refused, {}
        problems = [f"{doc_id!r} ({problem})" for doc_id, problem in refused.items()]
        raise EmbeddingError(
            f"{len(refused)} document(s) were not written, because the embedding model returned "
            f"unusable vectors: {first_few(problems)}. All others were written. Change the text or "
            "the model, and add the document(s) again"
        )

    def _describe(self, writes: _Writes) -> Steps[None]:
        """Describe versions that are still announced, and name the chunks of adopted vectors.

        A description lists adopted vectors, so a cleanup finds their records. A call that removes a
        version also removes its chunks. So a removed version is never complete, and `check` cannot
        mistake it for a version with a lost manifest.
        """
        manifests = yield from compute(self.records.manifests, writes)
        descriptions: list[tuple[str, Document]] = []
        adopted: list[Iterable[tuple[str, Document]]] = []
        for (document, _), manifest in zip(writes.values(), manifests, strict=True):
            if manifest is not None and manifest.announces(document.version):
                description = describe(document, self.model.id)
                descriptions.append((description.key, description.to_document()))
                adopted.append(adopted_records(document))
        yield from compute_to_the_end(self.records.write, descriptions)
        all_adopted = itertools.chain.from_iterable(adopted)
        yield from compute_to_the_end(self.records.write, all_adopted)

    # Vectors

    def _write_vectors(self, writes: _Writes, *, force: bool) -> Steps[set[str]]:
        """Write the vectors of documents; return the keys of documents with unusable vectors."""
        reusable = {} if force else (yield from self._find_reusable(writes))
        chunks: list[Iterable[Document]] = []
        for document, _ in writes.values():
            chunks.append(chunk_vectors(document))
        refused = yield from self.vectors.add(
            itertools.chain.from_iterable(chunks), reusable, self.model.dimensions
        )
        self._refused.update(refused)
        return {key for key, write in writes.items() if write.document.doc_id in refused}

    def _find_reusable(self, writes: _Writes) -> Steps[dict[str, str]]:
        """Find vectors of other versions of documents, by the digest of their embedded text."""
        if not self.vectors.adapter.can_read_vectors:
            return {}
        vectors: list[Iterable[str]] = []
        for document, stored in writes.values():
            manifest = stored.manifest
            if document.adopted or self.is_of_another_model(manifest):
                continue
            for version in manifest.versions:
                if version == document.version or not version.is_of_model(self.model.id):
                    continue
                vectors.append(version.vector_ids(document.key))
                vectors.append(
                    (yield from compute(self.records.adopted_vectors, manifest.key, version))
                )
        reusable: dict[str, str] = {}
        for ids in batches(itertools.chain.from_iterable(vectors), self.vectors.batch_size):
            existing = yield from self.vectors.existing(ids)
            if existing is not None:
                for vector, text in existing.items():
                    reusable[digest(text)] = vector
        return reusable

    # Removing

    def remove_versions(self, versions: Iterable[tuple[Manifest, Version]]) -> Steps[None]:
        """Remove the vectors and records of versions, given with their documents' manifests.

        The versions must not be current.
        """
        vectors: list[Iterable[str]] = []
        adopted: list[str] = []
        records: list[Iterable[str]] = []
        names: set[str] = set()
        for manifest, version in versions:
            key = manifest.key
            current = manifest.current
            is_adopted = current is not None and current.adopted > 0
            still_adopted: set[str] = set()
            if current is not None and is_adopted:
                still_adopted.update(
                    (yield from compute(self.records.adopted_vectors, key, current))
                )
            was_adopted = yield from compute(self.records.adopted_vectors, manifest.key, version)
            former = [vector for vector in was_adopted if vector not in still_adopted]
            vectors.append(version.vector_ids(key))
            if not is_adopted:  # after a repeated adoption, the vectors stay the user's
                vectors.append(former)
            adopted += map(adopted_key, former)
            records.append(version.docstore_keys(key))
            names.add(version.name)
        yield from self.vectors.delete(itertools.chain.from_iterable(vectors))
        yield from compute_to_the_end(self.records.delete_adopted, adopted, names)
        # A version's description is removed last: it tells which adopted vectors remain.
        yield from compute_to_the_end(self.records.delete, itertools.chain.from_iterable(records))


def _all_chunk_records(writes: _Writes) -> Iterator[tuple[str, Document]]:
    for document, _ in writes.values():
        yield from chunk_records(document)


def without_abandoned(manifest: Manifest) -> Manifest:
    """Return the manifest with abandoned announcements as garbage."""
    return manifest.with_garbage(manifest.abandoned())


def _all_garbage(manifest: Manifest) -> Manifest:
    return manifest.with_garbage(manifest.versions)
