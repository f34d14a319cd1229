"""The input of the exact solver, and types and checks that all solvers share.

``borders`` are the indices of the chunks at which documents start; no function extends a segment
across a border.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
"""An array of floats."""

Indices = NDArray[np.intp]

Bounds = tuple[int, int]
"""Range ``(start, end)`` of the chunks of a segment, end exclusive."""


class Segment(NamedTuple):
    """Neighboring chunks of one document.

    Attributes:
        start: Index of the first chunk.
        end: Index after the last chunk.
        value: Sum of the values of the chunks; with the exact solver, minus the segment cost.
    """

    start: int
    end: int
    value: float


@dataclass(frozen=True, eq=False)
class RelevantChunks:
    """The chunks with positive relevance; every segment begins and ends with one.

    All arrays have the shape ``(relevant chunks,)``.

    Attributes:
        indices: Indices among all chunks.
        lengths: Lengths of the chunks.
        gains: Length times relevance.
        gaps: Length of the chunks between each chunk and the previous relevant one; infinite if
            that chunk belongs to another document.
        segment_costs: Cost of a segment in the document of each chunk, as a length.
    """

    indices: Indices
    lengths: Floats
    gains: Floats
    gaps: Floats
    segment_costs: Floats


@dataclass(frozen=True, eq=False)
class Problem:
    """The input of the exact solver: chunks, document by document, with relevance and costs.

    Lengths are in any unit. The weight of a chunk is its length divided by `unit`.

    Attributes:
        relevance: Relevance of each chunk, at least 0; shape ``(chunks,)``.
        lengths: Length of each chunk, positive; shape ``(chunks,)``.
        segment_costs: Cost of a segment in the document of each chunk, as a length that is
            multiplied by the penalty; shape ``(chunks,)``.
        unit: The length of a chunk of weight 1.
        penalty: Cost of a chunk of weight 1.
        borders: The index of the first chunk of each document; no segment crosses a border.
        relevant: The chunks with positive relevance.
    """

    relevance: Floats
    lengths: Floats
    segment_costs: Floats
    unit: float
    penalty: float
    borders: frozenset[int]
    relevant: RelevantChunks

    def value(self, segment: Bounds) -> float:
        """Return the value of a segment: its gain minus the penalty and the segment cost."""
        # Faster than with arrays, because most segments are short.
        length_of = self.lengths.item
        relevance_of = self.relevance.item
        penalty = self.penalty
        value = sum(length_of(chunk) * (relevance_of(chunk) - penalty) for chunk in range(*segment))
        segment_cost = penalty * self.segment_costs.item(segment[0])
        return (value - segment_cost) / self.unit


def make_problem(
    relevance: ArrayLike,
    lengths: ArrayLike,
    *,
    unit: float | None,
    penalty: float,
    segment_cost: float,
    boundaries: Iterable[int],
    document_lengths: ArrayLike | None,
) -> Problem:
    """Make a problem from arguments that `check_problem` accepts.

    If ``unit`` is None, it is the mean length of the relevant chunks. For the other arguments, see
    `langchain_rse.engine.solve_budget`.
    """
    relevance = np.asarray(relevance, dtype=np.float64)
    lengths = np.asarray(lengths, dtype=np.float64)
    borders = frozenset({0, *map(int, boundaries)} - {relevance.size})
    starts = np.array(sorted(borders), dtype=np.intp)
    if document_lengths is None:
        sums = np.add.reduceat(lengths, starts)
        document_lengths = np.repeat(sums, np.diff(starts, append=lengths.size))

    indices = np.flatnonzero(relevance > 0)
    relevant_lengths = lengths[indices]
    if unit is None:
        unit = float(relevant_lengths.mean()) if indices.size else 1.0
    with np.errstate(over="ignore"):
        segment_costs = segment_cost * np.minimum(document_lengths, unit)

    gaps = np.full(indices.size, np.inf)
    if indices.size > 1:
        gap_starts = indices[:-1] + 1
        gap_ends = indices[1:]
        # Sums over each gap, and from its end to the start of the next gap.
        sums = np.add.reduceat(lengths, np.stack([gap_starts, gap_ends], axis=1).ravel())
        # reduceat does not return 0 for an empty range.
        gap_lengths = np.where(gap_starts < gap_ends, sums[::2], 0.0)
        documents = np.searchsorted(starts, indices, side="right")
        is_same_document = documents[1:] == documents[:-1]
        gaps[1:] = np.where(is_same_document, gap_lengths, np.inf)
    return Problem(
        relevance=relevance,
        lengths=lengths,
        segment_costs=segment_costs,
        unit=unit,
        penalty=float(penalty),
        borders=borders,
        relevant=RelevantChunks(
            indices=indices,
            lengths=relevant_lengths,
            gains=relevant_lengths * relevance[indices],
            gaps=gaps,
            segment_costs=segment_costs[indices],
        ),
    )


def count_neighbors(segment: Bounds, chunks: Collection[int], borders: Collection[int]) -> int:
    """Count how many of the two chunks next to a segment are among ``chunks``."""
    start, end = segment
    count = 0
    if start not in borders and start - 1 in chunks:
        count += 1
    if end not in borders and end in chunks:
        count += 1
    return count


def extend(segment: Bounds, chunks: Collection[int], borders: Collection[int]) -> Bounds:
    """Extend a segment on both sides by all adjacent chunks that are in ``chunks``."""
    start, end = segment
    while start not in borders and start - 1 in chunks:
        start -= 1
    while end not in borders and end in chunks:
        end += 1
    return start, end


def check_problem(
    relevance: ArrayLike,
    lengths: ArrayLike,
    *,
    lengths_name: str,
    penalty: object,
    segment_cost: object,
    boundaries: Sequence[int],
    document_lengths: ArrayLike | None,
) -> None:
    """Check the arguments of an exact solver; ``lengths_name`` is its name for ``lengths``.

    Raises:
        ValueError: If an argument is out of range or not finite.
    """
    check_number("penalty", penalty)
    check_number("segment_cost", segment_cost)
    relevance = check_array("relevance", relevance)
    if relevance.min(initial=0) < 0:
        raise ValueError(f"relevance must be at least 0; got {relevance.min()}")
    size = relevance.size
    _check_positive(lengths_name, lengths, size)
    limits = check_boundaries(boundaries, size)
    if document_lengths is None:
        return
    name = f"document_{lengths_name}"
    document_lengths = _check_positive(name, document_lengths, size)
    changes = np.flatnonzero(np.diff(document_lengths)) + 1
    if not np.isin(changes, limits).all():
        raise ValueError(
            f"{name} must be the same for all chunks of a document; got {document_lengths}"
        )


def check_array(name: str, values: ArrayLike, dimensions: tuple[int, ...] = (1,)) -> Floats:
    """Return the values as an array; check that they are finite and have allowed dimensions."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim not in dimensions:
        allowed = " or ".join(map(str, dimensions))
        raise ValueError(f"{name} must have {allowed} dimension(s); got shape {array.shape}")
    is_finite = np.isfinite(array)
    if not is_finite.all():
        index = tuple(np.argwhere(~is_finite)[0].tolist())
        raise ValueError(f"{name} must be finite; got {array[index]} at index {index}")
    return array


