"""What two stores hold, without the ids of the writes, and what interrupted writes leave."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from langchain_core.documents import Document

from langchain_rse.ingest.checking import CheckReport
from langchain_rse.stores import records
from langchain_rse.stores.records import content_name, document_key, vector_id

_WRITE = re.compile(r"(?<=[0-9a-f]{8})\.[0-9a-f]{16,24}(?![0-9a-f])")
# Fields that differ in each write.
_OF_WRITES = {"revision", "time"}


@contextmanager
def an_hour_later() -> Iterator[None]:
    """All calls that have announced a version seem to have failed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "ANNOUNCEMENT_LIFETIME", -1.0)
        yield


def check_only_leftovers(report: CheckReport) -> None:
    """Repair has removed what interrupted calls have left, and nothing else was wrong."""
    assert report.ok, report
    assert report.repaired.keys() <= {"leftovers"}, report


def without_writes(value: Any) -> Any:
    """A value in which versions have names by their content alone."""
    if isinstance(value, str):
        return _WRITE.sub("", value)
    if isinstance(value, Document):
        return value.page_content, without_writes(value.metadata)
    if isinstance(value, Mapping):
        kept = [(key, item) for key, item in value.items() if key not in _OF_WRITES]
        return {without_writes(key): without_writes(item) for key, item in kept}
    if isinstance(value, list | tuple):
        return [without_writes(item) for item in value]
    return value


def records_without_writes(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Records by their keys; a record that is there twice, by two writes, is there twice."""
    seen: dict[str, Any] = {}
    for key, record in sorted(stored.items()):
        _put(seen, without_writes(key), without_writes(record))
    return seen


def vectors_without_writes(rows: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Rows of an `InMemoryVectorStore` by document, version and number of the chunk."""
    seen: dict[str, Any] = {}
    for vector, row in sorted(rows.items()):
        metadata = dict(row["metadata"])
        name = vector
        version = metadata.get("rse_version")
        if version is not None:
            doc_id, index = metadata["doc_id"], metadata["chunk_index"]
            if vector == vector_id(document_key(doc_id), version, index):
                name = f"{doc_id}/{content_name(version)}/{index}"
                assert metadata.pop("chunk_id", vector) == vector
        fields = {**row, "id": name, "metadata": without_writes(metadata)}
        _put(seen, name, fields)
    return seen


def _put(seen: dict[str, Any], name: str, value: Any) -> None:
    while name in seen:
        name += " again"
    seen[name] = value
