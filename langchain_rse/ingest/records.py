"""Reads, writes and deletes records of the docstore in batches."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from langchain_core.documents import Document

from langchain_rse._sync import Steps, batches, compute_to_the_end, during
from langchain_rse.errors import CorruptRecordError
from langchain_rse.stores.changing import Change, DocStore, Record, change, read_records
from langchain_rse.stores.namespaces import refuse_namespaces
from langchain_rse.stores.reading import read_adopted, readable, stored_versions
from langchain_rse.stores.records import (
    NAMESPACES,
    VERSION,
    Manifest,
    Version,
    document_key,
    manifest_key,
)


class Stored(NamedTuple):
    """What the docstore has for a document."""

    manifest: Manifest  # if it cannot be read: one with the versions whose records were found
    record: Document | None  # that of the manifest; None if there is none or it cannot be read
    is_known: bool  # True if there is a manifest, which may be unreadable


@dataclass(frozen=True)
class Records:
    """Reads, writes and deletes records for a `Writer`."""

    docstore: DocStore
    batch_size: int  # records in one call of the docstore

    def read(self, keys: Iterable[str]) -> Steps[dict[str, Document | None]]:
        """Read records; a CorruptRecordError if one of them cannot be read."""
        records = yield from self._read_each(keys)
        return {key: readable(record) for key, record in records.items()}

    def manifests(self, keys: Iterable[str]) -> Steps[list[Manifest | None]]:
        """Read the manifests of documents by their keys; None for unknown documents."""
        records = yield from self.read(map(manifest_key, keys))
        manifests: list[Manifest | None] = []
        for key, record in records.items():
            manifests.append(None if record is None else Manifest.from_document(record, key))
        return manifests

    def stored(self, doc_ids: Sequence[str], *, may_be_lost: bool = False) -> Steps[list[Stored]]:
        """Read what the docstore has for each of these documents.

        If a manifest cannot be read, the versions that it listed are found by the keys of their
        records; with ``may_be_lost``, also if there is no manifest.
        """
        keys = [manifest_key(document_key(doc_id)) for doc_id in doc_ids]
        records = yield from self._read_each([*keys, NAMESPACES])
        refuse_namespaces(records[NAMESPACES])
        stored: list[Stored] = []
        for doc_id, key in zip(doc_ids, keys, strict=True):
            record = records[key]
            manifest = readable_manifest(record, key)
            if manifest is None:
                versions: list[Version] = []
                if record is not None or may_be_lost:
                    versions = yield from stored_versions(self.docstore, document_key(doc_id))
                manifest = Manifest(doc_id, unfinished=versions)
            readable_record = record if isinstance(record, Document) else None
            stored.append(Stored(manifest, readable_record, is_known=record is not None))
        return stored

    def adopted_vectors(self, manifest: Manifest, version: Version) -> Steps[list[str]]:
        """Read the ids of the vectors that a version was adopted from."""
        records = yield from self.read(version.vectors_keys(manifest.key))
        ids: list[str] = []
        for key, record in records.items():
            if record is not None:  # else an interrupted call did not write it
                ids += read_adopted(record, key, manifest)
        return ids

    def write(self, records: Iterable[tuple[str, Document]]) -> Steps[None]:
        """Write records."""
        with during("writing to the docstore"):
            for batch in batches(records, self.batch_size):
                yield from compute_to_the_end(self.docstore.mset, batch)

    def delete(self, keys: Iterable[str]) -> Steps[None]:
        """Delete records; keys that do not exist are no error."""
        with during("deleting from the docstore"):
            for batch in batches(keys, self.batch_size):
                yield from compute_to_the_end(self.docstore.mdelete, batch)

    def delete_adopted(self, keys: Iterable[str], versions: set[str]) -> Steps[None]:
        """Delete records of adopted vectors, except those that have another version meanwhile.

        Args:
            keys: The keys of the records.
            versions: The names of the versions that are removed.
        """
        records = yield from self._read_each(keys)
        changes: list[Change] = []
        for key, record in records.items():
            if isinstance(record, CorruptRecordError):
                changes.append((key, None, None))
            # Not a set: a damaged record may hold a value that is not hashable.
            elif record is not None and record.metadata.get(VERSION, "") in [*versions, ""]:
                changes.append((key, record, None))
        if changes:
            yield from change(self.docstore, changes)

    def _read_each(self, keys: Iterable[str]) -> Steps[dict[str, Record]]:
        """Read records; those that cannot be read have their error."""
        records: dict[str, Record] = {}
        for batch in batches(keys, self.batch_size):
            records.update((yield from read_records(self.docstore, batch)))
        return records


def readable_manifest(record: Record, key: str) -> Manifest | None:
    """Read the manifest of a record; None if there is no record or it cannot be read."""
    if not isinstance(record, Document):
        return None
    try:
        return Manifest.from_document(record, key)
    except CorruptRecordError:
        return None
