"""A server on loopback that speaks Cohere's v2 rerank protocol; can fail."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tests.integration_tests.loopback import LoopbackServer

MOST_AT_ONCE = 1_000


class RerankServer(LoopbackServer):
    """Scores documents by the share of the query's words that they have.

    Attributes:
        requests: The bodies that came.
        keys: The keys that came with them.
        failures: What to answer instead, one after the other: a status, or a body.
        slowness: Seconds to wait before each answer.
    """

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.failures: list[int | bytes | dict[str, Any]] = []
        self.slowness = 0.0

    def respond(
        self, path: str, headers: Mapping[str, str], body: dict[str, Any]
    ) -> tuple[int, Any]:
        self.requests.append(body)
        self.keys.append(headers["authorization"])
        time.sleep(self.slowness)
        failure = self.failures.pop(0) if self.failures else None
        assert path == "/v2/rerank"
        if isinstance(failure, int):
            return failure, {"message": f"failed with {failure}"}
        if failure is not None:
            return 200, failure
        if len(body["documents"]) > MOST_AT_ONCE:
            return 400, {"message": f"too many documents: {len(body['documents'])}"}
        return 200, _as_cohere(body)


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


@contextmanager
def rerank_server() -> Iterator[RerankServer]:
    """A running server."""
    with RerankServer().running() as server:
        yield server
