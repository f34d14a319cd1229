"""Names and records that the two stores share: metadata keys, store keys, manifests."""

from __future__ import annotations

import functools
import hashlib
import os
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from langchain_core.documents import Document

__all__ = [
    "CHUNK_ID",
    "CHUNK_INDEX",
    "DOC_ID",
    "END_INDEX",
    "FIRST",
    "HEADER",
    "IS_RELEVANT",
    "LAST",
    "PLACE",
    "RELEVANCE_EXPLANATION",
    "RELEVANCE_FAILURE",
    "RELEVANCE_SCORE",
    "SPANS_PER_PAGE",
    "START_INDEX",
    "UNENCODABLE",
    "VERSION",
    "WITHIN",
    "CandidateError",
    "ChunkPlace",
    "CorruptRecordError",
    "Manifest",
    "MissingRecordError",
    "Rule",
    "Version",
    "adopted_key",
    "answers_key",
    "chunk_key",
    "chunk_metadata",
    "digest",
    "document_key",
    "encodable",
    "judgment_of",
    "manifest_key",
    "new_document",
    "simple_metadata",
    "spans_key",
    "text_digest",
    "vector_id",
    "vector_of",
    "vectors_key",
    "with_header",
]

DOC_ID = "doc_id"
"""Metadata: the document a chunk or segment is from."""
CHUNK_ID = "chunk_id"
"""Metadata of a chunk in the vector store: its id there, for pipelines that lose ids."""
CHUNK_INDEX = "chunk_index"
"""Metadata of a chunk: its number in the document, from 0."""
START_INDEX = "start_index"
"""Metadata: its first character in the document's text."""
END_INDEX = "end_index"
"""Metadata: the character after its last one."""
VERSION = "rse_version"
"""Metadata of a chunk: the version of the document it belongs to."""
FIRST = "first"
"""Metadata of a chunk's record: what holds at its first character and not everywhere. White space
at its ends does not count."""
LAST = "last"
"""Metadata of a chunk's record: what holds at its last character and not everywhere."""
WITHIN = "within"
"""Metadata of a chunk's record: where between these it changes. Pairs, in order, of the characters
before the place and what holds from there; none if it does not change."""
HEADER = "header"
"""Metadata of a chunk's record: what was embedded in front of it, if anything."""
RELEVANCE_SCORE = "relevance_score"
"""Metadata of a segment: its value. Of a reranked document: the reranker's score."""
IS_RELEVANT = "is_relevant"
"""Metadata of a filtered document: True if the model judged so, None if it is not judged."""
RELEVANCE_EXPLANATION = "relevance_explanation"
"""Metadata of a filtered document: why, by the model; None if it is not judged."""
RELEVANCE_FAILURE = "relevance_failure"
"""Metadata of a filtered document that is not judged: the reason."""

SPANS_PER_PAGE = 512
"""Chunks whose spans stand in one record of the docstore; and adopted vectors whose ids do."""

Rule = Literal["ends", "first", "last", "all", "same", "drop"]
"""What a segment carries of a field that changes along a document, see `RSEIndexer`."""

UNENCODABLE = re.compile("[\x00\ud800-\udfff]")
"""Characters that some database or model cannot take."""

PLACE = (DOC_ID, CHUNK_INDEX, START_INDEX, END_INDEX)
"""What says where a chunk lies, in its metadata and in that of its record."""

_CHUNK_KEY = re.compile(r"([^/]+)/([^/]+)/([0-9]+)")
_VARIANTS = {digit: "89ab"[int(digit, 16) % 4] for digit in "0123456789abcdef"}
_VECTOR_NAMESPACE = uuid.UUID("4b1f2f1e-6d1c-5a44-9a31-2f6d9f7c5e10").bytes


_BLOCK = 1_000_000
_SIMPLE = frozenset({str, int, float, bool})


class CandidateError(ValueError):
    """A candidate does not say which chunk of which document it is."""


class MissingRecordError(LookupError):
    """The docstore lacks a record that the vector store points to."""


class CorruptRecordError(ValueError):
    """A record of the docstore cannot be read."""


def digest(*parts: str) -> str:
    """A digest of strings, 32 hexadecimal digits, that every store accepts as a key."""
    state = hashlib.blake2b(digest_size=16)
    for part in parts:
        # Lone surrogates are no reason to fail; lengths keep the parts apart.
        encoded = part.encode("utf-8", "surrogatepass")
        state.update(b"%d:" % len(encoded))
        state.update(encoded)
    return state.hexdigest()


class TextDigest(NamedTuple):
    """What is known of a text when all of it was read.

    Attributes:
        name: Its digest.
        encodable: Whether it has none of the characters that some store cannot take.
    """

    name: str
    encodable: bool


def text_digest(text: str) -> TextDigest:
    """A digest of one string, however long, that needs no second copy of it."""
    state = hashlib.blake2b(digest_size=16)
    encodable = "\0" not in text
    for start in range(0, len(text), _BLOCK):
        block = text[start : start + _BLOCK]
        try:
            encoded = block.encode()
        except UnicodeEncodeError:
            encodable = False
            encoded = block.encode("utf-8", "surrogatepass")
        state.update(encoded)
    return TextDigest(state.hexdigest(), encodable)


