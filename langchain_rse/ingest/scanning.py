"""Looks through both stores for what is wrong with documents, without changing anything."""

import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from langchain_core.documents import Document

from langchain_rse._progress import Advance
from langchain_rse._sync import Steps, batches, compute
from langchain_rse.errors import CorruptRecordError
from langchain_rse.ingest.ownership import Ownership
from langchain_rse.ingest.records import readable_manifest
from langchain_rse.ingest.writing import Writer
from langchain_rse.stores.changing import DocStore, Record, is_as_expected, read_records
from langchain_rse.stores.namespaces import namespace_of, whole_store
from langchain_rse.stores.pairing import PAIR_KEY
from langchain_rse.stores.records import (
    DOC_ID,
    VERSION,
    Manifest,
    adopted_key,
    document_key,
    manifest_key,
    namespace_in,
)
from langchain_rse.stores.vectorstores import LISTED
from langchain_rse.stores.whole_documents import read_document

# Keys in one call.
_BATCH = 500

# Family, name and version of a record; records of chunks and spans have no family.
_KEY = re.compile(r"(?:(manifest|answers|adopted)/)?([0-9a-f]{32})(?:/([^/]+)/.+)?")


class SeenManifest(NamedTuple):
    """A manifest as it was read; a record that `is_there` without a manifest is unreadable."""

    manifest: Manifest | None
    record: Document | None
    is_there: bool


class Finding(NamedTuple):
    """Problems of one kind with one document."""

    kind: str  # one of `langchain_rse.ingest.checking.PROBLEMS`
    key: str  # the document's
    seen: SeenManifest  # the document's manifest at that time
    items: list[str]  # keys of records, ids of vectors, or the document's id
    doc_id: str = ""  # if it is known

    def __str__(self) -> str:
        name = f"document {self.doc_id!r}" if self.doc_id else self.items[0]
        if len(self.items) == 1:
            return name
        return f"{name} ({len(self.items):,})"


class _RecordKey(NamedTuple):
    """The parts of a record's key in the docstore."""

    family: str | None
    name: str  # the document's key or, for an adopted vector, the digest of its id
    version: str | None


