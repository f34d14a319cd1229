"""Filters hold for whole segments: which chunks may be returned although nothing found them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from langchain_rse.reading import Layout
from langchain_rse.schema import DOC_ID
from langchain_rse.search_arguments import may_split
from langchain_rse.selection import runs_of
from langchain_rse.settings import QuerySettings

__all__ = ["restricted"]


def restricted(layout: Layout, chunks: Iterable[int], settings: QuerySettings) -> Layout:
    """The layout of a document with all its windows, or with the candidates alone.

    Chunks that are no candidates belong to segments unless an argument of the search might
    exclude them: a filter that names nothing but what is the same for the whole document lets
    all of its chunks through or none. Of any other, only what it did let through is known.

    Args:
        layout: The layout.
        chunks: The document's candidates.
        settings: Say whether there is a filter.

    Returns:
        The layout, whose windows then hold nothing but candidates.
    """
    current = layout.manifest.current
    shared = set(layout.manifest.metadata)
    if current and not current.adopted:  # an adopted store's field of this name may be another
        shared.add(DOC_ID)
    if current is None or not (
        settings.candidates_only or may_split(settings.search_kwargs, shared)
    ):
        return layout
    return dataclasses.replace(
        layout, windows=runs_of(sorted(chunk for chunk in chunks if chunk < current.chunks))
    )
