"""A server on loopback that speaks Anthropic's messages protocol, and Cohere's chat; it cites.

It refuses search results as Anthropic does.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from typing_extensions import override

QUERIES = ["What drove gross margin?"]


class CitingServer(ThreadingHTTPServer):
    """Searches with its tool for each of its queries, then cites all that it has read.

    Attributes:
        queries: What it searches for, a call each.
        requests: The bodies that came.
    """

    daemon_threads = True

    def __init__(self, queries: list[str]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.queries = queries
        self.requests: list[dict[str, Any]] = []

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: CitingServer

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.requests.append(body)
        if self.path == "/v2/chat":
            self.answer(200, _as_cohere(body))
            return
        assert self.path == "/v1/messages"
        problem = refusal(body)
        if problem:
            error = {"type": "invalid_request_error", "message": problem}
            self.answer(400, {"type": "error", "error": error})
            return
        blocks = _as_claude(body, self.server.queries)
        if body.get("stream"):
            self.send("text/event-stream", _events(blocks))
        else:
            self.answer(200, _message(blocks))

    def answer(self, status: int, body: dict[str, Any]) -> None:
        self.send("application/json", json.dumps(body), status)

    def send(self, kind: str, text: str, status: int = 200) -> None:
        payload = text.encode()
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    @override
    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""


def contents_of(body: dict[str, Any]) -> Iterator[list[dict[str, Any]]]:
    """The lists of blocks in messages and in tool results, in their order."""
    for message in body["messages"]:
        if isinstance(message["content"], str):
            continue
        yield message["content"]
        for block in message["content"]:
            if block["type"] == "tool_result" and isinstance(block["content"], list):
                yield block["content"]


def results_in(body: dict[str, Any]) -> list[dict[str, Any]]:
    """All search results of a request, as Anthropic numbers them."""
    return [
        block
        for content in contents_of(body)
        for block in content
        if block["type"] == "search_result"
    ]


def refusal(body: dict[str, Any]) -> str | None:
    """Why Anthropic would refuse a request for its search results; None if it would not."""
    for message in body["messages"]:
        for block in message["content"]:
            if isinstance(block, dict) and block["type"] == "tool_result":
                types = {part["type"] for part in block["content"] if isinstance(part, dict)}
                if "search_result" in types and types != {"search_result"}:
                    return "if a tool_result has search_result blocks, all must be search_result"
    for result in results_in(body):
        if result.keys() != {"type", "source", "title", "content", "citations"}:
            return f"fields of a search_result: {sorted(result)}"
        if not result["content"] or result["citations"] != {"enabled": True}:
            return "a search_result needs content and citations"
        for block in result["content"]:
            if block.keys() != {"type", "text"} or not block["text"].strip():
                return "text content blocks must contain non-whitespace text"
    return None


def _as_claude(body: dict[str, Any], queries: list[str]) -> list[dict[str, Any]]:
    asked = sum(message["role"] == "assistant" for message in body["messages"])
    if "tools" in body and asked < len(queries):
        name = body["tools"][0]["name"]
        arguments = {"query": queries[asked]}
        return [{"type": "tool_use", "id": f"toolu_{asked}", "name": name, "input": arguments}]
    blocks: list[dict[str, Any]] = [{"type": "text", "text": "The documents say: "}]
    for index, result in enumerate(results_in(body)):
        for number, block in enumerate(result["content"]):
            citation = {
                "type": "search_result_location",
                "cited_text": block["text"],
                "source": result["source"],
                "title": result["title"],
                "search_result_index": index,
                "start_block_index": number,
                "end_block_index": number + 1,
            }
            text = f"Claim {index}.{number}. "
            blocks.append({"type": "text", "text": text, "citations": [citation]})
    return blocks


def _message(blocks: list[dict[str, Any]]) -> dict[str, Any]:
    calls = any(block["type"] == "tool_use" for block in blocks)
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "a-claude",
        "content": blocks,
        "stop_reason": "tool_use" if calls else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }


def _events(blocks: list[dict[str, Any]]) -> str:
    """A message as the events of a stream."""
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**_message([]), "stop_reason": None}}
    ]
    for index, block in enumerate(blocks):
        empty: dict[str, Any] = {"type": "text", "text": ""}
        deltas: list[dict[str, Any]] = []
        if block["type"] == "tool_use":
            empty = {**block, "input": {}}
            arguments = json.dumps(block["input"])
            deltas.append({"type": "input_json_delta", "partial_json": arguments})
        else:
            citations = block.get("citations", ())
            deltas += [{"type": "citations_delta", "citation": each} for each in citations]
            deltas.append({"type": "text_delta", "text": block["text"]})
        events.append({"type": "content_block_start", "index": index, "content_block": empty})
        for delta in deltas:
            events.append({"type": "content_block_delta", "index": index, "delta": delta})
        events.append({"type": "content_block_stop", "index": index})
    reason = _message(blocks)["stop_reason"]
    stop = {"stop_reason": reason, "stop_sequence": None}
    events.append({"type": "message_delta", "delta": stop, "usage": {"output_tokens": 1}})
    events.append({"type": "message_stop"})
    return "".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in events)


def _as_cohere(body: dict[str, Any]) -> dict[str, Any]:
    """An answer with a claim for each document, which cites it."""
    text = "The documents say: "
    citations = []
    for document in body["documents"]:
        claim = f"what is in {document['id']}"
        source = {"type": "document", "id": document["id"], "document": document["data"]}
        start = len(text)
        end = start + len(claim)
        citations.append({"start": start, "end": end, "text": claim, "sources": [source]})
        text += f"{claim}, "
    message = {
        "role": "assistant",
        "content": [{"type": "text", "text": text}],
        "citations": citations,
    }
    tokens = {"input_tokens": 1, "output_tokens": 1}
    usage = {"billed_units": tokens, "tokens": tokens}
    return {"id": "an-id", "finish_reason": "COMPLETE", "message": message, "usage": usage}


@contextmanager
def citing_server(queries: list[str] | None = None) -> Iterator[CitingServer]:
    """A running server."""
    with CitingServer(QUERIES if queries is None else queries) as server:
        thread = threading.Thread(target=server.serve_forever, args=[0.01], daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
