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
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from langchain_rse._messages import check_type
from langchain_rse._sync import batches, run
from langchain_rse.errors import AdoptionError, EmbeddingError, MissingRecordError
from langchain_rse.ingest.docstore import DocStoreWriter, StoredManifest
from langchain_rse.ingest.vectors import Vectors
from langchain_rse.stores.compare_and_set import DocStore
from langchain_rse.stores.pairing import Model, check_pair
from langchain_rse.stores.records import (
    DocumentVersion,
    Manifest,
    Version,
    adopted_key,
    adopted_records,
    answers_key,
    chunk_records,
    chunk_vectors,
    description_record,
    digest,
    vector_id,
)
from langchain_rse.text.quoting import first_few

WAS_ADDED = (
    "was already added with add_documents, so the chunks of this index would be a second version. "
    "Delete one of the two"
)
"""Why a document cannot be adopted."""

# A version whose announcement was removed is written again, this many times at most.
_ATTEMPTS = 10

ExpectedVersions = Mapping[str, Version | None]
"""The version that each document must have before it is written, by id; None for no version."""


class UnexpectedVersionError(ValueError):
    """A document does not have the version that the caller expects."""

    def __init__(self, doc_id: str) -> None:
        super().__init__(
            f"another call changed document {doc_id!r} at the same time, so it was not written. "
            "With append=True, call again with the new parts"
        )


@dataclass(eq=False)
class Write:
    """One write of a document.

    Attributes:
        document: The document; from the announcement on, its version has the name of this write.
        before: The manifest as it was before the write.
        stored: The manifest as this call has last read or changed it.
        is_current: True once the version was made current.
        problem: What is wrong with a vector of the document; empty if nothing is.
    """

    document: DocumentVersion
    before: Manifest
    stored: StoredManifest
    is_current: bool = False
    problem: str = ""

    @property
    def version(self) -> Version:
        """The version that is written."""
        return self.document.version


ChangeOfWrite = Callable[[Write, Manifest], Manifest | None]
"""Makes a new manifest from a write and the latest manifest; returns None to leave it unchanged."""


