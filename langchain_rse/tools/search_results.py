"""Shows passages as blocks that Claude cites by itself, and finds the blocks' places again."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from langchain_core.documents import Document

from langchain_rse.stores.records import END_INDEX, SEGMENT, START_INDEX
from langchain_rse.text.quoting import encodable, visible
from langchain_rse.tools.passages import citation_of
from langchain_rse.tools.places import number_in, source_in, text_and_metadata

SEARCH_RESULT = "search_result"
"""The type of these blocks."""


def search_result_blocks(
    segments: Iterable[Document | Mapping[str, Any]], *, first_number: int = 1
) -> list[dict[str, Any]]:
    """Make ``search_result`` content blocks, from which Claude gives citations of its own.

    Each segment is a block, whose title has the number and the place to cite, and each of its
    chunks is a text block within: the least that Claude cites. They are for the content of a user's
    message; `create_rse_tool` makes the same with ``content="search_results"``.

    Args:
        segments: The segments from a retriever or from the artifacts of `create_rse_tool`, also as
            dicts from a checkpointer. Their numbers are the tool's, or their places here.
        first_number: The number of the first place.

    Returns:
        A block for each segment that has more than white space: the API refuses others.
    """
    blocks = []
    for position, segment in enumerate(segments, first_number):
        text, metadata = text_and_metadata(segment)
        texts = [text[start:end] for start, end in block_ranges(text, metadata)]
        if not texts:
            continue
        block = {
            "type": SEARCH_RESULT,
            "source": block_source(metadata),
            "title": block_title(metadata, number_in(metadata, position)),
            "content": [{"type": "text", "text": encodable(text)} for text in texts],
            # It must be the same for all blocks of a request.
            "citations": {"enabled": True},
        }
        blocks.append(block)
    return blocks


def block_source(metadata: Mapping[str, Any]) -> str:
    """The source of a segment's block."""
    return visible(source_in(metadata) or "")


def block_title(metadata: Mapping[str, Any], number: int) -> str:
    """The title of a segment's block: its number and its place, as above a passage in text."""
    return f"[{number}] {citation_of(metadata)}"


def block_ranges(text: str, metadata: Mapping[str, Any]) -> list[tuple[int, int]]:
    """The characters of a segment's text in each text block of its search result.

    Each block has a chunk, the first one also a header above it. A chunk of white space belongs to
    the block after it, or to the last one: the API refuses text blocks without text. A segment of
    which the lengths of the chunks are not known is one block.
    """
    length = metadata[END_INDEX] - metadata[START_INDEX]
    chunks = (metadata.get(SEGMENT) or {}).get("chunks", ())
    lengths = [chunk["length"] for chunk in chunks]
    if not lengths or sum(lengths) != length or length > len(text):
        lengths = [len(text)]
    ranges: list[tuple[int, int]] = []
    start = 0
    end = len(text) - sum(lengths)  # of the header
    for chunk_length in lengths:
        end += chunk_length
        if text[start:end].strip():
            ranges.append((start, end))
            start = end
    if ranges:
        last_start, _ = ranges[-1]
        ranges[-1] = (last_start, len(text))
    return ranges


def text_of_blocks(blocks: Sequence[Mapping[str, Any]]) -> str:
    """Join all that a model reads of search results."""
    parts = []
    for block in blocks:
        parts += [block["title"], block["source"], *(text["text"] for text in block["content"])]
    return "\n".join(parts)
