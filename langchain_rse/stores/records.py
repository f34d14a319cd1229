"""Defines the contents of both stores: metadata fields, keys, manifests and chunk records."""

from __future__ import annotations

import hashlib
import math
import re
import time
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

import numpy as np
from langchain_core.documents import Document
from pydantic import Field, NonNegativeInt, SkipValidation, TypeAdapter, ValidationError

from langchain_rse._messages import problems_of
from langchain_rse.errors import CorruptRecordError
from langchain_rse.text.quoting import encodable

T = TypeVar("T")

Metadata = Mapping[str, Any]  # of documents, their parts, chunks and passages

# Metadata of chunks and passages.
DOC_ID = "doc_id"  # id of the document
CHUNK_INDEX = "chunk_index"  # number of the chunk in the document, from 0
START_INDEX = "start_index"  # position of the first character in the document's text
END_INDEX = "end_index"  # position after the last character
LOCATION_FIELDS = (DOC_ID, CHUNK_INDEX, START_INDEX, END_INDEX)
# Metadata of chunks in the vector store.
CHUNK_ID = "chunk_id"  # id in the vector store, for pipelines that lose ids
VERSION = "rse_version"  # version of the document
NAMESPACE = "rse_namespace"  # digest of the namespace, if any
# Fields that indexing writes. If a retrieved chunk is added again, they are dropped.
WRITTEN = frozenset({*LOCATION_FIELDS, CHUNK_ID, VERSION, NAMESPACE})
# Metadata of chunk records in the docstore.
METADATA_CHANGES = "metadata_changes"  # `Chunk.metadata`, if not empty
HEADER = "header"  # the header embedded with the chunk, if any
TABLE_HEADER = "table_header"  # `Chunk.table_header`, if any
ADOPTED = "adopted"  # if other code wrote its vectors: pairs of an id and a text's digest
# Metadata of passages: the passage's value. Metadata of reranked documents: the reranker's score.
RELEVANCE_SCORE = "relevance_score"
# Metadata of passages: a dict with their chunks and scores.
PASSAGE = "rse"
COUNTS_IN_SOURCE = "counts_in_source"  # in that dict, if `Manifest.counts_in_source` is False

Rule = Literal["range", "first", "last", "all", "same", "drop"]
"""How a passage shows a metadata field that changes along a document; see `RSEIndexer`."""

DEFAULT_RULES: Mapping[str, Rule] = {"page": "range", "page_label": "range"}
"""Fields with a default rule, which applies even if the field is constant in the document."""

ANNOUNCEMENT_LIFETIME = 3600.0
"""Seconds after which an announced version that is not current counts as garbage.

A call that is still writing the version notices and starts again."""

# Far above any real document. Without a limit, a forged record could keep a reader busy forever.
_Count = Annotated[int, Field(ge=0, le=10_000_000, strict=True)]
_Length = Annotated[int, Field(ge=0, le=10**12, strict=True)]

# Characters allowed in keys.
_KeyPart = Annotated[str, Field(pattern="^[0-9A-Za-z_.-]+$", strict=True)]

# The separator between content digest and write id in a version's name. The write id begins with
# digits of the embedding model's id, if that is known.
_WRITE = "."
_MODEL_DIGITS = 8
_WRITE_DIGITS = 16

# Names of metadata that Chroma refuses.
_RESERVED_NAME = re.compile(r"[$#]|(chroma:document)?\Z")

_VECTOR_NAMESPACE = uuid.UUID("4b1f2f1e-6d1c-5a44-9a31-2f6d9f7c5e10")


# Keys of the docstore. Argument ``key`` is a `document_key`, ``version`` the name of a version.

NAMESPACES = "namespaces"
"""The key of a record that exists only if the documents are in namespaces."""

FLOORS = "floors"
"""The key of the record with the score floors from `fit_score_floor`."""


def manifest_key(key: str) -> str:
    """Return the key of a document's manifest."""
    return f"manifest/{key}"


