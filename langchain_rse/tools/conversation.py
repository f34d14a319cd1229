"""Finds the passages that the messages of a conversation show, and takes passages out of them."""

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from langchain_core.documents import Document
from langchain_core.messages import ToolMessage
from langchain_core.stores import BaseStore

from langchain_rse.access import read_passage
from langchain_rse.stores.records import DOC_ID, RELEVANCE_SCORE, SEGMENT
from langchain_rse.tools.places import NUMBER
from langchain_rse.tools.search_results import SEARCH_RESULT, text_of_blocks

# Other tools may leave other things in their messages.
_FIELDS_OF_PASSAGES = {NUMBER, "version", "chunk_start", "chunk_end"}

# A passage in text, from its heading on. No line of a document begins without "> ".
_PASSAGE = re.compile(r"^\[(?P<number>\d+)\] [^\n]*(?:\n> [^\n]*)+", re.MULTILINE)
_TITLE = re.compile(r"\[(?P<number>\d+)\] ")


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
    text: str  # as the model reads it, with its heading; empty if it was taken out of the message


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
    """Find the passages that a tool has shown in a message, also those taken out of its text."""
    if not isinstance(message, ToolMessage) or not isinstance(message.artifact, list):
        return
    found = [_metadata_of(passage) for passage in message.artifact]
    of_passages = [metadata for metadata in found if _is_of_passage(metadata)]
    if not of_passages:
        return
    texts = _texts_in(message.content)
    for metadata in of_passages:
        rse = metadata[SEGMENT]
        chunks = [
            ShownChunk(metadata[DOC_ID], rse["version"], index)
            for index in range(rse["chunk_start"], rse["chunk_end"])
        ]
        yield ShownPassage(
            number=rse[NUMBER],
            value=metadata[RELEVANCE_SCORE],
            chunks=frozenset(chunks),
            text=texts.get(rse[NUMBER], ""),
        )


def _is_of_passage(metadata: Mapping[str, Any]) -> bool:
    rse = metadata.get(SEGMENT)
    return isinstance(rse, Mapping) and rse.keys() >= _FIELDS_OF_PASSAGES


def _metadata_of(passage: object) -> Mapping[str, Any]:
    """Return the metadata of a Document, or of the dict that some checkpointers restore."""
    if isinstance(passage, Mapping):
        metadata = passage.get("metadata")
    else:
        metadata = getattr(passage, "metadata", None)
    return metadata if isinstance(metadata, Mapping) else {}


def _texts_in(content: str | list[Any]) -> dict[int, str]:
    """The passages in the content of a message, with their headings, by their numbers."""
    if isinstance(content, str):
        return {int(match["number"]): match[0] for match in _PASSAGE.finditer(content)}
    texts = {}
    for block in content:
        number = _number_of(block)
        if number is not None:
            texts[number] = text_of_blocks([block])
    return texts


def replace_passages(content: str | list[Any], lines: Mapping[int, str]) -> str | list[Any]:
    """Copy the content of a message of the tool, with lines in place of passages, by number.

    Where a line is empty, the passage is left out. Not all may be.
    """
    if isinstance(content, str):
        replaced = _PASSAGE.sub(lambda match: lines.get(int(match["number"]), match[0]), content)
        # Lines of documents begin with "> ", so none of these are theirs.
        return re.sub("\n{3,}", "\n\n", replaced).strip("\n")
    blocks = []
    for block in content:
        number = _number_of(block)
        if number is None or number not in lines:
            blocks.append(block)
            continue
        if not lines[number]:
            continue
        # A search result still, since Anthropic refuses other blocks beside search results.
        text = {"type": "text", "text": lines[number]}
        blocks.append({**block, "title": lines[number], "content": [text]})
    return blocks


def _number_of(block: object) -> int | None:
    """The number of the passage that a content block shows; None if it shows none."""
    if not isinstance(block, Mapping) or block.get("type") != SEARCH_RESULT:
        return None
    match = _TITLE.match(block["title"])
    return None if match is None else int(match["number"])


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
            if passage.text:
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
