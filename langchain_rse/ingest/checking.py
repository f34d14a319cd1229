"""Checks that both stores agree about every document, and repairs differences."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from langchain_rse._progress import progress_bar
from langchain_rse.ingest.problems import PROBLEMS, Problem, Scan, check_pair_record
from langchain_rse.ingest.repairing import check_repairable, rebuild_indexes, repair
from langchain_rse.ingest.writing import Writer
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
        indexes = rebuild_indexes(writer)
    pair = check_pair_record(writer, repair=should_repair)
    with progress_bar(None, unit="records", title="Checking", show=show_progress) as advance:
        scan = Scan(writer, advance)
        scan.run()
        if not should_repair:
            return _report(scan, [*pair, *scan.problems])
        found = _count([Problem("indexes", indexes), *pair, *scan.problems])
        check_repairable(scan)
        for _ in range(_REPAIRS):
            if not scan.problems:
                break
            repair(scan)
            # The full-text index keeps words of damaged records that were removed.
            rebuild_indexes(writer)
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
