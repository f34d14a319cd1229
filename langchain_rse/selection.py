"""From the candidates of a query to segments: scoring and segmentation put together.

Documents may be long and candidates few, so only the windows around candidates are laid
out for the solver. Needs numpy only.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from langchain_rse.config import ByScores, RSEConfig
from langchain_rse.scoring import (
    calibrate,
    chunk_values,
    fuse_decay,
    fuse_mean,
    length_weights,
    lexical_scores,
    minmax,
    neighbor_credit,
    sharpen,
)
from langchain_rse.segmentation import (
    Segment,
    best_segment,
    rank_chunks,
    solve_greedy,
)

__all__ = [
    "DocumentCandidates",
    "Selected",
    "Selection",
    "Step",
    "Window",
    "find_windows",
    "lexical_relevance",
    "relevance_of",
    "runs_of",
    "select_segments",
]

Floats = NDArray[np.float64]

# Longer runs of chunks that nothing speaks for are not looked at by the exact solver.
_LONGEST_GAP = 16


class Window(NamedTuple):
    """A run of chunks of one document, ``[start, end)``, outside of which no segment lies."""

    start: int
    end: int


class DocumentCandidates(NamedTuple):
    """One document's candidates.

    Attributes:
        chunks: Shape ``(candidates,)``; the chunks' indices, ascending, each once.
        relevance: Shape ``(queries, candidates)``; 0 where a chunk is none of a query's.
        windows: The windows of the document, ascending; together they hold all candidates.
        lengths: Shape ``(chunks in windows,)``; their lengths, one window after the other.
        borders: Where sections begin and end, as numbers of chunks.
    """

    chunks: NDArray[np.intp]
    relevance: Floats
    windows: Sequence[Window]
    lengths: NDArray[np.int64]
    borders: Collection[int] = ()


class Selected(NamedTuple):
    """A chosen segment.

    Attributes:
        document: The document's place in the list of documents.
        segment: The segment in the document's chunks.
        values: What each of its chunks is worth; of several queries, to the one that
            values it most.
    """

    document: int
    segment: Segment
    values: Floats


class Step(NamedTuple):
    """What a growing budget adds next: chunks ``[start, end)`` of a document."""

    document: int
    start: int
    end: int


class Selection(NamedTuple):
    """The segments of a query, as they grow with the budget.

    Attributes:
        steps: What is added, the best first: with the exact solver chunk by chunk, as far as
            each makes a segment that is worth enough, else segment by segment.
        segments: From a number of steps to the segments that those make, best first.
    """

    steps: Sequence[Step]
    segments: Callable[[int], list[Selected]]


def relevance_of(
    scores: Sequence[float | None],
    config: RSEConfig,
    *,
    reranker: str | None = None,
    query: str = "",
    texts: Sequence[str] = (),
    lexical: Callable[[str, Sequence[str]], Floats] = lexical_scores,
) -> Floats:
    """The relevance of candidates from their scores, their order and their words.

    Args:
        scores: One score a candidate, best candidate first.
        config: Says how to calibrate and how to fuse with the rank and with words.
        reranker: Class name of the reranker that gave the scores, if one did.
        query: The query, for its words.
        texts: The candidates' texts, for theirs; none leaves words out.
        lexical: Scores the texts by the words of the query.

    Returns:
        Shape ``(candidates,)``, each in [0, 1].
    """
    calibrated = calibrate(scores, config.calibration, reranker=reranker)
    by_scores = config.by_scores(reranker)
    relevance = _fuse(calibrated, np.arange(len(scores)), config, by_scores)
    if config.lexical_credit and texts and reranker is None:
        words = lexical(query, texts)
        if words.any():  # a query in other words or another script says nothing here
            ranks = np.empty(words.size)
            ranks[np.argsort(-words, kind="stable")] = np.arange(words.size)
            # Vectors and words are two witnesses: noisy or, as for neighbors.
            by_words = config.lexical_credit * _fuse(minmax(words), ranks, config, by_scores)
            relevance = relevance + by_words * (1 - relevance)
    return np.where(calibrated >= config.min_relevance, relevance, 0.0)


def lexical_relevance(scores: Sequence[float], config: RSEConfig) -> Floats:
    """The relevance of chunks that were found by their words.

    Args:
        scores: Their scores, best first.
        config: Says how to fuse with the rank.

    Returns:
        Shape ``(chunks,)``, each in [0, 1].
    """
    if not scores:
        return np.zeros(0)
    calibrated = minmax(np.asarray(scores, dtype=np.float64))
    relevance = _fuse(calibrated, np.arange(len(scores)), config, config.by_scores())
    return np.where(calibrated >= config.min_relevance, relevance, 0.0)


def _fuse(relevance: Floats, ranks: ArrayLike, config: RSEConfig, by_scores: ByScores) -> Floats:
    if config.rank_fusion == "mean":
        fused = fuse_mean(relevance, ranks, count=relevance.size)
    else:
        fused = fuse_decay(relevance, ranks, decay_rate=by_scores.decay_rate)
    return sharpen(fused, contrast=by_scores.contrast)


def find_windows(chunks: Sequence[int], config: RSEConfig) -> list[Window]:
    """The windows of a document in which segments can lie, given its candidates.

    With the exact solver, a window reaches as far as the credit of its candidates, and
    windows with at most 16 chunks between them are one. With the others, chunks that are no
    candidates cost the penalty, so a segment begins and ends on a candidate, and bridges no
    gap longer than itself; only a penalty of 0 lets segments reach beyond.

    Args:
        chunks: The candidates' indices, ascending. The number of chunks of the document
            need not be known: cut the windows there.
        config: Gives the solver, the penalty, the credit and the longest segment.

    Returns:
        The windows, ascending and apart from one another.
    """
    radius = config.by_scores().neighbor_radius
    if config.solver == "exact":
        reach = radius
        apart = 2 * reach + 2 + _LONGEST_GAP
    else:
        longest = config.max_length or 1
        reach = longest - 1 if config.irrelevant_chunk_penalty == 0 else radius
        apart = longest + 2 * reach
    windows: list[Window] = []
    for chunk in chunks:  # mostly a handful: no work for numpy
        start, end = max(chunk - reach, 0), chunk + reach + 1
        if windows and chunk - (windows[-1].end - reach - 1) < apart:
            start = windows.pop().start
        windows.append(Window(start, end))
    return windows


def runs_of(chunks: Sequence[int]) -> list[Window]:
    """Windows that hold nothing but the given chunks, ascending: their runs."""
    windows: list[Window] = []
    for chunk in chunks:
        start = windows.pop().start if windows and windows[-1].end == chunk else chunk
        windows.append(Window(start, chunk + 1))
    return windows


def select_segments(
    documents: Sequence[DocumentCandidates], config: RSEConfig, *, budget: float | None = None
) -> Selection:
    """Choose the segments.

    Args:
        documents: The documents' candidates. Where segments are worth the same, those of
            earlier documents win.
        config: Names the solver and its limits.
        budget: How much text is wanted, in characters: the steps need not go far beyond.
            None for all that is worth the penalty.

    Returns:
        The selection; how many of its steps to take is up to who measures the text.
    """
    windows = [window for document in documents for window in document.windows]
    if not windows:
        return Selection([], lambda _: [])
    layout = _lay_out(documents, config)
    if config.solver == "exact":
        return _select_exactly(layout, config, budget)
    extra_queries = layout.relevance.shape[0] - 1
    values = _values(layout, config)
    if config.solver == "best":
        found = _best_of_each(values, layout, config)
    else:
        found = solve_greedy(
            values,
            max_length=config.max_length or values.shape[1],
            overall_max_length=config.overall_max_length
            + config.overall_max_length_extension * extra_queries,
            minimum_value=config.minimum_value,
            boundaries=layout.starts.tolist(),
        )
    # With a penalty of 0, chunks that nothing speaks for can form segments of value 0.
    chosen = [
        layout.selected(segment, values)
        for segment in found
        if layout.is_candidate[segment.start : segment.end].any()
    ]
    steps = [Step(s.document, s.segment.start, s.segment.end) for s in chosen]
    return Selection(steps, lambda count: chosen[:count])


class _Layout(NamedTuple):
    """All windows, one after the other.

    Attributes:
        relevance: With credit; shape ``(queries, chunks)``.
        is_candidate: Shape ``(chunks,)``.
        lengths: In characters; shape ``(chunks,)``.
        at_border: Whether the chunk begins a section, and whether it ends one; shape
            ``(chunks, 2)``. None if no section is known.
        windows: The windows.
        starts: Where they start here; shape ``(windows,)``.
        owners: Whose they are; shape ``(windows,)``.
    """

    relevance: Floats
    is_candidate: NDArray[np.bool_]
    lengths: NDArray[np.int64]
    at_border: NDArray[np.bool_] | None
    windows: Sequence[Window]
    starts: NDArray[np.intp]
    owners: NDArray[np.intp]

    def place(self, chunk: int) -> tuple[int, int]:
        """The document of a chunk, and its index there."""
        window = int(np.searchsorted(self.starts, chunk, side="right")) - 1
        index = chunk - int(self.starts[window]) + self.windows[window].start
        return int(self.owners[window]), index

    def selected(self, segment: Segment, values: Floats) -> Selected:
        document, start = self.place(segment.start)
        moved = Segment(start, start + segment.end - segment.start, segment.value)
        inside = slice(segment.start, segment.end)
        return Selected(document, moved, values[:, inside].max(axis=0))


def _lay_out(documents: Sequence[DocumentCandidates], config: RSEConfig) -> _Layout:
    relevances, candidates = [], []
    for document in documents:
        places = np.concatenate([np.arange(w.start, w.end) for w in document.windows])
        at = np.searchsorted(places, document.chunks)
        relevance = np.zeros((document.relevance.shape[0], places.size))
        relevance[:, at] = document.relevance
        candidate = np.zeros(places.size, dtype=bool)
        candidate[at] = True
        first = 0
        for window in document.windows:
            inside = slice(first, first + window.end - window.start)
            first = inside.stop
            relevances.append(
                neighbor_credit(
                    relevance[:, inside],
                    credit=config.neighbor_credit,
                    radius=config.by_scores().neighbor_radius,
                )
            )
        candidates.append(candidate)
    windows = [window for document in documents for window in document.windows]
    sizes = [window.end - window.start for window in windows]
    return _Layout(
        relevance=np.concatenate(relevances, axis=1),
        is_candidate=np.concatenate(candidates),
        lengths=np.concatenate([document.lengths for document in documents]),
        at_border=_at_borders(documents) if any(d.borders for d in documents) else None,
        windows=windows,
        starts=np.cumsum([0, *sizes[:-1]]),
        owners=np.repeat(np.arange(len(documents)), [len(d.windows) for d in documents]),
    )


def _at_borders(documents: Sequence[DocumentCandidates]) -> NDArray[np.bool_]:
    return np.array(
        [
            (chunk in document.borders, chunk + 1 in document.borders)
            for document in documents
            for window in document.windows
            for chunk in range(window.start, window.end)
        ]
    )


def _select_exactly(layout: _Layout, config: RSEConfig, budget: float | None) -> Selection:
    """Several queries share one solution: what is relevant to any of them is relevant."""
    relevance = layout.relevance.max(axis=0)
    if budget is None or config.minimum_value > 0:
        # What is left out for being worth too little makes room for what comes later.
        budget = float(layout.lengths.sum())
    edge_costs = None
    if layout.at_border is not None and config.border_cost < 1:
        edge_costs = np.where(layout.at_border, config.border_cost, 1.0)
    ranking = rank_chunks(
        relevance,
        layout.lengths,
        budget=budget,
        penalty=config.irrelevant_chunk_penalty,
        segment_cost=config.by_scores().segment_cost,
        max_length=config.max_length,
        boundaries=layout.starts.tolist(),
        edge_costs=edge_costs,
    )
    values = ranking.weights * (layout.relevance - config.irrelevant_chunk_penalty)
    runs = ranking.steps(config.minimum_value)
    steps = []
    for start, end in runs:
        document, index = layout.place(start)
        steps.append(Step(document, index, index + end - start))

    def segments(count: int) -> list[Selected]:
        chunks = (chunk for run in runs[:count] for chunk in range(*run))
        return [
            layout.selected(segment, values)
            for segment in ranking.segments(chunks)
            # Those that had to be cut may be worth less.
            if segment.value >= config.minimum_value
        ]

    return Selection(steps, segments)


def _values(layout: _Layout, config: RSEConfig) -> Floats:
    """Values of all windows' chunks, shape ``(queries, chunks)``."""
    weights: Floats | float = 1.0
    if config.length_weighting != "none":
        published = config.length_weighting == "published"
        weights = length_weights(
            layout.lengths, reference_length=config.reference_length, at_least_one=published
        )
        if published:
            weights = np.where(layout.is_candidate, weights, 1.0)
    return chunk_values(layout.relevance, penalty=config.irrelevant_chunk_penalty, weights=weights)


def _best_of_each(values: Floats, layout: _Layout, config: RSEConfig) -> list[Segment]:
    """The best segment of each document over its windows and all queries, best first."""
    best: dict[int, Segment] = {}
    ends = [*layout.starts[1:].tolist(), values.shape[1]]
    for owner, start, end in zip(layout.owners.tolist(), layout.starts.tolist(), ends, strict=True):
        for row in values:
            found = best_segment(row[start:end], max_length=config.max_length)
            if found is None or found.value < config.minimum_value:
                continue
            if owner not in best or found.value > best[owner].value:
                best[owner] = Segment(found.start + start, found.end + start, found.value)
    return sorted(best.values(), key=lambda segment: -segment.value)
