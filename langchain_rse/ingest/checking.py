"""Checks that both stores agree about every document, and repairs differences.

Repairing never removes text that it cannot read. It removes versions that manifests list as garbage
and, if all manifests are readable, records and vectors of unknown documents. Everything else is
written again or reported as "add again".
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from langchain_core.documents import Document

from langchain_rse._messages import Advance, Printed, progress_bar
from langchain_rse._sync import batches, run
from langchain_rse.errors import CorruptRecordError, FormatError, StoreMismatchError
from langchain_rse.ingest.docstore import StoredManifest
from langchain_rse.ingest.writing import UnexpectedVersionError, Writer
from langchain_rse.stores.compare_and_set import change, namespace_of, read_records
from langchain_rse.stores.layouts import (
    Layout,
    read_description,
    read_document,
    read_layouts,
    stored_versions,
)
from langchain_rse.stores.namespaces import whole_store
from langchain_rse.stores.pairing import PAIR_KEY, check_pair
from langchain_rse.stores.records import (
    DOC_ID,
    VERSION,
    DocumentVersion,
    Manifest,
    Version,
    VersionDescription,
    adopted_key,
    answers_key,
    document_key,
    manifest_key,
    namespace_in,
)
from langchain_rse.stores.vectorstores import LISTED
from langchain_rse.text.quoting import counted, first_few

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

_Owner = tuple[str, object]
"""A document's key and the name of its version; None for any version."""

# A repair can uncover more problems, such as missing vectors of a restored manifest.
_REPAIRS = 2
_EXAMPLES = 5
# Documents to add again that a report names, at most.
_NAMED = 100


@dataclass(frozen=True, kw_only=True, repr=False)
class CheckReport(Printed):
    """The result of a check: size of the stores, problems found and problems repaired.

    Attributes:
        documents: Number of documents.
        chunks: Number of chunks.
        problems: Number of remaining problems by kind.
        examples: A few examples of each kind of problem.
        repaired: Number of repaired problems by kind.
        add_again: Ids of documents that must be added, or adopted, again.
        notes: Checks that were not possible, and leftovers that were kept.
    """

    documents: int = 0
    chunks: int = 0
    problems: Mapping[str, int] = field(default_factory=dict)
    examples: Mapping[str, Sequence[str]] = field(default_factory=dict)
    repaired: Mapping[str, int] = field(default_factory=dict)
    add_again: Sequence[str] = ()
    notes: Sequence[str] = ()

    @property
    def ok(self) -> bool:
        """True if no problem remains and no document must be added again."""
        return not (self.problems or self.add_again)

    def __str__(self) -> str:
        return self.describe("check(repair=True)")

    def describe(self, repair: str) -> str:
        """Describe the result in lines, with the call or command that repairs."""
        size = f"{counted(self.documents, 'document')}, {counted(self.chunks, 'chunk')}"
        lines = [f"{size}: {'no problems' if self.ok else 'problems found'}"]
        for kind, count in self.repaired.items():
            lines.append(f"{counted(count, 'problem')} repaired: {PROBLEMS[kind]}")
        for kind, count in self.problems.items():
            lines.append(f"{counted(count, 'problem')}: {PROBLEMS[kind]}, such as")
            lines += [f"  {example}" for example in self.examples[kind]]
        if self.add_again:
            lines.append(f"Add (or adopt) again: {first_few(self.add_again, _NAMED)}")
        lines += [f"Note: {note}" for note in self.notes]
        if self.problems and not self.repaired:
            lines.append(f"To repair what can be repaired: {repair}")
        return "\n".join(lines)


