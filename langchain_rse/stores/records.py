"""Defines what the two stores contain: metadata fields, keys, manifests and records of chunks."""

from __future__ import annotations

import hashlib
import itertools
import math
import os
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from langchain_core.documents import Document
from pydantic import Field, NonNegativeInt, TypeAdapter, ValidationError

from langchain_rse._messages import problems_of
from langchain_rse.errors import CorruptRecordError, FormatError
from langchain_rse.stores.json import encode_json

# Metadata of chunks and segments.
DOC_ID = "doc_id"  # the document
CHUNK_INDEX = "chunk_index"  # the chunk's number in the document, from 0
START_INDEX = "start_index"  # the first character in the document's text
END_INDEX = "end_index"  # the character after the last one
PLACE = (DOC_ID, CHUNK_INDEX, START_INDEX, END_INDEX)
# Metadata of chunks in the vector store.
CHUNK_ID = "chunk_id"  # the id in the vector store, for pipelines that lose ids
VERSION = "rse_version"  # the version of the document
NAMESPACE = "rse_namespace"  # digest of the document's namespace, if it has one
# Fields that indexing writes: those of a retrieved chunk do not hold for a new document.
WRITTEN = frozenset({*PLACE, CHUNK_ID, VERSION, NAMESPACE})
# Metadata of chunks' records in the docstore.
PLACES = "places"  # `Chunk.metadata`, if there is any
HEADER = "header"  # the header that was embedded in front, if there is one
# Metadata of segments: their value. Of reranked documents: the reranker's score.
RELEVANCE_SCORE = "relevance_score"
# Metadata of segments: a dict of their chunks and the scores of these.
SEGMENT = "rse"
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

UNENCODABLE = re.compile("[\x00\ud800-\udfff]")
"""Characters that some database or model cannot take: NUL and lone surrogates."""

# Names of metadata that Chroma refuses.
_RESERVED = re.compile(r"[$#]|(chroma:document)?\Z")

# The format of the records. A docstore with another number has to be built again.
_FORMAT = 5

# Far above any document; without a limit, a forged record would keep a reader busy forever.
_Count = Annotated[int, Field(ge=0, le=10_000_000, strict=True)]
_Length = Annotated[int, Field(ge=0, le=10**12, strict=True)]

_VECTOR_NAMESPACE = uuid.UUID("4b1f2f1e-6d1c-5a44-9a31-2f6d9f7c5e10")


# Keys

# The comments name the arguments: ``key`` is a `document_key`, ``version`` a version's name.
manifest_key = "manifest/{}".format  # key
answers_key = "answers/{}".format  # key, for a language model's answers about the document
text_key = "texts/{}".format  # digest of a text, for the document that has it
chunk_key = "{}/{}/{}".format  # key, version, number of the chunk
spans_key = "{}/{}/spans/{}".format  # key, version, page of spans
parts_key = "{}/{}/parts".format  # key, version, for the parts that the document was given in
_vectors_key = "{}/{}/vectors/{}".format  # key, version, page of ids of adopted vectors

NAMESPACES = "namespaces"
"""The docstore key of a record that is there if the documents are in namespaces."""


def digest(*parts: str) -> str:
    """Compute a digest of strings: 32 hexadecimal digits, which every store accepts as a key."""
    state = hashlib.blake2b(digest_size=16)
    for part in parts:
        encoded = part.encode("utf-8", "surrogatepass")
        state.update(b"%d:" % len(encoded))  # ("ab", "c") is not ("a", "bc")
        state.update(encoded)
    return state.hexdigest()


@lru_cache(1024)
def document_key(doc_id: str) -> str:
    """The part of a document's docstore keys that identifies the document."""
    return digest(doc_id)


def adopted_key(vector: str) -> str:
    """The docstore key of the record about an adopted vector; ``vector`` is its id."""
    return f"adopted/{digest(vector)}"


def version_name(namespace: str, *parts: str) -> str:
    """The name of a version: a digest of its parts, after its namespace's digest if it has one."""
    return f"{namespace}-{digest(*parts)}" if namespace else digest(*parts)


def namespace_in(metadata: Mapping[str, Any]) -> str:
    """The digest of a chunk's namespace, by its metadata in the vector store; empty for none."""
    version = metadata.get(VERSION)
    if version is None:  # written by other code, and adopted
        return str(metadata.get(NAMESPACE, ""))
    return str(version).rpartition("-")[0]


