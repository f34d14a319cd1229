"""Formats passages for a model: numbered, with their source, pages and characters."""

import itertools
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.documents import Document
from langchain_core.messages import ToolMessage
from langchain_core.stores import BaseStore

from langchain_rse._messages import visible
from langchain_rse._sync import Steps
from langchain_rse.config import QuerySettings
from langchain_rse.query.reading import DocumentSegment, ScoredChunk
from langchain_rse.query.rendering import render
from langchain_rse.stores.reading import Layout, read_chunks, read_layouts, readable
from langchain_rse.stores.records import (
    DOC_ID,
    END_INDEX,
    RELEVANCE_SCORE,
    SEGMENT,
    START_INDEX,
    document_key,
    encodable,
)

NUMBER = "number"
"""The field in the ``rse`` metadata of a passage with the number by which it is cited."""

# Other tools may leave other things in their messages.
_OF_PASSAGES = {NUMBER, "version", "chunk_start", "chunk_end"}

Shown = Mapping[tuple[str, str, int], int]
"""The number of the passage that has shown a chunk, by document, version and chunk."""


def place_of(metadata: Mapping[str, Any]) -> str:
    """Describe the source, pages (counted from 1) and characters to cite."""
    place = visible(str(metadata.get("source") or metadata[DOC_ID]))
    first, last = metadata.get("page_start"), metadata.get("page_end")
    if type(first) is int and type(last) is int:
        place += f", page {first + 1}" if first == last else f", pages {first + 1}-{last + 1}"
    return f"{place}, characters {metadata[START_INDEX]}-{metadata[END_INDEX]}"


def numbered(segments: Sequence[Document], first: int) -> list[Document]:
    """Copy segments and number them from ``first``."""
    passages = [one.model_copy(deep=True) for one in segments]
    for number, one in enumerate(passages, first):
        one.metadata[SEGMENT][NUMBER] = number
    return passages


def text_of(segments: Sequence[Document], first: int) -> str:
    """Format the text of segments, each below a line with its number and place to cite."""
    return "\n\n".join(
        f"[{number}] {place_of(one.metadata)}\n" + encodable(one.page_content.strip("\r\n"))
        for number, one in enumerate(segments, first)
    )


def messages_in(runtime: Any) -> list[object]:  # noqa: ANN401 - of LangGraph, or None
    """Collect the items of all lists in a graph's state: messages may have any key."""
    state = getattr(runtime, "state", None)
    fields = state if isinstance(state, Mapping) else getattr(state, "__dict__", {})
    return [one for some in fields.values() if isinstance(some, list) for one in some]


def shown_in(messages: Sequence[object]) -> Shown:
    """Find chunks that tools have shown in a conversation, if the text is still in the message."""
    shown: dict[tuple[str, str, int], int] = {}
    for message in messages:
        if not isinstance(message, ToolMessage) or not isinstance(message.artifact, list):
            continue
        for one in message.artifact:
            # Some checkpoints restore Documents as dicts.
            fields = one if isinstance(one, Mapping) else getattr(one, "__dict__", {})
            metadata: Any = fields.get("metadata")
            rse: Any = metadata.get(SEGMENT) if isinstance(metadata, Mapping) else None
            is_ours = isinstance(rse, Mapping) and rse.keys() >= _OF_PASSAGES
            if is_ours and f"[{rse[NUMBER]}] " in str(message.content):
                for index in range(rse["chunk_start"], rse["chunk_end"]):
                    shown[metadata[DOC_ID], rse["version"], index] = rse[NUMBER]
    return shown


def new_parts(
    docstore: BaseStore[str, Document], segment: Document, shown: Shown
) -> Steps[tuple[list[Document], set[int]]]:
    """Return the parts of a segment not shown yet, and the numbers of passages that show the rest.

    Parts without a candidate are left out.
    """
    doc_id, rse = segment.metadata[DOC_ID], segment.metadata[SEGMENT]

    def number_of(chunk: Mapping[str, Any]) -> int:
        return shown.get((doc_id, rse["version"], chunk["index"]), 0)

    numbers = set(map(number_of, rse["chunks"])) - {0}
    if not numbers:
        return [segment], numbers
    parts = []
    for is_new, run in itertools.groupby(rse["chunks"], lambda chunk: not number_of(chunk)):
        chunks = list(run)
        if is_new and not all(chunk.get("filled") for chunk in chunks):
            inside = range(chunks[0]["index"], chunks[-1]["index"] + 1)
            part = yield from read_passage(docstore, doc_id, rse["version"], inside)
            if part is not None:
                part.metadata[SEGMENT]["chunks"] = chunks
                part.metadata[RELEVANCE_SCORE] = sum(chunk["value"] for chunk in chunks)
                parts.append(part)
    return parts, numbers


def read_passage(
    docstore: BaseStore[str, Document],
    doc_id: str,
    version: str,
    chunks: range,
    characters: range = range(sys.maxsize),
) -> Steps[Document | None]:
    """Read the text of chunks, limited to a range of the document's characters.

    None if some of them are not stored, or the version is no longer current.
    """
    key, start, end = document_key(doc_id), characters.start, characters.stop
    layout = (yield from read_layouts(docstore, {(key, version): [chunks]}))[key]
    if not isinstance(layout, Layout):
        return None
    spans = {index: layout.span_of(index) for window in layout.windows for index in window}
    inside = [index for index, (first, last) in spans.items() if first < end and start < last]
    found = yield from read_chunks(docstore, {key: layout}, [(key, index) for index in inside])
    records = [readable(found[key, index]) for index in inside] if found else []
    if not records or None in records or len(inside) <= inside[-1] - inside[0]:
        return None
    segment = DocumentSegment(
        layout,
        list(map(ScoredChunk, inside, records)),
        value=0.0,
        skipped=max(start - spans[inside[0]][0], 0),
        dropped=max(spans[inside[-1]][1] - end, 0),
    )
    return render([segment], QuerySettings())[0]