@dataclass
class Scan:
    """One scan of both stores, in batches: the problems, and the work for `repair`.

    Keys of records and ids of vectors are listed before manifests are read. So a listed version
    that its manifest no longer mentions is never written again and may be removed.

    Attributes:
        writer: Holds the two stores.
        advance: Counts records on a progress bar.
        problems: Number of problems by kind.
        examples: A few examples of each kind of problem.
        notes: Checks that were not possible, and leftovers to keep; an ordered set.
        documents: Number of documents.
        chunks: Number of chunks.
        unreadable: Errors of corrupt manifests that cannot be restored.
        manifests: Lost or corrupt manifests, restored from other records.
        unfinished: Manifests of documents with versions to remove.
        unlisted: Versions to remove that their manifest does not list, by document key.
        damaged: Manifests of documents to write again, or to add again.
        records: Keys of records to remove.
        vectors: Ids of vectors to remove.
        to_write: Documents to write again.
        add_again: Ids of documents that must be added, or adopted, again, by document key.
    """

    writer: Writer
    advance: Advance
    problems: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=dict)
    notes: dict[str, None] = field(default_factory=dict)
    documents: int = 0
    chunks: int = 0
    unreadable: list[CorruptRecordError] = field(default_factory=list)
    manifests: list[Manifest] = field(default_factory=list)
    unfinished: list[StoredManifest] = field(default_factory=list)
    unlisted: dict[str, list[Version]] = field(default_factory=dict)
    damaged: list[StoredManifest] = field(default_factory=list)
    records: list[str] = field(default_factory=list)
    vectors: list[str] = field(default_factory=list)
    to_write: list[DocumentVersion] = field(default_factory=list)
    add_again: dict[str, str] = field(default_factory=dict)
    # Names of the versions that have records, by document key.
    _versions: dict[str, set[str]] = field(default_factory=dict)
    # Keys of documents whose manifest is lost or corrupt.
    _unknown: set[str] = field(default_factory=set)

    def run(self) -> None:
        """Check the docstore's indexes and records, then the vectors if they can be listed."""
        self._add("indexes", _find_index_problems(self.writer))
        owned = self._list_keys()
        for keys in batches(self._versions, _BATCH):
            self._check_documents(keys)
        for keys in batches(owned, _BATCH):
            self._check_owned_records(keys)
        self._check_vectors()

    def check_pair(self, *, repair: bool) -> None:
        """Check that the two stores belong together; with ``repair``, record that they do."""
        writer = self.writer
        records = read_records(writer.docstore, [PAIR_KEY])
        if isinstance(records[PAIR_KEY], CorruptRecordError):
            self._add("unreadable", [PAIR_KEY])
        vectorstore = writer.vectors.adapter.store
        try:
            writer.model = run(
                check_pair(writer.docstore, vectorstore, force=repair, record=repair)
            )
        except StoreMismatchError as error:
            self._add("vectors", [str(error)])

    def _add(self, kind: str, items: Sequence[str], doc_id: str = "") -> None:
        """Record problems of one kind, if any, with one document or an unknown one.

        Items are keys of records, ids of vectors, or descriptions.
        """
        if not items:
            return
        self.problems[kind] += len(items)
        examples = self.examples.setdefault(kind, [])
        if len(examples) < _EXAMPLES:
            name = f"document {doc_id!r}" if doc_id else items[0]
            examples.append(name if len(items) == 1 else f"{name} ({len(items):,})")

    # The docstore

    def _list_keys(self) -> list[str]:
        """List all keys; return those of answers and of adopted vectors."""
        owned: list[str] = []
        for keys in batches(self.writer.docstore.yield_keys(), _BATCH):
            for key in keys:
                match = _KEY.fullmatch(key)
                if match is None:
                    continue  # not a record of a document
                family, name, version = match.groups()
                if family in ("answers", "adopted"):
                    owned.append(key)
                    continue
                versions = self._versions.setdefault(name, set())
                if version is not None:
                    versions.add(version)
            self.advance(len(keys))
        return owned

    def _check_documents(self, keys: Sequence[str]) -> None:
        """Check documents; ignore problems of documents that change during the check."""
        layouts, _ = read_layouts(self.writer.docstore, keys)
        found: dict[str, _Findings] = {}
        for key, layout in layouts.items():
            if isinstance(layout, Layout):
                found[key] = self._check_document(layout.manifest)
            else:
                self._check_without_manifest(key, layout)
        self._find_missing_vectors(found.values())
        with_problems = [key for key, each in found.items() if each.problems]
        latest, _ = read_layouts(self.writer.docstore, with_problems)
        for key, layout in latest.items():
            before = found[key].manifest
            if isinstance(layout, Layout) and layout.manifest.revision == before.revision:
                self._keep(found[key])

    def _check_document(self, manifest: Manifest) -> "_Findings":
        """Compare a document with its manifest."""
        found = _Findings(manifest)
        current = manifest.current
        self.documents += 1
        found.unlisted = self._unlisted(manifest.key, manifest.versions)
        abandoned = manifest.abandoned()
        leftovers_of_document = [*manifest.garbage, *abandoned, *found.unlisted]
        found.note("leftovers", [version.name for version in leftovers_of_document])
        if len(abandoned) < len(manifest.announced):
            self.notes[
                f"document {manifest.doc_id!r} is being written, or a call that was writing it "
                "was interrupted less than an hour ago"
            ] = None
        if current is None:
            return found
        self.chunks += current.chunks
        found.document, problems = read_document(self.writer.docstore, manifest)
        found.note("unreadable", problems)
        adopted = self.writer.records.adopted_vectors(manifest.key, current)
        found.vectors = [*current.vector_ids(manifest.key), *adopted]
        if self.writer.is_of_another_model(manifest):
            found.note("vectors", ["vectors of another embedding model"])
        if current.adopted and not problems:
            versions = dict.fromkeys(adopted, current.name)
            found.note("unreadable", self.writer.records.unrecorded(versions))
        return found

    def _unlisted(self, key: str, listed: Iterable[Version]) -> list[Version]:
        """Find the versions of a document that have records and are not listed."""
        names = self._versions[key].difference(version.name for version in listed)
        if not names:
            return []
        stored = stored_versions(self.writer.docstore, key)
        return [version for version in stored if version.name in names]

    def _keep(self, found: "_Findings") -> None:
        """Record the problems of a document and the work for `repair`."""
        manifest = found.manifest
        current = manifest.current
        for kind, items in found.problems.items():
            self._add(kind, items, manifest.doc_id)
        stored = StoredManifest(manifest, manifest.to_document())
        if "leftovers" in found.problems:
            self.unfinished.append(stored)
            self.unlisted[manifest.key] = found.unlisted
        if not found.problems.keys() & {"unreadable", "vectors"} or current is None:
            return
        self.damaged.append(stored)
        if found.document is not None:
            self.to_write.append(found.document)
        else:
            self.add_again[manifest.key] = manifest.doc_id

    def _check_without_manifest(self, key: str, error: CorruptRecordError | None) -> None:
        """Restore a lost or corrupt manifest, or record the work for `repair` without one."""
        doc_id = ""
        newest: VersionDescription | None = None
        for name in self._versions[key]:
            description = read_description(self.writer.docstore, key, name)
            if description is None:
                continue
            doc_id = description.manifest.doc_id
            if newest is None or description.time > newest.time:
                _, problems = read_document(self.writer.docstore, description.manifest)
                newest = newest if problems else description
        if newest is not None:
            self.manifests.append(newest.manifest)
        elif error is not None:
            self.unreadable.append(error)
            self.add_again[key] = doc_id or f"the document with the key {key}"
        else:
            versions = self._unlisted(key, [])
            for version in versions:
                self.records += version.docstore_keys(key)
                self.vectors += version.vector_ids(key)
            self._add("leftovers", [version.name for version in versions], doc_id)
            return
        self._unknown.add(key)
        self._add("unreadable", [manifest_key(key)], doc_id)

    def _check_owned_records(self, record_keys: Sequence[str]) -> None:
        """Find answers and records of adopted vectors that are corrupt, or whose owner is gone."""
        owners: dict[str, _Owner] = {}
        for key, record in read_records(self.writer.docstore, record_keys).items():
            if isinstance(record, CorruptRecordError):
                self._add("unreadable", [key])
                self.records.append(key)
            elif key.startswith(answers_key("")):
                owners[key] = key.removeprefix(answers_key("")), None
            elif record is not None and record.metadata.get(DOC_ID) is not None:
                owner = document_key(str(record.metadata[DOC_ID]))
                owners[key] = owner, record.metadata.get(VERSION)
        gone = self._without_owner(owners)
        self._add("leftovers", gone)
        self.records += gone

    def _without_owner(self, owners: Mapping[str, _Owner]) -> list[str]:
        """Return keys or ids whose document or version certainly no longer exists."""
        layouts, _ = read_layouts(self.writer.docstore, [key for key, _ in owners.values()])
        gone: list[str] = []
        for item, (key, version) in owners.items():
            layout = layouts[key]
            if key in self._unknown or isinstance(layout, CorruptRecordError):
                continue
            if layout is None:
                gone.append(item)
            elif version is not None:
                names = [listed.name for listed in layout.manifest.versions]
                if version not in names:
                    gone.append(item)
        return gone

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
                self.notes[
                    f"{type(vectors.adapter.store).__name__} does not report which vectors exist, "
                    "so missing vectors are not detected"
                ] = None
                return
            for vector in ids:
                if vector not in existing:
                    by_vector[vector].note("vectors", [vector])

    def _check_vectors(self) -> None:
        """Find vectors of unknown versions, if the store can list its chunks."""
        vectors = self.writer.vectors
        if not vectors.adapter.can_list:
            self.notes[
                f"{type(vectors.adapter.store).__name__} cannot list its chunks (supported: "
                f"{LISTED}), so leftover vectors are not detected"
            ] = None
            return
        namespace = namespace_of(self.writer.docstore)
        for chunks in batches(vectors.adapter.list_chunks(), _BATCH):
            own = [chunk for chunk in chunks if namespace_in(chunk.metadata) == namespace]
            self._check_own_vectors(own)
            self._find_foreign_vectors(own)
            self.advance(len(chunks))

    def _check_own_vectors(self, chunks: Iterable[Document]) -> None:
        """Find vectors that this package wrote for versions that no manifest lists."""
        doc_ids: dict[str, str] = {}  # by vector id
        owners: dict[str, _Owner] = {}
        for chunk in chunks:
            if VERSION in chunk.metadata and chunk.metadata.get(DOC_ID):
                vector = str(chunk.id)
                doc_id = str(chunk.metadata[DOC_ID])
                doc_ids[vector] = doc_id
                owners[vector] = document_key(doc_id), chunk.metadata[VERSION]
        gone = self._without_owner(owners)
        existing = self.writer.vectors.existing(gone) if gone else None
        leftovers: dict[str, list[str]] = {}  # by document id
        for vector in gone:
            if existing is None or vector in existing:
                leftovers.setdefault(doc_ids[vector], []).append(vector)
        for doc_id, ids in leftovers.items():
            self._add("leftovers", ids, doc_id)
            self.vectors += ids

    def _find_foreign_vectors(self, chunks: Iterable[Document]) -> None:
        """Find vectors that other code wrote and that were not adopted."""
        vectors: dict[str, str] = {}  # by the keys of their records
        for chunk in chunks:
            if VERSION not in chunk.metadata:
                vector = str(chunk.id)
                vectors[adopted_key(vector)] = vector
        records = read_records(self.writer.docstore, list(vectors))
        foreign: list[str] = []
        for key, record in records.items():
            if record is None:
                foreign.append(vectors[key])
        self._add("foreign_vectors", foreign)


