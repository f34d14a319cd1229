"""Finds documents by id, path or file name."""

import difflib
import os
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from langchain_rse.stores.records import Manifest
from langchain_rse.text.names import short_names
from langchain_rse.text.quoting import first_few, shortened

_LONGEST_NAME = 200  # in messages


def source_of(manifest: Manifest) -> str:
    """Return a document's source, or its id if it has no source."""
    return str(manifest.metadata.get("source", manifest.doc_id))


def names_of(manifests: Iterable[Manifest]) -> dict[str, list[str]]:
    """Map ids, sources, and file names with and without suffix to document ids."""
    ids: dict[str, dict[str, None]] = {}
    for manifest in manifests:
        path = Path(manifest.doc_id)
        for name in {manifest.doc_id, source_of(manifest), path.name, path.stem}:
            ids.setdefault(_composed(name), {})[manifest.doc_id] = None
    return {name: list(with_name) for name, with_name in ids.items()}


def find_document(name: str, names: Mapping[str, Sequence[str]], hint: str = "") -> str:
    """Find the id of a document by its id, source, file name or the end of its path.

    Args:
        name: What to search for.
        names: The result of `names_of`.
        hint: Added to the error if no document has the name.

    Raises:
        ValueError: If no document has the name, or several have it. The message suggests names.
    """
    for doc_id in (name, os.path.normpath(name)):
        if doc_id in names.get(_composed(doc_id), ()):
            return doc_id
    composed = _composed(name)
    doc_ids = list(names.get(composed, ()))
    if not doc_ids:
        identifiers = {doc_id for with_name in names.values() for doc_id in with_name}
        doc_ids = sorted(
            doc_id for doc_id in identifiers if _composed(doc_id).endswith(os.sep + composed)
        )
    if not doc_ids:
        file_names = {Path(doc_id).name for doc_ids in names.values() for doc_id in doc_ids}
        near = difflib.get_close_matches(name, sorted(file_names), n=2)
        near = [shortened(each, _LONGEST_NAME) for each in near]
        problem = f"there is no document {name!r:.{_LONGEST_NAME}}"
        if near:
            problem += f"; did you mean {' or '.join(near)}?"
        if hint:
            problem += f"{' ' if near else '. '}{hint}"
        raise ValueError(problem)
    if len(doc_ids) > 1:
        short = short_names(sorted(doc_ids)).values()
        possible = first_few(shortened(doc_id, _LONGEST_NAME) for doc_id in short)
        raise ValueError(f"{name!r:.{_LONGEST_NAME}} is ambiguous; choose one of {possible}")
    return doc_ids[0]


def _composed(name: str) -> str:
    """Return the usual Unicode form: file systems differ."""
    return unicodedata.normalize("NFC", name)
