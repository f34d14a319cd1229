"""Converts metadata to types that vector stores support."""

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
    """Keep values that vector stores support: strings, numbers, booleans, and lists of these.

    A list must not be empty, and its values must have the same type. Not every store supports
    lists; see `VectorStoreAdapter.takes_lists`.
    """
    simple: dict[str, Any] = {}
    for name, value in metadata.items():
        simple_value = _simple_list(value) if isinstance(value, list) else _simple(value)
        if simple_value is not None and not _RESERVED_NAME.match(name):
            simple[encodable(name)] = simple_value
    return simple


def _simple_list(values: Sequence[object]) -> list[Any] | None:
    """Convert a list to a supported one; None if that is impossible."""
    simple_values = [_simple(value) for value in values]
    types = {type(value) for value in simple_values}
    if len(types) != 1 or None in simple_values:
        return None
    return simple_values


def _simple(value: object) -> str | int | float | bool | None:
    """Convert a value to one that every vector store supports; None if that is impossible."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, int):  # booleans too
        return value if abs(value) < 2**63 else None
    if isinstance(value, float):
        return value if math.isfinite(value) else None  # JSON in PostgreSQL has no NaN
    return None
