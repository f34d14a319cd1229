"""FileDocStore: a docstore in a folder, with a file for each record."""

import contextlib
import fcntl
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from langchain_rse.stores.json import Swap, SwappingBytes, SwappingDocStore

# Keys become paths, so their parts must not be "." or "..", nor too long for a file name.
_PART = r"(?!\.\.?(?:/|$))[A-Za-z0-9_.-]{1,200}"
_KEY = re.compile(rf"{_PART}(?:/{_PART})*")
# No key has "=" in it.
_SUFFIX = "=.json"
_NEW = "new="
_LOCK = "lock="


class FileDocStore(SwappingDocStore):
    """A docstore in a folder, with a JSON file for each record, on Linux and macOS.

    Files are replaced as a whole: if a process is killed, each record is either the old one or the
    new one. Several processes on one machine can write. Keys with other characters than
    ``A-Za-z0-9_./-``, or with parts such as ``..``, raise a ValueError.

    Args:
        path: The folder. It is created when the store first writes.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(_Files(Path(path)))

    def __repr__(self) -> str:
        return f"FileDocStore({str(self.store)!r})"


class _Files(SwappingBytes):
    def __init__(self, root: Path) -> None:
        self._root = root

    def __str__(self) -> str:
        return str(self._root)

    def mget(self, keys: Sequence[str]) -> list[bytes | None]:
        return [_read(path) for path in map(self._path, keys)]

    def mset(self, key_value_pairs: Sequence[tuple[str, bytes]]) -> None:
        values = {self._path(key): value for key, value in key_value_pairs}
        with self._locked():
            self._replace(values)

    def mdelete(self, keys: Sequence[str]) -> None:
        paths = list(map(self._path, keys))
        with self._locked():
            self._replace(dict.fromkeys(paths))

    def swap(self, swaps: Sequence[Swap]) -> list[bool]:
        paths = [self._path(key) for key, _, _ in swaps]
        with self._locked():
            made: dict[Path, int] = {}  # of a key given twice, the first counts
            for number, (path, (_, expected, _)) in enumerate(zip(paths, swaps, strict=True)):
                if path not in made and _read(path) == expected:
                    made[path] = number
            self._replace({path: swaps[one][2] for path, one in made.items()}, durable=True)
        return [made.get(path) == number for number, path in enumerate(paths)]

    def yield_keys(self, *, prefix: str | None = None) -> Iterator[str]:
        for folder, _, names in os.walk(self._root):
            for name in names:
                key = (Path(folder) / name).relative_to(self._root).as_posix()
                if key.endswith(_SUFFIX) and key.startswith(prefix or ""):
                    yield key.removesuffix(_SUFFIX)

    def _path(self, key: str) -> Path:
        if not _KEY.fullmatch(key):
            raise ValueError(
                "FileDocStore takes keys of A-Z, a-z, 0-9, '_', '.', '-' and '/', with 1 to 200 "
                f"characters between slashes, other than '.' and '..'; got {key!r}"
            )
        return self._root / f"{key}{_SUFFIX}"

    def _replace(self, values: Mapping[Path, bytes | None], *, durable: bool = False) -> None:
        """Write files, or remove them for None; must be called while `_locked`."""
        written: dict[Path, Path] = {}
        for number, (path, value) in enumerate(values.items()):
            if value is not None:
                written[path] = self._root / _NEW / str(number)
                written[path].write_bytes(value)
        if durable:  # the contents, and all that was written before, come before the names
            os.sync()
        for path in values:
            if new := written.get(path):
                path.parent.mkdir(parents=True, exist_ok=True)
                new.replace(path)
                continue
            path.unlink(missing_ok=True)
            for folder in path.relative_to(self._root).parents[:-1]:
                with contextlib.suppress(OSError):  # it is not empty, or does not exist
                    (self._root / folder).rmdir()
        if durable:
            os.sync()

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        (self._root / _NEW).mkdir(parents=True, exist_ok=True)
        with (self._root / _LOCK).open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            for left in (self._root / _NEW).iterdir():  # files of a process that was killed
                left.unlink()
            yield


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
