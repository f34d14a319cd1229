"""A server on loopback that speaks Anthropic's messages protocol; it cites.

It refuses search results as Anthropic does.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tests.integration_tests.loopback import LoopbackServer

QUERIES = ["What drove gross margin?"]


class CitingServer(LoopbackServer):
    """Searches with its tool for each of its queries, then cites all that it has read.

    Attributes:
        queries: What it searches for, a call each.
        requests: The bodies that came.
    """

    def __init__(self, queries: list[str]) -> None:
        super().__init__()
        self.queries = queries
        self.requests: list[dict[str, Any]] = []

    def respond(
        self, path: str, headers: Mapping[str, str], body: dict[str, Any]
    ) -> tuple[int, Any]:
        del headers
        self.requests.append(body)
        assert path == "/v1/messages"
        problem = refusal(body)
        if problem:
            error = {"type": "invalid_request_error", "message": problem}
            return 400, {"type": "error", "error": error}
        blocks = _as_claude(body, self.queries)
        return 200, _events(blocks) if body.get("stream") else _message(blocks)


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


@contextmanager
def citing_server(queries: list[str] | None = None) -> Iterator[CitingServer]:
    """A running server."""
    with CitingServer(QUERIES if queries is None else queries).running() as server:
        yield server
