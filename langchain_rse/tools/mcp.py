"""An MCP server, through which any agent can search the documents of a retriever."""

import asyncio
import json
import logging
import re
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import version
from typing import Any

from langchain_core.documents import Document
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, StructuredTool
from langchain_core.utils.function_calling import convert_to_openai_function
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.server.streamable_http_manager import DEFAULT_MAX_REQUEST_BODY_SIZE
from mcp_types import CallToolResult, TextContent, Tool, ToolAnnotations
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from langchain_rse.errors import MissingRecordError
from langchain_rse.retriever import RSERetriever
from langchain_rse.stores.records import DOC_ID, END_INDEX, START_INDEX
from langchain_rse.text.quoting import encodable, visible
from langchain_rse.tools.browsing import create_rse_tools
from langchain_rse.tools.catalog import (
    FETCH,
    INSTRUCTIONS,
    MAX_READ_LENGTH,
    SEARCH_OF_CLIENTS,
    SEARCH_OF_CONNECTORS,
    Fetch,
    Search,
    ToolSet,
)
from langchain_rse.tools.passages import ShownNames, citation_of, name_in, number_passages
from langchain_rse.tools.search import (
    Answer,
    create_rse_tool,
    errors_as_answers,
    make_tool,
    shared_by,
)

_logger = logging.getLogger(__name__)

_MOST_SECONDS_OF_BODY = 10  # of an HTTP request
# Arguments that n8n adds to those of the model.
_ADDED_BY_HOSTS = "action chatInput sessionId tool toolCallId"

_PASSAGE_ID = re.compile(r"(?s)(?P<doc_id>.+)#(?P<start>\d{1,15})-(?P<end>\d{1,15})")


def _url_of_source(passage: Document) -> str:
    """Return the source of a passage if it is a web address, else ""."""
    source = str(passage.metadata.get("source"))
    return source if source.lower().startswith(("http://", "https://")) else ""


def create_mcp_server(
    retriever: RSERetriever,
    *,
    name: str = "langchain-rse",
    timeout: float = 60.0,
    tools: ToolSet = "passages",
    make_url: Callable[[Document], str] = _url_of_source,
    **settings: Any,  # noqa: ANN401
) -> "MCPServer[Any]":
    """Make an MCP server with the tools ``search``, ``find``, ``outline`` and ``read``.

    They are the tools of `create_rse_tools`, but the numbers of passages begin at 1 in each answer.
    With ``tools="connector"``, the server has ``search`` and ``fetch`` as ChatGPT's connectors and
    deep research require them; they answer with JSON.

    The tools are read-only and respect the filters of the retriever. If a filter cannot be applied
    to whole documents, only ``search`` works, and the other tools answer with an error.
    ``create_mcp_server(retriever).run()`` serves one client on stdin and stdout;
    ``run("streamable-http", port=8000)`` serves many clients, without authentication by default.

    Args:
        retriever: The retriever that searches. Its ``k``, 10 if it is None, and its
            ``max_context_length`` limit each answer, headings included.
        name: The server's name.
        timeout: A call that takes more seconds is an error.
        tools: ``"passages"`` for models that read and cite text, ``"connector"`` for clients that
            require ``search`` and ``fetch``.
        make_url: For ``"connector"``: returns the URL of a passage's Document, or "". ChatGPT cites
            only passages with a URL. By default, the source if it is a web address.
        **settings: Arguments of the SDK's ``MCPServer``, such as ``auth`` and ``log_level``.

    Raises:
        ValueError: If ``tools`` is unknown.
    """
    if tools not in INSTRUCTIONS:
        raise ValueError(f"tools must be 'passages' or 'connector'; got {tools!r}")
    if tools == "connector":
        agents_tool = create_rse_tool(retriever)
        shared = shared_by(agents_tool)
        search = partial(_search_for_connectors, agents_tool, make_url)
        fetch = partial(_fetch_for_connectors, retriever, shared.names, make_url)
        made: list[BaseTool] = [
            make_tool("search", SEARCH_OF_CONNECTORS, Search, shared, search),
            make_tool("fetch", FETCH, Fetch, shared, fetch),
        ]
    else:
        made = create_rse_tools(retriever)
        made[0].description = SEARCH_OF_CLIENTS  # which does not cite by number
    return _Server(
        made,
        timeout,
        name=name,
        instructions=INSTRUCTIONS[tools],
        version=version("langchain-rse"),
        **settings,
    )


def _search_for_connectors(
    agents_tool: StructuredTool,
    make_url: Callable[[Document], str],
    query: str,
    **_: Any,  # noqa: ANN401
) -> Answer:
    """Find passages; answer with the JSON that https://platform.openai.com/docs/mcp requires."""
    _, passages = agents_tool.func(query)  # type: ignore[misc]
    results = [_describe(passage, make_url) for passage in passages]
    return json.dumps({"results": results}, ensure_ascii=False), passages


