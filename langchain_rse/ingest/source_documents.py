"""Prepares documents: joins their parts, splits the text, and separates shared metadata."""

import bisect
import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from types import NoneType
from typing import Any, Literal, Protocol, TypeGuard, get_args, runtime_checkable

import numpy as np
from langchain_core.documents import Document

from langchain_rse._messages import Advance, check_type
from langchain_rse._sync import Steps
from langchain_rse.ingest.splitting import Span
from langchain_rse.stores.compare_and_set import DocStore
from langchain_rse.stores.json import encode_json
from langchain_rse.stores.records import (
    DEFAULT_RULES,
    WRITTEN,
    Chunk,
    DocumentVersion,
    Manifest,
    Part,
    Rule,
    Version,
    digest,
)

# Part of every version's name. Increase it when the same text is stored in another way.
_FORMAT = "4"

SURE_OVERLAP = 24
"""This many equal characters make an overlap certain; fewer may match by chance."""
LONGEST_OVERLAP = 10_000
"""No splitter uses a longer overlap."""

IdOrigin = Literal["given", "source", "text"]
"""Origin of a document's id: ``ids=``, metadata ``doc_id`` or ``Document.id``; metadata ``source``;
or a digest of its text."""


@dataclass
class SourceDocument:
    """A document as the caller passed it."""

    doc_id: str
    parts: list[Document]  # such as pages, in order
    id_origin: IdOrigin
    stored: int = 0  # number of leading parts that are already stored
    is_separate: bool = False  # True if its source holds more documents, such as table rows


@runtime_checkable
class HeaderMaker(Protocol):
    """Makes headers, as `DocumentHeaders` and `LMBasedHeaders` do."""

    def make(
        self, documents: Sequence[DocumentVersion], docstore: DocStore, advance: Advance
    ) -> Steps[list[DocumentVersion]]:
        """Add headers to documents and their chunks; return the documents in the same order.

        The ``docstore`` caches a model's answers; ``advance`` counts them.
        """


def check_headers(headers: HeaderMaker | None) -> HeaderMaker | None:
    """Raise a TypeError unless these are headers or None."""
    allowed = "DocumentHeaders(), LMBasedHeaders(llm=...) or None"
    check_type("headers", headers, (HeaderMaker, NoneType), allowed)
    return headers


def with_headers(document: DocumentVersion, shown: str, embedded: Iterable[str]) -> DocumentVersion:
    """Set the header above a document's passages and the headers embedded with its chunks."""
    chunks: list[Chunk] = []
    for chunk, header in zip(document.chunks, embedded, strict=True):
        chunks.append(chunk._replace(header=header))
    return replace(document, chunks=chunks, manifest=replace(document.manifest, header=shown))


def described(part: Document, doc_id: str, dropped: Iterable[str] = ()) -> str:
    """Encode a part's metadata, except position and dropped fields, to compare it with others."""
    fields = without({*WRITTEN, *dropped}, part.metadata)
    return encode_json(fields, f"document {doc_id!r}: metadata", in_order=True)


# Chunks


def sure_overlap(before: str, after: str) -> str:
    """Return the text with which one text begins as another ends; "" if it may be chance."""
    end = before[-LONGEST_OVERLAP:].rstrip()
    overlap = end[end.find(after[:SURE_OVERLAP]) :]
    is_sure = SURE_OVERLAP <= len(overlap) < len(after) and after.startswith(overlap)
    return overlap if is_sure else ""


def make_document(
    source: SourceDocument,
    text: str,
    spans: Sequence[Span],
    *,
    separator: str,
    rules: Mapping[str, Rule],
) -> DocumentVersion:
    """Make a document from its parts, their text joined with a separator, and its spans.

    The document has no version name yet; see `with_name`.
    """
    doc_id = source.doc_id
    excluded = WRITTEN | dropped(rules)
    metadata_of_parts = [without(excluded, part.metadata) for part in source.parts]
    metadata_of_spans = [without(excluded, span.metadata) for span in spans]
    # Metadata that the splitter adds to chunks never holds for the whole document.
    names_in_spans = set(itertools.chain.from_iterable(metadata_of_spans))
    shared, changing, stored_rules = sort_metadata(
        metadata_of_parts, rules, doc_id, changing=names_in_spans
    )

    parts: list[Part] = []
    part_start = 0
    for number, part in enumerate(source.parts):
        length = len(part.page_content)
        parts.append((part_start, length, changing[number] if changing else {}))
        part_start += length + len(separator)

    chunks: list[Chunk] = []
    for span, metadata_of_span in zip(spans, metadata_of_spans, strict=True):
        chunk_text = text[span.start : span.end]
        changes: Sequence[tuple[int, Mapping[str, Any]]] = ()
        if changing or metadata_of_span:
            changes = _metadata_along(chunk_text, span.start, parts, metadata_of_span)
        chunk = Chunk(
            start=span.start,
            end=span.end,
            text=chunk_text,
            embedded_text=span.embedded_text,
            metadata=changes,
            table_header=span.table_header,
        )
        chunks.append(chunk)

    manifest = Manifest(
        doc_id,
        Version("", len(chunks)),
        length=len(text),
        starts=[chunk.start for chunk in chunks],
        blank="" if chunks else text,
        text_digest=digest(text) if chunks else "",
        metadata=shared,
        rules=stored_rules,
    )
    stored_parts = parts if changing or len(parts) > 1 else ()
    return DocumentVersion(manifest=manifest, chunks=chunks, parts=stored_parts)


