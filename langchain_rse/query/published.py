"""Select segments with a published solver: greedy, or the best segment of each document."""

import itertools

import numpy as np

from langchain_rse.config import BestSegment, Greedy, RSEConfig
from langchain_rse.engine import Floats, Segment, best_segment, solve_greedy
from langchain_rse.query.scoring import ScoredChunks
from langchain_rse.query.selection import Selection, in_turns


def select_as_published(scored: ScoredChunks, config: RSEConfig) -> Selection:
    """Choose segments as the solver of the config was published; it reads no budget of text."""
    solver = config.solver
    if solver == "exact":
        raise ValueError('solver must be a published one; got "exact"')
    weights = _weights(scored, solver)
    value_rows = weights * (scored.credited_rows - config.irrelevant_chunk_penalty)
    if isinstance(solver, BestSegment):
        segments = _best_of_each_document(scored, value_rows, solver, config.minimum_value)
    else:
        further_queries = len(scored.by_query) - 1
        segments = solve_greedy(
            value_rows,
            max_length=solver.max_length,
            overall_max_length=solver.overall_max_length
            + solver.overall_max_length_extension * further_queries,
            minimum_value=config.minimum_value,
            boundaries=scored.window_starts.tolist(),
        )
    values = np.asarray(value_rows.max(axis=0))
    chosen: list[Segment] = []
    for segment in segments:
        columns = range(segment.start, segment.end)
        # With a penalty of 0, chunks without relevance can form segments of value 0.
        if not any(column in scored.candidates for column in columns):
            continue
        value = segment.value
        if len(value_rows) > 1:
            value = float(values[columns.start : columns.stop].sum())
        chosen.append(segment._replace(value=value))
    best_rows = value_rows.argmax(axis=0)
    return Selection(
        values=values,
        steps=[(segment.start, segment.end) for segment in chosen],
        segments=lambda count: chosen[:count],
        weights=weights[best_rows, np.arange(scored.lengths.size)],
    )


def _weights(scored: ScoredChunks, solver: Greedy | BestSegment) -> Floats:
    """The weight of each chunk, a row for each query that takes turns."""
    weights: Floats = np.ones_like(scored.credited_rows)
    if solver.length_weighting == "none":
        return weights
    columns_of_rows = [list(scored.candidates)]
    if len(weights) > 1:
        columns_of_rows = [list(by_column) for by_column in scored.by_query]
    for row, columns in zip(weights, columns_of_rows, strict=True):
        row[columns] = np.maximum(scored.lengths[columns] / solver.reference_length, 1.0)
    return weights


def _best_of_each_document(
    scored: ScoredChunks, value_rows: Floats, solver: BestSegment, minimum_value: float
) -> list[Segment]:
    """The best segment of each document, best first; several queries take turns."""
    bounds = [*scored.window_starts.tolist(), len(scored.chunks)]
    segments_of_rows: list[list[Segment]] = []
    for values in value_rows:
        best: dict[str, Segment] = {}  # by document
        for start, end in itertools.pairwise(bounds):
            segment = best_segment(values[start:end], max_length=solver.max_length)
            if segment is None or segment.value < minimum_value:
                continue
            layout, _ = scored.chunks[start]
            key = layout.manifest.key
            if key not in best or segment.value > best[key].value:
                best[key] = Segment(segment.start + start, segment.end + start, segment.value)
        segments_of_rows.append(sorted(best.values(), key=lambda segment: -segment.value))
    taken: set[int] = set()
    chosen = []
    for segment in in_turns(segments_of_rows):
        columns = range(segment.start, segment.end)
        if taken.isdisjoint(columns):
            taken.update(columns)
            chosen.append(segment)
    return chosen
