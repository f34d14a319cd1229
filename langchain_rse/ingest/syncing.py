"""Syncs the stores with a set of documents: adds these and deletes all others."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from langchain_core.documents import Document

from langchain_rse.ingest.adding import AddOperation
from langchain_rse.stores.layouts import read_manifests
from langchain_rse.stores.records import Manifest
from langchain_rse.text.quoting import counted


class SyncResult(NamedTuple):
    """The result of ``sync``."""

    ids: list[str]
    """Ids of the given documents, without duplicates, in order of appearance."""
    deleted: list[str]
    """Ids of the documents that were deleted."""


def sync_documents(
    adding: AddOperation,
    documents: Iterable[Document],
    ids: Iterable[str] | None,
    *,
    may_delete: Callable[[Manifest], bool] = lambda _: True,
    show_progress: bool,
) -> SyncResult:
    """Add documents, then delete all other stored documents that ``may_delete`` allows.

    If adding fails, no document is deleted.
    """
    # Read first, so that documents added by concurrent calls are kept.
    manifests = read_manifests(adding.writer.docstore)
    stored_ids = [manifest.doc_id for manifest in manifests if may_delete(manifest)]

    given_ids = adding.add(documents, ids, show_progress=show_progress)
    if stored_ids and not given_ids:
        raise ValueError(
            "documents is empty, so sync would delete all "
            f"{counted(len(stored_ids), 'document')}. Check the path that you load from. To delete "
            "all documents on purpose, call delete with their ids"
        )
    gone = set(stored_ids).difference(given_ids)
    deleted = adding.writer.delete(sorted(gone))
    return SyncResult(given_ids, deleted)