def dropped(rules: Mapping[str, Rule]) -> set[str]:
    """Return the names of metadata fields that are not stored."""
    return {name for name, rule in rules.items() if rule == "drop"}


def without(names: Collection[str], metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return metadata without some fields."""
    return {name: value for name, value in metadata.items() if name not in names}


def _metadata_along(
    chunk: str, start: int, parts: Sequence[Part], metadata_of_span: Mapping[str, Any]
) -> Sequence[tuple[int, Mapping[str, Any]]]:
    """Collect the metadata along a chunk, from its parts and from the splitter."""
    # White space at the ends of a chunk is ignored.
    text_start = start + len(chunk) - len(chunk.lstrip() or chunk)
    text_end = start + len(chunk.rstrip() or chunk)
    start_of_part = itemgetter(0)
    first = bisect.bisect_right(parts, text_start, key=start_of_part) - 1
    after = bisect.bisect_left(parts, text_end, key=start_of_part)
    changes: list[tuple[int, Mapping[str, Any]]] = []
    for part_start, _, metadata in parts[first:after]:
        offset = part_start - start if changes else 0
        changes.append((offset, {**metadata, **metadata_of_span}))
    has_metadata = any(metadata for _, metadata in changes)
    return changes if has_metadata else ()


def with_name(document: DocumentVersion, namespace: str) -> DocumentVersion:
    """Name a document's version by a digest of everything that is stored."""
    content: list[Any] = [
        document.manifest.text_digest or document.text,
        document.manifest.header,
        document.manifest.metadata,
        document.manifest.rules,
    ]
    content += map(list, document.parts)
    for chunk in document.chunks:
        # The embedded text contains overlap and a table's header row.
        other_text = chunk.embedded_text if chunk.embedded_text != chunk.text.strip() else None
        content.append([chunk.start, other_text, chunk.header, *map(list, chunk.metadata)])
    content += map(list, document.adopted)
    encoded = encode_json(content, f"document {document.doc_id!r}", in_order=True)
    name = digest(_FORMAT, encoded)
    if namespace:
        name = f"{namespace}-{name}"
    version = document.version._replace(name=name)
    return replace(document, manifest=replace(document.manifest, current=version))


# Metadata


def check_rules(rules: Mapping[str, Rule] | None) -> dict[str, Rule]:
    """Check rules; raise an error if one is unknown."""
    allowed = get_args(Rule)
    check_type("metadata_rules", rules, (Mapping, NoneType), "a dict of fields and rules")
    for name, rule in (rules or {}).items():
        if rule not in allowed:
            raise ValueError(
                f"metadata_rules: {name} must be one of {', '.join(allowed)}; got {rule!r:.200}"
            )
    return dict(rules or {})


def sort_metadata(
    parts: Sequence[Mapping[str, Any]],
    rules: Mapping[str, Rule],
    doc_id: str,
    *,
    changing: Collection[str] = (),
) -> tuple[dict[str, Any], list[dict[str, Any]], dict[str, Rule]]:
    """Separate metadata of the whole document from metadata that changes between its parts.

    A field with the rule ``"same"`` holds for all parts if any part has it (None counts as
    missing). Fields in ``changing`` always count as changing.

    Returns:
        The document's metadata; the metadata of each part, or an empty list if no part has any;
        and the rules to store, without default rules.
    """
    shared: dict[str, Any] = {}
    for name in dict.fromkeys(itertools.chain.from_iterable(parts)):
        values = [part[name] for part in parts if name in part]
        must_be_same = rules.get(name) == "same"
        if must_be_same:
            values = [value for value in values if value is not None] or [None]
        # Compared as JSON, because some values, such as arrays, have no plain equality.
        place = f"document {doc_id!r}: metadata"
        by_json = {encode_json({name: value}, place): value for value in values}
        different = list(by_json.values())
        if must_be_same and len(different) > 1:
            raise ValueError(
                f"document {doc_id!r}: metadata_rules requires the same {name!r} in all parts, "
                f"but one has {different[0]!r} and another {different[1]!r}. If the parts are "
                "different documents, give each its own id (ids= or metadata['doc_id']); otherwise "
                f"set another rule: {', '.join(get_args(Rule))}"
            )
        is_shared = len(different) == 1 and len(values) == len(parts)
        if (must_be_same or is_shared) and name not in changing:
            shared[name] = different[0]

    part_metadata = [without(shared, part) for part in parts]
    names = {*shared, *changing, *itertools.chain.from_iterable(part_metadata)}
    custom_rules = sorted(rules.items() - DEFAULT_RULES.items())
    stored_rules = {name: rule for name, rule in custom_rules if name in names}
    return shared, part_metadata if any(part_metadata) else [], stored_rules


def is_whole_number(value: object) -> TypeGuard[int]:
    """True if a metadata value is an integer, including numpy integers."""
    return type(value) is int or isinstance(value, np.integer)
