"""Repair: what is wrong with two stores is mended where they have what it takes."""

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from langchain_core.documents import Document

from langchain_rse._progress import progress_bar
from langchain_rse._sync import Steps
from langchain_rse.errors import StoreMismatchError
from langchain_rse.ingest.checking import CheckReport, Finding, Scan, Seen
from langchain_rse.ingest.ownership import Claims
from langchain_rse.ingest.writing import Writer
from langchain_rse.stores.changing import change
from langchain_rse.stores.pairing import PAIR_KEY, check_pair
from langchain_rse.stores.reading import read_document
from langchain_rse.stores.records import DOC_ID, DocumentVersion, Manifest, manifest_key, vector_id

# Mending uncovers more, such as the records of a manifest that could not be read.
_MOST_SCANS = 4
_EXAMPLES = 5
# Chunks of documents that are written again together.
_CHUNKS = 2_000


def check_stores(
    writer: Writer, *, repair: bool, show_progress: bool = False
) -> Steps[CheckReport]:
    """Compare two stores; with ``repair``, mend what is wrong and compare them again."""
    model, problems = "", []
    try:
        stores = writer.docstore, writer.vectors.vectorstore
        model = yield from check_pair(*stores, force=repair, record=repair)
    except StoreMismatchError as error:
        problems = [Finding("mismatch", PAIR_KEY, Seen(None, None, False), [str(error)])]
    mender = _Mender(writer.vectors, writer.docstore, model)
    last: set[tuple[str, str, str]] = set()
    known = last
    with (
        Claims(writer.docstore, writer.batch_size) as claims,
        progress_bar(None, unit="records", title="Checking", show=show_progress) as advance,
    ):
        for left in reversed(range(_MOST_SCANS)):
            scan = Scan(mender, claims, advance)
            yield from scan.run()
            found = {(one.kind, one.key, item) for one in scan.findings for item in one.items}
            if not (repair and left and found) or found == last:
                break
            last, known = found, known | found
            yield from mender.mend(scan.findings)
    counts: Counter[str] = Counter()
    examples: dict[str, list[str]] = {}
    for one in [*scan.findings, *problems]:
        counts[one.kind] += len(one.items)
        examples.setdefault(one.kind, []).append(str(one))
    return CheckReport(
        documents=scan.documents,
        chunks=scan.chunks,
        problems=dict(counts),
        examples={kind: some[:_EXAMPLES] for kind, some in examples.items()},
        mended=dict(Counter(kind for kind, _, _ in known - found)),
        add_again=sorted({*mender.add_again.values()}),
        notes=[*scan.notes, *mender.notes],
    )


class _ChangedError(Exception):
    """A document is not as it was when it was looked at."""


@dataclass(frozen=True)
class _Mender(Writer):
    """Mends what a scan has found, unless it has been changed meanwhile."""

    # Documents, by their keys, of which so much is lost that they were removed.
    add_again: dict[str, str] = field(default_factory=dict)
    notes: dict[str, None] = field(default_factory=dict)  # what the user has to know

    def mend(self, findings: Iterable[Finding]) -> Steps[None]:
        """Remove what belongs to no document, then mend documents."""
        damaged: dict[str, Seen] = {}
        for one in findings:
            if one.kind.startswith("orphan") or not one.doc_id:
                yield from self._remove(one)
            else:
                damaged[one.key] = one.seen
        whole: list[DocumentVersion] = []
        for seen in damaged.values():
            yield from self._mend_document(seen, whole)
            if sum(len(document.chunks) for document in whole) >= _CHUNKS:
                yield from self._write_again(whole)
                whole = []
        yield from self._write_again(whole)

    def _mend_document(self, seen: Seen, whole: list[DocumentVersion]) -> Steps[None]:
        """Mend a document, or put it among the ``whole`` ones if writing it again does."""
        if (manifest := seen.manifest) is None:
            return
        doc_id, version = manifest.doc_id, manifest.current
        if version is None:
            yield from self._end(replace(manifest, unfinished=manifest.versions), seen.record)
            note = (
                "was being added or deleted when it was interrupted, and is removed; add it again"
            )
            self.notes[f"document {doc_id!r} {note} unless it was to be deleted"] = None
            return
        read = yield from read_document(self.docstore, manifest)
        if read.document is not None:
            whole.append(read.document)
        elif not read.wrong:  # it is adopted, and its vectors are not ours to write
            yield from self._end(manifest, seen.record)
        else:  # of an adopted one the manifest goes, and nothing is done to vectors
            is_adopted = any(one.adopted for one in manifest.versions)
            gone = () if is_adopted else manifest.versions
            yield from self._end(replace(manifest, current=None, unfinished=gone), seen.record)
            self.add_again[manifest.key] = doc_id

    def _end(
        self, manifest: Manifest, record: Document | None, orphans: Finding | None = None
    ) -> Steps[None]:
        """Remove orphans, and what a manifest lists as unfinished; without version, itself."""
        with Claims(self.docstore, self.batch_size) as claims:
            claimed = list((yield from claims.claim([(manifest, record)])).values())
            yield from claims.guarded(self._end_claimed(claimed, orphans, claims))

    def _end_claimed(
        self, claimed: Sequence[Manifest], orphans: Finding | None, claims: Claims
    ) -> Steps[None]:
        if not claimed:
            return
        if orphans and orphans.kind == "orphan_records":
            # Records of chunks may have vectors, whose ids are made of the same three parts.
            places = [place.split("/") for place in orphans.items]
            chunks = [place for place in places if len(place) == 3 and place[2].isdecimal()]  # noqa: PLR2004
            yield from self.vectors.delete(vector_id(key, v, int(n)) for key, v, n in chunks)
            yield from self._delete_records(orphans.items)
        elif orphans:
            yield from self.vectors.delete(orphans.items)
        if claimed[0].current is not None:
            yield from self._finish(claimed, claims)
        else:
            yield from self._remove_unfinished(claimed, claims)
            yield from claims.remove(claimed)

    def _write_again(self, documents: Sequence[DocumentVersion]) -> Steps[None]:
        """Write documents and the vectors that they lack; none if one of them was changed."""
        with suppress(_ChangedError):  # the next scan finds what is left
            yield from self.write(documents, _refuse_changed)

    def _without_vectors(self, documents: Sequence[DocumentVersion], _: object) -> Steps[set[str]]:
        yield from ()
        return {document.key for document in documents}  # all of them, to be written

    def _remove(self, one: Finding) -> Steps[None]:
        """Remove what belongs to no document, while nobody writes the one that it names."""
        record, manifest, _ = one.seen
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
