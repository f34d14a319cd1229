"""The tools of the MCP server: none of them reads what a filter or namespace excludes."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.stores import InMemoryStore
from langchain_core.vectorstores import InMemoryVectorStore
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import TextContent

from langchain_rse import RSERetriever
from langchain_rse.tools import create_mcp_server
from langchain_rse.tools.catalog import ToolSet
from tests.unit_tests import fakes

SECRET = "the finance plan"  # noqa: S105
# What a curious caller asks of each tool. A tool that is not here fails the test.
CALLS: dict[str, dict[str, Any]] = {
    "search": {"query": "plan finance secret"},
    "find": {"pattern": "plan"},
    "outline": {},
    "read": {"document": "finance", "start": 0, "end": 999},
    "fetch": {"id": "finance#0-16"},
}
TOOLS: dict[ToolSet, list[str]] = {
    "passages": ["search", "find", "outline", "read"],
    "connector": ["search", "fetch"],
}


class DictStore(InMemoryVectorStore):
    """Takes filters as dicts, as Chroma does."""

    def similarity_search_with_score(
        self, query: str, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        condition = kwargs.get("filter") or {}

        def passes(document: Document) -> bool:
            if callable(condition):
                return bool(condition(document))
            return all(document.metadata.get(name) == condition[name] for name in condition)

        return super().similarity_search_with_score(query, k, filter=passes)

    async def asimilarity_search_with_score(self, *args: Any, **kwargs: Any) -> Any:
        return self.similarity_search_with_score(*args, **kwargs)


def documents() -> list[Document]:
    return [
        Document("a plan for everyone", id="public", metadata={"group": "all"}),
        Document(SECRET, id="finance", metadata={"group": "finance", "source": "finance"}),
    ]


def with_filter() -> RSERetriever:
    retriever = RSERetriever(
        vectorstore=DictStore(fakes.BagOfWords()),
        docstore=InMemoryStore(),
        search_kwargs={"filter": {"group": "all"}},
    )
    retriever.add_documents(documents())
    return retriever


def with_inner_filter() -> RSERetriever:
    source = with_filter()
    assert source.vectorstore is not None
    inner = source.vectorstore.as_retriever(search_kwargs={"k": 50, "filter": {"group": "all"}})
    return RSERetriever(base_retriever=inner, docstore=source.docstore)


def with_unknown_filter() -> RSERetriever:
    retriever = with_filter()
    retriever.candidates_only = True
    retriever.search_kwargs = {"filter": lambda document: document.metadata["group"] == "all"}
    return retriever


def in_a_namespace() -> RSERetriever:
    vectorstore, docstore = InMemoryVectorStore(fakes.BagOfWords()), InMemoryStore()
    for name, document in zip(("acme", "globex"), documents(), strict=True):
        retriever = RSERetriever(vectorstore=vectorstore, docstore=docstore, namespace=name)
        retriever.add_documents([document])
    return RSERetriever(vectorstore=vectorstore, docstore=docstore, namespace="acme")


@pytest.mark.parametrize("tools", TOOLS)
@pytest.mark.parametrize(
    "make", [with_filter, with_inner_filter, with_unknown_filter, in_a_namespace]
)
async def test_no_tool_shows_what_the_application_excludes(
    make: Callable[[], RSERetriever], tools: ToolSet
) -> None:
    server = create_mcp_server(make(), tools=tools)
    names = [tool.name for tool in await server.list_tools()]
    assert names == TOOLS[tools]
    for tool in names:
        try:
            answer = str(await server.call_tool(tool, CALLS[tool]))
        except ToolError as error:
            answer = str(error)
        assert SECRET not in answer
        if tool == "outline":
            assert "finance" not in answer
            assert "public, 19" in answer or "cannot be applied" in answer
    assert "a plan for everyone" in str(await server.call_tool("search", CALLS["search"]))


@pytest.mark.parametrize("tools", TOOLS)
async def test_a_store_that_fails_tells_clients_nothing_of_itself(
    tools: ToolSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: Any, **__: Any) -> None:
        raise ConnectionError("db.internal:5432 refused user rse")

    monkeypatch.setattr(DictStore, "asimilarity_search_with_score", fail)
    server = create_mcp_server(with_filter(), tools=tools)
    with pytest.raises(ToolError) as caught:
        await server.call_tool("search", {"query": "plan"})
    assert "internal" not in str(caught.value)


def library(ids: list[str]) -> RSERetriever:
    retriever = RSERetriever(
        vectorstore=InMemoryVectorStore(fakes.BagOfWords()), docstore=InMemoryStore()
    )
    retriever.add_documents([Document(f"text of {doc_id[-40:]}", id=doc_id) for doc_id in ids])
    return retriever


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("read", {"document": "a/" * 300_000}),
        ("find", {"pattern": "q" * 1_001}),
        ("search", {"query": "q" * 10_001}),
    ],
)
async def test_long_arguments_are_refused_at_once(tool: str, arguments: dict[str, Any]) -> None:
    server = create_mcp_server(library(["a"]))
    with pytest.raises(ToolError, match=r"at most 4096|at most 1000"):
        await server.call_tool(tool, arguments)


@pytest.mark.parametrize("tool", TOOLS["passages"])
async def test_a_slow_docstore_stops_neither_the_loop_nor_the_time_limit(
    tool: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    retriever = library(["finance"])
    proceed = threading.Event()
    monkeypatch.setattr(InMemoryStore, "mget", lambda *_: proceed.wait(5))
    server = create_mcp_server(retriever, timeout=0.05)
    start = time.monotonic()
    try:
        with pytest.raises(ToolError, match=r"no answer within 0\.05 seconds"):
            await server.call_tool(tool, CALLS[tool])
        assert time.monotonic() - start < 1
    finally:
        proceed.set()
    # The call ends, with its thread, when the store answers.
    running = asyncio.all_tasks() - {asyncio.current_task()}
    if running:
        _, running = await asyncio.wait(running, timeout=2)
    assert not running


async def text_of(
    retriever: RSERetriever,
    tool: str,
    tools: ToolSet = "passages",
    settings: Any = {},  # noqa: B006
    **arguments: Any,
) -> str:
    server = create_mcp_server(retriever, tools=tools, **settings)
    answer = await server.call_tool(tool, arguments)
    [content] = answer.content
    assert isinstance(content, TextContent)
    return content.text


async def test_answers_are_short_whatever_the_names() -> None:
    retriever = library(["x" * 300_000, *(f"/{number}/README.md" for number in range(500))])
    for tool, arguments in (
        ("outline", {}),
        ("search", {"query": "text of xxxx"}),
        ("find", {"pattern": "x"}),
        ("read", {"document": "README.md"}),
        ("read", {"document": "README"}),
    ):
        try:
            text = await text_of(retriever, tool, **arguments)
        except ToolError as error:
            text = str(error)
            assert "100/README.md" in text
            assert "/100" not in text  # no absolute path
            assert "495 more" in text
        assert len(text) < 25_000
    text = await text_of(retriever, "read", document="100/README.md", end=9)
    assert text.startswith("[1] README.md, characters 0–9\n")


@pytest.mark.parametrize(
    ("tool", "arguments", "takes"),
    [
        ("search", {"query": "plan", "document": "b.md"}, "search takes query."),
        (
            "read",
            {"document": "a", "heading": "B"},
            "read takes document, section, page, start, end.",
        ),
        ("find", {}, "find takes pattern, regex, offset."),
    ],
)
async def test_unknown_arguments_are_refused_with_the_names_that_exist(
    tool: str, arguments: dict[str, Any], takes: str
) -> None:
    server = create_mcp_server(library(["a"]))
    with pytest.raises(ToolError, match=re.escape(takes)):
        await server.call_tool(tool, arguments)
    with pytest.raises(ToolError, match="there is no tool 'fetch'; there are search, find, "):
        await server.call_tool("fetch", {})


async def test_arguments_that_hosts_add_are_ignored() -> None:
    added = {"toolCallId": "call_1", "sessionId": "1", "action": "sendMessage"}
    assert "text of a" in await text_of(library(["a"]), "read", document="a", **added)


# The tools of a connector


async def call_connector(
    retriever: RSERetriever, tool: str, arguments: dict[str, Any], **settings: Any
) -> dict[str, Any]:
    """The answer of a tool, JSON in one piece."""
    answer = await text_of(retriever, tool, tools="connector", settings=settings, **arguments)
    return dict(json.loads(answer))


async def search(retriever: RSERetriever, **settings: Any) -> list[dict[str, str]]:
    answer = await call_connector(retriever, "search", {"query": fakes.QUERY}, **settings)
    assert answer.keys() == {"results"}
    found: list[dict[str, str]] = answer["results"]
    return found


async def test_a_connector_has_the_schemas_that_its_clients_ask_for() -> None:
    server = create_mcp_server(with_filter(), tools="connector")
    by_name = {tool.name: tool for tool in await server.list_tools()}
    for name, argument in (("search", "query"), ("fetch", "id")):
        tool = by_name[name]
        assert tool.input_schema["required"] == [argument]
        assert tool.input_schema["properties"].keys() == {argument}
        assert tool.input_schema["properties"][argument]["type"] == "string"
        assert tool.annotations is not None
        assert tool.annotations.read_only_hint


async def test_what_search_finds_can_be_fetched() -> None:
    text = fakes.lines(60, 80)
    results = await search(fakes.make_retriever({"a": text}))
    assert results
    for result in results:
        assert result.keys() == {"id", "title", "text", "url"}
        assert result["text"] in text
        fetched = await call_connector(
            fakes.make_retriever({"a": text}), "fetch", {"id": result["id"]}
        )
        assert {name: fetched[name] for name in ("id", "title", "url")} == {
            name: result[name] for name in ("id", "title", "url")
        }
        assert fetched["text"] == text  # which is short
        assert fetched["metadata"] == {
            "source": "a",
            "start_index": 0,
            "end_index": len(text),
            "document_length": len(text),
        }


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (0, 10, (0, 20_000)),
        (10_000, 45_000, (10_000, 30_000)),
        (49_990, 999_999, (30_000, 50_000)),
    ],
)
async def test_fetch_reads_at_most_20_000_characters_around_a_passage(
    start: int, end: int, expected: tuple[int, int]
) -> None:
    text = "".join(f"{number:09} " for number in range(5_000))
    retriever = fakes.make_retriever({"a#b": text})
    fetched = await call_connector(retriever, "fetch", {"id": f"a#b#{start}-{end}"})
    assert fetched["text"] == text[slice(*expected)]
    assert fetched["metadata"]["start_index"] == expected[0]
    assert fetched["metadata"]["document_length"] == 50_000


@pytest.mark.parametrize("document", ["finance", "nowhere"])
async def test_an_excluded_document_and_none_give_the_same_error(document: str) -> None:
    server = create_mcp_server(with_filter(), tools="connector")
    for suffix, message in (
        ("#0-9", f"there is no document '{document}', or the filter excludes it"),
        ("", f"no passage has the id '{document}'"),
        ("#-1-9", f"no passage has the id '{document}#-1-9'"),
        (f"#{'9' * 500}-9", "no passage has the id"),
    ):
        with pytest.raises(ToolError, match=message):
            await server.call_tool("fetch", {"id": f"{document}{suffix}"})


async def test_an_address_on_the_web_is_the_url_and_others_are_not() -> None:
    web = "https://example.org/birds#herons"
    for source, url in ((web, web), ("/srv/birds.txt", ""), ("javascript:alert(1)", "")):
        retriever = RSERetriever(
            vectorstore=InMemoryVectorStore(fakes.BagOfWords()), docstore=InMemoryStore()
        )
        retriever.add_documents([Document(fakes.lines(9, 3), metadata={"source": source})])
        (result, *_) = await search(retriever)
        assert result["url"] == url
        name = source.removeprefix("/srv/")
        assert result["title"].startswith(name)
        fetched = await call_connector(retriever, "fetch", {"id": result["id"]})
        assert (fetched["url"], fetched["metadata"]["source"]) == (url, name)
