"""Syncs the stores with the given documents: adds these, and deletes all others."""

from collections.abc import AsyncIterable, Callable, Iterable
from typing import NamedTuple

from langchain_core.documents import Document

from langchain_rse._sync import Steps, compute
from langchain_rse.ingest.adding import AddOperation
from langchain_rse.stores.layouts import read_manifests
from langchain_rse.stores.records import Manifest
from langchain_rse.text.quoting import counted


class SyncResult(NamedTuple):
    """What a call of ``sync`` has done."""

    ids: list[str]
    """The ids of the given documents, each once, in order of appearance."""
    deleted: list[str]
    """The ids of the documents that were deleted."""


def sync_documents(
    adding: AddOperation,
    documents: Iterable[Document] | AsyncIterable[Document],
    ids: Iterable[str] | None,
    *,
    may_delete: Callable[[Manifest], bool] = lambda _: True,
    show_progress: bool,
) -> Steps[SyncResult]:
    """Add documents, then delete the stored ones that are not among them.

    ``may_delete`` says which documents may be deleted. Nothing is deleted if adding fails.
    """
    # Read before adding: documents that other calls add meanwhile are not deleted.
    manifests = yield from compute(read_manifests, adding.writer.docstore)
    stored_ids = [manifest.doc_id for manifest in manifests if may_delete(manifest)]

    given_ids = yield from adding.add(documents, ids, show_progress=show_progress)
    if stored_ids and not given_ids:
        raise ValueError(
            f"documents is empty, and sync would delete all {counted(len(stored_ids), 'document')}."
            " Is the path right that they are loaded from? To delete them, call delete with their "
            "ids"
        )
    gone = set(stored_ids).difference(given_ids)
    deleted = yield from adding.writer.delete(sorted(gone))
    return SyncResult(given_ids, deleted)
