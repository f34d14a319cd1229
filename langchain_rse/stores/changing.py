"""Compare and set: changes records of the docstore only if no other call has changed them."""

import threading
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from langchain_core.documents import Document
from langchain_core.stores import BaseStore

from langchain_rse._sync import Steps, arun, call, call_to_the_end, during, run
from langchain_rse.errors import CorruptRecordError

DocStore = BaseStore[str, Document]
"""A store of records, by keys."""

Change = tuple[str, Document | None, Document | None]
"""A key, the record that is expected there, and the new one. None stands for no record."""

Record = Document | CorruptRecordError | None
"""The result of reading a key: a record, the error that says why it cannot be read, or None."""

REVISION = "revision"
"""Metadata that differs in each version of a record, even if a store changes other values."""


class StepStore(BaseStore[str, Document]):
    """A docstore with each method written once, as steps, for sync and async."""

    @abstractmethod
    def _steps(self, method: str, items: Sequence[Any]) -> Steps[Any]:
        """Do the work of the method with this name."""

    def mget(self, keys: Sequence[str]) -> list[Document | None]:
        """Get the Documents of the keys, None for keys that are missing.

        Raises:
            CorruptRecordError: If a record cannot be read.
        """
        return run(self._steps("mget", keys))

    async def amget(self, keys: Sequence[str]) -> list[Document | None]:
        """Like `mget`, async."""
        return await arun(self._steps("mget", keys))

    def mset(self, key_value_pairs: Sequence[tuple[str, Document]]) -> None:
        """Write Documents; they replace those with the same keys.

        Raises:
            TypeError: If metadata has a value that cannot be stored.
        """
        run(self._steps("mset", key_value_pairs))

    async def amset(self, key_value_pairs: Sequence[tuple[str, Document]]) -> None:
        """Like `mset`, async."""
        await arun(self._steps("mset", key_value_pairs))

    def mdelete(self, keys: Sequence[str]) -> None:
        """Delete the keys; missing keys are ignored."""
        run(self._steps("mdelete", keys))

    async def amdelete(self, keys: Sequence[str]) -> None:
        """Like `mdelete`, async."""
        await arun(self._steps("mdelete", keys))


class ComparesAndSets(StepStore):
    """A docstore in which a record can be changed on the condition that it is as expected.

    This holds for all processes that use the store; `is_as_expected` compares. A change survives a
    power cut, and so does all that was written before it. A store of another class that has these
    two methods works as well.
    """

    def compare_and_set(self, changes: Sequence[Change]) -> list[bool]:
        """Make each change whose record is as expected; return for each whether it was made.

        A change is a key, the Document that is expected there, and the new one; None stands for no
        record. A record that cannot be read counts as no record.
        """
        return run(self._steps("compare_and_set", changes))

    async def acompare_and_set(self, changes: Sequence[Change]) -> list[bool]:
        """Like `compare_and_set`, async."""
        return await arun(self._steps("compare_and_set", changes))


# Keys that some call of this process is changing, in stores that cannot compare and set.
_changing: set[str] = set()
_lock = threading.Lock()


def change(docstore: DocStore, changes: Sequence[Change]) -> Steps[list[bool]]:
    """Make each change whose record is as expected; return which, safe at least in this process."""
    with during("writing to the docstore"):
        if hasattr(docstore, "compare_and_set"):
            store: Any = docstore
            swap, aswap = store.compare_and_set, store.acompare_and_set
            made: list[bool] = yield from call_to_the_end(swap, aswap, changes)
            return made
        return (yield from _change_in_process(docstore, changes))


def _change_in_process(docstore: DocStore, changes: Sequence[Change]) -> Steps[list[bool]]:
    with _lock:
        keys = {key for key, _, _ in changes} - _changing
        _changing.update(keys)
    try:
        wanted = [one for one in changes if one[0] in keys]
        found = yield from read_records(docstore, [key for key, _, _ in wanted])
        made = [one for one in wanted if is_as_expected(found[one[0]], one[1])]
        if new := [(key, record) for key, _, record in made if record is not None]:
            yield from call_to_the_end(docstore.mset, docstore.amset, new)
        if gone := [key for key, _, record in made if record is None]:
            yield from call_to_the_end(docstore.mdelete, docstore.amdelete, gone)
    finally:
        with _lock:
            _changing.difference_update(keys)
    changed = {key for key, _, _ in made}
    return [key in changed for key, _, _ in changes]


def is_as_expected(found: object, expected: Document | None) -> bool:
    """True if a record is the expected one; anything but a Document counts as no record."""
    if not isinstance(found, Document) or expected is None:
        return not isinstance(found, Document) and expected is None
    if REVISION in expected.metadata:
        return bool(found.metadata.get(REVISION) == expected.metadata[REVISION])
    return found == expected


def read_records(docstore: DocStore, keys: Sequence[str]) -> Steps[dict[str, Record]]:
    """Read records in one call, or more if some cannot be read; these have their error."""
    with during("reading from the docstore"):
        try:
            records = yield from call(docstore.mget, docstore.amget, keys)
        except CorruptRecordError as error:
            if len(keys) == 1:
                return {keys[0]: error}
            middle = len(keys) // 2
            first = yield from read_records(docstore, keys[:middle])
            return {**first, **(yield from read_records(docstore, keys[middle:]))}
    if len(records) != len(keys):
        raise ValueError(
            f"{type(docstore).__name__}.mget returned {len(records)} records for {len(keys)} keys"
        )
    return dict(zip(keys, records, strict=True))


def list_keys(docstore: DocStore, beginning: str) -> Steps[list[str]]:
    """List the keys of the docstore that begin with a text."""

    def find(prefix: str | None) -> list[str]:
        return [key for key in docstore.yield_keys(prefix=prefix) if key.startswith(beginning)]

    async def afind(prefix: str | None) -> list[str]:
        found = docstore.ayield_keys(prefix=prefix)
        return [key async for key in found if key.startswith(beginning)]

    with during("listing the keys of the docstore"):
        # Some stores take the prefix for a whole key.
        return (yield from call(find, afind, beginning)) or (yield from call(find, afind, None))
