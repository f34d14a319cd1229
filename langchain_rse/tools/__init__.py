"""Tools for agents: search with citable passages, checks of citations, an MCP server.

`create_rse_tool` makes a search tool of a retriever, `create_rse_tools` tools to search, find,
outline and read, `create_mcp_server` a server for MCP clients. `RSEMiddleware` keeps the passages
of a conversation within one budget. `verify_quotes` checks the quotations in an answer against its
passages. `search_result_blocks` lets Claude cite natively, and `locate_citations` finds the cited
places. `citation_of` and `place_of` describe the place of a passage.
"""

from typing import TYPE_CHECKING, Any

from langchain_rse._messages import load
from langchain_rse.tools.browsing import create_rse_tools
from langchain_rse.tools.passages import (
    ModelCitation,
    citation_of,
    locate_citations,
    place_of,
    search_result_blocks,
)
from langchain_rse.tools.quotes import Quote, verify_quotes
from langchain_rse.tools.search import create_rse_tool

if TYPE_CHECKING:
    from langchain_rse.tools.mcp import create_mcp_server as create_mcp_server
    from langchain_rse.tools.middleware import RSEMiddleware as RSEMiddleware

__all__ = [
    "ModelCitation",
    "Quote",
    "RSEMiddleware",
    "citation_of",
    "create_mcp_server",
    "create_rse_tool",
    "create_rse_tools",
    "locate_citations",
    "place_of",
    "search_result_blocks",
    "verify_quotes",
]

# These need the packages langchain and mcp; the other names do not.
_MODULE_OF = {"RSEMiddleware": "middleware", "create_mcp_server": "mcp"}


def __getattr__(name: str) -> Any:  # noqa: ANN401
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'langchain_rse.tools' has no attribute {name!r}")
    return getattr(load(f"langchain_rse.tools.{_MODULE_OF[name]}", "mcp", name), name)
