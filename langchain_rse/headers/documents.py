"""DocumentHeaders: headers from metadata, file names and headings, without a model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, NamedTuple, Protocol, TypeVar

from langchain_core.documents import Document
from langchain_core.stores import BaseStore
from pydantic import BaseModel, BeforeValidator, ConfigDict, model_validator
from typing_extensions import Self

from langchain_rse._progress import Advance
from langchain_rse._steps import Steps, compute
from langchain_rse._templates import Piece, fill, parse
from langchain_rse.headers.titles import first_heading, one_line, title_of_source
from langchain_rse.splitting import Span

__all__ = ["DocumentHeaders", "Fit", "Headed", "Headings", "Outline", "Run", "Section"]


class Headed(Protocol):
    """What headers need of a document that was split."""

    @property
    def doc_id(self) -> str:
        """Its id."""

    @property
    def key(self) -> str:
        """Its key in the docstore."""

    @property
    def text(self) -> str:
        """Its text."""

    @property
    def spans(self) -> Sequence[Span]:
        """Where its chunks lie in the text."""

    @property
    def metadata(self) -> Mapping[str, Any]:
        """What holds for the whole document."""

    def changing(self, index: int) -> tuple[Mapping[str, Any], Mapping[str, Any]] | None:
        """Other metadata at a chunk's first and last character."""


class Headings(NamedTuple):
    """The headers of a document.

    Attributes:
        document: What stands above its segments, if that is asked for.
        chunks: What is embedded in front of each chunk.
        borders: Where sections begin and end, as numbers of chunks; none if there is but one,
            or if each chunk is one.
    """

    document: str
    chunks: Sequence[str]
    borders: Sequence[int] = ()


H = TypeVar("H", bound=Headed)

Fit = Callable[[H, Headings], tuple[H, Headings | None]]
"""From a document and its headers to both as they may stay; or to the document in smaller chunks
and None, where they do not fit in together."""


class Section(NamedTuple):
    """A run of chunks under one heading.

    Attributes:
        start: The first of them.
        end: The one after the last.
        title: The heading, or the path of headings; empty where there is none.
        summary: What it is about; empty if nobody said.
    """

    start: int
    end: int
    title: str
    summary: str = ""


class Outline(NamedTuple):
    """What headers are made of.

    Attributes:
        title: The document's title; empty if it has none.
        summary: What it is about; empty if nobody said.
        sections: Its sections; they tile its chunks.
    """

    title: str
    summary: str
    sections: Sequence[Section]

    @property
    def borders(self) -> list[int]:
        """Where sections begin and end, as numbers of chunks.

        None if there is but one section, or if each chunk is one: that tells no place from others.
        """
        chunks = self.sections[-1].end if self.sections else 0
        if not 1 < len(self.sections) < chunks:
            return []
        return [*(section.start for section in self.sections), chunks]


def _names(names: Any) -> Any:  # noqa: ANN401 - anything may be given
    if isinstance(names, str):
        raise ValueError(  # noqa: TRY004 - pydantic reports ValueErrors
            f"must be a list of names of metadata fields, not one string; use [{names!r}]"
        )
    return names


_Names = Annotated[Sequence[str], BeforeValidator(_names)]


