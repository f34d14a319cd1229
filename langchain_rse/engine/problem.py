"""The problem of the exact solver: what chunks are worth, and what segments cost."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from langchain_rse.engine.arguments import (
    check_array,
    check_boundaries,
    check_number,
    check_positive,
)
from langchain_rse.engine.segments import Bounds, Floats, Segment

Indices = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class RelevantChunks:
    """The chunks of positive relevance, of which some begin and end every segment.

    All arrays have the shape ``(relevant chunks,)``.

    Attributes:
        indices: Their indices among all chunks.
        lengths: Their lengths.
        gains: Length times relevance.
        gaps: The length of the chunks between each and the relevant chunk before it, infinite if
            that belongs to another document.
        segment_costs: What a segment costs in the document of each, as a length.
    """

    indices: Indices
    lengths: Floats
    gains: Floats
    gaps: Floats
    segment_costs: Floats


@dataclass(frozen=True, eq=False)
class Problem:
    """Chunks of documents, one document after the other, and what is maximized over them.

    Lengths are in any unit. The weight of a chunk is its length divided by `unit`.

    Attributes:
        relevance: The relevance of each chunk, at least 0; shape ``(chunks,)``.
        lengths: The length of each chunk, positive; shape ``(chunks,)``.
        unit: The length that weighs 1.
        penalty: What a chunk of weight 1 costs.
        document_starts: The index of the first chunk of each document, ascending.
        borders: The same, as a set: no segment crosses one of these.
        segment_costs: What a segment costs in each document, as a length to be multiplied by the
            penalty; shape ``(documents,)``.
        relevant: The chunks of positive relevance.
    """

    relevance: Floats
    lengths: Floats
    unit: float
    penalty: float
    document_starts: list[int]
    borders: frozenset[int]
    segment_costs: Floats
    relevant: RelevantChunks

    def segment_cost(self, chunk: int) -> float:
        """The cost of a segment in the document of a chunk."""
        document = bisect_right(self.document_starts, chunk) - 1
        return self.segment_costs.item(document)

    def total_length(self, chunks: Iterable[int]) -> float:
        """The length of chunks together."""
        return sum(map(self.lengths.item, chunks))

    def value(self, segment: Bounds) -> float:
        """What a segment is worth, after the penalty for its chunks and for the segment."""
        # Faster than with arrays, since most segments are short.
        length_of = self.lengths.item
        relevance_of = self.relevance.item
        penalty = self.penalty
        value = sum(length_of(chunk) * (relevance_of(chunk) - penalty) for chunk in range(*segment))
        return (value - penalty * self.segment_cost(segment[0])) / self.unit

    def best_first(self, segments: Iterable[Bounds]) -> list[Segment]:
        """Sort segments by their values, best first; equal ones by position."""
        with_values = [Segment(*segment, self.value(segment)) for segment in segments]
        return sorted(with_values, key=lambda segment: (-segment.value, segment.start))


def make_problem(
    relevance: ArrayLike,
    lengths: ArrayLike,
    *,
    lengths_name: str,
    unit: float | None,
    penalty: float,
    segment_cost: float,
    boundaries: Sequence[int],
    document_lengths: ArrayLike | None,
) -> Problem:
    """Check the arguments of a solver and make a problem of them.

    ``lengths_name`` is what the solver calls the lengths: error messages name them so. A ``unit``
    of None is the mean length of the relevant chunks. For the other arguments, see
    `langchain_rse.engine.solve_budget`.
    """
    penalty = check_number("penalty", penalty)
    segment_cost = check_number("segment_cost", segment_cost)
    relevance = check_array("relevance", relevance)
    if relevance.min(initial=0) < 0:
        raise ValueError(f"relevance must be at least 0; got {relevance.min()}")
    size = relevance.size
    lengths = check_positive(lengths_name, lengths, size)
    starts = {0, *check_boundaries(boundaries, size).tolist()}
    document_starts = sorted(starts - {size})
    document_lengths = _lengths_of_documents(
        f"document_{lengths_name}", document_lengths, lengths, document_starts
    )

    indices = np.flatnonzero(relevance > 0)
    relevant_lengths = lengths[indices]
    if unit is None:
        unit = float(relevant_lengths.mean()) if indices.size else 1.0
    with np.errstate(over="ignore"):
        segment_costs = segment_cost * np.minimum(document_lengths, unit)
    documents = np.searchsorted(document_starts, indices, side="right") - 1
    return Problem(
        relevance=relevance,
        lengths=lengths,
        unit=unit,
        penalty=penalty,
        document_starts=document_starts,
        borders=frozenset(document_starts),
        segment_costs=segment_costs,
        relevant=RelevantChunks(
            indices=indices,
            lengths=relevant_lengths,
            gains=relevant_lengths * relevance[indices],
            gaps=_gaps(lengths, indices, documents),
            segment_costs=segment_costs[documents],
        ),
    )


def _lengths_of_documents(
    name: str,
    document_lengths: ArrayLike | None,
    lengths: Floats,
    document_starts: list[int],
) -> Floats:
    """The length of each document: given for each of its chunks, or the sum of their lengths."""
    if document_lengths is None:
        return np.add.reduceat(lengths, document_starts)
    array = check_positive(name, document_lengths, lengths.size)
    changes = np.flatnonzero(np.diff(array)) + 1
    if not set(document_starts).issuperset(changes.tolist()):
        raise ValueError(f"{name} must be the same for all chunks of a document; got {array}")
    return array[document_starts]


def _gaps(lengths: Floats, indices: Indices, documents: Indices) -> Floats:
    """The lengths between relevant chunks, of which these are the indices and documents."""
    gaps = np.full(indices.size, np.inf)
    if indices.size > 1:
        starts = indices[:-1] + 1
        ends = indices[1:]
        # Sums from each start to its end, and from there to the next start.
        sums = np.add.reduceat(lengths, np.stack([starts, ends], axis=1).ravel())
        # Of an empty range, reduceat does not return 0.
        between = np.where(starts < ends, sums[::2], 0.0)
        is_same_document = documents[1:] == documents[:-1]
        gaps[1:] = np.where(is_same_document, between, np.inf)
    return gaps
