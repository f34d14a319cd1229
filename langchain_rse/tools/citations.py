"""Finds the places in documents that the citations of Claude and of Cohere's models mean."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from langchain_core.documents import Document
from langchain_core.messages import BaseMessage

from langchain_rse.stores.records import DOC_ID, END_INDEX, START_INDEX
from langchain_rse.text.quoting import encodable
from langchain_rse.tools.passages import citation_of
from langchain_rse.tools.places import Place, number_in, source_in, text_and_metadata, title_in
from langchain_rse.tools.search_results import block_ranges, block_source, block_title

_Segment = Document | Mapping[str, Any]


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

    text: str
    start: int
    end: int
    number: int | None = None
    doc_id: str | None = None
    start_index: int = 0
    end_index: int = 0
    found: str = ""
    source: str | None = None
    title: str | None = None


def locate_citations(
    answer: BaseMessage | Sequence[str | Mapping[str, Any]], segments: Iterable[_Segment]
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
    passages = [_read_passage(position, segment) for position, segment in enumerate(segments, 1)]
    blocks: Sequence[str | Mapping[str, Any]] = []
    citations: list[ModelCitation] = []
    if not isinstance(answer, BaseMessage):
        blocks = answer
    else:
        if isinstance(answer.content, list):
            blocks = answer.content
        of_cohere = answer.additional_kwargs.get("citations") or ()
        citations += _locate_of_cohere(str(answer.text), of_cohere, passages)
    citations += _locate_of_claude(blocks, passages)
    return citations


def cohere_documents(segments: Iterable[_Segment]) -> list[dict[str, Any]]:
    """Make documents for Cohere's chat models, which then give citations of their own.

    They are for ``ChatCohere(...).invoke(question, documents=cohere_documents(segments))``. With
    the same segments, `locate_citations` finds the places that the answer cites.

    Returns:
        A document for each segment, with the fields ``title``, which is the place to cite, and
        ``text``.
    """
    documents = []
    for position, segment in enumerate(segments, 1):
        text, metadata = text_and_metadata(segment)
        fields = {"title": citation_of(metadata), "text": encodable(text)}
        documents.append({"id": _cohere_id(position), "data": fields})
    return documents


def _cohere_id(position: int) -> str:
    return f"passage-{position}"


class _Passage(NamedTuple):
    """A segment that a model has read."""

    number: int
    text: str
    metadata: Mapping[str, Any]

    def locate(self, text: str, start: int, first: int, last: int) -> ModelCitation:
        """Cite the characters from first until last of the segment's text.

        Args:
            text: The text of the answer that is based on them.
            start: Where that is in the answer.
            first: The first character in the segment's text.
            last: The one after the last.
        """
        # Above the slice of the document there may be a header.
        start_index = self.metadata[START_INDEX]
        length = self.metadata[END_INDEX] - start_index
        header_length = max(len(self.text) - length, 0)
        first = max(first, header_length)
        last = max(last, header_length)
        return ModelCitation(
            text,
            start,
            start + len(text),
            number=self.number,
            doc_id=self.metadata[DOC_ID],
            start_index=start_index + first - header_length,
            end_index=start_index + last - header_length,
            found=self.text[first:last],
            source=source_in(self.metadata),
            title=title_in(self.metadata),
        )


def _read_passage(position: int, segment: _Segment) -> _Passage:
    text, metadata = text_and_metadata(segment)
    return _Passage(number_in(metadata, position), text, metadata)


def _locate_of_cohere(
    answer: str, citations: Iterable[object], passages: Sequence[_Passage]
) -> Iterator[ModelCitation]:
    """Locate Cohere's citations, which have a range of the answer and the ids of documents."""
    passage_of = {_cohere_id(position): passage for position, passage in enumerate(passages, 1)}
    for citation in citations:
        start = _field(citation, "start")
        end = _field(citation, "end")
        if not isinstance(start, int) or not isinstance(end, int):
            continue
        for source in _field(citation, "sources") or ():
            passage = passage_of.get(_field(source, "id"))
            if passage is None:
                yield ModelCitation(answer[start:end], start, end)
            else:
                yield passage.locate(answer[start:end], start, 0, len(passage.text))


def _field(record: object, name: str) -> Any:  # noqa: ANN401 - of Cohere's API
    """Return a field of an object of Cohere's SDK, or of the dict that a checkpointer restores."""
    if isinstance(record, Mapping):
        return record.get(name)
    return getattr(record, name, None)


def _locate_of_claude(
    blocks: Iterable[str | Mapping[str, Any]], passages: Sequence[_Passage]
) -> Iterator[ModelCitation]:
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

    result: int  # the number of the block among all search results of the request
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
    return _ClaudeCitation(
        result=result,
        start=start,
        end=end,
        source=fields.get("source"),
        title=fields.get("title"),
        text=fields.get("cited_text") or "",
    )


def _locate(
    citation: _ClaudeCitation, text: str, position: int, passages: Sequence[_Passage]
) -> ModelCitation:
    """Find the place of a citation in the passage that it names, which may have moved."""
    at_its_number = passages[citation.result : citation.result + 1]
    for passage in [*at_its_number, *passages]:
        characters = _find_cited(citation, passage)
        if characters is not None:
            return passage.locate(text, position, *characters)
    return ModelCitation(text, position, position + len(text), found=citation.text)


def _find_cited(citation: _ClaudeCitation, passage: _Passage) -> tuple[int, int] | None:
    """Find the cited characters of a passage; None if the citation is of another one."""
    if citation.title not in {None, block_title(passage.metadata, passage.number)}:
        return None
    if citation.source not in {None, block_source(passage.metadata)}:
        return None
    ranges = block_ranges(passage.text, passage.metadata)[citation.start : citation.end]
    if len(ranges) < citation.end - citation.start:
        return None
    first = ranges[0][0]
    last = ranges[-1][1]
    shown = encodable(passage.text[first:last])
    if "".join(citation.text.split()) not in "".join(shown.split()):
        return None
    # Some models cite less than the blocks.
    if citation.text and shown.count(citation.text) == 1:
        first += shown.index(citation.text)
        last = first + len(citation.text)
    return first, last
