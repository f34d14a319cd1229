"""Filters hold for whole segments: which chunks may be returned although nothing found them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from langchain_rse.reading import Layout
from langchain_rse.schema import DOC_ID
from langchain_rse.selection import runs_of
from langchain_rse.settings import QuerySettings

__all__ = ["restricted"]

# By these names, vector stores and retrievers take filters.
_FILTERS = frozenset(
    {
        "conditions",
        "expr",
        "filter",
        "filters",
        "pre_filter",
        "prefilter",
        "query_filter",
        "where",
        "where_document",
        "where_filter",
    }
)


def restricted(layout: Layout, chunks: Iterable[int], settings: QuerySettings) -> Layout:
    """The layout of a document with all its windows, or with the candidates alone.

    Chunks that are no candidates belong to segments unless a filter might exclude them: one
    that names nothing but what is the same for the whole document lets all of its chunks
    through or none. Of any other, only what it did let through is known.

    Args:
        layout: The layout.
        chunks: The document's candidates.
        settings: Say whether there is a filter.

    Returns:
        The layout, whose windows then hold nothing but candidates.
    """
    current = layout.manifest.current
    if current is None or not (settings.candidates_only or _by_chunk(layout, settings)):
        return layout
    return dataclasses.replace(
        layout, windows=runs_of(sorted(chunk for chunk in chunks if chunk < current.chunks))
    )


def _by_chunk(layout: Layout, settings: QuerySettings) -> bool:
    whole = set(layout.manifest.metadata)
    current = layout.manifest.current
    if current and not current.adopted:  # an adopted store's field of this name may be another
        whole.add(DOC_ID)
    return any(
        field not in whole
        for name, given in settings.search_kwargs.items()
        if name in _FILTERS and given is not None and given != {}
        for field in _fields(given)
    )


def _fields(given: Any) -> Iterator[str | None]:  # noqa: ANN401 - any store's
    """The fields that a filter names; None for what cannot be looked into."""
    if isinstance(given, Mapping):
        for name, value in given.items():
            if not isinstance(name, str):
                yield None
            elif name.startswith("$"):
                yield from _fields(value)
            else:
                yield name
    elif isinstance(given, (list, tuple)):
        for part in given:
            yield from _fields(part)
    else:
        yield None
