"""Scans both stores for problems, read-only."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from langchain_core.documents import Document

from langchain_rse._progress import Advance
from langchain_rse._sync import batches, run
from langchain_rse.errors import CorruptRecordError, StoreMismatchError
from langchain_rse.ingest.docstore import StoredManifest
from langchain_rse.ingest.writing import Writer
from langchain_rse.stores.compare_and_set import Record, read_records
from langchain_rse.stores.layouts import read_description, stored_versions
from langchain_rse.stores.namespaces import namespace_of, whole_store
from langchain_rse.stores.pairing import PAIR_KEY, check_pair
from langchain_rse.stores.records import (
    DOC_ID,
    VERSION,
    Description,
    DocumentVersion,
    Manifest,
    Version,
    adopted_key,
    chunk_key,
    document_key,
    manifest_key,
    namespace_in,
)
from langchain_rse.stores.vectorstores import LISTED
from langchain_rse.stores.whole_documents import read_document

PROBLEMS = {
    "unreadable": "records that are missing, corrupt or inconsistent with their document",
    "vectors": "vectors that are missing, or belong to another store or embedding model",
    "leftovers": "records and vectors of no current version, left by interrupted calls",
    "foreign_vectors": "vectors written by other code (queries that find one fail)",
    "indexes": "docstore indexes, such as the full-text index, that do not match the records",
}
"""The kinds of problems, with descriptions."""

# Keys, records or documents per call.
_BATCH = 500

# Family, name and version in a record's key; records of versions have no family.
_KEY = re.compile(r"(?:(manifest|answers|adopted)/)?([0-9a-f]{32})(?:/([^/]+)/.+)?")


class Problem(NamedTuple):
    """Problems of one kind with one document, or with an unknown document."""

    kind: str  # a key of `PROBLEMS`
    items: list[str]  # keys of records, ids of vectors, or descriptions
    doc_id: str = ""  # empty if unknown

    def __str__(self) -> str:
        name = f"document {self.doc_id!r}" if self.doc_id else self.items[0]
        if len(self.items) == 1:
            return name
        return f"{name} ({len(self.items):,})"


@dataclass
class Scan:
    """One scan of both stores, in batches: the problems, and the work for `repair`.

    Keys of records and ids of vectors are listed before manifests are read. So a listed version
    that its manifest no longer mentions is never written again and may be removed.

    Attributes:
        writer: Holds the two stores.
        advance: Counts records on a progress bar.
        problems: The problems found.
        notes: Checks that were not possible, and leftovers to keep; an ordered set.
        documents: Number of documents.
        chunks: Number of chunks.
        unreadable: Errors of corrupt manifests that cannot be restored.
        manifests: Lost or corrupt manifests, restored from other records.
        unfinished: Manifests that list versions to remove.
        damaged: Manifests of documents whose text is incomplete.
        unlisted: Versions to remove that no manifest lists.
        records: Keys of records to remove.
        vectors: Ids of vectors to remove.
        to_write: Documents to write again, with their versions.
        add_again: Ids of documents that must be added, or adopted, again, by document key.
    """

    writer: Writer
    advance: Advance
    problems: list[Problem] = field(default_factory=list)
    notes: dict[str, None] = field(default_factory=dict)
    documents: int = 0
    chunks: int = 0
    unreadable: list[CorruptRecordError] = field(default_factory=list)
    manifests: list[Manifest] = field(default_factory=list)
    unfinished: list[StoredManifest] = field(default_factory=list)
    damaged: list[StoredManifest] = field(default_factory=list)
    unlisted: list[tuple[Manifest, Version]] = field(default_factory=list)
    records: list[str] = field(default_factory=list)
    vectors: list[str] = field(default_factory=list)
    to_write: list[tuple[DocumentVersion, Version]] = field(default_factory=list)
    add_again: dict[str, str] = field(default_factory=dict)
    # Names of the versions that have records, by document key.
    _versions: dict[str, set[str]] = field(default_factory=dict)
    # Keys of documents whose manifest is lost or corrupt.
    _unknown: set[str] = field(default_factory=set)

    def run(self) -> None:
        """Check the docstore's indexes and records, then the vectors if they can be listed."""
        index_problems = find_index_problems(self.writer)
        if index_problems:
            self.problems.append(Problem("indexes", index_problems))
        answers, adopted = self._list_keys()
        for keys in batches(self._versions, _BATCH):
            self._check_documents(keys)
        for keys in batches(answers, _BATCH):
            self._check_answers(keys)
        for keys in batches(adopted, _BATCH):
            self._check_adopted_records(keys)
        self._check_vectors()

    # The docstore

    def _list_keys(self) -> tuple[list[str], list[str]]:
        """List all keys; return the keys of answers and of adopted vectors."""
        answers: list[str] = []
        adopted: list[str] = []
        for keys in batches(self.writer.docstore.yield_keys(), _BATCH):
            for key in keys:
                match = _KEY.fullmatch(key)
                if match is None:
                    continue  # not a record of a document
                family, name, version = match.groups()
                if family == "answers":
                    answers.append(key)
                elif family == "adopted":
                    adopted.append(key)
                else:
                    versions = self._versions.setdefault(name, set())
                    if version is not None:
                        versions.add(version)
            self.advance(len(keys))
        return answers, adopted

    def _read_manifests(self, keys: Iterable[str]) -> dict[str, Record | Manifest]:
        """Read manifests by document key; None if missing, an error if corrupt."""
        record_keys = {key: manifest_key(key) for key in dict.fromkeys(keys)}
        records = read_records(self.writer.docstore, list(record_keys.values()))
        manifests: dict[str, Record | Manifest] = {}
        for key, record_key in record_keys.items():
            record = records[record_key]
            manifests[key] = record
            if isinstance(record, Document):
                try:
                    manifests[key] = Manifest.from_document(record, record_key)
                except CorruptRecordError as error:
                    manifests[key] = error
        return manifests

    def _check_documents(self, keys: Sequence[str]) -> None:
        """Check documents; ignore problems of documents that change during the check."""
        manifests = self._read_manifests(keys)
        found: dict[str, _Findings] = {}
        for key, manifest in manifests.items():
            if isinstance(manifest, Manifest):
                found[key] = self._check_document(manifest)
            else:
                self._check_without_manifest(key, manifest)
        self._find_missing_vectors(found.values())
        changed: set[str] = set()
        with_problems = [key for key, each in found.items() if each.problems]
        for key, manifest in self._read_manifests(with_problems).items():
            before = found[key].manifest
            if not isinstance(manifest, Manifest) or manifest.revision != before.revision:
                changed.add(key)
        for key in with_problems:
            if key not in changed:
                self._keep(found[key])

    def _check_document(self, manifest: Manifest) -> "_Findings":
        """Compare a document with its manifest."""
        found = _Findings(manifest)
        current = manifest.current
        self.documents += 1
        listed = {version.name for version in manifest.versions}
        unlisted = self._versions[manifest.key] - listed
        if unlisted:
            for version in stored_versions(self.writer.docstore, manifest.key):
                if version.name in unlisted:
                    found.unlisted.append(version)
        abandoned = manifest.abandoned()
        leftovers_of_document = [*manifest.garbage, *abandoned, *found.unlisted]
        if leftovers_of_document:
            found.note("leftovers", [version.name for version in leftovers_of_document])
        if len(abandoned) < len(manifest.announced):
            self.notes[
                f"document {manifest.doc_id!r} is being written, or a call that was writing it "
                "was interrupted less than an hour ago"
            ] = None
        if current is None:
            return found
        self.chunks += current.chunks
        stored = read_document(self.writer.docstore, manifest)
        if stored.problems:
            found.note("unreadable", stored.problems)
        found.document = stored.document
        found.vectors = stored.vectors
        if self.writer.is_of_another_model(manifest):
            found.note("vectors", ["vectors of another embedding model"])
        if current.adopted and not stored.problems:
            self._check_adopted(found, current)
        return found

    def _keep(self, found: "_Findings") -> None:
        """Record the problems of a document and the work for `repair`."""
        manifest = found.manifest
        current = manifest.current
        for kind, items in found.problems.items():
            self.problems.append(Problem(kind, items, manifest.doc_id))
        self.unlisted += [(manifest, version) for version in found.unlisted]
        stored = StoredManifest(manifest, manifest.to_document(), is_known=True)
        if manifest.garbage or manifest.abandoned():
            self.unfinished.append(stored)
        if not found.problems.keys() & {"unreadable", "vectors"} or current is None:
            return
        if found.document is not None:
            self.to_write.append((found.document, current))
        else:
            self.damaged.append(stored)
            self.add_again[manifest.key] = manifest.doc_id

    def _check_adopted(self, found: "_Findings", current: Version) -> None:
        """Find adopted vectors without a record that names the current version."""
        wrong: list[str] = []
        for keys in batches(map(adopted_key, found.vectors), _BATCH):
            for key, record in read_records(self.writer.docstore, keys).items():
                named = record.metadata.get(VERSION) if isinstance(record, Document) else None
                if named != current.name:
                    wrong.append(key)
        if wrong:
            found.note("unreadable", wrong)

    def _check_without_manifest(self, key: str, manifest: Record | Manifest) -> None:
        """Restore a lost or corrupt manifest, or record the work for `repair` without one."""
        names = self._versions[key]
        whole, doc_id = self._find_whole_version(key, names)
        if whole is not None:
            self._unknown.add(key)
            self.manifests.append(whole)
            self.problems.append(Problem("unreadable", [manifest_key(key)], whole.doc_id))
        elif isinstance(manifest, CorruptRecordError):
            self._unknown.add(key)
            self.unreadable.append(manifest)
            self.problems.append(Problem("unreadable", [manifest_key(key)], doc_id))
            self.add_again[key] = doc_id or f"the document with the key {key}"
        elif names:
            unlisted = stored_versions(self.writer.docstore, key)
            still_there = [version for version in unlisted if version.name in names]
            if not still_there:
                return
            self.problems.append(Problem("leftovers", sorted(names), doc_id))
            no_manifest = Manifest(doc_id) if doc_id else None
            for version in still_there:
                if no_manifest is not None:
                    self.unlisted.append((no_manifest, version))
                else:
                    self.records += version.docstore_keys(key)

    def _find_whole_version(self, key: str, names: Iterable[str]) -> tuple[Manifest | None, str]:
        """Find the newest complete version; return its manifest and the document's id.

        The manifest is None if no version is complete; the id is empty if no record contains it.
        """
        newest: Description | None = None
        doc_id = ""
        for name in names:
            description = read_description(self.writer.docstore, key, name)
            if description is None:
                continue
            doc_id = description.manifest.doc_id
            is_newer = newest is None or description.time > newest.time
            if is_newer and self._is_whole(description.manifest):
                newest = description
        manifest = None if newest is None else newest.manifest
        return manifest, doc_id or self._find_doc_id(key, names)

    def _is_whole(self, manifest: Manifest) -> bool:
        stored = read_document(self.writer.docstore, manifest)
        return not stored.problems

    def _find_doc_id(self, key: str, names: Iterable[str]) -> str:
        """Find the id of a document in the record of its first chunk; empty if not found."""
        keys = [chunk_key(key, name, 0) for name in names]
        for record in read_records(self.writer.docstore, keys).values():
            if isinstance(record, Document):
                doc_id = str(record.metadata.get(DOC_ID))
                if document_key(doc_id) == key:
                    return doc_id
        return ""

    def _check_answers(self, record_keys: Sequence[str]) -> None:
        """Find language-model answers about documents that no longer exist."""
        owners = {key: key.rpartition("/")[2] for key in record_keys}
        manifests = self._read_manifests(owners.values())
        self._note_leftover_records(
            key for key, owner in owners.items() if self._is_gone(owner, manifests, None)
        )

    def _check_adopted_records(self, record_keys: Sequence[str]) -> None:
        """Find records of adopted vectors that are corrupt or name a version that is gone."""
        records = read_records(self.writer.docstore, record_keys)
        owners: dict[str, tuple[str, object]] = {}  # key and version of the document
        for key, record in records.items():
            if isinstance(record, CorruptRecordError):
                self.problems.append(Problem("unreadable", [key]))
                self.records.append(key)
            elif record is not None and record.metadata.get(DOC_ID) is not None:
                owner = document_key(str(record.metadata[DOC_ID]))
                owners[key] = owner, record.metadata.get(VERSION)
        manifests = self._read_manifests(owner for owner, _ in owners.values())
        self._note_leftover_records(
            key
            for key, (owner, version) in owners.items()
            if self._is_gone(owner, manifests, version)
        )

    def _note_leftover_records(self, keys: Iterable[str]) -> None:
        gone = list(keys)
        if gone:
            self.problems.append(Problem("leftovers", gone))
            self.records += gone

    def _is_gone(
        self, key: str, manifests: Mapping[str, Record | Manifest], version: object
    ) -> bool:
        """True if a document, or this version of it, certainly no longer exists."""
        manifest = manifests[key]
        if key in self._unknown or isinstance(manifest, CorruptRecordError):
            return False
        if not isinstance(manifest, Manifest):
            return True
        if version is None:
            return False
        return all(listed.name != version for listed in manifest.versions)

    # The vector store

    def _find_missing_vectors(self, documents: Iterable["_Findings"]) -> None:
        """Find vectors of documents that are missing in the vector store."""
        vectors = self.writer.vectors
        by_vector: dict[str, _Findings] = {}
        for found in documents:
            by_vector.update(dict.fromkeys(found.vectors, found))
        for ids in batches(by_vector, vectors.batch_size):
            existing = vectors.existing(ids)
            if existing is None:
                name = type(vectors.vectorstore).__name__
                self.notes[
                    f"{name} does not report which vectors exist, so missing vectors are not "
                    "detected"
                ] = None
                return
            for vector in ids:
                if vector not in existing:
                    by_vector[vector].note("vectors", [vector])

    def _check_vectors(self) -> None:
        """Find vectors of unknown versions, if the store can list its chunks."""
        vectors = self.writer.vectors
        if not vectors.adapter.can_list:
            name = type(vectors.vectorstore).__name__
            self.notes[
                f"{name} cannot list its chunks (supported: {LISTED}), so leftover vectors are not "
                "detected"
            ] = None
            return
        for chunks in self._list_vectors():
            self._check_own_vectors(chunks)
            self._find_foreign_vectors(chunks)
            self.advance(len(chunks))

    def _list_vectors(self) -> Iterator[list[Document]]:
        namespace = namespace_of(self.writer.docstore)
        for chunks in batches(self.writer.vectors.adapter.list_chunks(), _BATCH):
            yield [chunk for chunk in chunks if namespace_in(chunk.metadata) == namespace]

    def _check_own_vectors(self, chunks: Iterable[Document]) -> None:
        """Find vectors that this package wrote for versions that no manifest lists."""
        doc_ids: dict[str, tuple[str, object]] = {}  # document id and version, by vector id
        for chunk in chunks:
            if VERSION in chunk.metadata and chunk.metadata.get(DOC_ID):
                doc_ids[str(chunk.id)] = str(chunk.metadata[DOC_ID]), chunk.metadata[VERSION]
        manifests = self._read_manifests(document_key(doc_id) for doc_id, _ in doc_ids.values())
        leftovers: dict[str, list[str]] = {}  # vector ids by document id
        for vector, (doc_id, version) in doc_ids.items():
            if self._is_gone(document_key(doc_id), manifests, version):
                leftovers.setdefault(doc_id, []).append(vector)
        for doc_id, ids in leftovers.items():
            existing = self.writer.vectors.existing(ids)
            still_there = ids if existing is None else list(existing)
            if still_there:
                self.problems.append(Problem("leftovers", still_there, doc_id))
                self.vectors += still_there

    def _find_foreign_vectors(self, chunks: Iterable[Document]) -> None:
        """Find vectors that other code wrote and that were not adopted."""
        record_keys: dict[str, str] = {}  # by vector id
        for chunk in chunks:
            if VERSION not in chunk.metadata:
                record_keys[str(chunk.id)] = adopted_key(str(chunk.id))
        records = read_records(self.writer.docstore, list(record_keys.values()))
        foreign = [vector for vector, key in record_keys.items() if records[key] is None]
        if foreign:
            self.problems.append(Problem("foreign_vectors", foreign))