def answers_key(key: str) -> str:
    """Return the key of a language model's answers about a document."""
    return f"answers/{key}"


def chunk_key(key: str, version: str, index: int) -> str:
    """Return the key of a chunk."""
    return f"{key}/{version}/{index}"


def description_key(key: str, version: str) -> str:
    """Return the key of a version's `VersionDescription`."""
    return f"{key}/{version}/document"


def adopted_key(vector: str) -> str:
    """Return the key of the record of an adopted vector, given the vector's id."""
    return f"adopted/{digest(vector)}"


@lru_cache(1024)
def document_key(doc_id: str) -> str:
    """Return the part of docstore keys that identifies a document."""
    return digest(doc_id)


def digest(*parts: str) -> str:
    """Compute a digest of strings: 32 hexadecimal digits, a valid key in every store."""
    state = hashlib.blake2b(digest_size=16)
    for part in parts:
        encoded = part.encode("utf-8", "surrogatepass")
        state.update(b"%d:" % len(encoded))  # ("ab", "c") is not ("a", "bc")
        state.update(encoded)
    return state.hexdigest()


def namespace_in(metadata: Metadata) -> str:
    """Return the digest of a chunk's namespace, from its metadata; empty without namespace."""
    version = metadata.get(VERSION)
    if version is None:  # an adopted chunk, written by other code
        return str(metadata.get(NAMESPACE, ""))
    return str(version).rpartition("-")[0]


def vector_id(key: str, version: str, index: int) -> str:
    """Return a chunk's id in the vector store: a UUID, the only form that all stores accept."""
    name = chunk_key(key, version, index).encode()
    hashed = hashlib.sha1(_VECTOR_NAMESPACE.bytes + name, usedforsecurity=False).hexdigest()
    variant = "89ab"[int(hashed[16], 16) % 4]
    # Faster than `uuid.uuid5`, and each query makes many ids.
    return f"{hashed[:8]}-{hashed[8:12]}-5{hashed[13:16]}-{variant}{hashed[17:20]}-{hashed[20:32]}"


# Text and metadata


def with_header(header: str, text: str) -> str:
    """Put a header and an empty line in front of a text, if there is a header."""
    return f"{header}\n\n{text}" if header else text


def with_table_header(header: str, text: str) -> str:
    """Put a table's header row above later rows, if there is a header row."""
    return f"{header}\n{text}" if header else text


def table_header_of(record: Document | None) -> str:
    """Return the header row to show above a chunk, from its record; empty without one."""
    return "" if record is None else str(record.metadata.get(TABLE_HEADER, ""))


def with_headers(header: str, record: Document | None, text: str) -> str:
    """Put the document's header and a table's header row above a passage's text.

    Args:
        header: The header of the document.
        record: The record of the passage's first chunk, which may begin inside a table.
        text: The passage's text.
    """
    return with_header(header, with_table_header(table_header_of(record), text))


def simple_metadata(metadata: Metadata) -> dict[str, Any]:
    """Keep values that vector stores support: strings, numbers, booleans, and lists of these.

    A list must not be empty, and its values must have the same type. Not every store supports
    lists; see `VectorStoreAdapter.takes_lists`.
    """
    simple: dict[str, Any] = {}
    for name, value in metadata.items():
        simple_value: Any = _simple(value)
        if isinstance(value, list):
            items = [_simple(item) for item in value]
            is_uniform = len(set(map(type, items))) == 1 and None not in items
            simple_value = items if is_uniform else None
        if simple_value is not None and not _RESERVED_NAME.match(name):
            simple[encodable(name)] = simple_value
    return simple


