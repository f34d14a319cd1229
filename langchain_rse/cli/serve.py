"""``langchain-rse serve-mcp``: serves a knowledge base to MCP clients."""

import contextlib
import sys
from collections.abc import AsyncIterator
from enum import StrEnum
from typing import Annotated

import typer

from langchain_rse.cli.knowledge_base import KnowledgeBase
from langchain_rse.cli.options import (
    NUMBER,
    Budget,
    Config,
    Folder,
    K,
    Penalty,
    Settings,
    settings,
)
from langchain_rse.cli.output import print_error


class Tools(StrEnum):
    """The set of tools that clients get."""

    PASSAGES = "passages"
    CONNECTOR = "connector"


def serve_mcp(
    kb: Folder,
    *,
    port: Annotated[
        int | None,
        typer.Option(
            metavar=NUMBER,
            min=1,
            max=65535,
            help="Serve HTTP on this port of 127.0.0.1. Default: serve the client that starts this "
            "command, on stdin and stdout.",
        ),
    ] = None,
    tools: Annotated[
        Tools,
        typer.Option(
            help="passages: search, find, outline and read. connector: search and fetch, as "
            "ChatGPT and deep research require.",
        ),
    ] = Tools.PASSAGES,
    k: K = 5,
    max_context_length: Budget = 8_000,
    irrelevant_chunk_penalty: Penalty = None,
    config: Config = None,
    assignments: Settings = None,
) -> None:
    """Serve a knowledge base to MCP clients.

    Example: langchain-rse serve-mcp --kb library
    """
    import mcp  # noqa: F401 - fails before a model is loaded for nothing

    # stdout is reserved for the protocol; a model may print while it loads.
    with contextlib.redirect_stdout(sys.stderr):
        from langchain_rse.tools import create_mcp_server

        fields = settings(config, assignments, irrelevant_chunk_penalty=irrelevant_chunk_penalty)
        retriever = KnowledgeBase.existing(kb, **fields).retriever
    server = create_mcp_server(
        retriever,
        k=k,
        max_context_length=max_context_length,
        tools=tools.value,
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
