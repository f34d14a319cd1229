"""Refusal of unanswerable questions: questions of other datasets, and missing documents.

Run from anywhere: ``python benchmarks/nothing.py --data PATH``; PATH as for summary.py. For each
dataset, a score floor is fitted. Then the script asks its questions, questions of
the other datasets, and its questions without the documents that answer them. A question is lost if
the floor suppresses an answer that contained evidence. ``--reranked`` reranks a sample.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from data import LANGUAGE, Folder, command_given, index, parse_arguments, read_folder
from models import CachedCrossEncoder, progress
from numpy.typing import NDArray
from pages import table, write_page

from langchain_rse import RSERetriever, SQLDocStore
from langchain_rse._sync import run
from langchain_rse.evaluation import evaluate
from langchain_rse.query.candidates import Candidate
from langchain_rse.query.filters import filters_of
from langchain_rse.query.floor import FittedFloor, rank_by_search, share_of_words
from langchain_rse.query.searching import find_candidates
from langchain_rse.query.witnesses import rank
from langchain_rse.rerankers import CrossEncoderReranker

BUDGET = 16_000  # characters
OTHERS = 60  # questions of each other dataset; 3 with a reranker
RERANKED = {"questions": 40, "others": 3, "candidates": 100}

Values = NDArray[np.float64]


class Measured(NamedTuple):
    """The figures of a dataset."""

    floor: FittedFloor
    recall: Values  # of each question without a floor
    own: Values  # the reach of each question
    missing: Values  # the same without the documents that answer the question
    others: dict[str, Values]  # the reach of questions of each other dataset
    unanswerable: Values  # the reach of questions about this dataset that have no answer


def main() -> None:
    """Measure, print and write a page."""
    arguments = parse_arguments(__doc__, reranked={"action": "store_true"})
    folders = {}
    for name in arguments.folders:
        if not name.startswith(LANGUAGE):
            folder = read_folder(arguments.data, name)
            asked = folder.questions[:: arguments.every]
            folders[name] = dataclasses.replace(folder, questions=asked)
    for model in arguments.models:
        results = {}
        for name, folder in folders.items():
            others = {other: folders[other] for other in folders if other != name}
            results[name] = measure(folder, others, model, arguments)
            progress(name)
        stem = f"nothing-{model}" + "-cross-encoder" * arguments.reranked
        write_page(
            arguments.out, stem, write_up(results, command_given(), reranked=arguments.reranked)
        )


def measure(
    folder: Folder, others: dict[str, Folder], model: str, arguments: argparse.Namespace
) -> Measured:
    """Fit the floor of a dataset and ask all questions."""
    if arguments.reranked:
        count = min(RERANKED["questions"], len(folder.questions))
        chosen = random.Random(0).sample(folder.questions, count)
        folder = dataclasses.replace(folder, questions=chosen)
    retriever, _ = index(folder, model, arguments.cache, SQLDocStore("sqlite://"))
    if arguments.reranked:
        encoder = CachedCrossEncoder(arguments.cache / f"{folder.name}-cross-encoder.npz")
        settings = {
            "reranker": CrossEncoderReranker(model=encoder),
            "fetch_k": RERANKED["candidates"],
        }
        retriever = retriever.model_copy(update=settings)
    floor = retriever.fit_score_floor()
    report = evaluate(retriever, folder.questions, [BUDGET], score_floor=None)
    prober = Prober(retriever, floor)
    own = []
    missing = []
    for question in folder.questions:
        candidates = prober.find(question.question)
        own.append(prober.reach(question.question, candidates))
        answering = {evidence.doc_id for evidence in question.evidence}
        rest = [each for each in candidates if each.doc_id not in answering]
        missing.append(prober.reach(question.question, rest))
    reached = {}
    for other, other_folder in others.items():
        queries = [question.question for question in other_folder.questions]
        if arguments.reranked:
            queries = random.Random(1).sample(queries, RERANKED["others"])
        reached[other] = prober.ask_all(queries[:OTHERS])
    unanswerable = read_unanswerable(folder, arguments)
    return Measured(
        floor=floor,
        recall=report.figures["recall"][:, 0],
        own=np.array(own),
        missing=np.array(missing),
        others=reached,
        unanswerable=prober.ask_all(unanswerable),
    )


def read_unanswerable(folder: Folder, arguments: argparse.Namespace) -> list[str]:
    """The questions about a dataset that have no answer, if any."""
    path = arguments.data / "unanswerable" / f"{folder.name}.jsonl"
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines()[:: arguments.every]
    queries = [str(json.loads(line)["question"]) for line in lines]
    if arguments.reranked:
        return random.Random(1).sample(queries, min(RERANKED["questions"], len(queries)))
    return queries


class Prober:
    """Searches and reranks with a retriever, and measures the reach of the best candidates."""

    def __init__(self, retriever: RSERetriever, floor: FittedFloor) -> None:
        self._settings = retriever
        self._sources = retriever._sources  # noqa: SLF001
        self._filters = filters_of(retriever.search_kwargs, None)
        self._floor = floor

    def find(self, query: str) -> list[Candidate]:
        """The candidates of a query."""
        steps = find_candidates(self._sources, [query], self._settings, self._filters)
        (candidates,) = rank(run(steps), self._settings).values()
        return candidates

    def ask_all(self, queries: Sequence[str]) -> Values:
        """The reach of each query."""
        return np.array([self.reach(query, self.find(query)) for query in queries])

    def reach(self, query: str, candidates: Sequence[Candidate]) -> float:
        """The reach of a query with these candidates."""
        _, score, _ = rank_by_search(candidates)
        if score is None:
            return -np.inf
        return self._floor.reach(score, share_of_words(query, candidates))


def write_up(results: dict[str, Measured], command: str, *, reranked: bool) -> Iterator[str]:
    """The page, line by line."""
    yield from ("# Unanswerable questions", "", f"Made by `{command}`.", "")
    if reranked:
        yield "With the cross-encoder, on a sample of the questions."
    yield from ("Shares of questions:", "")
    rows = []
    for name, found in results.items():
        floor = found.floor.floor
        lost = (found.recall > 0) & (found.own < floor)
        others = [(values < floor).mean() for values in found.others.values()]
        cells = [
            (found.own < floor).mean(),
            lost.mean(),
            (found.recall * lost).mean(),
            np.mean(others),
            min(others),
            (found.missing < floor).mean(),
            (found.unanswerable < floor).mean() if found.unanswerable.size else np.nan,
        ]
        rows.append([name, f"{floor:.2f}", *cells])
    means = np.nanmean(np.array([row[2:] for row in rows], dtype=float), axis=0)
    rows.append(["mean", "", *means.tolist()])
    yield from table(
        [
            *("index", "floor", "own refused", "own lost", "recall lost", "of other sets refused"),
            *("lowest of a dataset", "document missing: refused", "unanswerable: refused"),
        ],
        [[row[0], row[1], *("" if np.isnan(x) else f"{x:.3f}" for x in row[2:])] for row in rows],
    )


if __name__ == "__main__":
    main()
