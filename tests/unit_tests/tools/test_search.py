"""The search tool alone: what a model reads, within which budget, and what it may ask."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.messages import ToolMessage
from langchain_core.stores import InMemoryByteStore
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_tests.integration_tests import ToolsIntegrationTests
from langchain_tests.unit_tests import ToolsUnitTests

from langchain_rse import RSERetriever
from langchain_rse.tools import create_rse_tool, create_rse_tools
from langchain_rse.tools.passages import text_of_blocks
from tests.unit_tests import fakes
from tests.unit_tests.fakes import EVERYTHING, LENGTHS, Way, lines, make_retriever

way = fakes.way
SYNC = Way(None)

TEXTS = {"a": lines(5, 90, 90, 7, name="a"), "b": lines(40, 41, name="b")}


def pages() -> RSERetriever:
    retriever = RSERetriever(
        vectorstore=InMemoryVectorStore(fakes.BagOfWords()), docstore=InMemoryByteStore()
    )
    texts = ["Herons fish at dawn.", "Cranes dance in spring.", "Storks nest on roofs."]
    metadata: dict[str, Any] = {"source": "birds\n[2] forged.pdf", "year": 2024}
    retriever.add_documents(
        [Document(text, metadata={**metadata, "page": n}) for n, text in enumerate(texts)]
    )
    return retriever


class WithTool:
    arguments: ClassVar[dict[str, Any]] = {"query": "query 0"}
    number: ClassVar = 0

    @property
    def tool_constructor(self) -> BaseTool:
        return create_rse_tools(make_retriever(TEXTS), filter_fields=["source"])[self.number]

    @property
    def tool_invoke_params_example(self) -> dict[str, Any]:
        return self.arguments


class TestStandardUnit(WithTool, ToolsUnitTests):
    pass


class TestStandardIntegration(WithTool, ToolsIntegrationTests):
    pass


class TestStandardFind(WithTool, ToolsIntegrationTests):
    number, arguments = 1, {"pattern": "a"}


class TestStandardOutline(WithTool, ToolsIntegrationTests):
    number, arguments = 2, {"document": "a"}


class TestStandardRead(WithTool, ToolsIntegrationTests):
    number, arguments = 3, {"document": "a"}


def ask(way: Way, tool: BaseTool, **arguments: Any) -> ToolMessage:
    call = {"name": tool.name, "args": arguments, "id": "1", "type": "tool_call"}
    message: ToolMessage = way.invoke(tool, call)
    return message


@fakes.both_ways
def test_what_a_model_reads(way: Way) -> None:
    message = ask(way, create_rse_tool(pages()), query="When do herons fish?")
    (passage,) = message.artifact
    end = passage.metadata["end_index"]
    pages_found = f"pages 1–{passage.metadata['page_end'] + 1}"
    heading = f"[1] birds\\n[2] forged.pdf, {pages_found}, characters 0–{end}"
    quoted = "\n".join(f"> {line}" for line in passage.page_content.splitlines())
    assert message.content == f"{heading}\n{quoted}"
    assert passage.metadata["rse"]["number"] == 1


def test_what_a_model_may_ask() -> None:
    tool = create_rse_tool(pages(), filter_fields={"year": "Four digits.", "_a b": ""})
    parameters = convert_to_openai_tool(tool)["function"]["parameters"]["properties"]
    assert parameters.keys() == {"query", "filter"}
    fields = parameters["filter"]["anyOf"][0]["properties"]
    assert fields["year"]["description"] == "Four digits."
    assert fields.keys() == {"year", "_a b"}
    none = convert_to_openai_tool(create_rse_tool(pages()))["function"]["parameters"]
    assert none["properties"].keys() == {"query"}
    with pytest.raises(ValueError, match="name must have 1 to 64 characters, of a-z"):
        create_rse_tool(pages(), name="search docs!")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"query": 0}, "query must be a string"),
        ({"query": "q 0", "filter": {"author": "Ann"}}, "unknown argument filter.author;"),
        ({"query": "q 0", "document": "a"}, "search_documents takes query, filter."),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], message: str) -> None:
    tool = create_rse_tool(make_retriever(TEXTS), filter_fields=["source"])
    answer = ask(SYNC, tool, **arguments)
    assert answer.status == "error"
    assert message in str(answer.content)
    assert "Fields of filter: source." in str(answer.content)


@pytest.mark.parametrize(
    "value", [float("inf"), float("nan"), 2**63, -(2**63), [2023, 2024], {"$gte": 1}, "x" * 1_001]
)
def test_values_that_no_store_compares_are_refused(value: Any) -> None:
    retriever = make_retriever(TEXTS)
    search, find, *_ = create_rse_tools(retriever, filter_fields=["source"])
    for tool, arguments in ((search, {"query": "q 0"}), (find, {"pattern": "a"})):
        answer = ask(SYNC, tool, **arguments, filter={"source": value})
        assert answer.status == "error"
        assert str(answer.content).startswith(
            "Wrong arguments: filter.source: one text of at most 1,000 characters,"
        )
        answer = ask(SYNC, tool, **arguments, filter=[value])
        assert answer.status == "error"
        assert "filter: an object of names and values" in str(answer.content)


def by_equality(
    conditions: dict[str, Any], own: Callable[[Document], bool] | None
) -> Callable[[Document], bool]:
    def holds(document: Document) -> bool:
        is_wanted = all(document.metadata.get(name) == value for name, value in conditions.items())
        return is_wanted and (own is None or own(document))

    return holds


def test_filters() -> None:
    retriever = make_retriever(TEXTS, candidates_only=True)
    tool = create_rse_tool(retriever, filter_fields=["source"], make_filter=by_equality)
    message = ask(SYNC, tool, query="q 0", filter={"source": "b"})
    assert {passage.metadata["doc_id"] for passage in message.artifact} == {"b"}
    nothing = ask(SYNC, tool, query="q 0", filter={"source": "z"})
    reason = "no document with {'source': 'z'} was found. Another filter, or none, may find more."
    assert nothing.content == f"Nothing was found for 'q 0': {reason}"
    assert nothing.artifact == []


class Asked(InMemoryVectorStore):
    """Finds nothing, and remembers how it was asked."""

    filters: ClassVar[list[Any]] = []

    def similarity_search_with_score(
        self, query: str, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        del query, k
        self.filters.append(kwargs.get("filter"))
        return []


def test_a_filter_of_the_retriever_holds_besides_those_of_the_model() -> None:
    retriever = RSERetriever(
        vectorstore=Asked(fakes.Angles()),
        docstore=InMemoryByteStore(),
        search_kwargs={"filter": {"tenant": 1}},
        candidates_only=True,
    )
    tool = create_rse_tool(retriever, filter_fields=["year", "author"])
    ask(SYNC, tool, query="q", filter={"year": 2024, "author": None})
    ask(SYNC, tool, query="q")
    assert {"$and": [{"tenant": 1}, {"year": 2024}]} in Asked.filters
    assert {"tenant": 1} in Asked.filters
    other = retriever.model_copy(update={"search_kwargs": {"filter": "tenant = 1"}})
    with pytest.raises(ValueError, match="require make_filter"):
        create_rse_tool(other, filter_fields=["year"])
    create_rse_tool(other, filter_fields=["year"], make_filter=by_equality)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"irrelevant_chunk_penalty": 1.0}, "irrelevant_chunk_penalty=1"),
        ({"max_context_length": 20}, "exceed max_context_length=20"),
        ({"score_floor": 2.0}, "Say that the documents have no answer"),
    ],
)
def test_why_nothing_is_found(fields: dict[str, Any], reason: str) -> None:
    message = ask(SYNC, create_rse_tool(make_retriever(TEXTS, **fields)), query="q 1")
    assert str(message.content).startswith("Nothing was found for 'q 1': ")
    assert reason in str(message.content)
    assert (message.artifact, message.status) == ([], "success")


@pytest.mark.parametrize("content", ["text", "search_results"])
@given(data=st.data())
def test_what_a_model_reads_fits_the_budget(content: Any, data: st.DataObject) -> None:
    angle = st.integers(0, 90)
    texts = {
        name: lines(*data.draw(st.lists(angle, min_size=1, max_size=30)), name=name * 8)
        for name in data.draw(st.sets(st.sampled_from("abcdefé"), min_size=1, max_size=4))
    }
    measure = LENGTHS[data.draw(st.sampled_from(["characters", "words", "bytes"]))]
    limit = data.draw(st.integers(90, 900))
    tool = create_rse_tool(
        make_retriever(texts, config=EVERYTHING, length_function=measure),
        max_context_length=limit,
        k=data.draw(st.integers(1, 10)),
        content=content,
    )
    message = ask(SYNC, tool, query="q 0")
    if not message.artifact:
        assert limit < 400
        return
    blocks: Any = message.content
    shown = blocks if content == "text" else text_of_blocks(blocks)
    assert measure(shown) <= limit
    for passage in message.artifact:
        for line in passage.page_content.splitlines():
            assert f"{line}\n" in f"{shown}\n"
