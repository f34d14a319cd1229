"""Reads records of the docstore, lists their keys, and changes them by compare and set.

A record is changed only if no other call changed it since it was read. `ComparesAndSets` docstores
guarantee this for all processes; for others, a lock guarantees it within this process. Docstores
are synchronous: async code calls them in threads.
"""

import threading
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TypeVar

from langchain_core.documents import Document
from langchain_core.stores import BaseStore

from langchain_rse._sync import during
from langchain_rse.errors import CorruptRecordError, StoreMismatchError

T = TypeVar("T")

DocStore = BaseStore[str, Document]
"""A store of records by key."""

Change = tuple[str, Document | None, Document | None]
"""A key, the record expected there, and the new record. None means no record."""

Record = Document | CorruptRecordError | None
"""The result of reading a key: a record, the error if it is corrupt, or None if it is missing."""

REVISION = "revision"
"""Metadata that differs in each version of a record, even if a store alters other values."""


class ComparesAndSets(BaseStore[str, Document]):
    """A docstore with compare and set: a record is changed only if it is as expected.

    The guarantee covers all processes that use the store. Records are compared by
    `is_as_expected`. A change, and everything written before it, survives a power cut. Any
    store with this method works, subclass or not.
    """

    @abstractmethod
    def compare_and_set(self, changes: Sequence[Change]) -> list[bool]:
        """Make each change whose record is as expected; return for each whether it was made.

        A change is a key, the Document expected there, and the new Document; None means no
        record. A corrupt record counts as no record.
        """


# Held while this process changes records of a store without compare and set.
_lock = threading.Lock()


def change(docstore: DocStore, changes: Sequence[Change]) -> list[bool]:
    """Make changes by the docstore's compare and set, or by one that holds in this process."""
    made: list[bool]
    with during("writing to the docstore"):
        if hasattr(docstore, "compare_and_set"):
            made = docstore.compare_and_set(changes)
            return made
        with _lock:
            records = read_records(docstore, [key for key, _, _ in changes])
            new_records: list[tuple[str, Document]] = []
            removed_keys: list[str] = []
            made = []
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
    """True if a record equals the expected one; only a Document counts as a record."""
    if not isinstance(record, Document):
        return expected is None
    if expected is None:
        return False
    if REVISION in expected.metadata:
        return bool(record.metadata.get(REVISION) == expected.metadata[REVISION])
    return record == expected


def read_records(docstore: DocStore, keys: Sequence[str]) -> dict[str, Record]:
    """Read records in one call, or in several to isolate corrupt ones, represented by errors."""
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
    return dict(zip(keys, records, strict=True))


def readable(record: Record) -> Document | None:
    """Return a record, or None if it is missing; raise the error of a corrupt one."""
    if isinstance(record, CorruptRecordError):
        raise record
    return record


def parse_if_readable(record: Record, key: str, parse: Callable[[Document, str], T]) -> T | None:
    """Parse a record; None if it is missing or corrupt."""
    if not isinstance(record, Document):
        return None
    try:
        return parse(record, key)
    except CorruptRecordError:
        return None


def list_keys(docstore: DocStore, beginning: str) -> list[str]:
    """List the docstore's keys with a prefix."""
    # Some other stores mistake a prefix for a whole key, or for a folder.
    prefix = beginning if isinstance(docstore, ComparesAndSets) else None
    with during("listing the keys of the docstore"):
        return [key for key in docstore.yield_keys(prefix=prefix) if key.startswith(beginning)]


def namespace_of(docstore: DocStore) -> str:
    """Return the digest of a docstore's namespace; empty without one."""
    namespace: str = getattr(docstore, "namespace_digest", "")
    return namespace


def refuse_namespaces(found: object) -> None:
    """Raise a StoreMismatchError if namespaces were found in stores opened without one."""
    if found:
        raise StoreMismatchError(
            "these stores contain namespaces. Choose one with namespace=..., or use another "
            "docstore and collection"
        )
