"""Pickled and deep copies of retrievers and indexers."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.stores import BaseStore, InMemoryByteStore, InMemoryStore

from langchain_rse import RSERetriever
from langchain_rse.stores.json import JSONDocStore
from tests.unit_tests import fakes
from tests.unit_tests.fakes import QUERY, Way, lines, make_retriever

way = fakes.way

Copy = Callable[[Any], Any]
COPIES: dict[str, Copy] = {
    "pickled": lambda one: pickle.loads(pickle.dumps(one)),  # noqa: S301 - made here
    "deep": copy.deepcopy,
}
DOCSTORES: dict[str, Callable[[Path], BaseStore[str, Any]]] = {
    "InMemoryStore": lambda _: InMemoryStore(),
    "byte store": lambda _: JSONDocStore(InMemoryByteStore()),
}
TEXTS = {"a": lines(0, 30, 90, name="a"), "b": lines(60, 10, name="b")}


@pytest.fixture(params=COPIES)
def copied(request: pytest.FixtureRequest) -> Copy:
    copied: Copy = COPIES[request.param]
    return copied


@pytest.mark.parametrize("name", DOCSTORES)
@fakes.both_ways
def test_a_copy_of_a_retriever_answers_and_writes(
    way: Way, name: str, copied: Copy, tmp_path: Path
) -> None:
    retriever = make_retriever(TEXTS, docstore=DOCSTORES[name](tmp_path), k=2)
    other: RSERetriever = copied(retriever)
    assert other is not retriever
    assert other.k == 2
    expected = way.invoke(retriever, QUERY)
    assert way.invoke(other, QUERY) == expected
    way.add(other, [Document(lines(0))], ids=["c"])
    assert "c" in {passage.metadata["doc_id"] for passage in way.invoke(other, QUERY, k=9)}
    # What is in memory is the copy's own.
    assert other.vectorstore is not retriever.vectorstore
