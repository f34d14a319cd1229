"""Clients of ``langchain-rse serve-mcp`` that abort, idle and dawdle, beside one that asks."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.integration_tests import test_mcp
from tests.integration_tests.test_mcp import http_server

folder = test_mcp.folder

MOST_SECONDS = 2
INFORMATION = {"name": "test", "version": "1"}
START = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": INFORMATION}
INITIALIZE = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": START}
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