def _simple(value: object) -> str | int | float | bool | None:
    """Convert a value to one that every vector store supports; None if that is impossible."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, int):  # booleans too
        return value if abs(value) < 2**63 else None
    if isinstance(value, float):
        return value if math.isfinite(value) else None  # JSON in PostgreSQL has no NaN
    return None


def vector_store_document(
    text: str, metadata: Metadata, location: Metadata, version: str
) -> Document:
    """Make the Document of a chunk in the vector store.

    Args:
        text: The embedded text.
        metadata: The `simple_metadata` of the document and of the chunk's beginning.
        location: The `LOCATION_FIELDS`.
        version: The name of the document's version.
    """
    fields = {**metadata, **location, VERSION: version}
    namespace = version.rpartition("-")[0]
    if namespace:
        fields[NAMESPACE] = namespace
    fields[CHUNK_ID] = vector_id(document_key(location[DOC_ID]), version, location[CHUNK_INDEX])
    return Document(encodable(text), id=fields[CHUNK_ID], metadata=fields)


# Manifests


def content_name(version: str) -> str:
    """Return a version's name without the write id; it is equal for equal contents."""
    return version.partition(_WRITE)[0]


class Version(NamedTuple):
    """A version of a document, as stored by one write.

    Each write uses a unique name for its keys and vectors. So a call that removes a version by
    name can never remove data of another write, however long it was suspended.
    """

    # Digest of the text and of everything that shapes its chunks. A written version's name also has
    # the id of the write.
    name: _KeyPart
    chunks: _Count  # number of chunks
    adopted: _Count = 0  # number of vectors written by other code; 0 if this package wrote them

    def has_content_of(self, other: Version | None) -> bool:
        """True if both versions have the same text and chunks, even from different writes."""
        if other is None:
            return False
        has_same_content = content_name(self.name) == content_name(other.name)
        return has_same_content and self._replace(name=other.name) == other

    def is_of_model(self, model: str) -> bool:
        """True unless the vectors of this version are known to come from another model."""
        written_model = self.name.partition(_WRITE)[2][:-_WRITE_DIGITS]
        return not written_model or not model or written_model == model[:_MODEL_DIGITS]

    def docstore_keys(self, key: str) -> Iterator[str]:
        """Yield all docstore keys of this version, except the keys of adopted vectors."""
        for index in range(self.chunks):
            yield chunk_key(key, self.name, index)
        yield description_key(key, self.name)

    def vector_ids(self, key: str) -> Iterator[str]:
        """Yield the ids of this version's vectors; none if it is adopted."""
        if self.adopted:
            return
        for index in range(self.chunks):
            yield vector_id(key, self.name, index)


