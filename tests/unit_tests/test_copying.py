"""Pickled and deep copies of retrievers and docstores: they work, or say what cannot be copied."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.stores import BaseStore, InMemoryByteStore, InMemoryStore

from langchain_rse import RSEConfig, RSEIndexer, RSERetriever, SQLDocStore
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
    "SQLDocStore": lambda folder: SQLDocStore(
        f"sqlite:///{folder}/chunks.db", table_name="t", lexical=True, tokenizer="porter"
    ),
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


@pytest.mark.parametrize("lexical", [True, False])
def test_a_copy_of_a_sql_docstore_is_of_the_same_table(
    copied: Copy, tmp_path: Path, lexical: Any
) -> None:
    store = SQLDocStore(
        f"sqlite:///{tmp_path}/a.db",
        table_name="t",
        lexical=lexical,
        timeout=3.0,
        engine_kwargs={"echo": False},
    )
    store.mset([("k", Document("text"))])
    other = copied(copied(store))
    assert repr(other) == repr(store)
    assert other.mget(["k"]) == [Document("text")]
    other.mset([("k", Document("new"))])
    other.close()
    assert store.mget(["k"]) == [Document("new")]
    assert other.lexical == (lexical is not False)


def test_others_can_be_copied(copied: Copy) -> None:
    retriever = make_retriever(TEXTS)
    assert retriever.vectorstore is not None
    indexer = RSEIndexer(retriever.vectorstore, retriever.docstore, text_splitter=fakes.Lines())
    assert copied(indexer).add_documents([Document(TEXTS["a"])], ids=["a"]) == ["a"]
    config = RSEConfig(irrelevant_chunk_penalty=0.2)
    assert copied(config) == config


def invoke(retriever: RSERetriever) -> list[Document]:
    return retriever.invoke(QUERY)


@pytest.mark.nightly
def test_a_retriever_is_sent_to_another_process(tmp_path: Path) -> None:
    retriever = make_retriever(TEXTS, docstore=DOCSTORES["SQLDocStore"](tmp_path))
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        assert pool.submit(invoke, retriever).result() == retriever.invoke(QUERY)


# What cannot be copied


def test_a_docstore_in_memory_of_sqlite_says_that_it_cannot_be_copied(copied: Copy) -> None:
    with pytest.raises(TypeError, match=r"in memory cannot be pickled or copied.*Use a file"):
        copied(SQLDocStore("sqlite://"))
    with pytest.raises(TypeError, match=r"in memory cannot be pickled or copied.*Use a file"):
        copied(make_retriever(TEXTS, docstore=SQLDocStore("sqlite://")))
