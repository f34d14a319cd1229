"""Tools with which an agent finds words, looks at outlines, and reads on."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, NamedTuple

from langchain_core.documents import Document
from langchain_core.tools import BaseTool
from pydantic import BaseModel

from langchain_rse.access import DocumentAccess
from langchain_rse.errors import MissingRecordError, RSEError
from langchain_rse.finding import Match, Pattern, find, read_section
from langchain_rse.query.reading import CHARACTERS
from langchain_rse.retriever import RSERetriever
from langchain_rse.stores.document_names import find_document
from langchain_rse.stores.records import DOC_ID, END_INDEX, PASSAGE, Manifest
from langchain_rse.text.headings import outline
from langchain_rse.text.quoting import counted, format_range
from langchain_rse.tools.catalog import (
    BROWSING_TOOLS,
    MAX_READ_LENGTH,
    FilterFields,
    MakeFilter,
    conditions_of,
)
from langchain_rse.tools.passages import (
    LINE,
    choose_names,
    format_passages,
    number_passages,
    pages_of,
    path_in,
    quote_lines,
)
from langchain_rse.tools.search import (
    MIN_DISTANCE,
    Answer,
    Shared,
    create_rse_tool,
    errors_as_answers,
    first_number,
    make_tool,
    shared_by,
)

_MAX_MATCHES = MIN_DISTANCE  # of an answer: a passage for each, or fewer
_MAX_LISTED = 1_000  # documents of an answer
_ALL_NAMES = "Call outline without document for all names."


def create_rse_tools(
    retriever: RSERetriever,
    *,
    k: int | None = None,
    max_context_length: float | None = None,
    filter_fields: FilterFields = (),
    make_filter: MakeFilter | None = None,
) -> list[BaseTool]:
    """Make the tools ``search``, ``find``, ``outline`` and ``read``.

    ``search`` is the tool of `create_rse_tool`. ``find`` finds words or, with the extra ``regex``,
    a regular expression in all documents. ``outline`` lists the sections of a document, or all
    documents. ``read`` reads a section, a page, or a range of characters. All tools number their
    passages alike, return them as artifacts, and read only documents that pass the retriever's
    filters.

    Args:
        retriever: The retriever that searches, and whose documents are read.
        k: As in `create_rse_tool`, for ``search``.
        max_context_length: Maximum length of each answer, as in `create_rse_tool`.
        filter_fields: As in `create_rse_tool`, for ``search`` and ``find``.
        make_filter: As in `create_rse_tool`, for ``search``.

    Raises:
        ValueError: See `create_rse_tool`.
        TypeError: If ``filter_fields`` is a string.
    """
    search = create_rse_tool(
        retriever,
        name="search",
        k=k,
        max_context_length=max_context_length,
        filter_fields=filter_fields,
        make_filter=make_filter,
    )
    shared = shared_by(search)

    def browse(name: str, runtime: Any = None, **arguments: Any) -> Answer:  # noqa: ANN401
        with errors_as_answers():
            browser = _Browser(retriever.document_access(), shared, first_number(runtime, shared))
            answer: Answer = getattr(browser, name)(**arguments)
            return answer

    tools: list[BaseTool] = [search]
    for name, arguments in BROWSING_TOOLS.items():
        description = " ".join((arguments.__doc__ or "").split())
        if shared.length_function is CHARACTERS:
            most = min(shared.max_context_length, MAX_READ_LENGTH)
            description = description.replace(f"{MAX_READ_LENGTH:,}", f"{most:,.10g}")
        tool = make_tool(
            name,
            description,
            arguments,
            shared,
            partial(browse, name),
            filter_fields=filter_fields if name == "find" else (),
        )
        tools.append(tool)
    return tools


class _Browser(NamedTuple):
    """Finds words, lists sections and reads on, for a model."""

    access: DocumentAccess
    shared: Shared
    first: int  # number of the first passage

    def find(
        self,
        pattern: str,
        *,
        regex: bool = False,
        offset: int = 0,
        filter: BaseModel | None = None,  # noqa: A002 - the model's word
    ) -> Answer:
        """Find words or an expression in all documents."""
        page = find(
            self.access,
            Pattern(pattern, regex=regex),
            filters=[conditions_of(filter)],
            offset=offset,
            limit=_MAX_MATCHES,
        )
        if not page.matches:
            found = f"There are only {page.total:,} matches" if page.total else "Nothing was found"
            return f"{found} for {pattern!r:.200}.", []
        documents = f" in {counted(page.documents, 'document')}"
        lines: list[Document | None] = []  # None: shown with the match before, or not there
        last: Match | None = None  # the match whose lines were read last
        for match in page.matches:
            lines.append(None)
            if last and match.doc_id == last.doc_id and match.end <= last.around[1]:
                continue
            last = match
            with suppress(RSEError):  # the document changed, or is corrupt
                passage = self.access.passage(match.manifest, *match.around)
                passage.metadata[PASSAGE][LINE] = match.line
                lines[-1] = passage
        for count in _shorter(len(lines)):
            passages = [passage for passage in lines[:count] if passage is not None]
            numbered = number_passages(passages, self.first, self.shared.names)
            head = _head("Matches", offset, count, page.total, documents)
            content = f"{head}\n\n{format_passages(numbered)}"
            if self.shared.fits(content):
                return content, numbered
        return "Matches found, but too long to show.", []

    def outline(self, document: str | None = None, *, offset: int = 0) -> Answer:
        """List the sections of a document, or all documents."""
        if document is None:
            return self._list_documents(offset)
        with self._document(document) as found:
            manifest, text = self.access.whole_text(found.doc_id)
        path = path_in({**found.metadata, DOC_ID: found.doc_id})
        name = choose_names({found.doc_id: path}, self.shared.names)[found.doc_id]
        self.shared.names[name] = found.doc_id
        sections = outline(text)
        if not sections:
            length = f"{manifest.length:,} characters"
            return f"{name} has no headings, but {length}: read it by start or page.", []
        lines = []
        for section in sections[offset:]:
            indent = "  " * (section.level - 1)
            place = format_range(section.start, section.end)
            lines.append(quote_lines(f"{indent}{section.title} ({place})"))
        return self._listed("Sections", f" of {name}", lines, offset, len(sections))

    def _list_documents(self, offset: int) -> Answer:
        manifests = self.access.manifests()
        paths = {each.doc_id: path_in({**each.metadata, DOC_ID: each.doc_id}) for each in manifests}
        names = choose_names(paths, self.shared.names)
        lines = []
        for manifest in manifests[offset : offset + _MAX_LISTED]:
            name = names[manifest.doc_id]
            self.shared.names[name] = manifest.doc_id
            lines.append(f"{name}, {manifest.length:,} characters")
        return self._listed("Documents", "", lines, offset, len(manifests))

    @contextmanager
    def _document(self, name: str) -> Iterator[Manifest]:
        """Find a document; errors have its name in place of its id, a path of the server's."""
        doc_id = self.shared.names.get(name, name)
        manifest = self.access.manifests_of([doc_id]).get(doc_id)
        if manifest is None:
            doc_id = find_document(name, self.access.manifests(), _ALL_NAMES)
            manifest = self.access.manifest(doc_id)
        try:
            yield manifest
        except (RSEError, ValueError) as error:
            raise ValueError(str(error).replace(repr(manifest.doc_id), repr(name))) from error

    def _listed(
        self, noun: str, owner: str, lines: Sequence[str], offset: int, total: int
    ) -> Answer:
        """Show as many lines as fit."""
        for count in _shorter(len(lines)):
            content = "\n".join([_head(noun, offset, count, total, owner), *lines[:count]])
            if len(content) <= MAX_READ_LENGTH and self.shared.fits(content):
                return content, []
        return f"{noun} 0 of {total:,}{owner}: nothing to show from offset={offset}.", []

    def read(
        self,
        document: str,
        *,
        section: str | None = None,
        page: str | None = None,
        start: int | None = None,
        end: int | None = None,
    ) -> Answer:
        """Read a section, a page, or a range of characters."""
        if [section, page, start].count(None) < 2:  # noqa: PLR2004
            raise ValueError("give at most one of section, page and start")
        with self._document(document) as manifest:
            if section is not None:
                _, _, start, end = read_section(self.access, manifest, section)
            elif page is not None:
                start, end = _page_range(self.access, manifest, page)
            start = start or 0
            wanted_end = manifest.length if end is None else min(end, manifest.length)
            if start >= wanted_end > 0:
                bound = "the given end" if wanted_end == end else f"the length of {document}"
                raise ValueError(f"start must be below {wanted_end:,}, {bound}; got {start:,}")
            for length in _shorter(max(min(wanted_end - start, MAX_READ_LENGTH), 1)):
                passage = self.access.passage(manifest, start, start + length)
                numbered = number_passages([passage], self.first, self.shared.names)
                content = format_passages(numbered)
                next_start = passage.metadata[END_INDEX]
                if next_start < wanted_end:
                    content += f"\n\nContinue with start={next_start}, end={wanted_end}."
                if self.shared.fits(content):
                    return content, numbered
        return "Found, but too long to show.", []