@dataclass(frozen=True)
class Manifest:
    """The record of a document in the docstore: its versions, its length and its metadata.

    A version is announced, then current, then garbage. If the manifest does not list a version,
    only the call that announced it may write or remove its records and vectors.
    """

    doc_id: str
    current: Version | None = None  # the version that queries see
    # Being written, since a time in seconds since 1970; may be stored in part.
    announced: tuple[tuple[Version, float], ...] = ()
    garbage: tuple[Version, ...] = ()  # being removed; may be stored in part
    # Changes with every write of the manifest, to detect concurrent changes.
    revision: str = field(default_factory=lambda: uuid.uuid4().hex)
    model: str = ""  # id of the embedding model, see `langchain_rse.stores.pairing`; may be empty
    length: _Length = 0  # length of the current text, in characters
    # Starts of the current chunks, which tile the text. There may be 100,000 of them, so they are
    # checked as an array where they are used.
    starts: SkipValidation[Sequence[int]] = ()
    gaps: tuple[_Count, ...] = ()  # numbers of the current chunks without text, ascending
    blank: str = ""  # the current text if it is white space, which has no chunks
    text_digest: str = ""  # digest of the current text; empty without text
    metadata: Metadata = field(default_factory=dict)  # of the whole document
    # Rules of metadata fields; other fields follow the default rules.
    rules: Mapping[str, Rule] = field(default_factory=dict)
    header: str = ""  # shown above passages with ``include_header``; may be empty
    # False if positions refer to text joined from chunks, or to an excerpt, not to the source.
    counts_in_source: bool = True
    # True if `check` found unreadable text. Adding the same document again then writes it again.
    is_damaged: bool = False

    @property
    def key(self) -> str:
        """The document's key in the docstore."""
        return document_key(self.doc_id)

    @property
    def version(self) -> str:
        """Name of the current version; empty without one."""
        return self.current.name if self.current else ""

    @property
    def chunk_count(self) -> int:
        """Number of chunks of the current version; 0 without one."""
        return self.current.chunks if self.current else 0

    @property
    def versions(self) -> list[Version]:
        """All versions that may have records or vectors in the stores."""
        announced = [version for version, _ in self.announced]
        versions = [self.current, *announced, *self.garbage]
        return [version for version in versions if version is not None]

    def announces(self, version: Version) -> bool:
        """True if a version is still announced, so that its call may go on writing."""
        return any(announced == version for announced, _ in self.announced)

    def with_announcement(self, version: Version) -> Manifest:
        """Return this manifest with one more announced version."""
        return replace(self, announced=(*self.announced, (version, time.time())))

    def with_current(self, new: Manifest) -> Manifest:
        """Return the ``new`` manifest of an announced version; the former one becomes garbage."""
        announced = tuple(each for each in self.announced if each[0] != new.current)
        garbage = self.garbage
        if self.current is not None:
            garbage = (*garbage, self.current)
        return replace(new, announced=announced, garbage=garbage)

    def with_garbage(self, versions: Iterable[Version]) -> Manifest:
        """Return this manifest with some versions turned into garbage."""
        garbage = tuple(dict.fromkeys([*self.garbage, *versions]))
        current = None if self.current in garbage else self.current
        announced = tuple(each for each in self.announced if each[0] not in garbage)
        return replace(self, current=current, announced=announced, garbage=garbage)

    def without_garbage(self, versions: Collection[Version]) -> Manifest:
        """Return this manifest without garbage that was removed."""
        return replace(self, garbage=tuple(each for each in self.garbage if each not in versions))

    def abandoned(self) -> list[Version]:
        """Return announced versions so old that their calls have probably failed."""
        latest = time.time() - ANNOUNCEMENT_LIFETIME
        return [version for version, start in self.announced if start < latest]

    def as_in_vector_store(self) -> Manifest:
        """Return this manifest with the `simple_metadata` that all chunks share."""
        return replace(self, metadata=simple_metadata(self.metadata))

    def to_document(self) -> Document:
        """Make the record of this manifest."""
        return _record(vars(self))

    @classmethod
    def from_document(cls, record: Document, key: str) -> Manifest:
        """Parse a manifest's record; raise a CorruptRecordError if it is corrupt."""
        manifest = _parsed(_MANIFEST, record.metadata, key)
        if not key.endswith(manifest.key):
            raise unusable(key, f"it belongs to document {manifest.doc_id!r}")
        return manifest


def _record(fields: Metadata) -> Document:
    """Make a record without text."""
    return Document("", metadata={name: _as_lists(value) for name, value in fields.items()})


def _as_lists(value: object) -> object:
    """Turn tuples into lists, because JSON has no tuples."""
    if not isinstance(value, (list, tuple)):
        return value
    return [_as_lists(item) if isinstance(item, (list, tuple)) else item for item in value]


def _parsed(adapter: TypeAdapter[T], value: object, key: str) -> T:
    """Parse a value from a record's metadata; raise a CorruptRecordError if that is impossible."""
    try:
        return adapter.validate_python(value)
    except ValidationError as error:
        raise unusable(key, problems_of(error)) from error


def unusable(key: str, problem: str) -> CorruptRecordError:
    """Make the error for a record whose contents are wrong."""
    return CorruptRecordError(
        f"the docstore's record {key!r} is unusable ({problem}). Delete the document and add it "
        "again"
    )


_MANIFEST = TypeAdapter(Manifest)


# Documents


class AdoptedVector(NamedTuple):
    """A vector that other code wrote."""

    id: str
    text_digest: str  # digest of the whole text in the vector store, overlap included
    chunk: int | None  # number of its chunk; None if the vector is excluded


