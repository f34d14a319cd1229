"""The docstore's record of score floors: what `calibrate` found, by what finds and ranks chunks.

The record also counts the chunks that were added since it was first written, by which floors of an
index that has grown are known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from langchain_core.documents import Document

from langchain_rse._sync import Steps, pause
from langchain_rse.stores.changing import DocStore, Record, change, read_records
from langchain_rse.stores.records import FLOORS

_ADDED = "added_chunks"
_FLOORS = "floors"
_SECONDS_BETWEEN_TRIES = 0.01

Fields = dict[str, Any]


def floor_in(record: Record, name: str) -> Mapping[str, Any] | None:
    """The fields of a floor in the docstore's record of floors; None if it has none."""
    fields = _read(record)[_FLOORS].get(name)
    return fields if isinstance(fields, Mapping) else None


def added_chunks(record: Record) -> int:
    """The number of chunks that were added since the record was first written."""
    return int(_read(record)[_ADDED])


def read_floors(docstore: DocStore) -> Steps[Record]:
    """Read the record of floors."""
    records = yield from read_records(docstore, [FLOORS])
    return records[FLOORS]


def write_floor(docstore: DocStore, name: str, fields: Mapping[str, Any]) -> Steps[None]:
    """Write the fields of a floor, and keep the floors with other names."""

    def with_floor(stored: Fields) -> Fields:
        return {**stored, _FLOORS: {**stored[_FLOORS], name: dict(fields)}}

    yield from _change(docstore, with_floor)


def note_added(docstore: DocStore, chunks: int) -> Steps[None]:
    """Count chunks that were added, if there are floors."""
    if not chunks:
        return
    record = yield from read_floors(docstore)
    if isinstance(record, Document):
        yield from _change(docstore, lambda stored: {**stored, _ADDED: stored[_ADDED] + chunks})


def _change(docstore: DocStore, changed: Callable[[Fields], Fields]) -> Steps[None]:
    """Change the record, again if another call has changed it meanwhile."""
    is_written = False
    while not is_written:
        record = yield from read_floors(docstore)
        new_record = Document("", metadata=changed(_read(record)))
        if not isinstance(record, Document):  # also if it is damaged, and is written again
            record = None
        [is_written] = yield from change(docstore, [(FLOORS, record, new_record)])
        if not is_written:
            yield from pause(_SECONDS_BETWEEN_TRIES)


def _read(record: Record) -> Fields:
    """The fields of the record; those of an empty one if it is missing or damaged."""
    empty: Fields = {_ADDED: 0, _FLOORS: {}}
    if not isinstance(record, Document):
        return empty
    fields = {**empty, **record.metadata}
    if not isinstance(fields[_ADDED], int) or not isinstance(fields[_FLOORS], Mapping):
        return empty
    return fields
