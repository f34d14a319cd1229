"""Reads records of the docstore, and changes them by compare and set.

A record is changed only if no other call has changed it since it was read. Docstores with
`ComparesAndSets` do this for all processes; for others, a lock does it within this process.
Docstores are synchronous: async code calls their methods in threads.
"""

import threading
from abc import abstractmethod
from collections.abc import Sequence

from langchain_core.documents import Document
from langchain_core.stores import BaseStore

from langchain_rse._sync import during
from langchain_rse.errors import CorruptRecordError

DocStore = BaseStore[str, Document]
"""A store of records, by keys."""

Change = tuple[str, Document | None, Document | None]
"""A key, the record that is expected there, and the new one. None stands for no record."""

Record = Document | CorruptRecordError | None
"""The result of reading a key: a record, the error that says why it cannot be read, or None."""

REVISION = "revision"
"""Metadata that differs in each version of a record, even if a store changes other values."""


class ComparesAndSets(BaseStore[str, Document]):
    """A docstore with compare and set: a record is changed only if it is as expected.

    This holds for all processes that use the store; `is_as_expected` compares. A change survives a
    power cut, and so does everything written before it. Any store with this method works.
    """

    @abstractmethod
    def compare_and_set(self, changes: Sequence[Change]) -> list[bool]:
        """Make each change whose record is as expected; return for each whether it was made.

        A change is a key, the Document that is expected there, and the new one; None stands for no
        record. A record that cannot be read counts as no record.
        """


def change(docstore: DocStore, changes: Sequence[Change]) -> list[bool]:
    """Make each change whose record is as expected; return which, safe at least in this process."""
    with during("writing to the docstore"):
        return compare_and_set(docstore, changes)


def compare_and_set(docstore: DocStore, changes: Sequence[Change]) -> list[bool]:
    """Call the docstore's `ComparesAndSets.compare_and_set`; without one, do it in this process."""
    if hasattr(docstore, "compare_and_set"):
        made: list[bool] = docstore.compare_and_set(changes)
        return made
    return _compare_and_set_in_process(docstore, changes)


# Held while a call of this process changes records of a store that cannot compare and set.
_lock = threading.Lock()


def _compare_and_set_in_process(docstore: DocStore, changes: Sequence[Change]) -> list[bool]:
    """Like `ComparesAndSets.compare_and_set`, for calls of this process."""
    with _lock:
        records = read_records(docstore, [key for key, _, _ in changes])
        new_records: list[tuple[str, Document]] = []
        removed_keys: list[str] = []
        made: list[bool] = []
        for key, expected, new in changes:
            is_made = is_as_expected(records[key], expected)
            made.append(is_made)
            if is_made and new is not None:
                new_records.append((key, new))
            elif is_made:
                removed_keys.append(key)
        if new_records:
            docstore.mset(new_records)
        if removed_keys:
            docstore.mdelete(removed_keys)
        return made


def is_as_expected(record: object, expected: Document | None) -> bool:
    """True if a record is the expected one; anything but a Document counts as no record."""
    if not isinstance(record, Document):
        return expected is None
    if expected is None:
        return False
    if REVISION in expected.metadata:
        return bool(record.metadata.get(REVISION) == expected.metadata[REVISION])
    return record == expected


def read_records(docstore: DocStore, keys: Sequence[str]) -> dict[str, Record]:
    """Read records in one call, or more if some cannot be read; these have their error."""
    with during("reading from the docstore"):
        try:
            records = docstore.mget(keys)
        except CorruptRecordError as error:
            if len(keys) == 1:
                return {keys[0]: error}
            middle = len(keys) // 2
            first_half = read_records(docstore, keys[:middle])
            second_half = read_records(docstore, keys[middle:])
            return {**first_half, **second_half}
    if len(records) != len(keys):
        raise ValueError(
            f"{type(docstore).__name__}.mget returned {len(records)} records for {len(keys)} keys"
        )
    return dict(zip(keys, records, strict=True))


def list_keys(docstore: DocStore, beginning: str) -> list[str]:
    """List the keys of the docstore that begin with a text."""

    def find(prefix: str | None) -> list[str]:
        return [key for key in docstore.yield_keys(prefix=prefix) if key.startswith(beginning)]

    with during("listing the keys of the docstore"):
        keys = find(beginning)
        if not keys:  # some stores take the prefix for a whole key
            keys = find(None)
        return keys
