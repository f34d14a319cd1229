"""How much of the evidence retrievers bring within a budget of text: ours beside others.

Run from anywhere: ``python benchmarks/quality.py --data PATH``. PATH is a folder with a
sub-folder for each set of questions, which has ``questions.jsonl`` (see
`langchain_rse.evaluation.load_questions`) and ``documents/`` with texts (``.md``, ``.txt`` or
``.txt.gz``; a document's id is its name without these). Nothing is downloaded; vectors are
kept in a cache, since embedding takes minutes.
"""

from __future__ import annotations

import argparse
import gzip
import json
import logging
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from alternatives import (
    CANDIDATES,
    HAS_DSRAG,
    DsragRetriever,
    FilledRetriever,
    LexicalRetriever,
    NeighborRetriever,
    make_ensemble,
    make_parents,
)
from charts import draw_penalties, draw_recall
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.stores import BaseStore, InMemoryStore
from langchain_text_splitters import RecursiveCharacterTextSplitter
from numpy.typing import NDArray
from vectors import MODELS, CachedEmbeddings, MatrixStore, progress

from langchain_rse import PRESETS, RSEConfig, RSERetriever, SQLDocStore
from langchain_rse.evaluation import Question, Report, evaluate, load_questions

HERE = Path(__file__).resolve().parent

OURS = "langchain-rse"
OURS_TRIMMED = "langchain-rse, allow_trim"
TOP_K = "top-k chunks"
INSTALL_DSRAG = "pip install --no-deps dsrag==0.5.6"

CEILING = 16_000
PENALTIES = (0.1, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.7)
# No penalty: everything that fits is returned.
FILL: Mapping[str, Any] = {"irrelevant_chunk_penalty": 0.0}
RESAMPLES = 2_000
SEED = 0
METRICS = {"recall": ".3f", "iou": ".3f", "segments": ".1f", "characters": ",.0f"}
TITLES = {
    "recall": "Evidence recall",
    "iou": "IoU of evidence and what was returned",
    "segments": "Segments returned",
    "characters": "Characters returned",
}

# One thing changed at a time: what is there, taken away, and values around the default.
CHANGES: Mapping[str, Sequence[Any]] = {
    "neighbor_credit": (0.0, 0.25, 0.4, 0.6),
    "neighbor_radius": (1, 3),
    "lexical_credit": (0.0, 0.3, 0.5, 0.9),
    "segment_cost": (0.0, 0.1, 0.25, 0.5),
    "decay_rate": (10.0, 30.0, 60.0, 1e9),
    "calibration": ("identity", "rank"),
    "top_k_for_document_selection": (5, 10, None),
    "max_length": (15,),
    "fetch_k": (100, 400),
}
ABLATIONS: tuple[tuple[str, Mapping[str, Any]], ...] = tuple(
    (f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}", {name: value})
    for name, values in CHANGES.items()
    for value in values
)

# Words and vectors: of the default, and of it without words among the vectors' candidates.
VECTORS = "vectors alone: lexical_credit=0"
HYBRIDS: tuple[tuple[str, Mapping[str, Any]], ...] = tuple(
    (f"hybrid={share}{title}", {"hybrid": share, **settings})
    for title, settings in (("", {}), (", lexical_credit=0", {"lexical_credit": 0.0}))
    for share in (0.1, 0.2, 0.3, 0.4)
)
SHARES = (0.3, 0.5)

Floats = NDArray[np.float64]
At = Callable[[int], BaseRetriever]
Cells = list[str]


class Layout(NamedTuple):
    """How a folder is measured.

    Attributes:
        chunk_size: Characters of a full chunk.
        budgets: Characters that may be returned, ascending.
        names: Whether chunks are embedded with their document's name in front.
    """

    chunk_size: int
    budgets: tuple[int, ...]
    names: bool


LAYOUTS = {
    "excerpts": Layout(400, (800, 1600, 3200, 6400), names=False),
    "filings": Layout(800, (4000, 8000, 16000), names=True),
}
OTHER_LAYOUT = Layout(800, (4000, 8000, 16000), names=False)


