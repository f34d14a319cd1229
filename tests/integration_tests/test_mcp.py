"""``langchain-rse serve-mcp`` and its clients, in two processes, over both transports."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import warnings
from collections.abc import AsyncIterator, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from mcp import Client, ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, InitializeResult
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from typer.testing import CliRunner

from langchain_rse.cli.app import app

TEXT = "Herons fish at dawn.\n\n" + "Nobody knows why that is so. " * 800 + "\n\nCranes dance.\n"
# A model that prints, as some do, and is slow where it is asked to be.
MODEL = """
import time
from langchain_core.embeddings import DeterministicFakeEmbedding

class Printing(DeterministicFakeEmbedding):
    size: int = 8

    def embed_query(self, text):
        print("embedding", text)
        time.sleep(2 if "slow" in text else 0)
        return super().embed_query(text)
"""


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a knowledge base of 60 documents, made with the model that prints."""
    folder = tmp_path_factory.mktemp("mcp")
    (folder / "printing_model.py").write_text(MODEL)
    (folder / "docs").mkdir()
    (folder / "docs" / "birds.txt").write_text(TEXT, encoding="utf-8")
    for number in range(59):
        (folder / "docs" / f"{number:02}.txt").write_text(f"Number {number} is odd or even.")
    command = ["index", "docs", "--kb", "kb", "--embeddings", "printing_model:Printing"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.syspath_prepend(folder)
        result = CliRunner().invoke(app, command, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return folder


PROGRAM = [sys.executable, "-m", "langchain_rse"]
SERVE = ["serve-mcp", "--kb", "kb", "--penalty", "0", "--k", "2"]
INFORMATION = {"name": "test", "version": "1"}
START = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": INFORMATION}
INITIALIZE = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": START}


def environment(folder: Path) -> dict[str, str]:
    path = os.pathsep.join([str(folder), *filter(None, sys.path)])
    return {**os.environ, "PYTHONPATH": path, "PYTHONIOENCODING": "utf-8"}


def check_server(started: InitializeResult) -> None:
    """Clients are told this package's name and version, not those of the SDK."""
    server = started.server_info
    assert (server.name, server.version) == ("langchain-rse", version("langchain-rse"))


@contextlib.asynccontextmanager
async def over_stdio(folder: Path, *options: str) -> AsyncIterator[ClientSession]:
    server = StdioServerParameters(
        command=PROGRAM[0],
        args=[*PROGRAM[1:], *SERVE, *options],
        cwd=folder,
        env=environment(folder),
    )
    with (folder / "stderr").open("w") as log:
        async with stdio_client(server, log) as streams, ClientSession(*streams) as session:
            check_server(await session.initialize())
            yield session


@contextlib.contextmanager
def http_server(folder: Path, *options: str) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [*PROGRAM, *SERVE, "--port", str(port), *options]
    with (
        (folder / "stderr").open("w") as log,
        subprocess.Popen(
            command, cwd=folder, env=environment(folder), stdout=subprocess.PIPE, stderr=log
        ) as server,
    ):
        url = f"http://127.0.0.1:{port}/mcp"
        try:
            for _ in range(2_000):
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                    break
                assert server.poll() is None, (folder / "stderr").read_text()
                time.sleep(0.1)
            yield url
        finally:
            server.terminate()
            server.wait(30)


@contextlib.asynccontextmanager
async def over_http(url: str, **headers: str) -> AsyncIterator[ClientSession]:
    async with (
        httpx2.AsyncClient(headers=headers) as client,
        streamable_http_client(url, http_client=client) as streams,
        ClientSession(*streams) as session,
    ):
        check_server(await session.initialize())
        yield session
    # The SDK's client cancels its stream of notifications while that connects, and leaves the
    # socket to the garbage collector, whose warning would fail whatever test runs then.
    await asyncio.sleep(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


async def ask(session: ClientSession, tool: str, **arguments: Any) -> tuple[str, bool]:
    result = await session.call_tool(tool, arguments)
    return text_of(result), result.is_error


def text_of(result: CallToolResult) -> str:
    (content,) = result.content
    assert content.type == "text"
    return content.text


async def exercise(session: ClientSession) -> None:
    tools = (await session.list_tools()).tools
    assert [tool.name for tool in tools] == ["search", "find", "outline", "read"]
    assert all(tool.annotations and tool.annotations.read_only_hint for tool in tools)

    text, is_error = await ask(session, "search", query="When do herons fish?")
    assert not is_error
    headings = re.findall(r"(?m)^\[\d\] (.*), characters ([\d,]+)–([\d,]+)$", text)
    assert 1 <= len(headings) <= 2
    source, *span = headings[0]
    start, end = (int(number.replace(",", "")) for number in span)
    read, is_error = await ask(session, "read", document=source, start=start, end=end)
    assert not is_error
    assert read.split("\n", 1)[1].strip("\n> ") in text

    found, _ = await ask(session, "find", pattern="cranes DANCE")
    assert found.startswith("Matches 1 of 1 in 1 document:\n\n[1] birds.txt, line 5, characters ")
    assert found.endswith("\n> Cranes dance.")

    text, is_error = await ask(session, "read", document="/etc/passwd")
    assert is_error
    assert "there is no document" in text

    text, is_error = await ask(session, "search", query="herons", document="birds.txt")
    assert (is_error, "search takes query." in text) == (True, True)

    listed, _ = await ask(session, "outline")
    assert listed.startswith("Documents 1–60 of 60:\n")
    names = re.findall(r"(?m)^(.*\.txt), [\d,]+ characters$", listed)
    assert names == [*(f"{number:02}.txt" for number in range(59)), "birds.txt"]


async def test_over_stdio(folder: Path) -> None:
    async with over_stdio(folder) as session:
        await exercise(session)
    assert "embedding When do herons fish?" in (folder / "stderr").read_text()


@pytest.mark.nightly
async def test_a_connector_over_stdio(folder: Path) -> None:
    async with over_stdio(folder, "--tools", "connector") as session:
        text, _ = await ask(session, "search", query="When do herons fish?")
        [first, *_] = json.loads(text)["results"]
        text, _ = await ask(session, "fetch", id=first["id"])
        assert first["text"] in json.loads(text)["text"]
        for tool, arguments in (
            ("search", {"q": "herons"}),
            ("fetch", {"id": "birds"}),
            ("read", {}),
        ):
            assert (await ask(session, tool, **arguments))[1]


async def test_over_http(folder: Path) -> None:
    with http_server(folder) as url:
        async with over_http(url) as session:
            await exercise(session)
        # The newest protocol has no session: each request says all that the server has to know.
        async with Client(url) as client:
            assert client.protocol_version in MODERN_PROTOCOL_VERSIONS
            found = await client.call_tool("search", {"query": "When do herons fish?"})
            assert isinstance(found, CallToolResult)
            assert text_of(found).startswith("[1] ")
        # A page of another site that has its name resolved to this machine.
        headers = {"Host": "other.example.org", "Content-Type": "application/json"}
        request = urllib.request.Request(url, b"{}", headers)  # noqa: S310
        with pytest.raises(urllib.error.HTTPError, match="421"):
            await asyncio.to_thread(urllib.request.urlopen, request)
    assert f"Serving kb on {url}" in (folder / "stderr").read_text()


def test_stdout_has_the_protocol_alone_and_a_client_that_leaves_ends_it(folder: Path) -> None:
    call = {"name": "search", "arguments": {"query": "a slow question"}}
    messages = [
        INITIALIZE,
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call},
    ]
    asked = "".join(f"{json.dumps(message)}\n" for message in messages)
    done = subprocess.run(  # which closes stdin at once, in the middle of the call
        [*PROGRAM, *SERVE],
        cwd=folder,
        env=environment(folder),
        input=asked,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert answers
    assert all(answer["jsonrpc"] == "2.0" for answer in answers)


# Clients that abort, idle and dawdle, beside one that asks

MOST_SECONDS = 2
SEARCH = {"name": "search", "arguments": {"query": "When do herons fish?"}}
CALL = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": SEARCH}


class HTTP:
    """Sends requests, each on a connection of its own."""

    def __init__(self, url: str) -> None:
        self.address = urlsplit(url)
        self.session = ""

    async def begin(self, body: bytes, length: int) -> tuple[Any, Any]:
        """Send a request of a length, with the beginning of its body."""
        reader, writer = await asyncio.open_connection(self.address.hostname, self.address.port)
        headers = [
            "POST /mcp HTTP/1.1",
            f"Host: {self.address.netloc}",
            "Content-Type: application/json",
            "Accept: application/json, text/event-stream",
            "MCP-Protocol-Version: 2025-06-18",
            "Connection: close",
            f"Content-Length: {length}",
        ]
        if self.session:
            headers.append(f"Mcp-Session-Id: {self.session}")
        writer.write("\r\n".join([*headers, "", ""]).encode() + body)
        await writer.drain()
        return reader, writer

    async def post(self, message: dict[str, Any]) -> str:
        """Send a message, and return the answer with its headers."""
        body = json.dumps(message).encode()
        reader, writer = await self.begin(body, len(body))
        try:
            answer = await reader.read()
        finally:
            writer.close()
        return str(answer, "utf-8")

    async def initialize(self) -> None:
        answer = await self.post(INITIALIZE)
        assert answer.startswith("HTTP/1.1 200"), answer
        for line in answer.splitlines():
            name, _, value = line.partition(": ")
            if name.lower() == "mcp-session-id":
                self.session = value


async def abort(url: str) -> None:
    """Leave in the middle of the body."""
    _, writer = await HTTP(url).begin(json.dumps(CALL).encode()[:40], 1_000)
    writer.close()


async def idle(url: str) -> None:
    """Open a session, and leave it open."""
    await HTTP(url).initialize()


async def dawdle(url: str) -> None:
    """Send a body slowly, until the server has had enough of it."""
    reader, writer = await HTTP(url).begin(b"{", 10_000)
    closed = asyncio.ensure_future(reader.read())
    while not closed.done():
        with contextlib.suppress(ConnectionError):
            writer.write(b" ")
            await writer.drain()
        await asyncio.wait([closed], timeout=0.5)
    writer.close()
    with contextlib.suppress(ConnectionError):
        assert (await closed).startswith(b"HTTP/1.1 408")


async def slowest_answer(url: str, attack: Any, count: int, at_once: int) -> float:
    """Ask every 200 ms during an attack and for a second after it."""
    client = HTTP(url)
    await client.initialize()
    slowest = 0.0
    room = asyncio.Semaphore(at_once)

    async def one() -> None:
        async with room:
            await attack(url)

    attacks = asyncio.gather(*(one() for _ in range(count)))
    last = None
    while last is None or time.monotonic() < last:
        if attacks.done() and last is None:
            last = time.monotonic() + 1
        start = time.monotonic()
        answer = await client.post(CALL)
        assert "Herons fish at dawn" in answer
        slowest = max(slowest, time.monotonic() - start)
        await asyncio.sleep(0.2)
    await attacks
    return slowest


@pytest.mark.parametrize(
    "attacks",
    [
        pytest.param([(abort, 60, 10), (idle, 100, 10), (dawdle, 40, 40)], id="few"),
        pytest.param([(abort, 500, 20)], id="500 aborted", marks=pytest.mark.nightly),
        pytest.param([(idle, 2_000, 20)], id="2,000 idle", marks=pytest.mark.nightly),
        pytest.param([(dawdle, 400, 400)], id="400 slow", marks=pytest.mark.nightly),
    ],
)
async def test_other_clients_get_their_answers(
    folder: Path, attacks: list[tuple[Any, int, int]]
) -> None:
    with http_server(folder) as url:
        async with asyncio.timeout(60):
            for attack in attacks:
                assert await slowest_answer(url, *attack) < MOST_SECONDS
    assert "Traceback" not in (folder / "stderr").read_text()
