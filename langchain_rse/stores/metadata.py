"""What a segment carries of metadata that changes along its document, such as page numbers."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from langchain_core.documents import Document
from pydantic import Field, NonNegativeInt, TypeAdapter, ValidationError

from langchain_rse.errors import CorruptRecordError
from langchain_rse.stores.json import encode_json
from langchain_rse.stores.records import (
    CHUNK_ID,
    DOC_ID,
    HEADER,
    PLACE,
    PLACES,
    Manifest,
    Rule,
    chunk_metadata,
    encodable,
    with_header,
)

DEFAULT_RULES: Mapping[str, Rule] = {"page": "range", "page_label": "range"}
"""Fields with a rule that nobody has to give: also where a document has a single page."""

_PLACES = TypeAdapter(Annotated[list[tuple[NonNegativeInt, dict[str, Any]]], Field(min_length=1)])


def segment_metadata(
    shared: Mapping[str, Any], rules: Mapping[str, Rule], places: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """The metadata of a segment, of what its document and its chunks have.

    Fields with a rule follow it whether or not they change along this document; others follow
    ``"range"`` where they change. ``places`` is what holds along the segment, in the order of its
    text, besides what is ``shared`` by all.
    """
    all_rules = {**DEFAULT_RULES, **rules}
    ruled = {name: value for name, value in shared.items() if name in all_rules}
    found = {name: value for name, value in shared.items() if name not in all_rules}
    everywhere = [{**ruled, **place} for place in places] or [ruled]
    first, last = everywhere[0], everywhere[-1]
    for name in dict.fromkeys(itertools.chain.from_iterable(everywhere)):
        rule = all_rules.get(name, "range")
        if rule == "all":
            values = [place[name] for place in everywhere if name in place]
            # By their JSON: arrays and the like cannot be compared.
            found[name] = list({encode_json(value, name): value for value in values}.values())
        elif rule == "range":
            found |= {f"{name}_start": first[name]} if name in first else {}
            found |= {f"{name}_end": last[name]} if name in last else {}
        else:
            place = last if rule == "last" else first
            found |= {name: place[name]} if name in place else {}
    return found


def metadata_changes(record: Document, key: str) -> list[tuple[int, Mapping[str, Any]]]:
    """Metadata that changes along a chunk: pairs of a character, from 0, and what holds there."""
    if PLACES not in record.metadata:  # as in most; a query asks twice for each chunk it returns
        return [(0, {})]
    places = record.metadata[PLACES]
    try:
        return list(_PLACES.validate_python(places))
    except ValidationError as error:
        raise CorruptRecordError(
            f"the docstore's chunk {key!r} has {PLACES}={places!r} in its metadata, which should "
            "be pairs of a number and a dict. Delete the document and add it again"
        ) from error


def chunk_document(record: Document, key: str, manifest: Manifest, version: str) -> Document:
    """A chunk from its record as in the vector store, without overlap and white space around it."""
    own = metadata_changes(record, key)[0][1]
    if record.metadata.get(DOC_ID, manifest.doc_id) != manifest.doc_id:
        raise CorruptRecordError(f"the docstore's chunk {key!r} is not of {manifest.doc_id!r}")
    place = {name: record.metadata[name] for name in PLACE if name in record.metadata}
    metadata = chunk_metadata({**manifest.metadata, **own}, place, version)
    text = encodable(with_header(record.metadata.get(HEADER, ""), record.page_content.strip()))
    return Document(text, id=metadata.get(CHUNK_ID), metadata=metadata)
