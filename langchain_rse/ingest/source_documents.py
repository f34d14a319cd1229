"""Makes one text of each document: joins its parts, splits it, and sorts their metadata."""

import bisect
import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, Protocol, TypeGuard, get_args, runtime_checkable

import numpy as np
from langchain_core.documents import Document
from pydantic import ConfigDict, TypeAdapter

from langchain_rse._progress import Advance
from langchain_rse._sync import Steps, during
from langchain_rse.errors import SplittingError
from langchain_rse.ingest.splitting import Span, Splitter, find_spans
from langchain_rse.stores.compare_and_set import DocStore
from langchain_rse.stores.json import encode_json
from langchain_rse.stores.records import (
    DEFAULT_RULES,
    WRITTEN,
    Chunk,
    DocumentVersion,
    Part,
    Rule,
    Version,
    version_name,
)
from langchain_rse.text.quoting import first_few

# Part of every version's name: raised if this package stores the same text in another way.
_FORMAT = "3"

# Numbers named in a message.
_NAMED = 3

PART_NUMBERS = ("page", "page_number", "slide", "row", "seq_num")
"""Metadata in which loaders number the parts of a document."""

_RULES = TypeAdapter(dict[str, Rule], config=ConfigDict(title="metadata_rules"))

IdOrigin = Literal["ids", "metadata", "source", "text"]
"""Where a document's id is from: ``ids=``, metadata ``doc_id`` or ``Document.id``, metadata
``source``, or a digest of its text."""


@dataclass
class SourceDocument:
    """A document as it was given."""

    doc_id: str
    parts: list[Document]  # such as pages, in their order
    id_origin: IdOrigin = "ids"
    stored: int = 0  # how many parts, from the first, are stored already
    is_separate: bool = False  # its source has other documents, such as the rows of a table


@runtime_checkable
class HeaderMaker(Protocol):
    """Makes headers, see `langchain_rse.headers`."""

    def make(
        self, documents: Sequence[DocumentVersion], docstore: DocStore, advance: Advance
    ) -> Steps[list[DocumentVersion]]:
        """Put headers in front of documents and their chunks; return these in their order.

        The ``docstore`` keeps a model's answers; ``advance`` counts them.
        """


def with_headers(document: DocumentVersion, above: str, in_front: Iterable[str]) -> DocumentVersion:
    """Add to a document the header above its segments, and those embedded before its chunks."""
    chunks: list[Chunk] = []
    for chunk, header in zip(document.chunks, in_front, strict=True):
        chunks.append(chunk._replace(header=header))
    return replace(document, chunks=chunks, header=above)


# Splitting


def split_document(
    source: SourceDocument, splitter: Splitter, separator: str, rules: Mapping[str, Rule]
) -> tuple[DocumentVersion, int]:
    """Join the parts of a document, with a separator between two, and split its text.

    Returns the document, which `with_name` names, and the number of chunks that were dropped.
    """
    doc_id = source.doc_id
    text = separator.join(part.page_content for part in source.parts)
    spans, contained = _split(text, splitter, doc_id)

    left_out = WRITTEN | _dropped(rules)
    metadata_of_parts = [_without(left_out, part.metadata) for part in source.parts]
    metadata_of_spans = [_without(left_out, span.metadata) for span in spans]
    # Metadata that a splitter gives to chunks does not hold for the whole document.
    names_in_spans = set(itertools.chain.from_iterable(metadata_of_spans))
    shared, changing, stored_rules = sort_metadata(
        metadata_of_parts, rules, doc_id, changing=names_in_spans
    )

    part_starts = _starts(source.parts, separator)
    chunks: list[Chunk] = []
    for span, metadata_of_span in zip(spans, metadata_of_spans, strict=True):
        chunk_text = text[span.start : span.end]
        changes = _metadata_along(chunk_text, span.start, part_starts, changing, metadata_of_span)
        chunk = Chunk(
            start=span.start,
            end=span.end,
            text=chunk_text,
            embedded_text=span.embedded_text,
            metadata=changes,
            table_header=span.table_header,
        )
        chunks.append(chunk)

    document = DocumentVersion(
        doc_id=doc_id,
        version=Version("", len(chunks)),
        length=len(text),
        metadata=shared,
        chunks=chunks,
        parts=_parts(source.parts, part_starts, changing),
        rules=stored_rules,
        blank="" if chunks else text,
    )
    return document, contained


