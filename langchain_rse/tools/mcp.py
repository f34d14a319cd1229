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
from langchain_rse.tools.browsing import Browser
from langchain_rse.tools.catalog import (
    BROWSING_TOOLS,
    DEFAULT_K,
    Argument,
    ToolSet,
    instructions_of,
    mcp_tools,
)
from langchain_rse.tools.connector import MakeUrl, connector_functions, url_of_source
from langchain_rse.tools.search import create_rse_tool, limit_of


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
    """Make an MCP server with the tools ``search``, ``find``, ``outline`` and ``read``.

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
        except TimeoutError:
            raise ToolError(f"no answer within {timeout:g} seconds") from None
        except (ImportError, RSEError, ValueError) as error:
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
    browser = Browser(retriever, limit_of(search_tool))

    async def search(query: str, k: int) -> str:
        return str(await search_tool.ainvoke({"query": query, "k": k}))

    def in_browser(name: str) -> Callable[..., Any]:
        async def function(**arguments: Any) -> str:  # noqa: ANN401
            answer: tuple[str, object] = await in_thread(getattr(browser, name), **arguments)
            return answer[0]

        return function

    return {"search": search, **{name: in_browser(name) for name in BROWSING_TOOLS}}
