"""Splitting as `RSEIndexer` does it, in one call."""

from __future__ import annotations

from langchain_rse.ingest.splitting import Span, Splitter, find_spans, warn_of_contained


def split_spans(text: str, splitter: Splitter) -> list[Span]:
    """The spans of a text, with a warning of chunks that were dropped."""
    spans, contained = find_spans(text, splitter)
    warn_of_contained(contained, splitter)
    return spans
