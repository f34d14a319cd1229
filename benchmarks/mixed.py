"""A corpus of short notes and long reports, cut out of a set's documents.

FAQ entries, table cells and lines of a chat are documents of a sentence or two. To see whether they
are found among long documents, half of the questions with one short piece of evidence get it as a
note of its own. Every second stretch of text without evidence becomes notes as well. What is left
keeps the other questions.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
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


def cut_out_notes(folder: Folder) -> tuple[Folder, NDArray[np.bool_]]:
    """The folder with notes, and which of its questions are about one."""
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
    return mixed, np.array([number in asked for number in range(len(questions))])


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


def write_up_mixed(
    folder: Folder, is_note: NDArray[np.bool_], results: dict[str, Report], command: str
) -> Iterator[str]:
    """The page, line by line."""
    asked = int(is_note.sum())
    notes = [text for name, text in folder.sources.items() if name.startswith(("asked", "note"))]
    lengths = [len(note) for note in notes]
    size = sum(map(len, folder.sources.values()))
    yield from (
        f"# Short notes among long reports, {folder.name}",
        "",
        f"Made by `{command}`.",
        "",
        f"- {len(notes):,} notes of {min(lengths)} to {max(lengths)} characters",
        f"- {len(folder.sources) - len(notes)} long documents, {size - sum(lengths):,} characters",
        f"- {asked} questions about a note, {len(is_note) - asked} about the long documents",
        f"- {CANDIDATES} candidates a query",
        "",
        "Evidence recall by budget in characters; for notes, the share that comes back.",
        "",
    )
    budgets = folder.layout.budgets
    header = ["", *(f"{kind} {b:,}" for kind in ("notes", "reports") for b in budgets)]
    rows = []
    for label, report in results.items():
        recall = report.figures["recall"]
        means = [*recall[is_note].mean(axis=0), *recall[~is_note].mean(axis=0)]
        rows.append([label, *(format(mean, ".3f") for mean in means)])
    yield from table(header, rows)
    difference = results[OURS].figures["recall"] - results[TOP_K].figures["recall"]
    for kind, chosen in (("notes", is_note), ("reports", ~is_note)):
        each = difference[chosen].mean(axis=1)
        draws = np.random.default_rng(0).choice(each, (2_000, each.size)).mean(axis=1)
        low, high = np.quantile(draws, [0.025, 0.975])
        yield f"{OURS} minus {TOP_K}, {kind}: {each.mean():+.3f} [{low:+.3f}, {high:+.3f}]"
        yield ""
