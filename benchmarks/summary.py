"""Evidence recall of langchain-rse and the best alternative on each dataset.

Run from anywhere: ``python benchmarks/summary.py --data PATH``. PATH has a sub-folder per dataset,
with ``questions.jsonl`` (see `langchain_rse.evaluation.load_questions`) and ``documents/`` (texts
as ``.md``, ``.txt`` or ``.txt.gz``; a document's id is its name without the suffix). Vectors are
cached. Each English dataset is measured with each model; datasets in other languages only with
wordllama, since the other models are for English. Rows with the cross-encoder use a seeded sample
of 40 questions and their best 100 candidates. Datasets are measured in parallel processes.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import logging
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any, Literal, NamedTuple

import numpy as np
from alternatives import (
    CANDIDATES,
    FilledRetriever,
    LexicalRetriever,
    NeighborRetriever,
    RememberingRetriever,
    RerankedRetriever,
)
from data import LANGUAGE, Folder, MatrixStore, command_given, index, parse_arguments, read_folder
from langchain_classic.retrievers import EnsembleRetriever
from langchain_core.retrievers import BaseRetriever, RetrieverLike
from langchain_core.stores import InMemoryStore
from models import CachedCrossEncoder, progress
from pages import OURS, OURS_ALONE, TOP_K, difference, table, write_page

from langchain_rse import PRESETS, RSERetriever, SQLDocStore
from langchain_rse.evaluation import Report, evaluate
from langchain_rse.rerankers import CrossEncoderReranker

# A penalty of 0 returns everything that fits.
FILL: Mapping[str, Any] = {"irrelevant_chunk_penalty": 0.0}
RERANKED_CANDIDATES = 100
SEED = 0
MULTILINGUAL = "wordllama"
METRICS = {"recall": "Evidence recall", "whole": "Whole evidence"}
WORDS = "words"
ENSEMBLE = "ensemble"
ENSEMBLE_RERANKED = "ensemble, cross-encoder top-k"
AROUND_RERANKED = (1, 2)  # chunks on each side of a reranked hit
WEIGHT = 0.5  # of vectors and of words in the ensemble
At = Callable[[int], BaseRetriever]


class Row(NamedTuple):
    """A dataset, its model, and whether candidates are reranked."""

    folder: str
    model: str
    reranked: bool

    @property
    def title(self) -> str:
        """The row's title."""
        reranker = ", cross-encoder" if self.reranked else ""
        return f"{self.folder}, {self.model}{reranker}"

    @property
    def kind(self) -> str:
        """The group of rows that are averaged together."""
        if self.folder.startswith(LANGUAGE):
            return "other languages"
        return "with the cross-encoder" if self.reranked else "without a reranker"


class Indexed(NamedTuple):
    """An indexed dataset."""

    store: MatrixStore
    docstore: SQLDocStore  # with a full-text index
    published: RSERetriever  # for the published methods, without full text


Results = dict[Row, dict[str, Report]]
"""The report of each method at filled budgets."""


def main() -> None:
    """Measure, print and write a page."""
    arguments = parse_arguments(
        __doc__,
        questions={"type": int, "default": 40, "help": "to rerank per dataset; default 40"},
        reranked={"nargs": "*", "metavar": "NAME", "help": "to rerank; default: all English"},
        workers={"type": int, "default": 2, "help": "processes; default 2"},
    )
    by_folder = itertools.groupby(rows_of(arguments), key=lambda row: row.folder)
    sets = [list(rows) for _, rows in by_folder]
    found: Results = {}
    with ProcessPoolExecutor(arguments.workers) as processes:
        for measured in processes.map(measure_set, sets, [arguments] * len(sets)):
            found |= measured
    stem = f"summary-{'-'.join(arguments.models)}"
    write_page(arguments.out, stem, write_up(found, command_given()))


def rows_of(arguments: argparse.Namespace) -> Iterator[Row]:
    """The datasets with the models for their language, without and with the cross-encoder."""
    for name in arguments.folders:
        if name.startswith(LANGUAGE):
            yield Row(name, MULTILINGUAL, reranked=False)
            continue
        for model in arguments.models:
            yield Row(name, model, reranked=False)
            if arguments.reranked is None or name in arguments.reranked:
                yield Row(name, model, reranked=True)


def measure_set(rows: Sequence[Row], arguments: argparse.Namespace) -> Results:
    """Measure all methods on a dataset; it is indexed once for each model."""
    logging.disable(logging.WARNING)
    measured: Results = {}
    for model, of_model in itertools.groupby(rows, key=lambda row: row.model):
        folder = read_folder(arguments.data, rows[0].folder)
        docstore = SQLDocStore("sqlite://")
        _, store = index(folder, model, arguments.cache, docstore)
        published, _ = index(folder, model, arguments.cache, InMemoryStore())
        indexed = Indexed(store, docstore, published)
        for row in of_model:
            measure_row = measure_reranked if row.reranked else measure
            measured[row] = measure_row(folder, indexed, arguments)
        docstore.close()
    return measured


