"""Tools for agents: search with passages to cite, a check of quotations, an MCP server.

`create_rse_tool` makes a LangChain tool of a retriever; `verify_quotes` looks for an answer's
quotations in the passages that it is based on; `langchain_rse.tools.mcp` serves MCP clients.
"""

from langchain_rse.tools.quotes import Quote, verify_quotes
from langchain_rse.tools.search import create_rse_tool

__all__ = ["Quote", "create_rse_tool", "verify_quotes"]
