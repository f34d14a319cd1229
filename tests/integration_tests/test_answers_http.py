"""Graded answers over the wire: langchain-openai and a server on loopback that fails at times."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from langchain_rse import RSERetriever, SQLDocStore
from langchain_rse.evaluation import AnswerReport, Question, aevaluate_answers, evaluate_answers
from tests.integration_tests.chat_server import Answer, ChatServer, Request, chat_server
from tests.unit_tests import fakes

way = fakes.way
Way = fakes.Way

KEY = "sk-not-to-be-seen"
BIRDS = ("heron", "swan", "stork", "crane")
QUESTIONS = [Question(f"Where does the {bird} nest?", answer=f"In tree {bird}.") for bird in BIRDS]


def between(request: Request, tag: str) -> str:
    found = re.search(rf"(?s)<{tag}>\n(.*?)\n</{tag}>", request.body["messages"][-1]["content"])
    return found[1] if found else ""


def is_grading(request: Request) -> bool:
    return bool(between(request, "reference"))


def respond(request: Request) -> Answer:
    """Answers with the tree that the chunks name for the bird, and grades by the reference."""
    if is_grading(request):
        right = between(request, "reference").rstrip(".") in between(request, "answer")
        return Answer(json.dumps({"explanation": "Compared.", "grade": 10 if right else 2}))
    bird = re.findall(r"\w+", between(request, "query"))[3]
    text = request.body["messages"][-1]["content"]
    return Answer(f"In tree {bird}." if f"nests in tree {bird}" in text else "I cannot tell.")


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with chat_server(respond) as server:
        yield server


@pytest.fixture
def model(way: Way, server: ChatServer) -> Iterator[ChatOpenAI]:
    # Clients of their own, so that they can be closed.
    client, async_client = httpx.Client(trust_env=False), httpx.AsyncClient(trust_env=False)
    yield ChatOpenAI(
        model="scripted",
        base_url=server.url,
        api_key=SecretStr(KEY),
        http_client=client,
        http_async_client=async_client,
        max_retries=0,
        timeout=30,
    )
    way.call(client.close, async_client.aclose)


def retriever(way: Way, *birds: str) -> RSERetriever:
    made = RSERetriever(
        vectorstore=InMemoryVectorStore(fakes.BagOfWords()),
        docstore=SQLDocStore("sqlite://"),
        config=fakes.EVERYTHING,
    )
    texts = [Document(f"The {bird} nests in tree {bird}.", id=bird) for bird in birds]
    way.add(made, texts, ids=list(birds))
    return made


def ask(way: Way, made: RSERetriever, model: ChatOpenAI, **kwargs: Any) -> AnswerReport:
    return way.call(
        evaluate_answers, aevaluate_answers, made, QUESTIONS, llm=model, grader=model, **kwargs
    )


def test_two_retrievers_are_compared_by_their_answers(
    way: Way, server: ChatServer, model: ChatOpenAI
) -> None:
    full = ask(way, retriever(way, *BIRDS), model, name="full")
    half = ask(way, retriever(way, *BIRDS[:2]), model, name="half")
    assert full.figures["points"][:, 0].tolist() == [10, 10, 10, 10]
    assert half.figures["points"][:, 0].tolist() == [10, 10, 2, 2]
    assert half.answers[2][:3] == ("I cannot tell.", 2.0, "Compared.")
    comparison = full.compare(half)
    assert comparison.difference.tolist() == [4]
    assert (comparison.interval[0] > [-1e-9, 4]).all()
    # The server says one token in and one out for each call.
    counts = {"calls": 4, "input_tokens": 4, "output_tokens": 4, "unknown": 0}
    assert full.usage == {"answering": counts, "grading": counts}
    assert len(server.requests) == 16
    assert all(request.authorization == f"Bearer {KEY}" for request in server.requests)
    assert all("response_format" not in request.body for request in server.requests)


def test_a_verdict_over_http(way: Way, server: ChatServer, model: ChatOpenAI) -> None:
    def verdict(request: Request) -> Answer:
        if not is_grading(request):
            return respond(request)
        refused = "cannot" in between(request, "answer")
        return Answer(f'Sure:\n```json\n{{"grade": "{"refused" if refused else "right"}"}}\n```')

    server.respond = verdict
    report = ask(way, retriever(way, *BIRDS[:3]), model, rubric="verdict")
    assert [one.grade for one in report.answers] == ["right"] * 3 + ["refused"]
    assert report.mean("refused").tolist() == [0.25]


@pytest.mark.slow
def test_a_server_that_fails_at_times_costs_what_it_fails_at(
    way: Way, server: ChatServer, model: ChatOpenAI
) -> None:
    busy: list[str] = []

    def unreliable(request: Request) -> Answer:
        query = between(request, "query")
        if "swan" in query and is_grading(request):
            return Answer("Splendid!")
        if "stork" in query and not busy:
            busy.append(query)
            return Answer("slow down", status=429)
        if "crane" in query:
            return Answer("out of order", status=500)
        return respond(request)

    server.respond = unreliable
    with pytest.warns(UserWarning, match="2 of 4 questions have no grade"):
        report = ask(way, retriever(way, *BIRDS), model, max_retries=1)
    assert list(report.failures) == [2, 4]
    assert re.search("grading: ValueError: .*holds no JSON: 'Splendid!'", report.failures[2])
    assert re.search("answering: .*500.*out of order", report.failures[4])
    assert KEY not in str(report.failures)
    assert report.figures["points"][[0, 2], 0].tolist() == [10, 10]
    assert report.mean("points").tolist() == [10]
    assert report.usage["answering"]["calls"] == 3
    assert report.usage["grading"]["calls"] == 4
    asked = [between(request, "query") for request in server.requests]
    assert sum("crane" in query for query in asked) == 2


@pytest.mark.slow
def test_a_wrong_key_is_an_error_before_all_questions_are_asked(
    way: Way, server: ChatServer, model: ChatOpenAI
) -> None:
    server.respond = lambda _: Answer("who are you?", status=401)
    with pytest.raises(
        RuntimeError, match=r"first 2 questions .* at answering: .*401.*who are you"
    ):
        ask(way, retriever(way, *BIRDS), model, max_concurrency=2, max_retries=1)
    assert len(server.requests) == 4