class DocumentHeaders(BaseModel):
    r"""Headers from what is known of a document, without a model.

    The title is the metadata field ``title``, else the name of the file in ``source``, without
    folder and suffix, else the first heading of the text. The section is the path of
    headings that the metadata tells at the chunk's first character.

    A header is embedded and reranked in front of its chunk, with an empty line between. The
    texts that come back are slices of the source all the same; ``include_header=True`` of the
    retriever puts the document's header, which has no section, above each of them. Headers are
    part of a document's version: those that change are embedded again when the document is
    added again.

    Raises:
        ValueError: At construction, if the template is no format string or names what is not
            known here, or an argument is unknown.

    Example:
        .. code-block:: python

            RSERetriever(
                vectorstore=vectorstore,
                docstore=docstore,
                headers=DocumentHeaders(template="{title} ({year})\n{section}", metadata=["year"]),
            )
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid", frozen=True)

    known: ClassVar[tuple[str, ...]] = ("title", "section")

    template: str = "{title}\n{section}"
    """The header: a format string in which ``{title}``, ``{section}`` and the fields in
    ``metadata`` stand for their values, of at most 500 characters each. A line of which every
    name is without a value is left out."""
    metadata: _Names = ()
    """Metadata fields that ``template`` may name as well. A document may lack them."""
    title_fields: _Names = ("title",)
    """Metadata fields that may hold the title; the first that does counts."""
    section_fields: _Names = (
        "section",
        "Header 1",
        "Header 2",
        "Header 3",
        "Header 4",
        "Header 5",
        "Header 6",
    )
    """Metadata fields that hold the headings above a chunk, the uppermost first: those that a
    chunk has make up its path. A list is a path already."""
    section_separator: str = " > "
    """What stands between the headings of a path."""

    @model_validator(mode="after")
    def _check_template(self) -> Self:
        allowed = [*self.known, *(name for name in self.metadata if name not in self.known)]
        names = [name for _, name in self._pieces() if name is not None]
        unknown = [name for name in dict.fromkeys(names) if name not in allowed]
        if unknown:
            raise ValueError(
                f"template may name {', '.join(map(repr, allowed))}; got "
                f"{', '.join(map(repr, unknown))} in {self.template!r}. Add metadata fields to "
                f"metadata, as in metadata={unknown!r}"
            )
        if not names:
            raise ValueError(
                f"template must be a format string with names such as {{title}}; got "
                f"{self.template!r}, which says the same of every document"
            )
        return self

    def _pieces(self) -> list[Piece]:
        wanted = (
            "template must be a format string with {title}, {section} or names of metadata fields, "
            "with literal braces doubled"
        )
        return parse(self.template, wanted)

    def start(self, docstore: BaseStore[str, Document], advance: Advance) -> Run:
        """Begin to make the headers of the documents that are added together.

        Args:
            docstore: Where answers of a model are kept.
            advance: Counts them.
        """
        del docstore, advance
        return Run(self)

    def title_of(self, text: str, metadata: Mapping[str, Any]) -> str:
        """The title of a document; empty if it has none.

        Args:
            text: The text.
            metadata: What holds for the whole document.
        """
        return (
            self._title_in(metadata)
            or title_of_source(metadata.get("source"))
            or first_heading(text)
        )

    def has_title(self, metadata: Mapping[str, Any]) -> bool:
        """Whether a document's metadata has its title."""
        return bool(self._title_in(metadata))

    @property
    def names(self) -> frozenset[str]:
        """What the template names."""
        return frozenset(name for _, name in self._pieces() if name is not None)

    def _title_in(self, metadata: Mapping[str, Any]) -> str:
        found = (one_line(metadata.get(name)) for name in self.title_fields)
        return next(filter(None, found), "")

    def outline(self, document: Headed) -> Outline:
        """What is known of a document without a model."""
        title = self.title_of(document.text, document.metadata)
        sections: list[Section] = []
        for index in range(len(document.spans)):
            path = self._path(_metadata_at(document, index))
            start = index
            if sections and sections[-1].title == path:
                start = sections.pop().start
            sections.append(Section(start, index + 1, path))
        return Outline(title, "", sections)

    def _path(self, metadata: Mapping[str, Any]) -> str:
        found = (metadata.get(name) for name in self.section_fields)
        headings = [
            one_line(part)
            for value in found
            for part in (value if isinstance(value, (list, tuple)) else [value])
        ]
        return one_line(self.section_separator.join(filter(None, headings)))

    def rendered(self, document: Headed, outline: Outline) -> Headings:
        """The headers of a document from its outline."""
        lines = _lines(self._pieces())
        whole = {"title": outline.title, "summary": outline.summary}
        chunks = []
        for start, end, title, summary in outline.sections:
            for index in range(start, end):
                here = _metadata_at(document, index)
                values = {name: one_line(here.get(name)) for name in self.metadata}
                section = {"section": title, "section_summary": summary}
                chunks.append(_filled(lines, {**values, **whole, **section}))
        shared = {name: one_line(document.metadata.get(name)) for name in self.metadata}
        return Headings(_filled(lines, {**shared, **whole}), chunks, outline.borders)


def _metadata_at(document: Headed, index: int) -> Mapping[str, Any]:
    """What holds at the first character of a chunk."""
    changing = document.changing(index)
    return document.metadata if changing is None else {**document.metadata, **changing[0]}


def _lines(pieces: Iterable[Piece]) -> list[list[Piece]]:
    """The pieces of a template, line by line."""
    lines: list[list[Piece]] = [[]]
    for text, name in pieces:
        first, *others = text.split("\n")
        lines[-1].append((first, None))
        lines += [[(line, None)] for line in others]
        if name is not None:
            lines[-1].append(("", name))
    return lines


def _filled(lines: Iterable[Sequence[Piece]], values: Mapping[str, str]) -> str:
    """The lines that say something; nothing if none of them does."""
    shown = []
    says_something = False
    for line in lines:
        names = [name for _, name in line if name is not None]
        found = any(values.get(name) for name in names)
        says_something = says_something or found
        if found or not names:
            shown.append(fill(line, values).strip())
    return "\n".join(shown).strip() if says_something else ""


class Run:
    """The headers of documents that are added together.

    Args:
        headers: How they are made.
    """

    def __init__(self, headers: DocumentHeaders) -> None:
        self._headers = headers

    def headings(self, documents: Sequence[H], fit: Fit[H]) -> Steps[list[tuple[H, Headings]]]:
        """Some of the documents with their headers, made again as long as they do not fit."""
        headers = self._headers

        def headed(document: H) -> tuple[H, Headings]:
            while True:
                headings = headers.rendered(document, headers.outline(document))
                document, fitting = fit(document, headings)
                if fitting is not None:
                    return document, fitting

        return compute(lambda: list(map(headed, documents)))

    def finish(self) -> None:
        """Say what went wrong."""
