"""Ownership of documents: one call at a time writes a document, whose manifest names that call.

A call owns a document from the manifest that announces a version to the one that ends the work.
These manifests, and all in between, are written only if the manifest is as this call left it, so
that a call that was taken for dead notices. An owner is taken for dead if its process is known to
have ended or its manifest has not changed for `LEASE` seconds, by the clock of the call that waits.
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
from typing import TypeVar

from langchain_core.documents import Document
from typing_extensions import Self

from langchain_rse._messages import first_few
from langchain_rse._sync import Steps, batches, pause
from langchain_rse.errors import MissingRecordError
from langchain_rse.stores.changing import Change, DocStore, change
from langchain_rse.stores.records import Manifest, digest, manifest_key

logger = logging.getLogger(__name__)

T = TypeVar("T")

LEASE = 300.0
"""Seconds without a sign of life after which an owner on another machine loses a document.

The owner gives a sign between two calls of a store, so one batch must not take as long as this."""

# Seconds; each pause is twice as long as the last. The log says when the longest is reached.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 1.28
# If manifests are lost or changed more often than this, the store does not keep them.
_MOST_LOSSES = 20

# Tokens of the calls that run in this process.
_active: set[str] = set()


@cache
def _machine() -> str:
    """Identify the machine or container within which process ids are unique."""
    names = [platform.node()]
    for place in ("/proc/sys/kernel/random/boot_id", "/proc/self/ns/pid"):
        with suppress(OSError):
            path = Path(place)
            names.append(str(path.readlink()) if path.is_symlink() else path.read_text("ascii"))
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


def _clocks() -> tuple[float, float]:
    return time.monotonic(), time.time()


class Claims:
    """The documents that one call owns; entered while the call runs."""

    def __init__(self, docstore: DocStore, batch_size: int) -> None:
        self._docstore = docstore
        self._batch_size = batch_size
        self._token = f"{_machine()}:{os.getpid()}:{uuid.uuid4().hex}"
        self.held: dict[str, Manifest] = {}  # as they were last written, by key
        self._seen: dict[tuple[str, str], float] = {}  # when others' manifests were first seen
        self._renewed = _clocks()
        self._pause = _FIRST_PAUSE
        self._losses = 0

    def __enter__(self) -> Self:
        _active.add(self._token)
        return self

    def __exit__(self, *_: object) -> None:
        _active.discard(self._token)

    def is_free(self, manifest: Manifest) -> bool:
        """True if nobody else is writing the document."""
        if manifest.owner in ("", self._token):
            return True
        machine, process, *_ = [*manifest.owner.split(":"), ""]
        if machine == _machine() and process.isdecimal():
            if int(process) == os.getpid():
                return manifest.owner not in _active
            if _has_ended(int(process)):
                return True
        now = time.monotonic()
        return now - self._seen.setdefault((manifest.key, manifest.revision), now) >= LEASE

    def claim(
        self, wanted: Iterable[tuple[Manifest, Document | None]]
    ) -> Steps[dict[str, Manifest]]:
        """Take ownership: write manifests in place of the records read; return them by key."""
        return self._change((replace(one, owner=self._token), record) for one, record in wanted)

    def update(
        self, manifests: Iterable[Manifest], *, remove: bool = False
    ) -> Steps[dict[str, Manifest]]:
        """Write or remove the manifests of documents still owned; return these by key."""
        # A manifest without an owner releases its document.
        owned = [one for one in manifests if one.key in self.held]
        new = (replace(one, owner="") if remove else one for one in owned)
        changes = ((one, self.held[one.key].to_document()) for one in new)
        return self._change(changes, remove=remove)

    def renew(self) -> Steps[None]:
        """Give a sign of life if the last is old; this also notices documents others took over."""
        # Two clocks: one stands still while a machine sleeps, the other may be set.
        if max(abs(a - b) for a, b in zip(_clocks(), self._renewed, strict=True)) > LEASE / 10:
            yield from self.update(list(self.held.values()))

    def wait(self, names: Iterable[str]) -> Steps[None]:
        """Pause, as other calls are writing the documents of these ids."""
        yield from pause(self._pause)
        if self._pause < _LONGEST_PAUSE <= 2 * self._pause:
            named = first_few(map(repr, names))
            logger.warning("waiting for other calls that are writing the document(s) %s", named)
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)

    def guarded(self, steps: Steps[T]) -> Steps[T]:
        """Run steps; if they fail, release the owned documents, so that other calls may go on."""
        try:
            return (yield from steps)
        except GeneratorExit:  # nothing can be called any more
            raise
        except BaseException:
            with suppress(Exception):  # the first error is the one to raise
                yield from self.update([replace(one, owner="") for one in self.held.values()])
            raise

    def _change(
        self, manifests: Iterable[tuple[Manifest, Document | None]], *, remove: bool = False
    ) -> Steps[dict[str, Manifest]]:
        made: dict[str, Manifest] = {}
        for some in batches(manifests, self._batch_size):
            new = [(replace(one, revision=uuid.uuid4().hex), old) for one, old in some]
            changes: list[Change] = [
                (manifest_key(one.key), old, None if remove else one.to_document())
                for one, old in new
            ]
            outcomes = yield from change(self._docstore, changes)
            for (one, _), is_made in zip(new, outcomes, strict=True):
                was_held = self.held.pop(one.key, None) is not None
                self._losses += was_held and not is_made
                if is_made:
                    made[one.key] = one
                if is_made and one.owner:
                    self.held[one.key] = one
                if self._losses > _MOST_LOSSES:
                    raise MissingRecordError(
                        f"the manifest of document {one.doc_id!r} was changed or lost while it was "
                        f"being written, and others before it, {self._losses} times in all. Does "
                        "the docstore evict records, or is it restored from elsewhere?"
                    )
        self._renewed = _clocks()
        return made