def vector_id(key: str, version: str, index: int) -> str:
    """The id of a chunk in the vector store: a UUID, the one form that all stores accept."""
    return str(uuid.uuid5(_VECTOR_NAMESPACE, chunk_key(key, version, index)))


def vector_of(document: Document) -> str | None:
    """The id of a Document that came from the vector store; None if it has none."""
    # Searches in Qdrant and Milvus return it as metadata.
    ids = (document.id, document.metadata.get("_id"), document.metadata.get("pk"))
    return next((str(vector) for vector in ids if vector is not None), None)


# Text and metadata


def encodable(text: str) -> str:
    """Replace characters that databases or models cannot take (`UNENCODABLE`) by U+FFFD."""
    return UNENCODABLE.sub("\ufffd", text)


def with_header(header: str, text: str) -> str:
    """Put a header in front of a text, with an empty line between; no line without a header."""
    return f"{header}\n\n{text}" if header else text


def simple_metadata(metadata: Mapping[str, Any]) -> dict[str, str | int | float | bool]:
    """Keep values that every vector store takes: encodable strings, 64-bit numbers, booleans."""
    simple: dict[str, Any] = {}
    for name, value in metadata.items():
        plain = value.item() if isinstance(value, np.generic) else value
        if isinstance(plain, (str, os.PathLike)):
            plain = encodable(os.fspath(plain))
        known = (
            isinstance(plain, str)
            or (isinstance(plain, int) and abs(plain) < 2**63)
            or (isinstance(plain, float) and math.isfinite(plain))  # PostgreSQL's JSON has no NaN
        )
        if known and not _RESERVED.match(name):
            simple[encodable(name)] = plain
    return simple


def in_vector_store(
    text: str, metadata: Mapping[str, Any], place: Mapping[str, Any], version: str
) -> Document:
    """Make the Document of a chunk in the vector store; a damaged one may lack names of `PLACE`."""
    found = {**simple_metadata(metadata), **place, VERSION: version}
    if namespace := namespace_in(found):
        found[NAMESPACE] = namespace
    if DOC_ID in place and CHUNK_INDEX in place:
        found[CHUNK_ID] = vector_id(document_key(place[DOC_ID]), version, place[CHUNK_INDEX])
    return Document(encodable(text), id=found.get(CHUNK_ID), metadata=found)


def judgment_of(metadata: Mapping[str, Any]) -> dict[str, bool | str | None]:
    """A relevance filter's judgment in the metadata of a document; empty if none judged it."""
    names = (IS_RELEVANT, RELEVANCE_EXPLANATION, RELEVANCE_FAILURE)
    found = {name: metadata[name] for name in names if name in metadata}
    plain = all(value is None or isinstance(value, (bool, str)) for value in found.values())
    return found if plain and found.keys() >= {*names[:2]} else {}


# Manifests


class Version(NamedTuple):
    """A version of a document."""

    name: str  # digest of the text and of everything that shapes its chunks
    chunks: _Count  # number of chunks
    adopted: _Count = 0  # number of vectors added by other code; 0 if this package added them

    @property
    def pages(self) -> int:
        """Number of pages of spans."""
        return _pages(self.chunks)

    def docstore_keys(self, key: str) -> Iterator[str]:
        """All keys of this version in the docstore, except those of adopted vectors."""
        yield from (chunk_key(key, self.name, index) for index in range(self.chunks))
        yield from (spans_key(key, self.name, page) for page in range(self.pages))
        yield parts_key(key, self.name)
        yield from self.vectors_keys(key)

    def vectors_keys(self, key: str) -> Iterator[str]:
        """The keys of the pages of ids of adopted vectors."""
        return (_vectors_key(key, self.name, page) for page in range(_pages(self.adopted)))

    def vector_ids(self, key: str) -> Iterator[str]:
        """The ids of this version in the vector store, except those of adopted vectors."""
        count = 0 if self.adopted else self.chunks
        return (vector_id(key, self.name, index) for index in range(count))


