"""``langchain-rse serve-mcp``: lets MCP clients search a knowledge base."""

import contextlib
import sys
from collections.abc import AsyncIterator
from enum import Enum
from typing import Annotated

import typer

from langchain_rse.cli.knowledge_base import Folder, KnowledgeBase
from langchain_rse.cli.output import print_error
from langchain_rse.cli.selection import Config, Hybrid, Penalty, Preset, settings


class Transport(str, Enum):
    """How clients and the server communicate."""

    STDIO = "stdio"
    HTTP = "streamable-http"


def serve_mcp(
    kb: Folder,
    *,
    transport: Annotated[
        Transport, typer.Option(help="stdio, for a client that starts this command; or HTTP.")
    ] = Transport.STDIO,
    host: Annotated[str, typer.Option(help="For HTTP. Nobody is asked for a password.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(min=1, max=65535, help="For HTTP.")] = 8000,
    k: Annotated[int, typer.Option("--k", min=1, help="At most this many passages.")] = 5,
    max_context_length: Annotated[
        int, typer.Option(min=1, help="At most this many characters in an answer.")
    ] = 8_000,
    preset: Preset = None,
    penalty: Penalty = None,
    hybrid: Hybrid = None,
    config: Config = None,
) -> None:
    """Serve a knowledge base to MCP clients: tools search, read_around and list_documents."""
    import mcp  # noqa: F401 - before the model, which takes long to load

    # Only the protocol may be on stdout, whatever a model prints.
    with contextlib.redirect_stdout(sys.stderr):
        from langchain_rse.tools.mcp import create_mcp_server

        fields = settings(config, preset, penalty, hybrid)
        retriever = KnowledgeBase.existing(kb, **fields).retriever
    server = create_mcp_server(
        retriever,
        k=k,
        max_context_length=max_context_length,
        host=host,
        port=port,
        log_level="WARNING",
        lifespan=_quiet if transport is Transport.STDIO else None,
    )
    if transport is Transport.HTTP:
        address = f"http://{host}:{port}/mcp"
        print_error(f"Serving {kb} on {address}: whoever reaches it can read all documents", "")
    server.run(transport.value)


@contextlib.asynccontextmanager
async def _quiet(_: object) -> AsyncIterator[None]:
    with contextlib.redirect_stdout(sys.stderr):
        yield
