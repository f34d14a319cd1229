"""Defines what the two stores contain: metadata fields, keys, manifests and records of chunks."""

from __future__ import annotations

import hashlib
import math
import time
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Annotated, Any, Literal, NamedTuple

from langchain_core.documents import Document
from pydantic import Field, NonNegativeInt, TypeAdapter, ValidationError

from langchain_rse._messages import problems_of
from langchain_rse.errors import CorruptRecordError
from langchain_rse.stores.adopted import ADOPTED, AdoptedVector
from langchain_rse.stores.json import encode_json
from langchain_rse.stores.metadata import simple_metadata
from langchain_rse.text.quoting import encodable

# Metadata of chunks and segments.
DOC_ID = "doc_id"  # the document
CHUNK_INDEX = "chunk_index"  # the chunk's number in the document, from 0
START_INDEX = "start_index"  # the first character in the document's text
END_INDEX = "end_index"  # the character after the last one
LOCATION_FIELDS = (DOC_ID, CHUNK_INDEX, START_INDEX, END_INDEX)
# Metadata of chunks in the vector store.
CHUNK_ID = "chunk_id"  # the id in the vector store, for pipelines that lose ids
VERSION = "rse_version"  # the version of the document
NAMESPACE = "rse_namespace"  # digest of the document's namespace, if it has one
# Fields that indexing writes: those of a retrieved chunk do not hold for a new document.
WRITTEN = frozenset({*LOCATION_FIELDS, CHUNK_ID, VERSION, NAMESPACE})
# Metadata of chunks' records in the docstore.
METADATA_CHANGES = "metadata_changes"  # `Chunk.metadata`, if there is any
HEADER = "header"  # the header that was embedded in front, if there is one
TABLE_HEADER = "table_header"  # `Chunk.table_header`, if there is one
# Metadata of segments: their value. Of reranked documents: the reranker's score.
RELEVANCE_SCORE = "relevance_score"
# Metadata of segments: a dict of their chunks and the scores of these.
SEGMENT = "rse"
CLOSER_THAN = "closer_than"  # in that dict of the first segment: see `ScoreFloor.closer_than`
COUNTS_IN_SOURCE = "counts_in_source"  # in that dict, False if `Manifest.counts_in_source` is
# Metadata of filtered documents.
IS_RELEVANT = "is_relevant"  # True if the model judged so, None if it is not judged
RELEVANCE_EXPLANATION = "relevance_explanation"  # why, by the model; None if it is not judged
RELEVANCE_FAILURE = "relevance_failure"  # why it is not judged

SPANS_PER_PAGE = 512
"""The number of chunks whose spans are in one record; also of adopted vectors whose ids are."""

Rule = Literal["range", "first", "last", "all", "same", "drop"]
"""How a segment shows a metadata field that changes along a document, see `RSEIndexer`."""

DEFAULT_RULES: Mapping[str, Rule] = {"page": "range", "page_label": "range"}
"""Fields that have a rule by default, also if they are the same in a whole document."""

ANNOUNCEMENT_LIFETIME = 3600.0
"""Seconds after which a version that was announced, and is not current, counts as garbage.

If its call is still writing, that one notices and begins again."""

# Far above any document; without a limit, a forged record would keep a reader busy forever.
_Count = Annotated[int, Field(ge=0, le=10_000_000, strict=True)]
_Length = Annotated[int, Field(ge=0, le=10**12, strict=True)]

# What keys may contain.
_KeyPart = Annotated[str, Field(pattern="^[0-9A-Za-z_.-]+$", strict=True)]

# Between the digest and the id of the write, in the name of a version. That id begins with digits
# of the embedding model's id, if it is known.
_WRITE = "."
_MODEL_DIGITS = 8
_WRITE_DIGITS = 16

_VECTOR_NAMESPACE = uuid.UUID("4b1f2f1e-6d1c-5a44-9a31-2f6d9f7c5e10")


# Keys of the docstore. In their arguments, ``key`` is a `document_key`, ``version`` the name of a
# version.

NAMESPACES = "namespaces"
"""The key of a record that exists if the documents are in namespaces."""

FLOORS = "floors"
"""The key of the record of the score floors that `fit_score_floor` found."""


def manifest_key(key: str) -> str:
    """The key of a document's manifest."""
    return f"manifest/{key}"


def answers_key(key: str) -> str:
    """The key of a language model's answers about a document."""
    return f"answers/{key}"


