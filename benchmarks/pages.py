"""The Markdown pages of quality.py and their figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from alternatives import CANDIDATES, HAS_DSRAG
from folders import Folder
from numpy.typing import NDArray

from langchain_rse.evaluation import Question, Report

OURS = "langchain-rse"
TOP_K = "top-k chunks"
# Of the hybrid page: the default without words among the vectors' candidates.
VECTORS = "vectors alone: lexical_weight=0"
INSTALL_DSRAG = "pip install --no-deps dsrag==0.5.6"

CEILING = 16_000
RESAMPLES = 2_000
SEED = 0
METRICS = {"recall": ".3f", "iou": ".3f", "segments": ".1f", "characters": ",.0f"}
TITLES = {
    "recall": "Evidence recall",
    "iou": "IoU of evidence and what was returned",
    "segments": "Segments returned",
    "characters": "Characters returned",
}

Cells = list[str]


@dataclass
class Results:
    """The reports on a folder, by what was measured.

    Attributes:
        folder: The folder.
        chunks: The number of chunks in the index.
        filled: By method: the budgets filled.
        stopped: By method: what is returned under the ceiling.
        penalties: By penalty: what ours returns under the ceiling.
        ablations: By label: ours with one thing changed, the budgets filled.
        hybrids: By label: vectors and words, the budgets filled.
    """

    folder: Folder
    chunks: int = 0
    filled: dict[str, Report] = field(default_factory=dict)
    stopped: dict[str, Report] = field(default_factory=dict)
    penalties: dict[float, Report] = field(default_factory=dict)
    ablations: dict[str, Report] = field(default_factory=dict)
    hybrids: dict[str, Report] = field(default_factory=dict)


def mean_over_cells(reports: Sequence[Report], metric: str) -> float:
    """The mean over all folders' budgets, each cell counting alike."""
    return float(np.concatenate([report.mean(metric) for report in reports]).mean())


def difference(ours: Sequence[Report], others: Sequence[Report], metric: str) -> str:
    """The mean difference over all cells with its paired bootstrap interval.

    Each folder's questions are drawn anew, the same ones for both and for all budgets.
    """
    rng = np.random.default_rng(SEED)
    cells, drawn = [], []
    for our, other in zip(ours, others, strict=True):
        differences = our.figures[metric] - other.figures[metric]
        count = len(differences)
        draws = rng.multinomial(count, np.full(count, 1 / count), RESAMPLES)
        cells.append(differences.mean(axis=0))
        drawn.append(draws @ differences / count)
    low, high = np.quantile(np.concatenate(drawn, axis=1).mean(axis=1), [0.025, 0.975])
    return f"{np.concatenate(cells).mean():+.3f} [{low:+.3f}, {high:+.3f}]"


def by_quartile(folder: Folder) -> list[tuple[str, NDArray[np.bool_]]]:
    """The questions by how long their evidence is: a title and which questions, four times."""
    lengths = np.array([evidence_length(question) for question in folder.questions])
    places = np.argsort(np.argsort(lengths, kind="stable"), kind="stable")
    quartile = places * 4 // len(lengths)
    return [
        (f"{lengths[quartile == q].min():,} to {lengths[quartile == q].max():,}", quartile == q)
        for q in range(4)
        if (quartile == q).any()
    ]


def evidence_length(question: Question) -> int:
    """Characters of the evidence, each counted once."""
    places = {
        (part.doc_id, place) for part in question.evidence for place in range(part.start, part.end)
    }
    return len(places)


def table(header: Cells, rows: Sequence[Cells], left: int = 1) -> list[str]:
    """A Markdown table that also reads well as it stands; the first columns to the left."""
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    rule = ["-" * w if i < left else "-" * (w - 1) + ":" for i, w in enumerate(widths)]
    lines = [
        [
            c.ljust(w) if i < left else c.rjust(w)
            for i, (c, w) in enumerate(zip(r, widths, strict=True))
        ]
        for r in (header, rule, *rows)
    ]
    return [f"| {' | '.join(line)} |" for line in lines] + [""]


def write_up(results: Sequence[Results], embeddings: str, command: str) -> Iterator[str]:
    """The whole page, line by line."""
    yield from (f"# Retrieval quality, {embeddings} vectors", "", f"Made by `{command}`.", "")
    yield from table(
        ["folder", "documents", "chunks", "chunk size", "name in front", "questions"],
        [
            [
                each.folder.name,
                f"{len(each.folder.sources):,}",
                f"{each.chunks:,}",
                f"{each.folder.layout.chunk_size:,}",
                "yes" if each.folder.layout.names else "no",
                f"{len(each.folder.questions):,}",
            ]
            for each in results
        ],
    )
    yield from write_filled(results)
    yield from write_best(results)
    yield from write_stopped(results)
    if all(each.ablations for each in results):
        yield from write_ablations(results)


