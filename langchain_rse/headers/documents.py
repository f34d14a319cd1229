"""DocumentHeaders: headers from metadata, file names and headings, without a model."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, model_validator
from typing_extensions import Self

from langchain_rse._progress import Advance
from langchain_rse._sync import Steps, compute
from langchain_rse._templates import check_template, fill, names_in
from langchain_rse.headers.titles import first_heading, one_line, title_of_source
from langchain_rse.ingest.documents import with_headers
from langchain_rse.stores.changing import DocStore
from langchain_rse.stores.records import DocumentVersion


class DocumentHeaders(BaseModel):
    """Makes headers from a document's metadata, file name and headings, without a model.

    The title is the metadata field ``title``, else the name of the file in ``source``, without
    folder and suffix, else the first heading of the text. The section is the path of headings
    in the metadata at the chunk's first character.

    A header is embedded and reranked in front of its chunk, and is not part of returned segments.
    ``include_header=True`` of the retriever puts the document's, without section, above them.

    Raises:
        ValueError: At construction, if the template names an unknown field.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid", frozen=True)

    _known_names: ClassVar[tuple[str, ...]] = ("title", "section")

    template: str = "{title}\n{section}"
    """The header: a format string in which ``{title}``, ``{section}`` and the fields in
    ``metadata`` stand for their values, of at most 500 characters each. A line in which no name
    has a value is left out."""
    metadata: Sequence[str] = ()
    """More metadata fields that ``template`` may name. A document may lack them."""
    title_fields: Sequence[str] = ("title",)
    """Metadata fields that may hold the title; the first one with a value is used."""
    section_fields: Sequence[str] = ("section", *(f"Header {level}" for level in range(1, 7)))
    """Metadata fields that hold the headings above a chunk, the uppermost first. A field may hold a
    list of headings."""

    @model_validator(mode="after")
    def _check_template(self) -> Self:
        check_template("template", self.template, self._known_names, self.metadata)
        return self

    def make(
        self, documents: Sequence[DocumentVersion], docstore: DocStore, advance: Advance
    ) -> Steps[list[DocumentVersion]]:
        """Make the headers of documents; ``docstore`` and ``advance`` are for a model's answers."""
        del docstore, advance
        return compute(list, map(self._with_headers, documents))

    def title_of(self, text: str, metadata: Mapping[str, Any]) -> str:
        """Find the title of a document in its metadata or text; empty if it has none."""
        known = self._title_in(metadata)
        return known or title_of_source(metadata.get("source")) or first_heading(text)

    def _title_in(self, metadata: Mapping[str, Any]) -> str:
        return next(filter(None, (one_line(metadata.get(name)) for name in self.title_fields)), "")

    def _with_headers(
        self, document: DocumentVersion, sections: Sequence[str | None] = (), **told: str
    ) -> DocumentVersion:
        """Add the headers, with a model's answers about the document and its chunks, if any."""
        values = {"title": self.title_of(document.text, document.metadata), **told}
        chunks = []
        for chunk, section in itertools.zip_longest(document.chunks, sections):
            here = document.metadata_of(chunk)
            path = self._path(here) if section is None else section
            chunks.append(self._render(here, **values, section=path))
        return with_headers(document, self._render(document.metadata, **values), chunks)

    def _path(self, metadata: Mapping[str, Any]) -> str:
        """The headings in metadata, as one line."""
        headings: list[str] = []
        for name in self.section_fields:
            value = metadata.get(name)
            headings += map(one_line, value if isinstance(value, (list, tuple)) else [value])
        return one_line(" > ".join(filter(None, headings)))

    def _render(self, metadata: Mapping[str, Any], **values: str) -> str:
        """The template's lines, without those in which no name has a value."""
        values = {**{name: one_line(metadata.get(name)) for name in self.metadata}, **values}
        known = {name for name, value in values.items() if value}
        if known.isdisjoint(names_in(self.template)):
            return ""
        lines = ((line, names_in(line)) for line in self.template.split("\n"))
        kept = [line for line, names in lines if not names or not known.isdisjoint(names)]
        return "\n".join(fill(line, values).strip() for line in kept).strip()