@dataclass
class _Findings:
    """The findings about one document."""

    manifest: Manifest
    problems: dict[str, list[str]] = field(default_factory=dict)  # items by kind
    unlisted: list[Version] = field(default_factory=list)
    vectors: list[str] = field(default_factory=list)  # ids of its vectors, existing or missing
    document: DocumentVersion | None = None  # None if its text is incomplete

    def note(self, kind: str, items: Sequence[str]) -> None:
        self.problems.setdefault(kind, []).extend(items)


def find_index_problems(writer: Writer) -> list[str]:
    """Describe where the docstore's indexes, over all namespaces, do not match its records."""
    store: Any = whole_store(writer.docstore)
    if not hasattr(store, "index_problems"):
        return []
    problems: list[str] = store.index_problems()
    return problems


def check_pair_record(writer: Writer, *, repair: bool) -> list[Problem]:
    """Check that the two stores belong together; with ``repair``, record that they do."""
    problems: list[Problem] = []
    record = read_records(writer.docstore, [PAIR_KEY])[PAIR_KEY]
    if isinstance(record, CorruptRecordError):
        problems.append(Problem("unreadable", [PAIR_KEY]))
    try:
        writer.model = run(
            check_pair(writer.docstore, writer.vectors.vectorstore, force=repair, record=repair)
        )
    except StoreMismatchError as error:
        problems.append(Problem("vectors", [str(error)]))
    return problems
