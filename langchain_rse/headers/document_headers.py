"""DocumentHeaders: headers from metadata, file names and headings, without a model."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from string import Formatter
from typing import Any, ClassVar, Self

from pydantic import ConfigDict, model_validator

from langchain_rse._messages import Checked, warn
from langchain_rse._progress import Advance
from langchain_rse._sync import Steps, compute
from langchain_rse.ingest.source_documents import with_headers
from langchain_rse.stores.compare_and_set import DocStore
from langchain_rse.stores.records import DocumentVersion
from langchain_rse.text.names import title_of_source
from langchain_rse.text.quoting import first_few, one_line
from langchain_rse.text.titles import first_heading


class DocumentHeaders(Checked):
    """Makes headers from a document's metadata, file name and headings, without a model.

    The title is the metadata field ``title``, or else the file name in ``source``, without folder
    and suffix, or else the first heading of the text. The section is the path of headings in the
    metadata at the chunk's first character.

    A header is embedded and reranked in front of its chunk. It is not part of returned passages:
    to put the document's header, without section, above them, set ``include_header=True`` on the
    retriever.

    Raises:
        ValueError: At construction, if the template is no format string.
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True, arbitrary_types_allowed=True
    )

    template: str = "{title}\n{section}"
    """Format string of the header, with ``{title}``, ``{section}`` and any metadata field. A name
    without a value is empty, with a warning if no document of the call has the field. Values are
    cut to 500 characters. Empty lines are dropped."""
    section_fields: Sequence[str] = ("section", *(f"Header {level}" for level in range(1, 7)))
    """Metadata fields with the headings above a chunk, from the top level down. A field may contain
    a list of headings."""

    _made: ClassVar[frozenset[str]] = frozenset({"title", "section"})  # names that are no fields

    @model_validator(mode="after")
    def _check_template(self) -> Self:
        try:
            self._render({}, {})
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise ValueError(
                "template must be a format string with names in braces, such as {title}; got "
                f"{self.template!r:.200} ({error})"
            ) from error
        return self

    def make(
        self, documents: Sequence[DocumentVersion], docstore: DocStore, advance: Advance
    ) -> Steps[list[DocumentVersion]]:
        """Make the headers of documents; only subclasses use ``docstore`` and ``advance``."""
        del docstore, advance
        return compute(self._make_all, documents, {})

    def _make_all(
        self, documents: Sequence[DocumentVersion], answers: Mapping[str, Mapping[str, str]]
    ) -> list[DocumentVersion]:
        """Make headers; ``answers`` has values for names in the template, by document key."""
        documents_with_headers = []
        fields: set[str] = set()
        for document in documents:
            values = dict(answers.get(document.key, {}))
            if "title" not in values or one_line(document.manifest.metadata.get("title")):
                values["title"] = self.title_of(document.text, document.manifest.metadata)
            headers = []
            for chunk in document.chunks:
                metadata = document.metadata_of(chunk)
                fields.update(metadata)
                section = self._section_in(metadata)
                headers.append(self._render(metadata, {**values, "section": section}))
            shown = self._render(document.manifest.metadata, values)
            documents_with_headers.append(with_headers(document, shown, headers))
        self._warn_of_unknown(fields)
        return documents_with_headers

    def _warn_of_unknown(self, fields: set[str]) -> None:
        """Warn if the template names fields that no document has; they may be misspelt."""
        names = {name for _, name, _, _ in Formatter().parse(self.template) if name}
        unknown = names - fields - self._made
        if unknown and fields:
            warn(
                f"the header template names {first_few(sorted(unknown))}, but no document of this "
                f"call has such a metadata field; they have {first_few(sorted(fields), 20)}"
            )

    def title_of(self, text: str, metadata: Mapping[str, Any]) -> str:
        """Find the title of a document in its metadata or text; empty if there is none."""
        return (
            one_line(metadata.get("title"))
            or title_of_source(metadata.get("source"))
            or first_heading(text)
        )

    def _section_in(self, metadata: Mapping[str, Any]) -> str:
        """Join the headings in metadata, as one line."""
        headings: list[str] = []
        for field in self.section_fields:
            value = metadata.get(field)
            values = value if isinstance(value, (list, tuple)) else [value]
            headings += map(one_line, values)
        return one_line(" > ".join(filter(None, headings)))

    def _render(self, metadata: Mapping[str, Any], values: Mapping[str, str]) -> str:
        """Fill the template; drop empty lines."""
        filled = defaultdict(str, values)
        for field, value in metadata.items():
            filled.setdefault(field, one_line(value))
        lines = [line.strip() for line in self.template.format_map(filled).splitlines()]
        return "\n".join(line for line in lines if line)
