"""Selection: the segments that a solver chose, as they grow with the budget."""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, TypeVar

import numpy as np

from langchain_rse.engine import Floats, Segment
from langchain_rse.engine.problem import Bounds

T = TypeVar("T")


class Selection(NamedTuple):
    """The segments of a query, as they grow with the budget. All numbers are columns."""

    values: Floats  # what each chunk adds to a segment
    # Ranges (start, end) that a growing budget adds, the best first: chunk by chunk with the exact
    # solver, segment by segment with the others.
    steps: Sequence[Bounds]
    segments: Callable[[int], list[Segment]]  # those that a number of steps forms, best first
    weights: Floats = np.ones(1)  # by which each chunk's relevance after the penalty is multiplied
    # By column, with the exact solver: the penalty below which a chunk is in the solution.
    thresholds: Mapping[int, float] = MappingProxyType({})


def in_turns(lists: Iterable[Sequence[T]]) -> list[T]:
    """The first item of each list, then the second of each, and so on."""
    items = []
    for turn in itertools.zip_longest(*lists):
        items += [item for item in turn if item is not None]
    return items
