"""Fields and alternatives of the retriever, chosen when a chain runs."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.runnables import ConfigurableField, Runnable, RunnablePassthrough

from tests.unit_tests import fakes
from tests.unit_tests.fakes import QUERY, Way, lines, make_retriever

way = fakes.way
TEXTS = {"a": lines(0, 30, 90, name="a"), "b": lines(45, 90, name="b")}


def text_of(passages: list[Document]) -> str:
    return "".join(passage.page_content for passage in passages)


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