def _pages(items: int) -> int:
    return -(-items // SPANS_PER_PAGE)


@dataclass(frozen=True)
class Manifest:
    """The record of a document in the docstore: its versions, metadata and owner."""

    doc_id: str
    current: Version | None = None  # the one queries see; None before the first, and in deletion
    unfinished: Sequence[Version] = ()  # being written or removed: any part may be stored
    # Token of the call that is writing or deleting the document, see
    # `langchain_rse.ingest.ownership`; empty if none is.
    owner: str = ""
    # A new one each time the manifest is written, by which changes are noticed.
    revision: str = field(default_factory=lambda: uuid.uuid4().hex)
    model: str = ""  # id of the embedding model, see `langchain_rse.stores.pairing`; may be empty
    length: _Length = 0  # characters of the current version's text
    text_digest: str = ""  # of that text, to find equal texts; empty without text
    metadata: Mapping[str, Any] = field(default_factory=dict)  # of the whole document
    # Rules of some metadata fields; the others follow the default rules.
    rules: Mapping[str, Rule] = field(default_factory=dict)
    header: str = ""  # put above segments with ``include_header``; may be empty

    @property
    def key(self) -> str:
        """The document's key in the docstore."""
        return document_key(self.doc_id)

    @property
    def versions(self) -> list[Version]:
        """All versions that may have records or vectors in the stores."""
        current = [self.current] if self.current else []
        return list(dict.fromkeys([*current, *self.unfinished]))

    def to_document(self) -> Document:
        """Make the record of this manifest."""
        fields = {
            **vars(self),
            "current": self.current and list(self.current),
            "unfinished": [list(version) for version in self.unfinished],
            "format": _FORMAT,
        }
        return Document(page_content="", metadata=fields)

    @classmethod
    def from_document(cls, record: Document, key: str) -> Manifest:
        """Read a manifest's record; CorruptRecordError or FormatError if it cannot be read."""
        fields = record.metadata
        if "doc_id" in fields and fields.get("format") != _FORMAT:
            raise FormatError(
                f"the docstore's record {key!r} was written by another version of langchain-rse; "
                "index the documents again, into a new docstore and a new collection"
            )
        try:
            manifest = _MANIFESTS.validate_python(fields)
            problem = "" if key.endswith(manifest.key) else f"it is of document {manifest.doc_id!r}"
        except ValidationError as error:
            problem = problems_of(error)
        if problem:
            raise CorruptRecordError(
                f"the docstore's record {key!r} is not a manifest ({problem}); delete this key and "
                "add the document again"
            )
        return manifest


_MANIFESTS = TypeAdapter(Manifest)


# Documents


class Chunk(NamedTuple):
    """A chunk as it is written."""

    start: int  # its first character in the document's text
    end: int  # the character after its last one
    text: str  # empty for a gap
    embedded_text: str  # without the header
    # Metadata that does not hold for the whole document: pairs of a character of the chunk and the
    # metadata from there on. The first pair is for character 0, with the metadata of the first
    # character that is not white space. Empty if there is no such metadata.
    metadata: Sequence[tuple[int, Mapping[str, Any]]] = ()
    header: str = ""  # the header embedded in front of it, with an empty line between


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
    # If it is adopted: the id of each vector in the store, and the number of its chunk, None if the
    # vector was left out.
    adopted: Sequence[tuple[str, int | None]] = ()

    @property
    def key(self) -> str:
        """The document's key in the docstore."""
        return document_key(self.doc_id)

    @property
    def text(self) -> str:
        """The text of all chunks."""
        return "".join(chunk.text for chunk in self.chunks)

    @cached_property
    def text_digest(self) -> str:
        """Digest of the text; empty without text."""
        return digest(self.text) if self.chunks else ""

    def metadata_of(self, chunk: Chunk) -> Mapping[str, Any]:
        """The metadata at the first character of a chunk that is not white space."""
        return {**self.metadata, **(chunk.metadata[0][1] if chunk.metadata else {})}


def document_records(document: DocumentVersion) -> Iterator[tuple[str, Document]]:
    """Make the docstore records of a document, except its manifest, with their keys."""
    key, name, chunks = document.key, document.version.name, document.chunks
    # These come first: they say what to remove if the rest is not written.
    vectors = [vector for vector, _ in document.adopted]
    for page, place in enumerate(document.version.vectors_keys(key)):
        yield place, _record(ids=vectors[page * SPANS_PER_PAGE :][:SPANS_PER_PAGE])
    for index, chunk in enumerate(chunks):
        if index not in document.gaps:
            metadata = _place(document.doc_id, index, chunk)
            if chunk.metadata:
                metadata[PLACES] = [[offset, dict(here)] for offset, here in chunk.metadata]
            if chunk.header:
                metadata[HEADER] = chunk.header
            yield chunk_key(key, name, index), Document(page_content=chunk.text, metadata=metadata)
    for page in range(document.version.pages):
        first = page * SPANS_PER_PAGE
        some = chunks[first : first + SPANS_PER_PAGE]
        spans: dict[str, Any] = {"cuts": [*(chunk.start for chunk in some), some[-1].end]}
        if gaps := [number for number in range(len(some)) if first + number in document.gaps]:
            spans["gaps"] = gaps
        yield spans_key(key, name, page), _record(**spans)
    if document.parts:
        yield parts_key(key, name), _record(parts=[list(part) for part in document.parts])
    for vector, number in document.adopted:
        yield adopted_record(vector, document.doc_id, name, number)


def adopted_record(
    vector: str, doc_id: str = "", version: str = "", index: int | None = None
) -> tuple[str, Document]:
    """Make the record that names the chunk of an adopted vector, if it has one, with its key."""
    metadata = {DOC_ID: doc_id, VERSION: version, CHUNK_INDEX: index}
    return adopted_key(vector), _record(**(metadata if index is not None else {DOC_ID: None}))


def _record(**metadata: Any) -> Document:  # noqa: ANN401 - any metadata
    return Document(page_content="", metadata=metadata)


def chunk_vectors(document: DocumentVersion) -> Iterator[Document]:
    """Make the Documents that the vector store gets; none if the document is adopted."""
    for index, chunk in enumerate(() if document.adopted else document.chunks):
        text = with_header(chunk.header, chunk.embedded_text)
        place = _place(document.doc_id, index, chunk)
        yield in_vector_store(text, document.metadata_of(chunk), place, document.version.name)


def _place(doc_id: str, index: int, chunk: Chunk) -> dict[str, Any]:
    return {DOC_ID: doc_id, CHUNK_INDEX: index, START_INDEX: chunk.start, END_INDEX: chunk.end}


# Metadata that changes along a document

_PLACES = TypeAdapter(Annotated[list[tuple[NonNegativeInt, dict[str, Any]]], Field(min_length=1)])


def segment_metadata(
    shared: Mapping[str, Any], rules: Mapping[str, Rule], places: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Make the metadata of a segment from that of its document and its chunks.

    Fields with a rule follow it whether or not they change along this document; others follow
    ``"range"`` if they change. ``places`` has the metadata along the segment, in the order of its
    text, without that ``shared`` by the whole document.
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
            # Compared as JSON, since arrays, for example, cannot be compared.
            found[name] = list({encode_json(value, name): value for value in values}.values())
        elif rule == "range":
            found |= {f"{name}_start": first[name]} if name in first else {}
            found |= {f"{name}_end": last[name]} if name in last else {}
        else:
            place = last if rule == "last" else first
            found |= {name: place[name]} if name in place else {}
    return found


def metadata_changes(record: Document, key: str) -> list[tuple[int, Mapping[str, Any]]]:
    """Metadata that changes along a chunk: pairs of a character, from 0, and the metadata there."""
    if PLACES not in record.metadata:  # true for most; queries ask twice for each returned chunk
        return [(0, {})]
    places = record.metadata[PLACES]
    try:
        return list(_PLACES.validate_python(places))
    except ValidationError as error:
        raise CorruptRecordError(
            f"the docstore's chunk {key!r} has {PLACES}={places!r} in its metadata, which should "
            "be pairs of a number and a dict. Delete the document and add it again"
        ) from error


def chunk_document(record: Document, key: str, manifest: Manifest) -> Document:
    """Make a chunk's Document as in the vector store, without overlap and outer white space."""
    own = metadata_changes(record, key)[0][1]
    if record.metadata.get(DOC_ID, manifest.doc_id) != manifest.doc_id:
        raise CorruptRecordError(f"the docstore's chunk {key!r} is not of {manifest.doc_id!r}")
    place = {name: record.metadata[name] for name in PLACE if name in record.metadata}
    version = manifest.current.name if manifest.current else ""
    text = with_header(record.metadata.get(HEADER, ""), record.page_content.strip())
    return in_vector_store(text, {**manifest.metadata, **own}, place, version)