@dataclass
class Writer:
    """Writes, replaces and deletes documents in both stores."""

    vectors: Vectors
    records: DocStoreWriter
    model: Model = field(default_factory=Model)  # the embedding model
    unchanged: set[str] = field(default_factory=set)  # ids of documents that were stored already

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
    ) -> None:
        """Write new and changed documents, and remove their garbage.

        A chunk is not embedded again if another version of its document, finished or not, already
        has a vector of the same text.

        Args:
            documents: Documents with distinct ids.
            expected: The version that each document must have when it is written. If None, any
                version is replaced.
            force: Write and embed unchanged documents as well.

        Raises:
            UnexpectedVersionError: If a document does not have the expected version.
            AdoptionError: If an adopted document was also added, or its vectors were deleted.
            EmbeddingError: If the model raises an error for a text of some documents, or their
                vectors are unusable. All others are written.
            MissingRecordError: If the docstore loses writes.
        """
        self.model = run(check_pair(self.docstore, self.vectors.adapter.store, force=force))
        refused: list[Write] = []
        for _ in range(_ATTEMPTS):
            by_id = {document.doc_id: document for document in documents}
            writes: list[Write] = []
            for stored in self.records.stored_manifests(by_id):
                document = by_id[stored.manifest.doc_id]
                writes.append(Write(document, stored.manifest, stored))
            if not force:
                writes = self._without_unchanged(writes)
            self._check(writes, expected)
            self._write_all(writes, expected, force=force)
            refused += [write for write in writes if write.problem]
            # The other documents were changed or removed by another call during the write.
            documents = [
                write.document for write in writes if not (write.is_current or write.problem)
            ]
            if not documents:
                break
        else:
            names = first_few(repr(document.doc_id) for document in documents)
            raise MissingRecordError(
                f"document(s) {names} were removed {_ATTEMPTS} times while being written: another "
                "process keeps deleting them, or the docstore evicts records"
            )
        if refused:
            problems = [f"{write.document.doc_id!r} ({write.problem})" for write in refused]
            raise EmbeddingError(
                f"{len(refused)} document(s) were not written, because the embedding model "
                f"made no usable vectors of them: {first_few(problems)}. All others were written. "
                "Change the text or the model, and add the document(s) again"
            )

    def delete(self, ids: Sequence[str]) -> list[str]:
        """Delete documents, vectors first; return the ids of documents that existed."""
        if isinstance(ids, str):
            raise TypeError(f"ids must be a list of ids, not one string; use [{ids!r}]")
        check_type("ids", ids, Iterable, "a list of ids")
        ids = list(ids)
        for doc_id in ids:
            check_type("the id of a document", doc_id, str, "a string")
        run(check_pair(self.docstore, self.vectors.adapter.store, record=False))
        stored = self.records.stored_manifests(ids, may_be_lost=True)
        existing: list[StoredManifest] = []
        for each in stored:
            if each.record is not None or each.manifest.versions:
                existing.append(each)
        # Without a current version, queries no longer see the document, and adding it again after a
        # crash does not mistake it for complete.
        changed = self.records.change_manifests(
            existing, lambda manifest: manifest.with_garbage(manifest.versions)
        )
        self.remove_garbage(changed.values())
        self.records.delete(map(answers_key, changed))
        return [each.manifest.doc_id for each in existing]

    # What has to be written

    def _without_unchanged(self, writes: list[Write]) -> list[Write]:
        """Return the writes of documents that are not stored; remove leftovers of the others."""
        unchanged: list[Write] = []
        for write in writes:
            manifest = write.before
            is_same = write.version.has_content_of(manifest.current)
            if is_same and not manifest.is_damaged and not self.is_of_another_model(manifest):
                unchanged.append(write)
        if not unchanged:
            return writes
        incomplete = self._find_incomplete(unchanged)
        complete = [write for write in unchanged if write.before.key not in incomplete]
        leftovers: list[StoredManifest] = []
        for write in complete:
            self.vectors.advance(len(write.document.chunks))
            self.unchanged.add(write.document.doc_id)
            if write.before.garbage or write.before.abandoned():
                leftovers.append(write.stored)
        changed = self.records.change_manifests(
            leftovers, lambda manifest: manifest.with_garbage(manifest.abandoned())
        )
        self.remove_garbage(changed.values())
        is_complete = set(complete)
        return [write for write in writes if write not in is_complete]

    def is_of_another_model(self, manifest: Manifest) -> bool:
        """True if a document's vectors are known to come from another model."""
        if not manifest.model or not self.model.id:
            return False
        return manifest.model != self.model.id

    def _find_incomplete(self, writes: Iterable[Write]) -> set[str]:
        """Check a few vectors of each document; return the keys of documents that miss one.

        Of adopted vectors, the records are checked: they must name the current version.
        """
        keys: dict[str, str] = {}  # of documents, by the ids of vectors
        adopted: dict[str, Manifest] = {}  # by the ids of vectors
        for write in writes:
            manifest = write.before
            count = manifest.chunk_count
            vectors = write.document.adopted
            if vectors:
                for vector in (vectors[0], vectors[-1]):
                    adopted[vector.id] = manifest
            elif count:
                for number in (0, count // 2, count - 1):
                    written = vector_id(manifest.key, manifest.version, number)
                    keys[written] = manifest.key
        versions = {vector: manifest.version for vector, manifest in adopted.items()}
        incomplete = {adopted[vector].key for vector in self.records.unrecorded(versions)}
        for batch in batches(keys, self.vectors.batch_size):
            existing = self.vectors.existing(batch)
            if existing is None:
                break
            incomplete.update(keys[vector] for vector in batch if vector not in existing)
        return incomplete

    def _check(self, writes: Iterable[Write], expected: ExpectedVersions | None) -> None:
        """Refuse documents that must not replace the stored ones.

        These are documents that another call changed, adopted documents that were also added, and
        adopted documents whose vectors were deleted during adoption.
        """
        doc_ids: dict[str, str] = {}  # by the first vector of each adopted document
        for write in writes:
            document = write.document
            current = write.before.current
            if expected is not None:
                if not is_expected(document, write.before, expected):
                    raise UnexpectedVersionError(document.doc_id)
            elif document.adopted:
                if current is not None and not current.adopted:
                    raise AdoptionError(f"document {document.doc_id!r} {WAS_ADDED}")
                doc_ids[document.adopted[0].id] = document.doc_id
        existing = self.vectors.existing(list(doc_ids)) if doc_ids else None
        if existing is None:
            return
        gone = [repr(doc_id) for vector, doc_id in doc_ids.items() if vector not in existing]
        if gone:
            raise AdoptionError(
                f"document(s) {first_few(gone)} were deleted while the index was read. Adopt again"
            )

    # Writing

    def _write_all(
        self, writes: Iterable[Write], expected: ExpectedVersions | None, *, force: bool
    ) -> None:
        """Write documents, each in a version of its own, and remove the versions they replace."""
        announced = self._announce(writes)
        try:
            records = (chunk_records(write.document) for write in announced)
            self.records.write(itertools.chain.from_iterable(records))
            self._describe(announced)
            reusable = {} if force else self._find_reusable(announced)
            chunks = (chunk_vectors(write.document) for write in announced)
            problems = self.vectors.add(
                itertools.chain.from_iterable(chunks), reusable, self.model.dimensions
            )
            for write in announced:
                write.problem = problems.get(write.document.doc_id, "")
            self._make_current([write for write in announced if not write.problem], expected)
        except BaseException:
            # Withdraw the announcements, so that the next write need not wait until they are old.
            with suppress(Exception):  # the first error is raised
                self._abandon(announced)
            raise
        # Not written: changed by other calls, or their vectors are unusable.
        failed = [write for write in announced if not write.is_current]
        if failed:
            abandoned = self._abandon(failed)
            unlisted = [write for write in failed if write not in abandoned]
            self.remove_versions((write.stored.manifest, write.version) for write in unlisted)
        self.remove_garbage(write.stored for write in announced)

    def _change(self, writes: Iterable[Write], make_new: ChangeOfWrite) -> list[Write]:
        """Update the manifests of writes; return the writes whose manifest was changed."""
        by_key = {write.document.key: write for write in writes}
        stored = [write.stored for write in by_key.values()]
        changed = self.records.change_manifests(
            stored, lambda manifest: make_new(by_key[manifest.key], manifest)
        )
        for key, stored_manifest in changed.items():
            by_key[key].stored = stored_manifest
        return [by_key[key] for key in changed]

    def _announce(self, writes: Iterable[Write]) -> list[Write]:
        """Announce a new version of each document that has not changed since it was read."""
        named: list[Write] = []
        for write in writes:
            write.document = write.document.in_new_write(self.model.id)
            named.append(write)

        def announce(write: Write, manifest: Manifest) -> Manifest | None:
            if manifest.current != write.before.current:
                return None
            return manifest.with_garbage(manifest.abandoned()).with_announcement(write.version)

        return self._change(named, announce)

    def _describe(self, writes: Sequence[Write]) -> None:
        """Describe versions that are still announced, and name the chunks of adopted vectors.

        A description lists adopted vectors, so a cleanup finds their records. A call that removes a
        version also removes its chunks. So a removed version is never complete, and `check` cannot
        mistake it for a version with a lost manifest.
        """
        manifests = self.records.manifests([write.document.key for write in writes])
        described: list[DocumentVersion] = []
        for write, manifest in zip(writes, manifests, strict=True):
            if manifest is not None and manifest.announces(write.version):
                described.append(write.document)
        self.records.write(map(description_record, described))
        adopted = map(adopted_records, described)
        self.records.write(itertools.chain.from_iterable(adopted))

    def _make_current(self, writes: Iterable[Write], expected: ExpectedVersions | None) -> None:
        """Make written versions current, except those whose announcement was removed."""
        rivals: set[str] = set()  # keys of documents that other calls were writing, too

        def make_current(write: Write, manifest: Manifest) -> Manifest | None:
            document = write.document
            if not manifest.announces(document.version):
                return None
            if expected is not None and not is_expected(document, manifest, expected):
                return None
            is_changed = manifest.versions != write.stored.manifest.versions
            if is_changed or len(manifest.announced) > 1:
                rivals.add(manifest.key)
            return manifest.with_current(document.manifest)

        for write in self._change(writes, make_current):
            write.is_current = True
            if write.document.key in rivals:  # they may have overwritten records of these vectors
                self.records.write(adopted_records(write.document))

    def _abandon(self, writes: Iterable[Write]) -> list[Write]:
        """Turn announced versions into garbage; return their writes."""

        def abandon(write: Write, manifest: Manifest) -> Manifest | None:
            is_announced = manifest.announces(write.version)
            return manifest.with_garbage([write.version]) if is_announced else None

        return self._change(writes, abandon)

    def _find_reusable(self, writes: Iterable[Write]) -> dict[str, str]:
        """Find vectors of other versions of documents, by the digest of their embedded text."""
        if not self.vectors.adapter.can_read_vectors:
            return {}
        vectors: list[Iterable[str]] = []
        for write in writes:
            manifest = write.stored.manifest
            others = [version for version in manifest.versions if version != write.version]
            if not others or write.document.adopted or self.is_of_another_model(manifest):
                continue
            for version in others:
                if version.is_of_model(self.model.id):
                    vectors.append(version.vector_ids(manifest.key))
                    vectors.append(self.records.adopted_vectors(manifest.key, version))
        reusable: dict[str, str] = {}
        for ids in batches(itertools.chain.from_iterable(vectors), self.vectors.batch_size):
            existing = self.vectors.existing(ids) or {}
            for vector, text in existing.items():
                reusable[digest(text)] = vector
        return reusable

    # Removing

    def remove_garbage(self, stored: Iterable[StoredManifest]) -> None:
        """Remove the versions that manifests list as garbage, then clear the list."""
        with_garbage = [each for each in stored if each.manifest.garbage]
        if not with_garbage:
            return
        garbage = {each.manifest.key: each.manifest.garbage for each in with_garbage}
        versions: list[tuple[Manifest, Version]] = []
        for manifest, _ in with_garbage:
            versions += ((manifest, version) for version in manifest.garbage)
        self.remove_versions(versions)

        def without_garbage(manifest: Manifest) -> Manifest:
            return manifest.without_garbage(garbage[manifest.key])

        self.records.change_manifests(with_garbage, without_garbage)

    def remove_versions(self, versions: Iterable[tuple[Manifest, Version]]) -> None:
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
            still_adopted: set[str] = set()
            if current is not None:
                still_adopted.update(self.records.adopted_vectors(key, current))
            was_adopted = self.records.adopted_vectors(key, version)
            former = [vector for vector in was_adopted if vector not in still_adopted]
            vectors.append(version.vector_ids(key))
            # After a repeated adoption, the vectors stay the user's.
            if current is None or not current.adopted:
                vectors.append(former)
            adopted += map(adopted_key, former)
            records.append(version.docstore_keys(key))
            names.add(version.name)
        self.vectors.delete(itertools.chain.from_iterable(vectors))
        self.records.delete_adopted(adopted, names)
        # A version's description is removed last: it tells which adopted vectors remain.
        self.records.delete(itertools.chain.from_iterable(records))


def is_expected(document: DocumentVersion, manifest: Manifest, expected: ExpectedVersions) -> bool:
    """True if no other call changed a document since the caller read it."""
    if manifest.current == expected[document.doc_id]:
        return True
    return document.version.has_content_of(manifest.current)  # rewriting equal content is fine
