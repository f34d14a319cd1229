"""Makes one text of each document: joins its parts, splits it, and sorts their metadata."""

import bisect
import itertools
import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, get_args, runtime_checkable

import numpy as np
from langchain_core.documents import Document
from pydantic import ConfigDict, TypeAdapter

from langchain_rse._messages import first_few
from langchain_rse._progress import Advance
from langchain_rse._sync import Steps, during
from langchain_rse.errors import SplittingError
from langchain_rse.ingest.splitting import Span, Splitter, find_spans
from langchain_rse.stores.changing import DocStore
from langchain_rse.stores.json import encode_json
from langchain_rse.stores.records import (
    DEFAULT_RULES,
    WRITTEN,
    Chunk,
    DocumentVersion,
    Rule,
    Version,
    version_name,
)

logger = logging.getLogger(__name__)

# Part of every version's name: raised when this package stores the same text differently.
_FORMAT = "3"

# Numbers named in a message.
_NAMED = 3

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


@runtime_checkable
class HeaderMaker(Protocol):
    """Makes headers, see `langchain_rse.headers`."""

    def make(
        self, documents: Sequence[DocumentVersion], docstore: DocStore, advance: Advance
    ) -> Steps[list[DocumentVersion]]:
        """Put headers in front of documents and their chunks; return these in their order.

        Called again for documents that were split into smaller chunks to leave room for headers.
        A model's answers are kept in the ``docstore``; ``advance`` counts them.
        """


def with_headers(document: DocumentVersion, above: str, in_front: Iterable[str]) -> DocumentVersion:
    """Add to a document the header above its segments, and those embedded before its chunks."""
    pairs = zip(document.chunks, in_front, strict=True)
    chunks = [chunk._replace(header=header) for chunk, header in pairs]
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
    left_out = {*WRITTEN, *(name for name, rule in rules.items() if rule == "drop")}
    of_parts = [_without(left_out, part.metadata) for part in source.parts]
    of_spans = [_without(left_out, span.metadata) for span in spans]
    # Metadata that a splitter gives to chunks does not hold for the whole document.
    names = set(itertools.chain.from_iterable(of_spans))
    shared, rest, stored_rules = sort_metadata(of_parts, rules, doc_id, changing=names)
    lengths = [len(part.page_content) for part in source.parts]
    ends = itertools.accumulate(length + len(separator) for length in lengths[:-1])
    starts = [0, *ends]
    parts = list(zip(starts, lengths, rest or [{} for _ in starts], strict=True))
    chunks = []
    for span, of_span in zip(spans, of_spans, strict=True):
        own = text[span.start : span.end]
        places = _places(own, span.start, starts, rest, of_span)
        chunks.append(Chunk(span.start, span.end, own, span.embedded_text, places))
    document = DocumentVersion(
        doc_id=doc_id,
        version=Version("", len(chunks)),
        length=len(text),
        metadata=shared,
        chunks=chunks,
        parts=parts if rest or len(parts) > 1 else (),
        rules=stored_rules,
    )
    return document, contained


def _split(text: str, splitter: Splitter, doc_id: str) -> tuple[list[Span], int]:
    if not text or text.isspace():
        logger.warning(
            "document %r has no text (%d characters, all white space): it is recorded, but "
            "no query can find it. A scanned PDF needs OCR first",
            doc_id,
            len(text),
        )
        return [], 0
    try:
        with during(f"splitting document {doc_id!r}"):
            return find_spans(text, splitter)
    except SplittingError as error:
        raise SplittingError(f"document {doc_id!r}: {error}") from error


def _without(names: Collection[str], metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in metadata.items() if name not in names}


