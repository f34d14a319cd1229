"""Syncing: the stores have the given documents and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.indexing import InMemoryRecordManager, aindex, index
from langchain_core.stores import InMemoryByteStore
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_rse import ExistingIndex, RSEIndexer, RSERetriever, SQLDocStore
from langchain_rse.errors import MetadataError
from langchain_rse.ingest.adding import SyncResult
from tests.unit_tests import fakes

way = fakes.way
Way = fakes.Way


def animals(*names: str, **metadata: str) -> list[Document]:
    return [Document(f"The {name} eats.", metadata={"source": name, **metadata}) for name in names]


class Stores:
    """A vector store, a docstore, and both that write them."""

    def __init__(self, way: Way, **settings: Any) -> None:
        self.way = way
        self.vectorstore = InMemoryVectorStore(fakes.BagOfWords())
        self.docstore = SQLDocStore("sqlite://")
        self.indexer = RSEIndexer(self.vectorstore, self.docstore)
        self.retriever = RSERetriever(
            vectorstore=self.vectorstore, docstore=self.docstore, **settings
        )

    def sync(self, target: RSEIndexer | RSERetriever, documents: Any, **kwargs: Any) -> SyncResult:
        result = self.way.call(target.sync, target.async_sync, documents, **kwargs)
        assert isinstance(result, SyncResult)
        return result

    def stored(self) -> list[str]:
        documents = RSERetriever(vectorstore=self.vectorstore, docstore=self.docstore).documents()
        ids = [document.doc_id for document in documents]
        of_vectors = {row["metadata"]["doc_id"] for row in self.vectorstore.store.values()}
        assert of_vectors == set(ids)
        return ids


@fakes.both_ways
@pytest.mark.parametrize("writer", ["indexer", "retriever"])
def test_what_is_not_given_is_deleted(way: Way, writer: str) -> None:
    stores = Stores(way)
    target = getattr(stores, writer)
    animal_names = ["cat", "dog", "fish"]
    assert stores.sync(target, animals(*animal_names)) == (animal_names, [], [], [])
    assert stores.sync(target, animals("dog", "eel")) == (["eel"], [], ["dog"], ["cat", "fish"])
    assert stores.stored() == ["dog", "eel"]
    result = stores.sync(target, iter([*animals("dog"), *animals("eel", kind="fish")]))
    assert result == ([], ["eel"], ["dog"], [])
    assert repr(result) == "<SyncResult: 0 added, 1 changed, 1 unchanged, 0 deleted>"
    assert stores.sync(target, animals("dog"), ids=["hound"]).deleted == ["dog", "eel"]
    assert stores.stored() == ["hound"]


@fakes.both_ways
def test_nothing_is_deleted_if_nothing_is_given(way: Way) -> None:
    stores = Stores(way)
    assert stores.sync(stores.retriever, []) == ([], [], [], [])
    stores.retriever.add_documents(animals("cat", "dog"))
    with pytest.raises(ValueError, match="documents is empty, so sync would delete all 2 doc"):
        stores.sync(stores.retriever, [])
    assert stores.stored() == ["cat", "dog"]


def test_nothing_is_deleted_after_an_error() -> None:
    stores = Stores(Way(None))
    stores.indexer.add_documents(animals("cat", "dog"))

    def read() -> Iterator[Document]:
        yield from animals("dog", "eel")
        raise OSError("the share is gone")

    with pytest.raises(OSError, match="the share is gone"):
        stores.indexer.sync(read())
    refused = Document("Text.", metadata={"source": "bad\0"})
    with pytest.raises(MetadataError, match="character"):
        stores.indexer.sync([*animals("dog"), refused])
    assert {"cat", "dog"} <= set(stores.stored())


def test_what_another_call_adds_meanwhile_stays() -> None:
    stores = Stores(Way(None))
    stores.indexer.add_documents(animals("cat"))

    def read() -> Iterator[Document]:
        yield from animals("dog")
        stores.retriever.add_documents(animals("eel"))

    assert stores.indexer.sync(read()).deleted == ["cat"]
    assert stores.stored() == ["dog", "eel"]


def test_other_namespaces_stay() -> None:
    stores = InMemoryVectorStore(fakes.BagOfWords()), InMemoryByteStore()
    mine, theirs = (RSEIndexer(*stores, namespace=name) for name in ("mine", "theirs"))
    mine.add_documents(animals("cat"))
    theirs.add_documents(animals("cat", "dog"))
    assert mine.sync(animals("eel")).deleted == ["cat"]
    assert theirs.sync(animals("dog")).deleted == ["cat"]


def test_documents_that_a_filter_excludes_stay() -> None:
    stores = Stores(Way(None))
    stores.indexer.add_documents(animals("cat", "dog", group="all"))
    stores.indexer.add_documents(animals("eel", group="finance"))
    retriever = RSERetriever(
        vectorstore=stores.vectorstore,
        docstore=stores.docstore,
        search_kwargs={"filter": {"group": "all"}},
    )
    assert retriever.sync(animals("dog", group="all")).deleted == ["cat"]
    assert stores.stored() == ["dog", "eel"]


def with_record_manager(
    way: Way, documents: list[Document], records: InMemoryRecordManager, target: Any
) -> None:
    settings: Any = {"cleanup": "full", "source_id_key": "source", "key_encoder": "sha256"}
    records.create_schema()
    way.call(index, aindex, documents, records, target, **settings)


ROUNDS = [
    {"cat": "purrs\nsleeps\neats fish\n", "dog": "barks\nruns\n", "eel": "swims\nhides\n"},
    {"cat": "purrs\nwakes\neats fish\n", "dog": "barks\nruns\n", "fox": "hunts\n"},
    {"cat": "purrs\nsleeps\neats fish\n", "fox": "hunts\nsleeps\n"},
]


@fakes.both_ways
def test_sync_does_what_a_full_cleanup_does(way: Way) -> None:
    splitter = fakes.Lines()
    stores = Stores(way)
    stores.indexer = RSEIndexer(stores.vectorstore, stores.docstore, text_splitter=splitter)
    others = InMemoryVectorStore(fakes.BagOfWords())
    records = InMemoryRecordManager("animals")
    for texts in ROUNDS:
        documents = [Document(text, metadata={"source": name}) for name, text in texts.items()]
        before = set(chunks_in(stores.vectorstore))
        with_record_manager(way, splitter.split_documents(documents), records, others)
        result = stores.sync(stores.indexer, documents)
        assert chunks_in(stores.vectorstore) == chunks_in(others)
        gone = {name for name, _ in before} - texts.keys()
        assert {*result.added, *result.changed, *result.unchanged} == texts.keys()
        assert set(result.deleted) == gone
    assert stores.stored() == ["cat", "fox"]
    assert stores.indexer.check().ok


def chunks_in(store: InMemoryVectorStore) -> list[tuple[str, str]]:
    rows = store.store.values()
    return sorted((row["metadata"]["source"], row["text"].strip()) for row in rows)


def test_an_index_that_langchain_wrote_is_taken_over() -> None:
    stores = Stores(Way(None))
    documents = animals("cat", "dog")
    records = InMemoryRecordManager("animals")
    records.create_schema()
    index(documents, records, stores.vectorstore, cleanup="full", key_encoder="sha256")
    existing = ExistingIndex(doc_id_key="source", in_store_order=True, chunk_overlap=0)
    stores.indexer.adopt(existing)
    result = stores.indexer.sync(animals("dog", "eel"))
    assert result == (["eel"], ["dog"], [], ["cat"])
    assert stores.stored() == ["dog", "eel"]
    assert stores.indexer.check().ok
