"""Says which files Git ignores."""

from pathlib import Path

from pathspec import GitIgnoreSpec

_NAME = ".gitignore"


class GitIgnore:
    """The ``.gitignore`` files that hold for a folder and what is in it.

    Those of the folders above it hold as well, up to the one that has ``.git``, unless the folder
    itself is ignored: whoever names it wants its files.
    """

    def __init__(self, folder: Path) -> None:
        self._specs: dict[Path, GitIgnoreSpec] = {}  # by the folders that have them
        for above in _folders_of_repository(folder):
            self.read(above)
        if self.has(folder, is_folder=True):
            self._specs.clear()

    def read(self, folder: Path) -> None:
        """Read the file of a folder, if it has one; folders come before those in them."""
        try:
            lines = (folder / _NAME).read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return
        valid_lines = [line for line in lines if _is_valid(line)]
        self._specs[folder] = GitIgnoreSpec.from_lines(valid_lines)

    def has(self, path: Path, *, is_folder: bool = False) -> bool:
        """Say whether a path is ignored; the folders that it is in are not."""
        for folder in path.parents:  # the nearest first: its patterns count more
            spec = self._specs.get(folder)
            if spec is None:
                continue
            relative = path.relative_to(folder).as_posix()
            if is_folder:
                relative += "/"  # patterns that end with a slash are of folders
            is_ignored = spec.check_file(relative).include
            if is_ignored is not None:
                return is_ignored
        return False


def _is_valid(line: str) -> bool:
    """Say whether a line can be read; Git passes over those that cannot."""
    try:
        GitIgnoreSpec.from_lines([line])
    except ValueError:
        return False
    return True


def _folders_of_repository(folder: Path) -> list[Path]:
    """The folders above one, from the repository's; none if it is in no repository."""
    folders: list[Path] = []
    if (folder / ".git").exists():
        return folders
    for above in folder.parents:
        folders.append(above)
        if (above / ".git").exists():
            return folders[::-1]
    return []
