"""One text for each document: its parts are joined and split, and their metadata sorted."""

import bisect
import itertools
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, get_args, runtime_checkable

import numpy as np
from langchain_core.documents import Document
from pydantic import TypeAdapter, ValidationError

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
    Part,
    Rule,
    Version,
    document_key,
    version_name,
)

logger = logging.getLogger(__name__)

Places = Sequence[tuple[int, Mapping[str, Any]]]
"""Metadata that changes along a chunk: from which of its characters what holds. The first pair is
for character 0; empty if there is none."""

# Part of every version: raised when the same text would be stored in another way.
_FORMAT = "3"

# Numbers named in a message.
_NAMED = 3

_RULES = TypeAdapter(dict[str, Rule])

IdOrigin = Literal["ids", "metadata", "source", "text"]
"""Where a document's id is from: ``ids=``, metadata ``doc_id`` or ``Document.id``, metadata
``source``, or a digest of its text."""


@dataclass
class SourceDocument:
    """A document as it comes in."""

    doc_id: str
    parts: list[Document]  # such as pages, in their order
    id_origin: IdOrigin = "ids"
    stored: int = 0  # number of the first parts that are stored already


@dataclass(frozen=True)
class SplitDocument:
    """A document as one text in chunks; `DocumentVersion` says what some of the fields are."""

    doc_id: str
    text: str
    spans: Sequence[Span]  # its chunks, in the order of the text; they tile it
    metadata: Mapping[str, Any]  # what holds for the whole document
    places: Sequence[Places]  # other metadata, for each chunk
    rules: Mapping[str, Rule] = field(default_factory=dict)
    parts: Sequence[Part] = ()
    contained: int = 0  # chunks that were dropped because they lie wholly inside another

    @property
    def key(self) -> str:
        """The document's key in the docstore."""
        return document_key(self.doc_id)

    def metadata_at(self, index: int) -> Mapping[str, Any]:
        """What holds at the first character of a chunk that is not white space."""
        places = self.places[index]
        return {**self.metadata, **places[0][1]} if places else self.metadata


class Headers(NamedTuple):
    """The headers of a document, each empty for nothing."""

    document: str  # what may stand above its segments
    chunks: Sequence[str]  # what is embedded in front of each chunk


@runtime_checkable
class HeaderMaker(Protocol):
    """Makes headers, see `langchain_rse.headers`."""

    def make(
        self, documents: Sequence[SplitDocument], docstore: DocStore, advance: Advance
    ) -> Steps[list[Headers]]:
        """Make the headers of each document, in order.

        Called again with documents that were split into smaller chunks to leave room for headers.
        A model's answers are kept in the ``docstore``; ``advance`` counts them.
        """


# Splitting


def split_document(
    source: SourceDocument, splitter: Splitter, separator: str, rules: Mapping[str, Rule]
) -> SplitDocument:
    """Join the parts of a document, with a separator between two, and split its text."""
    doc_id = source.doc_id
    text = separator.join(part.page_content for part in source.parts)
    spans, contained = _split(text, splitter, doc_id)
    left_out = {*WRITTEN, *(name for name, rule in rules.items() if rule == "drop")}
    of_parts = [_without(left_out, part.metadata) for part in source.parts]
    of_spans = [_without(left_out, span.metadata) for span in spans]
    # What a splitter says of some chunks does not hold for the whole document.
    names = set(itertools.chain.from_iterable(of_spans))
    shared, rest, stored_rules = sort_metadata(of_parts, rules, doc_id, changing=names)
    lengths = [len(part.page_content) + len(separator) for part in source.parts[:-1]]
    starts = list(itertools.accumulate(lengths, initial=0))
    parts = [
        (start, len(part.page_content), here)
        for start, part, here in zip(starts, source.parts, rest or [{}] * len(starts), strict=True)
    ]
    places = [
        _places(text, span, starts, rest, of_span)
        for span, of_span in zip(spans, of_spans, strict=True)
    ]
    if len(parts) == 1 and not rest:
        parts = []
    return SplitDocument(doc_id, text, spans, shared, places, stored_rules, parts, contained)


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
    text: str,
    span: Span,
    part_starts: Sequence[int],
    of_parts: Sequence[Mapping[str, Any]],
    of_span: Mapping[str, Any],
) -> Places:
    """The metadata along a chunk, of the parts that it lies in and of its splitter."""
    if not of_parts:
        return [(0, of_span)] if of_span else ()
    # White space at its ends belongs to no part.
    chunk = text[span.start : span.end]
    first_character = span.end - len(chunk.lstrip() or chunk)
    last_character = span.start + len(chunk.rstrip() or chunk) - 1
    first = bisect.bisect_right(part_starts, first_character) - 1
    last = bisect.bisect_right(part_starts, last_character) - 1
    return [
        (0 if part == first else part_starts[part] - span.start, {**of_parts[part], **of_span})
        for part in range(first, last + 1)
    ]


