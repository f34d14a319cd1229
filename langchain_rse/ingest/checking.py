"""Verify and repair: compares what the two stores have of each document, and repairs it."""

import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple

from langchain_core.documents import Document

from langchain_rse._messages import counted, first_few
from langchain_rse._progress import Advance, progress_bar
from langchain_rse._sync import Steps, batches, call
from langchain_rse.errors import CorruptRecordError, StoreMismatchError
from langchain_rse.ingest.ownership import Claims
from langchain_rse.ingest.writing import Writer, readable_manifest
from langchain_rse.stores.changing import DocStore, Record, change, is_as_expected, read_records
from langchain_rse.stores.namespaces import namespace_of
from langchain_rse.stores.pairing import PAIR_KEY, check_pair
from langchain_rse.stores.records import (
    DOC_ID,
    VERSION,
    DocumentVersion,
    Manifest,
    document_key,
    manifest_key,
    namespace_in,
    vector_id,
)
from langchain_rse.stores.vectorstores import LISTED
from langchain_rse.stores.whole_documents import read_document

PROBLEMS = {
    "mismatch": "the two stores do not belong together",
    "unreadable": "records that cannot be read, or do not fit their key",
    "spans": "places where spans do not fit the text or its chunks",
    "missing_chunks": "chunks without a record in the docstore",
    "missing_vectors": "chunks without a vector",
    "other_model": "documents with vectors of another embedding model",
    "unfinished": "documents whose adding or deleting was interrupted",
    "orphan_vectors": "vectors of no known version of a document",
    "orphan_records": "docstore records of no known document, version or text",
}
"""The kinds of problems that two stores can have, each with its description."""

# Keys in one call.
_BATCH = 500
# Repairing uncovers further problems, such as the records of an unreadable manifest.
_MOST_SCANS = 4
_EXAMPLES = 5

_CHUNK_KEY = re.compile(r"([^/]+)/([^/]+)/([0-9]+)")
_KEY = re.compile(r"(?:(manifest|texts|answers|adopted)/)?([0-9a-f]{32})(?:/([^/]+)/.+)?")


@dataclass(frozen=True, kw_only=True)
class CheckReport:
    """The result of comparing two stores: their size, their problems and what was repaired.

    Attributes:
        documents: Number of documents.
        chunks: Number of their chunks.
        problems: Number of problems by kind.
        examples: The first few places of each kind of problem.
        repaired: Number of repaired problems by kind.
        add_again: Ids of documents that have to be added, or adopted, again.
        notes: What could not be checked, or was left unchanged.
    """

    documents: int = 0
    chunks: int = 0
    problems: Mapping[str, int] = field(default_factory=dict)
    examples: Mapping[str, Sequence[str]] = field(default_factory=dict)
    repaired: Mapping[str, int] = field(default_factory=dict)
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
        counts = f"{counted(self.documents, 'document')}, {counted(self.chunks, 'chunk')}"
        lines = [f"{counts}: {'nothing wrong' if self.ok else 'problems found'}"]
        lines += [f"repaired: {PROBLEMS[kind]}: {count:,}" for kind, count in self.repaired.items()]
        for kind, count in self.problems.items():
            lines.append(f"{PROBLEMS[kind]}: {count:,}, such as {'; '.join(self.examples[kind])}")
        if self.add_again:
            lines.append(f"add (or adopt) again: {first_few(map(repr, self.add_again), 100)}")
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])


