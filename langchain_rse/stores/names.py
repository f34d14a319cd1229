"""Documents by the names that people give them."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path


def names_of(doc_ids: Iterable[str]) -> dict[str, list[str]]:
    """The ids of documents, by ids and by names of files with and without suffix."""
    names: dict[str, list[str]] = {}
    for doc_id in doc_ids:
        for name in {doc_id, Path(doc_id).name, Path(doc_id).stem}:
            names.setdefault(name, []).append(doc_id)
    return names


def find_document(name: str, names: Mapping[str, Sequence[str]]) -> str:
    """The id of the document of that id, path or name of a file, see `names_of`."""
    for doc_id in (name, str(Path(name).resolve())):
        if doc_id in names.get(doc_id, ()):
            return doc_id
    found = names.get(name, ())
    if len(found) > 1:
        raise ValueError(f"{name!r} may be any of {', '.join(sorted(found))}: give the whole path")
    if not found:
        raise ValueError(f"there is no document {name!r}")
    return found[0]
