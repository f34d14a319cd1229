"""The tools of the MCP server: none of them reads what a filter or namespace excludes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.stores import InMemoryStore
from langchain_core.vectorstores import InMemoryVectorStore
from mcp.server.fastmcp.exceptions import ToolError

from langchain_rse import RSERetriever
from langchain_rse.tools.mcp import create_mcp_server
from tests.unit_tests import fakes

SECRET = "the finance plan"  # noqa: S105
# What a curious caller asks of each tool. A tool that is not here fails the test.
CALLS: dict[str, dict[str, Any]] = {
    "search": {"query": "plan finance secret"},
    "read_around": {"document": "finance", "start": 0, "end": 999},
    "list_documents": {},
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


@pytest.mark.parametrize(
    "make", [with_filter, with_inner_filter, with_unknown_filter, in_a_namespace]
)
async def test_no_tool_shows_what_the_application_excludes(
    make: Callable[[], RSERetriever],
) -> None:
    server = create_mcp_server(make())
    tools = [tool.name for tool in await server.list_tools()]
    assert sorted(tools) == sorted(CALLS)
    for tool in tools:
        try:
            answer = str(await server.call_tool(tool, CALLS[tool]))
        except ToolError as error:
            answer = str(error)
        assert SECRET not in answer
        if tool == "list_documents":
            assert "finance" not in answer
    assert "a plan for everyone" in str(await server.call_tool("search", CALLS["search"]))


async def test_a_filter_that_cannot_be_applied_leaves_searching_alone() -> None:
    server = create_mcp_server(with_unknown_filter())
    for tool in ("read_around", "list_documents"):
        with pytest.raises(ToolError, match="cannot be applied to a document as a whole"):
            await server.call_tool(tool, CALLS[tool])


async def test_a_long_query_is_refused() -> None:
    server = create_mcp_server(with_filter())
    with pytest.raises(ToolError, match="at most 10000 characters"):
        await server.call_tool("search", {"query": "q" * 10_001})


async def test_a_call_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async def sleep(*_: Any, **__: Any) -> None:
        await asyncio.sleep(30)

    monkeypatch.setattr(DictStore, "asimilarity_search_with_score", sleep)
    server = create_mcp_server(with_filter(), timeout=0.05)
    with pytest.raises(ToolError):
        await server.call_tool("search", {"query": "plan"})


async def test_a_question_about_something_else_gets_a_sentence() -> None:
    retriever = fakes.make_retriever({"a": fakes.lines(60, 80)}, score_floor=0.9)
    answer = str(await create_mcp_server(retriever).call_tool("search", {"query": fakes.QUERY}))
    assert "Nothing in these documents is about this: the nearest passage is in a" in answer
