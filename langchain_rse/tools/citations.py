"""Finds the places in documents that the citations of Claude and of Cohere's models mean."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from langchain_core.messages import BaseMessage

from langchain_rse.text.quoting import encodable
from langchain_rse.tools.passages import block_ranges, block_source, cohere_id, heading_of
from langchain_rse.tools.places import Passage, Place, Segment, read_passage

_Blocks = Sequence[str | Mapping[str, Any]]


@dataclass(frozen=True)
class ModelCitation(Place):
    """A citation that a model gave by itself, and the place in a document that it means.

    Attributes:
        text: The text of the answer that it is for.
        start: The first character of that text in the answer.
        end: The character after its last one in the answer.
        number: The number of the passage, from 1; None if it is in none of the segments, as is
            ``doc_id``.
        doc_id: The id of the passage's document.
        start_index: The first character of the place in the document's text.
        end_index: The character after the last one of that place.
        found: The text of that place; what the model cites, if it is in none of the segments.
        source: The source of the passage's document, or else its id.
        title: The title of the passage's document, or else its name.
    """


def locate_citations(
    answer: BaseMessage | _Blocks, segments: Iterable[Segment]
) -> list[ModelCitation]:
    """Find the places in documents that the citations of an answer mean.

    Claude cites chunks of a passage, which came from `create_rse_tool` with
    ``content="search_results"`` or from `search_result_blocks`; the titles of the blocks tell which
    passage it is, so other search results in the conversation do no harm. Cohere's models cite
    whole passages, which came from `cohere_documents`. Other citations, such as those of a search
    in the web, are left out.

    Args:
        answer: The model's message, or its content blocks: with citations as Anthropic gives them,
            or as LangChain's standard annotations. Cohere's are only in the message.
        segments: The segments that the model read: of all artifacts of a conversation, in their
            order, or what was given to the functions above. Also as dicts from a checkpointer.

    Returns:
        The citations in the order of the answer.
    """
    passages = [read_passage(segment, position) for position, segment in enumerate(segments, 1)]
    if not isinstance(answer, BaseMessage):
        return list(_locate_of_claude(answer, passages))
    citations = list(_locate_of_cohere(answer, passages))
    if isinstance(answer.content, list):
        citations += _locate_of_claude(answer.content, passages)
    return citations


def _cite(text: str, start: int, passage: Passage, first: int, last: int) -> ModelCitation:
    """Cite the characters from first until last of a passage's header and text.

    Args:
        text: The text of the answer that is based on them.
        start: Where that is in the answer.
        passage: The passage.
        first: The first character.
        last: The one after the last. The header is not cited.
    """
    header_length = len(passage.header)
    place = passage.place(max(first - header_length, 0), max(last - header_length, 0))
    return ModelCitation(text, start, start + len(text), **place)


def _locate_of_cohere(message: BaseMessage, passages: Sequence[Passage]) -> Iterator[ModelCitation]:
    """Locate Cohere's citations, which have a range of the answer and the ids of documents."""
    answer = str(message.text)
    passage_of = {cohere_id(position): passage for position, passage in enumerate(passages, 1)}
    for citation in message.additional_kwargs.get("citations") or ():
        start = _field(citation, "start")
        end = _field(citation, "end")
        if not isinstance(start, int) or not isinstance(end, int):
            continue
        for source in _field(citation, "sources") or ():
            passage = passage_of.get(_field(source, "id"))
            if passage is None:
                yield ModelCitation(answer[start:end], start, end)
            else:
                length = len(passage.header + passage.text)
                yield _cite(answer[start:end], start, passage, 0, length)


def _field(record: object, name: str) -> Any:  # noqa: ANN401 - of Cohere's API
    """Return a field of an object of Cohere's SDK, or of the dict that a checkpointer restores."""
    if isinstance(record, Mapping):
        return record.get(name)
    return getattr(record, name, None)


def _locate_of_claude(blocks: _Blocks, passages: Sequence[Passage]) -> Iterator[ModelCitation]:
    """Locate Claude's citations, each of which is for a whole text block of the answer."""
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

    result: int  # the number of the block among all search results of the request, from 0
    start: int  # the first text block of the search result
    end: int  # the one after the last
    source: str | None
    title: str | None
    text: str  # that is cited; empty if it is unknown


def _read_annotation(annotation: Mapping[str, Any]) -> _ClaudeCitation | None:
    """Read a citation from Anthropic's or LangChain's form; None if it cites no search result."""
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
    # In the examples of Anthropic's guide, a citation of one block ends at the same one.
    end = max(end, start + 1)
    text = fields.get("cited_text") or ""
    return _ClaudeCitation(result, start, end, fields.get("source"), fields.get("title"), text)


def _locate(
    citation: _ClaudeCitation, text: str, position: int, passages: Sequence[Passage]
) -> ModelCitation:
    """Find the place of a citation in the passage that it names, which may have moved."""
    at_its_number = passages[citation.result : citation.result + 1]
    for passage in [*at_its_number, *passages]:
        characters = _find_cited(citation, passage)
        if characters is not None:
            return _cite(text, position, passage, *characters)
    return ModelCitation(text, position, position + len(text), found=citation.text)


def _find_cited(citation: _ClaudeCitation, passage: Passage) -> tuple[int, int] | None:
    """Find the cited characters of a passage; None if the citation is of another one."""
    if citation.title not in {None, heading_of(passage)}:
        return None
    if citation.source not in {None, block_source(passage)}:
        return None
    ranges = block_ranges(passage)[citation.start : citation.end]
    if len(ranges) < citation.end - citation.start:
        return None
    first = ranges[0][0]
    last = ranges[-1][1]
    text = passage.header + passage.text
    shown = encodable(text[first:last])
    if "".join(citation.text.split()) not in "".join(shown.split()):
        return None
    # Some models cite less than the blocks.
    if citation.text and shown.count(citation.text) == 1:
        first += shown.index(citation.text)
        last = first + len(citation.text)
    return first, last
