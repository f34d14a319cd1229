"""The retriever in LangChain's own constructions: chains, batches, retries, fallbacks, streams."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import (
    ConfigurableField,
    Runnable,
    RunnableLambda,
    RunnableParallel,
    RunnablePassthrough,
)
from langchain_core.vectorstores import InMemoryVectorStore

from tests.unit_tests import fakes
from tests.unit_tests.fakes import QUERY, Way, lines, make_retriever

way = fakes.way
TEXTS = {"a": lines(0, 30, 90, name="a"), "b": lines(45, 90, name="b")}


def text_of(passages: list[Document]) -> str:
    return "".join(passage.page_content for passage in passages)


def answering(retriever: Runnable[Any, Any]) -> Runnable[Any, str]:
    """A chain that answers with its prompt's context, and a model that says four letters."""
    prompt = ChatPromptTemplate.from_template("{context}\n{question}")
    model = FakeListChatModel(responses=["cold"])
    return (
        RunnableParallel(context=retriever | text_of, question=RunnablePassthrough())
        | prompt
        | model
        | StrOutputParser()
    )


# What is chosen when a chain runs


def test_fields_are_chosen_when_a_chain_runs(way: Way) -> None:
    retriever = make_retriever(TEXTS)
    named = retriever.configurable_fields(
        k=ConfigurableField(id="passages"), max_context_length=ConfigurableField(id="budget")
    )
    chain: Runnable[Any, str] = RunnablePassthrough[Any]() | named | text_of
    one = way.invoke(chain, QUERY, {"configurable": {"passages": 1}})
    assert one == text_of(retriever.invoke(QUERY, k=1))
    small = way.invoke(chain, QUERY, {"configurable": {"budget": 6}})
    assert small == text_of(retriever.invoke(QUERY, max_context_length=6)) == "a0 0\n"
    with pytest.raises(ValueError, match="k must be at least 1"):
        way.invoke(chain, QUERY, {"configurable": {"passages": 0}})
    others = retriever.configurable_alternatives(
        ConfigurableField(id="which"), default_key="all", few=make_retriever(TEXTS, k=1)
    )
    assert len(way.invoke(others, QUERY)) > 1
    assert len(way.invoke(others, QUERY, {"configurable": {"which": "few"}})) == 1


# When something fails


class Failing(InMemoryVectorStore):
    """Fails a number of times."""

    def __init__(self, times: int) -> None:
        super().__init__(fakes.Angles())
        self.left = times

    def similarity_search_with_score(self, *args: Any, **kwargs: Any) -> Any:
        if self.left:
            self.left -= 1
            raise ConnectionError("gone for a moment")
        return super().similarity_search_with_score(*args, **kwargs)

    async def asimilarity_search_with_score(self, *args: Any, **kwargs: Any) -> Any:
        return self.similarity_search_with_score(*args, **kwargs)


def test_with_fallbacks(way: Way) -> None:
    expected = make_retriever(TEXTS).invoke(QUERY, k=1)
    by_words: Callable[..., list[Document]] = lambda _: [Document("by words")]  # noqa: E731
    broken = make_retriever(TEXTS, vectorstore=Failing(99))
    falling = broken.with_fallbacks([make_retriever(TEXTS)])
    assert way.invoke(falling, QUERY, k=1) == expected  # arguments reach it as well
    assert way.invoke(answering(falling), QUERY) == "cold"
    last = broken.with_fallbacks([RunnableLambda(by_words)])
    assert way.invoke(last, QUERY) == [Document("by words")]
    # Wrong arguments are not what another retriever is for.
    only = broken.with_fallbacks([RunnableLambda(by_words)], exceptions_to_handle=(OSError,))
    assert way.invoke(only, QUERY) == [Document("by words")]
    with pytest.raises(TypeError, match="query must be a string"):
        way.invoke(only, {"question": QUERY})
