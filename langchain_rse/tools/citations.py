"""Finds the places in documents that Claude cites."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from langchain_core.messages import BaseMessage

from langchain_rse.text.quoting import encodable
from langchain_rse.tools.passages import block_ranges, block_source, heading_of
from langchain_rse.tools.places import Passage, PassageLike, Place, read_passages

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
    read = read_passages(passages)
    blocks = answer.content if isinstance(answer, BaseMessage) else answer
    if isinstance(blocks, str):
        return []
    return list(_locate_all(blocks, read))


def _locate_all(blocks: _Blocks, passages: Sequence[Passage]) -> Iterator[ModelCitation]:
    """Locate the citations of all blocks. Each applies to a whole text block of the answer."""
    position = 0
    for block in blocks:
        text = block if isinstance(block, str) else ""
        annotations: Iterable[Mapping[str, Any]] = ()
        if isinstance(block, Mapping) and block.get("type") == "text":
            text = block.get("text") or ""
            annotations = block.get("citations") or block.get("annotations") or ()
        for annotation in annotations:
            citation = _read_annotation(annotation)
            if citation is not None:
                yield _locate(citation, text, position, passages)
        position += len(text)


class _ClaudeCitation(NamedTuple):
    """A citation of type ``search_result_location``."""

    result: int  # the position of the search result in the request, from 0
    start: int  # the first text block of the search result
    end: int  # the one after the last
    source: str | None
    title: str | None
    text: str  # the cited text; empty if unknown


def _read_annotation(annotation: Mapping[str, Any]) -> _ClaudeCitation | None:
    """Read a citation in Anthropic's or LangChain's form; None unless it cites a search result."""
    fields = annotation
    if annotation.get("type") == "non_standard_annotation":
        fields = annotation.get("value") or {}
    elif annotation.get("type") == "citation":
        fields = {**(annotation.get("extras") or {}), **annotation}
    indexes = []
    for name in ("search_result_index", "start_block_index", "end_block_index"):
        index = fields.get(name)
        if not isinstance(index, int) or index < 0:
            return None
        indexes.append(index)
    result, start, end = indexes
    # In Anthropic's guide, a citation of one block has the same start and end.
    end = max(end, start + 1)
    text = fields.get("cited_text") or ""
    return _ClaudeCitation(result, start, end, fields.get("source"), fields.get("title"), text)


def _locate(
    citation: _ClaudeCitation, text: str, position: int, passages: Sequence[Passage]
) -> ModelCitation:
    """Find the place of a citation, first in the passage at its position, then in all others."""
    at_its_number = passages[citation.result : citation.result + 1]
    for passage in [*at_its_number, *passages]:
        characters = _find_cited(citation, passage)
        if characters is not None:
            # Characters of the header are not cited.
            start, end = (max(each - len(passage.header), 0) for each in characters)
            place = passage.place(start, end)
            return ModelCitation(text, position, position + len(text), **place)
    return ModelCitation(text, position, position + len(text), found=citation.text)


def _find_cited(citation: _ClaudeCitation, passage: Passage) -> tuple[int, int] | None:
    """Find the cited characters of a passage; None if the citation is for another passage."""
    if citation.title not in {None, heading_of(passage)}:
        return None
    if citation.source not in {None, block_source(passage)}:
        return None
    ranges = block_ranges(passage)[citation.start : citation.end]
    if len(ranges) < citation.end - citation.start:
        return None
    first = ranges[0][0]
    last = ranges[-1][1]
    shown = encodable(passage.shown[first:last])
    if "".join(citation.text.split()) not in "".join(shown.split()):
        return None
    # Some models cite a part of the blocks.
    if citation.text and shown.count(citation.text) == 1:
        first += shown.index(citation.text)
        last = first + len(citation.text)
    return first, last
