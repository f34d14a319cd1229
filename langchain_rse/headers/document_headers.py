"""DocumentHeaders: headers from metadata, file names and headings, without a model."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, model_validator

from langchain_rse._progress import Advance
from langchain_rse._sync import Steps, compute
from langchain_rse._templates import check_template, fill, names_in
from langchain_rse.ingest.source_documents import with_headers
from langchain_rse.stores.compare_and_set import DocStore
from langchain_rse.stores.records import Chunk, DocumentVersion
from langchain_rse.text.quoting import one_line
from langchain_rse.text.titles import first_heading, title_of_source


class DocumentHeaders(BaseModel):
    """Makes headers from a document's metadata, file name and headings, without a model.

    The title is the metadata field ``title``, or else the file name in ``source``, without folder
    and suffix, or else the first heading of the text. The section is the path of headings in the
    metadata at the chunk's first character.

    A header is embedded and reranked in front of its chunk. It is not part of returned passages:
    to put the document's header, without section, above them, set ``include_header=True`` on the
    retriever.

    Raises:
        ValueError: At construction, if the template uses an unknown field.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid", frozen=True)

    _template_names: ClassVar[tuple[str, ...]] = ("title", "section")

    template: str = "{title}\n{section}"
    """Format string of the header, with ``{title}``, ``{section}`` and the fields in ``metadata``.
    Values are cut to 500 characters. A line is dropped if none of its names has a value."""
    metadata: Sequence[str] = ()
    """Additional metadata fields that ``template`` may use. They may be missing from documents."""
    section_fields: Sequence[str] = ("section", *(f"Header {level}" for level in range(1, 7)))
    """Metadata fields with the headings above a chunk, from the top level down. A field may contain
    a list of headings."""

    @model_validator(mode="after")
    def _check_template(self) -> Self:
        check_template("template", self.template, self._template_names, self.metadata)
        return self

    def make(
        self, documents: Sequence[DocumentVersion], docstore: DocStore, advance: Advance
    ) -> Steps[list[DocumentVersion]]:
        """Make the headers of documents; only subclasses use ``docstore`` and ``advance``."""
        del docstore, advance
        return compute(self._make_all, documents)

    def _make_all(self, documents: Sequence[DocumentVersion]) -> list[DocumentVersion]:
        documents_with_headers = []
        for document in documents:
            values = {"title": self.title_of(document.text, document.metadata)}
            sections = [self._headings_above(document, chunk) for chunk in document.chunks]
            documents_with_headers.append(self._with_headers(document, values, sections))
        return documents_with_headers

    def title_of(self, text: str, metadata: Mapping[str, Any]) -> str:
        """Find the title of a document in its metadata or text; empty if there is none."""
        return (
            one_line(metadata.get("title"))
            or title_of_source(metadata.get("source"))
            or first_heading(text)
        )

    def _headings_above(self, document: DocumentVersion, chunk: Chunk) -> str:
        """Return the headings in the metadata of a chunk, as one line."""
        metadata = document.metadata_of(chunk)
        headings: list[object] = []
        for field in self.section_fields:
            value = metadata.get(field)
            if isinstance(value, (list, tuple)):
                headings += value
            else:
                headings.append(value)
        lines = [one_line(heading) for heading in headings]
        return one_line(" > ".join(line for line in lines if line))

    def _with_headers(
        self, document: DocumentVersion, values: Mapping[str, str], sections: Sequence[str]
    ) -> DocumentVersion:
        """Add headers to a document and its chunks.

        Args:
            document: The document.
            values: Values of names in the template, the same for the whole document.
            sections: The section of each chunk.
        """
        headers = []
        for chunk, section in zip(document.chunks, sections, strict=True):
            metadata = document.metadata_of(chunk)
            headers.append(self._render(metadata, {**values, "section": section}))
        return with_headers(document, self._render(document.metadata, values), headers)

    def _render(self, metadata: Mapping[str, Any], values: Mapping[str, str]) -> str:
        """Fill the template; drop lines in which no name has a value."""
        metadata_values = {field: one_line(metadata.get(field)) for field in self.metadata}
        values = {**metadata_values, **values}
        lines = []
        is_empty = True
        for line in self.template.split("\n"):
            names = names_in(line)
            has_value = any(values.get(name) for name in names)
            if has_value:
                is_empty = False
            if has_value or not names:
                lines.append(fill(line, values).strip())
        if is_empty:
            return ""
        return "\n".join(lines).strip()