@dataclass(frozen=True)
class Folder:
    """A set of documents and questions about them.

    Attributes:
        name: The sub-folder's name.
        layout: How it is measured.
        sources: Texts of the documents by id.
        questions: The questions with their evidence.
    """

    name: str
    layout: Layout
    sources: dict[str, str]
    questions: list[Question]

    @property
    def cells(self) -> Cells:
        """Titles of its columns in tables."""
        return [f"{self.name} {budget:,}" for budget in self.layout.budgets]


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


def main() -> None:
    """Measure, print, and write what was printed."""
    arguments = parse_arguments()
    folders = [read_folder(arguments, name) for name in folder_names(arguments)]
    if arguments.hybrid:
        write_hybrid(folders, arguments)
        return
    results = [measure(folder, arguments) for folder in folders]
    command = "python benchmarks/quality.py --data PATH" + "".join(
        f" {option}" for option in options_given(arguments)
    )
    text = "\n".join(write_up(results, arguments.embeddings, command))
    print(text)
    out: Path = arguments.out
    out.mkdir(parents=True, exist_ok=True)
    stem = f"quality-{arguments.embeddings}"
    (out / f"{stem}.md").write_text(text + "\n", encoding="utf-8")
    figures = json.dumps(
        {"command": command, "embeddings": arguments.embeddings, "folders": figures_of(results)},
        indent=1,
    )
    (out / f"{stem}.json").write_text(figures + "\n", encoding="utf-8")
    title = f"{arguments.embeddings} vectors"
    draw_recall(
        {each.folder.name: each.filled for each in results}, OURS, title, out / f"{stem}-recall.png"
    )
    draw_penalties(
        {each.folder.name: (each.penalties, each.stopped) for each in results},
        (OURS, TOP_K),
        title,
        out / f"{stem}-penalty.png",
    )


# What is measured


def parse_arguments() -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with the sub-folders")
    parser.add_argument("--embeddings", choices=MODELS, default="minilm", help="default minilm")
    parser.add_argument("--folders", nargs="+", metavar="NAME", help="default: all in PATH")
    parser.add_argument("--chunk-size", type=int, help="default 400 for excerpts, else 800")
    parser.add_argument(
        "--budgets",
        type=int,
        nargs="+",
        help="characters; default 800 1600 3200 6400 for excerpts, else 4000 8000 16000",
    )
    parser.add_argument(
        "--names",
        action=argparse.BooleanOptionalAction,
        help="embed chunks with their document's name in front; default for filings",
    )
    parser.add_argument("--ablations", action="store_true", help="also change one thing at a time")
    parser.add_argument(
        "--hybrid", action="store_true", help="only vectors and words, each alone and together"
    )
    parser.add_argument("--cache", type=Path, default=HERE / ".cache", help="folder for vectors")
    parser.add_argument("--out", type=Path, default=HERE / "results", help="folder for results")
    return parser.parse_args()


def options_given(arguments: argparse.Namespace) -> Iterator[str]:
    """The options that decide what comes out."""
    yield f"--embeddings {arguments.embeddings}"
    if arguments.folders:
        yield "--folders " + " ".join(arguments.folders)
    if arguments.chunk_size:
        yield f"--chunk-size {arguments.chunk_size}"
    if arguments.budgets:
        yield "--budgets " + " ".join(map(str, arguments.budgets))
    if arguments.names is not None:
        yield "--names" if arguments.names else "--no-names"
    if arguments.ablations:
        yield "--ablations"
    if arguments.hybrid:
        yield "--hybrid"


def folder_names(arguments: argparse.Namespace) -> list[str]:
    """The sub-folders to measure."""
    names: list[str] = arguments.folders or sorted(
        path.parent.name for path in arguments.data.glob("*/questions.jsonl")
    )
    missing = [name for name in names if not (arguments.data / name / "questions.jsonl").exists()]
    if missing or not names:
        sys.exit(f"{arguments.data} has no {'/'.join(missing) or '*'}/questions.jsonl")
    return names