@dataclass
class _Findings:
    """The findings about one document."""

    manifest: Manifest
    problems: dict[str, list[str]] = field(default_factory=dict)  # items by kind
    unlisted: list[Version] = field(default_factory=list)
    vectors: list[str] = field(default_factory=list)  # ids of its vectors, existing or missing
    document: DocumentVersion | None = None  # None if its text is incomplete

    def note(self, kind: str, items: Sequence[str]) -> None:
        if items:
            self.problems.setdefault(kind, []).extend(items)


# Checking


def check_stores(writer: Writer, *, should_repair: bool, show_progress: bool) -> CheckReport:
    """Check two stores; with ``should_repair``, repair problems and check again."""
    found: Counter[str] = Counter()
    if should_repair:
        # Indexes first: a record missing from an index would count as lost.
        found["indexes"] = len(_rebuild_indexes(writer))
    with progress_bar(None, unit="records", title="Checking", show=show_progress) as advance:
        scan = Scan(writer, advance)
        scan.check_pair(repair=should_repair)
        scan.run()
        if not should_repair:
            return _report(scan)
        found += scan.problems
        _check_repairable(scan)
        for _ in range(_REPAIRS):
            if not scan.problems:
                break
            _repair(scan)
            # The full-text index keeps words of damaged records that were removed.
            _rebuild_indexes(writer)
            scan = Scan(writer, advance, notes=scan.notes)
            scan.run()
            found |= scan.problems
    return replace(_report(scan), repaired=dict(found - scan.problems))


