"""Citations of Claude, by LangChain's integration over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.documents import Document
from langchain_core.messages import BaseMessage, HumanMessage, ToolMessage
from pydantic import SecretStr

from langchain_rse.tools import create_rse_tool, locate_citations
from tests.integration_tests.citing_server import CitingServer, citing_server, results_in
from tests.unit_tests import fakes
from tests.unit_tests.fakes import Way, lines, make_retriever

way = fakes.way
KEY = SecretStr("a-key")

TEXTS = {
    "a": lines(5, 6, 90, 90, 30, 31, name="a"),
    "b": lines(40, 90, 90, 42, name="b"),
}


@pytest.fixture
def server() -> Iterator[CitingServer]:
    with citing_server(["q 0", "q 0", "q 1"]) as running:
        yield running


_opened: list[Any] = []


@pytest.fixture(autouse=True)
def _closed(way: Way) -> Iterator[None]:
    """Closes the clients, which LangChain keeps open, on the loop that they were used on."""
    yield
    for model in _opened:
        way.call(model._client.close, model._async_client.close)
    _opened.clear()


def claude(server: CitingServer, **kwargs: Any) -> Any:
    # Takes a fifth of all imports: not in each process that collects tests.
    from langchain_anthropic import ChatAnthropic

    model = ChatAnthropic(model_name="a-claude", base_url=server.url, api_key=KEY, **kwargs)
    _opened.append(model)
    return model


def passages_of(messages: list[BaseMessage]) -> list[Document]:
    found = [message.artifact for message in messages if isinstance(message, ToolMessage)]
    return [passage for artifact in found for passage in artifact or []]


def check(answer: BaseMessage, passages: list[Document], texts: dict[str, str]) -> None:
    """All chunks of all passages are cited, and each citation leads to its characters."""
    citations = locate_citations(answer, passages)
    for citation in citations:
        assert citation.doc_id is not None
        place = slice(citation.start_index, citation.end_index)
        assert texts[citation.doc_id][place] == citation.found
        assert answer.text[citation.start : citation.end] == citation.text
        assert citation.text.startswith("Claim ")
    for passage in passages:
        number = passage.metadata["rse"]["number"]
        cited = [citation.found for citation in citations if citation.number == number]
        assert "".join(cited) == passage.page_content
        assert len(cited) == len(passage.metadata["rse"]["chunks"])


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("version", ["v0", "v1"])
@fakes.both_ways
def test_an_agent(way: Way, server: CitingServer, version: str, *, streaming: bool) -> None:
    """It searches several times, and no passage is shown twice."""
    retriever = make_retriever(TEXTS, max_context_length=None)
    tool = create_rse_tool(retriever, k=2, content="search_results")
    agent = create_agent(claude(server, output_version=version, streaming=streaming), [tool])
    messages = way.invoke(agent, {"messages": [HumanMessage("?")]})["messages"]
    first, second, third = (each for each in messages if isinstance(each, ToolMessage))
    assert [len(each.artifact) for each in (first, second, third)] == [2, 2, 0]
    assert str(third.content).startswith("Nothing else was found for 'q 1'. Found again, not")
    passages = passages_of(messages)
    assert [passage.metadata["rse"]["number"] for passage in passages] == [1, 2, 3, 4]
    assert len(results_in(server.requests[-1])) == 4
    check(messages[-1], passages, TEXTS)


def test_the_answer_goes_back_with_its_citations(server: CitingServer) -> None:
    tool = create_rse_tool(make_retriever(TEXTS), content="search_results")
    agent = create_agent(claude(server), [tool])
    messages = agent.invoke({"messages": [HumanMessage("?")]})["messages"]
    again = agent.invoke({"messages": [*messages, HumanMessage("And?")]})["messages"]
    check(again[-1], passages_of(again), TEXTS)