def check_stores(
    writer: Writer, *, repair: bool, show_progress: bool = False
) -> Steps[CheckReport]:
    """Compare two stores; with ``repair``, correct what is wrong and compare again."""
    model, problems = "", []
    try:
        stores = writer.docstore, writer.vectors.vectorstore
        model = yield from check_pair(*stores, force=repair, record=repair)
    except StoreMismatchError as error:
        problems = [_Finding("mismatch", PAIR_KEY, _Seen(None, None, False), [str(error)])]
    check = _Check(writer.vectors, writer.docstore, model)
    last: set[tuple[str, str, str]] = set()
    known = last
    with (
        Claims(writer.docstore, writer.vectors.batch_size) as claims,
        progress_bar(None, unit="records", title="Checking", show=show_progress) as advance,
    ):
        for left in reversed(range(_MOST_SCANS)):
            yield from check.scan(claims, advance)
            found = {(one.kind, one.key, item) for one in check.findings for item in one.items}
            if not (repair and left and found) or found == last:
                break
            last, known = found, known | found
            yield from check.repair()
    counts: Counter[str] = Counter()
    examples: dict[str, list[str]] = {}
    for one in [*check.findings, *problems]:
        counts[one.kind] += len(one.items)
        examples.setdefault(one.kind, []).append(str(one))
    return CheckReport(
        documents=check.documents,
        chunks=check.chunks,
        problems=dict(counts),
        examples={kind: some[:_EXAMPLES] for kind, some in examples.items()},
        repaired=dict(Counter(kind for kind, _, _ in known - found)),
        add_again=sorted({*check.add_again.values()}),
        notes=[*check.passed_over, *check.removed],
    )


# Looking


class _Seen(NamedTuple):
    """A manifest as it was read; a record that `is_there` without a manifest is unreadable."""

    manifest: Manifest | None
    record: Document | None
    is_there: bool


class _Finding(NamedTuple):
    """Problems of one kind with one document."""

    kind: str
    key: str  # the document's
    seen: _Seen  # the document's manifest at that time
    items: list[str]  # keys of records, or ids of vectors
    doc_id: str = ""  # if it is known

    def __str__(self) -> str:
        where = f"document {self.doc_id!r}" if self.doc_id else self.items[0]
        return where if len(self.items) == 1 else f"{where} ({len(self.items):,})"


class _ChangedError(Exception):
    """A document was changed after it was checked."""


