"""Explains the errors of docstores that keep records in files, such as ``LocalFileStore``."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

DISK_FULL = "is on a disk that is full; free some space and call again"
TOO_MANY_FILES = (
    "cannot be opened, as this process has too many open files; close some, or raise the limit "
    "(ulimit -n)"
)
"""What to say of a docstore or a file of it."""

_NOT_ALLOWED = (
    "cannot be read or written to; allow this user to read and write all of its folder, or use a "
    "copy of it in a folder where this user may"
)
_ADVICE = {
    errno.EACCES: _NOT_ALLOWED,
    errno.EPERM: _NOT_ALLOWED,
    errno.EROFS: _NOT_ALLOWED,
    errno.EISDIR: "has a folder in place of a record; move it away and call again",
    errno.ENOSPC: DISK_FULL,
    errno.EMFILE: TOO_MANY_FILES,
    errno.ENFILE: TOO_MANY_FILES,
}


def can_open_files() -> bool:
    """True if this process can open one more file."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        return False
    return True


@contextmanager
def explained_file_errors() -> Iterator[None]:
    """Add to errors of files what to do, after the system's words."""
    try:
        yield
    except OSError as error:
        advice = _ADVICE.get(error.errno or 0)
        if advice is None:
            raise
        # Python makes the class of an OSError from its number, such as a PermissionError.
        reason = f"{error.strerror} (docstore {advice})"
        raise OSError(error.errno, reason, error.filename) from error
