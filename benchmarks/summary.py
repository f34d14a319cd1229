"""All sets of questions in one table: ours beside the best alternative of each.

Run from anywhere: ``python benchmarks/summary.py --data PATH``; PATH as for quality.py. Each set is
asked with the vectors of each model; sets in other languages with those of wordllama alone, as the
others are models of English. Rows with the cross-encoder are of a seeded sample of 40 questions and
their best 100 candidates. Sets are measured side by side in processes.
"""

from __future__ import annotations

import argparse
import dataclasses
import logging
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from alternatives import (
    CANDIDATES,
    ContinuityRetriever,
    FilledRetriever,
    InOrderRetriever,
    LargestGapRetriever,
    LayeredRetriever,
    NeighborRetriever,
    SameLengthRetriever,
    Search,
)
from charts import draw_sets
from cross_encoder import CANDIDATES as RERANKED_CANDIDATES
from cross_encoder import SEED, Cached
from folders import (
    LANGUAGE,
    LAYOUTS,
    OTHER_LAYOUT,
    Folder,
    add_embeddings,
    cached_cross_encoder,
    folder_names,
    make_parser,
    read_folder,
    write_page,
)
from langchain_classic.retrievers import ContextualCompressionRetriever
from langchain_classic.retrievers.document_compressors import CrossEncoderReranker as Classic
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.stores import InMemoryStore
from pages import CEILING, OURS, TOP_K, difference, table
from quality import FILL, ask, ask_each, index
from vectors import MatrixStore

from langchain_rse import PRESETS, RSERetriever
from langchain_rse.evaluation import Report
from langchain_rse.rerankers import CrossEncoderReranker

MULTILINGUAL = "wordllama"
# For retrievers that decide themselves how much comes back.
NO_BUDGET = 10_000_000
METRICS = {"recall": "Evidence recall", "whole": "Whole evidence"}


class Row(NamedTuple):
    """A set of questions, and how it is asked."""

    folder: str
    names: bool
    model: str
    reranked: bool

    @property
    def title(self) -> str:
        """The row's title."""
        reranker = ", cross-encoder" if self.reranked else ""
        return f"{self.folder}, {self.model}{reranker}"


class Pair(NamedTuple):
    """Two reports of the same length."""

    ours: Report
    other: Report


class Measured(NamedTuple):
    """What was measured of a row.

    Attributes:
        filled: By method: the budgets filled.
        gap: Ours, and the chunks up to the largest gap of the scores.
        stopped: Ours at the default penalty, and with a budget of that mean length, filled.
    """

    filled: dict[str, Report]
    gap: Pair
    stopped: Pair


def main() -> None:
    """Measure, print, and write what was printed."""
    parser = make_parser(__doc__)
    add_embeddings(parser)
    parser.add_argument("--folders", nargs="+", metavar="NAME", help="default: all in PATH")
    parser.add_argument("--models", nargs="+", default=["minilm", "bge"], help="default minilm bge")
    parser.add_argument("--questions", type=int, default=40, help="reranked; default 40")
    parser.add_argument(
        "--reranked", nargs="*", metavar="NAME", help="sets to rerank; default: all in English"
    )
    parser.add_argument("--workers", type=int, default=2, help="processes; default 2")
    arguments = parser.parse_args()
    rows = list(rows_of(arguments))
    with ProcessPoolExecutor(arguments.workers) as processes:
        measured = list(processes.map(measure, rows, [arguments] * len(rows)))
    options = f"--models {' '.join(arguments.models)} --questions {arguments.questions}"
    if arguments.folders:
        options += f" --folders {' '.join(arguments.folders)}"
    if arguments.reranked is not None:
        options += f" --reranked {' '.join(arguments.reranked)}"
    command = f"python benchmarks/summary.py --data PATH {options}"
    found = dict(zip(rows, measured, strict=True))
    stem = f"summary-{'-'.join(arguments.models)}"
    draw(found, arguments, stem)
    write_page(arguments, stem, write_up(found, command))


def draw(found: Mapping[Row, Measured], arguments: argparse.Namespace, stem: str) -> None:
    """Draw the recall of the sets in English, with the vectors of the first model."""
    model = arguments.models[0]
    sets = {}
    for row, measured in found.items():
        if row.model == model and not row.reranked and not row.folder.startswith(LANGUAGE):
            sets[row.folder] = measured.filled
    title = f"Evidence recall by characters, {model} vectors"
    for suffix, dark in (("", False), ("-dark", True)):
        draw_sets(sets, OURS, title, arguments.out / f"{stem}{suffix}.png", dark=dark)