def write_filled(results: Sequence[Results]) -> Iterator[str]:
    """All methods at all budgets."""
    yield from (
        "## Every method fills the budget",
        "",
        "Columns: folder and budget in characters. Segments are taken best first until the",
        f"budget is spent, the last one cut there; {CANDIDATES} candidates a query, the same",
        "vectors for all. The published forms of RSE are asked so that they fill the budget:",
        "see `FilledRetriever` in benchmarks/alternatives.py. Ours fills it at a penalty of 0.",
        "",
    )
    if not HAS_DSRAG:
        yield from (f"dsRAG is not installed, its rows are missing: `{INSTALL_DSRAG}`.", "")
    header = ["", *(cell for each in results for cell in each.folder.cells), "mean"]
    for metric, form in METRICS.items():
        yield from (f"### {TITLES[metric]}", "")
        rows = []
        for label in results[0].filled:
            reports = [each.filled[label] for each in results]
            means = [*np.concatenate([report.mean(metric) for report in reports])]
            values = [format(value, form) for value in (*means, float(np.mean(means)))]
            rows.append([f"**{label}**" if label == OURS else label, *values])
        yield from table(header, rows)


def write_best(results: Sequence[Results]) -> Iterator[str]:
    """Ours beside the best of the alternatives."""
    others = [label for label in results[0].filled if label != OURS]
    yield from (
        "### Ours and the best alternative of each cell",
        "",
        "Differences with their 95 % interval, a bootstrap over the questions, paired. The best",
        "alternative is picked after the fact, cell by cell.",
        "",
    )
    header = ["cell", "best alternative", "its recall", "ours", "ours minus it"]
    header += ["ours minus top-k", "segments: top-k", "ours"]
    rows = []
    for each in results:
        ours, top_k = each.filled[OURS], each.filled[TOP_K]
        for i, cell in enumerate(each.folder.cells):
            best = max(others, key=lambda label: float(each.filled[label].mean("recall")[i]))
            report = each.filled[best]
            rows.append(
                [
                    cell,
                    best,
                    f"{report.mean('recall')[i]:.3f}",
                    f"{ours.mean('recall')[i]:.3f}",
                    with_interval(ours, report, i),
                    with_interval(ours, top_k, i),
                    f"{top_k.mean('segments')[i]:.1f}",
                    f"{ours.mean('segments')[i]:.1f}",
                ]
            )
    yield from table(header, rows, left=2)

    yield from ("### Ours and each alternative, mean over the cells", "")
    our_reports = [each.filled[OURS] for each in results]
    rows = []
    reports_of = {
        label: [each.filled[label] for each in results]
        for label in results[0].filled
        if label != OURS
    }
    for label in sorted(reports_of, key=lambda k: -mean_over_cells(reports_of[k], "recall")):
        reports = reports_of[label]
        row = [label]
        for metric in ("recall", "iou"):
            row += [
                f"{mean_over_cells(reports, metric):.3f}",
                difference(our_reports, reports, metric),
            ]
        rows.append(row)
    header = ["", "recall", "ours minus it", "IoU", "ours minus it"]
    yield from table(header, rows)
    name, recall, minus, *_ = next(row for row in rows if row[0] in others)
    yield from (
        f"Best single alternative: {name}, recall {recall}; ours minus it: {minus}.",
        "",
    )


def with_interval(ours: Report, other: Report, place: int) -> str:
    """The difference of one cell."""
    compared = ours.compare(other)
    low, high = compared.interval[place]
    return f"{compared.difference[place]:+.3f} [{low:+.3f}, {high:+.3f}]"


def write_stopped(results: Sequence[Results]) -> Iterator[str]:
    """What is returned where a method may stop early."""
    yield from (
        "## When it may stop",
        "",
        f"Ours as it comes, with a ceiling of {CEILING:,} characters, beside top-k chunks up to",
        "that ceiling; all questions of a folder, then by the length of their evidence.",
        "",
    )
    header = ["folder", "evidence, characters", "questions"]
    for label in (TOP_K, "ours"):
        header += [f"{label}: characters", "recall", "IoU"]
    rows = []
    for each in results:
        count = len(each.folder.questions)
        everything = ("all", np.ones(count, dtype=bool))
        for title, some in (everything, *by_quartile(each.folder)):
            row = [each.folder.name, title, str(some.sum())]
            for label in (TOP_K, OURS):
                row += stopped_cells(each.stopped[label], some)
            rows.append(row)
    yield from table(header, rows, left=2)

    yield from (f"Penalties, the same ceiling of {CEILING:,} characters:", "")
    header = ["penalty"]
    for each in results:
        header += [f"{each.folder.name}: characters", "recall", "IoU"]
    rows = []
    for penalty in results[0].penalties:
        row = [f"{penalty:.2f}"]
        for each in results:
            row += stopped_cells(each.penalties[penalty])
        rows.append(row)
    yield from table(header, rows)


