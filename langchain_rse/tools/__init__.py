"""Tools for agents: search with passages to cite, checks of citations, an MCP server.

`create_rse_tool` makes a LangChain tool of a retriever, `create_mcp_server` a server for MCP
clients; `RSEMiddleware` keeps a conversation's passages within one budget. `verify_quotes` looks
for an answer's quotations in the passages that it is based on; `locate_citations` finds the places
that a model's own citations mean, which `search_result_blocks` (Claude) and `cohere_documents`
(Cohere) let it give. `citation_of` and `place_of` say where a segment is.
"""

import importlib
from typing import TYPE_CHECKING, Any

from langchain_rse.tools.citations import ModelCitation, locate_citations
from langchain_rse.tools.passages import (
    citation_of,
    cohere_documents,
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
    "cohere_documents",
    "create_mcp_server",
    "create_rse_tool",
    "locate_citations",
    "place_of",
    "search_result_blocks",
    "verify_quotes",
]

# They need the packages langchain and mcp, and none of the other names does.
_MODULE_OF = {"RSEMiddleware": "middleware", "create_mcp_server": "mcp"}


def __getattr__(name: str) -> Any:  # noqa: ANN401
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'langchain_rse.tools' has no attribute {name!r}")
    return getattr(importlib.import_module(f"langchain_rse.tools.{_MODULE_OF[name]}"), name)
