"""Batched access to the docstore: reads, writes and removes records, and updates manifests."""

import random
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from langchain_core.documents import Document

from langchain_rse._sync import batches, during
from langchain_rse.errors import CorruptRecordError, FormatError, MissingRecordError
from langchain_rse.stores.compare_and_set import (
    Change,
    DocStore,
    Record,
    change,
    parse_if_readable,
    read_records,
    readable,
    refuse_namespaces,
)
from langchain_rse.stores.layouts import read_description, stored_versions
from langchain_rse.stores.records import (
    NAMESPACES,
    VERSION,
    Manifest,
    Version,
    adopted_key,
    adopted_vectors,
    chunk_key,
    document_key,
    manifest_key,
)
from langchain_rse.text.quoting import first_few

# An update fails if another call changes the same manifest first. After this many failures, the
# docstore is assumed to lose writes.
_ATTEMPTS = 200
_LONGEST_PAUSE = 0.02  # seconds between two attempts


class StoredManifest(NamedTuple):
    """A document's manifest as read from the docstore."""

    # Without a record: a manifest without versions. For a corrupt record: all versions found in the
    # docstore, as garbage.
    manifest: Manifest
    record: Record  # an error if it is corrupt


ChangeManifest = Callable[[Manifest], Manifest | None]
"""Makes a new manifest from the latest one; returns None to leave it unchanged."""


@dataclass(frozen=True)
class DocStoreWriter:
    """Reads, writes and removes records for a `Writer`."""

    docstore: DocStore
    batch_size: int  # records in one call of the docstore

    # Manifests

    def manifests(self, keys: Iterable[str]) -> list[Manifest | None]:
        """Read manifests by document key; None for unknown documents."""
        manifests: list[Manifest | None] = []
        for key, found in self.read(map(manifest_key, keys)).items():
            record = readable(found)
            manifests.append(None if record is None else Manifest.from_document(record, key))
        return manifests

    def stored_manifests(
        self, doc_ids: Iterable[str], *, may_be_lost: bool = False
    ) -> list[StoredManifest]:
        """Read the manifests of documents.

        If a manifest is corrupt, or with ``may_be_lost`` missing, the document's versions are
        recovered from the keys of their records.
        """
        keys = {doc_id: manifest_key(document_key(doc_id)) for doc_id in doc_ids}
        records = self.read([*keys.values(), NAMESPACES])
        refuse_namespaces(records[NAMESPACES])
        stored: list[StoredManifest] = []
        for doc_id, key in keys.items():
            record = records[key]
            if isinstance(record, FormatError):
                raise record
            manifest = parse_if_readable(record, key, Manifest.from_document)
            if manifest is None:
                versions: list[Version] = []
                if record is not None or may_be_lost:
                    versions = stored_versions(self.docstore, document_key(doc_id))
                manifest = Manifest(doc_id, garbage=tuple(versions))
            stored.append(StoredManifest(manifest, record))
        return stored

    def change_manifests(
        self, stored: Iterable[StoredManifest], make_new: ChangeManifest
    ) -> dict[str, StoredManifest]:
        """Update manifests by compare and set, each starting from the latest record.

        A manifest that no longer lists any version is removed.

        Args:
            stored: The manifests as last read.
            make_new: Makes the new manifest; may be called several times.

        Returns:
            The updated manifests, by document key.

        Raises:
            MissingRecordError: If the docstore loses writes.
        """
        changed: dict[str, StoredManifest] = {}
        pending = list(stored)
        for _ in range(_ATTEMPTS):
            failed: list[StoredManifest] = []
            for batch in batches(pending, self.batch_size):
                updates = _updates(batch, make_new)
                if not updates:
                    continue
                made = change(self.docstore, [each for _, _, each in updates])
                for (old, new, _), is_made in zip(updates, made, strict=True):
                    if is_made:
                        changed[new.manifest.key] = new
                    else:
                        failed.append(old)
            if not failed:
                return changed
            time.sleep(random.uniform(0, _LONGEST_PAUSE))  # noqa: S311 - no secret
            pending = self.stored_manifests(each.manifest.doc_id for each in failed)
        names = first_few(repr(each.manifest.doc_id) for each in pending)
        raise MissingRecordError(
            f"the manifest of document(s) {names} could not be updated in {_ATTEMPTS} attempts, "
            "because it changed every time. Check that the docstore keeps all records and does not "
            "evict any"
        )

    # Records

    def read(self, keys: Iterable[str]) -> dict[str, Record]:
        """Read records; a corrupt record is represented by its error."""
        records: dict[str, Record] = {}
        for batch in batches(keys, self.batch_size):
            records.update(read_records(self.docstore, batch))
        return records

    def adopted_vectors(self, key: str, version: Version) -> list[str]:
        """Read the ids of the vectors that a document's version was adopted from."""
        if not version.adopted:
            return []
        description = read_description(self.docstore, key, version.name)
        if description is not None:
            return list(description.vectors)
        # An interrupted call did not write it, or it is damaged. The chunks name their vectors.
        ids: list[str] = []
        chunk_keys = (chunk_key(key, version.name, index) for index in range(version.chunks))
        for record_key, record in self.read(chunk_keys).items():
            if isinstance(record, Document):
                ids += adopted_vectors(record, record_key)
        return ids

    def unrecorded(self, versions: Mapping[str, str]) -> list[str]:
        """Return the ids of adopted vectors whose record does not name the given version."""
        vectors = {adopted_key(vector): vector for vector in versions}
        found: list[str] = []
        for key, record in self.read(vectors).items():
            vector = vectors[key]
            named = record.metadata.get(VERSION) if isinstance(record, Document) else None
            if named != versions[vector]:
                found.append(vector)
        return found

    def write(self, records: Iterable[tuple[str, Document]]) -> None:
        """Write records."""
        with during("writing to the docstore"):
            for batch in batches(records, self.batch_size):
                self.docstore.mset(batch)

    def delete(self, keys: Iterable[str]) -> None:
        """Delete records; ignore keys that do not exist."""
        with during("deleting from the docstore"):
            for batch in batches(keys, self.batch_size):
                self.docstore.mdelete(batch)

    def delete_adopted(self, keys: Iterable[str], versions: set[str]) -> None:
        """Delete records of adopted vectors unless another version has rewritten them.

        Args:
            keys: The keys of the records.
            versions: Names of the versions being removed.
        """
        for batch in batches(keys, self.batch_size):
            records = read_records(self.docstore, batch)
            changes: list[Change] = []
            for key, record in records.items():
                if isinstance(record, CorruptRecordError):
                    changes.append((key, None, None))
                # Not a set: a corrupt record may hold an unhashable value.
                elif record is not None and record.metadata.get(VERSION, "") in [*versions, ""]:
                    changes.append((key, record, None))
            if changes:
                change(self.docstore, changes)


def _updates(
    stored: Iterable[StoredManifest], make_new: ChangeManifest
) -> list[tuple[StoredManifest, StoredManifest, Change]]:
    """Make the changes of manifests that change: each before and after it, and the change."""
    updates: list[tuple[StoredManifest, StoredManifest, Change]] = []
    for old in stored:
        new = make_new(old.manifest)
        if new is not None:
            new = replace(new, revision=uuid.uuid4().hex)
            record = new.to_document() if new.versions else None
            # For a change, a corrupt record counts as missing.
            expected = old.record if isinstance(old.record, Document) else None
            key = manifest_key(new.key)
            updates.append((old, StoredManifest(new, record), (key, expected, record)))
    return updates
