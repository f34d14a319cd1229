"""A server on loopback that speaks Cohere's v2 rerank protocol, and Voyage's; can fail."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MOST_AT_ONCE = 1_000


class RerankServer(ThreadingHTTPServer):
    """Scores documents by the share of the query's words that they have.

    Attributes:
        requests: The bodies that came.
        keys: The keys that came with them.
        failures: What to answer instead, one after the other: a status, or a body.
        slowness: Seconds to wait before each answer.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.failures: list[int | bytes | dict[str, Any]] = []
        self.slowness = 0.0

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: RerankServer

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.requests.append(body)
        self.server.keys.append(self.headers["authorization"])
        time.sleep(self.server.slowness)
        failure = self.server.failures.pop(0) if self.server.failures else None
        if self.path not in _PROTOCOLS:
            self.answer(404, {"message": f"no {self.path}"})
        elif isinstance(failure, int):
            self.answer(failure, {"message": f"failed with {failure}"})
        elif isinstance(failure, bytes):
            self.send(200, failure)
        elif failure is not None:
            self.answer(200, failure)
        elif len(body["documents"]) > MOST_AT_ONCE:
            self.answer(400, {"message": f"too many documents: {len(body['documents'])}"})
        else:
            self.answer(200, _PROTOCOLS[self.path](body))

    def answer(self, status: int, body: dict[str, Any]) -> None:
        self.send(status, json.dumps(body).encode())

    def send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.send_header("retry-after", "0")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


def scored(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The documents of a request with their scores, best first."""
    words = set(body["query"].lower().split())
    results = [
        {"index": index, "relevance_score": len(words & set(text.lower().split())) / len(words)}
        for index, text in enumerate(body["documents"])
    ]
    results.sort(key=lambda result: -result["relevance_score"])
    return results


def _as_cohere(body: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": "an-id",
        "results": scored(body)[: body.get("top_n")],
        "meta": {"api_version": {"version": "2"}, "billed_units": {"search_units": 1}},
    }


def _as_voyage(body: dict[str, Any]) -> dict[str, Any]:
    return {
        "object": "list",
        "data": scored(body)[: body.get("top_k")],
        "model": body["model"],
        "usage": {"total_tokens": 7},
    }


_PROTOCOLS = {"/v2/rerank": _as_cohere, "/v1/rerank": _as_voyage}


@contextmanager
def rerank_server() -> Iterator[RerankServer]:
    """A running server."""
    with RerankServer() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