@dataclass
class Scan:
    """One look through two stores, in batches.

    Attributes:
        writer: Has the two stores.
        ownership: Tells which documents other calls are writing.
        advance: Counts records on a progress bar.
        findings: What is wrong.
        not_checked: What could not be checked, as a set in order.
        records: Number of documents' records, readable or not.
        documents: Number of documents.
        chunks: Number of their chunks.
    """

    writer: Writer
    ownership: Ownership
    advance: Advance
    findings: list[Finding] = field(default_factory=list)
    not_checked: dict[str, None] = field(default_factory=dict)
    records: int = 0
    documents: int = 0
    chunks: int = 0
    _unreadable_manifests: set[str] = field(default_factory=set)  # keys of their documents

    def problems(self) -> set[tuple[str, str, str]]:
        """Each problem by its kind, the document's key and the item."""
        problems: set[tuple[str, str, str]] = set()
        for finding in self.findings:
            problems.update((finding.kind, finding.key, item) for item in finding.items)
        return problems

    def run(self) -> Steps[None]:
        """Check the docstore's indexes and all records, then the vectors if they can be listed."""
        self.findings += yield from find_index_problems(self.writer.docstore)
        yield from self._scan_pair()
        next_keys = _key_batches(self.writer.docstore)
        keys = yield from next_keys()
        while keys:
            yield from self._scan_records(keys)
            self.records += sum(1 for key in keys if _KEY.fullmatch(key))
            self.advance(len(keys))
            keys = yield from next_keys()
        yield from self._scan_vectors()

    def _read_manifests(self, keys: Iterable[str]) -> Steps[dict[str, SeenManifest]]:
        """Read manifests by the keys of their documents."""
        document_keys = list(dict.fromkeys(keys))
        record_keys = [manifest_key(key) for key in document_keys]
        records = yield from read_records(self.writer.docstore, record_keys)
        seen: dict[str, SeenManifest] = {}
        for key, record_key in zip(document_keys, record_keys, strict=True):
            record = records[record_key]
            seen[key] = SeenManifest(
                manifest=readable_manifest(record, record_key),
                record=record if isinstance(record, Document) else None,
                is_there=record is not None,
            )
        return seen

    def _keep(self, findings: Sequence[Finding]) -> Steps[None]:
        """Keep findings, except those of documents that were written meanwhile."""
        now = yield from self._read_manifests(finding.key for finding in findings)
        for finding in findings:
            if is_as_expected(now[finding.key].record, finding.seen.record):
                self.findings.append(finding)

    # The docstore

    def _scan_pair(self) -> Steps[None]:
        """Find whether the record on the vector store can be read."""
        records = yield from read_records(self.writer.docstore, [PAIR_KEY])
        if isinstance(records[PAIR_KEY], CorruptRecordError):
            no_manifest = SeenManifest(None, None, is_there=False)
            self.findings.append(Finding("unreadable", "", no_manifest, [PAIR_KEY]))

    def _scan_records(self, keys: Sequence[str]) -> Steps[None]:
        """Find what is wrong with some records, and with the documents whose manifests they are."""
        parsed: dict[str, _RecordKey] = {}
        for key in keys:
            match = _KEY.fullmatch(key)
            if match:  # else it is no record of a document
                family, name, version = match.groups()
                parsed[key] = _RecordKey(family, name, version)
        adopted_keys = [key for key, parts in parsed.items() if parts.family == "adopted"]
        adopted_records = yield from read_records(self.writer.docstore, adopted_keys)
        owners = _owners(parsed, adopted_records)
        seen = yield from self._read_manifests(owners.values())

        findings = self._find_unreadable_manifests(seen)
        documents: list[tuple[Manifest, SeenManifest]] = []  # whose manifests are among the records
        without_version: dict[str, list[str]] = {}  # keys of records by that of the document
        for key, (family, _, version) in parsed.items():
            owner = owners[key]
            seen_owner = seen[owner]
            if family is None:
                if not _has_version(seen_owner, version):
                    without_version.setdefault(owner, []).append(key)
            elif family == "manifest" and seen_owner.manifest is not None:
                documents.append((seen_owner.manifest, seen_owner))
            else:
                kind = _problem_of_record(family, adopted_records.get(key), seen_owner)
                if kind:
                    findings.append(Finding(kind, owner, seen_owner, [key]))
        for owner, record_keys in without_version.items():
            findings += yield from self._find_orphans(owner, seen[owner], record_keys)
        findings += yield from self._check_documents(documents)
        yield from self._keep(findings)

    def _find_unreadable_manifests(self, seen: Mapping[str, SeenManifest]) -> list[Finding]:
        """Find manifests that cannot be read, each once.

        They need not be among the keys: a store of files does not list a folder.
        """
        findings: list[Finding] = []
        for key, manifest in seen.items():
            is_unreadable = manifest.is_there and manifest.manifest is None
            if is_unreadable and key not in self._unreadable_manifests:
                self._unreadable_manifests.add(key)
                findings.append(Finding("unreadable", key, manifest, [manifest_key(key)]))
        return findings

    def _find_orphans(
        self, owner: str, seen: SeenManifest, keys: Sequence[str]
    ) -> Steps[list[Finding]]:
        """Find those records of no known version that are still there."""
        records = yield from read_records(self.writer.docstore, keys)
        existing = [key for key, record in records.items() if record is not None]
        if not existing:
            return []
        doc_id = ""
        for record in records.values():
            if isinstance(record, Document):
                name = str(record.metadata.get(DOC_ID))
                if document_key(name) == owner:
                    doc_id = name
        return [Finding("orphan_records", owner, seen, existing, doc_id)]

    def _check_documents(
        self, documents: Iterable[tuple[Manifest, SeenManifest]]
    ) -> Steps[list[Finding]]:
        """Find what is wrong with documents that no other call is writing."""
        findings: list[Finding] = []
        missing_vectors: dict[str, list[str]] = {}  # by vector: the missing ones of its document
        for manifest, seen in documents:
            doc_id, version = manifest.doc_id, manifest.current
            self.documents += 1
            if not self.ownership.is_free(manifest):
                self.not_checked[f"document {doc_id!r} is being written; check it later"] = None
                continue
            problems: dict[str, list[str]] = {}
            if not manifest.is_finished:
                problems["unfinished"] = [doc_id]
            if self.writer.is_of_another_model(manifest):
                problems["other_model"] = [doc_id]
            if version is not None:
                self.chunks += version.chunks
                stored = yield from read_document(self.writer.docstore, manifest)
                problems.update(stored.wrong)
                missing: list[str] = []
                problems["missing_vectors"] = missing
                missing_vectors.update(dict.fromkeys(stored.vectors, missing))
            for kind, items in problems.items():
                findings.append(Finding(kind, manifest.key, seen, items, doc_id))
        yield from self._look_for_vectors(missing_vectors)
        return [finding for finding in findings if finding.items]

    def _look_for_vectors(self, missing_vectors: Mapping[str, list[str]]) -> Steps[None]:
        """Add each vector that is not in the store to the list that it is mapped to."""
        vectors = self.writer.vectors
        for ids in batches(missing_vectors, vectors.batch_size):
            existing = yield from vectors.existing(ids)
            if existing is None:
                name = type(vectors.vectorstore).__name__
                note = f"{name} cannot tell which vectors it has; missing ones are not found"
                self.not_checked[note] = None
                return
            for vector in ids:
                if vector not in existing:
                    missing_vectors[vector].append(vector)

    # The vector store

    def _scan_vectors(self) -> Steps[None]:
        """Find vectors of no known version, in a store that can be listed."""
        vectors = self.writer.vectors
        if not vectors.adapter.can_list:
            name = type(vectors.vectorstore).__name__
            note = f"{name} cannot be listed, unlike {LISTED}: leftover vectors are not found"
            self.not_checked[note] = None
            return
        next_chunks = vectors.adapter.list_chunks()
        chunks = yield from next_chunks()
        while chunks:
            yield from self._scan_chunks(chunks)
            yield from self._scan_foreign(chunks)
            self.advance(len(chunks))
            chunks = yield from next_chunks()

    def _scan_foreign(self, chunks: Sequence[Document]) -> Steps[None]:
        """Find vectors that other code wrote and that were not adopted."""
        namespace = namespace_of(self.writer.docstore)
        record_keys: dict[str, str] = {}  # by the ids of vectors
        for chunk in chunks:
            if VERSION not in chunk.metadata and namespace_in(chunk.metadata) == namespace:
                record_keys[str(chunk.id)] = adopted_key(str(chunk.id))
        if not record_keys:
            return
        records = yield from read_records(self.writer.docstore, list(record_keys.values()))
        foreign = [vector for vector, key in record_keys.items() if records[key] is None]
        if foreign:
            no_manifest = SeenManifest(None, None, is_there=False)
            self.findings.append(Finding("foreign_vectors", "", no_manifest, foreign))

    def _scan_chunks(self, chunks: Sequence[Document]) -> Steps[None]:
        """Find those chunks of the vector store that are of no known version."""
        namespace = namespace_of(self.writer.docstore)
        own_chunks = [chunk for chunk in chunks if _is_own(chunk, namespace)]
        doc_ids = [str(chunk.metadata[DOC_ID]) for chunk in own_chunks]
        seen = yield from self._read_manifests(map(document_key, doc_ids))

        orphans: dict[str, list[str]] = {}  # ids of vectors, by that of the document
        for chunk, doc_id in zip(own_chunks, doc_ids, strict=True):
            if not _has_version(seen[document_key(doc_id)], chunk.metadata[VERSION]):
                orphans.setdefault(doc_id, []).append(str(chunk.id))

        findings: list[Finding] = []
        for doc_id, ids in orphans.items():
            existing = yield from self.writer.vectors.existing(ids)
            still_there = ids if existing is None else list(existing)
            if still_there:
                key = document_key(doc_id)
                findings.append(Finding("orphan_vectors", key, seen[key], still_there, doc_id))
        yield from self._keep(findings)


