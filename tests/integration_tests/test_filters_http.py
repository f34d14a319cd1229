"""The language model's filter over the wire: langchain-openai and a server on loopback."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import httpx
import pytest
from langchain_core.documents import Document
from pydantic import SecretStr

from langchain_rse.filters import LMBasedRelevanceFilter
from tests.integration_tests.chat_server import Answer, ChatServer, Request, chat_server

QUERY = "Where do herons nest?"
KEY = "sk-not-to-be-seen"


def judge(request: Request) -> Answer:
    """Judges chunks relevant that have a heron in them."""
    judgments = [
        {"explanation": f"It says: {chunk}", "is_relevant": "heron" in chunk}
        for chunk in request.chunks
    ]
    return Answer(json.dumps({"judgments": judgments}))


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with chat_server(judge) as server:
        yield server


def chat_model(server: ChatServer, **settings: Any) -> Any:
    from langchain_openai import ChatOpenAI

    return ChatOpenAI(
        model="judge",
        base_url=server.url,
        api_key=SecretStr(KEY),
        **{"max_retries": 1, "timeout": 30, **settings},
    )


@pytest.fixture
def client() -> Iterator[httpx.Client]:
    with httpx.Client(trust_env=False) as client:  # closed, unlike the default one
        yield client


@pytest.fixture
def model(server: ChatServer, client: httpx.Client) -> Any:
    return chat_model(server, http_client=client)


def documents_of(*texts: str) -> list[Document]:
    return [Document(text, id=text, metadata={"source": f"{text}.md"}) for text in texts]


def kept_by(relevance: LMBasedRelevanceFilter, *texts: str) -> list[Document]:
    return list(relevance.compress_documents(documents_of(*texts), QUERY))


TEXTS = ("heron 1", "car 2", "car 3", "heron 4", "heron 5")


def check_kept(kept: Sequence[Document], server: ChatServer, *, structured: bool) -> None:
    """Check what is kept of `TEXTS`, in batches of two, and what was requested."""
    assert [document.id for document in kept] == ["heron 1", "heron 4", "heron 5"]
    assert kept[0].metadata == {
        "source": "heron 1.md",
        "is_relevant": True,
        "relevance_explanation": "It says: source: heron 1.md\n\nheron 1",
        "relevance_score": 1.0,
    }
    assert sorted(len(request.chunks) for request in server.requests) == [1, 2, 2]
    for request in server.requests:
        assert request.authorization == f"Bearer {KEY}"
        assert ("response_format" in request.body) == structured
        assert QUERY in request.body["messages"][-1]["content"]


@pytest.mark.parametrize("structured", [True, False])
async def test_chunks_are_judged_over_http(
    server: ChatServer, model: Any, *, structured: bool
) -> None:
    settings = {
        "batch_size": 2,
        "chunk_format": lambda chunk: f"source: {chunk.metadata['source']}\n\n{chunk.page_content}",
        "structured_output": structured,
    }
    relevance = LMBasedRelevanceFilter(llm=model, **settings)
    check_kept(kept_by(relevance, *TEXTS), server, structured=structured)
    server.requests.clear()
    async with httpx.AsyncClient(trust_env=False) as client:
        relevance = LMBasedRelevanceFilter(
            llm=chat_model(server, http_async_client=client), **settings
        )
        kept = await relevance.acompress_documents(documents_of(*TEXTS), QUERY)
    check_kept(kept, server, structured=structured)


_FAILURES = {
    "rate limit": (Answer("slow down", status=429), "429.*slow down"),
    "no access": (Answer("who are you?", status=401), "401.*who are you"),
    "not JSON": (Answer(body="<html>"), "JSONDecodeError"),
    "prose": (Answer("I cannot tell."), "I cannot tell."),
    "wrong count": (Answer('{"judgments": []}'), "expected 1 judgments; got 0"),
}


@pytest.mark.parametrize(("answer", "reason"), _FAILURES.values(), ids=_FAILURES)
def test_a_failing_batch_leaves_the_others_alone(
    server: ChatServer,
    model: Any,
    caplog: pytest.LogCaptureFixture,
    answer: Answer,
    reason: str,
) -> None:
    server.answer = lambda request: answer if "poison" in request.chunks[0] else judge(request)
    relevance = LMBasedRelevanceFilter(llm=model, batch_size=1, max_retries=1)
    heron, poison = kept_by(relevance, "heron", "poison", "car")
    assert (heron.id, poison.id) == ("heron", "poison")
    assert heron.metadata["is_relevant"] is True
    assert poison.metadata["is_relevant"] is None
    assert re.search(reason, poison.metadata["relevance_failure"])
    assert poison.metadata["relevance_failure"] in caplog.text
    assert KEY not in caplog.text
    assert KEY not in repr(relevance)

    dropping = relevance.model_copy(update={"on_failure_keep_all": False})
    assert [document.id for document in kept_by(dropping, "heron", "poison")] == ["heron"]
