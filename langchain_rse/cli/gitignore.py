"""Finds the files that Git ignores."""

from pathlib import Path

from pathspec import GitIgnoreSpec

_NAME = ".gitignore"


class GitIgnore:
    """The ``.gitignore`` files that apply to a folder and its content.

    They include the files of parent folders, up to the folder with ``.git``. If those ignore the
    folder itself, they do not apply: the user has named it, and wants its files.
    """

    def __init__(self, folder: Path) -> None:
        self._specs: dict[Path, GitIgnoreSpec] = {}  # by folder
        for above in _folders_of_repository(folder):
            self.read(above)
        if self.has(folder, is_folder=True):
            self._specs.clear()

    def read(self, folder: Path) -> None:
        """Read the file of a folder, if it has one; call this for parents first."""
        try:
            lines = (folder / _NAME).read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return
        valid_lines = [line for line in lines if _is_valid(line)]
        self._specs[folder] = GitIgnoreSpec.from_lines(valid_lines)

    def has(self, path: Path, *, is_folder: bool = False) -> bool:
        """Tell whether a path is ignored, given that its parent folders are not."""
        for folder in path.parents:  # the nearest first: its patterns override the others
            spec = self._specs.get(folder)
            if spec is None:
                continue
            relative = path.relative_to(folder).as_posix()
            if is_folder:
                relative += "/"  # patterns that end with a slash match folders only
            is_ignored = spec.check_file(relative).include
            if is_ignored is not None:
                return is_ignored
        return False


def _is_valid(line: str) -> bool:
    """Tell whether a line is a valid pattern; Git skips invalid ones."""
    try:
        GitIgnoreSpec.from_lines([line])
    except ValueError:
        return False
    return True


def _folders_of_repository(folder: Path) -> list[Path]:
    """Return the parents of a folder, from the repository's root; empty outside a repository."""
    folders: list[Path] = []
    if (folder / ".git").exists():
        return folders
    for above in folder.parents:
        folders.append(above)
        if (above / ".git").exists():
            return folders[::-1]
    return []
