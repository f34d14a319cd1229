"""Tools for agents: search with passages to cite, checks of citations, an MCP server.

`create_rse_tool` makes a LangChain tool of a retriever; `verify_quotes` looks for an answer's
quotations in the passages that it is based on; `locate_citations` finds the places that a model's
own citations mean, which `search_result_blocks` (Claude) and `cohere_documents` (Cohere) let it
give; `langchain_rse.tools.mcp` serves MCP clients.
"""

from langchain_rse.tools.citations import ModelCitation, cohere_documents, locate_citations
from langchain_rse.tools.quotes import Quote, verify_quotes
from langchain_rse.tools.search import create_rse_tool
from langchain_rse.tools.search_results import search_result_blocks

__all__ = [
    "ModelCitation",
    "Quote",
    "cohere_documents",
    "create_rse_tool",
    "locate_citations",
    "search_result_blocks",
    "verify_quotes",
]