def _check_positive(name: str, values: ArrayLike, size: int) -> Floats:
    """Return the values as an array; check that there is one number above 0 per chunk."""
    array = check_array(name, values)
    if array.size != size:
        raise ValueError(
            f"{name} must have one number for each of the {size} chunks; got {array.size}"
        )
    if array.min(initial=np.inf) <= 0:
        raise ValueError(f"{name} must be above 0; got {array.min()}")
    return array


def check_boundaries(boundaries: Sequence[int], size: int) -> Indices:
    """Return the boundaries in ascending order, followed by ``size``, the number of chunks."""
    starts = np.unique(np.asarray(boundaries, dtype=np.float64))
    in_range = (starts >= 0) & (starts <= size)
    is_whole = starts == np.floor(starts)
    if not (in_range & is_whole).all():
        raise ValueError(
            f"boundaries must be whole numbers from 0 to the number of chunks, {size}; "
            f"got {boundaries!r}"
        )
    return np.append(starts, size).astype(np.intp)


def check_count(name: str, value: object, *, least: int) -> int:
    """Return the value; check that it is a whole number of at least ``least``."""
    if not (isinstance(value, (int, np.integer)) and value >= least):
        raise ValueError(f"{name} must be a whole number of at least {least}; got {value!r}")
    return int(value)


def check_number(name: str, value: object) -> float:
    """Return the value; check that it is a finite number of at least 0."""
    if not (isinstance(value, (int, float, np.integer, np.floating)) and 0 <= value < np.inf):
        raise ValueError(f"{name} must be a finite number of at least 0; got {value!r}")
    return float(value)
