"""Select: forms segments from scored chunks, ordered so that any budget takes the first steps.

What is selected is still in positions of chunks; `langchain_rse.query.reading` makes passages of
documents from it.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from langchain_rse.config import BestSegment, Greedy, QuerySettings
from langchain_rse.engine import (
    Bounds,
    Floats,
    Ranking,
    Segment,
    best_segments,
    rank_chunks,
    solve_greedy,
)
from langchain_rse.query.scoring import ScoredChunks

# Values that are less negative are 0 but for rounding errors.
_ROUNDING = 1e-9


class Selection(NamedTuple):
    """The segments of a query as they grow with the budget."""

    values: Floats  # contribution of each chunk to a segment
    weights: Floats  # factor of each chunk's relevance after the penalty
    # Ranges (start, end) in the order in which a growing budget adds them: chunk by chunk with the
    # exact solver, segment by segment with the others.
    steps: Sequence[Bounds]
    ranking: Ranking | None = None  # of the exact solver
    chosen: Sequence[Segment] = ()  # of a published solver: one segment for each step

    def positions_after(self, steps: int) -> list[int]:
        """Return the positions of the chunks that the first ``steps`` steps add, in their order."""
        return list(itertools.chain.from_iterable(range(*step) for step in self.steps[:steps]))

    def passages_after(self, steps: int) -> list[Segment]:
        """Return the segments formed by the first ``steps`` steps, best first."""
        if self.ranking is None:
            return list(self.chosen[:steps])
        segments: list[Segment] = []
        for segment in self.ranking.segments(self.positions_after(steps)):
            value = segment.value
            if value < -_ROUNDING:
                # It is kept for the best candidate of a query although its cost exceeds its value.
                value = float(self.values[segment.start : segment.end].sum())
            segments.append(segment._replace(value=value))
        return sorted(segments, key=lambda segment: (-segment.value, segment.start))


def select(scored: ScoredChunks, settings: QuerySettings, budget: float) -> Selection:
    """Order the chunks for a budget in characters, or choose segments with a published solver."""
    solver = settings.config.solver
    if solver != "exact":
        return _select_as_published(scored, settings, solver, budget)
    ranking = rank_chunks(
        scored.credited,
        scored.lengths,
        penalty=settings.penalty,
        segment_cost=settings.config.passage_cost,
        boundaries=scored.window_starts.tolist(),
        document_lengths=scored.document_lengths,
    )
    values = ranking.values
    first = _best_of_each_query(scored, values, settings.penalty, budget)
    return Selection(values, ranking.weights, ranking.steps(first), ranking)


def _best_of_each_query(
    scored: ScoredChunks, values: Floats, penalty: float, budget: float
) -> list[int]:
    """Return the positions of each query's best candidate, if it reaches the penalty and fits.

    If none fits, return the first one, whose beginning may fit.
    """
    room = budget
    positions: list[int] = []
    too_long: list[int] = []
    for row in np.nan_to_num(scored.relevance_rows):
        if not row.size:
            continue
        position = int(row.argmax())
        qualifies = 0 < row[position] >= penalty and values[position] >= 0
        if not qualifies or position in positions:
            continue
        if scored.lengths[position] <= room:
            positions.append(position)
            room -= scored.lengths[position]
        else:
            too_long.append(position)
    return positions or too_long[:1]


def _select_as_published(
    scored: ScoredChunks, settings: QuerySettings, solver: Greedy | BestSegment, budget: float
) -> Selection:
    """Choose segments with a published solver, which does not use the budget.

    If there is no room for the first segment, the best candidate of each query stands alone.
    """
    weights: Floats = np.ones_like(scored.credited_rows)
    if solver.length_weighting == "published":
        longer = np.maximum(scored.lengths / solver.reference_length, 1.0)
        weights = np.where(np.isnan(scored.relevance_rows), 1.0, longer)
    value_rows = weights * (scored.credited_rows - settings.penalty)
    starts = scored.window_starts.tolist()
    if isinstance(solver, BestSegment):
        layouts = [scored.chunks[start][0] for start in starts]
        segments = best_segments(
            value_rows,
            max_length=solver.max_length,
            minimum_value=solver.minimum_value,
            boundaries=starts,
            documents=[layout.manifest.key for layout in layouts],
        )
    else:
        extension = solver.overall_max_length_extension * (len(scored.relevance_rows) - 1)
        segments = solve_greedy(
            value_rows,
            max_length=solver.max_length,
            overall_max_length=solver.overall_max_length + extension,
            minimum_value=solver.minimum_value,
            boundaries=starts,
        )
    best_rows = value_rows.argmax(axis=0)
    columns = np.arange(best_rows.size)
    values = value_rows[best_rows, columns]
    chosen: list[Segment] = []
    for segment in segments:
        # With a penalty of 0, irrelevant chunks can form segments of value 0: skip those.
        if scored.candidates.keys().isdisjoint(range(segment.start, segment.end)):
            continue
        value = segment.value
        if len(value_rows) > 1:
            value = float(values[segment.start : segment.end].sum())
        chosen.append(segment._replace(value=value))
    if chosen and scored.lengths[chosen[0].start : chosen[0].end].sum() > budget:
        chosen = []
        for position in _best_of_each_query(scored, values, settings.penalty, budget):
            chosen.append(Segment(position, position + 1, float(values[position])))
    steps = [(segment.start, segment.end) for segment in chosen]
    return Selection(values, weights[best_rows, columns], steps, chosen=chosen)
