"""Verify: what the two stores have of each document, compared without changing anything."""

import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from langchain_core.documents import Document

from langchain_rse._messages import first_few
from langchain_rse._progress import Advance
from langchain_rse._sync import Steps, batches, call
from langchain_rse.errors import CorruptRecordError
from langchain_rse.ingest.ownership import Claims
from langchain_rse.ingest.writing import Writer, readable_manifest
from langchain_rse.stores.changing import DocStore, Record, is_as_expected, read_records
from langchain_rse.stores.namespaces import namespace_of
from langchain_rse.stores.reading import read_document
from langchain_rse.stores.records import (
    DOC_ID,
    VERSION,
    Manifest,
    document_key,
    manifest_key,
    namespace_in,
)
from langchain_rse.stores.vectorstores import LISTED, list_chunks

PROBLEMS = {
    "mismatch": "the two stores are no pair",
    "unreadable": "records that cannot be read, or do not fit their place",
    "spans": "places where spans do not fit the text or its chunks",
    "missing_chunks": "chunks without a record in the docstore",
    "missing_vectors": "chunks without a vector",
    "other_model": "documents with vectors of another embedding model",
    "unfinished": "documents whose adding or deleting was interrupted",
    "orphan_vectors": "vectors of no known version of a document",
    "orphan_records": "docstore records of no known document, version or text",
}
"""What can be wrong with two stores."""

# Keys in one call.
_BATCH = 500

_KEY = re.compile(r"(?:(manifest|texts|answers|adopted)/)?([0-9a-f]{32})(?:/([^/]+)/.+)?")


@dataclass(frozen=True, kw_only=True)
class CheckReport:
    """What two stores have, and what is wrong with them.

    Attributes:
        documents: Number of documents.
        chunks: Number of their chunks.
        problems: How many there are of each kind.
        examples: Where the first few of each are.
        mended: How many of each kind there were before they were mended.
        add_again: Ids of documents that have to be added, or adopted, again.
        notes: What could not be checked, or was left alone.
    """

    documents: int = 0
    chunks: int = 0
    problems: Mapping[str, int] = field(default_factory=dict)
    examples: Mapping[str, Sequence[str]] = field(default_factory=dict)
    mended: Mapping[str, int] = field(default_factory=dict)
    add_again: Sequence[str] = ()
    notes: Sequence[str] = ()

    @property
    def ok(self) -> bool:
        """True if nothing is wrong, and no document has to be added again."""
        return not (self.problems or self.add_again)

    def to_dict(self) -> dict[str, Any]:
        """All fields, and ``ok``, as JSON takes them."""
        return {"ok": self.ok, **asdict(self)}

    def __str__(self) -> str:
        counts = f"{self.documents:,} documents, {self.chunks:,} chunks"
        lines = [f"{counts}: {'nothing wrong' if self.ok else 'not in order'}"]
        lines += [f"mended: {PROBLEMS[kind]}: {count:,}" for kind, count in self.mended.items()]
        for kind, count in self.problems.items():
            lines.append(f"{PROBLEMS[kind]}: {count:,}, such as {'; '.join(self.examples[kind])}")
        if self.add_again:
            lines.append(f"add (or adopt) again: {first_few(map(repr, self.add_again), 100)}")
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])


class Seen(NamedTuple):
    """What was read of a manifest; a record that `is_there` without a manifest is unreadable."""

    record: Document | None
    manifest: Manifest | None
    is_there: bool


class Finding(NamedTuple):
    """Something that is wrong."""

    kind: str
    key: str  # the document's
    seen: Seen  # its manifest then
    items: list[str]  # keys of records, or ids of vectors
    doc_id: str = ""  # if it is known

    def __str__(self) -> str:
        where = f"document {self.doc_id!r}" if self.doc_id else self.items[0]
        return where if len(self.items) == 1 else f"{where} ({len(self.items):,})"


