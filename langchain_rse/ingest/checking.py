"""Checks that both stores agree about every document, and repairs differences.

Repairing never removes text that it cannot read. It removes versions that manifests list as garbage
and, if all manifests are readable, records and vectors of unknown documents. Everything else is
written again or reported as "add again".
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from langchain_rse._messages import progress_bar
from langchain_rse.errors import CorruptRecordError, FormatError, StoreMismatchError
from langchain_rse.ingest.problems import (
    PROBLEMS,
    Problem,
    Scan,
    check_pair_record,
    find_index_problems,
)
from langchain_rse.ingest.writing import UnexpectedVersionError, Writer
from langchain_rse.stores.compare_and_set import change
from langchain_rse.stores.namespaces import whole_store
from langchain_rse.stores.records import Manifest, manifest_key
from langchain_rse.text.quoting import counted, first_few

# A repair can uncover more problems, such as missing vectors of a restored manifest.
_REPAIRS = 2
_EXAMPLES = 5
# Documents to add again that a report names, at most.
_NAMED = 100


@dataclass(frozen=True, kw_only=True)
class CheckReport:
    """The result of a check: size of the stores, problems found and problems repaired.

    Attributes:
        documents: Number of documents.
        chunks: Number of chunks.
        problems: Number of remaining problems by kind.
        examples: A few examples of each kind of problem.
        repaired: Number of repaired problems by kind.
        add_again: Ids of documents that must be added, or adopted, again.
        notes: Checks that were not possible, and leftovers that were kept.
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
        """True if no problem remains and no document must be added again."""
        return not (self.problems or self.add_again)

    def __str__(self) -> str:
        size = f"{counted(self.documents, 'document')}, {counted(self.chunks, 'chunk')}"
        lines = [f"{size}: {'no problems' if self.ok else 'problems found'}"]
        for kind, count in self.repaired.items():
            lines.append(f"repaired: {PROBLEMS[kind]}: {count:,}")
        for kind, count in self.problems.items():
            lines.append(f"{PROBLEMS[kind]}: {count:,}, such as {'; '.join(self.examples[kind])}")
        if self.add_again:
            names = first_few(map(repr, self.add_again), _NAMED)
            lines.append(f"add (or adopt) again: {names}")
        lines += [f"note: {note}" for note in self.notes]
        return "\n".join(lines)


def check_stores(
    writer: Writer, *, should_repair: bool, show_progress: bool = False
) -> CheckReport:
    """Check two stores; with ``should_repair``, repair problems and check again."""
    indexes: list[str] = []
    if should_repair:
        # Indexes first: a record missing from an index would count as lost.
        indexes = _rebuild_indexes(writer)
    pair = check_pair_record(writer, repair=should_repair)
    with progress_bar(None, unit="records", title="Checking", show=show_progress) as advance:
        scan = Scan(writer, advance)
        scan.run()
        if not should_repair:
            return _report(scan, [*pair, *scan.problems])
        found = _count([Problem("indexes", indexes), *pair, *scan.problems])
        _check_repairable(scan)
        for _ in range(_REPAIRS):
            if not scan.problems:
                break
            _repair(scan)
            # The full-text index keeps words of damaged records that were removed.
            _rebuild_indexes(writer)
            scan = Scan(writer, advance, notes=scan.notes)
            scan.run()
            found |= _count(scan.problems)
    repaired = found - _count(scan.problems)
    return replace(_report(scan, scan.problems), repaired=dict(repaired))


def _count(problems: Iterable[Problem]) -> Counter[str]:
    """Count problems by kind."""
    counts: Counter[str] = Counter()
    for problem in problems:
        counts[problem.kind] += len(problem.items)
    return counts


def _report(scan: Scan, problems: Sequence[Problem]) -> CheckReport:
    """Make the report of a scan."""
    examples: dict[str, list[str]] = {}
    for problem in problems:
        examples_of_kind = examples.setdefault(problem.kind, [])
        if len(examples_of_kind) < _EXAMPLES:
            examples_of_kind.append(str(problem))
    return CheckReport(
        documents=scan.documents,
        chunks=scan.chunks,
        problems=dict(_count(problems)),
        examples=examples,
        add_again=sorted(set(scan.add_again.values())),
        notes=list(scan.notes),
    )


# Repairing


def _rebuild_indexes(writer: Writer) -> list[str]:
    """Rebuild the docstore's indexes if they do not match its records; return the problems."""
    problems = find_index_problems(writer)
    if problems:
        store: Any = whole_store(writer.docstore)
        store.rebuild_indexes()
    return problems


def _check_repairable(scan: Scan) -> None:
    """Refuse to repair a docstore that is empty or mostly corrupt.

    Raises:
        StoreMismatchError: If the docstore is empty but the vector store is not.
        FormatError: If most manifests are in the format of another version of this package.
        CorruptRecordError: If most manifests are corrupt.
    """
    writer = scan.writer
    if scan.vectors and scan.documents == 0 and not scan.unreadable and not scan.manifests:
        vectors = counted(len(scan.vectors), "vector")
        store = type(writer.vectors.adapter.store).__name__
        raise StoreMismatchError(
            f"the docstore {writer.docstore!r:.200} is empty, but {store} has {vectors} of "
            "documents. Check the path of the docstore. No vector was removed. If the docstore is "
            "lost, delete the collection through the vector store and add the documents again"
        )
    unreadable = len(scan.unreadable)
    all_documents = scan.documents + len(scan.manifests) + unreadable
    if 2 * unreadable > all_documents:
        for error in scan.unreadable:
            if isinstance(error, FormatError):
                raise error
        raise CorruptRecordError(
            f"{unreadable} of {counted(all_documents, 'document')} cannot be read "
            f"({scan.unreadable[0]}). Nothing was repaired. Restore a backup of the docstore, or "
            "index the documents again into a new docstore and a new collection"
        )


def _repair(scan: Scan) -> None:
    """Repair the problems of a scan; skip documents that have changed since."""
    writer = scan.writer
    for manifest in scan.manifests:
        # A corrupt record counts as missing.
        change(writer.docstore, [(manifest_key(manifest.key), None, manifest.to_document())])
    unlisted = scan.unlisted
    if not scan.unreadable:
        writer.vectors.delete(scan.vectors)
        writer.records.delete(scan.records)
    elif any(unlisted.values()) or scan.vectors or scan.records:
        unlisted = {}
        scan.notes[
            "leftovers of unknown documents were kept, because some manifests cannot be read. Add "
            "those documents again, then check again"
        ] = None

    def with_leftovers_as_garbage(manifest: Manifest) -> Manifest:
        leftovers = [*manifest.abandoned(), *unlisted.get(manifest.key, [])]
        return manifest.with_garbage(leftovers)

    unfinished = writer.records.change_manifests(scan.unfinished, with_leftovers_as_garbage)
    writer.remove_garbage(unfinished.values())
    before = {stored.manifest.key: stored.manifest.current for stored in scan.damaged}

    def as_damaged(manifest: Manifest) -> Manifest | None:
        is_unchanged = manifest.current == before[manifest.key]
        return replace(manifest, is_damaged=True) if is_unchanged else None

    writer.records.change_manifests(scan.damaged, as_damaged)
    for document, version in scan.to_write:
        with suppress(UnexpectedVersionError):  # changed since: left to the next scan
            writer.write([document], {document.doc_id: version})
