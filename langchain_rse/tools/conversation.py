"""Finds the passages in the messages of a conversation, and removes passages from messages."""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from langchain_core.documents import Document
from langchain_core.messages import ToolMessage
from langchain_core.stores import BaseStore

from langchain_rse.access import DocumentAccess
from langchain_rse.stores.records import DOC_ID, END_INDEX, PASSAGE, RELEVANCE_SCORE, START_INDEX
from langchain_rse.tools.passages import (
    NUMBER,
    format_passages,
    search_result_blocks,
    text_of_blocks,
)

_Content = str | list[Any]


class ShownPassage(NamedTuple):
    """A passage that a tool has shown in a conversation."""

    number: int
    metadata: Mapping[str, Any]
    part: Any  # of the message's content: a block, or a paragraph of a text
    text: str  # as the model reads it, with its heading
    is_shown: bool  # False if it was removed from the content


def messages_in(runtime: Any) -> list[object]:  # noqa: ANN401 - of LangGraph, or None
    """Collect the items of all lists in a graph's state, because messages may have any key."""
    state = getattr(runtime, "state", {})
    if isinstance(state, list):  # of a tool node that is called with messages
        return state
    values = state.values() if isinstance(state, Mapping) else vars(state).values()
    lists = [value for value in values if isinstance(value, list)]
    return list(itertools.chain.from_iterable(lists))


def passages_in(messages: Iterable[object]) -> Iterator[ShownPassage]:
    """Find the passages of tools' messages, including passages removed from their content."""
    for message in messages:
        if not isinstance(message, ToolMessage) or not isinstance(message.artifact, list):
            continue
        parts = _parts_of(message.content)
        for passage in message.artifact:
            # Some checkpointers restore a dict.
            fields = passage if isinstance(passage, Mapping) else getattr(passage, "__dict__", {})
            metadata: Any = fields.get("metadata")
            rse = metadata.get(PASSAGE) if isinstance(metadata, Mapping) else None
            if not isinstance(rse, Mapping) or not rse.keys() >= {NUMBER, "version"}:
                continue  # of another tool
            part: Any = format_passages([passage])
            text = part
            if not isinstance(message.content, str):
                [part] = search_result_blocks([passage])
                text = text_of_blocks([part])
            yield ShownPassage(rse[NUMBER], metadata, part, text, part in parts)


def _parts_of(content: _Content) -> Sequence[Any]:
    """Return the blocks of a content, or the paragraphs of a text; passages have no empty lines."""
    return content.split("\n\n") if isinstance(content, str) else content


def remove_passages(content: _Content, removed: Sequence[ShownPassage]) -> _Content:
    """Copy the content of a tool's message, with one line in place of some passages."""
    # One line per message: one per passage would outgrow a long conversation's budget.
    numbers = ", ".join(f"[{passage.number}]" for passage in removed)
    pronoun = "it" if len(removed) == 1 else "them"
    line = f"Removed to make room: {numbers}. Search again to read {pronoun}."
    removed_parts = [passage.part for passage in removed]
    others = []
    for part in _parts_of(content):
        if part not in removed_parts:
            others.append(part)
    if isinstance(content, str):
        return "\n\n".join([line, *others])
    # Still a search result, because Anthropic rejects a mix with other blocks.
    block = {**removed_parts[0], "title": line, "content": [{"type": "text", "text": line}]}
    return [block, *others]


def split_shown(
    docstore: BaseStore[str, Document], passage: Document, read: Iterable[ShownPassage]
) -> tuple[list[Document], set[int]]:
    """Return the new parts of a passage, and the numbers of the passages that show the rest.

    Parts without a candidate are dropped.
    """
    metadata = passage.metadata
    doc_id, version = metadata[DOC_ID], metadata[PASSAGE]["version"]
    chunks = metadata[PASSAGE]["chunks"]
    number_of = {}
    for shown in read:
        other = shown.metadata
        if not shown.is_shown or (other[DOC_ID], other[PASSAGE]["version"]) != (doc_id, version):
            continue
        start = metadata[START_INDEX]
        for chunk in chunks:
            end = min(start + chunk["length"], metadata[END_INDEX])
            if other[START_INDEX] <= start and end <= other[END_INDEX]:
                number_of[chunk["index"]] = shown.number
            start = end
    if not number_of:
        return [passage], set()
    passages = []
    access = DocumentAccess(docstore)
    for is_new, group in itertools.groupby(chunks, lambda chunk: chunk["index"] not in number_of):
        part = list(group)
        if not is_new or all(chunk.get("filled") for chunk in part):
            continue
        found = access.chunks(doc_id, version, range(part[0]["index"], part[-1]["index"] + 1))
        if found is not None:
            found.metadata[PASSAGE]["chunks"] = part
            found.metadata[RELEVANCE_SCORE] = sum(chunk["value"] for chunk in part)
            passages.append(found)
    return passages, set(number_of.values())