def _report(scan: Scan) -> CheckReport:
    """Make the report of a scan."""
    return CheckReport(
        documents=scan.documents,
        chunks=scan.chunks,
        problems=dict(scan.problems),
        examples=scan.examples,
        add_again=sorted(set(scan.add_again.values())),
        notes=list(scan.notes),
    )


def _find_index_problems(writer: Writer) -> list[str]:
    """Describe where the docstore's indexes, over all namespaces, do not match its records."""
    store: Any = whole_store(writer.docstore)
    return [*store.index_problems()] if hasattr(store, "index_problems") else []


# Repairing


def _rebuild_indexes(writer: Writer) -> list[str]:
    """Rebuild the docstore's indexes if they do not match its records; return the problems."""
    problems = _find_index_problems(writer)
    if problems:
        store: Any = whole_store(writer.docstore)
        store.rebuild_indexes()
    return problems


def _check_repairable(scan: Scan) -> None:
    """Refuse to repair a docstore that is empty or mostly corrupt.

    Raises:
        StoreMismatchError: If the docstore is empty but the vector store is not.
        FormatError: If most manifests are in the format of another version of this package.
        CorruptRecordError: If most manifests are corrupt.
    """
    writer = scan.writer
    if scan.vectors and scan.documents == 0 and not scan.unreadable and not scan.manifests:
        vectors = counted(len(scan.vectors), "vector")
        raise StoreMismatchError(
            f"the docstore {writer.docstore!r:.200} is empty, but "
            f"{type(writer.vectors.adapter.store).__name__} has {vectors} of documents. Check "
            "the path of the docstore. No vector was removed. If the docstore is lost, delete the "
            "collection through the vector store and add the documents again"
        )
    unreadable = len(scan.unreadable)
    all_documents = scan.documents + len(scan.manifests) + unreadable
    if 2 * unreadable > all_documents:
        for error in scan.unreadable:
            if isinstance(error, FormatError):
                raise error
        raise CorruptRecordError(
            f"{unreadable} of {counted(all_documents, 'document')} cannot be read "
            f"({scan.unreadable[0]}). Nothing was repaired. Restore a backup of the docstore, or "
            "index the documents again into a new docstore and a new collection"
        )


