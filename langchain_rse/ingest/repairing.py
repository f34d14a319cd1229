"""Repairs the problems that a scan found; never removes text that it cannot read.

It removes versions that manifests list as garbage and, if all manifests are readable, records and
vectors of unknown documents. Everything else is written again or reported as "add again".
"""

from contextlib import suppress
from dataclasses import replace
from typing import Any

from langchain_rse.errors import CorruptRecordError, FormatError, StoreMismatchError
from langchain_rse.ingest.problems import Scan, find_index_problems
from langchain_rse.ingest.writing import UnexpectedVersionError, Writer
from langchain_rse.stores.compare_and_set import change
from langchain_rse.stores.namespaces import whole_store
from langchain_rse.stores.records import Manifest, manifest_key
from langchain_rse.text.quoting import counted


def rebuild_indexes(writer: Writer) -> list[str]:
    """Rebuild the docstore's indexes if they do not match its records; return the problems."""
    problems = find_index_problems(writer)
    if problems:
        store: Any = whole_store(writer.docstore)
        store.rebuild_indexes()
    return problems


def check_repairable(scan: Scan) -> None:
    """Refuse to repair a docstore that is empty or mostly corrupt.

    Raises:
        StoreMismatchError: If the docstore is empty but the vector store is not.
        FormatError: If most manifests are in the format of another version of this package.
        CorruptRecordError: If most manifests are corrupt.
    """
    writer = scan.writer
    if scan.vectors and scan.documents == 0 and not scan.unreadable and not scan.manifests:
        vectors = counted(len(scan.vectors), "vector")
        store = type(writer.vectors.adapter.store).__name__
        raise StoreMismatchError(
            f"the docstore {writer.docstore!r:.200} is empty, but {store} has {vectors} of "
            "documents. Check the path of the docstore. No vector was removed. If the docstore is "
            "lost, delete the collection through the vector store and add the documents again"
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


def repair(scan: Scan) -> None:
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
    for document, version in scan.to_write:
        with suppress(UnexpectedVersionError):  # changed since: left to the next scan
            writer.write([document], {document.doc_id: version})
