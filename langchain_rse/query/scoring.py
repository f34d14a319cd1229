"""Score and select: computes the relevance of chunks, and forms segments of them.

Segments are ordered so that any budget takes the first steps. They are in positions of chunks here;
`langchain_rse.query.reading` makes passages of documents from them.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from langchain_core.documents import Document
from numpy.typing import NDArray

from langchain_rse.config import BestSegment, Greedy, QuerySettings, RSEConfig
from langchain_rse.engine import (
    NEIGHBOR_RADIUS,
    Bounds,
    Floats,
    Ranking,
    Segment,
    best_segments,
    neighbor_credit,
    rank_chunks,
    solve_greedy,
)
from langchain_rse.query.candidates import Candidate, ChunkKey, Reason
from langchain_rse.query.lookup import LookedUp
from langchain_rse.stores.layouts import Layout

# The relevance of a document is the mean of this number of its best chunks.
_BEST_CHUNKS = 5
# Values that are less negative are 0 but for rounding errors.
_ROUNDING = 1e-9


class ScoredChunks(NamedTuple):
    """The candidates and the chunks around them, window by window; a position is an index here.

    A window is a range of chunks of one document: candidates, and the chunks that can be in a
    passage with them. Arrays have the shape ``(chunks,)``.
    """

    # The layout and number of each chunk; documents are in the order of their best candidates.
    chunks: Sequence[tuple[Layout, int]]
    window_starts: Sequence[int]  # the first position of each window
    candidates: Mapping[int, Candidate]  # by position, each for the query that it matches best
    relevance_rows: Floats  # a row for each query, NaN for chunks that are not its candidates
    relevance: Floats  # of each chunk; 0 for chunks that are not candidates
    credited: Floats  # relevance with neighbor credit
    # Credited relevance: a row for each query with a published solver, otherwise one row.
    credited_rows: Floats
    lengths: NDArray[np.int64]  # in characters


@dataclass(frozen=True)
class Chunk:
    """A chunk with its scores and its outcome.

    Attributes:
        layout: The chunks of its document; None if the query did not read them.
        index: The number of the chunk in its document, from 0.
        candidate: The candidate; None if the search did not find this chunk.
        relevance: The relevance, from 0 to 1, with the document's weight; 0 for other chunks than
            candidates.
        credited: The relevance including neighbors, as used by the solver.
        weight: The length of the chunk compared with the average chunk.
        value: The contribution to its passage: weight * (credited - penalty).
        record: The text; None before it is read.
        outcome: Whether it was returned, and why not.
        duplicate_of: For a duplicate, the id of the document with the same text.
    """

    layout: Layout | None
    index: int
    candidate: Candidate | None = None
    relevance: float = 0.0
    credited: float = 0.0
    weight: float = 0.0
    value: float = 0.0
    record: Document | None = None
    outcome: Reason = Reason.NO_CANDIDATE
    duplicate_of: str | None = None

    def __repr__(self) -> str:
        return f"<Chunk {self.index} of {self.key[0]!r}: {self.outcome.label}>"

    @property
    def key(self) -> ChunkKey:
        """The key of the chunk; without id and version if the query did not read its document."""
        if self.layout is None:
            return "", "", self.index
        return self.layout.manifest.doc_id, self.layout.version, self.index

    @property
    def span(self) -> tuple[int, int] | None:
        """Range ``(start, end)`` of characters in the document, end exclusive; None if unknown."""
        return None if self.layout is None else self.layout.span_of(self.index)

    @property
    def length(self) -> int:
        """The length in characters; 0 if unknown."""
        start, end = self.span or (0, 0)
        return end - start


def score(looked_up: LookedUp, settings: QuerySettings) -> ScoredChunks:
    """Lay out the candidates and the chunks around them, and add neighbor credit."""
    config = settings.config
    # The candidates of each query, with their relevance.
    weighed = [
        _weigh_documents(found, looked_up, config) for found in looked_up.candidates.values()
    ]
    # The documents of the best candidates come first.
    candidates_in_order = sorted(itertools.chain.from_iterable(weighed), key=lambda pair: -pair[1])
    windows: list[tuple[Layout, range]] = []
    for key in dict.fromkeys(candidate.key for candidate, _ in candidates_in_order):
        windows += [(looked_up.layouts[key], window) for window in looked_up.windows[key]]
    chunks: list[tuple[Layout, int]] = []
    position_of: dict[tuple[str, int], int] = {}
    window_starts: list[int] = []
    lengths: list[int] = []
    for layout, window in windows:
        window_starts.append(len(chunks))
        for index in window:
            position_of[layout.manifest.key, index] = len(chunks)
            chunks.append((layout, index))
        lengths += np.diff(layout.cuts[window.start : window.stop + 1]).tolist()

    rows = np.full((len(weighed), len(chunks)), np.nan)
    highest_at = np.zeros(len(chunks))  # of all queries
    candidates: dict[int, Candidate] = {}
    for row, weighed_of_query in zip(rows, weighed, strict=True):
        for candidate, relevance in weighed_of_query:
            position = position_of.get((candidate.key, candidate.chunk_index))
            if position is None:  # a vector of other code, in a gap of an adopted document
                continue
            row[position] = relevance
            if position not in candidates or relevance > highest_at[position]:
                highest_at[position] = relevance
                candidates[position] = candidate
    solver_rows = highest_at[None] if config.solver == "exact" else np.nan_to_num(rows)
    credited_rows = _give_credit(solver_rows, windows, config)
    for candidate, reason, _ in looked_up.exclusions.values():
        position = position_of.get((candidate.key, candidate.chunk_index))
        if reason is Reason.DUPLICATE and position is not None:
            credited_rows[:, position] = 0.0  # it may only fill gaps between relevant chunks
    return ScoredChunks(
        chunks=chunks,
        window_starts=window_starts,
        candidates=dict(sorted(candidates.items())),
        relevance_rows=rows,
        relevance=highest_at,
        credited=credited_rows.max(axis=0),
        credited_rows=credited_rows,
        lengths=np.array(lengths, np.int64),
    )


def _weigh_documents(
    found: Sequence[Candidate], looked_up: LookedUp, config: RSEConfig
) -> list[tuple[Candidate, float]]:
    """Return a query's candidates with their relevance after `RSEConfig.document_weight`.

    A document of fewer than five chunks is compared with the best of the longer documents. The
    document of the best candidate keeps its relevance, so that it can be returned.
    """
    relevances_of: dict[str, list[float]] = {}
    considered = [candidate for candidate in found if candidate.key in looked_up.considered]
    for candidate in considered:
        relevances_of.setdefault(candidate.key, []).append(candidate.relevance)
    means: dict[str, float] = {}
    highest_of_longer = 0.0
    for key, relevances in relevances_of.items():
        count = looked_up.layouts[key].chunk_count
        means[key] = sum(relevances[:_BEST_CHUNKS]) / min(_BEST_CHUNKS, count)
        if count >= _BEST_CHUNKS:
            highest_of_longer = max(highest_of_longer, means[key])
    highest = highest_of_longer or max(means.values(), default=0.0)
    factors = dict.fromkeys(means, 1.0)
    if highest:
        for key, mean in means.items():
            factors[key] = min(mean / highest, 1.0) ** config.document_weight
        factors[considered[0].key] = 1.0
    return [(each, each.relevance * factors[each.key]) for each in considered]


def _give_credit(
    relevance: Floats, windows: Sequence[tuple[Layout, range]], config: RSEConfig
) -> Floats:
    """Add neighbor credit to the relevance of windows, shape ``(rows, chunks)``.

    The only chunk of a document gets credit as if its neighbors were as relevant as itself;
    otherwise chunks of long documents would crowd it out.
    """
    radius = NEIGHBOR_RADIUS
    # Gaps of 2 * radius between the windows keep credit from crossing from one to another.
    sizes = [len(window) for _, window in windows]
    window_numbers = np.repeat(np.arange(len(sizes)), sizes)
    places = np.arange(relevance.shape[1]) + radius * (2 * window_numbers + 1)
    spread = np.zeros((len(relevance), relevance.shape[1] + 2 * radius * len(sizes)))
    spread[:, places] = relevance
    position = 0
    for layout, window in windows:
        if layout.chunk_count == 1:
            place = int(places[position])
            spread[:, place - radius : place + radius + 1] = relevance[:, [position]]
        position += len(window)
    credited = neighbor_credit(spread, credit=config.neighbor_weight, radius=radius)
    return np.asarray(credited[:, places])


# Selecting


class Selection(NamedTuple):
    """The segments of a query as they grow with the budget."""

    scored: ScoredChunks
    values: Floats  # contribution of each chunk to a segment
    weights: Floats  # factor of each chunk's relevance after the penalty
    # Ranges (start, end) in the order in which a growing budget adds them: chunk by chunk with the
    # exact solver, segment by segment with the others.
    steps: Sequence[Bounds]
    ranking: Ranking | None = None  # of the exact solver
    chosen: Sequence[Segment] = ()  # of a published solver: one segment for each step

    def chunk_at(self, position: int, record: Document | None = None) -> Chunk:
        """Return the chunk at a position, with the numbers that the solver used."""
        layout, index = self.scored.chunks[position]
        return Chunk(
            layout=layout,
            index=index,
            candidate=self.scored.candidates.get(position),
            relevance=float(self.scored.relevance[position]),
            credited=float(self.scored.credited[position]),
            weight=float(self.weights[position]),
            value=float(self.values[position]),
            record=record,
        )

    def steps_within(self, characters: float) -> int:
        """Return how many of the first steps fit a budget in characters."""
        lengths = self.scored.lengths
        step_lengths = [lengths[start:end].sum() for start, end in self.steps]
        return int(np.searchsorted(np.cumsum(step_lengths), characters, side="right"))

    def positions_after(self, steps: int) -> list[int]:
        """Return the positions of the chunks that the first ``steps`` steps add, in their order."""
        return list(itertools.chain.from_iterable(range(*step) for step in self.steps[:steps]))

    def passages_after(self, steps: int) -> list[Segment]:
        """Return the segments formed by the first ``steps`` steps, best first."""
        formed = self.chosen[:steps]
        if self.ranking is not None:
            formed = self.ranking.segments(self.positions_after(steps))
        segments: list[Segment] = []
        for segment in formed:
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
        boundaries=scored.window_starts,
        document_lengths=[layout.manifest.length for layout, _ in scored.chunks],
    )
    values = ranking.values
    first = _best_of_each_query(scored, values, settings.penalty, budget)
    return Selection(scored, values, ranking.weights, ranking.steps(first), ranking)


def _best_of_each_query(
    scored: ScoredChunks,
    values: Floats,
    penalty: float,
    budget: float,
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
    scored: ScoredChunks,
    settings: QuerySettings,
    solver: Greedy | BestSegment,
    budget: float,
) -> Selection:
    """Choose segments with a published solver, which does not use the budget.

    If there is no room for the first segment, the best candidate of each query stands alone.
    """
    weights: Floats = np.ones_like(scored.credited_rows)
    if solver.length_weighting == "published":
        longer = np.maximum(scored.lengths / solver.reference_length, 1.0)
        weights = np.where(np.isnan(scored.relevance_rows), 1.0, longer)
    value_rows = weights * (scored.credited_rows - settings.penalty)
    starts = scored.window_starts
    if isinstance(solver, BestSegment):
        segments = best_segments(
            value_rows,
            max_length=solver.max_length,
            minimum_value=solver.minimum_value,
            boundaries=starts,
            documents=[scored.chunks[start][0].manifest.key for start in starts],
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
    values = value_rows.max(axis=0)
    chosen: list[Segment] = []
    for segment in segments:
        # With a penalty of 0, irrelevant chunks can form segments of value 0: skip those.
        if scored.candidates.keys().isdisjoint(range(segment.start, segment.end)):
            continue
        value = float(values[segment.start : segment.end].sum())
        chosen.append(segment._replace(value=value))
    if chosen and scored.lengths[chosen[0].start : chosen[0].end].sum() > budget:
        chosen = []
        for position in _best_of_each_query(scored, values, settings.penalty, budget):
            chosen.append(Segment(position, position + 1, float(values[position])))
    steps = [(segment.start, segment.end) for segment in chosen]
    best_rows = value_rows.argmax(axis=0)
    weights_of_best = weights[best_rows, np.arange(values.size)]
    return Selection(scored, values, weights_of_best, steps, chosen=chosen)
