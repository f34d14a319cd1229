"""An MCP server, with which any agent can search the documents of a retriever."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from importlib.metadata import version
from typing import Any

from langchain_core.tools import BaseTool
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations

from langchain_rse._sync import in_thread
from langchain_rse.errors import RSEError
from langchain_rse.retriever import RSERetriever
from langchain_rse.text.ranges import format_range
from langchain_rse.text.titles import short_names
from langchain_rse.tools.catalog import (
    DEFAULT_K,
    MOST_OF_DOCUMENT,
    Argument,
    ToolSet,
    instructions_of,
    mcp_tools,
)
from langchain_rse.tools.connector import MakeUrl, connector_functions, url_of_source
from langchain_rse.tools.passages import citation_of, name_shown, quote_lines
from langchain_rse.tools.search import create_rse_tool


def create_mcp_server(
    retriever: RSERetriever,
    *,
    name: str = "langchain-rse",
    k: int = DEFAULT_K,
    max_context_length: float | None = None,
    timeout: float = 60.0,
    tools: ToolSet = "passages",
    make_url: MakeUrl = url_of_source,
    **settings: Any,  # noqa: ANN401
) -> "MCPServer[Any]":
    """Make an MCP server with the tools ``search``, ``read_around`` and ``list_documents``.

    With ``tools="connector"``, it has ``search`` and ``fetch`` in the form that ChatGPT's
    connectors and deep research ask for: they answer with JSON, as text and as structured content.

    The tools only read, and only documents that pass the filters of the retriever: a filter that
    cannot be applied to a document as a whole leaves ``search`` alone, and the other tools answer
    with an error. ``create_mcp_server(retriever).run()`` serves one client on stdin and stdout,
    ``run("streamable-http", port=8000)`` any number of clients, without authentication by default.

    Args:
        retriever: The retriever that searches.
        name: The server's name.
        k: The most passages of an answer.
        max_context_length: The most text of an answer, headings included, in the units of the
            retriever's ``length_function``. None for that of the retriever.
        timeout: The most seconds that a call may take; then it is an error.
        tools: ``"passages"`` for models that read text with citations, ``"connector"`` for clients
            that ask for ``search`` and ``fetch``.
        make_url: For ``"connector"``: makes the address of a passage, which ChatGPT needs to cite
            it, from its Document; "" if it has none. By default, the source if it is on the web.
        **settings: Arguments of the SDK's ``MCPServer``, such as ``auth`` and ``log_level``.

    Raises:
        ValueError: If ``k`` or ``max_context_length`` is out of its range, or ``tools`` is unknown.
    """
    entries = mcp_tools(tools, k)
    search_tool = create_rse_tool(retriever, k=k, max_context_length=max_context_length)
    is_connector = tools == "connector"
    if is_connector:
        functions = connector_functions(retriever, search_tool, make_url)
    else:
        functions = _passage_functions(retriever, search_tool)
    server: MCPServer[Any] = MCPServer(
        name, instructions=instructions_of(tools), version=version("langchain-rse"), **settings
    )
    for tool_name, entry in entries.items():
        server.add_tool(
            _make_tool(functions[tool_name], entry.arguments, timeout),
            tool_name,
            description=entry.description,
            annotations=ToolAnnotations(read_only_hint=True),
            structured_output=is_connector,
        )
    return server


def _make_tool(
    function: Callable[..., Awaitable[Any]], arguments: Mapping[str, Argument], timeout: float
) -> Callable[..., Awaitable[Any]]:
    """Make a function with these arguments end in time, and tell clients what was wrong.

    Of other errors, the SDK tells them only that there was one.
    """

    async def tool(**kwargs: Any) -> Any:  # noqa: ANN401
        try:
            return await asyncio.wait_for(function(**kwargs), timeout)
        except asyncio.TimeoutError:
            raise ToolError(f"there was no answer within {timeout:g} seconds") from None
        except (RSEError, ValueError) as error:
            raise ToolError(str(error)) from error

    parameters = []
    for name, (type_, default) in arguments.items():
        if default is ...:
            default = inspect.Parameter.empty  # noqa: PLW2901
        kind = inspect.Parameter.KEYWORD_ONLY
        parameters.append(inspect.Parameter(name, kind, default=default, annotation=type_))
    returned = inspect.signature(function).return_annotation
    signature = inspect.Signature(parameters, return_annotation=returned)
    tool.__signature__ = signature  # type: ignore[attr-defined]
    return tool


def _passage_functions(
    retriever: RSERetriever, search_tool: BaseTool
) -> dict[str, Callable[..., Any]]:
    """Make the functions that clients call, by their names."""

    async def search(query: str, k: int) -> str:
        return str(await search_tool.ainvoke({"query": query, "k": k}))

    async def read_around(document: str, start: int, end: int) -> str:
        return await in_thread(_read_around, retriever, document, start, end)

    async def list_documents(offset: int, limit: int) -> str:
        return await in_thread(_list_documents, retriever, offset, limit)

    return {"search": search, "read_around": read_around, "list_documents": list_documents}


def _read_around(retriever: RSERetriever, document: str, start: int, end: int) -> str:
    access = retriever.document_access()
    manifest = access.find(document)
    passage = access.passage(manifest, start, min(end, start + MOST_OF_DOCUMENT))
    return f"{citation_of(passage.metadata)}\n{quote_lines(passage.page_content)}"


def _list_documents(retriever: RSERetriever, offset: int, limit: int) -> str:
    """List documents until there are ``limit`` or their lines are too long for one answer."""
    page = retriever.document_access().page(offset, limit)
    if offset >= page.total:
        return f"There are {page.total:,} documents: there is none to list after {offset:,}."
    names = short_names(manifest.doc_id for manifest in page.manifests if manifest is not None)
    lines: list[str] = []
    room = MOST_OF_DOCUMENT
    end = offset
    for manifest in page.manifests:
        if manifest is not None:
            line = f"{name_shown(names[manifest.doc_id])}, {manifest.length:,} characters"
            room -= len(line)
            if room < 0:
                break
            lines.append(line)
        end += 1
    head = f"Documents {format_range(offset + 1, end)} of {page.total:,}"
    if end < page.total:
        head += f". Go on with offset={end}"
    return "\n".join([f"{head}:", *lines])