def _head(noun: str, offset: int, count: int, total: int, owner: str) -> str:
    """Describe a part of a list, with the number to continue from."""
    end = offset + count
    following = f". Continue with offset={end}" if end < total else ""
    return f"{noun} {format_range(offset + 1, end)} of {total:,}{owner}{following}:"


def _shorter(length: int) -> Iterator[int]:
    """Yield the lengths to try until an answer fits its limit."""
    while length:
        yield length
        length = length * 3 // 4


def _page_range(access: DocumentAccess, manifest: Manifest, page: str) -> tuple[int, int]:
    """Find the characters of a page, by its printed label or its number from 1."""
    wanted = f"page {page.removeprefix('page ').strip()}"
    pages = []
    bounds = []
    for start, length, metadata in access.parts(manifest):
        name = pages_of({**manifest.metadata, **metadata}).replace(",", "")
        if name == wanted:
            bounds += [start, start + length]
        elif bounds:
            break  # another page may have the same label
        elif name:
            pages.append(name)
    if not bounds:
        lacking = "pages: use section, or start and end"
        if pages:
            lacking = f"page {page!r:.50}; it has {pages[0]} to {pages[-1]}"
        raise MissingRecordError(f"{manifest.doc_id!r} has no {lacking}")
    return bounds[0], bounds[-1]