def stopped_cells(report: Report, some: NDArray[np.bool_] | None = None) -> Cells:
    """Characters, recall and IoU of some questions."""
    return [
        format(float(report.figures[metric][slice(None) if some is None else some].mean()), form)
        for metric, form in (("characters", ",.0f"), ("recall", ".3f"), ("iou", ".3f"))
    ]


def write_ablations(results: Sequence[Results]) -> Iterator[str]:
    """Ours with one thing changed."""
    yield from (
        "## One thing changed",
        "",
        "Means over the cells of the first tables, and the difference to the defaults with its",
        "95 % interval.",
        "",
    )
    default = [each.filled[OURS] for each in results]
    names = [each.folder.name for each in results]
    header = ["", "recall", "minus default", "IoU", "minus default"]
    header += [f"recall, {name}" for name in names]
    rows = [
        [
            f"**{OURS}**",
            f"{mean_over_cells(default, 'recall'):.3f}",
            "",
            f"{mean_over_cells(default, 'iou'):.3f}",
            "",
            *(f"{mean_over_cells([report], 'recall'):.3f}" for report in default),
        ]
    ]
    for label in results[0].ablations:
        reports = [each.ablations[label] for each in results]
        row = [label]
        for metric in ("recall", "iou"):
            row += [
                f"{mean_over_cells(reports, metric):.3f}",
                difference(reports, default, metric),
            ]
        row += [
            difference([report], [base], "recall")
            for report, base in zip(reports, default, strict=True)
        ]
        rows.append(row)
    yield from table(header, rows)


def write_up_hybrid(results: Sequence[Results], embeddings: str, command: str) -> Iterator[str]:
    """The page about words beside vectors, line by line."""
    yield from (
        f"# Hybrid search, {embeddings} vectors",
        "",
        f"Made by `{command}`.",
        "",
        f"Evidence recall, every method fills the budget: {CANDIDATES} candidates of each side,",
        "those by words from SQLite's FTS5 (BM25). Differences with their 95 % interval, a",
        "bootstrap over the questions, paired.",
        "",
    )
    ensembles = [label for label in results[0].hybrids if "EnsembleRetriever" in label]

    def reports_of(label: str) -> list[Report]:
        return [each.hybrids[label] for each in results]

    best = max(ensembles, key=lambda label: mean_over_cells(reports_of(label), "recall"))
    bases = {"vectors alone": VECTORS, "the ensemble": best, "the default": OURS}
    header = ["", *(cell for each in results for cell in each.folder.cells), "mean"]
    header += [f"minus {title}" for title in bases]
    rows = []
    for label in results[0].hybrids:
        reports = reports_of(label)
        row = [f"**{label}**" if label == OURS else label]
        row += [format(value, ".3f") for report in reports for value in report.mean("recall")]
        row.append(format(mean_over_cells(reports, "recall"), ".3f"))
        row += [
            "" if label == base else difference(reports, reports_of(base), "recall")
            for base in bases.values()
        ]
        rows.append(row)
    yield from table(header, rows)
    yield from (f"The ensemble is the better one: {best}.", "")


def figures_of(results: Sequence[Results]) -> dict[str, Any]:
    """All means, ready for JSON."""
    return {
        each.folder.name: {
            "chunk_size": each.folder.layout.chunk_size,
            "budgets": list(each.folder.layout.budgets),
            "names": each.folder.layout.names,
            "documents": len(each.folder.sources),
            "chunks": each.chunks,
            "questions": len(each.folder.questions),
            "filled": means_of(each.filled),
            "ceiling": CEILING,
            "stopped": means_of(each.stopped),
            "penalties": means_of(each.penalties),
            "ablations": means_of(each.ablations),
        }
        for each in results
    }


def means_of(reports: Mapping[Any, Report]) -> dict[str, dict[str, list[float]]]:
    """The means of each report."""
    return {
        str(label): {
            metric: [round(float(mean), 6) for mean in report.mean(metric)]
            for metric in report.metrics
        }
        for label, report in reports.items()
    }