class Chunk(NamedTuple):
    """A chunk, ready to be written."""

    start: int  # position of its first character in the document's text
    end: int  # position after its last character
    text: str  # empty for a gap
    embedded_text: str  # without `header`, but with `table_header`
    # Metadata that changes along the document: pairs of a position in the chunk and the metadata
    # from there on. The first pair is at position 0 and has the metadata of the first character
    # that is not white space. Empty if no metadata changes.
    metadata: Sequence[tuple[int, Metadata]] = ()
    header: str = ""  # embedded in front of the chunk, followed by an empty line
    table_header: str = ""  # header row of a table that began in an earlier chunk


Part = tuple[NonNegativeInt, NonNegativeInt, Metadata]
"""A part of a document: its start, its length, and its metadata."""


@dataclass(frozen=True, kw_only=True)
class DocumentVersion:
    """A version of a document, ready to be written."""

    manifest: Manifest  # as it becomes current
    chunks: Sequence[Chunk]  # in text order; they tile the text
    parts: Sequence[Part] = ()  # as added; empty for a single part with the document's metadata
    adopted: Sequence[AdoptedVector] = ()  # its vectors, if other code wrote them

    @property
    def doc_id(self) -> str:
        """The document's id."""
        return self.manifest.doc_id

    @property
    def key(self) -> str:
        """The document's key in the docstore."""
        return self.manifest.key

    @property
    def version(self) -> Version:
        """The name and size of this version."""
        return self.manifest.current or Version("", 0)

    @property
    def text(self) -> str:
        """The text of all chunks, or of a document without chunks."""
        return "".join(chunk.text for chunk in self.chunks) or self.manifest.blank

    def in_new_write(self, model: str) -> DocumentVersion:
        """Return this version under the name of a new write, with vectors of a model."""
        write = f"{model[:_MODEL_DIGITS]}{uuid.uuid4().hex[:_WRITE_DIGITS]}"
        name = f"{content_name(self.version.name)}{_WRITE}{write}"
        manifest = replace(
            self.manifest,
            current=self.version._replace(name=name),
            model=model,
            announced=(),
            garbage=(),
            is_damaged=False,
        )
        return replace(self, manifest=manifest)

    def metadata_of(self, chunk: Chunk) -> Metadata:
        """Return the metadata at a chunk's first character that is not white space."""
        if not chunk.metadata:
            return self.manifest.metadata
        return {**self.manifest.metadata, **chunk.metadata[0][1]}


@dataclass(frozen=True)
class VersionDescription:
    """What a version keeps beside its chunks.

    A lost manifest is written anew from it. It is written after all chunks, and so marks a version
    as complete.
    """

    manifest: Manifest  # as it becomes current
    parts: Sequence[Part] = ()  # see `DocumentVersion.parts`
    vectors: Sequence[str] = ()  # ids of its vectors, if other code wrote them
    time: float = 0  # when it was written, in seconds since 1970

    @classmethod
    def from_document(cls, record: Document, key: str) -> VersionDescription:
        """Parse the record of a key; raise a CorruptRecordError if it is corrupt."""
        description = _parsed(_DESCRIPTION, record.metadata, key)
        if key != description_key(description.manifest.key, description.manifest.version):
            raise unusable(key, "it belongs to another version")
        return description


_DESCRIPTION = TypeAdapter(VersionDescription)


def description_record(document: DocumentVersion) -> tuple[str, Document]:
    """Make the record of a version's `VersionDescription`; return it with its key."""
    fields = {
        "manifest": document.manifest.to_document().metadata,
        "parts": document.parts,
        "vectors": [vector.id for vector in document.adopted],
        "time": time.time(),
    }
    return description_key(document.key, document.version.name), _record(fields)


def adopted_records(document: DocumentVersion) -> Iterator[tuple[str, Document]]:
    """Make the records that name the chunks of adopted vectors."""
    for vector in document.adopted:
        yield adopted_record(vector.id, document.doc_id, document.version.name, vector.chunk)


