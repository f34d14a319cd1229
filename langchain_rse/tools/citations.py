"""Finds the places in documents that Claude cites."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import BaseMessage

from langchain_rse.text.quoting import encodable
from langchain_rse.tools.passages import (
    Passage,
    PassageLike,
    Place,
    block_ranges,
    heading_of,
    read_passages,
)

_Blocks = Sequence[str | Mapping[str, Any]]


@dataclass(frozen=True)
class ModelCitation(Place):
    """A citation by a model, and the cited place in a document.

    Attributes:
        text: The part of the answer with the citation.
        start: The first character of ``text`` in the answer.
        end: The character after the last one of ``text``.
        number: The number of the cited passage, from 1; None if no passage contains the place.
        doc_id: The id of the passage's document; None if ``number`` is None.
        start_index: The first character of the place in the document's text.
        end_index: The character after the last one of the place.
        found: The text of the place; without a passage, the text that the model cites.
        source: The source of the passage's document, or its id.
        title: The title of the passage's document, or its name.
    """


def locate_citations(
    answer: BaseMessage | _Blocks, passages: Iterable[PassageLike]
) -> list[ModelCitation]:
    """Find the places in documents that an answer cites.

    Claude cites chunks of passages from `search_result_blocks` or from `create_rse_tool` with
    ``content="search_results"``. The titles of the blocks identify the passages, so other search
    results in the conversation do no harm. Other citations, such as web pages, are skipped.

    Args:
        answer: The model's message, or its content blocks, with citations in Anthropic's form or as
            LangChain's standard annotations.
        passages: The passages that the model has read: all artifacts of the conversation in their
            order, or the passages passed to `search_result_blocks`. Dicts from a checkpointer work.

    Returns:
        The citations in the order of the answer.
    """
    blocks = answer.content if isinstance(answer, BaseMessage) else answer
    if isinstance(blocks, str):
        return []
    read = read_passages(passages)
    citations = []
    start = 0
    for block in blocks:
        # A citation applies to a whole text block of the answer.
        text = block if isinstance(block, str) else ""
        annotations: Iterable[Mapping[str, Any]] = ()
        if isinstance(block, Mapping) and block.get("type") == "text":
            text = block.get("text") or ""
            annotations = block.get("citations") or block.get("annotations") or ()
        end = start + len(text)
        for fields in map(_fields_of, annotations):
            if fields.keys() >= _FIELDS:
                place = _find_cited(fields, read)
                citations.append(ModelCitation(text, start, end, **place))
        start = end
    return citations


# Of a citation of a search result by Claude.
_FIELDS = {"search_result_index", "start_block_index", "end_block_index"}


def _fields_of(annotation: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the fields of a citation in Anthropic's or LangChain's form."""
    if annotation.get("type") == "non_standard_annotation":
        return annotation.get("value") or {}
    return {**(annotation.get("extras") or {}), **annotation}


def _find_cited(citation: Mapping[str, Any], passages: Sequence[Passage]) -> dict[str, Any]:
    """Find the place of a citation in the passage with its title."""
    start = citation["start_block_index"]
    # In Anthropic's guide, a citation of one block has the same start and end.
    end = max(citation["end_block_index"], start + 1)
    cited = citation.get("cited_text") or ""
    for passage in passages:
        ranges = block_ranges(passage)[start:end]
        if citation.get("title") != heading_of(passage) or len(ranges) < end - start:
            continue
        first, last = ranges[0][0], ranges[-1][1]
        shown = encodable(passage.shown[first:last])
        if "".join(cited.split()) in "".join(shown.split()):
            # Characters of the header are not cited.
            header_length = len(passage.header)
            return passage.place(max(first - header_length, 0), max(last - header_length, 0))
    return {"found": cited}
