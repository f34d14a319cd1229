"""Computes the answers for other penalties and budgets, for the sliders of the report.

The solver of the query gets the candidates and scores of the query, so each answer is what the
retriever returns with these settings. With the exact solver, a larger budget or a lower penalty
only adds chunks, so there are few different answers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from langchain_rse.config import QuerySettings
from langchain_rse.query.reading import CHARACTERS, Passage, passage_of, steps_within
from langchain_rse.query.rendering import choose
from langchain_rse.query.scoring import ScoredChunks, select
from langchain_rse.query.trace import Trace

_PENALTIES = 50  # steps of the slider from 0 to 1
_LEAST_BUDGET = 250  # characters

Answer = Sequence[Passage]
"""The passages of an answer, in the order of the answer, without their texts."""


class Alternatives(NamedTuple):
    """The answers to a query by penalty and budget."""

    penalties: Sequence[float]  # ascending
    budgets: Sequence[float]  # in characters, ascending; the last is infinite
    answers: Sequence[Sequence[Answer]]  # by penalty, then by budget


def find_obstacle(trace: Trace) -> str:
    """Say why the report cannot have sliders; empty if it can."""
    settings = trace.settings
    if trace.scored is None or not trace.scored.candidates:
        return "nothing was close enough to consider, so they would have no effect"
    in_characters = settings.length_function is CHARACTERS and not settings.include_header
    if settings.config.solver == "exact" and in_characters:
        budget = settings.max_context_length
        expected, _ = _answer(trace.scored, settings, math.inf if budget is None else budget)
        if [_place_of(each) for each in expected] == [_place_of(each) for each in trace.returned]:
            return ""
    return (
        "they need the exact solver, a budget in characters without headers, and documents whose "
        "text is there and has not changed"
    )


def find_alternatives(trace: Trace, scored: ScoredChunks) -> Alternatives:
    """Answer the query with a range of penalties and budgets that includes its settings."""
    settings = trace.settings
    penalties = {number / _PENALTIES for number in range(_PENALTIES + 1)} | {settings.penalty}
    budgets = {math.inf}
    if settings.max_context_length is not None:
        budgets.add(settings.max_context_length)
    size = _LEAST_BUDGET
    while size < scored.lengths.sum():
        budgets |= {size, size * 3 / 2}
        size *= 2
    answers = []
    for penalty in sorted(penalties):
        changed = settings.model_copy(update={"irrelevant_chunk_penalty": penalty})
        answers.append(_by_budget(scored, changed, sorted(budgets)))
    return Alternatives(sorted(penalties), sorted(budgets), answers)


def _by_budget(
    scored: ScoredChunks, settings: QuerySettings, budgets: Sequence[float]
) -> list[Answer]:
    answers: list[Answer] = []
    taken = math.inf
    for budget in reversed(budgets):
        if not answers or taken > budget:  # else the answer for the next larger budget fits
            answer, taken = _answer(scored, settings, budget)
            answers.append(answer)
        else:
            answers.append(answers[-1])
    return answers[::-1]


def _answer(scored: ScoredChunks, settings: QuerySettings, budget: float) -> tuple[Answer, float]:
    """The answer, and how much of the budget all passages take, also those beyond ``k``."""
    selection = select(scored, settings, budget)
    chosen = selection.passages_after(steps_within(scored, selection, budget))
    passages = [passage_of(segment, scored, selection) for segment in chosen]
    taken = sum(float(scored.lengths[start:end].sum()) for start, end, _ in chosen)
    return choose(passages, settings), taken


def _place_of(passage: Passage) -> tuple[str, int, int]:
    return passage.layout.manifest.key, passage.start, passage.end
