"""Writes documents to the docstore and the vector store, so that the two never disagree.

Each write of a document makes a version with a name of its own:

1. The manifest announces the version.
2. Its records are written; last, if it is still announced, the one that describes it. Then its
   vectors are written.
3. The manifest makes it current, and the former version garbage.
4. Garbage is removed from both stores by the names of its versions, then from the manifest.

Of two calls that write one document, the one that finishes last wins. A call that fails, or is
killed, or stopped for a day can neither block nor harm another one: what it writes and removes
bears the name of its own version or of garbage. It leaves its announcement behind, and the next
write of the document removes announcements that are older than `ANNOUNCEMENT_LIFETIME`.
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
    is_unrelated,
    may_be_continuation,
    reject_continuation,
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
    chunk_vectors,
    description_record,
    digest,
    document_records,
    vector_id,
)
from langchain_rse.stores.whole_documents import read_text
from langchain_rse.text.quoting import first_few

# A version whose announcement was removed is written again; after this many, something is wrong.
_ATTEMPTS = 10


class _Write(NamedTuple):
    """A document to be written, and what it replaces."""

    document: DocumentVersion
    stored: StoredManifest


_Writes = Mapping[str, _Write]
"""Writes by the keys of their documents."""


@dataclass
class Writer:
    """Writes, replaces and deletes documents in both stores."""

    vectors: Vectors
    records: DocStoreWriter
    model: Model = field(default_factory=Model)  # the one that embeds the chunks
    # Ids of documents that have no sentence in common with what they replace.
    unrelated: set[str] = field(default_factory=set)
    # What is wrong with vectors of documents that the current call has left out, by their ids.
    _refused: dict[str, str] = field(default_factory=dict, init=False)

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
        """Write the documents that are not stored in this version, and remove their garbage.

        Chunks whose embedded text has a vector in another version of their document, also in one
        that was never finished, are written with that vector.

        Args:
            documents: Documents with different ids.
            expected: The version that each document must have when it is written. If None, any
                version is replaced, but not by what looks like a later piece of it.
            force: Write and embed unchanged documents as well.
            repair: Write unchanged documents as well, and embed the chunks that lack a vector.

        Raises:
            UnexpectedVersionError: If a document does not have the expected version.
            AdoptionError: If an adopted document was added as well, or its vectors are gone.
            EmbeddingError: If vectors of documents cannot be searched. All others are written.
            MissingRecordError: If the docstore does not keep what is written.
            ValueError: If a document looks like a later piece of what is stored.
        """
        self.model = yield from check_pair(self.docstore, self.vectors.vectorstore, force=force)
        pending = {document.key: document for document in documents}
        for _ in range(_ATTEMPTS):
            writes = yield from self._choose(pending.values(), force=force, repair=repair)
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
                f"other calls removed document(s) {names} {_ATTEMPTS} times while they were being "
                "written. Are they deleted again and again, or does the docstore evict records?"
            )
        if self._refused:
            self._raise_refused()

    def delete(self, ids: Sequence[str]) -> Steps[list[str]]:
        """Delete documents, the vectors first; return the ids of those that existed."""
        if isinstance(ids, str):
            raise TypeError(f"ids must be a list of ids, not one string; use [{ids!r}]")
        yield from check_pair(self.docstore, self.vectors.vectorstore, record=False)
        read = self.records.stored_manifests
        stored = yield from compute(read, ids, may_be_lost=True)
        existing = [each for each in stored if each.is_known or each.manifest.versions]
        # Without a current version, no query sees the document any more, and adding it again
        # after a crash does not take it for complete.
        changed = yield from compute_to_the_end(
            self.records.change_manifests, existing, _all_garbage
        )
        yield from self.remove_garbage(changed.values())
        yield from compute_to_the_end(self.records.delete, map(answers_key, changed))
        return [each.manifest.doc_id for each in existing]

    def remove_garbage(self, stored: Iterable[StoredManifest]) -> Steps[None]:
        """Remove the versions that manifests list as garbage, then remove them from the list."""
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

    def _choose(
        self, documents: Iterable[DocumentVersion], *, force: bool, repair: bool
    ) -> Steps[dict[str, _Write]]:
        """Choose the documents to write; remove what earlier calls have left of the others."""
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
            self.vectors.progress.advance(len(document.chunks))
            if stored.manifest.garbage or stored.manifest.abandoned():
                leftovers.append(stored)
        changed = yield from compute_to_the_end(
            self.records.change_manifests, leftovers, without_abandoned
        )
        yield from self.remove_garbage(changed.values())
        return writes

    def _is_stored(self, document: DocumentVersion, manifest: Manifest) -> bool:
        """True if a document is stored in this version, embedded by this model."""
        is_same = document.version.has_content_of(manifest.current)
        return is_same and not manifest.is_damaged and not self.is_of_another_model(manifest)

    def is_of_another_model(self, manifest: Manifest) -> bool:
        """True if a document's vectors are known to be of another model than this writer's."""
        if not manifest.model or not self.model.id:
            return False
        return manifest.model != self.model.id

    def _find_incomplete(self, writes: _Writes) -> Steps[set[str]]:
        """Look for a few vectors of stored documents; return the keys of those that lack one."""
        vectors: dict[str, str] = {}  # keys of documents by ids of vectors
        for key, (_, stored) in writes.items():
            current = stored.manifest.current
            if current is not None and current.chunks and not current.adopted:
                for number in (0, current.chunks // 2, current.chunks - 1):
                    vectors[vector_id(key, current.name, number)] = key
        incomplete = yield from self._find_unnamed(writes)
        for batch in batches(vectors, self.vectors.batch_size):
            existing = yield from self.vectors.existing(batch)
            if existing is None:
                break
            incomplete.update(vectors[vector] for vector in batch if vector not in existing)
        return incomplete

    def _find_unnamed(self, writes: _Writes) -> Steps[set[str]]:
        """Find adopted documents whose vectors have no record of the current version."""
        keys: dict[str, str] = {}  # keys of documents by those of records
        for key, (document, _) in writes.items():
            if document.adopted:
                for vector in (document.adopted[0], document.adopted[-1]):
                    keys[adopted_key(vector.id)] = key
        unnamed: set[str] = set()
        for batch in batches(keys, self.records.batch_size):
            records = yield from compute(read_records, self.docstore, batch)
            for record_key, record in records.items():
                current = writes[keys[record_key]].stored.manifest.current
                named = record.metadata.get(VERSION) if isinstance(record, Document) else None
                if current is not None and named != current.name:
                    unnamed.add(keys[record_key])
        return unnamed

    def _check(self, writes: _Writes, expected: ExpectedVersions | None) -> Steps[None]:
        """Refuse documents that must not replace what is stored."""
        adopted: list[DocumentVersion] = []
        for document, stored in writes.values():
            manifest = stored.manifest
            if expected is not None:
                if not is_expected(document, manifest, expected):
                    raise UnexpectedVersionError(document.doc_id)
            elif document.adopted:
                check_adopted(document, manifest)
                adopted.append(document)
            elif may_be_continuation(document, manifest):
                stored_text = yield from compute(read_text, self.docstore, manifest)
                if stored_text is not None:  # else it is damaged, and replacing it repairs it
                    reject_continuation(document, stored_text)
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

    # Writing

    def _write_all(
        self, writes: _Writes, expected: ExpectedVersions | None, *, force: bool
    ) -> Steps[set[str]]:
        """Write documents; return the keys of those that no other call has removed meanwhile."""
        announced = yield from self._announce(writes)
        try:
            yield from compute_to_the_end(self.records.write, self._each_record(announced))
            yield from self._describe(announced)
            refused = yield from self._write_vectors(announced, force=force)
            written = {key: announced[key] for key in announced if key not in refused}
            current = yield from self._make_current(written, expected)
        except GeneratorExit:  # nothing can be called any more
            raise
        except BaseException:
            # The next write of the documents need not wait until the announcements are old.
            with suppress(Exception):  # the first error is the one to raise
                yield from self._give_up(announced.values())
            raise
        # These stay as they were: other calls have changed them, or they cannot be embedded.
        given_up = [announced[key] for key in announced if key not in current]
        garbage = yield from self._give_up(given_up)
        yield from self.remove_garbage([*current.values(), *garbage.values()])
        unlisted = [write for write in given_up if write.document.key not in garbage]
        yield from self.remove_versions(
            (write.stored.manifest, write.document.version) for write in unlisted
        )
        return {*current, *refused}

    def _announce(self, writes: _Writes) -> Steps[dict[str, _Write]]:
        """Announce a new version of each document that was not changed since it was read."""
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
        """Make the written versions current; leave out those that are announced no more."""
        rivals: set[str] = set()  # keys of documents that another call has written meanwhile

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
        for key in rivals & current.keys():  # which may have written the records of these vectors
            yield from compute_to_the_end(self.records.write, adopted_records(writes[key].document))
        return current

    def _give_up(self, writes: Iterable[_Write]) -> Steps[dict[str, StoredManifest]]:
        """Make versions garbage that were announced and are not to become current."""
        versions: dict[str, Version] = {}
        stored: list[StoredManifest] = []
        for write in writes:
            versions[write.document.key] = write.document.version
            stored.append(write.stored)

        def give_up(manifest: Manifest) -> Manifest | None:
            version = versions[manifest.key]
            return manifest.with_garbage([version]) if manifest.announces(version) else None

        return (yield from compute_to_the_end(self.records.change_manifests, stored, give_up))

    def _raise_refused(self) -> None:
        """Raise an error that names the documents that were left out."""
        refused, self._refused = self._refused, {}
        problems = [f"{doc_id!r} ({problem})" for doc_id, problem in refused.items()]
        raise EmbeddingError(
            f"{len(refused)} document(s) were not written, all others were: {first_few(problems)}. "
            "The embedding model returned vectors that cannot be searched; change the text or the "
            "model, and add the document(s) again"
        )

    def _each_record(self, writes: _Writes) -> Iterator[tuple[str, Document]]:
        for document, _ in writes.values():
            yield from document_records(document)

    def _describe(self, writes: _Writes) -> Steps[None]:
        """Write the records that describe versions, if these are still announced.

        Who removes a version from now on removes its other records as well. So a version that was
        removed is never whole, and `check` does not take it for one whose manifest is lost.
        """
        manifests = yield from compute(self.records.manifests, writes)
        descriptions: list[tuple[str, Document]] = []
        for (document, _), manifest in zip(writes.values(), manifests, strict=True):
            if manifest is not None and manifest.announces(document.version):
                descriptions.append(description_record(document, self.model.id))
        yield from compute_to_the_end(self.records.write, descriptions)

    # Vectors

    def _write_vectors(self, writes: _Writes, *, force: bool) -> Steps[set[str]]:
        """Write the vectors of documents; return the keys of those that have unusable ones."""
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
        """Find vectors of other versions of documents, by the digests of their embedded texts."""
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
                    (yield from compute(self.records.adopted_vectors, manifest, version))
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
        """Remove the vectors and records of versions that are not current, with their manifests."""
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
                    (yield from compute(self.records.adopted_vectors, manifest, current))
                )
            was_adopted = yield from compute(self.records.adopted_vectors, manifest, version)
            former = [vector for vector in was_adopted if vector not in still_adopted]
            vectors.append(version.vector_ids(key))
            if not is_adopted:  # if the index was adopted again, its vectors stay the user's
                vectors.append(former)
            adopted += map(adopted_key, former)
            records.append(version.docstore_keys(key))
            names.add(version.name)
        yield from self.vectors.delete(itertools.chain.from_iterable(vectors))
        yield from compute_to_the_end(self.records.delete_adopted, adopted, names)
        # The list of a version's vectors is removed last: it says what remains to be done.
        yield from compute_to_the_end(self.records.delete, itertools.chain.from_iterable(records))


def without_abandoned(manifest: Manifest) -> Manifest:
    """The manifest with announcements of failed calls as garbage."""
    return manifest.with_garbage(manifest.abandoned())


def _all_garbage(manifest: Manifest) -> Manifest:
    return manifest.with_garbage(manifest.versions)
