"""Finds documents by id, path or file name."""

import difflib
import os
import unicodedata
from collections.abc import Collection
from pathlib import Path

from langchain_rse.stores.records import Manifest
from langchain_rse.text.names import short_names
from langchain_rse.text.quoting import first_few, shortened

_LONGEST_NAME = 200  # in messages


def find_document(name: str, manifests: Collection[Manifest], hint: str = "") -> str:
    """Find the id of a document by its id, source, file name with or without suffix, or path's end.

    Args:
        name: What to search for.
        manifests: The documents.
        hint: Added to the error if no document has the name. Default: the first names.

    Raises:
        ValueError: If no document has the name, or several have it. The message suggests names.
    """
    identifiers = {manifest.doc_id for manifest in manifests}
    for doc_id in (name, os.path.normpath(name)):
        if doc_id in identifiers:
            return doc_id
    composed = _composed(name)
    doc_ids = []
    for manifest in manifests:
        path = Path(manifest.doc_id)
        source = str(manifest.metadata.get("source", path))
        if composed in map(_composed, (manifest.doc_id, source, path.name, path.stem)):
            doc_ids.append(manifest.doc_id)
    if not doc_ids:
        ending = os.sep + composed
        doc_ids = [each for each in sorted(identifiers) if _composed(each).endswith(ending)]
    if not doc_ids:
        file_names = {Path(doc_id).stem: Path(doc_id).name for doc_id in sorted(identifiers)}
        stems = difflib.get_close_matches(Path(name).stem, sorted(file_names), n=2, cutoff=0.7)
        near = [shortened(file_names[stem], _LONGEST_NAME) for stem in stems]
        problem = f"there is no document {name!r:.{_LONGEST_NAME}}"
        if near:
            raise ValueError(f"{problem}; did you mean {' or '.join(near)}? {hint}".rstrip())
        listed = first_few(sorted(file_names.values())) or "none"
        raise ValueError(f"{problem}. {hint or f'The documents are {listed}'}")
    if len(doc_ids) > 1:
        short = short_names({doc_id: doc_id for doc_id in sorted(doc_ids)}).values()
        possible = first_few(shortened(doc_id, _LONGEST_NAME) for doc_id in short)
        raise ValueError(f"{name!r:.{_LONGEST_NAME}} is ambiguous; choose one of {possible}")
    return doc_ids[0]


def _composed(name: str) -> str:
    """Return the usual Unicode form: file systems differ."""
    return unicodedata.normalize("NFC", name)
