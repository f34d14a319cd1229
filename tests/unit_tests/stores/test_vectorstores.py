"""What this package knows of vector stores: those without a server; the others are in integration.

`tests.integration_tests.test_vectorstores` indexes, replaces and deletes on all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore

from langchain_rse._sync import in_thread, run
from langchain_rse.stores.vectorstores import ADAPTERS, adapter_for
from langchain_rse.stores.vectorstores.base import VectorStoreAdapter
from tests.unit_tests import fakes
from tests.unit_tests.ingest.test_known_vectors import faiss_store

way = fakes.way
MODEL = fakes.CountingModel()  # no two vectors are alike
CHUNKS = [Document(f"text {n}", id=f"id {n}", metadata={"n": n % 2}) for n in range(300)]


class Unknown(VectorStore):
    """A store without a file, which fails if an id that it has to delete does not exist."""

    def __init__(self) -> None:
        self.inner = InMemoryVectorStore(MODEL)

    def add_documents(self, documents: list[Document], **kwargs: Any) -> list[str]:
        return self.inner.add_documents(documents, **kwargs)

    def get_by_ids(self, ids: Any, /) -> list[Document]:
        return self.inner.get_by_ids(ids)

    def delete(self, ids: Any = None, **_: Any) -> None:
        for vector in ids:
            self.inner.store[vector]
        self.inner.delete(ids)

    def similarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        raise NotImplementedError

    @classmethod
    def from_texts(cls, texts: Any, embedding: Any, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError


KINDS: dict[str, Callable[[], VectorStore]] = {
    "InMemoryVectorStore": lambda: InMemoryVectorStore(MODEL),
    "FAISS": lambda: faiss_store(MODEL),
    "Unknown": Unknown,
}
Do = Callable[..., Any]


@pytest.fixture
def do(way: fakes.Way) -> Do:
    """Calls a method as the writer does: in a thread if its caller is async."""
    return lambda *call: way.call(lambda: call[0](*call[1:]), lambda: in_thread(*call))


@pytest.fixture(params=fakes.faiss_at_night(KINDS))
def adapter(request: pytest.FixtureRequest) -> VectorStoreAdapter:
    return adapter_for(KINDS[request.param]())


@fakes.both_ways
def test_what_was_added_exists_until_it_is_deleted(adapter: VectorStoreAdapter, do: Do) -> None:
    ids = [str(chunk.id) for chunk in CHUNKS]
    do(adapter.delete, ["id 0"])  # before anything was added
    do(adapter.add, CHUNKS)
    assert do(run, adapter.existing_texts(["id 1", "no id"])) == {"id 1": "text 1"}
    do(adapter.delete, ["id 1", "no id", "id 2"])
    assert do(run, adapter.existing_texts(ids[:4])) == {"id 0": "text 0", "id 3": "text 3"}
    do(adapter.delete, ["no id"])
    do(adapter.delete, ids)
    assert do(run, adapter.existing_texts(ids)) == {}


@fakes.both_ways
@pytest.mark.parametrize("name", fakes.faiss_at_night(["InMemoryVectorStore", "FAISS"]))
def test_chunks_are_listed_in_the_order_in_which_they_were_added(do: Do, name: str) -> None:
    adapter = adapter_for(KINDS[name]())
    assert adapter.can_list
    assert adapter.lists_in_insertion_order
    do(adapter.add, CHUNKS)
    listed = [(chunk.id, chunk.metadata) for chunk in adapter.list_chunks()]
    assert listed == [(chunk.id, chunk.metadata) for chunk in CHUNKS]


@fakes.both_ways
@pytest.mark.parametrize("name", fakes.faiss_at_night(["InMemoryVectorStore", "FAISS"]))
def test_vectors_are_read_and_written(do: Do, name: str) -> None:
    adapter = adapter_for(KINDS[name]())
    assert adapter.can_read_vectors
    do(adapter.add, CHUNKS)
    vectors = do(adapter.read_vectors, ["id 7", "no id"])
    assert vectors == {"id 7": pytest.approx(MODEL.embed_query("text 7"), abs=1e-6)}
    new = Document("other text", id="new", metadata={"n": 5})
    do(adapter.put_chunks, [(new, vectors["id 7"])])
    found = adapter.store.similarity_search("text 7", k=2)
    assert {document.id: document.page_content for document in found} == {
        "id 7": "text 7",
        "new": "other text",
    }


def test_searches_find_a_namespace_alone() -> None:
    adapter = adapter_for(InMemoryVectorStore(MODEL))
    assert adapter.can_filter_namespaces
    for chunk in CHUNKS:
        metadata = {**chunk.metadata, "rse_namespace": "a" if chunk.metadata["n"] else "b"}
        adapter.store.add_documents([Document("text", metadata=metadata)])
    arguments = adapter.search_arguments("a", {"k": 200})
    found = adapter.store.similarity_search("text", **arguments)
    assert [document.metadata["rse_namespace"] for document in found] == ["a"] * 150
    arguments = adapter.search_arguments("a", {"k": 200, "filter": is_even})
    assert adapter.store.similarity_search("text", **arguments) == []


def is_even(found: Document) -> bool:
    """A user's filter, which InMemoryVectorStore calls with a Document."""
    return bool(found.metadata["n"] == 0)


def test_a_store_that_cannot_tell_what_it_has(do: Do) -> None:
    class Silent(Unknown):
        def get_by_ids(self, ids: Any, /) -> list[Document]:
            raise NotImplementedError

    class Nameless(Unknown):
        def get_by_ids(self, ids: Any, /) -> list[Document]:
            return [Document("text") for _ in ids]

    for store in (Silent(), Nameless()):
        adapter = adapter_for(store)
        assert do(run, adapter.existing_texts(["id 1"])) is None
        with pytest.raises(KeyError):
            do(adapter.delete, ["no id"])


def test_the_documentation_says_what_each_store_can_do() -> None:
    page = (Path(__file__).parents[3] / "docs/stores.md").read_text()
    table = page.partition("| store | lists chunks |")[2].partition("\n\n")[0]
    documented: dict[str, list[bool]] = {}
    for row in table.splitlines()[2:]:
        name, is_listed, is_in_order, _, has_namespaces, _ = row.strip("| ").split("|")
        cells = (is_listed, is_in_order, has_namespaces)
        documented[name.strip(" `")] = [cell.strip().startswith("yes") for cell in cells]
    assert documented.pop("LanceDB, any other") == [False, False, False]
    known: dict[str, list[bool]] = {}
    for name, adapter in ADAPTERS.items():
        known[name.removesuffix("VectorStore") if name.startswith("Qdrant") else name] = [
            adapter.can_list,
            adapter.lists_in_insertion_order,
            adapter.can_filter_namespaces,
        ]
    assert documented == known