def _places(
    chunk: str,
    start: int,
    part_starts: Sequence[int],
    of_parts: Sequence[Mapping[str, Any]],
    of_span: Mapping[str, Any],
) -> Sequence[tuple[int, Mapping[str, Any]]]:
    """The metadata along a chunk, from the parts that it lies in and from its splitter."""
    if not of_parts:
        return [(0, of_span)] if of_span else ()
    # White space at the ends of a chunk counts for no part.
    first_character = start + len(chunk) - len(chunk.lstrip() or chunk)
    last_character = start + len(chunk.rstrip() or chunk) - 1
    first = bisect.bisect_right(part_starts, first_character) - 1
    last = bisect.bisect_right(part_starts, last_character) - 1
    return [
        (0 if part == first else part_starts[part] - start, {**of_parts[part], **of_span})
        for part in range(first, last + 1)
    ]


def with_name(document: DocumentVersion, namespace: str) -> DocumentVersion:
    """Name a document's version by a digest of all that is written of the document."""
    text = document.text or " " * document.length  # white space has no chunks
    described: list[Any] = [text, document.header, _sorted(document.metadata), document.rules]
    described += [[start, length, _sorted(here)] for start, length, here in document.parts]
    for chunk in document.chunks:
        places = [[offset, _sorted(here)] for offset, here in chunk.metadata]
        described.append([chunk.start, chunk.embedded_text, chunk.header, places])
    encoded = encode_json(described, f"document {document.doc_id!r}")
    name = version_name(namespace, _FORMAT, encoded)
    return replace(document, version=document.version._replace(name=name))


def _sorted(metadata: Mapping[str, Any]) -> dict[str, Any]:
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
    place = f"metadata of document {doc_id!r}"
    dropped = {name for name, rule in rules.items() if rule == "drop"}
    parts = [_without(dropped, part) for part in parts]
    shared: dict[str, Any] = {}
    for name in dict.fromkeys(itertools.chain.from_iterable(parts)):
        found = [part[name] for part in parts if name in part]
        everywhere = len(found) == len(parts)
        if rules.get(name) == "same":
            found = [value for value in found if value is not None] or [None]
            everywhere = True
        # Compared as JSON, since arrays, for example, cannot be compared.
        values = list({encode_json({name: value}, place): value for value in found}.values())
        if rules.get(name) == "same" and len(values) > 1:
            raise ValueError(
                f"document {doc_id!r}: {name!r} must be the same in all of its parts, as "
                f"metadata_rules says, but is {values[0]!r} in one and {values[1]!r} in another. "
                "Give different documents different ids (ids= or metadata['doc_id']); or give "
                f"another rule: {', '.join(get_args(Rule))}"
            )
        if everywhere and len(values) == 1 and name not in changing:
            shared[name] = values[0]
    rest = [_without(shared, part) for part in parts]
    names = {*shared, *changing, *itertools.chain.from_iterable(rest)}
    own = sorted(rules.items() - DEFAULT_RULES.items())
    return shared, rest if any(rest) else [], {name: rule for name, rule in own if name in names}


def out_of_order(parts: Sequence[Mapping[str, Any]], rules: Mapping[str, Rule]) -> list[str]:
    """Describe where whole numbers in fields with the rule ``"range"`` do not rise by one."""
    problems = []
    for name, values in numbered(parts, rules):
        if jumps := [f"{b} comes after {a}" for a, b in itertools.pairwise(values) if b != a + 1]:
            problems.append(f"{name} {first_few(jumps, _NAMED)}")
    return problems


def numbered(
    parts: Sequence[Mapping[str, Any]], rules: Mapping[str, Rule], more: Collection[str] = ()
) -> Iterator[tuple[str, list[int]]]:
    """The fields with the rule ``"range"``, and ``more``, that are whole numbers in all parts."""
    ranges = [name for name, rule in {**DEFAULT_RULES, **rules}.items() if rule == "range"]
    for name in dict.fromkeys([*ranges, *more]):
        values: list[Any] = [part.get(name) for part in parts]
        if all(type(value) is int or isinstance(value, np.integer) for value in values):
            yield name, values
