"""Select: makes segments of scored chunks, in the order in which a growing budget takes them."""

import math
from collections import Counter
from collections.abc import Sequence
from functools import partial

from langchain_rse.config import QuerySettings, RSEConfig
from langchain_rse.engine import Floats, Segment, rank_chunks
from langchain_rse.engine.problem import Bounds, count_neighbors, delay_steps
from langchain_rse.query.published import select_as_published
from langchain_rse.query.scoring import ScoredChunks
from langchain_rse.query.selection import Selection, in_turns


def select(scored: ScoredChunks, settings: QuerySettings, budget: float | None) -> Selection:
    """Choose segments, a little more than a budget in characters; None for no budget."""
    if settings.config.solver == "exact":
        return _select_exactly(scored, settings, budget)
    return select_as_published(scored, settings.config)


def worth_alone(
    scored: ScoredChunks, selection: Selection, config: RSEConfig, budget: float | None
) -> list[Segment]:
    """The candidates that are worth the penalty and fit the budget, the most relevant first.

    If no step fits, one of them is returned as a segment, without a segment cost.
    """
    if config.solver != "exact" and not selection.steps:  # the published solvers return nothing
        return []
    worth = (scored.relevance >= config.irrelevant_chunk_penalty) & (scored.relevance > 0)
    worth &= selection.values >= config.minimum_value
    if budget is not None:
        worth &= scored.lengths <= budget
    columns = [column for column in scored.candidates if worth[column]]
    columns.sort(key=lambda column: -scored.relevance[column])
    return [Segment(column, column + 1, float(selection.values[column])) for column in columns]


def _select_exactly(
    scored: ScoredChunks, settings: QuerySettings, budget: float | None
) -> Selection:
    config = settings.config
    solver_budget = budget
    if solver_budget is None or config.minimum_value > 0 or settings.max_per_document:
        # Segments that are left out afterwards make room for others.
        solver_budget = float(scored.lengths.sum())
    rank = partial(
        rank_chunks,
        lengths=scored.lengths,
        budget=solver_budget,
        penalty=config.irrelevant_chunk_penalty,
        segment_cost=config.segment_cost,
        boundaries=scored.window_starts.tolist(),
        document_lengths=scored.document_lengths,
    )
    ranking = rank(scored.credited)
    values = ranking.weights * (scored.credited - config.irrelevant_chunk_penalty)
    if len(scored.credited_rows) > 1:
        steps_of_rows = [rank(row).steps() for row in scored.credited_rows]
        steps = _without_repetitions(in_turns(steps_of_rows))
    else:
        first = _best_of_each_query(scored, values, config, budget)
        steps = ranking.steps(first)
    if settings.max_per_document:
        steps = _limit_segments(steps, scored, settings.max_per_document)

    def segments(count: int) -> list[Segment]:
        columns: list[int] = []
        for step in steps[:count]:
            columns.extend(range(*step))
        rated = [_rated(segment, values, config) for segment in ranking.segments(columns)]
        return sorted(rated, key=lambda segment: (-segment.value, segment.start))

    return Selection(
        values, steps, segments, weights=ranking.weights, thresholds=ranking.thresholds
    )


def _best_of_each_query(
    scored: ScoredChunks, values: Floats, config: RSEConfig, budget: float | None
) -> list[int]:
    """The columns of the best candidates of queries that are worth the penalty and fit."""
    room = math.inf if budget is None else budget
    columns: list[int] = []
    for relevance_by_column in scored.by_query:
        if not relevance_by_column:
            continue
        column, relevance = next(iter(relevance_by_column.items()))  # the best comes first
        is_worth = relevance > 0 and relevance >= config.irrelevant_chunk_penalty
        is_worth = is_worth and values[column] >= config.minimum_value
        if is_worth and scored.lengths[column] <= room and column not in columns:
            columns.append(column)
            room -= scored.lengths[column]
    return columns


def _rated(segment: Segment, values: Floats, config: RSEConfig) -> Segment:
    """A segment with its value; without a segment cost, if only that makes it too little.

    Such a segment is there for the best candidate of a query.
    """
    if segment.value >= config.minimum_value:
        return segment
    return segment._replace(value=float(values[segment.start : segment.end].sum()))


def _limit_segments(steps: Sequence[Bounds], scored: ScoredChunks, limit: int) -> list[Bounds]:
    """Delay each step that makes more segments of a document than the limit.

    It is retried, merged with adjacent delayed steps, after each accepted step.
    """
    borders = {*scored.window_starts.tolist(), scored.lengths.size}
    segment_counts: Counter[str] = Counter()  # by document

    def accepts(step: Bounds, taken: set[int]) -> bool:
        layout, _ = scored.chunks[step[0]]
        key = layout.manifest.key
        # A step beside one segment extends it; between two, it joins them.
        count = segment_counts[key] + 1 - count_neighbors(step, taken, borders)
        if count > limit:
            return False
        segment_counts[key] = count
        return True

    return delay_steps(steps, borders, accepts)


def _without_repetitions(steps: Sequence[Bounds]) -> list[Bounds]:
    """Remove from each step the columns of steps before it."""
    taken: set[int] = set()
    remaining: list[Bounds] = []
    for step in steps:
        new_columns = [column for column in range(*step) if column not in taken]
        if len(new_columns) == step[1] - step[0]:
            remaining.append(step)
        else:
            remaining += [(column, column + 1) for column in new_columns]
        taken.update(new_columns)
    return remaining