def document_version(
    document: SplitDocument, headers: Headers | None, namespace: str = ""
) -> DocumentVersion:
    """A document and its headers as they are written; the version's name is a digest of all."""
    text, spans = document.text, document.spans
    above, in_front = headers or Headers("", [""] * len(spans))
    chunks = [
        Chunk(span.start, span.end, text[span.start : span.end], span.embedded_text, here, header)
        for span, here, header in zip(spans, document.places, in_front, strict=True)
    ]
    everything: list[Any] = [text, above, _sorted(document.metadata), document.rules]
    everything += [[start, length, _sorted(here)] for start, length, here in document.parts]
    for chunk in chunks:
        places = [[offset, _sorted(here)] for offset, here in chunk.metadata]
        everything.append([chunk.start, chunk.embedded_text, chunk.header, places])
    described = encode_json(everything, f"document {document.doc_id!r}")
    name = version_name(namespace, _FORMAT, described)
    return DocumentVersion(
        doc_id=document.doc_id,
        version=Version(name, len(chunks)),
        length=len(text),
        metadata=document.metadata,
        chunks=chunks,
        parts=document.parts,
        rules=document.rules,
        header=above,
    )


def _sorted(metadata: Mapping[str, Any]) -> dict[str, Any]:
    return dict(sorted(metadata.items(), key=lambda item: str(item[0])))


# Metadata


def check_rules(rules: Mapping[str, Rule] | None) -> dict[str, Rule]:
    """The rules, checked; a ``ValueError`` if they are no mapping, or one is unknown."""
    try:
        return _RULES.validate_python(rules or {})
    except ValidationError as error:
        raise ValueError(
            "metadata_rules must map names of metadata fields to one of "
            f"{', '.join(map(repr, get_args(Rule)))}; got {rules!r}"
        ) from error


def sort_metadata(
    parts: Sequence[Mapping[str, Any]],
    rules: Mapping[str, Rule],
    doc_id: str,
    *,
    changing: Collection[str] = (),
) -> tuple[dict[str, Any], list[dict[str, Any]], dict[str, Rule]]:
    """Tell metadata that holds for a whole document from that which changes between its parts.

    Fields with the rule ``"same"`` hold for all parts if one has them (None counts as lacking);
    those in ``changing`` change in any case. Returns what holds for all; for each part what else
    it has, or an empty list if none has; and the rules to store, without default ones.
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
        # By their JSON: arrays and the like cannot be compared.
        values = list({encode_json({name: value}, place): value for value in found}.values())
        if rules.get(name) == "same" and len(values) > 1:
            raise ValueError(
                f"document {doc_id!r}: {name!r} must be the same in all of its parts, as "
                f"metadata_rules says, but is {values[0]!r} in one and {values[1]!r} in another. "
                "Parts of different documents need different ids (ids= or metadata['doc_id']); "
                f"where values may differ, give another rule: {', '.join(get_args(Rule))}"
            )
        if everywhere and len(values) == 1 and name not in changing:
            shared[name] = values[0]
    rest = [_without(shared, part) for part in parts]
    names = {*shared, *changing, *itertools.chain.from_iterable(rest)}
    stored = {
        name: rule
        for name, rule in sorted(rules.items())
        if name in names and DEFAULT_RULES.get(name) != rule
    }
    return shared, rest if any(rest) else [], stored


def out_of_order(parts: Sequence[Mapping[str, Any]], rules: Mapping[str, Rule]) -> list[str]:
    """Where whole numbers in fields with the rule ``"range"`` do not rise by one, a phrase each."""
    problems = []
    for name, values in numbered(parts, rules):
        if jumps := [f"{b} comes after {a}" for a, b in itertools.pairwise(values) if b != a + 1]:
            problems.append(f"{name} {first_few(jumps, _NAMED)}")
    return problems


def numbered(
    parts: Sequence[Mapping[str, Any]], rules: Mapping[str, Rule], more: Collection[str] = ()
) -> Iterator[tuple[str, list[int]]]:
    """The fields with the rule ``"range"``, and `more`, that are a whole number in all parts."""
    ranges = [name for name, rule in {**DEFAULT_RULES, **rules}.items() if rule == "range"]
    for name in dict.fromkeys([*ranges, *more]):
        values: list[Any] = [part.get(name) for part in parts]
        if all(type(value) is int or isinstance(value, np.integer) for value in values):
            yield name, values
