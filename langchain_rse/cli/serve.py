"""``langchain-rse serve-mcp``: serves a knowledge base to MCP clients."""

import contextlib
import hmac
import sys
from collections.abc import AsyncIterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from langchain_rse.cli.knowledge_base import KnowledgeBase
from langchain_rse.cli.options import (
    FILE,
    NAME,
    NUMBER,
    Budget,
    Config,
    Folder,
    Hybrid,
    K,
    Penalty,
    Preset,
    ScoreFloor,
    settings,
)
from langchain_rse.cli.output import print_error

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

_THIS_MACHINE = ("127.0.0.1", "localhost", "::1")
_MAX_SESSIONS = 1_000
_IDLE_SECONDS = 600.0  # an idle session ends after this time


class Transport(StrEnum):
    """The transport between clients and the server."""

    STDIO = "stdio"
    HTTP = "streamable-http"


class Tools(StrEnum):
    """The set of tools that clients get."""

    PASSAGES = "passages"
    CONNECTOR = "connector"


def _choice(values: type[StrEnum]) -> str:
    return "|".join(str(each.value) for each in values)


def serve_mcp(
    kb: Folder,
    *,
    transport: Annotated[
        Transport,
        typer.Option(
            metavar=_choice(Transport),
            help="stdio if the client starts this command, or HTTP for many clients.",
        ),
    ] = Transport.STDIO,
    host: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS",
            help="Address for HTTP. For other machines, --allow-host or --token-file is required.",
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(metavar=NUMBER, min=1, max=65535, help="Port for HTTP.")
    ] = 8000,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar=NAME, help="Host name that clients may use for this server; repeatable."
        ),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar=FILE,
            help="File with a token that clients must send as Authorization: Bearer TOKEN.",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
    tools: Annotated[
        Tools,
        typer.Option(
            metavar=_choice(Tools),
            help="passages: search, find, outline and read. connector: search and fetch, as "
            "ChatGPT and deep research require.",
        ),
    ] = Tools.PASSAGES,
    k: K = 5,
    max_context_length: Budget = 8_000,
    preset: Preset = None,
    irrelevant_chunk_penalty: Penalty = None,
    hybrid: Hybrid = None,
    config: Config = None,
    score_floor: ScoreFloor = None,
) -> None:
    """Serve a knowledge base to MCP clients.

    Example: langchain-rse serve-mcp --kb library
    """
    token = _read_token(token_file) if token_file else ""
    names = allow_host or []
    if host not in _THIS_MACHINE and not names and not token:
        raise typer.BadParameter(
            f"other machines can reach {host}; restrict access with --allow-host NAME or "
            "--token-file FILE",
            param_hint="--host",
        )
    import mcp  # noqa: F401 - fails before a model is loaded for nothing

    # stdout is reserved for the protocol; a model may print while it loads.
    with contextlib.redirect_stdout(sys.stderr):
        from langchain_rse.tools import create_mcp_server

        fields = settings(config, preset, irrelevant_chunk_penalty, hybrid, score_floor)
        retriever = KnowledgeBase.existing(kb, **fields).retriever
    server = create_mcp_server(
        retriever,
        k=k,
        max_context_length=max_context_length,
        tools=tools.value,
        log_level="WARNING",
        lifespan=_quiet if transport is Transport.STDIO else None,
    )
    if transport is Transport.STDIO:
        server.run("stdio")
        return
    import uvicorn

    app: ASGIApp = server.streamable_http_app(
        transport_security=_allowed_hosts(host, names),
        max_sessions=_MAX_SESSIONS,
        session_idle_timeout=_IDLE_SECONDS,
    )
    readers = "Any client"
    if token:
        app = RequireToken(app, token)
        readers = "Any client with the token"
    print_error(f"Serving {kb} on http://{host}:{port}/mcp. {readers} can read all documents", "")
    uvicorn.run(app, host=host, port=port, log_level="warning")


def _read_token(path: Path) -> str:
    token = path.read_text(encoding="utf-8").strip()
    if not token or not token.isascii():
        raise typer.BadParameter(
            f"{path} must contain a token of ASCII characters", param_hint="--token-file"
        )
    return token


def _allowed_hosts(host: str, names: Sequence[str]) -> Any:  # noqa: ANN401 - of the MCP SDK
    """Return the Host and Origin headers to accept: any if only a token protects the server."""
    from mcp.server.transport_security import TransportSecuritySettings

    if host not in _THIS_MACHINE and not names:
        return TransportSecuritySettings(enable_dns_rebinding_protection=False)
    hosts = []
    for name in [*names, "127.0.0.1", "localhost", "[::1]"]:
        hosts += [name, f"{name}:*"]
    origins = [f"http://{name}" for name in hosts] + [f"https://{name}" for name in hosts]
    return TransportSecuritySettings(allowed_hosts=hosts, allowed_origins=origins)


class RequireToken:
    """An ASGI application that rejects requests without the token."""

    def __init__(self, app: "ASGIApp", token: str) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Pass a request on, or respond with 401."""
        if scope["type"] == "http":
            given = dict(scope["headers"]).get(b"authorization", b"")
            # In constant time, so that timing reveals nothing about the token.
            if not hmac.compare_digest(given, self._expected):
                from starlette.responses import PlainTextResponse

                headers = {"WWW-Authenticate": "Bearer"}
                response = PlainTextResponse("missing or wrong token", 401, headers)
                await response(scope, receive, send)
                return
        await self._app(scope, receive, send)


@contextlib.asynccontextmanager
async def _quiet(_: object) -> AsyncIterator[None]:
    with contextlib.redirect_stdout(sys.stderr):
        yield