class Scan:
    """One look at everything that two stores have, in batches."""

    def __init__(self, writer: Writer, claims: Claims, advance: Advance) -> None:
        self.findings: list[Finding] = []
        self.notes: dict[str, None] = {}  # what could not be checked, or was left alone, each once
        self.documents = self.chunks = 0  # how many there are
        self._writer = writer
        self._docstore = writer.docstore
        self._claims = claims
        self._advance = advance

    def run(self) -> Steps[None]:
        """Look at all records of the docstore, then at the vectors if they can be listed."""
        following = _key_batches(self._docstore)
        while keys := (yield from following()):
            found: list[Finding] = []
            documents = yield from self._judge_keys(keys, found)
            yield from self._judge_documents(documents, found)
            yield from self._keep(found)
            self._advance(len(keys))
        yield from self._judge_vectors()

    def _manifests(self, keys: Iterable[str]) -> Steps[dict[str, Seen]]:
        """Read manifests by the keys of their documents."""
        places = {manifest_key(key): key for key in keys}
        seen: dict[str, Seen] = {}
        for place, found in (yield from read_records(self._docstore, list(places))).items():
            record = found if isinstance(found, Document) else None
            seen[places[place]] = Seen(record, readable_manifest(found, place), found is not None)
        return seen

    def _keep(self, found: Sequence[Finding]) -> Steps[None]:
        """Keep what was found, but of documents that were written meanwhile."""
        now = yield from self._manifests({one.key for one in found})
        self.findings += [
            one for one in found if is_as_expected(now[one.key].record, one.seen.record)
        ]

    # The docstore

    def _judge_keys(self, keys: Iterable[str], found: list[Finding]) -> Steps[list[Seen]]:
        """Find records that belong to nothing; return the manifests among all records."""
        places = {key: match.groups() for key in keys if (match := _KEY.fullmatch(key))}
        pointing = [key for key, (family, *_) in places.items() if family in {"texts", "adopted"}]
        pointers = yield from read_records(self._docstore, pointing)
        owners = {key: name for key, (_, name, _) in places.items()}
        for key, pointer in pointers.items():
            if isinstance(pointer, Document):
                owners[key] = document_key(str(pointer.metadata.get(DOC_ID)))
        seen = yield from self._manifests(owners.values())
        orphans: dict[str, list[str]] = {}
        documents: list[Seen] = []
        for key, (family, name, version) in places.items():
            owner, pointer = seen[owners[key]], pointers.get(key)
            if family == "manifest" and owner.manifest:
                documents.append(owner)
            elif isinstance(pointer, CorruptRecordError) or (
                family == "manifest" and owner.is_there
            ):
                found.append(Finding("unreadable", owners[key], owner, [key]))
            elif family is None and not _has_version(owner, version):
                orphans.setdefault(owners[key], []).append(key)
            elif family and _is_left(family, name, pointer, owner):
                found.append(Finding("orphan_records", owners[key], owner, [key]))
        for key, some in orphans.items():
            read = yield from read_records(self._docstore, some)
            if left := [place for place, one in read.items() if one is not None]:
                ids = {
                    str(o.metadata.get(DOC_ID)) for o in read.values() if isinstance(o, Document)
                }
                doc_id = next((one for one in ids if document_key(one) == key), "")
                found.append(Finding("orphan_records", key, seen[key], left, doc_id))
        return documents

    def _judge_documents(self, documents: Iterable[Seen], found: list[Finding]) -> Steps[None]:
        """Find what is wrong with documents, of which nothing else is written meanwhile."""
        vectors: dict[str, list[str]] = {}
        for seen in documents:
            if (manifest := seen.manifest) is None:
                continue
            doc_id, version = manifest.doc_id, manifest.current
            self.documents += 1
            if not self._claims.is_free(manifest):
                self.notes[f"document {doc_id!r} is being written; look at it later"] = None
                continue
            wrong = {"unfinished": [doc_id]} if manifest.unfinished or not version else {}
            if self._writer.is_of_another_model(manifest):
                wrong["other_model"] = [doc_id]
            if version is not None:
                self.chunks += version.chunks
                read = yield from read_document(self._docstore, manifest)
                wrong |= {**read.wrong, "missing_vectors": []}
                vectors.update(dict.fromkeys(read.vectors, wrong["missing_vectors"]))
            found += [Finding(kind, manifest.key, seen, wrong[kind], doc_id) for kind in wrong]
        for ids in batches(vectors, self._writer.batch_size):
            existing = yield from self._writer.vectors.existing(ids)
            if existing is None:
                name = type(self._writer.vectors.vectorstore).__name__
                self.notes[f"{name} cannot tell which vectors it has; none was looked for"] = None
                break
            for one in ids:
                if one not in existing:
                    vectors[one].append(one)
        found[:] = [one for one in found if one.items]

    # The vector store

    def _judge_vectors(self) -> Steps[None]:
        """Find vectors of no known version, in a store that can be listed."""
        vectors, namespace = self._writer.vectors, namespace_of(self._docstore)
        following = list_chunks(vectors.vectorstore)
        if following is None:
            name = type(vectors.vectorstore).__name__
            note = f"{name} cannot be listed, as can {LISTED}: what is left over is not found"
            self.notes[note] = None
            return
        while chunks := (yield from following()):
            own = {
                str(one.id): (str(one.metadata[DOC_ID]), one.metadata[VERSION])
                for one in chunks
                if one.metadata.get(DOC_ID)
                and VERSION in one.metadata
                and namespace_in(one.metadata) == namespace
            }
            keys = {doc_id: document_key(doc_id) for doc_id, _ in own.values()}
            seen = yield from self._manifests(keys.values())
            orphans: dict[str, list[str]] = {}
            for vector, (doc_id, version) in own.items():
                if not _has_version(seen[keys[doc_id]], version):
                    orphans.setdefault(doc_id, []).append(vector)
            found: list[Finding] = []
            for doc_id, ids in orphans.items():
                existing = yield from vectors.existing(ids)
                if left := ids if existing is None else list(existing):
                    key = keys[doc_id]
                    found.append(Finding("orphan_vectors", key, seen[key], left, doc_id))
            yield from self._keep(found)
            self._advance(len(chunks))


def _has_version(seen: Seen, version: object) -> bool:
    """True if a manifest names the version, or cannot be read."""
    if seen.manifest is None:
        return seen.is_there
    return any(one.name == version for one in seen.manifest.versions)


def _is_left(family: str, name: str, pointer: Record, seen: Seen) -> bool:
    """True if a record of an answer, a text or an adopted vector is of nothing that is stored."""
    if family == "answers":
        return not seen.is_there
    if not isinstance(pointer, Document) or (seen.is_there and not seen.manifest):
        return False
    if family == "texts":
        return seen.manifest is None or seen.manifest.text_digest != name
    # Vectors that were left out when others were adopted are of no document.
    metadata = pointer.metadata
    return metadata.get(DOC_ID) is not None and not _has_version(seen, metadata.get(VERSION))


def _key_batches(docstore: DocStore) -> Callable[[], Steps[list[str]]]:
    """Gives the next keys of a docstore with each call; none at the end."""
    keys, asynchronous = iter(docstore.yield_keys()), docstore.ayield_keys()

    async def following() -> list[str]:
        found: list[str] = []
        async for key in asynchronous:
            found.append(key)
            if len(found) == _BATCH:
                break
        return found

    return lambda: call(lambda: list(itertools.islice(keys, _BATCH)), following)
