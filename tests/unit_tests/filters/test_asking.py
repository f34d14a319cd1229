"""How a language model is asked: answers, retries, limits. Shown by the filter that asks one."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import pytest
from langchain_core.language_models import (
    FakeListChatModel,
    FakeListLLM,
    FakeMessagesListChatModel,
    GenericFakeChatModel,
)
from langchain_core.messages import AIMessage, ToolCall
from langchain_core.runnables import Runnable, RunnableLambda
from pydantic import Field

from langchain_rse.filters import LMBasedRelevanceFilter
from tests.unit_tests import fakes
from tests.unit_tests.fakes import Way
from tests.unit_tests.filters.judging import (
    NO,
    QUERY,
    YES,
    answer_of,
    documents_of,
    failure_of,
    judged,
    texts_of,
)

way = fakes.way
variable: ContextVar[str] = ContextVar("variable")


class ToolModel(FakeMessagesListChatModel):
    """A fake model that takes tools, and so has structured output."""

    bound: list[Any] = Field(default_factory=list)

    def bind_tools(self, tools: Any, **kwargs: Any) -> Runnable[Any, AIMessage]:
        self.bound.append(tools)
        return self.bind(tools=tools, **kwargs)


def tool_answer(*judgments: dict[str, Any]) -> AIMessage:
    arguments = {"judgments": list(judgments)}
    return AIMessage(
        "", tool_calls=[ToolCall(name="Judgments", args=arguments, id="1", type="tool_call")]
    )


# Answers


def test_structured_output_is_used_where_the_model_has_it() -> None:
    model = ToolModel(responses=[tool_answer(YES), tool_answer(NO, YES)])
    (kept,) = judged(model, "one", "two")  # the first answer lacks a judgment
    assert kept.page_content == "two"
    assert kept.metadata["relevance_explanation"] == "It says where."
    assert len(model.bound) == 1


@pytest.mark.parametrize(
    "wrap",
    [
        lambda answer: FakeListLLM(responses=[answer]),
        lambda answer: FakeListChatModel(responses=[f"```json\n{answer}\n```"]),
        lambda answer: RunnableLambda(lambda _: f"Judging:\n```\n{answer}\n```"),
        lambda answer: FakeListChatModel(responses=[answer]).bind(stop=["never"]),
        lambda answer: FakeMessagesListChatModel(
            responses=[AIMessage([{"type": "text", "text": answer}])]
        ),
    ],
    ids=["string model", "chat model", "function", "bind", "content blocks"],
)
def test_any_runnable_that_answers_in_text_will_do(
    wrap: Callable[[str], Runnable[Any, Any]],
) -> None:
    model = wrap(json.dumps({"judgments": [YES, NO]}, indent=2))
    assert texts_of(judged(model, "one", "two", max_retries=0)) == ["one"]


UNUSABLE = {
    "prose": ("I cannot tell.", "json"),
    "too few": (answer_of(YES), "expected 2 judgments; got 1"),
    "too many": (answer_of(YES, NO, YES), "expected 2 judgments; got 3"),
    "a field is missing": (answer_of(YES, {"is_relevant": True}), "judgments.1.explanation"),
    "another type": (answer_of({**YES, "is_relevant": "maybe"}, NO), "judgments.0.is_relevant"),
    "cut off": (answer_of(YES, NO)[:-50], "Judgments"),
    "nested": ('{"judgments": ' + "[" * 100_000, "RecursionError"),
}


@pytest.mark.parametrize(("answer", "reason"), UNUSABLE.values(), ids=UNUSABLE)
def test_an_unusable_answer_is_a_failure(answer: str, reason: str) -> None:
    failure = failure_of(FakeListChatModel(responses=[answer]), "one", "two", max_retries=1)
    assert reason in failure
    assert len(failure) < 600


def test_an_error_with_control_characters_does_not_reach_a_terminal(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def answer(_: object) -> str:
        raise ValueError("\x1b]52;c;aGk=\x07 \x9b2J")

    failure = failure_of(RunnableLambda(answer), "A heron.", max_retries=0)
    for text in (caplog.text, failure):
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", text)
        assert r"\x1b]52" in text


# Retries


class Script(Iterator[AIMessage | str]):
    """Answers and errors, one after the other."""

    def __init__(self, *steps: str | Exception) -> None:
        self.steps = list(steps)

    def __next__(self) -> str:
        step = self.steps.pop(0)
        if isinstance(step, Exception):
            raise step
        return step


@pytest.mark.parametrize("first", ["no JSON", answer_of(YES, NO), TimeoutError("too slow")])
def test_a_model_is_asked_again_max_retries_times(
    caplog: pytest.LogCaptureFixture, first: str | Exception
) -> None:
    steps = [first, first, answer_of(YES)]
    (kept,) = judged(GenericFakeChatModel(messages=Script(*steps)), "one")
    assert kept.metadata["is_relevant"] is True
    assert not caplog.records
    assert failure_of(GenericFakeChatModel(messages=Script(*steps)), "one", max_retries=1)


# Calls at the same time


@pytest.mark.parametrize("limit", [1, 3])
@fakes.both_ways
def test_no_more_calls_at_the_same_time_than_the_limit(way: Way, limit: int) -> None:
    under_way: list[object] = []
    most = 0
    meeting = threading.Barrier(limit)

    def enter(messages: object) -> None:
        nonlocal most
        under_way.append(messages)
        most = max(most, len(under_way))

    def judge(messages: object) -> str:
        enter(messages)
        meeting.wait(30)  # an error unless as many calls are under way
        under_way.remove(messages)
        return answer_of(YES)

    async def ajudge(messages: object) -> str:
        enter(messages)
        await asyncio.sleep(0.01)  # time for others to begin
        under_way.remove(messages)
        return answer_of(YES)

    relevance = LMBasedRelevanceFilter(
        llm=RunnableLambda(judge, ajudge), batch_size=1, max_concurrency=limit, max_retries=0
    )
    texts = [f"heron {number}" for number in range(6)]
    kept = way.call(
        relevance.compress_documents, relevance.acompress_documents, documents_of(*texts), QUERY
    )
    assert texts_of(list(kept)) == texts
    assert all(document.metadata["is_relevant"] for document in kept)
    assert most == limit


async def test_a_cancelled_call_ends_all_calls() -> None:
    started: list[object] = []
    two = asyncio.Event()

    async def judge(messages: object) -> str:
        started.append(messages)
        if len(started) == 2:
            two.set()
        await asyncio.Event().wait()
        return "never"

    relevance = LMBasedRelevanceFilter(llm=RunnableLambda(judge), batch_size=1, max_concurrency=2)
    task = asyncio.ensure_future(relevance.acompress_documents(documents_of("a", "b", "c"), QUERY))
    await two.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    for _ in range(20):  # through the layers of LangChain
        await asyncio.sleep(0)
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert len(started) == 2


def test_a_model_sees_the_context_and_its_own_timeouts_are_failures() -> None:
    variable.set("of the caller")

    def answer(_: object) -> str:
        raise TimeoutError(f"the server says so, {variable.get()}")

    failure = failure_of(RunnableLambda(answer), "A heron.", max_retries=0)
    assert failure == "TimeoutError: the server says so, of the caller"