def find_index_problems(docstore: DocStore) -> Steps[list[Finding]]:
    """Find whether the indexes of a docstore that has some, for all namespaces, fit its records."""
    store: Any = whole_store(docstore)
    if not hasattr(store, "index_problems"):
        return []
    problems: list[str] = yield from compute(store.index_problems)
    if not problems:
        return []
    no_manifest = SeenManifest(None, None, is_there=False)
    return [Finding("indexes", "", no_manifest, problems)]


def _owners(
    parsed: Mapping[str, _RecordKey], adopted_records: Mapping[str, Record]
) -> dict[str, str]:
    """The key of the document that each record belongs to."""
    owners: dict[str, str] = {}
    for key, parts in parsed.items():
        record = adopted_records.get(key)
        if isinstance(record, Document):
            owners[key] = document_key(str(record.metadata.get(DOC_ID)))
        else:
            owners[key] = parts.name
    return owners


def _problem_of_record(family: str, adopted_record: Record, owner: SeenManifest) -> str:
    """The kind of problem with a record that has a family; empty if there is none.

    A manifest is known to be unreadable, which was found already, or was removed meanwhile.
    """
    if family == "manifest":
        return ""
    if family == "answers":
        return "" if owner.is_there else "orphan_records"
    if isinstance(adopted_record, CorruptRecordError):
        return "unreadable"
    if adopted_record is None:  # removed meanwhile
        return ""
    if adopted_record.metadata.get(DOC_ID) is None:  # its vector was left out of the adoption
        return ""
    version = adopted_record.metadata.get(VERSION)
    return "" if _has_version(owner, version) else "orphan_records"


def _has_version(seen: SeenManifest, version: object) -> bool:
    """True if a manifest names the version, or cannot be read."""
    if seen.manifest is None:
        return seen.is_there
    return any(known.name == version for known in seen.manifest.versions)


def _is_own(chunk: Document, namespace: str) -> bool:
    """True if this package has written a chunk of the vector store, in this namespace."""
    if VERSION not in chunk.metadata or not chunk.metadata.get(DOC_ID):
        return False
    return namespace_in(chunk.metadata) == namespace


def _key_batches(docstore: DocStore) -> Callable[[], Steps[list[str]]]:
    """Return a function that reads the next keys of a docstore; none at the end."""
    keys = docstore.yield_keys()

    def next_keys() -> list[str]:
        return list(itertools.islice(keys, _BATCH))

    return lambda: compute(next_keys)