@dataclass
class _Check(Writer):
    """Checks everything in two stores, in batches, and repairs what is wrong."""

    # Results of the last scan.
    findings: list[_Finding] = field(default_factory=list)
    passed_over: dict[str, None] = field(default_factory=dict)  # what could not be checked
    documents: int = 0  # how many there are
    chunks: int = 0
    # Ids, by their keys, of documents that were removed because text of them is lost.
    add_again: dict[str, str] = field(default_factory=dict)
    removed: dict[str, None] = field(default_factory=dict)  # notes on other removed documents

    def scan(self, claims: Claims, advance: Advance) -> Steps[None]:
        """Check all records of the docstore, then the vectors if they can be listed."""
        self.findings, self.passed_over, self.documents, self.chunks = [], {}, 0, 0
        following = _key_batches(self.docstore)
        while keys := (yield from following()):
            found: list[_Finding] = []
            documents = yield from self._judge_keys(keys, found)
            yield from self._judge_documents(documents, found, claims)
            yield from self._keep(found)
            advance(len(keys))
        yield from self._judge_vectors(advance)

    def _manifests(self, keys: Iterable[str]) -> Steps[dict[str, _Seen]]:
        """Read manifests by the keys of their documents."""
        places = {manifest_key(key): key for key in keys}
        seen: dict[str, _Seen] = {}
        for place, found in (yield from read_records(self.docstore, list(places))).items():
            record = found if isinstance(found, Document) else None
            seen[places[place]] = _Seen(readable_manifest(found, place), record, found is not None)
        return seen

    def _keep(self, found: Sequence[_Finding]) -> Steps[None]:
        """Keep the findings, except those of documents that were written meanwhile."""
        now = yield from self._manifests({one.key for one in found})
        self.findings += [
            one for one in found if is_as_expected(now[one.key].record, one.seen.record)
        ]

    # The docstore

    def _judge_keys(self, keys: Iterable[str], found: list[_Finding]) -> Steps[list[_Seen]]:
        """Find records without a document; return the manifests among all records."""
        places = {key: match.groups() for key in keys if (match := _KEY.fullmatch(key))}
        pointing = [key for key, (family, *_) in places.items() if family in {"texts", "adopted"}]
        pointers = yield from read_records(self.docstore, pointing)
        owners = {key: name for key, (_, name, _) in places.items()}
        for key, pointer in pointers.items():
            if isinstance(pointer, Document):
                owners[key] = document_key(str(pointer.metadata.get(DOC_ID)))
        seen = yield from self._manifests(owners.values())
        orphans: dict[str, list[str]] = {}
        documents: list[_Seen] = []
        for key, (family, name, version) in places.items():
            owner, pointer = seen[owners[key]], pointers.get(key)
            if family == "manifest" and owner.manifest:
                documents.append(owner)
            elif isinstance(pointer, CorruptRecordError) or (
                family == "manifest" and owner.is_there
            ):
                found.append(_Finding("unreadable", owners[key], owner, [key]))
            elif family is None and not _has_version(owner, version):
                orphans.setdefault(owners[key], []).append(key)
            elif family and _is_left(family, name, pointer, owner):
                found.append(_Finding("orphan_records", owners[key], owner, [key]))
        for key, some in orphans.items():
            read = yield from read_records(self.docstore, some)
            if left := [place for place, one in read.items() if one is not None]:
                ids = {
                    str(o.metadata.get(DOC_ID)) for o in read.values() if isinstance(o, Document)
                }
                doc_id = next((one for one in ids if document_key(one) == key), "")
                found.append(_Finding("orphan_records", key, seen[key], left, doc_id))
        return documents

    def _judge_documents(
        self, documents: Iterable[_Seen], found: list[_Finding], claims: Claims
    ) -> Steps[None]:
        """Find what is wrong with documents that no other call is writing."""
        vectors: dict[str, list[str]] = {}
        for seen in documents:
            if (manifest := seen.manifest) is None:
                continue
            doc_id, version = manifest.doc_id, manifest.current
            self.documents += 1
            if not claims.is_free(manifest):
                self.passed_over[f"document {doc_id!r} is being written; check it later"] = None
                continue
            wrong = {"unfinished": [doc_id]} if manifest.unfinished or not version else {}
            if self.is_of_another_model(manifest):
                wrong["other_model"] = [doc_id]
            if version is not None:
                self.chunks += version.chunks
                read = yield from read_document(self.docstore, manifest)
                wrong |= {**read.wrong, "missing_vectors": []}
                vectors.update(dict.fromkeys(read.vectors, wrong["missing_vectors"]))
            found += [_Finding(kind, manifest.key, seen, wrong[kind], doc_id) for kind in wrong]
        for ids in batches(vectors, self.vectors.batch_size):
            existing = yield from self.vectors.existing(ids)
            if existing is None:
                name = type(self.vectors.vectorstore).__name__
                self.passed_over[
                    f"{name} cannot tell which vectors it has; missing ones are not found"
                ] = None
                break
            for one in ids:
                if one not in existing:
                    vectors[one].append(one)
        found[:] = [one for one in found if one.items]

    # The vector store

    def _judge_vectors(self, advance: Advance) -> Steps[None]:
        """Find vectors of no known version, in a store that can be listed."""
        store, namespace = self.vectors.vectorstore, namespace_of(self.docstore)
        if not self.vectors.adapter.can_list:
            why = f"cannot be listed, unlike {LISTED}: leftover vectors are not found"
            self.passed_over[f"{type(store).__name__} {why}"] = None
            return
        following = self.vectors.adapter.list_chunks()
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
            found: list[_Finding] = []
            for doc_id, ids in orphans.items():
                existing = yield from self.vectors.existing(ids)
                if left := ids if existing is None else list(existing):
                    key = keys[doc_id]
                    found.append(_Finding("orphan_vectors", key, seen[key], left, doc_id))
            yield from self._keep(found)
            advance(len(chunks))

    # Repairing

    def repair(self) -> Steps[None]:
        """Remove orphans, then repair documents, unless they were changed meanwhile."""
        damaged: dict[str, _Seen] = {}
        for one in self.findings:
            if one.kind.startswith("orphan") or not one.doc_id:
                yield from self._remove(one)
            else:
                damaged[one.key] = one.seen
        for manifest, record, _ in damaged.values():
            if manifest is not None:
                yield from self._mend_document(manifest, record)

    def _mend_document(self, manifest: Manifest, record: Document | None) -> Steps[None]:
        doc_id, version = manifest.doc_id, manifest.current
        if version is None:
            yield from self._end(replace(manifest, unfinished=manifest.versions), record)
            self.removed[
                f"document {doc_id!r} was being added or deleted when it was interrupted, and is "
                "removed; add it again unless it was to be deleted"
            ] = None
            return
        read = yield from read_document(self.docstore, manifest)
        if read.document is not None:
            with suppress(_ChangedError):  # the next scan finds what is left
                yield from self.write([read.document], _refuse_changed)
        elif not read.wrong:  # adopted: its vectors were written by other code
            yield from self._end(manifest, record)
        else:  # if it is adopted, only its manifest is removed, and no vectors
            is_adopted = any(one.adopted for one in manifest.versions)
            gone = () if is_adopted else manifest.versions
            yield from self._end(replace(manifest, current=None, unfinished=gone), record)
            self.add_again[manifest.key] = doc_id

    def _without_vectors(self, documents: Sequence[DocumentVersion], _: object) -> Steps[set[str]]:
        yield from ()
        return {document.key for document in documents}  # all of them, to be written

    def _end(
        self, manifest: Manifest, record: Document | None, orphans: _Finding | None = None
    ) -> Steps[None]:
        """Remove orphans and unfinished versions; also the manifest, if no version is current."""
        with Claims(self.docstore, self.vectors.batch_size) as claims:
            if claimed := (yield from claims.claim([(manifest, record)])):
                steps = self._end_claimed(list(claimed.values()), orphans, claims)
                yield from claims.guarded(steps)

    def _end_claimed(
        self, claimed: Sequence[Manifest], orphans: _Finding | None, claims: Claims
    ) -> Steps[None]:
        if orphans and orphans.kind == "orphan_records":
            # Records of chunks may have vectors, whose ids consist of the same three parts.
            chunks = filter(None, map(_CHUNK_KEY.fullmatch, orphans.items))
            yield from self.vectors.delete(vector_id(c[1], c[2], int(c[3])) for c in chunks)
            yield from self._delete_records(orphans.items)
        elif orphans:
            yield from self.vectors.delete(orphans.items)
        if claimed[0].current is not None:
            yield from self._finish(claimed, claims)
        else:
            yield from self._remove_unfinished(claimed, claims)
            yield from claims.update(claimed, remove=True)

    def _remove(self, one: _Finding) -> Steps[None]:
        """Remove an orphan, while no other call writes the document that it names."""
        manifest, record, _ = one.seen
        if one.items == [manifest_key(one.key)]:
            yield from change(self.docstore, [(one.items[0], record, None)])
            named = record.metadata.get(DOC_ID) if record else None
            self.add_again[one.key] = str(named or f"the document with the key {one.key}")
        elif not one.doc_id:
            yield from self._delete_records(one.items)
        else:
            yield from self._end(manifest or Manifest(one.doc_id), record, one)
            if one.key in self.add_again:
                self.add_again[one.key] = one.doc_id


