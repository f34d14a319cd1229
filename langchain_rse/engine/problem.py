"""The problem of the exact solver: what chunks are worth, and what segments cost.

Also the words of all solvers, segments and their bounds, and the checks of their arguments.
Functions that get ``borders`` never extend a segment across one: these are the indices of the
chunks at which documents start.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
"""An array of floats."""

Indices = NDArray[np.intp]

Bounds = tuple[int, int]
"""The first chunk of a segment, and the one after its last."""


class Segment(NamedTuple):
    """Neighboring chunks of one document.

    Attributes:
        start: Index of the first chunk.
        end: Index after the last chunk.
        value: Sum of the values of the chunks; with the exact solver, less the cost of a segment.
    """

    start: int
    end: int
    value: float


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
        segment_costs: What a segment costs in the document of each chunk, as a length to be
            multiplied by the penalty; shape ``(chunks,)``.
        unit: The length that weighs 1.
        penalty: What a chunk of weight 1 costs.
        borders: The index of the first chunk of each document: no segment crosses one of these.
        relevant: The chunks of positive relevance.
    """

    relevance: Floats
    lengths: Floats
    segment_costs: Floats
    unit: float
    penalty: float
    borders: frozenset[int]
    relevant: RelevantChunks

    def value(self, segment: Bounds) -> float:
        """What a segment is worth, after the penalty for its chunks and for the segment."""
        # Faster than with arrays, since most segments are short.
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
    """Make a problem of arguments that `check_problem` accepts.

    A ``unit`` of None is the mean length of the relevant chunks. For the other arguments, see
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
        # Sums from each start to its end, and from there to the next start.
        sums = np.add.reduceat(lengths, np.stack([gap_starts, gap_ends], axis=1).ravel())
        # Of an empty range, reduceat does not return 0.
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
    """Extend a segment to both sides by those of ``chunks`` that adjoin it."""
    start, end = segment
    while start not in borders and start - 1 in chunks:
        start -= 1
    while end not in borders and end in chunks:
        end += 1
    return start, end


def delay_steps(
    steps: Iterable[Bounds],
    borders: Collection[int],
    accepts: Callable[[Bounds, set[int]], bool],
) -> list[Bounds]:
    """Delay each step that is not accepted; retry it, merged, with each later step that adjoins it.

    Args:
        steps: Disjoint ranges of chunks, in the order in which they are taken.
        borders: The indices at which documents start.
        accepts: Gets a step, merged with the delayed chunks that adjoin it, and the chunks of all
            steps accepted before. Returns True to accept the step.

    Returns:
        The accepted steps. Chunks of steps that are never accepted are left out.
    """
    accepted: list[Bounds] = []
    taken: set[int] = set()
    delayed: set[int] = set()
    for step in steps:
        merged = extend(step, delayed, borders)
        chunks = range(*merged)
        if accepts(merged, taken):
            accepted.append(merged)
            taken.update(chunks)
            delayed.difference_update(chunks)
        else:
            delayed.update(chunks)
    return accepted


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
    """Check the arguments of an exact solver; ``lengths_name`` is what it calls the lengths.

    Raises:
        ValueError: If one is out of its range or not finite.
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
    """Return an array of finite numbers that has one of these numbers of dimensions."""
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
    """Return an array with one number above 0 for each of ``size`` chunks."""
    array = check_array(name, values)
    if array.size != size:
        raise ValueError(
            f"{name} must have one number for each of the {size} chunks; got {array.size}"
        )
    if array.min(initial=np.inf) <= 0:
        raise ValueError(f"{name} must be above 0; got {array.min()}")
    return array


def check_boundaries(boundaries: Sequence[int], size: int) -> Indices:
    """Return the boundaries in ascending order, and ``size``, the number of chunks, after them."""
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
    """Return a whole number of at least ``least``."""
    if not (isinstance(value, (int, np.integer)) and value >= least):
        raise ValueError(f"{name} must be a whole number of at least {least}; got {value!r}")
    return int(value)


def check_number(name: str, value: object) -> float:
    """Return a finite number of at least 0."""
    if not (isinstance(value, (int, float, np.integer, np.floating)) and 0 <= value < np.inf):
        raise ValueError(f"{name} must be a finite number of at least 0; got {value!r}")
    return float(value)
