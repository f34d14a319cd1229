"""Retrievers that make their own stores, in memory; on disk, see the integration tests."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_rse import RSERetriever, SQLDocStore
from tests.unit_tests import fakes

way = fakes.way

TEXTS = ["Steel prices drove the margin.\n", "Seals were sold.\n"]


def make(way: fakes.Way, *args: Any, **kwargs: Any) -> RSERetriever:
    return way.call(RSERetriever.from_documents, RSERetriever.afrom_documents, *args, **kwargs)


def make_of_texts(way: fakes.Way, *args: Any, **kwargs: Any) -> RSERetriever:
    return way.call(RSERetriever.from_texts, RSERetriever.afrom_texts, *args, **kwargs)


@fakes.both_ways
def test_documents_are_found_at_once(way: fakes.Way) -> None:
    documents = [Document(text, metadata={"source": f"{n}.txt"}) for n, text in enumerate(TEXTS)]
    retriever = make(way, documents, fakes.BagOfWords(), k=1)
    [passage] = way.invoke(retriever, "steel prices")
    assert passage.page_content == TEXTS[0]
    assert passage.metadata["source"] == "0.txt"
    assert isinstance(retriever.vectorstore, InMemoryVectorStore)
    assert isinstance(retriever.docstore, SQLDocStore)


@fakes.both_ways
def test_each_text_is_a_document(way: fakes.Way) -> None:
    metadatas = [{"source": "a.txt", "year": 2023}, {"source": "b.txt"}]
    retriever = make_of_texts(way, TEXTS, fakes.BagOfWords(), metadatas)
    assert [each.doc_id for each in retriever.documents()] == ["a.txt", "b.txt"]
    [passage] = way.invoke(retriever, "steel prices", filter={"year": 2023})
    assert passage.page_content == TEXTS[0]


def test_a_wrong_argument_says_what_to_do(way: fakes.Way) -> None:
    with pytest.raises(TypeError, match=r"got the class BagOfWords: pass an object, BagOfWords\("):
        make(way, [], fakes.BagOfWords)
    store = InMemoryVectorStore(fakes.BagOfWords())
    with pytest.raises(TypeError, match="from_documents makes its own stores"):
        make(way, [], fakes.BagOfWords(), vectorstore=store)
    with pytest.raises(ValueError, match=r"a list of 2 dicts, one for each text; got 1: \[{}\]"):
        make_of_texts(way, TEXTS, fakes.BagOfWords(), [{}])
