"""Repairs what a scan has found wrong with two stores."""

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from langchain_rse._sync import Steps, compute_to_the_end
from langchain_rse.ingest.replacing import UnexpectedVersionError
from langchain_rse.ingest.scanning import Finding, SeenManifest, find_index_problems
from langchain_rse.ingest.writing import Writer
from langchain_rse.stores.changing import change
from langchain_rse.stores.namespaces import whole_store
from langchain_rse.stores.records import DOC_ID, Manifest, manifest_key, vector_id
from langchain_rse.stores.whole_documents import read_document

_CHUNK_KEY = re.compile(r"([^/]+)/([^/]+)/([0-9]+)")


@dataclass
class Repairs:
    """Repairs two stores, and tells what has to be added again.

    Attributes:
        writer: Has the two stores.
        add_again: Ids of documents that were removed because text of them is lost, by their keys.
        removed: Notes on other removed documents and records, as a set in order.
    """

    writer: Writer
    add_again: dict[str, str] = field(default_factory=dict)
    removed: dict[str, None] = field(default_factory=dict)

    def repair_indexes(self) -> Steps[set[tuple[str, str, str]]]:
        """Build the docstore's indexes anew if they do not fit; return what was wrong."""
        findings = yield from find_index_problems(self.writer.docstore)
        if not findings:
            return set()
        store: Any = whole_store(self.writer.docstore)
        yield from compute_to_the_end(store.rebuild_indexes)
        return {("indexes", "", item) for item in findings[0].items}

    def repair(self, findings: Sequence[Finding]) -> Steps[None]:
        """Remove orphans, then repair documents, unless they were changed meanwhile."""
        damaged: dict[str, SeenManifest] = {}
        for finding in findings:
            if finding.kind == "foreign_vectors":
                continue  # they belong to other code
            if finding.kind == "indexes":
                continue  # they are repaired before the next scan
            if finding.kind.startswith("orphan") or not finding.doc_id:
                yield from self._remove(finding)
            else:
                damaged[finding.key] = finding.seen
        for seen in damaged.values():
            if seen.manifest is not None:
                yield from self._repair_document(seen.manifest, seen)

    def _remove(self, finding: Finding) -> Steps[None]:
        """Remove records or vectors that belong to no document or version."""
        manifest, record, _ = finding.seen
        if finding.items == [manifest_key(finding.key)]:
            yield from self._remove_manifest(finding)
        elif not finding.doc_id:
            yield from self.writer.records.delete(finding.items)
        else:
            vectors: Iterable[str] = finding.items
            records: Iterable[str] = ()
            if finding.kind == "orphan_records":
                vectors = _vectors_of_chunks(finding.items)
                records = finding.items
            yield from self.writer.clean(
                manifest or Manifest(finding.doc_id), record, vectors=vectors, records=records
            )
            if finding.key in self.add_again:  # its id was not known before
                self.add_again[finding.key] = finding.doc_id

    def _remove_manifest(self, finding: Finding) -> Steps[None]:
        """Remove a manifest that cannot be read; the next scan finds its records."""
        record = finding.seen.record
        yield from change(self.writer.docstore, [(manifest_key(finding.key), record, None)])
        doc_id = record.metadata.get(DOC_ID) if record else None
        self.add_again[finding.key] = str(doc_id or f"the document with the key {finding.key}")

    def _repair_document(self, manifest: Manifest, seen: SeenManifest) -> Steps[None]:
        """Write a document again from its records, or remove it if some of them are lost."""
        doc_id, version = manifest.doc_id, manifest.current
        if version is None:
            without_version = manifest.removing(())
            yield from self.writer.clean(without_version, seen.record)
            note = (
                f"document {doc_id!r} was being added or deleted when it was interrupted, and is "
                "removed; add it again unless it was to be deleted"
            )
            self.removed[note] = None
            return
        stored = yield from read_document(self.writer.docstore, manifest)
        if stored.document is not None:
            yield from self._remove_parts(doc_id, stored.wrong.get("parts", []))
            with suppress(UnexpectedVersionError):  # the next scan finds what is wrong then
                yield from self.writer.write([stored.document], {doc_id: version}, repair=True)
        elif not stored.wrong:  # adopted: its vectors were written by other code
            yield from self.writer.clean(manifest.removing(()), seen.record)
        else:
            # If it is adopted, its manifest is removed, but no vectors.
            is_adopted = any(known.adopted for known in manifest.versions)
            unfinished = () if is_adopted else manifest.versions
            lost = replace(manifest, current=None, writing=None, unfinished=unfinished)
            yield from self.writer.clean(lost, seen.record)
            self.add_again[manifest.key] = doc_id

    def _remove_parts(self, doc_id: str, keys: Iterable[str]) -> Steps[None]:
        """Remove a damaged record of the pieces that a document was added in; its text is whole."""
        for key in keys:
            # A record that cannot be read counts as none.
            yield from change(self.writer.docstore, [(key, None, None)])
            note = (
                f"document {doc_id!r} counts as one piece from now on: if one of its pieces is "
                "appended again, it is there twice. To restore them, add the document with "
                "force=True"
            )
            self.removed[note] = None


def _vectors_of_chunks(keys: Iterable[str]) -> list[str]:
    """The ids of the vectors of those records that are chunks, by the keys of the records."""
    vectors: list[str] = []
    for key in keys:
        match = _CHUNK_KEY.fullmatch(key)
        if match:
            document, version, index = match.groups()
            vectors.append(vector_id(document, version, int(index)))
    return vectors
