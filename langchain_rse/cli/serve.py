"""``langchain-rse serve-mcp``: serves a knowledge base to MCP clients."""

import contextlib
import sys
from collections.abc import AsyncIterator
from typing import Annotated

import typer

from langchain_rse.cli.knowledge_base import KnowledgeBase
from langchain_rse.cli.options import Budget, Config, Folder, K, Penalty, Settings, settings
from langchain_rse.cli.output import print_error


def serve_mcp(
    kb: Folder,
    *,
    port: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=65535,
            help="Serve HTTP on this port of 127.0.0.1. Default: serve the client that starts this "
            "command, on stdin and stdout.",
        ),
    ] = None,
    tools: Annotated[
        str,
        typer.Option(
            help="passages: search, find, outline and read. connector: search and fetch, as "
            "ChatGPT and deep research require.",
        ),
    ] = "passages",
    k: K = 5,
    max_context_length: Budget = 8_000,
    irrelevant_chunk_penalty: Penalty = None,
    config: Config = None,
    assignments: Settings = None,
) -> None:
    """Serve a knowledge base to MCP clients.

    Example: langchain-rse serve-mcp --kb library
    """
    from langchain_rse._messages import load

    # stdout is reserved for the protocol; a model may print while it loads.
    with contextlib.redirect_stdout(sys.stderr):
        mcp = load("langchain_rse.tools.mcp", "cli,mcp", "serve-mcp")
        fields = settings(
            config,
            assignments,
            k=k,
            max_context_length=max_context_length,
            irrelevant_chunk_penalty=irrelevant_chunk_penalty,
        )
        retriever = KnowledgeBase.existing(kb, **fields).retriever
    server = mcp.create_mcp_server(
        retriever,
        tools=tools,
        log_level="WARNING",
        lifespan=_quiet if port is None else None,
    )
    if port is None:
        server.run("stdio")
        return
    print_error(f"Serving {kb} on http://127.0.0.1:{port}/mcp, to any program on this computer", "")
    server.run("streamable-http", port=port)


@contextlib.asynccontextmanager
async def _quiet(_: object) -> AsyncIterator[None]:
    with contextlib.redirect_stdout(sys.stderr):
        yield
