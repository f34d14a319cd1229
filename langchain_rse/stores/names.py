"""Finds documents by the names that people use: ids, paths and file names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from langchain_rse.stores.records import Manifest


def names_of(manifests: Iterable[Manifest]) -> dict[str, list[str]]:
    """Index the ids of documents by ids, sources, and file names with and without suffix."""
    names: dict[str, list[str]] = {}
    for one in manifests:
        path, source = Path(one.doc_id), str(one.metadata.get("source", one.doc_id))
        for name in {one.doc_id, source, path.name, path.stem}:
            names.setdefault(name, []).append(one.doc_id)
    return names


def find_document(name: str, names: Mapping[str, Sequence[str]]) -> str:
    """Find the id of a document by its id, path or file name, see `names_of`."""
    for doc_id in (name, str(Path(name).resolve())):
        if doc_id in names.get(doc_id, ()):
            return doc_id
    found = names.get(name, ())
    if len(found) > 1:
        raise ValueError(f"{name!r} may be any of {', '.join(sorted(found))}: give the whole path")
    if not found:
        raise ValueError(f"there is no document {name!r}")
    return found[0]
