"""Select: from scored chunks to segments, in the order in which a growing budget takes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from langchain_rse.config import RSEConfig
from langchain_rse.engine import Floats, Segment, best_segment, rank_chunks, solve_greedy
from langchain_rse.query.scoring import ScoredChunks


class Selection(NamedTuple):
    """The segments of a query, as they grow with the budget. All numbers are columns."""

    values: Floats  # what each chunk adds to a segment
    # What a growing budget adds, the best first: ranges (start, end), with the exact solver chunk
    # by chunk, with the others segment by segment.
    steps: Sequence[tuple[int, int]]
    segments: Callable[[int], list[Segment]]  # that a number of steps forms, best first
    # Makes the candidates that are worth the penalty, the most relevant first, each a segment that
    # costs nothing: one of them is returned if no step fits.
    alone: Callable[[], list[Segment]] = list


def select(scored: ScoredChunks, config: RSEConfig, *, budget: float | None = None) -> Selection:
    """Choose the segments; of those with equal values, earlier documents win.

    The steps need not go far beyond the budget, in characters; None for all text that is worth the
    penalty.
    """
    if not scored.lengths.size:
        return Selection(np.zeros(0), [], lambda _: [])
    if config.solver == "exact":
        selection = _select_exactly(scored, config, budget)
    else:
        selection = _select_as_published(scored, config)
    return selection._replace(alone=partial(_worth_alone, scored, selection, config))


def _worth_alone(scored: ScoredChunks, selection: Selection, config: RSEConfig) -> list[Segment]:
    """The candidates whose relevance is at least the penalty, the most relevant first.

    Where a published solver chooses nothing, nothing is returned, as published.
    """
    if config.solver != "exact" and not selection.steps:
        return []
    least = config.irrelevant_chunk_penalty
    worth = (scored.relevance >= least) & (scored.relevance > 0)
    worth &= selection.values >= config.minimum_value
    columns = [column for column in scored.candidates if worth[column]]
    columns.sort(key=lambda column: -scored.relevance[column])
    return [Segment(column, column + 1, float(selection.values[column])) for column in columns]


def _select_as_published(scored: ScoredChunks, config: RSEConfig) -> Selection:
    values = scored.credited - config.irrelevant_chunk_penalty
    if config.length_weighting == "published":
        found = list(scored.candidates)
        values[found] *= np.maximum(scored.lengths[found] / config.reference_length, 1.0)
    if config.solver == "best":
        segments = _best_of_each_document(scored, values, config)
    else:
        segments = solve_greedy(
            values,
            max_length=config.max_length or values.size,
            overall_max_length=config.overall_max_length,
            minimum_value=config.minimum_value,
            boundaries=scored.starts.tolist(),
        )
    # With a penalty of 0, chunks without relevance can form segments of value 0.
    chosen = [
        segment
        for segment in segments
        if any(column in scored.candidates for column in range(segment.start, segment.end))
    ]
    return Selection(values, [segment[:2] for segment in chosen], lambda count: chosen[:count])


def _select_exactly(scored: ScoredChunks, config: RSEConfig, budget: float | None) -> Selection:
    if budget is None or config.minimum_value > 0:
        # Segments that are left out for their value make room for later ones.
        budget = float(scored.lengths.sum())
    ranking = rank_chunks(
        scored.credited,
        scored.lengths,
        budget=budget,
        penalty=config.irrelevant_chunk_penalty,
        segment_cost=config.segment_cost or 0.0,
        boundaries=scored.starts.tolist(),
        document_lengths=scored.document_lengths,
    )
    steps = ranking.steps(config.minimum_value)

    def segments(count: int) -> list[Segment]:
        return ranking.segments(column for step in steps[:count] for column in range(*step))

    values = ranking.weights * (scored.credited - config.irrelevant_chunk_penalty)
    return Selection(values, steps, segments)


def _best_of_each_document(
    scored: ScoredChunks, values: Floats, config: RSEConfig
) -> list[Segment]:
    """The best segment of each document, the best first."""
    best: dict[int, Segment] = {}
    for (document, window), start in zip(scored.windows, scored.starts.tolist(), strict=True):
        found = best_segment(values[start : start + len(window)], max_length=config.max_length)
        if found is None or found.value < config.minimum_value:
            continue
        if document not in best or found.value > best[document].value:
            best[document] = Segment(found.start + start, found.end + start, found.value)
    return sorted(best.values(), key=lambda segment: -segment.value)
