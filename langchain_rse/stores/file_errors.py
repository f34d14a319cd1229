"""Explains the errors of docstores that keep records in files, such as ``LocalFileStore``."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from langchain_rse.errors import CorruptRecordError

DISK_FULL = "is on a disk that is full; free some space and call again"
TOO_MANY_FILES = (
    "cannot be opened, as this process has too many open files; close some, or raise the limit "
    "(ulimit -n)"
)
"""What to say of a docstore or a file of it."""

_NOT_ALLOWED = {errno.EACCES, errno.EPERM, errno.EROFS}
_ADVICE = {
    errno.ENOSPC: f"docstore {DISK_FULL}",
    errno.EMFILE: f"docstore {TOO_MANY_FILES}",
    errno.ENFILE: f"docstore {TOO_MANY_FILES}",
}


def can_open_files() -> bool:
    """True if this process can open one more file."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        return False
    return True


@contextmanager
def reading_files() -> Iterator[None]:
    """Explain errors of reading; a folder in place of a record becomes a CorruptRecordError."""
    try:
        yield
    except OSError as error:
        if _is_folder(error.filename):
            raise CorruptRecordError(
                f"a record of the docstore cannot be read: {error.filename!r} is a folder, and a "
                "record is a file. Move the folder away, call check(repair=True), and add the "
                "document that it names again"
            ) from error
        if error.errno in _NOT_ALLOWED:
            raise _explained(
                error, "docstore cannot be read; allow this user to read it"
            ) from error
        if error.errno in _ADVICE:
            raise _explained(error, _ADVICE[error.errno]) from error
        raise


@contextmanager
def writing_files() -> Iterator[None]:
    """Explain errors of writing and deleting: a folder in place of a record, or no permission."""
    try:
        yield
    except OSError as error:
        if _is_folder(error.filename):
            advice = "is a folder where the docstore has a record; move it away and call again"
            raise _explained(error, advice) from error
        if error.errno in _NOT_ALLOWED:
            advice = (
                "docstore cannot be written to; allow this user to write to all of its folder, or "
                "use a copy of it in a folder where this user may write"
            )
            raise _explained(error, advice) from error
        if error.errno in _ADVICE:
            raise _explained(error, _ADVICE[error.errno]) from error
        raise


def _is_folder(name: object) -> bool:
    return isinstance(name, str | Path) and Path(name).is_dir()


def _explained(error: OSError, advice: str) -> OSError:
    """The same error, with advice after the system's words."""
    # Python makes the class of an OSError from its number, such as a PermissionError.
    return OSError(error.errno, f"{error.strerror} ({advice})", error.filename)
