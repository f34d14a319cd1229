"""The pages of a passage, as people number them."""

from collections.abc import Mapping
from typing import Any

from langchain_rse.text.quoting import visible

_LONGEST_LABEL = 20


def pages_of(metadata: Mapping[str, Any]) -> str | None:
    """Name the pages of a passage; None if they are unknown.

    Pages have the labels that are printed on them. Without labels, ``page`` counts from 0, as in
    LangChain's loaders of PDFs, and ``page_number`` from 1.
    """
    labels = _first_and_last(metadata, "page_label", 0)
    pages = _first_and_last(metadata, "page", 1)
    numbers = _first_and_last(metadata, "page_number", 0)
    if labels[0] == labels[1] and pages[0] != pages[1]:
        labels = pages  # different pages with the same label are labeled wrongly
    for first, last in (labels, pages, numbers):
        if first and last:
            return f"page {first}" if first == last else f"pages {first}\u2013{last}"
    return None


def _first_and_last(metadata: Mapping[str, Any], name: str, offset: int) -> list[str]:
    """Show the values of a field at both ends of a passage; "" for values that are no label."""
    shown = []
    for end in ("start", "end"):
        value = metadata.get(f"{name}_{end}", metadata.get(name))
        if type(value) is int:
            value = f"{value + offset:,}"
        is_label = isinstance(value, str) and 0 < len(value.strip()) <= _LONGEST_LABEL
        shown.append(visible(value) if is_label else "")
    return shown
