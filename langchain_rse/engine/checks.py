"""Types and checks that all solvers share."""

from collections.abc import Sequence
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


def check_array(name: str, values: ArrayLike, dimensions: Sequence[int] = (1,)) -> Floats:
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


def check_lengths(name: str, values: ArrayLike, size: int) -> Floats:
    """Return the values as an array; check that each chunk has a finite number above 0."""
    array = check_array(name, values)
    if array.size != size or array.min(initial=np.inf) <= 0:
        raise ValueError(f"{name} must have a number above 0 for each of the {size} chunks")
    return array


def check_boundaries(boundaries: Sequence[int], size: int) -> None:
    """Check that boundaries are indices of chunks; ``size`` is the number of chunks."""
    for boundary in boundaries:
        if not (0 <= boundary <= size and boundary == int(boundary)):
            raise ValueError(
                f"boundaries must be whole numbers from 0 to the number of chunks, {size}; "
                f"got {boundaries!r}"
            )


def check_number(name: str, value: object, *, least: int = 0, whole: bool = False) -> None:
    """Check that a value is a finite number, or a whole number, that is high enough."""
    kinds = (int, np.integer) if whole else (int, float, np.integer, np.floating)
    if not (isinstance(value, kinds) and least <= value < np.inf):
        kind = "whole" if whole else "finite"
        raise ValueError(f"{name} must be a {kind} number of at least {least}; got {value!r}")
