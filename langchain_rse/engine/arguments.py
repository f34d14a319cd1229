"""Checks of the arguments of solvers: each returns the checked value or raises a ValueError."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from langchain_rse.engine.segments import Floats


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


def check_positive(name: str, values: ArrayLike, size: int) -> Floats:
    """Return an array with one number above 0 for each of ``size`` chunks."""
    array = check_array(name, values)
    if array.size != size:
        raise ValueError(
            f"{name} must have one number for each of the {size} chunks; got {array.size}"
        )
    if array.min(initial=np.inf) <= 0:
        raise ValueError(f"{name} must be above 0; got {array.min()}")
    return array


def check_boundaries(boundaries: Sequence[int], size: int) -> NDArray[np.intp]:
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
