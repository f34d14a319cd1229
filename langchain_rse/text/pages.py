"""The pages of a passage, as people number them."""

from collections.abc import Mapping
from typing import Any

from langchain_rse.text.quoting import visible
from langchain_rse.text.ranges import format_range

_LONGEST_LABEL = 20


def pages_of(metadata: Mapping[str, Any]) -> str | None:
    """Name the pages of a passage; None if they are unknown.

    Pages have the labels that are printed on them. Without labels, ``page`` counts from 0, as in
    LangChain's loaders of PDFs, and ``page_number`` from 1.
    """
    pages = _first_and_last(metadata, "page")
    labels = _first_and_last(metadata, "page_label")
    numbers = _first_and_last(metadata, "page_number")
    # Different pages with the same label are labeled wrongly.
    tells_apart = pages[0] == pages[1] or labels[0] != labels[1]
    if all(_is_label(label) for label in labels) and tells_apart:
        first, last = visible(labels[0]), visible(labels[1])
        return f"page {first}" if first == last else f"pages {first}\u2013{last}"
    if all(type(page) is int for page in pages):
        numbers = pages[0] + 1, pages[1] + 1
    if not all(type(number) is int for number in numbers):
        return None
    noun = "page" if numbers[0] == numbers[1] else "pages"
    return f"{noun} {format_range(*numbers)}"


def _first_and_last(metadata: Mapping[str, Any], name: str) -> tuple[Any, Any]:
    """The values of a field at the first and the last character of a passage."""
    value = metadata.get(name)  # if the whole document has the same value
    return metadata.get(f"{name}_start", value), metadata.get(f"{name}_end", value)


def _is_label(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value.strip()) <= _LONGEST_LABEL
