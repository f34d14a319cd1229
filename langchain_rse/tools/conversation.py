"""Finds the passages in the messages of a conversation, and removes passages from messages."""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from langchain_core.documents import Document
from langchain_core.messages import ToolMessage
from langchain_core.stores import BaseStore

from langchain_rse.access import DocumentAccess
from langchain_rse.stores.records import DOC_ID, END_INDEX, PASSAGE, RELEVANCE_SCORE, START_INDEX
from langchain_rse.tools.passages import format_passages, search_result_blocks, text_of_blocks
from langchain_rse.tools.places import NUMBER, PassageLike

# Identify the artifacts of this package; other tools have other artifacts.
_FIELDS_OF_PASSAGES = {NUMBER, "version", "chunk_start", "chunk_end"}

_Content = str | list[Any]


class VisibleChunk(NamedTuple):
    """A chunk of a passage in the conversation."""

    doc_id: str
    version: str
    chunk_index: int


VisibleChunks = Mapping[VisibleChunk, int]
"""The chunks in a conversation, with the numbers of their passages."""


class VisiblePassage(NamedTuple):
    """A passage that a tool has shown in a conversation."""

    number: int
    value: float
    chunks: frozenset[VisibleChunk]
    text: str  # as the model reads it, with its heading
    part: int | None  # index in the message's content; None if it was removed
    passage: PassageLike


def messages_in(runtime: Any) -> list[object]:  # noqa: ANN401 - of LangGraph, or None
    """Collect the items of all lists in a graph's state, because messages may have any key."""
    state = getattr(runtime, "state", None)
    fields = state if isinstance(state, Mapping) else getattr(state, "__dict__", {})
    messages: list[object] = []
    for value in fields.values():
        if isinstance(value, list):
            messages.extend(value)
    return messages


def passages_in(message: object) -> Iterator[VisiblePassage]:
    """Find the passages of a tool's message, including passages removed from its content."""
    if not isinstance(message, ToolMessage) or not isinstance(message.artifact, list):
        return
    parts = _parts_of(message.content)
    for passage in message.artifact:
        # Some checkpointers restore a dict.
        fields = passage if isinstance(passage, Mapping) else getattr(passage, "__dict__", {})
        metadata: Any = fields.get("metadata")
        rse: Any = metadata.get(PASSAGE) if isinstance(metadata, Mapping) else None
        if not isinstance(rse, Mapping) or not rse.keys() >= _FIELDS_OF_PASSAGES:
            continue
        part: Any = format_passages([passage])
        text = part
        if not isinstance(message.content, str):
            [part] = search_result_blocks([passage])
            text = text_of_blocks([part])
        first, last = rse["chunk_start"], rse["chunk_end"]
        length = sum(chunk["length"] for chunk in rse.get("chunks", ()))
        if length > metadata[END_INDEX] - metadata[START_INDEX]:  # it begins or ends in a chunk
            first, last = first + 1, last - 1
        chunks = [
            VisibleChunk(metadata[DOC_ID], rse["version"], index) for index in range(first, last)
        ]
        yield VisiblePassage(
            number=rse[NUMBER],
            value=metadata[RELEVANCE_SCORE],
            chunks=frozenset(chunks),
            text=text,
            part=parts.index(part) if part in parts else None,
            passage=passage,
        )


def _parts_of(content: _Content) -> Sequence[Any]:
    """Return the blocks of a content, or the paragraphs of a text; passages have no empty lines."""
    return content.split("\n\n") if isinstance(content, str) else content


def remove_passages(content: _Content, removed: Sequence[VisiblePassage]) -> _Content:
    """Copy the content of a tool's message, with one line in place of some passages."""
    parts = list(_parts_of(content))
    # One line per message: one per passage would outgrow a long conversation's budget.
    numbers = ", ".join(f"[{passage.number}]" for passage in removed)
    line = f"Removed to make room: {numbers}. Search again to read it."
    first, *others = sorted(passage.part for passage in removed if passage.part is not None)
    if isinstance(content, str):
        parts[first] = line
    else:
        # Still a search result, because Anthropic rejects a mix with other blocks.
        text = {"type": "text", "text": line}
        parts[first] = {**parts[first], "title": line, "content": [text]}
    for part in reversed(others):
        del parts[part]
    return "\n\n".join(parts) if isinstance(content, str) else parts


def last_number(messages: Iterable[object]) -> int:
    """Return the highest number of a passage in a conversation, including removed ones, or 0."""
    shown = itertools.chain.from_iterable(map(passages_in, messages))
    return max((passage.number for passage in shown), default=0)


def visible_chunks(messages: Iterable[object]) -> VisibleChunks:
    """Find the chunks of all passages that are still in the text of a conversation."""
    shown = {}
    for message in messages:
        for passage in passages_in(message):
            if passage.part is not None:
                shown.update(dict.fromkeys(passage.chunks, passage.number))
    return shown


def split_visible(
    docstore: BaseStore[str, Document], passage: Document, shown: VisibleChunks
) -> tuple[list[Document], set[int]]:
    """Return the new parts of a passage, and the numbers of the passages that show the rest.

    Parts without a candidate are dropped.
    """
    doc_id = passage.metadata[DOC_ID]
    rse = passage.metadata[PASSAGE]
    version = rse["version"]

    def number_of(chunk: Mapping[str, Any]) -> int | None:
        return shown.get(VisibleChunk(doc_id, version, chunk["index"]))

    numbers: set[int] = set()
    parts = []
    for number, group in itertools.groupby(rse["chunks"], number_of):
        chunks = list(group)
        if number is not None:
            numbers.add(number)
        elif not all(chunk.get("filled") for chunk in chunks):
            parts.append(chunks)
    if not numbers:
        return [passage], numbers
    passages = []
    for chunks in parts:
        indexes = range(chunks[0]["index"], chunks[-1]["index"] + 1)
        part = DocumentAccess(docstore).chunks(doc_id, version, indexes)
        if part is not None:
            part.metadata[PASSAGE]["chunks"] = chunks
            part.metadata[RELEVANCE_SCORE] = sum(chunk["value"] for chunk in chunks)
            passages.append(part)
    return passages, numbers
