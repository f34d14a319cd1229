"""Ownership of documents: one call at a time writes a document, and its manifest names that call.

A call becomes the owner of a document by writing its token into the manifest, and gives ownership
up by removing the token. Each time, the manifest is changed only if it is as the call last read or
wrote it, so a call notices if another one has taken a document over.

A call takes a document over if the owner's process has ended, or if the manifest has not changed
for `LEASE` seconds, by the clock of the call that waits.
"""

import logging
import os
import platform
import sys
import time
import uuid
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeVar

from langchain_core.documents import Document
from typing_extensions import Self

from langchain_rse._sync import Steps, batches, pause
from langchain_rse.errors import MissingRecordError
from langchain_rse.stores.changing import Change, DocStore, change
from langchain_rse.stores.records import Manifest, digest, manifest_key
from langchain_rse.text.quoting import first_few

logger = logging.getLogger(__name__)

T = TypeVar("T")

LEASE = 300.0
"""Seconds after which an owner on another machine loses a document if its manifest is unchanged.

The owner renews the lease between two calls of a store, so one batch must not take this long."""

# Seconds; each pause is twice as long as the last. The log says when the longest is reached.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 1.28
# If manifests are lost or changed more often than this, the store does not keep them.
_MOST_LOSSES = 20

# Tokens of the calls that run in this process.
_active: set[str] = set()


class _Clocks(NamedTuple):
    """The time by two clocks: one stands still while a machine sleeps, the other may be set."""

    monotonic: float
    wall: float

    def seconds_since(self, other: "_Clocks") -> float:
        """The time since then, by the clock that has moved more."""
        return max(abs(self.monotonic - other.monotonic), abs(self.wall - other.wall))


def _read_clocks() -> _Clocks:
    return _Clocks(time.monotonic(), time.time())


@cache
def _machine() -> str:
    """Identify the machine or container within which process ids are unique."""
    names = [platform.node()]
    with suppress(OSError):
        names.append(Path("/proc/sys/kernel/random/boot_id").read_text("ascii"))
    with suppress(OSError):
        names.append(str(Path("/proc/self/ns/pid").readlink()))
    return digest(*names)


def _has_ended(process: int) -> bool:
    """True if a process of this machine is known to have ended."""
    if sys.platform == "win32":  # there, os.kill would end the process
        return False
    try:
        os.kill(process, 0)
    except (OSError, OverflowError) as error:
        return isinstance(error, ProcessLookupError)
    return False


class Ownership:
    """The documents that one call owns; entered while the call runs.

    Attributes:
        owned: The manifests of these documents as they were last written, by the document's key.
    """

    def __init__(self, docstore: DocStore, batch_size: int) -> None:
        self.owned: dict[str, Manifest] = {}
        self._docstore = docstore
        self._batch_size = batch_size
        self._token = f"{_machine()}:{os.getpid()}:{uuid.uuid4().hex}"
        # When manifests of other owners were first seen, by document key and revision.
        self._first_seen: dict[tuple[str, str], float] = {}
        self._renewed = _read_clocks()
        self._pause = _FIRST_PAUSE
        self._losses = 0  # manifests that others changed while this call owned them

    def __enter__(self) -> Self:
        _active.add(self._token)
        return self

    def __exit__(self, *_: object) -> None:
        _active.discard(self._token)

    def is_free(self, manifest: Manifest) -> bool:
        """True if no other call is writing the document."""
        if manifest.owner in {"", self._token}:
            return True
        machine, _, process_and_call = manifest.owner.partition(":")
        process, _, _ = process_and_call.partition(":")
        if machine == _machine() and process.isdecimal():
            if int(process) == os.getpid():
                return manifest.owner not in _active
            if _has_ended(int(process)):
                return True
        now = time.monotonic()
        first_seen = self._first_seen.setdefault((manifest.key, manifest.revision), now)
        return now - first_seen >= LEASE

    def claim(
        self, manifests: Iterable[tuple[Manifest, Document | None]]
    ) -> Steps[dict[str, Manifest]]:
        """Become the owner of documents, unless another call has changed them meanwhile.

        Args:
            manifests: The manifests to write, each with the record that it replaces.

        Returns:
            The manifests of the documents that are owned now, by the document's key.
        """
        changes: list[tuple[Manifest, Document | None]] = []
        for manifest, record in manifests:
            changes.append((replace(manifest, owner=self._token), record))
        return self._change(changes)

    def update(
        self, manifests: Iterable[Manifest], *, remove: bool = False
    ) -> Steps[dict[str, Manifest]]:
        """Write or remove the manifests of documents that are still owned; return these by key.

        A manifest without an owner gives up the document.
        """
        changes: list[tuple[Manifest, Document | None]] = []
        for manifest in manifests:
            if manifest.key in self.owned:
                new = replace(manifest, owner="") if remove else manifest
                changes.append((new, self.owned[manifest.key].to_document()))
        return self._change(changes, remove=remove)

    def renew(self) -> Steps[None]:
        """Renew the lease if a tenth of it has passed; notice documents that others took over."""
        if _read_clocks().seconds_since(self._renewed) > LEASE / 10:
            yield from self.update(list(self.owned.values()))

    def wait(self, doc_ids: Iterable[str]) -> Steps[None]:
        """Pause, as other calls are writing these documents; each pause is longer."""
        yield from pause(self._pause)
        longer = 2 * self._pause
        if self._pause < _LONGEST_PAUSE <= longer:
            names = first_few(repr(doc_id) for doc_id in doc_ids)
            logger.warning("waiting for other calls that are writing the document(s) %s", names)
        self._pause = min(longer, _LONGEST_PAUSE)

    def guarded(self, steps: Steps[T]) -> Steps[T]:
        """Run steps; if they fail, give up the owned documents, so that other calls may go on."""
        try:
            return (yield from steps)
        except GeneratorExit:  # nothing can be called any more
            raise
        except BaseException:
            given_up = [replace(manifest, owner="") for manifest in self.owned.values()]
            with suppress(Exception):  # the first error is the one to raise
                yield from self.update(given_up)
            raise

    def _change(
        self, manifests: Iterable[tuple[Manifest, Document | None]], *, remove: bool = False
    ) -> Steps[dict[str, Manifest]]:
        """Write or remove manifests in place of the given records; return those that were."""
        changed: dict[str, Manifest] = {}
        for batch in batches(manifests, self._batch_size):
            new_manifests: list[Manifest] = []
            changes: list[Change] = []
            for manifest, record in batch:
                new = replace(manifest, revision=uuid.uuid4().hex)
                new_manifests.append(new)
                new_record = None if remove else new.to_document()
                changes.append((manifest_key(new.key), record, new_record))
            outcomes = yield from change(self._docstore, changes)
            for new, is_changed in zip(new_manifests, outcomes, strict=True):
                self._note(new, is_changed=is_changed)
                if is_changed:
                    changed[new.key] = new
        self._renewed = _read_clocks()
        return changed

    def _note(self, manifest: Manifest, *, is_changed: bool) -> None:
        """Note whether a document is owned after its manifest was to be changed."""
        was_owned = self.owned.pop(manifest.key, None) is not None
        if is_changed and manifest.owner:
            self.owned[manifest.key] = manifest
        if was_owned and not is_changed:
            self._losses += 1
        if self._losses > _MOST_LOSSES:
            raise MissingRecordError(
                f"the manifest of document {manifest.doc_id!r} was changed or lost while it was "
                f"being written, and others before it, {self._losses} times in all. Does "
                "the docstore evict records, or is it restored from elsewhere?"
            )