def _fetch_for_connectors(
    retriever: RSERetriever,
    names: ShownNames,
    make_url: Callable[[Document], str],
    id: str,  # noqa: A002
    **_: Any,  # noqa: ANN401
) -> Answer:
    """Read the text around a passage; a hidden document gives the same error as a missing one.

    The passage is read again, so that its title and URL are the same as in ``search``.
    """
    with errors_as_answers():
        match = _PASSAGE_ID.fullmatch(id)
        if match is None:
            raise MissingRecordError(f"no passage has the id {id!r:.200}: pass an id from search")
        access = retriever.document_access()
        manifest = access.manifest(match["doc_id"])
        start = int(match["start"])
        end = min(int(match["end"]), start + MAX_READ_LENGTH)
        [passage] = number_passages([access.passage(manifest, start, end)], 1, names)
        margin = (MAX_READ_LENGTH - (end - start)) // 2
        first = max(min(start - margin, manifest.length - MAX_READ_LENGTH), 0)
        text = access.passage(manifest, first, first + MAX_READ_LENGTH)
    answer = {
        **_describe(passage, make_url),
        "id": id,
        "text": encodable(text.page_content),
        "metadata": {
            "source": name_in(passage.metadata),
            "start_index": text.metadata[START_INDEX],
            "end_index": text.metadata[END_INDEX],
            "document_length": manifest.length,
        },
    }
    return json.dumps(answer, ensure_ascii=False), []


def _describe(passage: Document, make_url: Callable[[Document], str]) -> dict[str, Any]:
    """Return the fields of a passage for ChatGPT's connectors."""
    metadata = passage.metadata
    return {
        "id": encodable(f"{metadata[DOC_ID]}#{metadata[START_INDEX]}-{metadata[END_INDEX]}"),
        "title": citation_of(metadata),
        "text": encodable(passage.page_content),
        "url": visible(make_url(passage)),
    }


class _Server(MCPServer[Any]):
    """Serves LangChain tools."""

    def __init__(self, tools: Sequence[BaseTool], timeout: float, **settings: Any) -> None:  # noqa: ANN401 - of the SDK
        super().__init__(**settings)
        self._tools = {tool.name: tool for tool in tools}
        self._timeout = timeout

    def streamable_http_app(self, **settings: Any) -> Starlette:  # noqa: ANN401 - of the SDK
        """Serve HTTP. There are no sessions, so none can be used up by clients that leave."""
        without_sessions = {**settings, "stateless_http": True, "json_response": True}
        app = super().streamable_http_app(**without_sessions)
        app.add_middleware(_whole_requests)
        return app

    async def list_tools(self) -> list[Tool]:
        """Describe the tools."""
        return [
            Tool(
                name=name,
                description=tool.description,
                input_schema=convert_to_openai_function(tool)["parameters"],
                annotations=ToolAnnotations(read_only_hint=True),
            )
            for name, tool in self._tools.items()
        ]

    async def call_tool(
        self,
        name: str,
        arguments: dict[str, Any],
        context: object = None,  # noqa: ARG002 - of the SDK
    ) -> CallToolResult:
        """Call a tool. Errors that are not for clients are named by the tool alone."""
        tool = self._tools.get(name)
        if tool is None:
            raise ToolError(f"there is no tool {name!r:.200}; there are {', '.join(self._tools)}")
        added = _ADDED_BY_HOSTS.split()
        given = {key: value for key, value in arguments.items() if key not in added}
        call = {"type": "tool_call", "id": "1", "name": name, "args": given}
        answer = asyncio.ensure_future(tool.ainvoke(call))
        try:
            # Not wait_for, which waits until the thread of a cancelled tool has ended.
            await asyncio.wait([answer], timeout=self._timeout)
            if not answer.done():
                raise ToolError(f"no answer within {self._timeout:g} seconds")
        finally:
            answer.cancel()  # the thread ends as soon as its store answers
        try:
            message: ToolMessage = answer.result()
        except Exception as error:
            raise UnexpectedToolError(f"Error executing tool {name}") from error
        text = str(message.content)
        if message.status == "error":
            raise ToolError(text)
        return CallToolResult(content=[TextContent(type="text", text=text)])


def _whole_requests(app: ASGIApp) -> ASGIApp:
    """Pass on the requests whose bodies arrive in time."""

    async def pass_on(scope: Scope, receive: Receive, send: Send) -> None:
        messages = []
        length = 0
        is_complete = scope["type"] != "http"
        try:
            async with asyncio.timeout(_MOST_SECONDS_OF_BODY):
                while not is_complete and length <= DEFAULT_MAX_REQUEST_BODY_SIZE:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        _logger.info("a client left in the middle of its request")
                        return
                    messages.append(message)
                    length += len(message.get("body", b""))
                    is_complete = not message.get("more_body", False)
        except TimeoutError:
            too_slow = Response("The body took too long.", 408, {"Connection": "close"})
            await too_slow(scope, receive, send)
            return

        async def replay() -> Message:
            return messages.pop(0) if messages else await receive()

        await app(scope, replay, send)

    return pass_on
