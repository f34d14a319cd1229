"""A server on loopback that answers what its class returns, in threads."""

from __future__ import annotations

import contextlib
import json
import threading
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from typing_extensions import override


class LoopbackServer(ThreadingHTTPServer):
    """Answers the requests of a client."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)

    @abstractmethod
    def respond(
        self, path: str, headers: Mapping[str, str], body: dict[str, Any]
    ) -> tuple[int, Any]:
        """Return the status and the body of the answer, JSON unless it is a text or bytes."""

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.server_port}"

    @contextlib.contextmanager
    def running(self) -> Iterator[Self]:
        """Serve for the time of a block."""
        with self:
            thread = threading.Thread(target=self.serve_forever, args=[0.01], daemon=True)
            thread.start()
            try:
                yield self
            finally:
                self.shutdown()
                thread.join()


class _Handler(BaseHTTPRequestHandler):
    server: LoopbackServer

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        status, body = self.server.respond(self.path, self.headers, asked)
        is_stream = isinstance(body, str) and body.startswith("event:")
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
        payload = body.encode() if isinstance(body, str) else body
        self.send_response(status)
        self.send_header("content-type", "text/event-stream" if is_stream else "application/json")
        self.send_header("content-length", str(len(payload)))
        self.send_header("retry-after", "0")
        self.send_header("retry-after-ms", "1")
        with contextlib.suppress(ConnectionError):  # a client that timed out has hung up
            self.end_headers()
            self.wfile.write(payload)

    @override
    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""
