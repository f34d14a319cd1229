"""Finds the passages that the messages of a conversation show, and takes passages out of them."""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from langchain_core.documents import Document
from langchain_core.messages import ToolMessage
from langchain_core.stores import BaseStore

from langchain_rse.access import read_passage
from langchain_rse.stores.records import DOC_ID, RELEVANCE_SCORE, SEGMENT
from langchain_rse.tools.passages import format_passages, search_result_blocks, text_of_blocks
from langchain_rse.tools.places import NUMBER

# Other tools may leave other things in their messages.
_FIELDS_OF_PASSAGES = {NUMBER, "version", "chunk_start", "chunk_end"}

_Content = str | list[Any]


class ShownChunk(NamedTuple):
    """A chunk that a passage has shown."""

    doc_id: str
    version: str
    chunk_index: int


Shown = Mapping[ShownChunk, int]
"""The chunks that a conversation shows, with the numbers of their passages."""


class ShownPassage(NamedTuple):
    """A passage that a tool has shown in a conversation."""

    number: int
    value: float
    chunks: frozenset[ShownChunk]
    text: str  # as the model reads it, with its heading
    part: int | None  # of the message's content; None if it was taken out


def messages_in(runtime: Any) -> list[object]:  # noqa: ANN401 - of LangGraph, or None
    """Collect the items of all lists in a graph's state: messages may have any key."""
    state = getattr(runtime, "state", None)
    fields = state if isinstance(state, Mapping) else getattr(state, "__dict__", {})
    messages: list[object] = []
    for value in fields.values():
        if isinstance(value, list):
            messages.extend(value)
    return messages


def passages_in(message: object) -> Iterator[ShownPassage]:
    """Find the passages that a tool has shown in a message, also those taken out of its content."""
    if not isinstance(message, ToolMessage) or not isinstance(message.artifact, list):
        return
    parts = _parts_of(message.content)
    for segment in message.artifact:
        # Some checkpointers restore a dict.
        fields = segment if isinstance(segment, Mapping) else getattr(segment, "__dict__", {})
        metadata: Any = fields.get("metadata")
        rse: Any = metadata.get(SEGMENT) if isinstance(metadata, Mapping) else None
        if not isinstance(rse, Mapping) or not rse.keys() >= _FIELDS_OF_PASSAGES:
            continue
        part: Any = format_passages([segment])
        text = part
        if not isinstance(message.content, str):
            [part] = search_result_blocks([segment])
            text = text_of_blocks([part])
        indexes = range(rse["chunk_start"], rse["chunk_end"])
        chunks = [ShownChunk(metadata[DOC_ID], rse["version"], index) for index in indexes]
        yield ShownPassage(
            number=rse[NUMBER],
            value=metadata[RELEVANCE_SCORE],
            chunks=frozenset(chunks),
            text=text,
            part=parts.index(part) if part in parts else None,
        )


def _parts_of(content: _Content) -> Sequence[Any]:
    """The blocks of a content, or the paragraphs of a text: no line of a passage is empty."""
    return content.split("\n\n") if isinstance(content, str) else content


def replace_passages(content: _Content, lines: Mapping[int, str]) -> _Content:
    """Copy the content of a message of the tool, with lines in place of some parts.

    Where a line is empty, the part is left out. Not all may be.
    """
    parts = list(_parts_of(content))
    for part, line in lines.items():
        if isinstance(content, str) or not line:
            parts[part] = line
        else:
            # A search result still, since Anthropic refuses other blocks beside search results.
            text = {"type": "text", "text": line}
            parts[part] = {**parts[part], "title": line, "content": [text]}
    parts = [part for part in parts if part]
    return "\n\n".join(parts) if isinstance(content, str) else parts


def last_number(messages: Iterable[object]) -> int:
    """The greatest number of a passage in a conversation, shown or taken out; 0 without any."""
    numbers = [0]
    for message in messages:
        numbers += [passage.number for passage in passages_in(message)]
    return max(numbers)


def find_shown(messages: Iterable[object]) -> Shown:
    """Find the chunks that tools have shown in a conversation and that are still in its text."""
    shown = {}
    for message in messages:
        for passage in passages_in(message):
            if passage.part is not None:
                shown.update(dict.fromkeys(passage.chunks, passage.number))
    return shown


def split_shown(
    docstore: BaseStore[str, Document], segment: Document, shown: Shown
) -> tuple[list[Document], set[int]]:
    """Return the parts of a segment not shown yet, and the numbers of passages that show the rest.

    Parts without a candidate are left out.
    """
    doc_id = segment.metadata[DOC_ID]
    rse = segment.metadata[SEGMENT]

    def number_of(chunk: Mapping[str, Any]) -> int | None:
        return shown.get(ShownChunk(doc_id, rse["version"], chunk["index"]))

    numbers = set()
    for chunk in rse["chunks"]:
        number = number_of(chunk)
        if number is not None:
            numbers.add(number)
    if not numbers:
        return [segment], numbers
    parts = []
    for is_new, group in itertools.groupby(rse["chunks"], lambda chunk: number_of(chunk) is None):
        chunks = list(group)
        has_candidate = not all(chunk.get("filled") for chunk in chunks)
        if not is_new or not has_candidate:
            continue
        indexes = range(chunks[0]["index"], chunks[-1]["index"] + 1)
        part = read_passage(docstore, doc_id, rse["version"], indexes)
        if part is not None:
            part.metadata[SEGMENT]["chunks"] = chunks
            part.metadata[RELEVANCE_SCORE] = sum(chunk["value"] for chunk in chunks)
            parts.append(part)
    return parts, numbers