def rows_of(arguments: argparse.Namespace) -> Iterator[Row]:
    """The sets with the models that can embed them, without and with the cross-encoder."""
    for name in folder_names(arguments):
        names = LAYOUTS.get(name, OTHER_LAYOUT).names
        if name.startswith(LANGUAGE):
            yield Row(name, names, MULTILINGUAL, reranked=False)
            continue
        for model in arguments.models:
            yield Row(name, names, model, reranked=False)
            if arguments.reranked is None or name in arguments.reranked:
                yield Row(name, names, model, reranked=True)


def measure(row: Row, arguments: argparse.Namespace) -> Measured:
    """Ask all methods about a set."""
    logging.disable(logging.WARNING)
    arguments.embeddings, arguments.names = row.model, row.names
    folder = read_folder(arguments, row.folder)
    if row.reranked:
        count = min(arguments.questions, len(folder.questions))
        chosen = random.Random(SEED).sample(folder.questions, count)
        folder = dataclasses.replace(folder, questions=chosen)
    indexed, store = index(folder, arguments, InMemoryStore())
    settings: dict[str, Any] = {"vectorstore": store, "docstore": indexed.docstore}
    if row.reranked:
        model = Cached(cached_cross_encoder(folder, arguments))
        plain: BaseRetriever = ContextualCompressionRetriever(
            base_compressor=Classic(model=model, top_n=RERANKED_CANDIDATES),
            base_retriever=store.as_retriever(search_kwargs={"k": RERANKED_CANDIDATES}),
        )
        reranker = CrossEncoderReranker(model=model)
        settings |= {"reranker": reranker, "fetch_k": RERANKED_CANDIDATES}
        search = by_cross_encoder(store, reranker)
    else:
        plain = store.as_retriever(search_kwargs={"k": CANDIDATES})
        search = by_vectors(store)
    ours = RSERetriever(**settings)
    filled = ask_filled(folder, plain, settings, reranked=row.reranked)
    filled[OURS] = ask(folder, OURS, ours, **FILL)
    return Measured(filled, ask_up_to_gap(folder, search, ours), ask_stopped(folder, ours))


def ask_filled(
    folder: Folder, plain: BaseRetriever, settings: dict[str, Any], *, reranked: bool
) -> dict[str, Report]:
    """Ask the alternatives, each made to fill the budgets."""
    reports = {TOP_K: ask(folder, TOP_K, plain)}
    reports["in document order"] = ask_each(
        folder, "in order", lambda budget: InOrderRetriever(retriever=plain, budget=budget)
    )
    reports["documents, then chunks"] = ask(folder, "layered", LayeredRetriever(retriever=plain))
    if not reranked:
        some: dict[str, Any] = {"store": settings["vectorstore"], "sources": folder.sources}
        for around in (1, 2):
            label = f"each hit ±{around}"
            reports[label] = ask(folder, label, NeighborRetriever(**some, around=around))
        reports["SCAR"] = ask(folder, "SCAR", ContinuityRetriever(**some))
    for calibration in ("minmax",) if reranked else ("identity", "minmax"):
        config = PRESETS["dsrag-balanced"].replace(calibration=calibration)
        label = f"dsrag-balanced, {calibration}"
        reports[label] = greedy(folder, label, RSERetriever(**settings, config=config))
    return reports


def by_vectors(store: MatrixStore) -> Search:
    """The candidates of a query with their cosine similarities."""

    def search(query: str) -> list[tuple[Document, float]]:
        return store.similarity_search_with_score(query, k=CANDIDATES)

    return search


def by_cross_encoder(store: MatrixStore, reranker: CrossEncoderReranker) -> Search:
    """The candidates of a query with the sigmoid of the cross-encoder's logits."""

    def search(query: str) -> list[tuple[Document, float]]:
        hits = store.similarity_search(query, k=RERANKED_CANDIDATES)
        ranked = reranker.compress_documents(hits, query)
        return [(hit, 1 / (1 + math.exp(-hit.metadata["relevance_score"]))) for hit in ranked]

    return search


def ask_up_to_gap(folder: Folder, search: Search, ours: RSERetriever) -> Pair:
    """Ask for the chunks up to the largest gap, and ours with as many characters a question."""
    gap = LargestGapRetriever(search=search)
    lengths = {}
    for question in folder.questions:
        texts = [hit.page_content for hit in gap.invoke(question.question)]
        lengths[question.question] = sum(map(len, texts))
    same_length = SameLengthRetriever(retriever=ours, lengths=lengths)
    return Pair(
        ours=ask(folder, OURS, same_length, [NO_BUDGET]),
        other=ask(folder, "largest gap", gap, [NO_BUDGET]),
    )


def ask_stopped(folder: Folder, ours: RSERetriever) -> Pair:
    """Ask ours at its default penalty, and for a filled budget of the length that it returns."""
    stopped = ask(folder, "default penalty", ours, [CEILING])
    length = max(round(float(stopped.mean("characters")[0])), 1)
    return Pair(ours=stopped, other=ask(folder, "as long", ours, [length], **FILL))