def read_folder(arguments: argparse.Namespace, name: str) -> Folder:
    """Read documents and questions."""
    layout = LAYOUTS.get(name, OTHER_LAYOUT)
    if arguments.chunk_size:
        layout = layout._replace(chunk_size=arguments.chunk_size)
    if arguments.budgets:
        layout = layout._replace(budgets=tuple(sorted(arguments.budgets)))
    if arguments.names is not None:
        layout = layout._replace(names=arguments.names)
    path = arguments.data / name
    sources = {}
    for file in sorted((path / "documents").iterdir()):
        doc_id = file.name.removesuffix(".gz")
        if doc_id.endswith((".md", ".txt")):
            # Offsets count every character: line ends stay as they are.
            reader = gzip.open if file.suffix == ".gz" else open
            with reader(file, "rt", encoding="utf-8", newline="") as stream:
                sources[doc_id.rpartition(".")[0]] = str(stream.read())
    return Folder(name, layout, sources, load_questions(path / "questions.jsonl"))


# Measuring


def measure(folder: Folder, arguments: argparse.Namespace) -> Results:
    """Index a folder once and ask all methods."""
    size = folder.layout.chunk_size
    ours, store = index(folder, arguments, InMemoryStore())
    documents = documents_of(folder)
    plain = store.as_retriever(search_kwargs={"k": CANDIDATES})

    results = Results(folder, chunks=len(store))
    filled = results.filled
    filled[TOP_K] = ask(folder, TOP_K, plain)
    for around in (1, 2):
        label = f"each hit ±{around}"
        neighbors = NeighborRetriever(vectorstore=store, docstore=ours.docstore, around=around)
        filled[label] = ask(folder, label, neighbors)
    for times in (3, 5):
        label = f"parent of {times} chunks"
        children = store.another(f"{folder.name}, children of {label}")
        parents = make_parents(children, documents, size, times)
        filled[label] = ask(folder, label, parents)
    for label, at in published_forms(ours, size).items():
        filled[label] = ask_each(folder, label, at)
    filled[OURS] = ask(folder, OURS, ours, **FILL)
    filled[OURS_TRIMMED] = ask(folder, OURS_TRIMMED, ours, **FILL, allow_trim=True)

    results.stopped[TOP_K] = ask(folder, TOP_K, plain, budgets=[CEILING])
    results.stopped[OURS] = ask(folder, OURS, ours, budgets=[CEILING])
    for penalty in PENALTIES:
        results.penalties[penalty] = ask(
            folder, f"penalty {penalty}", ours, [CEILING], irrelevant_chunk_penalty=penalty
        )
    if arguments.ablations:
        for label, settings in ABLATIONS:
            results.ablations[label] = ask(folder, label, ours, **{**FILL, **settings})
    progress("")
    return results


def documents_of(folder: Folder) -> list[Document]:
    """The documents of a folder."""
    return [
        Document(page_content=text, metadata={"doc_id": name})
        for name, text in folder.sources.items()
    ]


def index(
    folder: Folder, arguments: argparse.Namespace, docstore: BaseStore[str, Document]
) -> tuple[RSERetriever, MatrixStore]:
    """Our retriever over a folder's chunks, and its vector store."""
    embeddings = CachedEmbeddings(
        arguments.embeddings, arguments.cache / f"{folder.name}-{arguments.embeddings}.npz"
    )
    store = MatrixStore(embeddings, f"{folder.name}, chunks", named=folder.layout.names)
    ours = RSERetriever(
        vectorstore=store,
        docstore=docstore,
        text_splitter=RecursiveCharacterTextSplitter(
            chunk_size=folder.layout.chunk_size, chunk_overlap=0
        ),
    )
    progress(f"{folder.name}: indexing")
    ours.add_documents(documents_of(folder))
    embeddings.matrix([question.question for question in folder.questions], "questions")
    return ours, store


