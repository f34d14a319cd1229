"""Rows, records and other separate documents of one source."""

from __future__ import annotations

import re
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.stores import InMemoryByteStore
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_rse import RSERetriever
from langchain_rse.tools import citation_of
from tests.unit_tests import fakes

way = fakes.way
Way = fakes.Way

CITIES = ("Oslo", "Bergen", "Paris", "Rome")


@pytest.fixture
def retriever() -> RSERetriever:
    return RSERetriever(
        vectorstore=InMemoryVectorStore(fakes.BagOfWords(1024)), docstore=InMemoryByteStore()
    )


def rows(*numbers: int, field: str = "row", city: str | None = None) -> list[Document]:
    """Rows as `CSVLoader` makes them, or records of a `JSONLoader`."""
    documents: list[Document] = []
    for number in numbers:
        text = f"name: pilot{number}\ncity: {city or CITIES[number % len(CITIES)]}"
        documents.append(Document(text, metadata={"source": "people.csv", field: number}))
    return documents


def entries(*texts: str) -> list[Document]:
    return [Document(text, metadata={"source": "faq.md"}) for text in texts]


def texts_of(retriever: RSERetriever) -> dict[str, str]:
    return {doc_id: retriever.text(doc_id) for doc_id, _, _ in retriever.documents()}


# Rows and records


@pytest.mark.parametrize(("field", "word"), [("row", "row"), ("seq_num", "record")])
@fakes.both_ways
def test_rows_are_separate_documents(
    way: Way, retriever: RSERetriever, field: str, word: str
) -> None:
    parts = rows(*range(40), field=field)
    ids = way.add(retriever, parts)
    assert ids == [f"people.csv, {word} {number}" for number in range(40)]
    assert texts_of(retriever) == dict(zip(ids, [p.page_content for p in parts], strict=True))
    assert way.add(retriever, iter(parts)) == ids


def test_a_row_is_cited_and_replaced_by_itself(way: Way, retriever: RSERetriever) -> None:
    way.add(retriever, rows(*range(4)))
    way.add(retriever, rows(2, city="Tromso"))
    (passage,) = way.invoke(retriever, "Tromso", k=1)
    assert passage.page_content == "name: pilot2\ncity: Tromso"
    assert passage.metadata["row"] == 2
    assert citation_of(passage.metadata) == "people.csv, row 2"
    assert len(retriever.documents()) == 4
    way.delete(retriever, ["people.csv, row 2"])
    assert len(retriever.documents()) == 3


def test_an_id_that_was_given_makes_rows_parts(way: Way, retriever: RSERetriever) -> None:
    parts = rows(*range(4))
    assert way.add(retriever, parts, ids=["people"] * 4) == ["people"]
    for part in parts:
        part.metadata["doc_id"] = "staff"
    assert way.add(retriever, parts) == ["staff"]


# Other separate documents


@fakes.both_ways
def test_entries_of_one_source(way: Way, retriever: RSERetriever) -> None:
    first = way.add(retriever, entries("How to log in?", "How to pay?"), separate=True)
    second = way.add(retriever, iter(entries("How to leave?")), separate=True)
    assert way.add(retriever, entries("How to pay?"), separate=True) == first[1:]
    assert list(texts_of(retriever).values()).count("How to pay?") == 1
    assert set(texts_of(retriever)) == {*first, *second}
    (passage,) = way.invoke(retriever, "leave", k=1)
    assert re.fullmatch(r"faq\.md, [0-9a-f]{12}", citation_of(passage.metadata))
    assert citation_of(passage.metadata) == second[0]


@pytest.mark.parametrize(
    "name", [{"ids": ["a", "b"]}, {"metadata": "doc_id"}, {"id": "given"}], ids=str
)
def test_separate_documents_keep_their_own_ids(
    way: Way, retriever: RSERetriever, name: dict[str, Any]
) -> None:
    documents = entries("How to log in?", "How to pay?")
    for document, doc_id in zip(documents, ["a", "b"], strict=True):
        if "metadata" in name:
            document.metadata["doc_id"] = doc_id
        if "id" in name:
            document.id = doc_id
    ids = name.get("ids")
    assert way.add(retriever, documents, ids=ids, separate=True) == ["a", "b"]
    with pytest.raises(ValueError, match=r"several documents have the id .a.*separate=True is set"):
        way.add(retriever, documents, ids=["a", "a"], separate=True)
