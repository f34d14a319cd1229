"""A docstore knows its vector store and embedding model, and is used with no other."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.stores import InMemoryByteStore
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_rse import RSERetriever
from langchain_rse.errors import StoreMismatchError
from langchain_rse.stores import pairing
from langchain_rse.stores.json import as_docstore
from langchain_rse.stores.pairing import PAIR_KEY
from tests.unit_tests import fakes

way = fakes.way
Way = fakes.Way

DOCUMENT = Document("A text on herons.", id="a")


class Named(InMemoryVectorStore):
    """Tells the name of its collection."""

    collection_name = "first"


class Renamed(Named):
    collection_name = "second"


class Larger(fakes.BagOfWords):
    """Another model, of more dimensions."""

    def __init__(self) -> None:
        super().__init__(80)


class Rounded(fakes.BagOfWords):
    """The same model on another machine: its numbers are not quite the same."""

    def embed_query(self, text: str) -> list[float]:
        return [round(value, 2) for value in super().embed_query(text)]


class Turned(fakes.BagOfWords):
    """Another model of the same size."""

    def embed_query(self, text: str) -> list[float]:
        return super().embed_query(text)[::-1]


def retriever_with(store: InMemoryVectorStore, docstore: Any) -> RSERetriever:
    return RSERetriever(vectorstore=store, docstore=docstore)


OTHERS: dict[str, tuple[InMemoryVectorStore, str]] = {
    "collection": (Renamed(fakes.BagOfWords()), "in InMemoryVectorStore 'first', not in"),
    "no name": (InMemoryVectorStore(fakes.BagOfWords()), "'first', not in InMemoryVectorStore"),
    "model": (Named(Turned()), "another embedding model"),
    "dimension": (Named(Larger()), "65 dimensions, not 81"),
}


@pytest.mark.parametrize("name", OTHERS)
@fakes.both_ways
def test_another_vector_store_or_model_is_refused(way: Way, name: str) -> None:
    docstore = InMemoryByteStore()
    way.add(retriever_with(Named(fakes.BagOfWords()), docstore), [DOCUMENT])
    stored = dict(docstore.store)
    store, message = OTHERS[name]
    other = retriever_with(store, docstore)
    calls: list[Any] = [
        lambda: way.invoke(other, "herons"),
        lambda: way.add(other, [DOCUMENT]),
        lambda: way.delete(other, ["a"]),
        lambda: way.invoke(
            RSERetriever(base_retriever=store.as_retriever(), docstore=docstore), "herons"
        ),
    ]
    for call in calls:
        with pytest.raises(StoreMismatchError, match=message) as caught:
            call()
        assert "check(repair=True)" in str(caught.value)
        assert "force=True" in str(caught.value)
    assert docstore.store == stored
    assert not store.store


def test_force_moves_the_docstore_to_another_model() -> None:
    docstore = as_docstore(InMemoryByteStore())
    first = retriever_with(Named(fakes.BagOfWords()), docstore)
    first.add_documents([DOCUMENT])
    store = Named(Turned())
    second = retriever_with(store, docstore)
    second.add_documents([DOCUMENT], force=True)
    assert [row["vector"] for row in store.store.values()] == [
        Turned().embed_query(DOCUMENT.page_content)
    ]
    assert len(second.invoke("herons")) == 1
    # The one that was there first is refused from now on, in this process as well.
    with pytest.raises(StoreMismatchError):
        first.invoke("herons")


def test_the_same_model_elsewhere_is_the_same() -> None:
    docstore = InMemoryByteStore()
    retriever_with(Named(fakes.BagOfWords()), docstore).add_documents([DOCUMENT])
    other = retriever_with(Named(Rounded()), docstore)
    other.add_documents([DOCUMENT])
    assert len(other.invoke("herons")) == 1


def test_documents_that_were_left_with_the_former_model_are_warned_of() -> None:
    docstore = InMemoryByteStore()
    store = InMemoryVectorStore(fakes.BagOfWords())
    retriever = retriever_with(store, docstore)
    retriever.add_documents([DOCUMENT, Document("Cranes.", id="b")])
    store.embedding = Turned()
    retriever.add_documents([DOCUMENT], force=True)
    with pytest.warns(UserWarning, match="1 document.* another embedding model.*'b'"):
        retriever.invoke("cranes", config={}, irrelevant_chunk_penalty=0.0)
    retriever.add_documents([Document("Cranes.", id="b")])
    retriever.invoke("cranes", irrelevant_chunk_penalty=0.0)


class Probed(fakes.BagOfWords):
    """Counts how often it is asked which model it is."""

    probes = 0

    def embed_query(self, text: str) -> list[float]:
        self.probes += text == pairing.PROBE
        return super().embed_query(text)


@fakes.both_ways
def test_a_pair_is_checked_once(way: Way) -> None:
    docstore = fakes.WatchedDocStore(InMemoryByteStore(), fakes.Writes())
    model = Probed()
    retriever = retriever_with(InMemoryVectorStore(model), docstore)
    way.add(retriever, [DOCUMENT])
    assert model.probes == 1
    for _ in range(3):
        way.invoke(retriever, "herons")
    assert sum(PAIR_KEY in keys for keys in docstore.reads) <= 2
    assert model.probes == 1
    again = retriever_with(InMemoryVectorStore(model), docstore)
    again.vectorstore.store.update(retriever.vectorstore.store)  # type: ignore[union-attr]
    way.invoke(again, "herons")
    assert model.probes == 2
