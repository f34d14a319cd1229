"""Explains errors of file-based docstores, such as ``LocalFileStore``."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

DISK_FULL = "is on a full disk; free some space and call again"
TOO_MANY_FILES = (
    "cannot be opened, because this process has too many open files; close some, or raise the "
    "limit (ulimit -n)"
)
"""Explanations that continue the name of a docstore or of its file."""

_NOT_ALLOWED = (
    "cannot be read or written; give this user read and write access to the whole folder, or "
    "copy the folder to a place with such access"
)
_ADVICE = {
    errno.EACCES: _NOT_ALLOWED,
    errno.EPERM: _NOT_ALLOWED,
    errno.EROFS: _NOT_ALLOWED,
    errno.EISDIR: "has a folder in place of a record; move the folder away and call again",
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
    """Append advice to the system's messages of file errors."""
    try:
        yield
    except OSError as error:
        advice = _ADVICE.get(error.errno or 0)
        if advice is None:
            raise
        # Python derives the class, such as PermissionError, from the number.
        reason = f"{error.strerror} (docstore {advice})"
        raise OSError(error.errno, reason, error.filename) from error
