"""Brings metadata into a form that vector stores take."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from langchain_rse.text.quoting import encodable

# Names of metadata that Chroma refuses.
_RESERVED_NAME = re.compile(r"[$#]|(chroma:document)?\Z")


def simple_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Keep values that vector stores take: encodable strings, numbers, booleans, and lists of them.

    A list has at least one value, and all are of one of these types. Not every store takes lists:
    see `VectorStoreAdapter.takes_lists`.
    """
    simple: dict[str, Any] = {}
    for name, value in metadata.items():
        simple_value = _simple_list(value) if isinstance(value, list) else _simple(value)
        if simple_value is not None and not _RESERVED_NAME.match(name):
            simple[encodable(name)] = simple_value
    return simple


def _simple_list(values: Sequence[object]) -> list[Any] | None:
    """A list in a form that vector stores with lists take; None if it has none."""
    simple_values = [_simple(value) for value in values]
    types = {type(value) for value in simple_values}
    if len(types) != 1 or None in simple_values:
        return None
    return simple_values


def _simple(value: object) -> str | int | float | bool | None:
    """A metadata value in a form that every vector store takes; None if it has none."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, int):  # booleans too
        return value if abs(value) < 2**63 else None
    if isinstance(value, float):
        return value if math.isfinite(value) else None  # PostgreSQL's JSON has no NaN
    return None
