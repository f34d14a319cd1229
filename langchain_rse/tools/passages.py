"""Formats passages for a model: as numbered text, or as search results for Claude.

Each passage has a number and a place to cite: source, pages and characters.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from langchain_core.documents import Document

from langchain_rse.stores.records import (
    COUNTS_IN_SOURCE,
    DOC_ID,
    END_INDEX,
    PASSAGE,
    START_INDEX,
)
from langchain_rse.text.quoting import encodable, format_range, shortened, visible
from langchain_rse.text.titles import short_names
from langchain_rse.tools.page_labels import pages_of
from langchain_rse.tools.places import (
    LINE,
    NAME,
    NUMBER,
    Passage,
    PassageLike,
    name_in,
    path_in,
    read_passages,
)

SEARCH_RESULT = "search_result"
"""The type of the content blocks that Claude cites."""

_LONGEST_NAME = 1_000


def name_shown(name: str) -> str:
    """Return the name of a document for a model: one line of limited length."""
    return shortened(visible(name), _LONGEST_NAME)


def citation_of(metadata: Mapping[str, Any]) -> str:
    """Describe the source, pages and characters to cite, counted as a reader counts them.

    A row, or another separate document of its source, is cited by its id. Its characters are named
    unless they start at 0.
    """
    place = place_of(metadata)
    name = name_shown(name_in(metadata))
    return f"{name}, {place}" if place else name


def place_of(metadata: Mapping[str, Any]) -> str:
    """Return the pages and characters of `citation_of`, or ""."""
    source = str(metadata.get("source") or metadata[DOC_ID])
    parts = []
    pages = pages_of(metadata)
    if pages is not None:
        parts.append(pages)
    if LINE in metadata.get(PASSAGE, {}):
        parts.append(f"line {metadata[PASSAGE][LINE]:,}")
    is_whole = path_in(metadata) != source and metadata[START_INDEX] == 0
    if not is_whole:
        parts.append(_characters_of(metadata, source))
    return ", ".join(parts)


def _characters_of(metadata: Mapping[str, Any], source: str) -> str:
    characters = f"characters {format_range(metadata[START_INDEX], metadata[END_INDEX])}"
    if metadata.get(PASSAGE, {}).get(COUNTS_IN_SOURCE, True):
        return characters
    if metadata[DOC_ID] == source:
        return f"{characters} of its stored text"
    return f"{characters} of document {name_shown(metadata[DOC_ID])}"


def number_passages(passages: Sequence[Document], first_number: int) -> list[Document]:
    """Copy passages, and add numbers from ``first_number`` and names to their metadata."""
    name_of = short_names(path_in(passage.metadata) for passage in passages)
    numbered = []
    for number, passage in enumerate(passages, first_number):
        copy = passage.model_copy(deep=True)
        name = name_of[path_in(copy.metadata)]
        if name != name_in(copy.metadata):
            copy.metadata[PASSAGE][NAME] = name
        copy.metadata[PASSAGE][NUMBER] = number
        numbered.append(copy)
    return numbered


# As text


def format_passages(passages: Iterable[PassageLike]) -> str:
    """Format passages as text, each below a line with its number and place to cite."""
    parts = []
    for passage in read_passages(passages):
        text = quote_lines(passage.shown.strip("\r\n"))
        parts.append(f"{heading_of(passage)}\n{text}")
    return "\n\n".join(parts)


def heading_of(passage: Passage) -> str:
    """Return the number and place of a passage: the line above its text, or a block's title."""
    return f"[{passage.number}] {citation_of(passage.metadata)}"


def quote_lines(text: str) -> str:
    """Put ``> `` in front of each line of a text, so that no line can pass for a heading.

    All characters that some program treats as a line break count, such as U+2028 and form feeds.
    """
    lines = encodable(text).splitlines() or [""]
    return "\n".join(f"> {line}" for line in lines)


# For models that cite natively


def search_result_blocks(passages: Iterable[PassageLike]) -> list[dict[str, Any]]:
    """Make ``search_result`` content blocks, which Claude cites natively.

    A passage becomes a block, with the number and place to cite as its title. Each of its chunks
    becomes a text block, the smallest unit that Claude cites. Put the blocks into a user message;
    `create_rse_tool` makes the same blocks with ``content="search_results"``.

    Args:
        passages: The passages from a retriever or from the artifacts of `create_rse_tool`; dicts
            from a checkpointer work. Passages without a number from the tool count from 1.

    Returns:
        A block for each passage. Passages of white space are skipped: the API rejects them.
    """
    blocks = []
    for passage in read_passages(passages):
        texts = [encodable(passage.shown[start:end]) for start, end in block_ranges(passage)]
        if not texts:
            continue
        block = {
            "type": SEARCH_RESULT,
            "source": block_source(passage),
            "title": heading_of(passage),
            "content": [{"type": "text", "text": each} for each in texts],
            # The API requires the same value for all blocks of a request.
            "citations": {"enabled": True},
        }
        blocks.append(block)
    return blocks


def block_source(passage: Passage) -> str:
    """Return the source of a passage's block: the name of its document."""
    return name_shown(name_in(passage.metadata))


def block_ranges(passage: Passage) -> list[tuple[int, int]]:
    """Return the range of each text block in the header and text of a passage.

    A block holds one chunk, the first block also the header. A chunk of white space joins the next
    block, or the last one, because the API rejects blank text blocks. A passage whose chunk lengths
    are unknown is one block.
    """
    chunks = (passage.metadata.get(PASSAGE) or {}).get("chunks", ())
    lengths = [chunk["length"] for chunk in chunks]
    if sum(lengths) != len(passage.text):
        lengths = [len(passage.text)]
    text = passage.shown
    ranges: list[tuple[int, int]] = []
    start = 0
    end = len(passage.header)
    for length in lengths or [0]:
        end += length
        if text[start:end].strip():
            ranges.append((start, end))
            start = end
    if ranges:
        last_start, _ = ranges[-1]
        ranges[-1] = (last_start, len(text))
    return ranges


def text_of_blocks(blocks: Sequence[Mapping[str, Any]]) -> str:
    """Join all texts of search results that a model reads."""
    parts = []
    for block in blocks:
        parts += [block["title"], block["source"], *(text["text"] for text in block["content"])]
    return "\n".join(parts)