def _split(text: str, splitter: Splitter, doc_id: str) -> tuple[list[Span], int]:
    if not text or text.isspace():
        return [], 0
    try:
        with during(f"splitting document {doc_id!r}"):
            return find_spans(text, splitter)
    except SplittingError as error:
        raise SplittingError(f"document {doc_id!r}: {error}") from error


def _dropped(rules: Mapping[str, Rule]) -> set[str]:
    """The names of metadata fields that are not stored."""
    return {name for name, rule in rules.items() if rule == "drop"}


def _without(names: Collection[str], metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in metadata.items() if name not in names}


def _starts(parts: Sequence[Document], separator: str) -> list[int]:
    """Where the parts of a document start in its text."""
    starts: list[int] = []
    start = 0
    for part in parts:
        starts.append(start)
        start += len(part.page_content) + len(separator)
    return starts


def _parts(
    parts: Sequence[Document], starts: Sequence[int], changing: Sequence[Mapping[str, Any]]
) -> Sequence[Part]:
    """Describe the parts of a document; empty if it is one part without metadata of its own."""
    if len(parts) == 1 and not changing:
        return ()
    described: list[Part] = []
    for number, (part, start) in enumerate(zip(parts, starts, strict=True)):
        metadata = changing[number] if changing else {}
        described.append((start, len(part.page_content), metadata))
    return described


def _metadata_along(
    chunk: str,
    start: int,
    part_starts: Sequence[int],
    metadata_of_parts: Sequence[Mapping[str, Any]],
    metadata_of_span: Mapping[str, Any],
) -> Sequence[tuple[int, Mapping[str, Any]]]:
    """The metadata along a chunk, from the parts that it lies in and from its splitter."""
    if not metadata_of_parts:
        return [(0, metadata_of_span)] if metadata_of_span else ()
    # White space at the ends of a chunk counts for no part.
    first_character = start + len(chunk) - len(chunk.lstrip() or chunk)
    last_character = start + len(chunk.rstrip() or chunk) - 1
    first_part = bisect.bisect_right(part_starts, first_character) - 1
    last_part = bisect.bisect_right(part_starts, last_character) - 1
    changes: list[tuple[int, Mapping[str, Any]]] = []
    for part in range(first_part, last_part + 1):
        offset = 0 if part == first_part else part_starts[part] - start
        changes.append((offset, {**metadata_of_parts[part], **metadata_of_span}))
    return changes


def with_name(document: DocumentVersion, namespace: str) -> DocumentVersion:
    """Name a document's version by a digest of all that is written of the document."""
    content: list[Any] = [
        document.text,
        document.header,
        _in_order(document.metadata),
        document.rules,
    ]
    for start, length, metadata in document.parts:
        content.append([start, length, _in_order(metadata)])
    for chunk in document.chunks:
        changes: list[Any] = []
        for offset, metadata in chunk.metadata:
            changes.append([offset, _in_order(metadata)])
        # The embedded text has the header row of a table.
        content.append([chunk.start, chunk.embedded_text, chunk.header, changes])
    encoded = encode_json(content, f"document {document.doc_id!r}")
    name = version_name(namespace, _FORMAT, encoded)
    return replace(document, version=document.version._replace(name=name))


