"""Tools for agents: search with passages to cite, checks of citations, an MCP server.

`create_rse_tool` makes a LangChain tool of a retriever; `verify_quotes` looks for an answer's
quotations in the passages that it is based on; `locate_citations` finds the places that a model's
own citations mean, which `search_result_blocks` (Claude) and `cohere_documents` (Cohere) let it
give; `RSEMiddleware` keeps a conversation's passages within one budget; `langchain_rse.tools.mcp`
serves MCP clients.
"""

from typing import TYPE_CHECKING, Any

from langchain_rse.tools.citations import ModelCitation, cohere_documents, locate_citations
from langchain_rse.tools.quotes import Quote, verify_quotes
from langchain_rse.tools.search import create_rse_tool
from langchain_rse.tools.search_results import search_result_blocks

if TYPE_CHECKING:
    from langchain_rse.tools.middleware import RSEMiddleware as RSEMiddleware

__all__ = [
    "ModelCitation",
    "Quote",
    "RSEMiddleware",
    "cohere_documents",
    "create_rse_tool",
    "locate_citations",
    "search_result_blocks",
    "verify_quotes",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401
    if name != "RSEMiddleware":
        raise AttributeError(f"module 'langchain_rse.tools' has no attribute {name!r}")
    # It needs the package langchain, and none of the other names does.
    from langchain_rse.tools.middleware import RSEMiddleware  # noqa: PLC0415

    return RSEMiddleware