@functools.lru_cache(maxsize=4096)  # a query asks for the same few again and again
def document_key(doc_id: str) -> str:
    """The key under which a document's records stand in the docstore."""
    return digest(doc_id)


def manifest_key(key: str) -> str:
    """The docstore key of a document's manifest; ``key`` is its `document_key`."""
    return f"manifest/{key}"


def chunk_key(key: str, version: str, index: int) -> str:
    """The docstore key of a chunk."""
    return f"{key}/{version}/{index}"


class ChunkPlace(NamedTuple):
    """What the docstore key of a chunk says.

    Attributes:
        document: The document's key.
        version: Name of the version.
        chunk: The chunk's number in it.
    """

    document: str
    version: str
    chunk: int

    @classmethod
    def of(cls, key: str) -> ChunkPlace | None:
        """Take a docstore key apart; None if it is not one of a chunk."""
        match = _CHUNK_KEY.fullmatch(key)
        return None if match is None else cls(match[1], match[2], int(match[3]))


def spans_key(key: str, version: str, page: int) -> str:
    """The docstore key of a page of spans."""
    return f"{key}/{version}/spans/{page}"


def vectors_key(key: str, version: str, page: int) -> str:
    """The docstore key of a page of the ids of adopted vectors."""
    return f"{key}/{version}/vectors/{page}"


def adopted_key(vector: str) -> str:
    """The docstore key of what an adopted vector stands for; ``vector`` is its id."""
    return f"adopted/{digest(vector)}"


def answers_key(key: str) -> str:
    """The docstore key of what a language model said of a document."""
    return f"answers/{key}"


def encodable(text: str) -> str:
    """A text without characters that databases or models cannot take, of the same length.

    Lone surrogates have no encoding, PostgreSQL has no NUL. The docstore keeps both.
    """
    # Few have such characters, and looking for them one by one takes ten times as long.
    try:
        if b"\0" not in text.encode():
            return text
    except UnicodeEncodeError:
        pass
    return UNENCODABLE.sub("\ufffd", text)


def with_header(header: str, text: str) -> str:
    """A text with its header in front, and an empty line between; the text alone without one."""
    return f"{header}\n\n{text}" if header else text


def vector_of(document: Document) -> str | None:
    """The id of a chunk in the vector store, as it comes from there; None if it is not told."""
    # Qdrant's and Milvus' searches give it as metadata.
    for vector in (document.id, document.metadata.get("_id"), document.metadata.get("pk")):
        if vector is not None:
            return str(vector)
    return None


def vector_id(key: str, version: str, index: int) -> str:
    """The id of a chunk in the vector store: a UUID, the one form that all of them accept."""
    # What uuid.uuid5 gives, in a third of the time: each chunk and each candidate needs one.
    state = _state_of(key, version).copy()
    state.update(b"%d" % index)
    digits = state.hexdigest()
    variant = _VARIANTS[digits[16]]
    return f"{digits[:8]}-{digits[8:12]}-5{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:32]}"


@functools.lru_cache(maxsize=256)
def _state_of(key: str, version: str) -> hashlib._Hash:
    """What the ids of all chunks of a version begin with, digested; not to be changed."""
    name = _VECTOR_NAMESPACE + chunk_key(key, version, 0)[:-1].encode()
    return hashlib.sha1(name, usedforsecurity=False)


def new_document(page_content: str, metadata: dict[str, Any], **more: str) -> Document:
    """A Document, as its constructor makes it."""
    # What the constructors of Document and its bases come down to, in less than half the time:
    # documents are indexed chunk by chunk.
    document = Document.__new__(Document)
    fields = {"page_content": page_content, "metadata": metadata, **more}
    Document.__pydantic_validator__.validate_python(fields, self_instance=document)
    return document