def _refuse_changed(documents: Iterable[tuple[DocumentVersion, Manifest]]) -> Steps[None]:
    yield from ()
    for document, manifest in documents:
        if manifest.current != document.version:
            raise _ChangedError


def _has_version(seen: _Seen, version: object) -> bool:
    """True if a manifest names the version, or cannot be read."""
    if seen.manifest is None:
        return seen.is_there
    return any(one.name == version for one in seen.manifest.versions)


def _is_left(family: str, name: str, pointer: Record, seen: _Seen) -> bool:
    """True if a record of answers, a text or an adopted vector belongs to no stored document."""
    if family == "answers":
        return not seen.is_there
    if not isinstance(pointer, Document) or (seen.is_there and not seen.manifest):
        return False
    if family == "texts":
        return seen.manifest is None or seen.manifest.text_digest != name
    # Records of vectors that were left out of an adoption name no document.
    metadata = pointer.metadata
    return metadata.get(DOC_ID) is not None and not _has_version(seen, metadata.get(VERSION))


def _key_batches(docstore: DocStore) -> Callable[[], Steps[list[str]]]:
    """Return a function that reads the next keys of a docstore; none at the end."""
    keys, asynchronous = iter(docstore.yield_keys()), docstore.ayield_keys()

    async def following() -> list[str]:
        found: list[str] = []
        async for key in asynchronous:
            found.append(key)
            if len(found) == _BATCH:
                break
        return found

    return lambda: call(lambda: list(itertools.islice(keys, _BATCH)), following)
