"""From the candidates of a query to segments: scoring and segmentation put together.

Documents may be long and candidates few, so only the windows around candidates are laid
out for the solver. Needs numpy only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from langchain_rse.config import RSEConfig
from langchain_rse.scoring import (
    calibrate,
    chunk_values,
    fuse_decay,
    fuse_mean,
    length_weights,
)
from langchain_rse.segmentation import Segment, best_segment, solve_greedy

__all__ = [
    "DocumentCandidates",
    "Selected",
    "Window",
    "find_windows",
    "relevance_of",
    "select_segments",
]

Floats = NDArray[np.float64]


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
    """

    chunks: NDArray[np.intp]
    relevance: Floats
    windows: Sequence[Window]
    lengths: NDArray[np.int64]


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


def relevance_of(
    scores: Sequence[float | None], config: RSEConfig, *, reranker: str | None = None
) -> Floats:
    """The relevance of candidates from their scores and their order.

    Args:
        scores: One score a candidate, best candidate first.
        config: Says how to calibrate and how to fuse with the rank.
        reranker: Class name of the reranker that gave the scores, if one did.

    Returns:
        Shape ``(candidates,)``, each in [0, 1].
    """
    relevance = calibrate(scores, config.calibration, reranker=reranker)
    ranks = np.arange(len(scores))
    if config.rank_fusion == "mean":
        return fuse_mean(relevance, ranks, count=len(scores))
    return fuse_decay(relevance, ranks, decay_rate=config.decay_rate)


def find_windows(chunks: Sequence[int], config: RSEConfig) -> list[Window]:
    """The windows of a document in which segments can lie, given its candidates.

    Chunks that are no candidates cost the penalty, so a segment begins and ends on a
    candidate, and bridges no gap longer than itself. Only a penalty of 0 lets segments
    reach beyond.

    Args:
        chunks: The candidates' indices, ascending. The number of chunks of the document
            need not be known: cut the windows there.
        config: Gives the penalty and the longest segment.

    Returns:
        The windows, ascending and apart from one another.
    """
    reach = config.max_length - 1 if config.irrelevant_chunk_penalty == 0 else 0
    apart = config.max_length + 2 * reach
    windows: list[Window] = []
    for chunk in chunks:  # mostly a handful: no work for numpy
        start, end = max(chunk - reach, 0), chunk + reach + 1
        if windows and chunk - (windows[-1].end - reach - 1) < apart:
            start = windows.pop().start
        windows.append(Window(start, end))
    return windows


def select_segments(documents: Sequence[DocumentCandidates], config: RSEConfig) -> list[Selected]:
    """Choose the segments.

    Args:
        documents: The documents' candidates. Where segments are worth the same, those of
            earlier documents win.
        config: Names the solver and its limits.

    Returns:
        The segments in the order in which the solver chose them.
    """
    windows = [window for document in documents for window in document.windows]
    if not windows:
        return []
    values, is_candidate = _lay_out(documents, config)
    sizes = [window.end - window.start for window in windows]
    starts = np.cumsum([0, *sizes[:-1]])
    owners = np.repeat(np.arange(len(documents)), [len(d.windows) for d in documents])

    if config.solver == "best":
        found = _best_of_each(values, starts, owners, config)
    else:
        extra_queries = values.shape[0] - 1
        found = solve_greedy(
            values,
            max_length=config.max_length,
            overall_max_length=config.overall_max_length
            + config.overall_max_length_extension * extra_queries,
            minimum_value=config.minimum_value,
            boundaries=starts.tolist(),
        )
    chosen = []
    for segment in found:
        # With a penalty of 0, chunks that nothing speaks for can form segments of value 0.
        inside = slice(segment.start, segment.end)
        if not is_candidate[inside].any():
            continue
        place = int(np.searchsorted(starts, segment.start, side="right")) - 1
        shift = windows[place].start - int(starts[place])
        moved = Segment(segment.start + shift, segment.end + shift, segment.value)
        chosen.append(Selected(int(owners[place]), moved, values[:, inside].max(axis=0)))
    return chosen


def _lay_out(
    documents: Sequence[DocumentCandidates], config: RSEConfig
) -> tuple[Floats, NDArray[np.bool_]]:
    """Values of all windows' chunks, shape ``(queries, chunks)``, and which are candidates."""
    relevances, candidates = [], []
    for document in documents:
        places = np.concatenate([np.arange(w.start, w.end) for w in document.windows])
        at = np.searchsorted(places, document.chunks)
        relevance = np.zeros((document.relevance.shape[0], places.size))
        relevance[:, at] = document.relevance
        candidate = np.zeros(places.size, dtype=bool)
        candidate[at] = True
        relevances.append(relevance)
        candidates.append(candidate)
    is_candidate = np.concatenate(candidates)
    weights: Floats | float = 1.0
    if config.length_weighting != "none":
        published = config.length_weighting == "published"
        weights = length_weights(
            np.concatenate([document.lengths for document in documents]),
            reference_length=config.reference_length,
            at_least_one=published,
        )
        if published:
            weights = np.where(is_candidate, weights, 1.0)
    values = chunk_values(
        np.concatenate(relevances, axis=1),
        penalty=config.irrelevant_chunk_penalty,
        weights=weights,
    )
    return values, is_candidate


def _best_of_each(
    values: Floats, starts: NDArray[np.intp], owners: NDArray[np.intp], config: RSEConfig
) -> list[Segment]:
    """The best segment of each document over its windows and all queries, best first."""
    best: dict[int, Segment] = {}
    ends = [*starts[1:].tolist(), values.shape[1]]
    for owner, start, end in zip(owners.tolist(), starts.tolist(), ends, strict=True):
        for row in values:
            found = best_segment(row[start:end], max_length=config.max_length)
            if found is None or found.value < config.minimum_value:
                continue
            if owner not in best or found.value > best[owner].value:
                best[owner] = Segment(found.start + start, found.end + start, found.value)
    return sorted(best.values(), key=lambda segment: -segment.value)