def chunk_key(key: str, version: str, index: int) -> str:
    """The key of a chunk."""
    return f"{key}/{version}/{index}"


def spans_key(key: str, version: str, page: int) -> str:
    """The key of a page of spans."""
    return f"{key}/{version}/spans/{page}"


def description_key(key: str, version: str) -> str:
    """The key of the record that describes a version as its manifest does, and has its parts."""
    return f"{key}/{version}/document"


def adopted_key(vector: str) -> str:
    """The key of the record about an adopted vector; ``vector`` is its id."""
    return f"adopted/{digest(vector)}"


def _vectors_key(key: str, version: str, page: int) -> str:
    """The key of a page of ids of adopted vectors."""
    return f"{key}/{version}/vectors/{page}"


@lru_cache(1024)
def document_key(doc_id: str) -> str:
    """The part of a document's docstore keys that identifies the document."""
    return digest(doc_id)


def digest(*parts: str) -> str:
    """Compute a digest of strings: 32 hexadecimal digits, which every store accepts as a key."""
    state = hashlib.blake2b(digest_size=16)
    for part in parts:
        encoded = part.encode("utf-8", "surrogatepass")
        state.update(b"%d:" % len(encoded))  # ("ab", "c") is not ("a", "bc")
        state.update(encoded)
    return state.hexdigest()


def version_name(namespace: str, *parts: str) -> str:
    """The name of a version: a digest of its parts, after its namespace's digest if it has one."""
    name = digest(*parts)
    return f"{namespace}-{name}" if namespace else name


def namespace_in(metadata: Mapping[str, Any]) -> str:
    """The digest of a chunk's namespace, by its metadata in the vector store; empty for none."""
    version = metadata.get(VERSION)
    if version is None:  # written by other code, and adopted
        return str(metadata.get(NAMESPACE, ""))
    return str(version).rpartition("-")[0]


def vector_id(key: str, version: str, index: int) -> str:
    """The id of a chunk in the vector store: a UUID, the one form that all stores accept."""
    return str(uuid.uuid5(_VECTOR_NAMESPACE, chunk_key(key, version, index)))


# Text and metadata


def with_header(header: str, text: str) -> str:
    """Put a header in front of a text, with an empty line between; no line without a header."""
    return f"{header}\n\n{text}" if header else text


def with_table_header(header: str, text: str) -> str:
    """Put a table's header row above further rows; no line without a header row."""
    return f"{header}\n{text}" if header else text


def table_header_of(record: Document | None) -> str:
    """The header row that belongs above a chunk, by its record; empty if none does."""
    return "" if record is None else str(record.metadata.get(TABLE_HEADER, ""))


def with_headers(header: str, record: Document | None, text: str) -> str:
    """Put headers above the text of a segment: that of its document, and that of a table.

    Args:
        header: The header of the document.
        record: The record of the segment's first chunk, which may begin in a table.
        text: The segment's text.
    """
    return with_header(header, with_table_header(table_header_of(record), text))


def vector_store_document(
    text: str, metadata: Mapping[str, Any], location: Mapping[str, Any], version: str
) -> Document:
    """Make the Document of a chunk in the vector store.

    Args:
        text: The embedded text.
        metadata: The metadata of the document, and that at the beginning of the chunk.
        location: The `LOCATION_FIELDS`, of which a damaged record may lack some.
        version: The name of the document's version.
    """
    fields = {**simple_metadata(metadata), **location, VERSION: version}
    namespace = namespace_in(fields)
    if namespace:
        fields[NAMESPACE] = namespace
    if DOC_ID in location and CHUNK_INDEX in location:
        key = document_key(location[DOC_ID])
        fields[CHUNK_ID] = vector_id(key, version, location[CHUNK_INDEX])
    return Document(encodable(text), id=fields.get(CHUNK_ID), metadata=fields)


def judgment_of(metadata: Mapping[str, Any]) -> dict[str, bool | str | None]:
    """A relevance filter's judgment in the metadata of a document; empty if none judged it."""
    names = (IS_RELEVANT, RELEVANCE_EXPLANATION, RELEVANCE_FAILURE)
    judgment = {name: metadata[name] for name in names if name in metadata}
    is_whole = IS_RELEVANT in judgment and RELEVANCE_EXPLANATION in judgment
    are_plain = all(isinstance(value, (bool, str, type(None))) for value in judgment.values())
    return judgment if is_whole and are_plain else {}