def greedy(folder: Folder, label: str, retriever: RSERetriever) -> Report:
    """Ask a published form, made to fill each budget."""
    retriever = retriever.model_copy(update={"max_context_length": None})

    def at(budget: int) -> BaseRetriever:
        size = folder.layout.chunk_size
        return FilledRetriever(retriever=retriever, chunk_size=size, budget=budget)

    return ask_each(folder, label, at)


def write_up(results: Mapping[Row, Measured], command: str) -> Iterator[str]:
    """The whole page, line by line."""
    yield from ("# All sets of questions", "", f"Made by `{command}`.", "")
    yield from (
        "Means over each set's budgets; every method fills them. The best alternative is the one",
        "with the highest mean in that row; *cells below* counts the budgets at which any",
        "alternative is above ours. Intervals: 95 %, paired, by bootstrap. Evidence is whole if it",
        "stands whole in one passage.",
        "",
    )
    for metric, title in METRICS.items():
        yield from (f"## {title}", "")
        yield from write_up_metric({row: each.filled for row, each in results.items()}, metric)
    yield from (
        "## Up to the largest gap of the scores",
        "",
        "Adaptive-k (arXiv 2506.08479) decides itself how much comes back: the candidates up to",
        "the largest drop of their scores, and five more. Within a budget to fill it would be",
        "top-k, so ours is given as many characters as it returned, question by question.",
        "",
    )
    yield from write_up_pairs({row: each.gap for row, each in results.items()}, "largest gap", OURS)
    yield from (
        "## At the default penalty",
        "",
        f"Ours as it comes, up to {CEILING:,} characters a question: how much it returns on",
        "average, and what that brings; then the same retriever with a penalty of 0 and that",
        "average as the budget of every question.",
        "",
    )
    stopped = {row: each.stopped for row, each in results.items()}
    yield from write_up_pairs(stopped, "filled", "default penalty")


def write_up_metric(results: Mapping[Row, Mapping[str, Report]], metric: str) -> Iterator[str]:
    """Ours beside the best alternative of each row, then all methods."""
    lines = []
    for row, reports in results.items():
        ours = reports[OURS]
        others = {label: report for label, report in reports.items() if label != OURS}
        best = max(others, key=lambda label: others[label].mean(metric).mean())
        highest = np.max([report.mean(metric) for report in others.values()], axis=0)
        below = int((ours.mean(metric) < highest).sum())
        lines.append(
            [
                row.title,
                f"{others[TOP_K].mean(metric).mean():.3f}",
                best,
                f"{others[best].mean(metric).mean():.3f}",
                f"{ours.mean(metric).mean():.3f}",
                difference([ours], [others[best]], metric),
                f"{below} of {highest.size}",
            ]
        )
    header = ["set, model", TOP_K, "best alternative", "its mean", OURS, "difference"]
    yield from table([*header, "cells below"], lines, left=1)
    for reranked in (False, True):
        some = {row: reports for row, reports in results.items() if row.reranked == reranked}
        if not some:
            continue
        labels = list(next(iter(some.values())))
        yield from table(
            ["behind the cross-encoder" if reranked else "vectors alone", *labels],
            [[row.title, *figures(reports, labels, metric)] for row, reports in some.items()],
        )
        for model in dict.fromkeys(row.model for row in some):
            of_model = [reports for row, reports in some.items() if row.model == model]
            means = [
                np.mean([reports[label].mean(metric).mean() for reports in of_model])
                for label in labels
            ]
            head = f"mean of {len(of_model)} sets, {model}"
            yield from table([head, *labels], [["", *(f"{mean:.3f}" for mean in means)]])


def write_up_pairs(pairs: Mapping[Row, Pair], other: str, ours: str) -> Iterator[str]:
    """Two reports of each row beside each other, with the mean length."""
    header = ["set, model", "characters"]
    for metric in METRICS:
        header += [f"{metric}: {other}", ours, "difference"]
    lines = []
    for row, pair in pairs.items():
        chosen = pair.other if ours == OURS else pair.ours  # the report that chose the length
        line = [row.title, f"{chosen.mean('characters')[0]:,.0f}"]
        for metric in METRICS:
            line += [f"{report.mean(metric)[0]:.3f}" for report in (pair.other, pair.ours)]
            # Their budgets differ; each has one.
            line.append(difference([pair.ours], [pair.other], metric))
        lines.append(line)
    yield from table(header, lines)


def figures(reports: Mapping[str, Report], labels: Sequence[str], metric: str) -> Iterator[str]:
    """A metric of each method at each budget."""
    for label in labels:
        yield " ".join(f"{value:.3f}" for value in reports[label].mean(metric))


if __name__ == "__main__":
    main()
