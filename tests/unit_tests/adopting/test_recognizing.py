"""Indexes that are adopted by the metadata that they have, without a description of it."""

import logging
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.stores import InMemoryStore
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_text_splitters import RecursiveCharacterTextSplitter

from langchain_rse import ExistingIndex, RSEIndexer, RSERetriever
from langchain_rse.adopting import Adoption
from langchain_rse.adopting.adoption import DOCUMENT_FIELDS
from langchain_rse.errors import AdoptionError
from langchain_rse.tools import citation_of
from tests.unit_tests import fakes

way = fakes.way
Way = fakes.Way


def store_of(*metadata: dict[str, Any]) -> InMemoryVectorStore:
    """A store with a chunk for each metadata."""
    store = InMemoryVectorStore(fakes.BagOfWords())
    store.add_documents(
        [Document(f"text {number}", metadata=fields) for number, fields in enumerate(metadata)]
    )
    return store


def adopt(way: Way, store: InMemoryVectorStore, **kwargs: Any) -> Adoption:
    indexer = RSEIndexer(store, InMemoryStore())
    report: Adoption = way.call(indexer.adopt, indexer.aadopt, **kwargs)
    return report


def recognized(way: Way, *metadata: dict[str, Any]) -> ExistingIndex:
    index = adopt(way, store_of(*metadata)).index
    assert index is not None
    return index


@fakes.both_ways
def test_an_index_is_adopted_without_a_description(
    way: Way, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="langchain_rse")
    pages = ["The first page.\n\nIts end.", "The second page."]
    splitter = RecursiveCharacterTextSplitter(chunk_size=16, chunk_overlap=0, add_start_index=True)
    documents = [
        Document(page, metadata={"source": "a.pdf", "page": number, "producer": "x"})
        for number, page in enumerate(pages)
    ]
    store = InMemoryVectorStore(fakes.BagOfWords())
    store.add_documents(splitter.split_documents(documents))
    retriever = way.call(
        RSERetriever.from_existing_index,
        RSERetriever.afrom_existing_index,
        store,
        InMemoryStore(),
        config=fakes.EVERYTHING,
    )
    (passage,) = way.invoke(retriever, "page")
    assert passage.page_content == "The first page.\n\nIts end.\n\nThe second page."
    assert (passage.metadata["page_start"], passage.metadata["page_end"]) == (0, 1)
    # What was taken can be read in the log and in the report.
    index = "ExistingIndex(doc_id_key='source', start_index_key='start_index', page_key='page')"
    taken = f"{index}: 3 chunks of 1 document"
    assert caplog.messages == [f"adopted an index, recognized from chunk metadata: {taken}"]
    assert str(adopt(way, store)) == taken


@pytest.mark.parametrize("name", DOCUMENT_FIELDS)
def test_usual_names_of_documents_are_known(way: Way, name: str) -> None:
    index = recognized(way, {name: "a", "other": "x"}, {name: "b", "other": "y"})
    assert index == ExistingIndex(doc_id_key=name, in_store_order=True)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"start_index": 0, "chunk_index": 1}, {"start_index_key": "start_index"}),
        ({"chunk_index": 1, "chunk": 2}, {"chunk_index_key": "chunk_index"}),
        ({"chunk": "7"}, {"chunk_index_key": "chunk"}),
        ({"seq": 7.0}, {"chunk_index_key": "seq"}),
        ({"page_number": 3, "seq": 1}, {"page_key": "page_number", "chunk_index_key": "seq"}),
        ({"page": 3}, {"page_key": "page", "in_store_order": True}),
        # A value of another type is no position.
        ({"start_index": -1}, {"in_store_order": True}),
        ({"page": "iv", "page_number": 4}, {"page_key": "page_number", "in_store_order": True}),
        ({"chunk": "first"}, {"in_store_order": True}),
        ({"seq": True}, {"in_store_order": True}),
    ],
)
def test_positions_are_known_by_name_and_type(
    way: Way, fields: dict[str, Any], expected: dict[str, Any]
) -> None:
    index = recognized(way, {"source": "a", **fields})
    assert index == ExistingIndex(doc_id_key="source", **expected)


@fakes.both_ways
def test_without_the_name_of_a_document_the_fields_that_there_are_are_listed(way: Way) -> None:
    store = store_of({"author": "x", "source": "a"}, {"author": "y"})
    with pytest.raises(
        AdoptionError,
        match=r"Fields of the chunks: 'author', 'source'\. .*doc_id_key=.*doc_id='handbook'",
    ):
        adopt(way, store)


@fakes.both_ways
def test_chunks_without_metadata_are_of_one_document_that_is_named(way: Way) -> None:
    texts = ["The pump needs oil.", "Every week."]
    store = InMemoryVectorStore.from_texts(texts, fakes.BagOfWords())
    with pytest.raises(AdoptionError, match=r"The chunks have no metadata.*doc_id='handbook'"):
        adopt(way, store)
    existing = ExistingIndex(doc_id="handbook", in_store_order=True, chunk_overlap=0)
    retriever = RSERetriever.from_existing_index(
        store, InMemoryStore(), existing, config=fakes.EVERYTHING
    )
    (passage,) = way.invoke(retriever, "oil")
    assert passage.page_content == "The pump needs oil.\nEvery week."
    assert passage.metadata["doc_id"] == "handbook"
    assert citation_of(passage.metadata) == "handbook, characters 0–31 of its stored text"
    with pytest.raises(AdoptionError, match=r"source=None.*doc_id='handbook'"):
        adopt(way, store, index=ExistingIndex(doc_id_key="source", in_store_order=True))


def test_what_this_package_wrote_beside_the_index_does_not_count(way: Way) -> None:
    store = store_of({"file_name": "a"})
    docstore = InMemoryStore()
    retriever = RSERetriever(vectorstore=store, docstore=docstore)
    way.add(retriever, [Document("added", metadata={"source": "b"})])
    indexer = RSEIndexer(store, docstore)
    report = way.call(indexer.adopt, indexer.aadopt)
    assert report.index == ExistingIndex(doc_id_key="file_name", in_store_order=True)
    assert report.documents == 1
