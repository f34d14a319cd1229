"""Select: makes segments of scored chunks, in the order in which a growing budget takes them."""

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from langchain_rse.config import QuerySettings, RSEConfig
from langchain_rse.engine import Floats, Segment, best_segment, rank_chunks, solve_greedy
from langchain_rse.engine.segments import Bounds, count_neighbors, delay_steps
from langchain_rse.query.scoring import ScoredChunks


class Selection(NamedTuple):
    """The segments of a query, as they grow with the budget. All numbers are columns."""

    values: Floats  # what each chunk adds to a segment
    # Ranges (start, end) that a growing budget adds, the best first: chunk by chunk with the exact
    # solver, segment by segment with the others.
    steps: Sequence[Bounds]
    segments: Callable[[int], list[Segment]]  # those that a number of steps forms, best first
    weights: Floats = np.ones(1)  # by which each chunk's relevance after the penalty is multiplied
    # By column, with the exact solver: the penalty below which a chunk is in the solution.
    thresholds: Mapping[int, float] = MappingProxyType({})


def select(scored: ScoredChunks, settings: QuerySettings, budget: float | None) -> Selection:
    """Choose segments, a little more than a budget in characters; None for no budget."""
    if settings.config.solver == "exact":
        return _select_exactly(scored, settings, budget)
    return _select_as_published(scored, settings.config)


def worth_alone(
    scored: ScoredChunks, selection: Selection, config: RSEConfig, room: float | None
) -> list[Segment]:
    """The candidates that are worth the penalty and fit the room, the most relevant first.

    If no step fits, one of them is returned as a segment, without a segment cost.
    """
    if config.solver != "exact" and not selection.steps:  # the published solvers return nothing
        return []
    worth = (scored.relevance >= config.irrelevant_chunk_penalty) & (scored.relevance > 0)
    worth &= selection.values >= config.minimum_value
    worth &= scored.lengths <= (math.inf if room is None else room)
    columns = [column for column in scored.candidates if worth[column]]
    columns.sort(key=lambda column: -scored.relevance[column])
    return [Segment(column, column + 1, float(selection.values[column])) for column in columns]


def _select_as_published(scored: ScoredChunks, config: RSEConfig) -> Selection:
    weights: Floats = np.ones_like(scored.turns)
    if config.length_weighting == "published":
        every = scored.found if len(weights) > 1 else [scored.candidates]
        for row, found in zip(weights, map(list, every), strict=True):
            row[found] = np.maximum(scored.lengths[found] / config.reference_length, 1.0)
    turns = weights * (scored.turns - config.irrelevant_chunk_penalty)
    if config.solver == "best":
        segments = _best_of_each_document(scored, turns, config)
    else:
        extension = config.overall_max_length_extension * (len(scored.found) - 1)
        segments = solve_greedy(
            turns,
            max_length=config.max_length or scored.lengths.size,
            overall_max_length=config.overall_max_length + extension,
            minimum_value=config.minimum_value,
            boundaries=scored.starts.tolist(),
        )
    columns, values = np.arange(scored.lengths.size), np.asarray(turns.max(axis=0))
    if len(turns) > 1:
        segments = [Segment(s, e, float(values[s:e].sum())) for s, e, _ in segments]
    # With a penalty of 0, chunks without relevance can form segments of value 0.
    chosen = [
        segment
        for segment in segments
        if any(column in scored.candidates for column in range(segment.start, segment.end))
    ]
    steps = [segment[:2] for segment in chosen]
    return Selection(
        values, steps, lambda count: chosen[:count], weights=weights[turns.argmax(axis=0), columns]
    )