def chunk_records(document: DocumentVersion) -> Iterator[tuple[str, Document]]:
    """Make the records of chunks; gaps have none."""
    vectors_of: dict[int | None, list[list[str]]] = {}  # by the numbers of chunks
    for vector in document.adopted:
        vectors_of.setdefault(vector.chunk, []).append([vector.id, vector.text_digest])
    for index, chunk in enumerate(document.chunks):
        if not chunk.text:
            continue
        metadata = _location(document.doc_id, index, chunk)
        if chunk.metadata:
            metadata[METADATA_CHANGES] = [list(change) for change in chunk.metadata]
        if chunk.header:
            metadata[HEADER] = chunk.header
        if chunk.table_header:
            metadata[TABLE_HEADER] = chunk.table_header
        if index in vectors_of:
            metadata[ADOPTED] = vectors_of[index]
        key = chunk_key(document.key, document.version.name, index)
        yield key, Document(chunk.text, metadata=metadata)


def adopted_record(
    vector: str, doc_id: str = "", version: str = "", index: int | None = None
) -> tuple[str, Document]:
    """Make the record that names an adopted vector's chunk, if any; return it with its key."""
    owner = None if index is None else doc_id
    return adopted_key(vector), _record({DOC_ID: owner, VERSION: version, CHUNK_INDEX: index})


def chunk_vectors(document: DocumentVersion) -> Iterator[Document]:
    """Make the Documents for the vector store; none if the document is adopted."""
    if document.adopted:
        return
    shared_metadata = simple_metadata(document.manifest.metadata)
    for index, chunk in enumerate(document.chunks):
        text = with_header(chunk.header, chunk.embedded_text)
        location = _location(document.doc_id, index, chunk)
        metadata = dict(shared_metadata)
        if chunk.metadata:
            metadata |= simple_metadata(chunk.metadata[0][1])
        yield vector_store_document(text, metadata, location, document.version.name)


def _location(doc_id: str, index: int, chunk: Chunk) -> dict[str, Any]:
    """Return the `LOCATION_FIELDS` of a chunk."""
    return {DOC_ID: doc_id, CHUNK_INDEX: index, START_INDEX: chunk.start, END_INDEX: chunk.end}


_CHANGES = TypeAdapter(Annotated[list[tuple[NonNegativeInt, dict[str, Any]]], Field(min_length=1)])


def metadata_changes(record: Document, key: str) -> list[tuple[int, dict[str, Any]]]:
    """Return the metadata along a chunk: pairs of a position, from 0, and the metadata there."""
    if METADATA_CHANGES not in record.metadata:  # the common case, checked first for speed
        return [(0, {})]
    return _parsed(_CHANGES, record.metadata[METADATA_CHANGES], key)


_VECTORS = TypeAdapter(list[tuple[str, str]])


def adopted_vectors(record: Document, key: str) -> Mapping[str, str]:
    """Return the text digests of a chunk's adopted vectors, by vector id."""
    pairs = _parsed(_VECTORS, record.metadata.get(ADOPTED, []), key)
    return dict(pairs)


def chunk_document(record: Document, key: str, manifest: Manifest) -> Document:
    """Make a chunk's Document like in the vector store, without overlap and outer white space.

    The manifest is `Manifest.as_in_vector_store`, made once for all chunks of a document.
    """
    fields = record.metadata
    first_metadata = simple_metadata(metadata_changes(record, key)[0][1])
    metadata = {**manifest.metadata, **first_metadata}
    location = {name: fields.get(name) for name in LOCATION_FIELDS}
    if location[DOC_ID] != manifest.doc_id or None in location.values():
        raise unusable(key, f"it is no chunk of document {manifest.doc_id!r}")
    header = fields.get(HEADER, "")
    text = with_headers(header, record, record.page_content.strip())
    return vector_store_document(text, metadata, location, manifest.version)
