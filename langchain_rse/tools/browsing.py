"""Tools with which an agent finds words, looks at outlines, and reads on."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.documents import Document
from langchain_core.tools import BaseTool, StructuredTool, ToolException
from pydantic import BaseModel, create_model

from langchain_rse._sync import in_thread
from langchain_rse.access import DocumentAccess
from langchain_rse.errors import MissingRecordError, RSEError
from langchain_rse.finding import Finder, read_section
from langchain_rse.retriever import RSERetriever
from langchain_rse.stores.records import END_INDEX, SEGMENT, Manifest
from langchain_rse.text.outlines import outline
from langchain_rse.text.pages import pages_of
from langchain_rse.text.patterns import Pattern
from langchain_rse.text.quoting import counted
from langchain_rse.text.ranges import format_range
from langchain_rse.text.titles import short_names
from langchain_rse.tools.asked_filters import (
    STRICT,
    FilterFields,
    MakeFilter,
    conditions_of,
    filter_argument,
)
from langchain_rse.tools.catalog import BROWSING_TOOLS, MAX_READ_LENGTH
from langchain_rse.tools.passages import format_passages, name_shown, number_passages, quote_lines
from langchain_rse.tools.places import LINE
from langchain_rse.tools.search import (
    ToolLimit,
    answer_limit,
    create_rse_tool,
    explain_arguments,
    first_number,
    runtime_type,
)

_MAX_MATCHES = 20  # of an answer; also the passage numbers that a parallel call may use
_MAX_LISTED = 200

Answer = tuple[str, list[Document]]
"""The content for the model, and the passages."""


def create_rse_tools(
    retriever: RSERetriever,
    *,
    k: int | None = None,
    max_context_length: float | None = None,
    length_function: Callable[[str], float] | None = None,
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
        length_function: As in `create_rse_tool`.
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
        length_function=length_function,
        filter_fields=filter_fields,
        make_filter=make_filter,
    )
    browser = Browser(retriever, answer_limit(retriever, max_context_length, length_function))
    tools: list[BaseTool] = [search]
    for name in BROWSING_TOOLS:
        tools.append(_make_tool(name, browser, filter_fields if name == "find" else ()))
    return tools


def _make_tool(name: str, browser: "Browser", filter_fields: FilterFields) -> StructuredTool:
    entry = BROWSING_TOOLS[name]
    arguments: dict[str, Any] = {**entry.arguments, "runtime": (runtime_type(), None)}
    if filter_fields:
        arguments["filter"] = filter_argument(filter_fields)
    schema: type[BaseModel] = create_model(name.title(), __config__=STRICT, **arguments)
    tool = _BrowsingTool(getattr(browser, name), browser.limit)
    return StructuredTool(
        name=name,
        description=entry.description,
        args_schema=schema,
        func=tool.invoke,
        coroutine=tool.ainvoke,
        response_format="content_and_artifact",
        handle_tool_error=True,
        handle_validation_error=explain_arguments(name, filter_fields),
    )


@dataclass(frozen=True)
class _BrowsingTool:
    """The function of a tool, without LangChain's interface."""

    function: Callable[..., Answer]
    limit: ToolLimit

    def invoke(self, runtime: Any = None, **arguments: Any) -> Answer:  # noqa: ANN401 - of LangGraph
        try:
            return self.function(first=first_number(runtime), **arguments)
        except (ImportError, RSEError, ValueError) as error:
            raise ToolException(str(error)) from error

    async def ainvoke(self, runtime: Any = None, **arguments: Any) -> Answer:  # noqa: ANN401
        return await in_thread(self.invoke, runtime, **arguments)


