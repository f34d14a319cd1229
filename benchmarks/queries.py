"""What several queries bring: evidence recall of one query, and of its parts in both modes.

Run from anywhere: ``python benchmarks/queries.py --data PATH``; see benchmarks/quality.py for PATH.
The parts are made by rule, so no model is needed: of the sets' own questions, the clauses without
their lead-in; of two questions in one, the two.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from folders import Folder, add_embeddings, folder_names, make_parser, read_folder, write_page
from langchain_core.runnables import RunnableLambda
from pages import SEED, difference, mean_over_cells, table, with_interval
from quality import FILL, ask, index
from vectors import progress

from langchain_rse import RSERetriever, SQLDocStore
from langchain_rse.evaluation import Question, Report

ONE, JOINT, BESIDE = "one query", "joint", "joint, and the question itself"
LEAST_WORDS = 3
_LEAD_IN = re.compile(r"^Consider [^;]*; *", re.IGNORECASE)
_BETWEEN = re.compile(r", (?:and )?| and ")


def main() -> None:
    """Measure, print, and write what was printed."""
    parser = make_parser(__doc__)
    add_embeddings(parser)
    parser.add_argument("--folders", nargs="+", metavar="NAME", default=["excerpts", "policies"])
    arguments = parser.parse_args()
    command = (
        f"python benchmarks/queries.py --data PATH --embeddings {arguments.embeddings} "
        f"--folders {' '.join(arguments.folders)}"
    )
    kinds: dict[str, list[tuple[Folder, Mapping[str, Report]]]] = {
        "Clauses of one question": [],
        "Two questions in one": [],
    }
    for name in folder_names(arguments):
        folder = read_folder(arguments, name)
        retriever, store = index(folder, arguments, SQLDocStore("sqlite://"))
        for measured, asked in zip(
            kinds.values(), (in_clauses(folder), in_pairs(folder)), strict=True
        ):
            questions = [question.question for question in asked.questions]
            store.embeddings.queries([*questions, *(p for q in questions for p in parts_of(q))])
            measured.append((asked, measure(asked, retriever)))
    progress("")
    write_page(
        arguments, f"queries-{arguments.embeddings}", write_up(kinds, arguments.embeddings, command)
    )


def parts_of(question: str) -> list[str]:
    """The lines of a question, or of a single line the clauses, each with the lead-in."""
    lines = question.split("\n")
    if len(lines) > 1:
        return lines
    lead_in = "".join(_LEAD_IN.findall(question))
    clauses: list[str] = []
    for clause in _BETWEEN.split(question.removeprefix(lead_in)):
        if clauses and len(clause.split()) < LEAST_WORDS:
            clauses[-1] += f", {clause}"
        else:
            clauses.append(clause)
    return [lead_in + clause for clause in clauses]


def in_clauses(folder: Folder) -> Folder:
    """The folder with those of its questions that have several clauses."""
    some = [each for each in folder.questions if len(parts_of(each.question)) > 1]
    return dataclasses.replace(folder, questions=some)


def in_pairs(folder: Folder) -> Folder:
    """The folder with its questions in random pairs, each a line; the evidence is that of both."""
    order = np.random.default_rng(SEED).permutation(len(folder.questions)).tolist()
    pairs = [
        (folder.questions[one], folder.questions[other])
        for one, other in zip(order[::2], order[1::2], strict=False)
    ]
    joined = [
        Question(f"{one.question}\n{other.question}", [*one.evidence, *other.evidence])
        for one, other in pairs
    ]
    return dataclasses.replace(folder, questions=joined)


def measure(folder: Folder, retriever: RSERetriever) -> dict[str, Report]:
    """Ask each question by itself, and by its parts."""

    def with_question(question: str) -> list[str]:
        return [question, *parts_of(question)]

    parts = RunnableLambda(parts_of)
    ways: Mapping[str, Mapping[str, Any]] = {
        ONE: {},
        JOINT: {"query_generator": parts},
        BESIDE: {"query_generator": RunnableLambda(with_question)},
    }
    return {
        label: ask(folder, label, retriever, **FILL, **settings) for label, settings in ways.items()
    }


def write_up(
    kinds: Mapping[str, Sequence[tuple[Folder, Mapping[str, Report]]]],
    embeddings: str,
    command: str,
) -> Iterator[str]:
    """The whole page, line by line."""
    yield from (f"# Several queries, {embeddings} vectors", "", f"Made by `{command}`.", "")
    yield from (
        "Evidence recall, budgets filled (a penalty of 0), the same budget for one query and for",
        "several; differences with their 95 % interval, a bootstrap over the questions, paired.",
        "",
    )
    for kind, measured in kinds.items():
        counts = ", ".join(f"{len(folder.questions)} of {folder.name}" for folder, _ in measured)
        yield from (f"## {kind}", "", f"Questions: {counts}.", "")
        rows = [
            [
                f"{folder.name} {budget:,}",
                *(f"{reports[label].mean('recall')[place]:.3f}" for label in reports),
                with_interval(reports[JOINT], reports[ONE], place),
            ]
            for folder, reports in measured
            for place, budget in enumerate(folder.layout.budgets)
        ]
        by_label = {label: [reports[label] for _, reports in measured] for label in measured[0][1]}
        means = [f"{mean_over_cells(some, 'recall'):.3f}" for some in by_label.values()]
        rows.append(
            [
                "mean",
                *means,
                difference(by_label[JOINT], by_label[ONE], "recall"),
            ]
        )
        yield from table(["", *by_label, "joint minus one query"], rows)


if __name__ == "__main__":
    main()
