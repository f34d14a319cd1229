"""A server on loopback that speaks OpenAI's chat completions protocol; can fail."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from tests.integration_tests.loopback import LoopbackServer


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


class ChatServer(LoopbackServer):
    """Answers what `answer` returns.

    Attributes:
        requests: What it was asked, in order.
        answer: Returns the answer to a request.
    """

    def __init__(self, answer: Callable[[Request], Answer]) -> None:
        super().__init__()
        self.requests: list[Request] = []
        self.answer = answer

    @property
    def url(self) -> str:
        return f"{super().url}/v1"

    def respond(
        self, path: str, headers: Mapping[str, str], body: dict[str, Any]
    ) -> tuple[int, Any]:
        request = Request(body, headers["Authorization"])
        assert path == "/v1/chat/completions"
        self.requests.append(request)
        answer = self.answer(request)
        return answer.status, answer.body or _completion(body, answer)


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
def chat_server(answer: Callable[[Request], Answer]) -> Iterator[ChatServer]:
    """A server for the time of a block."""
    with ChatServer(answer).running() as server:
        yield server
