"""DocumentHeaders: headers from metadata, file names and headings, without a model."""

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
    r"""Headers from what is known of a document, without a model.

    The title is the metadata field ``title``, else the name of the file in ``source``, without
    folder and suffix, else the first heading of the text. The section is the path of headings
    in the metadata at the chunk's first character.

    A header is embedded and reranked in front of its chunk, with an empty line between, and is no
    part of what queries return; ``include_header=True`` of the retriever puts the document's,
    which has no section, above each segment.

    Raises:
        ValueError: At construction, if the template names an unknown field.

    Example:
        >>> headers = DocumentHeaders(template="{title} ({year})\n{section}", metadata=["year"])
        >>> RSERetriever(vectorstore=store, docstore=docstore, headers=headers)
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid", frozen=True)

    _known_names: ClassVar[tuple[str, ...]] = ("title", "section")

    template: str = "{title}\n{section}"
    """The header: a format string in which ``{title}``, ``{section}`` and the fields in
    ``metadata`` stand for their values, of at most 500 characters each. A line in which no name
    has a value is left out."""
    metadata: Sequence[str] = ()
    """Metadata fields that ``template`` may name as well. A document may lack them."""
    title_fields: Sequence[str] = ("title",)
    """Metadata fields that may hold the title; the first one with a value is used."""
    section_fields: Sequence[str] = ("section", *(f"Header {level}" for level in range(1, 7)))
    """Metadata fields that hold the headings above a chunk, the uppermost first. A list is a
    path already."""

    @model_validator(mode="after")
    def _check_template(self) -> Self:
        check_template("template", self.template, self._known_names, self.metadata)
        return self

    def make(
        self, documents: Sequence[DocumentVersion], docstore: DocStore, advance: Advance
    ) -> Steps[list[DocumentVersion]]:
        """Make the headers of documents; ``docstore`` and ``advance`` are for those of a model."""
        del docstore, advance
        return compute(lambda: [self._with_headers(document) for document in documents])

    def title_of(self, text: str, metadata: Mapping[str, Any]) -> str:
        """The title of a document, by its text and metadata; empty if it has none."""
        source = metadata.get("source")
        return self._title_in(metadata) or title_of_source(source) or first_heading(text)

    def _title_in(self, metadata: Mapping[str, Any]) -> str:
        values = (one_line(metadata.get(name)) for name in self.title_fields)
        return next(filter(None, values), "")

    def _with_headers(self, document: DocumentVersion) -> DocumentVersion:
        title = self.title_of(document.text, document.metadata)
        places = map(document.metadata_of, document.chunks)
        chunks = [self._render(here, title=title, section=self._path(here)) for here in places]
        return with_headers(document, self._render(document.metadata, title=title), chunks)

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
        if not any(values.get(name) for name in names_in(self.template)):
            return ""
        lines = [
            fill(line, values).strip()
            for line in self.template.split("\n")
            if not (names := names_in(line)) or any(values.get(name) for name in names)
        ]
        return "\n".join(lines).strip()
