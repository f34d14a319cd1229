"""Passages that a model has read, and cited places in them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from langchain_core.documents import Document
from langchain_core.messages.content import Citation, create_citation

from langchain_rse.stores.records import DOC_ID, END_INDEX, PASSAGE, START_INDEX
from langchain_rse.text.titles import short_names, shown_name

NUMBER = "number"
"""The field in the ``rse`` metadata of a passage for its citation number."""

LINE = "line"
"""The field in the ``rse`` metadata of a found line with its number, from 1."""

NAME = "name"
"""The field for the name of its document, if the file name is ambiguous."""

PassageLike = Document | Mapping[str, Any]
"""A passage, or its dict from a checkpointer."""


@dataclass(frozen=True)
class Place:
    """A part of an answer, and the place in a document that supports it."""

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

    def to_citation(self) -> Citation:
        """Make LangChain's standard annotation of a text block.

        ``start_index`` and ``end_index`` are characters of the answer; ``cited_text`` is the text
        of the document. ``extras`` has the place in the document: ``number``, ``doc_id``,
        ``start_index`` and ``end_index``.

        Raises:
            ValueError: If the place was not found in the passages.
        """
        if self.number is None:
            raise ValueError(f"cannot cite {self.text!r:.200}: it was not found in the passages")
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


class Passage(NamedTuple):
    """A passage that a model has read."""

    number: int  # from the tool, or its position among the passages, from 1
    header: str  # the header above the text, or ""
    text: str  # from the document
    metadata: Mapping[str, Any]

    @property
    def shown(self) -> str:
        """The header and text, as the model has read them."""
        return self.header + self.text

    def place(self, start: int, end: int) -> dict[str, Any]:
        """Return the fields of a `Place` for the characters from ``start`` to ``end``."""
        start_index = self.metadata.get(START_INDEX, 0)
        source = self.metadata.get("source") or self.metadata.get(DOC_ID)
        title = self.metadata.get("title")
        if not isinstance(title, str) or not title.strip():
            title = None if source is None else name_in(self.metadata)
        return {
            "number": self.number,
            "doc_id": self.metadata.get(DOC_ID),
            "start_index": start_index + start,
            "end_index": start_index + end,
            "found": self.text[start:end],
            "source": None if source is None else str(source),
            "title": title,
        }


def read_passages(passages: Iterable[PassageLike]) -> list[Passage]:
    """Read what is shown of passages, in their order."""
    return [_read_passage(passage, position) for position, passage in enumerate(passages, 1)]


def _read_passage(passage: PassageLike, position: int) -> Passage:
    fields = passage if isinstance(passage, Mapping) else vars(passage)
    text: str = fields["page_content"]
    metadata: Mapping[str, Any] = fields["metadata"]
    header_length = 0
    if metadata.keys() >= {START_INDEX, END_INDEX}:
        length = metadata[END_INDEX] - metadata[START_INDEX]
        header_length = max(len(text) - length, 0)
    rse = metadata.get(PASSAGE) or {}
    number = int(rse.get(NUMBER, position))
    return Passage(number, text[:header_length], text[header_length:], metadata)


def name_in(metadata: Mapping[str, Any]) -> str:
    """Return a short name of a passage's document: an absolute path without its folders."""
    rse = metadata.get(PASSAGE) or {}
    path = path_in(metadata)
    return str(rse.get(NAME) or short_names([path])[path])


def path_in(metadata: Mapping[str, Any]) -> str:
    """Return the name of a passage's document with its folders."""
    source = str(metadata.get("source") or metadata[DOC_ID])
    return shown_name(metadata.get(DOC_ID, source), source)
