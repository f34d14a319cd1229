"""Select: forms passages from scored chunks, ordered so that any budget takes the first steps."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, TypeVar

import numpy as np

from langchain_rse.config import BestSegment, Greedy, QuerySettings
from langchain_rse.engine import (
    Bounds,
    Floats,
    Ranking,
    Segment,
    best_segment,
    rank_chunks,
    solve_greedy,
)
from langchain_rse.query.scoring import ScoredChunks

T = TypeVar("T")


class Selection(NamedTuple):
    """The passages of a query as they grow with the budget, in positions of chunks."""

    values: Floats  # contribution of each chunk to a passage
    weights: Floats  # factor of each chunk's relevance after the penalty
    # Ranges (start, end) in the order in which a growing budget adds them: chunk by chunk with the
    # exact solver, passage by passage with the others.
    steps: Sequence[Bounds]
    ranking: Ranking | None = None  # of the exact solver
    chosen: Sequence[Segment] = ()  # of a published solver: one passage for each step

    @property
    def thresholds(self) -> Mapping[int, float]:
        """The penalty below which each chunk is returned, by position; exact solver only."""
        return MappingProxyType({}) if self.ranking is None else self.ranking.thresholds

    def passages_after(self, steps: int) -> list[Segment]:
        """Return the passages formed by the first ``steps`` steps, best first."""
        if self.ranking is None:
            return list(self.chosen[:steps])
        positions = itertools.chain.from_iterable(range(*step) for step in self.steps[:steps])
        passages = []
        for passage in self.ranking.segments(positions):
            if passage.value < 0:
                # It is kept for the best candidate of a query although its cost exceeds its value.
                value = float(self.values[passage.start : passage.end].sum())
                passages.append(passage._replace(value=value))
            else:
                passages.append(passage)
        return sorted(passages, key=lambda passage: (-passage.value, passage.start))


def select(scored: ScoredChunks, settings: QuerySettings, budget: float) -> Selection:
    """Choose passages, at least all that fit a budget in characters."""
    solver = settings.config.solver
    if solver != "exact":
        return _select_as_published(scored, settings, solver)
    total = float(scored.lengths.sum())
    ranking = rank_chunks(
        scored.credited,
        scored.lengths,
        budget=min(budget, total),
        penalty=settings.penalty,
        segment_cost=settings.config.passage_cost,
        boundaries=scored.window_starts.tolist(),
        document_lengths=scored.document_lengths,
    )
    weights = ranking.weights
    values = weights * (scored.credited - settings.penalty)
    first = _best_of_each_query(scored, values, settings.penalty, budget)
    return Selection(values, weights, ranking.steps(first), ranking)


def _best_of_each_query(
    scored: ScoredChunks, values: Floats, penalty: float, budget: float
) -> list[int]:
    """Return the positions of each query's best candidate, if it reaches the penalty and fits."""
    room = budget
    positions: list[int] = []
    for relevance_by_position in scored.by_query:
        if not relevance_by_position:
            continue
        position, relevance = next(iter(relevance_by_position.items()))  # the best comes first
        qualifies = relevance > 0 and relevance >= penalty and values[position] >= 0
        if qualifies and scored.lengths[position] <= room and position not in positions:
            positions.append(position)
            room -= scored.lengths[position]
    return positions


def single_chunk_fallback(
    scored: ScoredChunks, selection: Selection, settings: QuerySettings, budget: float
) -> list[Segment]:
    """Return the candidates that reach the penalty and fit the budget, the most relevant first.

    If no step fits the budget, the first of them that fits is returned as a passage, without a
    passage cost.
    """
    solver = settings.config.solver
    minimum = 0.0
    if solver != "exact":
        if not selection.steps:  # a published solver that selects no passage returns nothing
            return []
        minimum = solver.minimum_value
    qualifies = (scored.relevance >= settings.penalty) & (scored.relevance > 0)
    qualifies &= (selection.values >= minimum) & (scored.lengths <= budget)
    positions = [position for position in scored.candidates if qualifies[position]]
    positions.sort(key=lambda position: -scored.relevance[position])
    return [Segment(each, each + 1, float(selection.values[each])) for each in positions]


# The published solvers


def _select_as_published(
    scored: ScoredChunks, settings: QuerySettings, solver: Greedy | BestSegment
) -> Selection:
    """Choose passages with a published solver, which does not use the budget."""
    weights = _published_weights(scored, solver)
    value_rows = weights * (scored.credited_rows - settings.penalty)
    if isinstance(solver, BestSegment):
        passages = _best_of_each_document(scored, value_rows, solver)
    else:
        further_queries = len(scored.by_query) - 1
        passages = solve_greedy(
            value_rows,
            max_length=solver.max_length,
            overall_max_length=solver.overall_max_length
            + solver.overall_max_length_extension * further_queries,
            minimum_value=solver.minimum_value,
            boundaries=scored.window_starts.tolist(),
        )
    values = np.asarray(value_rows.max(axis=0))
    chosen: list[Segment] = []
    for passage in passages:
        positions = range(passage.start, passage.end)
        # With a penalty of 0, irrelevant chunks can form passages of value 0: skip those.
        if scored.candidates.keys().isdisjoint(positions):
            continue
        value = passage.value
        if len(value_rows) > 1:
            value = float(values[passage.start : passage.end].sum())
        chosen.append(passage._replace(value=value))
    best_rows = value_rows.argmax(axis=0)
    return Selection(
        values=values,
        weights=weights[best_rows, np.arange(scored.lengths.size)],
        steps=[(passage.start, passage.end) for passage in chosen],
        chosen=chosen,
    )


def _published_weights(scored: ScoredChunks, solver: Greedy | BestSegment) -> Floats:
    """Return the weight of each chunk, in a row for each query that takes turns."""
    weights: Floats = np.ones_like(scored.credited_rows)
    if solver.length_weighting == "none":
        return weights
    positions_of_rows = [list(scored.candidates)]
    if len(weights) > 1:
        positions_of_rows = [list(by_position) for by_position in scored.by_query]
    for row, positions in zip(weights, positions_of_rows, strict=True):
        row[positions] = np.maximum(scored.lengths[positions] / solver.reference_length, 1.0)
    return weights


def _best_of_each_document(
    scored: ScoredChunks, value_rows: Floats, solver: BestSegment
) -> list[Segment]:
    """Return the best passage of each document, best first; several queries take turns."""
    bounds = [*scored.window_starts.tolist(), len(scored.chunks)]
    passages_of_rows: list[list[Segment]] = []
    for values in value_rows:
        best: dict[str, Segment] = {}  # by document
        for start, end in itertools.pairwise(bounds):
            passage = best_segment(values[start:end], max_length=solver.max_length)
            if passage is None or passage.value < solver.minimum_value:
                continue
            layout, _ = scored.chunks[start]
            key = layout.manifest.key
            if key not in best or passage.value > best[key].value:
                best[key] = Segment(passage.start + start, passage.end + start, passage.value)
        passages_of_rows.append(sorted(best.values(), key=lambda passage: -passage.value))
    taken: set[int] = set()
    chosen = []
    for passage in _round_robin(passages_of_rows):
        positions = range(passage.start, passage.end)
        if taken.isdisjoint(positions):
            taken.update(positions)
            chosen.append(passage)
    return chosen


def _round_robin(lists: Iterable[Sequence[T]]) -> list[T]:
    """Return the first item of each list, then the second of each, and so on."""
    items = []
    for turn in itertools.zip_longest(*lists):
        items += [item for item in turn if item is not None]
    return items
