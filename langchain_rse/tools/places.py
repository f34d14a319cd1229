"""Places in documents that parts of an answer are based on, as LangChain's citations."""

from collections.abc import Mapping
from typing import Any

from langchain_core.documents import Document
from langchain_core.messages.content import Citation, create_citation

from langchain_rse.stores.records import DOC_ID, END_INDEX, SEGMENT, START_INDEX
from langchain_rse.text.titles import shown_name

NUMBER = "number"
"""The field in the ``rse`` metadata of a passage with the number by which it is cited."""


class Place:
    """A part of an answer, and the place in a document that it is based on.

    Dataclasses that inherit from it declare these fields.
    """

    text: str
    start: int
    end: int
    number: int | None
    doc_id: str | None
    start_index: int
    end_index: int
    found: str
    source: str | None
    title: str | None

    def to_citation(self) -> Citation:
        """Make LangChain's standard annotation of a text block.

        Its ``start_index`` and ``end_index`` are the place in the answer, and ``cited_text`` is
        the document's. The place in the document is in ``extras``: ``number``, ``doc_id``,
        ``start_index`` and ``end_index``.

        Raises:
            ValueError: If the place in the passages was not found.
        """
        if self.number is None:
            raise ValueError(
                f"there is nothing to cite for {self.text!r:.200}: it was not found in the passages"
            )
        citation = create_citation(
            url=self.source,
            title=self.title,
            start_index=self.start,
            end_index=self.end,
            cited_text=self.found,
        )
        citation["extras"] = {
            NUMBER: self.number,
            DOC_ID: self.doc_id,
            START_INDEX: self.start_index,
            END_INDEX: self.end_index,
        }
        return citation


def text_and_metadata(segment: Document | Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Return the text and metadata of a segment, or of the dict that some checkpointers restore."""
    fields = segment if isinstance(segment, Mapping) else vars(segment)
    return fields["page_content"], fields["metadata"]


def number_in(metadata: Mapping[str, Any], position: int) -> int:
    """Return the number of a passage: the tool's, or its position among the segments, from 1."""
    rse = metadata.get(SEGMENT) or {}
    return int(rse.get(NUMBER, position))


def source_in(metadata: Mapping[str, Any]) -> str | None:
    """The address, path or id of a segment's document."""
    source = metadata.get("source") or metadata.get(DOC_ID)
    return None if source is None else str(source)


def title_in(metadata: Mapping[str, Any]) -> str | None:
    """The title of a segment's document, or else its name."""
    title = metadata.get("title")
    if isinstance(title, str) and title.strip():
        return title
    source = source_in(metadata)
    doc_id = metadata.get(DOC_ID)
    return source if doc_id is None else shown_name(str(doc_id), source)
