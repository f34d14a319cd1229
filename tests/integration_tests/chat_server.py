"""A server on loopback that speaks OpenAI's chat completions protocol; can fail."""

from __future__ import annotations

import contextlib
import json
import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from typing_extensions import override


class Answer(NamedTuple):
    """What the server answers: a message's text, or another body."""

    text: str = ""
    status: int = 200
    body: str | None = None


class Request(NamedTuple):
    """What the server was asked."""

    body: dict[str, Any]
    authorization: str | None

    @property
    def chunks(self) -> list[str]:
        """The chunks that a relevance filter asks about."""
        asked = self.body["messages"][-1]["content"]
        return re.findall(r'(?s)<chunk number="\d+">\n(.*?)\n</chunk>', asked)


class ChatServer(ThreadingHTTPServer):
    """Answers what `respond` returns.

    Attributes:
        requests: What it was asked, in order.
        respond: Returns the answer to a request.
    """

    daemon_threads = True

    def __init__(self, respond: Callable[[Request], Answer]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.requests: list[Request] = []
        self.respond = respond

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.server_port}/v1"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ChatServer

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        request = Request(body, self.headers["Authorization"])
        assert self.path == "/v1/chat/completions"
        self.server.requests.append(request)
        answer = self.server.respond(request)
        payload = (answer.body or _completion(body, answer)).encode()
        self.send_response(answer.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(payload)))
        self.send_header("Retry-After-Ms", "1")
        with contextlib.suppress(ConnectionError):  # a client that timed out has hung up
            self.end_headers()
            self.wfile.write(payload)

    @override
    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""


def _completion(body: dict[str, Any], answer: Answer) -> str:
    if answer.status != 200:
        return json.dumps({"error": {"message": answer.text, "type": "error"}})
    message = {"role": "assistant", "content": answer.text}
    return json.dumps(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1_700_000_000,
            "model": body["model"],
            "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }
    )


@contextlib.contextmanager
def chat_server(respond: Callable[[Request], Answer]) -> Iterator[ChatServer]:
    """A server for the time of a block."""
    with ChatServer(respond) as server:
        thread = threading.Thread(target=server.serve_forever, args=[0.01], daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
