"""For agents: a search tool whose passages can be cited, checked quotations, an MCP server.

`create_rse_tool` makes a LangChain tool of a retriever; `verify_quotes` finds what an answer quotes
in the passages that it was given. `langchain_rse.tools.mcp` serves a knowledge base to MCP clients.
"""

from langchain_rse.tools.quotes import Quote, verify_quotes
from langchain_rse.tools.search import create_rse_tool

__all__ = ["Quote", "create_rse_tool", "verify_quotes"]