def _in_order(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The same metadata, ordered by name."""
    return dict(sorted(metadata.items(), key=lambda item: str(item[0])))


# Metadata


def check_rules(rules: Mapping[str, Rule] | None) -> dict[str, Rule]:
    """Check rules; a ``ValueError`` if they are no mapping, or one is unknown."""
    return _RULES.validate_python(rules or {})


def sort_metadata(
    parts: Sequence[Mapping[str, Any]],
    rules: Mapping[str, Rule],
    doc_id: str,
    *,
    changing: Collection[str] = (),
) -> tuple[dict[str, Any], list[dict[str, Any]], dict[str, Rule]]:
    """Separate metadata of the whole document from metadata that changes between its parts.

    Fields with the rule ``"same"`` hold for all parts if one part has them (None counts as none);
    fields in ``changing`` change in any case. Returns the metadata of the document; that of each
    part, or an empty list if no part has any; and the rules to store, without default ones.
    """
    dropped = _dropped(rules)
    kept_parts = [_without(dropped, part) for part in parts]
    shared: dict[str, Any] = {}
    for name in dict.fromkeys(itertools.chain.from_iterable(kept_parts)):
        values = [part[name] for part in kept_parts if name in part]
        if rules.get(name) == "same":
            value = _same_value(name, values, doc_id)
            is_shared = True
        else:
            different = _different(name, values, doc_id)
            value = different[0]
            is_shared = len(different) == 1 and len(values) == len(kept_parts)
        if is_shared and name not in changing:
            shared[name] = value

    own_metadata = [_without(shared, part) for part in kept_parts]
    names = {*shared, *changing, *itertools.chain.from_iterable(own_metadata)}
    own_rules = sorted(rules.items() - DEFAULT_RULES.items())
    stored_rules = {name: rule for name, rule in own_rules if name in names}
    return shared, own_metadata if any(own_metadata) else [], stored_rules


def _different(name: str, values: Sequence[Any], doc_id: str) -> list[Any]:
    """The different ones among the values of a metadata field."""
    different: dict[str, Any] = {}
    for value in values:
        # Compared as JSON, since arrays, for example, cannot be compared.
        different[encode_json({name: value}, f"metadata of document {doc_id!r}")] = value
    return list(different.values())


def _same_value(name: str, values: Sequence[Any], doc_id: str) -> Any:  # noqa: ANN401
    """The value of a field with the rule ``"same"``; a ValueError if there are several."""
    different = _different(name, [value for value in values if value is not None], doc_id)
    if len(different) > 1:
        raise ValueError(
            f"document {doc_id!r}: {name!r} must be the same in all of its parts, as "
            f"metadata_rules says, but is {different[0]!r} in one and {different[1]!r} in another. "
            "Give different documents different ids (ids= or metadata['doc_id']); or give "
            f"another rule: {', '.join(get_args(Rule))}"
        )
    return different[0] if different else None


class Numbers(NamedTuple):
    """A metadata field that is a whole number in each part, and these numbers."""

    field: str
    values: list[int]


def out_of_order(parts: Sequence[Mapping[str, Any]], rules: Mapping[str, Rule]) -> list[str]:
    """Describe where whole numbers in fields with the rule ``"range"`` do not rise by one."""
    problems: list[str] = []
    for name, values in numbered(parts, rules):
        jumps: list[str] = []
        for number, next_number in itertools.pairwise(values):
            if next_number != number + 1:
                jumps.append(f"{next_number} comes after {number}")
        if jumps:
            problems.append(f"{name} {first_few(jumps, _NAMED)}")
    return problems


def part_numbers(parts: Sequence[Mapping[str, Any]], rules: Mapping[str, Rule]) -> Numbers | None:
    """The numbers of parts, in the first field that numbers all of them; None if none does."""
    fields = numbered(parts, rules, PART_NUMBERS)
    return fields[0] if fields else None


def numbered(
    parts: Sequence[Mapping[str, Any]], rules: Mapping[str, Rule], more: Collection[str] = ()
) -> list[Numbers]:
    """The fields with the rule ``"range"``, and ``more``, that are whole numbers in all parts."""
    names: dict[str, None] = {}
    for name, rule in {**DEFAULT_RULES, **rules}.items():
        if rule == "range":
            names[name] = None
    for name in more:
        names[name] = None
    fields: list[Numbers] = []
    for name in names:
        values: list[Any] = [part.get(name) for part in parts]
        if all(is_whole_number(value) for value in values):
            fields.append(Numbers(name, values))
    return fields


def is_whole_number(value: object) -> TypeGuard[int]:
    """True if a metadata value is an integer, also one of numpy."""
    return type(value) is int or isinstance(value, np.integer)
