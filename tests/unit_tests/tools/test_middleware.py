"""One budget for the passages of a whole conversation, in agents that follow a script."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain.agents import create_agent
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool as make_tool
from langgraph.checkpoint.memory import InMemorySaver

from langchain_rse.tools import RSEMiddleware, create_rse_tool, verify_quotes
from langchain_rse.tools.catalog import ContentType
from langchain_rse.tools.passages import format_passages, search_result_blocks, text_of_blocks
from tests.unit_tests import fakes
from tests.unit_tests.fakes import Way, lines, make_retriever
from tests.unit_tests.tools.scripted import ScriptedModel

way = fakes.way
SYNC = Way(None)

# Neighboring lines are a passage if their angles are near that of the query. "c" imitates the
# headings of passages.
LINE = "a line that is long enough " * 4
TEXTS = {
    "a": lines(0, 90, 180, name=LINE),
    "b": lines(2, 3, 92, 182, 184, 4, name="short "),
    "c": lines(1, 2, 3, 91, 92, 181, name="[1] c, characters "),
}
# The best passages for 0 and 90 degrees, as a model reads them.
PLACE_0, PLACE_90 = "a, characters 0–112", "a, characters 112–225"
TEXT_0, TEXT_90 = f"{PLACE_0}\n> {LINE}0 0", f"{PLACE_90}\n> {LINE}1 90"
LIMIT = 220  # one of them, with the room that the tool leaves for long headings, but not two
RETRIEVER = make_retriever(TEXTS, max_context_length=None)
THREAD = {"configurable": {"thread_id": "1"}}
Calls = list[dict[str, Any]]


def search(*angles: int) -> Calls:
    """The calls of a step, at once."""
    return [{"query": f"q {angle}"} for angle in angles]


def converse(
    way: Way, turns: Sequence[Sequence[Calls | str]], middleware: Any, tool: Any = None
) -> tuple[ScriptedModel, list[BaseMessage]]:
    """Let a model make the calls of each turn, then answer; return it, and the messages.

    A text in a turn is the model's answer, by default one without citations.
    """
    script: list[str | Calls] = []
    for turn in turns:
        script += turn if isinstance(turn[-1], str) else [*turn, "answer"]
    model = ScriptedModel(script=script)
    tools = [] if tool is None else [tool]
    app = create_agent(model, tools, middleware=middleware, checkpointer=InMemorySaver())
    for _ in turns:
        state = way.invoke(app, {"messages": [HumanMessage("?")]}, THREAD)
    return model, state["messages"]


def answers(messages: Sequence[BaseMessage]) -> list[ToolMessage]:
    return [message for message in messages if isinstance(message, ToolMessage)]


def passages_of(message: ToolMessage) -> list[Document]:
    """The artifact, which a checkpointer may have made dicts of."""
    fields = [vars(each) if isinstance(each, Document) else each for each in message.artifact]
    return [Document(each["page_content"], metadata=each["metadata"]) for each in fields]


def number_of(passage: Document) -> int:
    number: int = passage.metadata["rse"]["number"]
    return number


def exact_text(passage: Document, content: ContentType) -> str:
    if content == "text":
        return format_passages([passage])
    return text_of_blocks(search_result_blocks([passage]))


def text_of(message: ToolMessage) -> str:
    if isinstance(message.content, str):
        return message.content
    return "\n\n".join(text_of_blocks([block]) for block in message.content)  # type: ignore[list-item]


def removed(*numbers: int) -> str:
    listed = ", ".join(f"[{number}]" for number in numbers)
    return f"Removed to make room: {listed}. Search again to read it."


def contents(messages: Sequence[BaseMessage]) -> list[Any]:
    return [message.content for message in answers(messages)]


@fakes.both_ways
def test_in_the_next_turn_old_passages_make_room_and_can_be_found_again(way: Way) -> None:
    tool = create_rse_tool(RETRIEVER, k=1, max_context_length=LIMIT)
    budget = RSEMiddleware(tool, max_context_length=LIMIT)
    assert repr(budget) == f"RSEMiddleware({tool.name}, max_context_length={LIMIT})"
    model, messages = converse(way, [[search(0)], [search(90)], [search(0)]], [budget])

    assert contents(model.read[1]) == [f"[1] {TEXT_0}"]
    assert contents(model.read[3]) == [removed(1), f"[2] {TEXT_90}"]
    # Shown again, and not "not repeated": the tool reads what the model does.
    assert contents(model.read[-1]) == [removed(1), removed(2), f"[3] {TEXT_0}"]
    # The state keeps everything.
    assert contents(messages) == [f"[1] {TEXT_0}", f"[2] {TEXT_90}", f"[3] {TEXT_0}"]
    (passage,) = passages_of(answers(messages)[1])
    (quote,) = verify_quotes(f"“{LINE}1 90”", [passage])
    assert (quote.verdict, quote.number, quote.start_index) == ("exact", 2, 112)
    assert [message.id for message in model.read[-1]] == [message.id for message in messages[:-1]]


SIX = make_retriever({str(angle): lines(angle, name=LINE) for angle in range(0, 180, 30)})
THREE = 450  # the budget of three passages


@fakes.both_ways
def test_cited_passages_stay_longer_than_newer_ones(way: Way) -> None:
    tool = create_rse_tool(SIX, k=1, max_context_length=LIMIT)
    turns = [[search(angle), "See [1, 9]." if angle == 0 else "None."] for angle in (0, 30, 60, 90)]
    budget = RSEMiddleware(tool, max_context_length=THREE)
    model, messages = converse(way, turns, [budget])
    first, second, third, fourth = contents(messages)
    assert contents(model.read[-1]) == [first, removed(2), removed(3), fourth]
    assert contents(model.read[-3]) == [first, second, third]

    without_answers = [[call for turn in turns for call in turn if not isinstance(call, str)]]
    model, messages = converse(way, without_answers, [budget])
    third, fourth = contents(messages)[2:]
    assert contents(model.read[-1]) == [removed(1), removed(2), third, fourth]


def test_passages_that_claude_cites_stay() -> None:
    tool = create_rse_tool(SIX, k=1, max_context_length=LIMIT, content="search_results")
    budget = RSEMiddleware(tool, max_context_length=THREE)
    messages: list[Any] = []
    for angle in (0, 30, 60, 90):
        model = ScriptedModel(script=[search(angle), "answer"])
        app = create_agent(model, middleware=[budget])
        messages = SYNC.invoke(app, {"messages": [*messages, HumanMessage("?")]})["messages"]
        if angle == 0:
            cited = {"search_result_index": 0, "start_block_index": 0, "end_block_index": 1}
            title = answers(messages)[0].content[0]["title"]  # type: ignore[index]
            citation = {"type": "search_result_location", "title": title, **cited}
            text = {"type": "text", "text": "So.", "citations": [citation]}
            messages[-1] = AIMessage([text])
    first, second, third, fourth = answers(model.read[-1])
    assert [first.content, fourth.content] == [contents(messages)[0], contents(messages)[3]]
    for number, message in ((2, second), (3, third)):
        assert isinstance(message.content[0], dict)
        assert message.content[0]["title"] == removed(number)


steps = st.lists(
    st.lists(st.sampled_from([0, 3, 45, 90, 180]), min_size=1, max_size=3), min_size=1, max_size=6
)


@given(
    turns=st.lists(steps, min_size=1, max_size=3),
    limit=st.integers(200, 800),
    more=st.integers(0, 800),
    content=st.sampled_from(["text", "search_results"]),
)
def test_the_passages_of_a_request_are_within_the_budget(
    turns: list[list[list[int]]], limit: int, more: int, content: ContentType
) -> None:
    tool = create_rse_tool(RETRIEVER, k=3, max_context_length=limit, content=content)
    budget = RSEMiddleware(tool, max_context_length=limit + more)
    calls = [[search(*angles) for angles in turn] for turn in turns]
    model, messages = converse(SYNC, calls, [budget])

    passages = [passage for message in answers(messages) for passage in passages_of(message)]
    assert len({number_of(passage) for passage in passages}) == len(passages)
    for request in model.read:
        read = "\n\n".join(text_of(message) for message in answers(request))
        shown = [passage for passage in passages if exact_text(passage, content) in read]
        texts = [exact_text(passage, content) for passage in shown]
        assert sum(map(len, texts)) <= limit + more
        # Of other passages, nothing is left.
        of_passages = [line for text in texts for line in text.splitlines() if line[:1] == ">"]
        assert sorted(of_passages) == sorted(line for line in read.splitlines() if line[:1] == ">")
        check_newest(request, messages, {number_of(passage) for passage in shown})


def check_newest(request: list[BaseMessage], kept: list[BaseMessage], shown: set[int]) -> None:
    """Check what the model reads for the first time: whole, and what it refers to is there."""
    before = max(
        (place for place, each in enumerate(request) if isinstance(each, AIMessage)), default=-1
    )
    newest = answers(request[before + 1 :])
    if len(newest) == 1:
        (original,) = (each for each in answers(kept) if each.id == newest[0].id)
        assert newest[0].content == original.content
    for message in newest:
        text = text_of(message)
        for listed in re.findall(r"(?m)not repeated: (.*?)\.(?: |$)", text):
            assert {int(number) for number in re.findall(r"\d+", listed)} <= shown


def test_several_tools_share_the_budget_and_other_tools_are_left_alone() -> None:
    @make_tool
    def clock() -> str:
        """Say what time it is."""
        return "[1] noon\n> o'clock"

    one = create_rse_tool(RETRIEVER, name="one", k=1, max_context_length=LIMIT)
    two = create_rse_tool(RETRIEVER, name="two", k=1, max_context_length=LIMIT)
    model = ScriptedModel(script=[], tool="one")
    middleware = [RSEMiddleware(one, two, max_context_length=LIMIT)]
    messages: list[Any] = [HumanMessage("?")]
    calls: dict[str, Calls] = {"one": search(0), "clock": [{}], "two": search(90)}
    for name, arguments in calls.items():
        model = ScriptedModel(script=[arguments, "answer"], tool=name)
        app = create_agent(model, [clock], middleware=middleware)
        messages = SYNC.invoke(app, {"messages": messages})["messages"]
    assert contents(model.read[-1]) == [removed(1), clock.invoke({}), f"[2] {TEXT_90}"]
    with pytest.raises(ValueError, match="at least that of the tool 'one', 220; got 100"):
        RSEMiddleware(one, two, max_context_length=100)
    with pytest.raises(TypeError, match=r"pass several one by one.*; got a list of 2"):
        RSEMiddleware([one, two], max_context_length=LIMIT)  # type: ignore[arg-type]
