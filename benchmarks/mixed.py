"""A corpus of short and long documents, cut out of a set's documents: notes, or rows of a table.

FAQ entries, rows of a table and posts are documents of a sentence or two. To see whether they are
found among long documents, and cost those nothing:

- Notes: half of the questions with one short piece of evidence get it as a note of its own. Every
  second stretch of text without evidence becomes notes as well. What is left keeps the other
  questions.
- Rows, of sets whose documents are lines: every second document becomes a table, each of its lines
  a document, as ``add_documents(rows, separate=True)`` stores a CSV file. The questions about rows
  are those of the set whose evidence lies in one of these lines; about reports, those whose
  evidence lies in documents that stayed whole. All others are left out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from alternatives import CANDIDATES
from folders import Folder
from langchain_text_splitters import RecursiveCharacterTextSplitter
from numpy.typing import NDArray
from pages import OURS, TOP_K, table

from langchain_rse.evaluation import Evidence, Question, Report

# The longest note, in chunks; and a stretch of text, in chunks.
_LONGEST = 0.5
_STRETCH = 10
# Their documents have a line for each turn, and questions about one turn.
HAS_ROWS = ("chats",)
_METRICS = {"recall": "Evidence recall", "whole": "Whole evidence"}


@dataclass(frozen=True)
class Mixed:
    """A corpus of short and long documents.

    Attributes:
        folder: The corpus.
        kind: What the short documents are called.
        short: The texts of the short documents.
        is_short: Which of the questions are about one of them.
    """

    folder: Folder
    kind: str
    short: list[str]
    is_short: NDArray[np.bool_]


def cut_into_rows(folder: Folder) -> Mixed:
    """The folder with every second document as a table, a line a row."""
    sources: dict[str, str] = {}
    rows: list[Evidence] = []
    for number, (name, text) in enumerate(folder.sources.items()):
        if number % 2:
            sources[name] = text
            continue
        start = 0
        for line in text.splitlines(keepends=True):
            if line.strip():
                rows.append(Evidence(name, start, start + len(line)))
                sources[_name_of_row(rows[-1])] = line.rstrip()
            start += len(line)
    questions = []
    is_short = []
    for question in folder.questions:
        about_row = _evidence_in_row(question, rows, sources)
        if about_row or all(each.doc_id in sources for each in question.evidence):
            evidence = [about_row] if about_row else question.evidence
            questions.append(Question(question.question, evidence))
            is_short.append(about_row is not None)
    mixed = dataclasses.replace(
        folder, name=f"{folder.name}, mixed", sources=sources, questions=questions
    )
    texts = [sources[_name_of_row(row)] for row in rows]
    return Mixed(mixed, "rows", texts, np.array(is_short))


def _name_of_row(row: Evidence) -> str:
    return f"row-{row.doc_id}-{row.start}"


def _evidence_in_row(
    question: Question, rows: Iterable[Evidence], sources: Mapping[str, str]
) -> Evidence | None:
    """Where the evidence stands in a row; None if it is no single piece of one row."""
    evidence = question.evidence[0]
    if len(question.evidence) > 1:
        return None
    for row in rows:
        if row.doc_id == evidence.doc_id and row.start <= evidence.start <= evidence.end <= row.end:
            name = _name_of_row(row)
            # Evidence may end with the end of the line, which the row has not.
            end = min(evidence.end - row.start, len(sources[name]))
            return Evidence(name, evidence.start - row.start, end)
    return None


def cut_out_notes(folder: Folder) -> Mixed:
    """The folder with notes cut out of its documents."""
    asked = _evidence_to_cut(folder)
    cuts = [*asked.values(), *_stretches_to_cut(folder)]
    sources: dict[str, str] = {}
    for name, text in folder.sources.items():
        pieces = sorted((cut.start, cut.end) for cut in cuts if cut.doc_id == name)
        ends = [0, *(end for _, end in pieces)]
        starts = [*(start for start, _ in pieces), len(text)]
        sources[name] = "".join(text[a:b] for a, b in zip(ends, starts, strict=True))
    questions = []
    for number, question in enumerate(folder.questions):
        evidence = [_moved(each, cuts) for each in question.evidence]
        if number in asked:
            cut = asked[number]
            sources[f"asked-{number}"] = folder.sources[cut.doc_id][cut.start : cut.end]
            evidence = [Evidence(f"asked-{number}", 0, cut.end - cut.start)]
        questions.append(Question(question.question, evidence))
    size = int(_LONGEST * folder.layout.chunk_size)
    splitter = RecursiveCharacterTextSplitter(chunk_size=size, chunk_overlap=0)
    for cut in cuts[len(asked) :]:
        notes = splitter.split_text(folder.sources[cut.doc_id][cut.start : cut.end])
        sources |= {f"note-{cut.doc_id}-{cut.start}-{n}": note for n, note in enumerate(notes)}
    mixed = dataclasses.replace(
        folder, name=f"{folder.name}, mixed", sources=sources, questions=questions
    )
    notes = [text for name, text in sources.items() if name.startswith(("asked-", "note-"))]
    is_short = np.array([number in asked for number in range(len(questions))])
    return Mixed(mixed, "notes", notes, is_short)


def _evidence_to_cut(folder: Folder) -> dict[int, Evidence]:
    """Of every second question whose evidence is one short piece that no other question shares."""
    pieces = sorted(
        (each.doc_id, each.start, each.end, number)
        for number, question in enumerate(folder.questions)
        for each in question.evidence
    )
    shared = {
        number
        for one, other in pairwise(pieces)
        if one[0] == other[0] and one[2] > other[1]
        for number in (one[3], other[3])
    }
    longest = _LONGEST * folder.layout.chunk_size
    short = [
        number
        for number, question in enumerate(folder.questions)
        if number not in shared
        and len(question.evidence) == 1
        and question.evidence[0].end - question.evidence[0].start <= longest
    ]
    return {number: folder.questions[number].evidence[0] for number in short[::2]}


def _stretches_to_cut(folder: Folder) -> Iterator[Evidence]:
    """Every second stretch without evidence."""
    stretch = _STRETCH * folder.layout.chunk_size
    for name, text in folder.sources.items():
        has_evidence = np.zeros(len(text), dtype=bool)
        for question in folder.questions:
            for each in question.evidence:
                has_evidence[each.start : each.end] |= each.doc_id == name
        starts = range(0, len(text), stretch)
        free = [start for start in starts if not has_evidence[start : start + stretch].any()]
        for start in free[::2]:
            yield Evidence(name, start, min(start + stretch, len(text)))


def _moved(evidence: Evidence, cuts: Iterable[Evidence]) -> Evidence:
    """Where evidence stands after the cuts."""
    before = sum(
        cut.end - cut.start
        for cut in cuts
        if cut.doc_id == evidence.doc_id and cut.end <= evidence.start
    )
    return Evidence(evidence.doc_id, evidence.start - before, evidence.end - before)


def write_up_mixed(mixed: Mixed, results: dict[str, Report], command: str) -> Iterator[str]:
    """The page, line by line."""
    folder, is_short, kind = mixed.folder, mixed.is_short, mixed.kind
    asked = int(is_short.sum())
    lengths = [len(text) for text in mixed.short]
    size = sum(map(len, folder.sources.values()))
    long = len(folder.sources) - len(mixed.short)
    yield from (
        f"# Short {kind} among long reports, {folder.name}",
        "",
        f"Made by `{command}`.",
        "",
        f"- {len(mixed.short):,} {kind} of {min(lengths)} to {max(lengths):,} characters",
        f"- {long} long documents, {size - sum(lengths):,} characters",
        f"- {asked} questions about one of the {kind}, {len(is_short) - asked} about reports",
        f"- {CANDIDATES} candidates a query",
        "",
    )
    budgets = folder.layout.budgets
    parts = {kind: is_short, "reports": ~is_short}
    for metric, title in _METRICS.items():
        header = [
            f"{title}, by budget in characters",
            *(f"{part} {budget:,}" for part in parts for budget in budgets),
        ]
        rows = []
        for label, report in results.items():
            figures = report.figures[metric]
            means = [mean for some in parts.values() for mean in figures[some].mean(axis=0)]
            rows.append([label, *(format(mean, ".3f") for mean in means)])
        yield from table(header, rows)
        for part, some in parts.items():
            difference = results[OURS].figures[metric] - results[TOP_K].figures[metric]
            each = difference[some].mean(axis=1)
            draws = np.random.default_rng(0).choice(each, (2_000, each.size)).mean(axis=1)
            low, high = np.quantile(draws, [0.025, 0.975])
            yield f"{OURS} minus {TOP_K}, {part}: {each.mean():+.3f} [{low:+.3f}, {high:+.3f}]"
            yield ""
