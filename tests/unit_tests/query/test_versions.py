"""Readers beside writers: what comes back is of a version that was current during the query."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.runnables import RunnableLambda
from langchain_core.stores import InMemoryByteStore
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_rse import RSERetriever
from langchain_rse.stores.records import document_key
from tests.unit_tests import fakes
from tests.unit_tests.fakes import QUERY, Way, ask, lines, make_retriever, ranges, wrap

way = fakes.way

Found = list[tuple[Document, float]]


class Scripted(InMemoryVectorStore):
    """After each search, and before its result comes back, something else happens.

    Attributes:
        searches: Number of searches so far.
        then: What happens, by the number of the search.
    """

    def __init__(self) -> None:
        super().__init__(fakes.Angles())
        self.searches = 0
        self.then: Callable[[int], object] = lambda _: None

    def similarity_search_with_score(self, query: str, k: int = 4, **kwargs: Any) -> Found:
        found = super().similarity_search_with_score(query, k, **kwargs)
        self.searches += 1
        self.then(self.searches)
        return found

    async def asimilarity_search_with_score(self, query: str, k: int = 4, **kwargs: Any) -> Found:
        return self.similarity_search_with_score(query, k, **kwargs)


@pytest.fixture
def store() -> Scripted:
    return Scripted()


def replace(retriever: RSERetriever, doc_id: str, text: str) -> None:
    retriever.add_documents([Document(text, metadata={"source": doc_id})], ids=[doc_id])


def texts(passages: list[Document]) -> list[str]:
    return [passage.page_content for passage in passages]


def keep_vectors(retriever: RSERetriever, change: Callable[[], object]) -> None:
    """Leave the vectors behind that a change removes, as a crash would."""
    assert isinstance(retriever.vectorstore, InMemoryVectorStore)
    before = dict(retriever.vectorstore.store)
    change()
    retriever.vectorstore.store |= before


@fakes.both_ways
def test_a_document_replaced_between_search_and_reading_is_found(way: Way, store: Scripted) -> None:
    retriever = make_retriever({"a": lines(0, 0), "b": lines(20)}, vectorstore=store)
    replaced = lines(0, 0, 0, name="new")
    store.then = lambda n: replace(retriever, "a", replaced) if n == 1 else None
    assert texts(way.invoke(retriever, QUERY, order="relevance")) == [replaced, lines(20)]
    assert store.searches == 2


def test_a_document_replaced_again_and_again(store: Scripted) -> None:
    retriever = make_retriever({"a": lines(0), "b": lines(20)}, vectorstore=store)
    store.then = lambda n: replace(retriever, "a", lines(0, name=f"v{n}-"))
    with pytest.warns(UserWarning, match="'a' were replaced while they were read"):
        assert ranges(ask(retriever, QUERY)) == [("b", 0, 1)]
    assert store.searches == 3
    store.then = lambda n: replace(retriever, "a", lines(0, name=f"v{n}-")) if n == 4 else None
    assert ranges(ask(retriever, QUERY)) == [("a", 0, 1), ("b", 0, 1)]


def test_vectors_that_nobody_knows_are_named_once_and_passed_over(store: Scripted) -> None:
    gone = [f"gone {number}" for number in range(7)]
    retriever = make_retriever(
        {"a": lines(20), **{name: lines(0, name=name) for name in gone}}, vectorstore=store
    )
    keep_vectors(retriever, lambda: retriever.delete(gone))
    said = r"are excluded.*'gone \d'.* and 2 more are not in.*check\(repair=True\).*--repair"
    with pytest.warns(UserWarning, match=said) as caught:
        assert ranges(ask(retriever, QUERY)) == [("a", 0, 1)]
    assert len(caught) == 1
    assert store.searches == 2
    keep_vectors(retriever, lambda: retriever.delete(["a"]))
    with pytest.warns(UserWarning, match="are not in the docstore"):  # which was not lost
        assert retriever.invoke(QUERY) == []


@fakes.both_ways
def test_a_wrapped_retriever_and_a_reranker_are_asked_again(way: Way, store: Scripted) -> None:
    class Reranker(BaseDocumentCompressor):
        def compress_documents(self, documents: Any, query: str, callbacks: Any = None) -> Any:
            del query, callbacks
            return list(documents)

    retriever = make_retriever({"a": lines(0)}, vectorstore=store)
    searches = 0

    def find(query: str) -> list[Document]:
        nonlocal searches
        searches += 1
        found = InMemoryVectorStore.similarity_search(store, query, 10)
        if searches == 1:
            replace(retriever, "a", lines(0, name="new"))
        return found

    wrapped = wrap(retriever, RunnableLambda(find), reranker=Reranker())
    assert texts(way.invoke(wrapped, QUERY)) == [lines(0, name="new")]
    assert searches == 2


# Records that cannot be read


def other_documents_chunk(retriever: RSERetriever, doc_id: str, index: int) -> None:
    """Put the record of another document's chunk in place of one."""
    keys = [key for key in retriever.docstore.yield_keys() if key.endswith(f"/{index}")]
    mine, theirs = (
        next(key for key in keys if key.startswith(document_key(name))) for name in (doc_id, "b")
    )
    (record,) = retriever.docstore.mget([theirs])
    assert record is not None
    retriever.docstore.mset([(mine, record)])


def test_another_documents_chunk_is_never_returned(store: Scripted) -> None:
    """Even if it has the same place and length."""
    retriever = make_retriever(
        {"a": lines(0, 1, name="a"), "b": lines(2, 3, name="b")}, vectorstore=store
    )
    other_documents_chunk(retriever, "a", 1)
    with pytest.warns(UserWarning, match=r"(?s)are excluded.*'a' are corrupt: add them") as said:
        (passage,) = ask(retriever, QUERY)
    assert len(said) == 1
    assert passage.page_content == lines(2, 3, name="b")
    assert store.searches == 2


@pytest.mark.parametrize("broken", range(1, 6))
def test_any_number_of_broken_documents_leaves_the_others(broken: int) -> None:
    """Their chunks turn out to be broken when they are read, those of the best first."""
    names = [f"n{number}" for number in range(6)]
    retriever = make_retriever(
        {name: lines(number, name=name) for number, name in enumerate(names)}
    )
    for name in names[:broken]:
        spoiled = [
            key
            for key in retriever.docstore.yield_keys()
            if key.startswith(document_key(name)) and key.endswith("/0")
        ]
        retriever.docstore.mset([(key, Document("not this")) for key in spoiled])
    with pytest.warns(UserWarning, match="records of 'n0'.* are corrupt") as caught:
        passages = ask(retriever, QUERY, max_context_length=8)
    assert len(caught) == 1
    assert [doc_id for doc_id, *_ in ranges(passages)] == names[broken : broken + 1]


def test_corrupt_records_are_named() -> None:
    store = InMemoryByteStore()
    retriever = make_retriever({"a": lines(0, 0)}, docstore=store)
    for key in fakes.keys_of(store):
        if key.endswith("/document"):  # for `check` only
            continue
        (intact,) = store.mget([key])
        assert intact is not None
        for broken in (b"{", b'{"page_content": "text", "metadata": {}}', b"[]"):
            store.mset([(key, broken)])
            with pytest.warns(UserWarning, match=rf"(?s)'a' are corrupt.*{key}"):
                assert ask(retriever) == []
        store.mset([(key, intact)])
    assert ranges(ask(retriever)) == [("a", 0, 2)]
