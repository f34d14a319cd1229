"""``langchain-rse serve-mcp``: lets MCP clients search a knowledge base."""

import contextlib
import hmac
import sys
from collections.abc import AsyncIterator, Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from langchain_rse.cli.knowledge_base import Folder, KnowledgeBase
from langchain_rse.cli.output import print_error
from langchain_rse.cli.selection import Config, Hybrid, Penalty, Preset, ScoreFloor, settings

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer
    from starlette.types import ASGIApp, Receive, Scope, Send

_THIS_MACHINE = ("127.0.0.1", "localhost", "::1")
_MAX_SESSIONS = 1_000
_IDLE_SECONDS = 600.0  # after which a session ends


class Transport(str, Enum):
    """How clients and the server communicate."""

    STDIO = "stdio"
    HTTP = "streamable-http"


class Tools(str, Enum):
    """Which tools clients get."""

    PASSAGES = "passages"
    CONNECTOR = "connector"


_HOST = "For HTTP. Others than this machine: see the next two options."
AllowHost = Annotated[
    list[str] | None,
    typer.Option(help="A name under which clients may ask for this server; may be repeated."),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        help="A file with a token that clients have to send: Authorization: Bearer TOKEN.",
        exists=True,
        dir_okay=False,
    ),
]


def serve_mcp(
    kb: Folder,
    *,
    transport: Annotated[
        Transport, typer.Option(help="stdio, for a client that starts this command; or HTTP.")
    ] = Transport.STDIO,
    host: Annotated[str, typer.Option(help=_HOST)] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="For HTTP.")] = 8000,
    allow_host: AllowHost = None,
    token_file: TokenFile = None,
    tools: Annotated[
        Tools, typer.Option(help="connector: search and fetch, for ChatGPT and deep research.")
    ] = Tools.PASSAGES,
    k: Annotated[int, typer.Option("--k", min=1, help="At most this many passages.")] = 5,
    max_context_length: Annotated[
        int, typer.Option(min=1, help="At most this many characters in an answer.")
    ] = 8_000,
    preset: Preset = None,
    irrelevant_chunk_penalty: Penalty = None,
    hybrid: Hybrid = None,
    config: Config = None,
    score_floor: ScoreFloor = None,
) -> None:
    """Let MCP clients search a knowledge base.

    They get the tools search, read_around and list_documents; with --tools connector, search and
    fetch, as ChatGPT asks for.

    Example: langchain-rse serve-mcp --kb library
    """
    token = _read_token(token_file)
    _check_host(host, has_name_or_token=bool(allow_host) or token is not None)
    import mcp  # noqa: F401 - before the model, which takes long to load

    # Only the protocol may be on stdout, whatever a model prints.
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
    else:
        readers = "whoever reaches it" if token is None else "whoever has the token"
        address = f"http://{host}:{port}/mcp"
        print_error(f"Serving {kb} on {address}: {readers} can read all documents", "")
        app = _http_app(server, host, allow_host or [])
        _serve(app, host, port, token)


def _http_app(server: "MCPServer[Any]", host: str, allowed_hosts: Sequence[str]) -> "ASGIApp":
    return server.streamable_http_app(
        host=host,
        transport_security=_allowed_hosts(host, allowed_hosts),
        max_sessions=_MAX_SESSIONS,
        session_idle_timeout=_IDLE_SECONDS,
    )


def _serve(app: "ASGIApp", host: str, port: int, token: str | None) -> None:
    import uvicorn

    if token is not None:
        app = RequireToken(app, token)
    uvicorn.run(app, host=host, port=port, log_level="warning")


def _check_host(host: str, *, has_name_or_token: bool) -> None:
    if host not in _THIS_MACHINE and not has_name_or_token:
        raise typer.BadParameter(
            f"other machines can reach {host}: say under which names clients may ask "
            "(--allow-host), or which token they have to send (--token-file)",
            param_hint="--host",
        )


def _read_token(path: Path | None) -> str | None:
    if path is None:
        return None
    token = path.read_text(encoding="utf-8").strip()
    if not token or not token.isascii():
        raise typer.BadParameter(f"{path} must hold a token in ASCII", param_hint="--token-file")
    return token


def _allowed_hosts(host: str, names: Sequence[str]) -> Any:  # noqa: ANN401 - of the MCP SDK
    """Which Host and Origin headers are answered: None for any, if a token is required."""
    from mcp.server.transport_security import TransportSecuritySettings

    allowed = list(names)
    if host in _THIS_MACHINE:
        allowed += ["127.0.0.1", "localhost", "[::1]"]
    elif not names:
        return None
    hosts = []
    origins = []
    for name in allowed:
        hosts += [name, f"{name}:*"]
        for scheme in ("http", "https"):
            origins += [f"{scheme}://{name}", f"{scheme}://{name}:*"]
    return TransportSecuritySettings(allowed_hosts=hosts, allowed_origins=origins)


class RequireToken:
    """An ASGI application that answers only requests with a token."""

    def __init__(self, app: "ASGIApp", token: str) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Pass a request on, or answer it with 401."""
        if scope["type"] == "http":
            given = dict(scope["headers"]).get(b"authorization", b"")
            # In constant time, so that its duration does not tell how much of a token is right.
            if not hmac.compare_digest(given, self._expected):
                from starlette.responses import PlainTextResponse

                headers = {"WWW-Authenticate": "Bearer"}
                response = PlainTextResponse("a token is required", 401, headers)
                await response(scope, receive, send)
                return
        await self._app(scope, receive, send)


@contextlib.asynccontextmanager
async def _quiet(_: object) -> AsyncIterator[None]:
    with contextlib.redirect_stdout(sys.stderr):
        yield
