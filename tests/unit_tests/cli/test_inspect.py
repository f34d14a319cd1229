"""What `inspect` reads from the two stores, and the names by which documents are found."""

from __future__ import annotations

import json
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_rse import RSEIndexer, RSERetriever, SQLDocStore
from langchain_rse.adopting import ExistingIndex
from langchain_rse.cli.inspect import inspect_document
from langchain_rse.errors import MissingRecordError
from langchain_rse.stores.document_names import find_document, names_of
from langchain_rse.stores.layouts import read_manifests
from tests.unit_tests import fakes


class Stores:
    """Two stores, and an indexer of lines."""

    def __init__(self) -> None:
        self.vectorstore = InMemoryVectorStore(fakes.BagOfWords())
        self.docstore = SQLDocStore("sqlite://")
        self.indexer = RSEIndexer(self.vectorstore, self.docstore, text_splitter=fakes.Lines())

    def inspect(self, doc_id: str) -> dict[str, Any]:
        fields = inspect_document(self.docstore, self.vectorstore, doc_id)
        assert json.loads(json.dumps(fields)) == fields
        return fields


@pytest.fixture
def stores() -> Stores:
    return Stores()


def pages(*texts: str) -> list[Document]:
    return [
        Document(text, metadata={"source": "a", "page": number, "by": "Ann"})
        for number, text in enumerate(texts)
    ]


def test_a_document_and_its_chunks(stores: Stores) -> None:
    stores.indexer.add_documents(pages("one\n\ntwo", "three\n"))
    fields = stores.inspect("a")
    chunks = fields.pop("chunks")
    assert fields.pop("version")
    assert fields == {
        "doc_id": "a",
        "adopted": False,
        "incomplete_versions": [],
        "length": 16,
        "header": "",
        "metadata": {"source": "a", "by": "Ann"},
    }
    assert [(c["index"], c["start"], c["end"], c["text"]) for c in chunks] == [
        (0, 0, 5, "one\n\n"),
        (1, 5, 10, "two\n\n"),
        (2, 10, 16, "three\n"),
    ]
    assert [chunk["metadata"] for chunk in chunks] == [
        {"page_start": 0, "page_end": 0, "page": 0},
        {"page_start": 0, "page_end": 0, "page": 0},
        {"page_start": 1, "page_end": 1, "page": 1},
    ]
    stored = {vector["text"] for vector in stores.vectorstore.store.values()}
    assert {chunk["embedded"] for chunk in chunks} == stored
    assert [chunk["problem"] for chunk in chunks] == ["", "", ""]


def test_a_long_document(stores: Stores) -> None:
    lines = [f"line {number}\n" for number in range(1_100)]
    stores.indexer.add_documents([Document("".join(lines), id="long")])
    chunks = stores.inspect("long")["chunks"]
    assert [chunk["text"] for chunk in chunks] == lines
    assert [chunk["embedded"] for chunk in chunks] == lines


def test_missing_texts_and_vectors_are_reported(stores: Stores) -> None:
    stores.indexer.add_documents(pages("one\ntwo\n"))
    chunk_keys = [
        key for key in stores.docstore.yield_keys() if key.endswith("/0") and "spans" not in key
    ]
    stores.docstore.mdelete(chunk_keys)
    (second,) = (v["id"] for v in stores.vectorstore.store.values() if "two" in v["text"])
    stores.vectorstore.delete([second])
    chunks = stores.inspect("a")["chunks"]
    assert [(chunk["text"], chunk["embedded"], chunk["problem"]) for chunk in chunks] == [
        (None, "one\n", "no text"),
        ("two\n", None, "no vector"),
    ]


def test_a_document_of_which_adding_was_interrupted(stores: Stores) -> None:
    writes = fakes.Writes()
    vectorstore = fakes.WatchedVectorStore(fakes.BagOfWords(), writes)
    indexer = RSEIndexer(vectorstore, fakes.WatchedDocStore(stores.docstore, writes))
    writes.fail_at(2, "halfway")
    with pytest.raises(fakes.CrashError):
        indexer.add_documents(pages("one"))
    fields = stores.inspect("a")
    assert (fields["version"], fields["chunks"]) == (None, [])
    assert len(fields["incomplete_versions"]) == 1


@pytest.mark.filterwarnings("ignore:.*have no text")
def test_a_document_without_text(stores: Stores) -> None:
    stores.indexer.add_documents([Document("", id="empty")])
    fields = stores.inspect("empty")
    assert (fields["length"], fields["chunks"]) == (0, [])


def test_an_adopted_document_with_a_gap(stores: Stores) -> None:
    stores.vectorstore.add_documents(
        [
            Document(text, id=text, metadata={"source": "a", "n": number})
            for text, number in [("one", 0), ("three", 2)]
        ]
    )
    index = ExistingIndex(doc_id_key="source", chunk_index_key="n", chunk_overlap=0)
    with pytest.warns(UserWarning, match="gap"):
        RSERetriever.from_existing_index(stores.vectorstore, stores.docstore, index)
    fields = stores.inspect("a")
    assert fields["adopted"]
    assert [(chunk["text"], chunk["problem"]) for chunk in fields["chunks"]] == [
        ("one", ""),
        (None, "no text"),
        ("three", ""),
    ]


def test_an_unknown_document(stores: Stores) -> None:
    with pytest.raises(MissingRecordError, match="'b'"):
        stores.inspect("b")


# Names


@pytest.fixture
def names(stores: Stores) -> dict[str, list[str]]:
    ids = ["/docs/report-2023.pdf", "/docs/old/notes.md", "/docs/new/notes.md", "notes", "plain"]
    stores.indexer.add_documents([Document(name, id=name) for name in ids])
    return names_of(read_manifests(stores.docstore))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("/docs/report-2023.pdf", "/docs/report-2023.pdf"),
        ("/docs/old/../report-2023.pdf", "/docs/report-2023.pdf"),
        ("report-2023.pdf", "/docs/report-2023.pdf"),
        ("report-2023", "/docs/report-2023.pdf"),
        ("notes", "notes"),
        ("plain", "plain"),
    ],
)
def test_documents_are_found_by_id_path_and_name(
    names: dict[str, list[str]], name: str, expected: str
) -> None:
    assert find_document(name, names) == expected


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("notes.md", "'notes.md' may be any of new/notes.md, old/notes.md: "),
        ("zzzzzz", "no document 'zzzzzz'$"),
    ],
)
def test_names_of_no_or_several_documents(
    names: dict[str, list[str]], name: str, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        find_document(name, names)
