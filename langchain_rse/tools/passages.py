"""Passages as a model reads them: numbered, with their source, pages and characters."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from langchain_core.documents import Document
from langchain_core.messages import ToolMessage

from langchain_rse._messages import visible
from langchain_rse._sync import Steps
from langchain_rse.errors import MissingRecordError
from langchain_rse.retriever import RSERetriever
from langchain_rse.stores.reading import read_text
from langchain_rse.stores.records import (
    CHUNK_ID,
    DOC_ID,
    END_INDEX,
    RELEVANCE_SCORE,
    SEGMENT,
    START_INDEX,
)

NUMBER = "number"
"""In the ``rse`` metadata of a passage: the number by which it is cited."""


def pages_of(metadata: Mapping[str, Any]) -> str:
    """The pages of a segment counted from 1, such as "pages 3-4"; empty if it has none."""
    first, last = metadata.get("page_start"), metadata.get("page_end")
    if type(first) is not int or type(last) is not int:
        return ""
    return f"page {first + 1}" if first == last else f"pages {first + 1}-{last + 1}"


def place_of(metadata: Mapping[str, Any]) -> str:
    """The source, pages and characters to cite."""
    source = visible(str(metadata.get("source") or metadata[DOC_ID]))
    characters = f"characters {metadata[START_INDEX]}-{metadata[END_INDEX]}"
    return ", ".join(filter(None, [source, pages_of(metadata), characters]))


def numbered(segments: Sequence[Document], first: int) -> list[Document]:
    """The segments as passages, numbered from ``first``."""
    return [
        one.model_copy(
            update={
                "metadata": {**one.metadata, SEGMENT: {**one.metadata[SEGMENT], NUMBER: number}}
            }
        )
        for number, one in enumerate(segments, first)
    ]


def text_of(passages: Sequence[Document]) -> str:
    """The text of numbered passages, below a line with what to cite."""
    return "\n\n".join(
        f"[{one.metadata[SEGMENT][NUMBER]}] {place_of(one.metadata)}\n"
        + one.page_content.strip("\r\n")
        for one in passages
    )


def shown_in(state: object) -> list[Document]:
    """The passages that tools have shown in a conversation, by the state of its graph.

    They are the artifacts of the tools' messages, unless their text was taken out of a message.
    """
    return [passage for message in messages_in(state) for passage in _passages(message)]


def messages_in(state: object) -> list[object]:
    """What is in the lists of a graph's state, among it the messages under whatever key."""
    fields = {"messages": state} if isinstance(state, list) else getattr(state, "__dict__", state)
    values = fields.values() if isinstance(fields, Mapping) else ()
    return [one for some in values if isinstance(some, list) for one in some]


def _passages(message: object) -> Iterator[Document]:
    if not isinstance(message, ToolMessage) or not isinstance(message.artifact, list):
        return
    for one in message.artifact:  # that come back from a checkpoint as dicts from some stores
        fields = one if isinstance(one, Mapping) else getattr(one, "__dict__", {})
        metadata = fields.get("metadata") or {}
        number = (metadata.get(SEGMENT) or {}).get(NUMBER)
        if number and f"[{number}] " in str(message.content):
            yield Document(fields["page_content"], metadata=metadata)


def new_parts(
    retriever: RSERetriever, segment: Document, shown: Sequence[Document]
) -> Steps[tuple[list[Document], set[int]]]:
    """What of a segment was not shown, and the numbers of the passages that showed the rest.

    Parts that have nothing of what was found itself are left out.
    """
    metadata, numbers = segment.metadata, set()
    place, end = metadata[START_INDEX], metadata[END_INDEX]
    gaps = []
    for one in sorted(shown, key=lambda one: int(one.metadata[START_INDEX])):
        first, last = one.metadata[START_INDEX], one.metadata[END_INDEX]
        version = one.metadata[SEGMENT]["version"]
        same = one.metadata[DOC_ID] == metadata[DOC_ID] and version == metadata[SEGMENT]["version"]
        if same and first < metadata[END_INDEX] and metadata[START_INDEX] < last:
            numbers.add(one.metadata[SEGMENT][NUMBER])
            gaps.append((place, first))
            place = max(place, last)
    if not numbers:
        return [segment], numbers
    parts = []
    for first, last in [*gaps, (place, end)]:
        if first < last and (part := (yield from _part(retriever, segment, first, last))):
            parts.append(part)
    return parts, numbers


def _part(
    retriever: RSERetriever, segment: Document, start: int, end: int
) -> Steps[Document | None]:
    """A segment from one character to another; None without text or a chunk that was found."""
    chunks, place = [], segment.metadata[START_INDEX]
    for chunk in segment.metadata[SEGMENT]["chunks"]:
        if place < end and start < place + chunk["length"]:
            chunks.append(chunk)
        place += chunk["length"]
    if all(chunk.get("filled") for chunk in chunks):
        return None
    try:
        part = yield from read_text(retriever.docstore, segment.metadata[DOC_ID], start, end)
    except (MissingRecordError, ValueError):  # the document was replaced or deleted meanwhile
        return None
    if not part.page_content.strip() or part.page_content not in segment.page_content:
        return None
    identity = f"{segment.id}/{start}-{end}"
    rse = {
        **segment.metadata[SEGMENT],
        "chunk_start": chunks[0]["index"],
        "chunk_end": chunks[-1]["index"] + 1,
        "chunks": chunks,
    }
    value = sum(chunk["value"] for chunk in chunks)
    metadata = {**part.metadata, CHUNK_ID: identity, RELEVANCE_SCORE: value, SEGMENT: rse}
    return Document(part.page_content, id=identity, metadata=metadata)
