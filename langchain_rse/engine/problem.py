"""The input of the exact solver, and types and checks that all solvers share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
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
class Problem:
    """The input of the exact solver: chunks, document by document, with relevance and costs.

    All arrays but `starts` have the shape ``(chunks,)``.

    Attributes:
        relevance: Relevance of each chunk, at least 0.
        weights: Length of each chunk, divided by the length of a chunk of weight 1.
        segment_costs: Cost of a segment in the document of each chunk, as a weight that is
            multiplied by the penalty.
        penalty: Cost of a chunk of weight 1, above 0.
        starts: The index of the first chunk of each document, ascending; no segment crosses one.
    """

    relevance: Floats
    weights: Floats
    segment_costs: Floats
    penalty: float
    starts: Indices

    @cached_property
    def borders(self) -> frozenset[int]:
        """The starts as a set."""
        return frozenset(self.starts.tolist())

    @cached_property
    def values(self) -> Floats:
        """The contribution of each chunk to the value of a segment."""
        return self.weights * (self.relevance - self.penalty)

    def cost(self, segment: Bounds) -> float:
        """Return what a segment costs beside its chunks."""
        start, _ = segment
        return self.penalty * self.segment_costs.item(start)


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
    check_boundaries(boundaries, size)
    if document_lengths is not None:
        _check_positive(f"document_{lengths_name}", document_lengths, size)


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
