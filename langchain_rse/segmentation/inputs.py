"""What the solvers have in common: segments, and the checks of what they are given."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["Floats", "Segment", "checked_values", "finite_number", "limits_of", "whole_number"]

Floats = NDArray[np.float64]


class Segment(NamedTuple):
    """A run of neighboring chunks.

    Attributes:
        start: Index of the first chunk.
        end: Index after the last chunk.
        value: Sum of the chunks' values, less the cost of a segment where there is one.
    """

    start: int
    end: int
    value: float


def limits_of(boundaries: Sequence[int], size: int) -> NDArray[np.intp]:
    """Boundaries sorted, with the end of the input as the last."""
    limits = np.asarray(boundaries if len(boundaries) else [], dtype=float)
    if limits.ndim != 1 or not (limits == np.floor(limits)).all():
        raise ValueError(
            f"boundaries must be whole numbers, the starts of documents; got {boundaries!r}"
        )
    if limits.size and (limits.min() < 0 or limits.max() > size):
        raise ValueError(
            f"boundaries must lie between 0 and the number of chunks, {size}; got {boundaries!r}"
        )
    if not (limits[1:] > limits[:-1]).all():
        limits = np.unique(limits)
    return np.concatenate([limits, [size]]).astype(np.intp)


def checked_values(values: ArrayLike, dimensions: tuple[int, ...], name: str = "values") -> Floats:
    """An array of finite numbers.

    Raises:
        ValueError: If it has another number of dimensions, or a number is not finite.
    """
    table = np.asarray(values, dtype=np.float64)
    if table.ndim not in dimensions:
        wanted = " or ".join(f"{n}" for n in dimensions)
        raise ValueError(f"{name} must have {wanted} dimension(s); got shape {table.shape}")
    # One sum finds any value that is not finite; the place is looked for only then.
    with np.errstate(over="ignore", invalid="ignore"):
        total = table.sum()
    if not np.isfinite(total):
        finite = np.isfinite(table)
        if not finite.all():
            place = tuple(int(i) for i in np.argwhere(~finite)[0])
            raise ValueError(f"{name} must be finite; got {table[place]} at index {place}")
    return table


def whole_number(name: str, value: int, *, least: int) -> int:
    """A whole number.

    Raises:
        ValueError: If it is none, or less than ``least``.
    """
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if number < least:
        raise ValueError(f"{name} must be a whole number of at least {least}; got {value!r}")
    return number


def finite_number(name: str, value: float) -> float:
    """A finite number.

    Raises:
        ValueError: If it is none, or less than 0.
    """
    try:
        number = np.nan if isinstance(value, (bool, str, bytes)) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = np.nan
    if not (np.isfinite(number) and number >= 0):
        raise ValueError(f"{name} must be a finite number of at least 0; got {value!r}")
    return number