def measure(folder: Folder, indexed: Indexed, arguments: argparse.Namespace) -> dict[str, Report]:
    """Measure all methods without a reranker."""
    store = indexed.store
    folder = dataclasses.replace(folder, questions=folder.questions[:: arguments.every])
    by_vectors = store.as_retriever(search_kwargs={"k": CANDIDATES})
    by_words = RememberingRetriever(retriever=LexicalRetriever(docstore=indexed.docstore))
    ensemble = fused(by_vectors, by_words)
    ours = RSERetriever(vectorstore=store, docstore=indexed.docstore)
    places: dict[str, Any] = {"store": store, "sources": folder.sources}
    alternatives: dict[str, BaseRetriever] = {
        "each hit ±1": NeighborRetriever(retriever=by_vectors, around=1, **places),
        "each hit ±2": NeighborRetriever(retriever=by_vectors, around=2, **places),
        WORDS: by_words,
        f"{WORDS} ±1": NeighborRetriever(retriever=by_words, around=1, **places),
        ENSEMBLE: ensemble,
        f"{ENSEMBLE} ±1": NeighborRetriever(retriever=ensemble, around=1, **places),
    }
    filled = {TOP_K: ask(folder, TOP_K, by_vectors)}
    for label, retriever in alternatives.items():
        filled[label] = ask(folder, label, retriever)
    for calibration in ("identity", "minmax"):
        filled |= ask_greedy(folder, indexed.published, calibration)
    filled[OURS] = ask(folder, OURS, ours, **FILL)
    return filled


def measure_reranked(
    folder: Folder, indexed: Indexed, arguments: argparse.Namespace
) -> dict[str, Report]:
    """Measure the methods with a reranker on a sample of the questions."""
    store, docstore = indexed.store, indexed.docstore
    count = min(arguments.questions, len(folder.questions))
    chosen = random.Random(SEED).sample(folder.questions, count)
    folder = dataclasses.replace(folder, questions=chosen[:: arguments.every])
    model = CachedCrossEncoder(arguments.cache / f"{folder.name}-cross-encoder.npz")
    reranker = CrossEncoderReranker(model=model)

    def reranked(hits: BaseRetriever) -> RememberingRetriever:
        retriever = RerankedRetriever(retriever=hits, reranker=reranker, count=RERANKED_CANDIDATES)
        return RememberingRetriever(retriever=retriever)

    by_vectors = store.as_retriever(search_kwargs={"k": CANDIDATES})
    ensemble = fused(by_vectors, LexicalRetriever(docstore=docstore))
    settings: dict[str, Any] = {"reranker": reranker, "fetch_k": RERANKED_CANDIDATES}
    ours = RSERetriever(vectorstore=store, docstore=docstore, **settings)
    filled = {TOP_K: ask(folder, TOP_K, reranked(by_vectors))}
    best = reranked(ensemble)
    filled[ENSEMBLE_RERANKED] = ask(folder, ENSEMBLE_RERANKED, best)
    for around in AROUND_RERANKED:
        label = f"{ENSEMBLE_RERANKED} ±{around}"
        neighbors = NeighborRetriever(
            retriever=best, around=around, store=store, sources=folder.sources
        )
        filled[label] = ask(folder, label, neighbors)
    without = RSERetriever(vectorstore=store, docstore=docstore)
    filled[OURS_ALONE] = ask(folder, OURS_ALONE, without, **FILL)
    filled |= ask_greedy(folder, indexed.published, "minmax", **settings)
    filled[OURS] = ask(folder, OURS, ours, **FILL)
    return filled


def fused(by_vectors: BaseRetriever, by_words: BaseRetriever) -> RememberingRetriever:
    """Hits by vectors and by words, combined by reciprocal rank fusion."""
    both: list[RetrieverLike] = [by_vectors, by_words]
    weights = [1 - WEIGHT, WEIGHT]
    ensemble = EnsembleRetriever(retrievers=both, weights=weights, id_key="chunk_id")
    return RememberingRetriever(retriever=ensemble)


def ask(
    folder: Folder,
    label: str,
    retriever: BaseRetriever,
    budgets: Sequence[int] | None = None,
    **settings: Any,  # noqa: ANN401 - the retriever's own
) -> Report:
    """Ask all questions of a dataset."""
    progress(f"{folder.name}: {label}")
    return evaluate(
        retriever,
        folder.questions,
        budgets or folder.layout.budgets,
        sources=folder.sources,
        name=label,
        **settings,
    )


def ask_each(folder: Folder, label: str, at: At) -> Report:
    """Ask another retriever for each budget."""
    reports = [ask(folder, label, at(budget), [budget]) for budget in folder.layout.budgets]
    figures = {
        metric: np.concatenate([report.figures[metric] for report in reports], axis=1)
        for metric in reports[0].figures
    }
    refusals = np.concatenate([report.refusals for report in reports], axis=1)
    return Report(label, folder.layout.budgets, reports[0].questions, figures, refusals)