def _select_exactly(scored: ScoredChunks, settings: QuerySettings, room: float | None) -> Selection:
    config, per_document = settings.config, settings.max_per_document
    budget = room
    if budget is None or config.minimum_value > 0 or per_document:
        # Segments that are left out afterwards make room for others.
        budget = float(scored.lengths.sum())
    rank = partial(
        rank_chunks,
        lengths=scored.lengths,
        budget=budget,
        penalty=config.irrelevant_chunk_penalty,
        segment_cost=config.segment_cost or 0.0,
        boundaries=scored.starts.tolist(),
        document_lengths=scored.document_lengths,
    )
    ranking = rank(scored.credited)
    weights = ranking.weights
    values = weights * (scored.credited - config.irrelevant_chunk_penalty)
    steps = ranking.steps(config.minimum_value)
    if len(scored.turns) > 1:
        steps = _once(_by_turns([rank(row).steps(config.minimum_value) for row in scored.turns]))
    elif len(scored.found) > 1:
        steps = _once([*_best_of_each_query(scored, values, config, room), *steps])
    if per_document:
        steps = _with_few_segments(steps, scored, per_document)

    def segments(count: int) -> list[Segment]:
        return ranking.segments(column for step in steps[:count] for column in range(*step))

    return Selection(values, steps, segments, weights=weights, thresholds=ranking.thresholds)


def _best_of_each_query(
    scored: ScoredChunks, values: Floats, config: RSEConfig, budget: float | None
) -> list[Bounds]:
    """The best candidate of each query as a step, if it is worth the penalty and fits."""
    room = math.inf if budget is None else budget
    steps: list[Bounds] = []
    for by_column in scored.found:
        column, relevance = next(iter(by_column.items()), (0, 0.0))
        worth = 0 < relevance >= config.irrelevant_chunk_penalty
        worth = worth and bool(values[column] >= config.minimum_value)
        if worth and scored.lengths[column] <= room and (column, column + 1) not in steps:
            steps.append((column, column + 1))
            room -= scored.lengths[column]
    return steps


def _with_few_segments(steps: Sequence[Bounds], scored: ScoredChunks, most: int) -> list[Bounds]:
    """Hold back each step until it makes no more segments of a document than ``most``."""
    edges = {*scored.starts.tolist(), scored.lengths.size}
    count: Counter[str] = Counter()

    def is_allowed(step: Bounds, taken: set[int]) -> bool:
        key = scored.places[step[0]][0].manifest.key
        more = 1 - count_neighbors(step, taken, edges)
        allowed = count[key] + more <= most
        count[key] += more * allowed
        return allowed

    return delay_steps(steps, edges, is_allowed)


def _by_turns(several: Iterable[Iterable[Any]]) -> Iterator[Any]:
    """Yield the first item of each, then the second of each, and so on."""
    return (one for turn in itertools.zip_longest(*several) for one in turn if one is not None)


def _once(steps: Iterable[Bounds]) -> list[Bounds]:
    """Remove from each step the columns of steps before it."""
    taken: set[int] = set()
    rest = []
    for step in steps:
        new = [column for column in range(*step) if column not in taken]
        whole = len(new) == step[1] - step[0]
        rest += [step] if whole else [(column, column + 1) for column in new]
        taken.update(new)
    return rest


def _best_of_each_document(scored: ScoredChunks, turns: Floats, config: RSEConfig) -> list[Segment]:
    """The best segment of each document, best first; several queries take turns."""
    several: list[list[Segment]] = []
    bounds = [*scored.starts.tolist(), len(scored.places)]
    for values in turns:
        best: dict[str, Segment] = {}
        for start, end in itertools.pairwise(bounds):
            found = best_segment(values[start:end], max_length=config.max_length)
            if found is None or found.value < config.minimum_value:
                continue
            key = scored.places[start][0].manifest.key
            if key not in best or found.value > best[key].value:
                best[key] = Segment(found.start + start, found.end + start, found.value)
        several.append(sorted(best.values(), key=lambda segment: -segment.value))
    taken: set[int] = set()
    chosen = []
    for segment in _by_turns(several):
        if taken.isdisjoint(columns := range(segment.start, segment.end)):
            taken.update(columns)
            chosen.append(segment)
    return chosen
