"""Score: computes the relevance of candidates and of the chunks around them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from langchain_core.documents import Document
from numpy.typing import NDArray

from langchain_rse.config import QuerySettings, RSEConfig
from langchain_rse.engine import NEIGHBOR_RADIUS, Floats, neighbor_credit
from langchain_rse.query.candidates import Candidate, ChunkKey, Reason
from langchain_rse.query.lookup import LookedUp
from langchain_rse.stores.layouts import Layout

# The relevance of a document is the mean of this number of its best chunks.
_BEST_CHUNKS = 5


class ScoredChunks(NamedTuple):
    """The candidates and the chunks around them, window by window; a position is an index here.

    A window is a range of chunks of one document: candidates, and the chunks that can be in a
    passage with them. Arrays have the shape ``(chunks,)``.
    """

    # The layout and number of each chunk; documents are in the order of their best candidates.
    chunks: Sequence[tuple[Layout, int]]
    window_starts: NDArray[np.intp]  # the first position of each window
    candidates: Mapping[int, Candidate]  # by position, each for the query that it matches best
    relevance_rows: Floats  # a row for each query, NaN for chunks that are not its candidates
    relevance: Floats  # of each chunk; 0 for chunks that are not candidates
    credited: Floats  # relevance with neighbor credit
    # Credited relevance: a row for each query with a published solver, otherwise one row.
    credited_rows: Floats
    lengths: NDArray[np.int64]  # in characters
    document_lengths: NDArray[np.int64]  # length of each chunk's document, in characters


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


def score(looked_up: LookedUp, settings: QuerySettings) -> ScoredChunks:
    """Lay out the candidates and the chunks around them, and add neighbor credit."""
    config = settings.config
    # The candidates of each query, with their relevance.
    weighed = [
        _weigh_documents(found, looked_up, config) for found in looked_up.candidates.values()
    ]
    highest: dict[str, float] = {}  # relevance of each document's best candidate, by key
    for candidate, relevance in itertools.chain.from_iterable(weighed):
        highest[candidate.key] = max(relevance, highest.get(candidate.key, 0.0))
    windows: list[tuple[Layout, range]] = []
    for key in sorted(highest, key=highest.__getitem__, reverse=True):
        windows += [(looked_up.layouts[key], window) for window in looked_up.windows[key]]
    chunks: list[tuple[Layout, int]] = []
    position_of: dict[tuple[str, int], int] = {}
    window_starts: list[int] = []
    lengths: list[int] = []
    document_lengths: list[int] = []
    for layout, window in windows:
        window_starts.append(len(chunks))
        for index in window:
            position_of[layout.manifest.key, index] = len(chunks)
            chunks.append((layout, index))
        lengths += np.diff(layout.cuts[window.start : window.stop + 1]).tolist()
        document_lengths += [layout.manifest.length] * len(window)

    rows = np.full((len(weighed), len(chunks)), np.nan)
    best: dict[int, tuple[float, Candidate]] = {}  # by position, of all queries
    for row, weighed_of_query in zip(rows, weighed, strict=True):
        for candidate, relevance in weighed_of_query:
            position = position_of.get((candidate.key, candidate.chunk_index))
            if position is None:  # a vector of other code, in a gap of an adopted document
                continue
            row[position] = relevance
            if position not in best or relevance > best[position][0]:
                best[position] = relevance, candidate
    relevances = np.fmax.reduce(rows, axis=0, initial=0.0)
    solver_rows = relevances[None] if config.solver == "exact" else np.nan_to_num(rows)
    credited_rows = give_credit(solver_rows, windows, config)
    # Duplicates may only fill gaps between relevant chunks.
    credited_rows[:, _duplicates(looked_up, position_of)] = 0.0
    return ScoredChunks(
        chunks=chunks,
        window_starts=np.array(window_starts, np.intp),
        candidates={position: best[position][1] for position in sorted(best)},
        relevance_rows=rows,
        relevance=relevances,
        credited=credited_rows.max(axis=0),
        credited_rows=credited_rows,
        lengths=np.array(lengths, np.int64),
        document_lengths=np.array(document_lengths, np.int64),
    )


def _duplicates(looked_up: LookedUp, position_of: Mapping[tuple[str, int], int]) -> list[int]:
    """Return the positions of duplicates, as far as they have one."""
    positions: list[int] = []
    for candidate, reason, _ in looked_up.exclusions.values():
        place = candidate.key, candidate.chunk_index
        if reason is Reason.DUPLICATE and place in position_of:
            positions.append(position_of[place])
    return positions


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
    if config.document_weight and highest:
        for key, mean in means.items():
            factors[key] = min(mean / highest, 1.0) ** config.document_weight
        factors[considered[0].key] = 1.0
    return [(each, each.relevance * factors[each.key]) for each in considered]


def give_credit(
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