def measure_hybrid(folder: Folder, arguments: argparse.Namespace) -> Results:
    """Ask by vectors, by words and by both, over a docstore with a full-text index."""
    docstore = SQLDocStore("sqlite://", lexical=True)
    ours, store = index(folder, arguments, docstore)
    results = Results(folder, chunks=len(store))
    reports = results.hybrids
    by_vectors = store.as_retriever(search_kwargs={"k": CANDIDATES})
    by_words = LexicalRetriever(docstore=docstore)
    reports[TOP_K] = ask(folder, TOP_K, by_vectors)
    reports["top-k chunks by words"] = ask(folder, "words", by_words)
    for share in SHARES:
        label = f"top-k chunks, EnsembleRetriever, words {share}"
        reports[label] = ask(folder, label, make_ensemble(by_vectors, by_words, share))
    reports[VECTORS] = ask(folder, VECTORS, ours, **FILL, lexical_credit=0.0)
    reports[OURS] = ask(folder, OURS, ours, **FILL)
    for label, settings in HYBRIDS:
        reports[label] = ask(folder, label, ours, **{**FILL, **settings})
    progress("")
    docstore.close()
    return results


def published_forms(ours: RSERetriever, chunk_size: int) -> dict[str, At]:
    """By label: the published forms of RSE, given a budget to fill."""

    def published(config: RSEConfig, preset: str | None = None) -> At:
        retriever = RSERetriever(
            vectorstore=ours.vectorstore,
            docstore=ours.docstore,
            config=config,
            max_context_length=None,
        )

        def at(budget: int) -> BaseRetriever:
            if preset is None:
                return FilledRetriever(retriever=retriever, chunk_size=chunk_size, budget=budget)
            return DsragRetriever(
                retriever=retriever, chunk_size=chunk_size, budget=budget, preset=preset
            )

        return at

    names = ("balanced", "precision", "find_all")
    presets = {name: PRESETS[f"dsrag-{name}"] for name in names}
    forms = {
        f"dsrag-{name}, {calibration}": published(preset.replace(calibration=calibration))
        for calibration in ("identity", "minmax")
        for name, preset in presets.items()
    }
    if HAS_DSRAG:
        forms |= {
            f"dsRAG itself, {name}": published(preset.replace(calibration="identity"), name)
            for name, preset in presets.items()
        }
    return {**forms, "kadane": published(PRESETS["kadane"])}


def ask(
    folder: Folder,
    label: str,
    retriever: BaseRetriever,
    budgets: Sequence[int] | None = None,
    **settings: Any,  # noqa: ANN401 - the retriever's own
) -> Report:
    """Ask all questions of a folder."""
    progress(f"{folder.name}: {label}")
    with quiet():
        return evaluate(
            retriever,
            folder.questions,
            budgets or folder.layout.budgets,
            sources=folder.sources,
            name=label,
            resamples=RESAMPLES,
            seed=SEED,
            **settings,
        )


def ask_each(folder: Folder, label: str, at: At) -> Report:
    """Ask another retriever for each budget."""
    reports = [ask(folder, label, at(budget), [budget]) for budget in folder.layout.budgets]
    figures = {
        metric: np.concatenate([report.figures[metric] for report in reports], axis=1)
        for metric in Report.metrics
    }
    return Report(label, folder.layout.budgets, reports[0].questions, figures, RESAMPLES, SEED)


@contextmanager
def quiet() -> Iterator[None]:
    """Without LangChain's remarks about each run."""
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


# Figures over several folders


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


# Tables


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
    others = [label for label in results[0].filled if label not in (OURS, OURS_TRIMMED)]
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
    for penalty in PENALTIES:
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
    for label, _ in ABLATIONS:
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


def write_hybrid(folders: Sequence[Folder], arguments: argparse.Namespace) -> None:
    """Measure, print and write words beside vectors."""
    results = [measure_hybrid(folder, arguments) for folder in folders]
    command = "python benchmarks/quality.py --data PATH" + "".join(
        f" {option}" for option in options_given(arguments)
    )
    text = "\n".join(write_up_hybrid(results, arguments.embeddings, command))
    print(text)
    out: Path = arguments.out
    out.mkdir(parents=True, exist_ok=True)
    (out / f"hybrid-{arguments.embeddings}.md").write_text(text + "\n", encoding="utf-8")


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
            for metric in Report.metrics
        }
        for label, report in reports.items()
    }


if __name__ == "__main__":
    main()