@dataclass
class Browser:
    """Finds words, lists sections and reads on, for a model.

    ``first`` is the number of the first passage.
    """

    retriever: RSERetriever
    limit: ToolLimit

    def __post_init__(self) -> None:
        self._finder = Finder(self.retriever.document_access)

    def find(
        self,
        pattern: str,
        *,
        regex: bool = False,
        offset: int = 0,
        filter: BaseModel | None = None,  # noqa: A002 - the model's word
        first: int = 1,
    ) -> Answer:
        """Find words or an expression in all documents."""
        conditions = conditions_of(filter)
        page = self._finder.find(
            Pattern(pattern, regex=regex),
            filters=[conditions] if conditions else [],
            offset=offset,
            limit=_MAX_MATCHES,
        )
        if not page.matches:
            found = f"{page.total:,} matches" if page.total else "Nothing"
            return f"{found} for {pattern!r:.200}, none to show after {offset:,}.", []
        access = self.retriever.document_access()
        lines: dict[tuple[str, int], Document] = {}
        ends: list[int] = []  # of the matches that are shown with the first lines
        for number, match in enumerate(page.matches, offset + 1):
            place = match.doc_id, match.around[0]
            if place not in lines:
                passage = access.passage(match.manifest, *match.around, match.version)
                passage.metadata[SEGMENT][LINE] = match.line
                lines[place] = passage
                ends.append(number)
            ends[-1] = number
        passages = list(lines.values())
        documents = counted(page.documents, "document")
        while passages:
            shown = ends[len(passages) - 1]
            head = f"Matches {format_range(offset + 1, shown)} of {page.total:,} in {documents}"
            if shown < page.total:
                head += f". Continue with offset={shown}"
            numbered = number_passages(passages, first)
            content = f"{head}:\n\n{format_passages(numbered)}"
            if self._fits(content):
                return content, numbered
            passages.pop()
        return f"{head}, too long to show. Read at the characters from search.", []

    def outline(self, document: str | None = None, *, offset: int = 0, first: int = 1) -> Answer:  # noqa: ARG002
        """List the sections of a document, or all documents."""
        access = self.retriever.document_access()
        if document is None:
            return self._list_documents(access, offset), []
        manifest = access.find(document)
        name = name_shown(short_names([manifest.doc_id])[manifest.doc_id])
        text = access.passage(manifest, 0, manifest.length).page_content
        sections = outline(text)
        if not sections:
            length = (
                f"{manifest.length:,} characters in {counted(len(access.parts(manifest)), 'part')}"
            )
            return f"{name} has no headings, but {length}: read it by start or page.", []
        highest = min(section.level for section in sections)
        lines = []
        for section in sections[offset : offset + _MAX_LISTED]:
            indent = "  " * (section.level - highest)
            place = format_range(section.start, section.end)
            lines.append(quote_lines(f"{indent}{section.title} ({place})"))
        return self._listed(f"Sections {{}} of {name}", lines, offset, len(sections)), []

    def _list_documents(self, access: DocumentAccess, offset: int) -> str:
        page = access.page(offset, _MAX_LISTED)
        names = short_names(manifest.doc_id for manifest in page.manifests if manifest is not None)
        lines = []
        for manifest in page.manifests:
            line = "(this document cannot be read)"
            if manifest is not None:
                line = f"{name_shown(names[manifest.doc_id])}, {manifest.length:,} characters"
            lines.append(line)
        return self._listed("Documents {}", lines, offset, page.total)

    def _listed(self, head: str, lines: Sequence[str], offset: int, total: int) -> str:
        """Show as many lines as fit, with the number to continue from."""
        count = len(lines)
        while count:
            end = offset + count
            content = f"{head.format(f'{format_range(offset + 1, end)} of {total:,}')}"
            if end < total:
                content += f". Continue with offset={end}"
            content += ":\n" + "\n".join(lines[:count])
            if len(content) <= MAX_READ_LENGTH and self._fits(content):
                return content
            count = count * 3 // 4
        return f"{head.format(f'0 of {total:,}')}: none to list after {offset:,}."

    def read(
        self,
        document: str,
        *,
        section: str | None = None,
        page: str | int | None = None,
        start: int | None = None,
        end: int | None = None,
        first: int = 1,
    ) -> Answer:
        """Read a section, a page, or a range of characters."""
        if [section, page, start].count(None) < 2:  # noqa: PLR2004
            raise ValueError("give at most one of section, page and start")
        access = self.retriever.document_access()
        manifest = access.find(document)
        if section is not None:
            _, _, start, end = read_section(access, manifest, section)
        elif page is not None:
            start, end = _page_range(access, manifest, str(page))
        start = start or 0
        wanted_end = min(manifest.length if end is None else end, manifest.length)
        length = min(wanted_end - start, MAX_READ_LENGTH)
        while True:
            passage = access.passage(manifest, start, start + length)
            numbered = number_passages([passage], first)
            content = format_passages(numbered)
            next_start = passage.metadata[END_INDEX]
            if next_start < wanted_end:
                content += f"\n\nContinue with start={next_start}, end={wanted_end}."
            if self._fits(content) or length <= 1:
                return content, numbered
            length = length * 3 // 4

    def _fits(self, content: str) -> bool:
        return self.limit.length_function(content) <= self.limit.max_context_length


def _page_range(access: DocumentAccess, manifest: Manifest, page: str) -> tuple[int, int]:
    """The characters of a page, by its printed label or its number from 1."""
    wanted = {f"page {page}", f"page {page.removeprefix('page ').strip()}"}
    places = []
    for start, length, metadata in access.parts(manifest):
        if pages_of({**manifest.metadata, **metadata}) in wanted:
            places += [start, start + length]
    if not places:
        raise MissingRecordError(
            f"{manifest.doc_id!r:.200} has no page {page!r:.50}; outline shows what it has"
        )
    return min(places), max(places)
