"""Formats passages for a model: as numbered text, as Claude's search results, for Cohere.

Each passage has its number and the place to cite: source, pages and characters.
"""

from collections.abc import Iterable, Mapping, Sequence
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
from langchain_rse.text.ranges import format_range
from langchain_rse.text.titles import short_names
from langchain_rse.tools.places import (
    NAME,
    NUMBER,
    Passage,
    Segment,
    name_in,
    path_in,
    read_passage,
)

SEARCH_RESULT = "search_result"
"""The type of the content blocks from which Claude cites."""

_LONGEST_NAME = 1_000
# Longer labels of pages are no labels.
_LONGEST_LABEL = 20


def name_shown(name: str) -> str:
    """The name of a document as a model reads it: in one line, and not too long."""
    return shortened(visible(name), _LONGEST_NAME)


def citation_of(metadata: Mapping[str, Any]) -> str:
    """Describe the source, pages and characters to cite, as a reader of the source counts them.

    A row, or another separate document of its source, is cited by its id; with characters only if
    they are not its first ones.
    """
    place = place_of(metadata)
    name = name_shown(name_in(metadata))
    return f"{name}, {place}" if place else name


def place_of(metadata: Mapping[str, Any]) -> str:
    """The pages and characters of `citation_of`; empty if there is nothing to say."""
    source = str(metadata.get("source") or metadata[DOC_ID])
    parts = []
    pages = _pages_of(metadata)
    if pages is not None:
        parts.append(pages)
    is_whole = path_in(metadata) != source and metadata[START_INDEX] == 0
    if not is_whole:
        parts.append(_characters_of(metadata, source))
    return ", ".join(parts)


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
        return f"page {first}" if first == last else f"pages {first}\u2013{last}"
    if all(type(page) is int for page in pages):
        numbers = pages[0] + 1, pages[1] + 1
    elif not all(type(number) is int for number in numbers):
        return None
    noun = "page" if numbers[0] == numbers[1] else "pages"
    return f"{noun} {format_range(*numbers)}"


def _first_and_last(metadata: Mapping[str, Any], name: str) -> tuple[Any, Any]:
    """The values of a field at the first and the last character of a segment."""
    value = metadata.get(name)  # if it is the same in the whole document
    return metadata.get(f"{name}_start", value), metadata.get(f"{name}_end", value)


def _is_label(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value.strip()) <= _LONGEST_LABEL


def _characters_of(metadata: Mapping[str, Any], source: str) -> str:
    characters = f"characters {format_range(metadata[START_INDEX], metadata[END_INDEX])}"
    if metadata.get(SEGMENT, {}).get(COUNTS_IN_SOURCE, True):
        return characters
    if metadata[DOC_ID] == source:
        return f"{characters} of its stored text"
    return f"{characters} of document {name_shown(metadata[DOC_ID])}"


def number_passages(segments: Sequence[Document], first_number: int) -> list[Document]:
    """Copy segments, with numbers from ``first_number`` and their names in their metadata."""
    name_of = short_names(path_in(segment.metadata) for segment in segments)
    passages = []
    for number, segment in enumerate(segments, first_number):
        passage = segment.model_copy(deep=True)
        name = name_of[path_in(segment.metadata)]
        if name != name_in(segment.metadata):
            passage.metadata[SEGMENT][NAME] = name
        passage.metadata[SEGMENT][NUMBER] = number
        passages.append(passage)
    return passages


# As text


def format_passages(segments: Iterable[Segment]) -> str:
    """Format the text of segments, each below a line with its number and place to cite."""
    passages = []
    for position, segment in enumerate(segments, 1):
        passage = read_passage(segment, position)
        text = quote_lines((passage.header + passage.text).strip("\r\n"))
        passages.append(f"{heading_of(passage)}\n{text}")
    return "\n\n".join(passages)


def heading_of(passage: Passage) -> str:
    """The number and the place of a passage: the line above its text, or the title of a block."""
    return f"[{passage.number}] {citation_of(passage.metadata)}"


def quote_lines(text: str) -> str:
    """Put ``> `` in front of each line of a text, so that none can pass for a heading.

    Lines end where any program may see an end: also at U+2028, form feeds and the like.
    """
    lines = encodable(text).splitlines() or [""]
    return "\n".join(f"> {line}" for line in lines)


# For models that cite by themselves


def search_result_blocks(segments: Iterable[Segment]) -> list[dict[str, Any]]:
    """Make ``search_result`` content blocks, from which Claude gives citations of its own.

    Each segment is a block, whose title has the number and the place to cite, and each of its
    chunks is a text block within: the least that Claude cites. They are for the content of a user's
    message; `create_rse_tool` makes the same with ``content="search_results"``.

    Args:
        segments: The segments from a retriever or from the artifacts of `create_rse_tool`, also as
            dicts from a checkpointer. Their numbers are the tool's, or their places here, from 1.

    Returns:
        A block for each segment that has more than white space: the API refuses others.
    """
    blocks = []
    for position, segment in enumerate(segments, 1):
        passage = read_passage(segment, position)
        text = passage.header + passage.text
        texts = [encodable(text[start:end]) for start, end in block_ranges(passage)]
        if not texts:
            continue
        block = {
            "type": SEARCH_RESULT,
            "source": block_source(passage),
            "title": heading_of(passage),
            "content": [{"type": "text", "text": each} for each in texts],
            # It must be the same for all blocks of a request.
            "citations": {"enabled": True},
        }
        blocks.append(block)
    return blocks


def block_source(passage: Passage) -> str:
    """The source of a passage's block: the name of its document."""
    return name_shown(name_in(passage.metadata))


def block_ranges(passage: Passage) -> list[tuple[int, int]]:
    """The characters of header and text in each text block of a passage's search result.

    Each block has a chunk, the first one also the header. A chunk of white space belongs to the
    block after it, or to the last one: the API refuses text blocks without text. A passage of
    which the lengths of the chunks are not known is one block.
    """
    chunks = (passage.metadata.get(SEGMENT) or {}).get("chunks", ())
    lengths = [chunk["length"] for chunk in chunks]
    if sum(lengths) != len(passage.text):
        lengths = [len(passage.text)]
    text = passage.header + passage.text
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
    """Join all that a model reads of search results."""
    parts = []
    for block in blocks:
        parts += [block["title"], block["source"], *(text["text"] for text in block["content"])]
    return "\n".join(parts)


def cohere_documents(segments: Iterable[Segment]) -> list[dict[str, Any]]:
    """Make documents for Cohere's chat models, which then give citations of their own.

    They are for ``ChatCohere(...).invoke(question, documents=cohere_documents(segments))``. With
    the same segments, `locate_citations` finds the places that the answer cites.

    Returns:
        A document for each segment, with the fields ``title``, which is the place to cite, and
        ``text``.
    """
    documents = []
    for position, segment in enumerate(segments, 1):
        passage = read_passage(segment, position)
        text = encodable(passage.header + passage.text)
        fields = {"title": citation_of(passage.metadata), "text": text}
        documents.append({"id": cohere_id(position), "data": fields})
    return documents


def cohere_id(position: int) -> str:
    """The id of the document of a segment for Cohere's models."""
    return f"passage-{position}"
