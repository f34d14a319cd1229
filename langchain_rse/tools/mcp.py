"""An MCP server, through which any agent can search the documents of a retriever."""

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
from langchain_rse.text.quoting import counted
from langchain_rse.text.ranges import format_range
from langchain_rse.text.titles import short_names
from langchain_rse.tools.catalog import (
    DEFAULT_K,
    MAX_READ_LENGTH,
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

    With ``tools="connector"``, it has ``search`` and ``fetch`` as ChatGPT's connectors and deep
    research require them; they answer with JSON, as text and as structured content.

    The tools are read-only and respect the filters of the retriever. If a filter cannot be applied
    to whole documents, only ``search`` works, and the other tools answer with an error.
    ``create_mcp_server(retriever).run()`` serves one client on stdin and stdout;
    ``run("streamable-http", port=8000)`` serves many clients, without authentication by default.

    Args:
        retriever: The retriever that searches.
        name: The server's name.
        k: Maximum number of passages in an answer.
        max_context_length: Maximum length of an answer, headings included, in the units of the
            retriever's ``length_function``. None for the retriever's budget.
        timeout: A call that takes more seconds is an error.
        tools: ``"passages"`` for models that read and cite text, ``"connector"`` for clients that
            require ``search`` and ``fetch``.
        make_url: For ``"connector"``: returns the URL of a passage's Document, or "". ChatGPT cites
            only passages with a URL. By default, the source if it is a web address.
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
    """Give a function these arguments and a timeout, and report errors to the client.

    The SDK hides the messages of other errors.
    """

    async def tool(**kwargs: Any) -> Any:  # noqa: ANN401
        try:
            return await asyncio.wait_for(function(**kwargs), timeout)
        except asyncio.TimeoutError:
            raise ToolError(f"no answer within {timeout:g} seconds") from None
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
    """Make the functions that clients call, by name."""

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
    passage = access.passage(manifest, start, min(end, start + MAX_READ_LENGTH))
    return f"{citation_of(passage.metadata)}\n{quote_lines(passage.page_content)}"


def _list_documents(retriever: RSERetriever, offset: int, limit: int) -> str:
    """List up to ``limit`` documents, as many as fit into one answer."""
    page = retriever.document_access().page(offset, limit)
    if offset >= page.total:
        return f"offset={offset} is past the last of {counted(page.total, 'document')}."
    names = short_names(manifest.doc_id for manifest in page.manifests if manifest is not None)
    lines: list[str] = []
    room = MAX_READ_LENGTH
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
        head += f". For more, use offset={end}"
    return "\n".join([f"{head}:", *lines])