def simple_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The values that every vector store takes."""
    simple: dict[str, Any] = {}
    for name, value in metadata.items():
        if type(value) not in _SIMPLE:  # the rest takes longer to look at
            if isinstance(value, np.generic):
                value = value.item()  # noqa: PLW2901
            elif isinstance(value, os.PathLike):
                value = os.fspath(value)  # noqa: PLW2901
            if not isinstance(value, (str, int, float, bool)):
                continue
        simple[name] = value
    return simple


def chunk_metadata(
    simple: Mapping[str, Any], place: Mapping[str, Any], version: str
) -> dict[str, Any]:
    """The metadata of a chunk as it stands in the vector store.

    Args:
        simple: What holds where it begins, as `simple_metadata` gives it.
        place: Where it lies, by the names of `PLACE`. What a damaged record lacks, the metadata
            lack: who needs it says so.
        version: Name of the version it belongs to.
    """
    metadata = {**simple, **place}
    if DOC_ID in place and CHUNK_INDEX in place:
        key = document_key(place[DOC_ID])
        metadata[CHUNK_ID] = vector_id(key, version, place[CHUNK_INDEX])
    metadata[VERSION] = version
    return metadata


def judgment_of(metadata: Mapping[str, Any]) -> dict[str, bool | str | None]:
    """What a relevance filter left in the metadata of a document, by the same names.

    Empty if none judged it: a filter leaves `IS_RELEVANT` and `RELEVANCE_EXPLANATION`, and
    `RELEVANCE_FAILURE` where there is one; anything else has other reasons for such names.
    """
    if IS_RELEVANT not in metadata or RELEVANCE_EXPLANATION not in metadata:
        return {}
    found = {
        name: metadata[name]
        for name in (IS_RELEVANT, RELEVANCE_EXPLANATION, RELEVANCE_FAILURE)
        if name in metadata
    }
    plain = all(value is None or isinstance(value, (bool, str)) for value in found.values())
    return found if plain else {}


class Version(NamedTuple):
    """A version of a document.

    Attributes:
        name: Digest of the text and of everything that shapes its chunks.
        chunks: Number of chunks.
        adopted: Number of vectors that were there before, by other means; 0 if `RSEIndexer`
            made the vectors, one a chunk.
    """

    name: str
    chunks: int
    adopted: int = 0

    @property
    def pages(self) -> int:
        """Number of pages of spans."""
        return -(-self.chunks // SPANS_PER_PAGE)

    def docstore_keys(self, key: str) -> Iterable[str]:
        """All keys of this version in the docstore, but those by adopted vectors."""
        yield from (chunk_key(key, self.name, index) for index in range(self.chunks))
        yield from (spans_key(key, self.name, page) for page in range(self.pages))
        yield from self.vectors_keys(key)

    def vectors_keys(self, key: str) -> Iterable[str]:
        """The keys of the pages of ids of adopted vectors."""
        pages = -(-self.adopted // SPANS_PER_PAGE)
        return (vectors_key(key, self.name, page) for page in range(pages))

    def vector_ids(self, key: str) -> Iterable[str]:
        """The ids of this version in the vector store, but those of adopted vectors."""
        count = 0 if self.adopted else self.chunks
        return (vector_id(key, self.name, index) for index in range(count))


@dataclass(frozen=True)
class Manifest:
    """What the docstore knows of a document.

    Attributes:
        doc_id: The document's id.
        current: The version that queries see; None while the first one is being written
            or the document is being deleted.
        leftovers: Versions that are being written or removed; of these, any part may be in
            the stores.
        length: Characters of the current version's text.
        metadata: The metadata that holds for the whole document.
        rules: What segments carry of some of its fields; the others follow the default rules.
        header: What may stand above its segments; empty if nothing does.
    """

    doc_id: str
    current: Version | None = None
    leftovers: Sequence[Version] = ()
    length: int = 0
    metadata: Mapping[str, Any] = field(default_factory=dict)
    rules: Mapping[str, Rule] = field(default_factory=dict)
    header: str = ""

    @property
    def key(self) -> str:
        """The document's key in the docstore."""
        return document_key(self.doc_id)

    @property
    def versions(self) -> list[Version]:
        """All versions of which anything may be in the stores."""
        return ([self.current] if self.current else []) + list(self.leftovers)

    def without(self, versions: Iterable[Version]) -> Manifest:
        """A copy in which some leftovers are gone."""
        gone = {version.name for version in versions}
        return replace(
            self, leftovers=tuple(left for left in self.leftovers if left.name not in gone)
        )

    def to_document(self) -> Document:
        """The record of this manifest."""
        return Document(
            page_content="",
            metadata={
                "doc_id": self.doc_id,
                "current": list(self.current) if self.current else None,
                "leftovers": [list(version) for version in self.leftovers],
                "length": self.length,
                "metadata": dict(self.metadata),
                **({"rules": dict(self.rules)} if self.rules else {}),
                **({HEADER: self.header} if self.header else {}),
            },
        )

    @classmethod
    def from_document(cls, record: Document, key: str) -> Manifest:
        """Read a manifest's record.

        Raises:
            CorruptRecordError: If the record is not one of a manifest.
        """
        try:
            fields = record.metadata
            return cls(
                doc_id=str(fields["doc_id"]),
                current=_version(fields["current"]) if fields["current"] else None,
                leftovers=tuple(_version(version) for version in fields["leftovers"]),
                length=int(fields["length"]),
                metadata=dict(fields["metadata"]),
                rules=_rules(fields.get("rules", {})),
                header=str(fields.get(HEADER, "")),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise CorruptRecordError(
                f"the docstore's record {key!r} is not a manifest ({error!r}); delete this key "
                "and add the document again"
            ) from error


def _version(fields: Sequence[Any]) -> Version:
    name, chunks, adopted = fields
    counts = all(isinstance(count, int) and count >= 0 for count in (chunks, adopted))
    if not isinstance(name, str) or not counts:
        raise ValueError(f"{fields!r} is no version")
    return Version(name, chunks, adopted)


def _rules(fields: Mapping[str, Any]) -> dict[str, Rule]:
    if not set(dict(fields).values()) <= set(get_args(Rule)):
        raise ValueError(f"{fields!r} are no rules")
    return dict(fields)