# Metadata of segments


def segment_metadata(
    shared: Mapping[str, Any], rules: Mapping[str, Rule], changes: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Make the metadata of a segment from that of its document and its chunks.

    Fields with a rule follow it whether or not they change along this document; others follow
    ``"range"`` if they change. ``changes`` has the metadata along the segment, in the order of its
    text, without that ``shared`` by the whole document.
    """
    all_rules = {**DEFAULT_RULES, **rules}
    segment: dict[str, Any] = {}
    shared_with_rule: dict[str, Any] = {}
    for name, value in shared.items():
        target = shared_with_rule if name in all_rules else segment
        target[name] = value
    along = [{**shared_with_rule, **change} for change in changes] or [shared_with_rule]
    names: dict[str, None] = {}  # of all fields, in the order in which they first come
    for metadata in along:
        names.update(dict.fromkeys(metadata))
    for name in names:
        segment.update(_follow_rule(all_rules.get(name, "range"), name, along))
    return segment


def _follow_rule(rule: Rule, name: str, along: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Make the fields that show one metadata field, given the metadata along the segment."""
    first = along[0]
    last = along[-1]
    if rule == "all":
        # Compared as JSON, since arrays, for example, cannot be compared.
        values = [metadata[name] for metadata in along if name in metadata]
        distinct = {encode_json(value, name): value for value in values}
        return {name: list(distinct.values())}
    if rule == "range":
        fields = {}
        if name in first:
            fields[f"{name}_start"] = first[name]
        if name in last:
            fields[f"{name}_end"] = last[name]
        if len(fields) == 2 and first[name] == last[name]:  # noqa: PLR2004 - both ends
            fields[name] = first[name]  # prompts name it
        return fields
    chosen = last if rule == "last" else first
    return {name: chosen[name]} if name in chosen else {}


# Manifests


def content_name(version: str) -> str:
    """The name of a version without the id of the write: equal for equal contents."""
    return version.partition(_WRITE)[0]


class Version(NamedTuple):
    """A version of a document, as one write stores it.

    Each write has a name of its own, and so have its keys and vectors: what a call removes by such
    a name is nothing that another call wrote, however long it was stopped in between.
    """

    # Digest of the text and of everything that shapes its chunks; once it is written, followed by
    # the id of the write.
    name: _KeyPart
    chunks: _Count  # number of chunks
    adopted: _Count = 0  # number of vectors added by other code; 0 if this package added them

    def has_content_of(self, other: Version | None) -> bool:
        """True if another write, perhaps, stores the same text in the same chunks."""
        if other is None:
            return False
        other_content = other._replace(name=content_name(other.name))
        return self._replace(name=content_name(self.name)) == other_content

    def in_new_write(self, model: str) -> Version:
        """The same version in a write that nobody has begun yet, with vectors of a model."""
        write = f"{model[:_MODEL_DIGITS]}{uuid.uuid4().hex[:_WRITE_DIGITS]}"
        return self._replace(name=f"{content_name(self.name)}{_WRITE}{write}")

    def is_of_model(self, model: str) -> bool:
        """True unless the vectors of this version are known to be of another model."""
        written_model = self.name.partition(_WRITE)[2][:-_WRITE_DIGITS]
        return not written_model or not model or written_model == model[:_MODEL_DIGITS]

    @property
    def pages(self) -> int:
        """Number of pages of spans."""
        return _pages(self.chunks)

    def docstore_keys(self, key: str) -> Iterator[str]:
        """All keys of this version in the docstore, except those of adopted vectors."""
        for index in range(self.chunks):
            yield chunk_key(key, self.name, index)
        for page in range(self.pages):
            yield spans_key(key, self.name, page)
        yield description_key(key, self.name)
        yield from self.vectors_keys(key)

    def vectors_keys(self, key: str) -> Iterator[str]:
        """The keys of the pages of ids of adopted vectors."""
        for page in range(_pages(self.adopted)):
            yield _vectors_key(key, self.name, page)

    def vector_ids(self, key: str) -> Iterator[str]:
        """The ids of this version in the vector store; none if it is adopted."""
        if self.adopted:
            return
        for index in range(self.chunks):
            yield vector_id(key, self.name, index)


def _pages(items: int) -> int:
    """The number of pages that items fill."""
    return math.ceil(items / SPANS_PER_PAGE)


class Announcement(NamedTuple):
    """A version that a call has begun to write."""

    version: Version
    time: float  # in seconds since 1970, by the clock of that call


@dataclass(frozen=True)
class Manifest:
    """The record of a document in the docstore: its versions, its length and its metadata.

    A version is announced, then current, then garbage. Nobody writes or removes records or vectors
    of a version that the manifest does not list, but the call that has announced it.
    """

    doc_id: str
    current: Version | None = None  # the one that queries see
    announced: Sequence[Announcement] = ()  # being written: any part may be stored
    garbage: Sequence[Version] = ()  # being removed: any part may be stored
    # A new one each time the manifest is written, by which changes are noticed.
    revision: str = field(default_factory=lambda: uuid.uuid4().hex)
    model: str = ""  # id of the embedding model, see `langchain_rse.stores.pairing`; may be empty
    length: _Length = 0  # characters of the current version's text
    text_digest: str = ""  # of that text, to find equal texts; empty without text
    metadata: Mapping[str, Any] = field(default_factory=dict)  # of the whole document
    # Rules of some metadata fields; the others follow the default rules.
    rules: Mapping[str, Rule] = field(default_factory=dict)
    header: str = ""  # put above segments with ``include_header``; may be empty
    # False if characters are counted in a text that was put together from chunks, or in a piece of
    # the source.
    counts_in_source: bool = True
    # True if `check` found that not all of it can be read: adding the same again writes it.
    is_damaged: bool = False

    @property
    def key(self) -> str:
        """The document's key in the docstore."""
        return document_key(self.doc_id)

    @property
    def versions(self) -> list[Version]:
        """All versions that may have records or vectors in the stores."""
        announced = [announcement.version for announcement in self.announced]
        versions = [self.current, *announced, *self.garbage]
        return [version for version in versions if version is not None]

    @property
    def is_finished(self) -> bool:
        """True if only a current version is stored."""
        return self.current is not None and not self.announced and not self.garbage

    def announces(self, version: Version) -> bool:
        """True if a call may go on writing a version that it has announced."""
        return any(announcement.version == version for announcement in self.announced)

    def with_announcement(self, version: Version) -> Manifest:
        """This manifest with one more version that is being written."""
        return replace(self, announced=[*self.announced, Announcement(version, time.time())])

    def with_current(self, new: Manifest) -> Manifest:
        """The ``new`` manifest of a version that was announced here; the former one is garbage."""
        announced = [each for each in self.announced if each.version != new.current]
        garbage = list(self.garbage)
        if self.current is not None:
            garbage.append(self.current)
        return replace(new, announced=announced, garbage=garbage)

    def with_garbage(self, versions: Iterable[Version]) -> Manifest:
        """This manifest with some of its versions as garbage."""
        garbage = list(dict.fromkeys([*self.garbage, *versions]))
        current = None if self.current in garbage else self.current
        announced = [each for each in self.announced if each.version not in garbage]
        return replace(self, current=current, announced=announced, garbage=garbage)

    def without_garbage(self, versions: Collection[Version]) -> Manifest:
        """This manifest after some of its garbage was removed."""
        return replace(self, garbage=[each for each in self.garbage if each not in versions])

    def abandoned(self) -> list[Version]:
        """The announced versions whose calls have most likely failed, by their age."""
        latest = time.time() - ANNOUNCEMENT_LIFETIME
        return [each.version for each in self.announced if each.time < latest]

    def to_document(self) -> Document:
        """Make the record of this manifest."""
        fields = {
            **vars(self),
            "current": list(self.current) if self.current else None,
            "announced": [[list(version), time] for version, time in self.announced],
            "garbage": [list(version) for version in self.garbage],
        }
        return Document(page_content="", metadata=fields)

    @classmethod
    def from_document(cls, record: Document, key: str) -> Manifest:
        """Read a manifest's record; a CorruptRecordError if it cannot be read."""
        try:
            manifest = _MANIFEST.validate_python(record.metadata)
        except ValidationError as error:
            raise _not_a_manifest(key, problems_of(error)) from error
        if not key.endswith(manifest.key):
            raise _not_a_manifest(key, f"it is of document {manifest.doc_id!r}")
        return manifest


def _not_a_manifest(key: str, problem: str) -> CorruptRecordError:
    return CorruptRecordError(
        f"the docstore's record {key!r} is not a manifest ({problem}); delete this key and add the "
        "document again"
    )


_MANIFEST = TypeAdapter(Manifest)


# Documents


class Chunk(NamedTuple):
    """A chunk as it is written."""

    start: int  # its first character in the document's text
    end: int  # the character after its last one
    text: str  # empty for a gap
    embedded_text: str  # without `header`, but with `table_header`
    # Metadata that does not hold for the whole document: pairs of a character of the chunk and the
    # metadata from there on. The first pair is for character 0, with the metadata of the first
    # character that is not white space. Empty if there is no such metadata.
    metadata: Sequence[tuple[int, Mapping[str, Any]]] = ()
    header: str = ""  # the header embedded in front of it, with an empty line between
    table_header: str = ""  # the header row of the table that it begins in, after that row


Part = tuple[int, int, Mapping[str, Any]]
"""A part of a document: its first character, its length, and its own metadata."""


@dataclass(frozen=True, kw_only=True)
class DocumentVersion:
    """A document, ready to be written; `Manifest` describes some of the fields."""

    doc_id: str
    version: Version
    length: int
    metadata: Mapping[str, Any]
    chunks: Sequence[Chunk]  # in the order of the text; they tile it
    parts: Sequence[Part] = ()  # as they were given; empty if it is one, with `metadata`
    gaps: frozenset[int] = frozenset()  # numbers of chunks whose text is missing, if it is adopted
    rules: Mapping[str, Rule] = field(default_factory=dict)
    header: str = ""
    counts_in_source: bool = True
    adopted: Sequence[AdoptedVector] = ()  # the vectors of its chunks, if other code wrote them
    blank: str = ""  # its text, if that is only white space, which has no chunks

    @property
    def key(self) -> str:
        """The document's key in the docstore."""
        return document_key(self.doc_id)

    @property
    def text(self) -> str:
        """The text of all chunks, or white space without chunks."""
        return "".join(chunk.text for chunk in self.chunks) or self.blank

    def manifest(self, model: str) -> Manifest:
        """The manifest of the document with this version as the current one."""
        return Manifest(
            doc_id=self.doc_id,
            current=self.version,
            model=model,
            length=self.length,
            text_digest=self.text_digest,
            metadata=self.metadata,
            rules=self.rules,
            header=self.header,
            counts_in_source=self.counts_in_source,
        )

    @cached_property
    def text_digest(self) -> str:
        """Digest of the text; empty without text."""
        return digest(self.text) if self.chunks else ""

    def metadata_of(self, chunk: Chunk) -> Mapping[str, Any]:
        """The metadata at the first character of a chunk that is not white space."""
        if not chunk.metadata:
            return self.metadata
        return {**self.metadata, **chunk.metadata[0][1]}


def document_records(document: DocumentVersion) -> Iterator[tuple[str, Document]]:
    """Make the docstore records of a document, except its manifest and its description."""
    # These come first: they say what to remove if the others are not written.
    yield from _vectors_records(document)
    yield from _chunk_records(document)
    yield from _spans_records(document)
    yield from adopted_records(document)


def adopted_records(document: DocumentVersion) -> Iterator[tuple[str, Document]]:
    """Make the records that name the chunks of adopted vectors."""
    for vector in document.adopted:
        yield adopted_record(vector.id, document.doc_id, document.version.name, vector.chunk)


def description_record(document: DocumentVersion, model: str) -> tuple[str, Document]:
    """Make the record from which a lost manifest is written again, with its key.

    It has the parts as well, and is written last: with it, the version is whole.

    Args:
        document: The document.
        model: The id of the embedding model, see `Manifest.model`.
    """
    manifest = document.manifest(model).to_document()
    parts = [list(part) for part in document.parts]
    record = _record(
        manifest=manifest.metadata, parts=parts, blank=document.blank, time=time.time()
    )
    return description_key(document.key, document.version.name), record


def _vectors_records(document: DocumentVersion) -> Iterator[tuple[str, Document]]:
    """Make the pages of the ids of adopted vectors."""
    ids = [vector.id for vector in document.adopted]
    for page, key in enumerate(document.version.vectors_keys(document.key)):
        first = page * SPANS_PER_PAGE
        yield key, _record(ids=ids[first : first + SPANS_PER_PAGE])


def _chunk_records(document: DocumentVersion) -> Iterator[tuple[str, Document]]:
    """Make the records of chunks; gaps have none."""
    vectors_of: dict[int | None, list[list[str]]] = {}  # by the numbers of chunks
    for vector in document.adopted:
        vectors_of.setdefault(vector.chunk, []).append([vector.id, vector.text_digest])
    for index, chunk in enumerate(document.chunks):
        if index in document.gaps:
            continue
        metadata = _location(document.doc_id, index, chunk)
        if chunk.metadata:
            metadata[METADATA_CHANGES] = [
                [offset, dict(change)] for offset, change in chunk.metadata
            ]
        if chunk.header:
            metadata[HEADER] = chunk.header
        if chunk.table_header:
            metadata[TABLE_HEADER] = chunk.table_header
        if index in vectors_of:
            metadata[ADOPTED] = vectors_of[index]
        key = chunk_key(document.key, document.version.name, index)
        yield key, Document(page_content=chunk.text, metadata=metadata)


def _spans_records(document: DocumentVersion) -> Iterator[tuple[str, Document]]:
    """Make the pages of spans: where the chunks are cut, and which of them are gaps."""
    for page in range(document.version.pages):
        first = page * SPANS_PER_PAGE
        chunks = document.chunks[first : first + SPANS_PER_PAGE]
        cuts = [chunk.start for chunk in chunks]
        spans: dict[str, Any] = {"cuts": [*cuts, chunks[-1].end]}
        gaps = [number for number in range(len(chunks)) if first + number in document.gaps]
        if gaps:
            spans["gaps"] = gaps  # counted from the first chunk of the page
        yield spans_key(document.key, document.version.name, page), _record(**spans)


def adopted_record(
    vector: str, doc_id: str = "", version: str = "", index: int | None = None
) -> tuple[str, Document]:
    """Make the record that names the chunk of an adopted vector, if it has one, with its key."""
    fields: dict[str, Any] = {DOC_ID: None, VERSION: version}
    if index is not None:
        fields = {DOC_ID: doc_id, VERSION: version, CHUNK_INDEX: index}
    return adopted_key(vector), _record(**fields)


def _record(**metadata: Any) -> Document:  # noqa: ANN401 - any metadata
    return Document(page_content="", metadata=metadata)


def chunk_vectors(document: DocumentVersion) -> Iterator[Document]:
    """Make the Documents that the vector store gets; none if the document is adopted."""
    if document.adopted:
        return
    for index, chunk in enumerate(document.chunks):
        text = with_header(chunk.header, chunk.embedded_text)
        location = _location(document.doc_id, index, chunk)
        metadata = document.metadata_of(chunk)
        yield vector_store_document(text, metadata, location, document.version.name)


def _location(doc_id: str, index: int, chunk: Chunk) -> dict[str, Any]:
    """The `LOCATION_FIELDS` of a chunk."""
    return {DOC_ID: doc_id, CHUNK_INDEX: index, START_INDEX: chunk.start, END_INDEX: chunk.end}


_CHANGES = TypeAdapter(Annotated[list[tuple[NonNegativeInt, dict[str, Any]]], Field(min_length=1)])


def metadata_changes(record: Document, key: str) -> list[tuple[int, Mapping[str, Any]]]:
    """Metadata that changes along a chunk: pairs of a character, from 0, and the metadata there."""
    if METADATA_CHANGES not in record.metadata:  # most chunks have none, and all are asked twice
        return [(0, {})]
    stored = record.metadata[METADATA_CHANGES]
    try:
        return list(_CHANGES.validate_python(stored))
    except ValidationError as error:
        raise CorruptRecordError(
            f"the docstore's chunk {key!r} has {METADATA_CHANGES}={stored!r} in its metadata, "
            "which should be pairs of a number and a dict. Delete the document and add it again"
        ) from error


def chunk_document(record: Document, key: str, manifest: Manifest) -> Document:
    """Make a chunk's Document as in the vector store, without overlap and outer white space."""
    fields = record.metadata
    first_metadata = metadata_changes(record, key)[0][1]
    if fields.get(DOC_ID, manifest.doc_id) != manifest.doc_id:
        raise CorruptRecordError(f"the docstore's chunk {key!r} is not of {manifest.doc_id!r}")
    location = {name: fields[name] for name in LOCATION_FIELDS if name in fields}
    version = manifest.current.name if manifest.current else ""
    text = with_headers(fields.get(HEADER, ""), record, record.page_content.strip())
    return vector_store_document(text, {**manifest.metadata, **first_metadata}, location, version)