def ask_greedy(
    folder: Folder,
    published: RSERetriever,
    calibration: Literal["identity", "minmax"],
    **settings: Any,  # noqa: ANN401 - the retriever's own
) -> dict[str, Report]:
    """Measure the published greedy search, made to fill each budget."""
    config = PRESETS["dsrag-balanced"].replace(calibration=calibration)
    retriever = RSERetriever(
        vectorstore=published.vectorstore,
        docstore=published.docstore,
        config=config,
        max_context_length=None,
        **settings,
    )

    def at(budget: int) -> BaseRetriever:
        size = folder.layout.chunk_size
        return FilledRetriever(retriever=retriever, chunk_size=size, budget=budget)

    label = f"dsrag-balanced, {calibration}"
    return {label: ask_each(folder, label, at)}


def write_up(results: Results, command: str) -> Iterator[str]:
    """The page, line by line."""
    yield from ("# All datasets", "", f"Made by `{command}`.", "")
    yield from (
        "Means over each dataset's budgets, which every method fills. The best alternative has",
        "the highest mean of its row. *Cells below* counts the budgets at which an alternative is",
        f"above {OURS}. Intervals are 95 %, paired, by bootstrap. Evidence is whole if one",
        "passage contains all of it.",
        "",
        "*Words* is BM25 over all chunks, from the docstore's full-text index. *Ensemble* is the",
        f"reciprocal rank fusion of vectors and words, each with a weight of {WEIGHT}. *±1*",
        "adds the two neighbors of each hit;",
        f"*each hit* is a hit by vectors. Each search returns its best {CANDIDATES} hits; the",
        f"cross-encoder reranks {RERANKED_CANDIDATES}.",
        "",
    )
    for metric, title in METRICS.items():
        yield from (f"## {title}", "")
        yield from write_up_metric(results, metric)


def write_up_metric(results: Results, metric: str) -> Iterator[str]:
    """Compare with the best alternative of each row, then list all methods."""
    lines = []
    for row, reports in results.items():
        ours = reports[OURS]
        ours_all = (OURS, OURS_ALONE)
        others = {label: report for label, report in reports.items() if label not in ours_all}
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
    for kind in dict.fromkeys(row.kind for row in results):
        some = {row: reports for row, reports in results.items() if row.kind == kind}
        labels = list(next(iter(some.values())))
        yield from table(
            [kind, *labels],
            [[row.title, *figures(reports, labels, metric)] for row, reports in some.items()],
        )
        if ENSEMBLE_RERANKED in labels:
            names = [label for label in labels if label.startswith(ENSEMBLE_RERANKED)]
            for own in (OURS, OURS_ALONE):
                yield from write_up_differences(some, own, [TOP_K, *names], metric)
        yield from write_up_means(f"means, {kind}", some, labels, metric)


def write_up_differences(
    results: Results, ours: str, others: Sequence[str], metric: str
) -> Iterator[str]:
    """The differences to some alternatives in each row, and in all of them together."""
    lines = []
    for row, reports in results.items():
        line = [row.title]
        line += [difference([reports[ours]], [reports[other]], metric) for other in others]
        lines.append(line)
    of_ours = [reports[ours] for reports in results.values()]
    every = [[reports[other] for reports in results.values()] for other in others]
    lines.append(["all", *(difference(of_ours, of_other, metric) for of_other in every)])
    yield from table([f"{ours} minus", *others], lines)


def write_up_means(
    title: str, results: Results, labels: Sequence[str], metric: str
) -> Iterator[str]:
    """The mean of each method over the datasets of each model."""
    columns: dict[str, list[float]] = {}
    for model in dict.fromkeys(row.model for row in results):
        by_set = {
            row.folder: [float(reports[label].mean(metric).mean()) for label in labels]
            for row, reports in results.items()
            if row.model == model
        }
        columns[f"all {len(by_set)}, {model}"] = np.mean(list(by_set.values()), axis=0).tolist()
    lines = [
        [label, *(f"{means[place]:.3f}" for means in columns.values())]
        for place, label in enumerate(labels)
    ]
    ours = labels.index(OURS)
    own = {ours, labels.index(OURS_ALONE)} if OURS_ALONE in labels else {ours}
    gains = ["minus the best alternative"]
    for means in columns.values():
        best = max(mean for place, mean in enumerate(means) if place not in own)
        gains.append(f"{means[ours] - best:+.3f}")
    yield from table([title, *columns], [*lines, gains])


def figures(reports: Mapping[str, Report], labels: Sequence[str], metric: str) -> Iterator[str]:
    """A metric of each method at each budget."""
    for label in labels:
        yield " ".join(f"{value:.3f}" for value in reports[label].mean(metric))


if __name__ == "__main__":
    main()