def _repair(scan: Scan) -> None:
    """Repair the problems of a scan; skip documents that have changed since."""
    writer = scan.writer
    for manifest in scan.manifests:
        # A corrupt record counts as missing.
        change(writer.docstore, [(manifest_key(manifest.key), None, manifest.to_document())])
    unlisted = scan.unlisted
    if not scan.unreadable:
        writer.vectors.delete(scan.vectors)
        writer.records.delete(scan.records)
    elif any(unlisted.values()) or scan.vectors or scan.records:
        unlisted = {}
        scan.notes[
            "leftovers of unknown documents were kept, because some manifests cannot be read. Add "
            "those documents again, then check again"
        ] = None

    def with_leftovers_as_garbage(manifest: Manifest) -> Manifest:
        leftovers = [*manifest.abandoned(), *unlisted.get(manifest.key, [])]
        return manifest.with_garbage(leftovers)

    unfinished = writer.records.change_manifests(scan.unfinished, with_leftovers_as_garbage)
    writer.remove_garbage(unfinished.values())
    before = {stored.manifest.key: stored.manifest.current for stored in scan.damaged}

    def as_damaged(manifest: Manifest) -> Manifest | None:
        is_unchanged = manifest.current == before[manifest.key]
        return replace(manifest, is_damaged=True) if is_unchanged else None

    writer.records.change_manifests(scan.damaged, as_damaged)
    for document in scan.to_write:
        with suppress(UnexpectedVersionError):  # changed since: left to the next scan
            writer.write([document], {document.doc_id: document.version})
