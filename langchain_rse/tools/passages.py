"""Formats passages for a model: numbered, with their source, pages and characters."""

from collections.abc import Iterable, Mapping
from typing import Any

from langchain_core.documents import Document

from langchain_rse.stores.records import (
    COUNTS_IN_SOURCE,
    DOC_ID,
    END_INDEX,
    SEGMENT,
    START_INDEX,
)
from langchain_rse.text.quoting import encodable, shortened, visible
from langchain_rse.text.titles import shown_name
from langchain_rse.tools.places import NUMBER

LONGEST_NAME = 1_000
"""The most characters of a document's name that a model reads; longer ones are cut."""

# Longer labels of pages are no labels.
_LONGEST_LABEL = 20


def citation_of(metadata: Mapping[str, Any]) -> str:
    """Describe the source, pages and characters to cite, as a reader of the source counts them.

    A row, or another separate document of its source, is cited by its id; with characters only if
    they are not its first ones.
    """
    _, name = _names_of(metadata)
    place = place_of(metadata)
    shown = shortened(visible(name), LONGEST_NAME)
    return f"{shown}, {place}" if place else shown


def place_of(metadata: Mapping[str, Any]) -> str:
    """The pages and characters of `citation_of`; empty if there is nothing to say."""
    source, name = _names_of(metadata)
    parts = []
    pages = _pages_of(metadata)
    if pages is not None:
        parts.append(pages)
    is_whole = name != source and metadata[START_INDEX] == 0
    if not is_whole:
        parts.append(_characters_of(metadata, source))
    return ", ".join(parts)


def _names_of(metadata: Mapping[str, Any]) -> tuple[str, str]:
    """The source of a passage, and the name of its document for people."""
    source = str(metadata.get("source") or metadata[DOC_ID])
    return source, shown_name(metadata.get(DOC_ID, source), source)


def _pages_of(metadata: Mapping[str, Any]) -> str | None:
    """Name the pages that a segment is on; None if they are unknown.

    Pages have the labels that are printed on them. Without labels, ``page`` counts from 0, as in
    LangChain's loaders of PDFs, and ``page_number`` from 1.
    """
    pages = _first_and_last(metadata, "page")
    labels = _first_and_last(metadata, "page_label")
    numbers = _first_and_last(metadata, "page_number")
    # Different pages with one label are labeled wrongly.
    tells_apart = pages[0] == pages[1] or labels[0] != labels[1]
    if all(_is_label(label) for label in labels) and tells_apart:
        first, last = visible(labels[0]), visible(labels[1])
    elif all(type(page) is int for page in pages):
        first, last = str(pages[0] + 1), str(pages[1] + 1)
    elif all(type(number) is int for number in numbers):
        first, last = str(numbers[0]), str(numbers[1])
    else:
        return None
    if first == last:
        return f"page {first}"
    between = " to " if "-" in first + last else "-"
    return f"pages {first}{between}{last}"


def _first_and_last(metadata: Mapping[str, Any], name: str) -> tuple[Any, Any]:
    """The values of a field at the first and the last character of a segment."""
    value = metadata.get(name)  # if it is the same in the whole document
    return metadata.get(f"{name}_start", value), metadata.get(f"{name}_end", value)


def _is_label(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value.strip()) <= _LONGEST_LABEL


def _characters_of(metadata: Mapping[str, Any], source: str) -> str:
    characters = f"characters {metadata[START_INDEX]}-{metadata[END_INDEX]}"
    if metadata.get(SEGMENT, {}).get(COUNTS_IN_SOURCE, True):
        return characters
    if metadata[DOC_ID] == source:
        return f"{characters} of its stored text"
    return f"{characters} of document {shortened(visible(metadata[DOC_ID]), LONGEST_NAME)}"


def number_passages(segments: Iterable[Document], first_number: int) -> list[Document]:
    """Copy segments, with numbers from ``first_number`` in their metadata."""
    passages = []
    for number, segment in enumerate(segments, first_number):
        passage = segment.model_copy(deep=True)
        passage.metadata[SEGMENT][NUMBER] = number
        passages.append(passage)
    return passages


def format_passages(segments: Iterable[Document], first_number: int) -> str:
    """Format the text of segments, each below a line with its number and place to cite."""
    passages = []
    for number, segment in enumerate(segments, first_number):
        text = quote_lines(segment.page_content.strip("\r\n"))
        passages.append(f"[{number}] {citation_of(segment.metadata)}\n{text}")
    return "\n\n".join(passages)


def quote_lines(text: str) -> str:
    """Put ``> `` in front of each line of a text, so that none can pass for a heading.

    Lines end where any program may see an end: also at U+2028, form feeds and the like.
    """
    lines = encodable(text).splitlines() or [""]
    return "\n".join(f"> {line}" for line in lines)
