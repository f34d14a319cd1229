"""Compares what the two stores have of each document, and has it repaired."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from langchain_rse._progress import progress_bar
from langchain_rse._sync import Steps
from langchain_rse.errors import StoreMismatchError
from langchain_rse.ingest.ownership import Ownership
from langchain_rse.ingest.repairing import Repairs
from langchain_rse.ingest.scanning import Finding, Scan, SeenManifest
from langchain_rse.ingest.writing import Writer
from langchain_rse.stores.pairing import PAIR_KEY, check_pair
from langchain_rse.text.quoting import counted, first_few

PROBLEMS = {
    "mismatch": "the two stores do not belong together",
    "indexes": "indexes of the docstore, such as for full text, that do not fit its records",
    "unreadable": "records that cannot be read, or do not fit their key",
    "spans": "places where spans do not fit the text or its chunks",
    "parts": "documents that no longer tell in which pieces they were added",
    "missing_chunks": "chunks without a record in the docstore",
    "missing_vectors": "chunks without a vector",
    "other_model": "documents with vectors of another embedding model",
    "unfinished": "documents whose adding or deleting was interrupted",
    "orphan_vectors": "vectors of no known version of a document",
    "foreign_vectors": "vectors that other code wrote: queries that find one fail",
    "orphan_records": "docstore records of no known document or version",
}
"""The kinds of problems that two stores can have, each with its description."""

# Repairing uncovers further problems, such as the records of an unreadable manifest.
_MOST_SCANS = 6
_EXAMPLES = 5
# Documents to add again that are named in the text of a report.
_NAMED = 100


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
        size = f"{counted(self.documents, 'document')}, {counted(self.chunks, 'chunk')}"
        lines = [f"{size}: {'nothing wrong' if self.ok else 'problems found'}"]
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
    writer: Writer, *, repair: bool, show_progress: bool = False
) -> Steps[CheckReport]:
    """Compare two stores; with ``repair``, correct what is wrong and compare again."""
    repairs = Repairs(writer)
    earlier_problems: set[tuple[str, str, str]] = set()
    if repair:
        # First of all, as records that an index does not find would count as lost.
        earlier_problems |= yield from repairs.repair_indexes()
    mismatch = yield from _check_pair(writer, repair=repair)
    last_problems: set[tuple[str, str, str]] = set()
    with (
        Ownership(writer.docstore, writer.vectors.batch_size) as ownership,
        progress_bar(None, unit="records", title="Checking", show=show_progress) as advance,
    ):
        for number in range(1, _MOST_SCANS + 1):
            scan = Scan(writer, ownership, advance)
            if (
                repair and number > 1
            ):  # removing damaged records leaves their words in the full-text index
                earlier_problems |= yield from repairs.repair_indexes()
            yield from scan.run()
            problems = scan.problems()
            if repair and number == 1:
                _check_docstore_not_empty(writer, scan)
            if not repair or not problems or problems == last_problems or number == _MOST_SCANS:
                break
            earlier_problems |= problems
            last_problems = problems
            yield from repairs.repair(scan.findings)
    return _report(scan, mismatch, repairs, repaired=earlier_problems - problems)


def _check_docstore_not_empty(writer: Writer, scan: Scan) -> None:
    """Refuse to remove all vectors of a store because the docstore beside it is empty."""
    orphans = sum(len(one.items) for one in scan.findings if one.kind == "orphan_vectors")
    if orphans and scan.records == 0:
        raise StoreMismatchError(
            f"the docstore {writer.docstore!r:.200} is empty, and "
            f"{type(writer.vectors.vectorstore).__name__} has {counted(orphans, 'vector')} of "
            "documents: is the path of the docstore right? No vector was removed. If the docstore "
            "is lost, delete the collection with the vector store's own methods, and add the "
            "documents again"
        )


def _check_pair(writer: Writer, *, repair: bool) -> Steps[list[Finding]]:
    """Check that the two stores belong together; with ``repair``, they do from now on."""
    try:
        writer.model = yield from check_pair(
            writer.docstore, writer.vectors.vectorstore, force=repair, record=repair
        )
    except StoreMismatchError as error:
        no_manifest = SeenManifest(None, None, is_there=False)
        return [Finding("mismatch", PAIR_KEY, no_manifest, [str(error)])]
    return []


def _report(
    scan: Scan,
    mismatch: Sequence[Finding],
    repairs: Repairs,
    *,
    repaired: set[tuple[str, str, str]],
) -> CheckReport:
    """Make the report from the last scan and all repairs."""
    problems: Counter[str] = Counter()
    examples: dict[str, list[str]] = {}
    for finding in [*scan.findings, *mismatch]:
        problems[finding.kind] += len(finding.items)
        examples_of_kind = examples.setdefault(finding.kind, [])
        if len(examples_of_kind) < _EXAMPLES:
            examples_of_kind.append(str(finding))
    return CheckReport(
        documents=scan.documents,
        chunks=scan.chunks,
        problems=dict(problems),
        examples=examples,
        repaired=dict(Counter(kind for kind, _, _ in repaired)),
        add_again=sorted(set(repairs.add_again.values())),
        notes=[*scan.not_checked, *repairs.removed],
    )
