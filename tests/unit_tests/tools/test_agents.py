"""The search tool in an agent and in a plain graph, with a model that follows a script."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import Annotated, Any

import pytest
from langchain.agents import create_agent
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import ToolNode, tools_condition
from typing_extensions import TypedDict

from langchain_rse.tools import create_rse_tool
from tests.unit_tests import fakes
from tests.unit_tests.fakes import Way, lines, make_retriever
from tests.unit_tests.tools.scripted import ScriptedModel

way = fakes.way
SYNC = Way(None)

# By the angle to the query: the first search finds a, then b; c is not relevant enough to either.
TEXTS = {
    "a": lines(5, 6, 90, 90, 30, 31, name="a"),
    "b": lines(40, 90, 90, 42, name="b"),
    "c": lines(89, name="c"),
}


def agent(model: ScriptedModel, tool: Any) -> Any:
    return create_agent(model, [tool], checkpointer=InMemorySaver())


class Chat(TypedDict):
    chat: Annotated[list[AnyMessage], add_messages]


def graph_of_another_key(model: ScriptedModel, tool: Any, node: Any = None) -> Any:
    builder = StateGraph(Chat)
    bound = model.bind_tools([tool])
    builder.add_node("model", lambda state: {"chat": [bound.invoke(state["chat"])]})
    builder.add_node("tools", node or ToolNode([tool], messages_key="chat"))
    builder.add_edge(START, "model")
    builder.add_conditional_edges("model", lambda state: tools_condition(state, "chat"))
    builder.add_edge("tools", "model")
    return builder.compile(checkpointer=InMemorySaver())


def graph_that_hands_over_messages(model: ScriptedModel, tool: Any) -> Any:
    called = RunnableLambda(lambda state: state["chat"]) | ToolNode([tool])
    return graph_of_another_key(model, tool, called | (lambda answers: {"chat": answers}))


KINDS = {
    "agent": agent,
    "another key": graph_of_another_key,
    "key, but a list for the node": graph_that_hands_over_messages,
}
ANGLES = (40, 5, 90, 5, 41)


def ask(way: Way, app: Any, question: str = "?", key: str = "messages") -> list[BaseMessage]:
    thread = {"configurable": {"thread_id": "1"}}
    state = way.invoke(app, {key: [HumanMessage(question)]}, thread)
    messages: list[BaseMessage] = state[key]
    return messages


def searches(messages: Sequence[BaseMessage]) -> list[ToolMessage]:
    return [message for message in messages if isinstance(message, ToolMessage)]


def headings(message: ToolMessage) -> list[str]:
    return re.findall(r"(?m)^(\[\d+\] .*)$", str(message.content))


@pytest.mark.parametrize("kind", KINDS)
@fakes.both_ways
def test_a_model_that_asks_twice_reads_other_passages(way: Way, kind: str) -> None:
    tool = create_rse_tool(make_retriever(TEXTS, max_context_length=None), k=2)
    model = ScriptedModel(script=[[{"query": "q 0"}], [{"query": "q 0"}], "b4 42 is in [3]"])
    messages = ask(way, KINDS[kind](model, tool), key="chat" if "key" in kind else "messages")

    first, second = searches(messages)
    assert [heading.split(",")[0] for heading in headings(first)] == ["[1] a", "[2] a"]
    assert [heading.split(",")[0] for heading in headings(second)] == ["[3] b", "[4] b"]
    assert str(second.content).endswith("Found again, not repeated: [1], [2].")
    assert [passage.metadata["rse"]["number"] for passage in second.artifact] == [3, 4]
    for passage in [*first.artifact, *second.artifact]:
        start, end = passage.metadata["start_index"], passage.metadata["end_index"]
        assert TEXTS[passage.metadata["doc_id"]][start:end] == passage.page_content
        assert f"characters {start:,}–{end:,}" in str(first.content) + str(second.content)
    assert model.read[-1][-1].content == second.content  # the model was told so


def test_numbers_go_on_in_the_next_turn_of_a_conversation() -> None:
    tool = create_rse_tool(make_retriever(TEXTS, max_context_length=None), k=1)
    script: list[Any] = [[{"query": "q 0"}], "[1]", [{"query": "q 0"}], "[2]"]
    app = agent(ScriptedModel(script=script), tool)
    ask(SYNC, app)
    first, second = searches(ask(SYNC, app, "And?"))
    assert [headings(message)[0][:4] for message in (first, second)] == ["[1] ", "[2] "]
    other_conversation = agent(ScriptedModel(script=script), tool)
    (message,) = searches(ask(SYNC, other_conversation))
    assert headings(message)[0][:4] == "[1] "


def test_names_in_a_conversation_hold_for_other_processes() -> None:
    retriever = make_retriever({"/a/n": lines(5, name="a"), "/b/n": lines(85, name="b")})
    messages: Any = [HumanMessage("?")]
    for angle in (90, 0):
        model = ScriptedModel(script=[[{"query": f"q {angle}"}], "."])
        app = create_agent(model, [create_rse_tool(retriever, k=1)])
        messages = SYNC.invoke(app, {"messages": messages})["messages"]
    assert [headings(each)[0][:8] for each in searches(messages)] == ["[1] n, c", "[2] a/n,"]


@fakes.both_ways
def test_a_passage_that_was_shown_in_part_goes_on_where_it_ended(way: Way) -> None:
    texts = {"a": "".join(f"{name} {angle}\n" for name, angle in zip("vwxyz", ANGLES, strict=True))}
    retriever = make_retriever(texts, irrelevant_chunk_penalty=0.3)
    tool = create_rse_tool(retriever, max_context_length=140)
    wide = create_rse_tool(retriever, max_context_length=1000, name="wide")
    model = ScriptedModel(script=[[{"query": "q 0"}], "."])
    messages = ask(way, agent(model, tool))
    (first,) = searches(messages)
    model = ScriptedModel(script=[[{"query": "q 0"}], "."], tool="wide")
    (_, second) = searches(
        way.invoke(create_agent(model, [wide]), {"messages": messages})["messages"]
    )
    shown = [passage.metadata for passage in [*first.artifact, *second.artifact]]
    spans = sorted((passage["start_index"], passage["end_index"]) for passage in shown)
    assert len(first.artifact) == 1
    assert second.artifact
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(spans))
    assert "not repeated: [1]" in str(second.content)
    for passage in second.artifact:
        start, end = passage.metadata["start_index"], passage.metadata["end_index"]
        assert passage.page_content == texts["a"][start:end]
        chunks = [chunk["index"] for chunk in passage.metadata["rse"]["chunks"]]
        rse = passage.metadata["rse"]
        assert chunks == list(range(rse["chunk_start"], rse["chunk_end"]))


@pytest.mark.parametrize(
    "artifact",
    [
        [1, None, "text"],
        [{"metadata": "text"}],
        [{"metadata": {"rse": True}}],
        [Document("text", metadata={"rse": {"number": 1}})],
    ],
    ids=str,
)
def test_what_other_tools_leave_in_a_conversation_is_passed_over(artifact: Any) -> None:
    before = [
        AIMessage("", tool_calls=[{"name": "other", "args": {}, "id": "a"}]),
        ToolMessage("[1] text", tool_call_id="a", name="other", artifact=artifact),
    ]
    model = ScriptedModel(script=[[{"query": "q 0"}], "."])
    app = create_agent(model, [create_rse_tool(make_retriever(TEXTS))])
    *_, answer, _ = SYNC.invoke(app, {"messages": before})["messages"]
    assert str(answer.content).startswith("[1] ")


def test_passages_whose_text_was_taken_out_of_the_conversation_are_shown_again() -> None:
    tool = create_rse_tool(make_retriever(TEXTS, max_context_length=None), k=1)
    model = ScriptedModel(script=[[{"query": "q 0"}], "."])
    messages = ask(SYNC, agent(model, tool))
    for message in searches(messages):
        message.content = "[cleared]"
    model = ScriptedModel(script=[[{"query": "q 0"}], "."])
    state = SYNC.invoke(create_agent(model, [tool]), {"messages": messages})
    _, again = searches(state["messages"])
    (before,), (after,) = searches(messages)[0].artifact, again.artifact
    assert after.page_content == before.page_content
    numbers = [passage.metadata["rse"]["number"] for passage in (before, after)]
    assert numbers == [1, 2]  # an answer may have cited [1]
