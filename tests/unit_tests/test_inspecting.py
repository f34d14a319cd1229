"""What the two stores have of a document, as `inspect` shows it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.stores import InMemoryByteStore
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_rse import RSEIndexer, RSERetriever, SQLDocStore
from langchain_rse.headers import DocumentHeaders
from langchain_rse.inspecting import DocumentNames, inspect_document
from langchain_rse.schema import document_key
from tests.unit_tests import fakes


class Stores:
    """Two stores, and an indexer of lines."""

    def __init__(self) -> None:
        self.vectorstore = InMemoryVectorStore(fakes.BagOfWords())
        self.docstore = SQLDocStore("sqlite://")
        self.indexer = RSEIndexer(self.vectorstore, self.docstore, text_splitter=fakes.Lines())

    def inspect(self, doc_id: str) -> dict[str, Any]:
        found = inspect_document(self.docstore, self.vectorstore, doc_id).to_dict()
        assert json.loads(json.dumps(found)) == found
        return found


@pytest.fixture
def stores() -> Stores:
    return Stores()


def pages(*texts: str, name: str = "a") -> list[Document]:
    return [
        Document(text, metadata={"source": name, "page": n, "by": "Ann"})
        for n, text in enumerate(texts)
    ]


def test_a_document_and_its_chunks(stores: Stores) -> None:
    stores.indexer.add_documents(pages("one\n\ntwo", "three\n"))
    found = stores.inspect("a")
    chunks = found.pop("chunks")
    version = found.pop("version")
    assert found == {
        "doc_id": "a",
        "adopted": False,
        "leftovers": [],
        "length": 16,
        "metadata": {"source": "a", "by": "Ann"},
        "rules": {},
    }
    assert [(c["index"], c["start"], c["end"], c["length"], c["text"]) for c in chunks] == [
        (0, 0, 5, 5, "one\n\n"),
        (1, 5, 10, 5, "two\n\n"),
        (2, 10, 16, 6, "three\n"),
    ]
    assert [c["metadata"] for c in chunks] == [
        {"page_start": 0, "page_end": 0},
        {"page_start": 0, "page_end": 0},
        {"page_start": 1, "page_end": 1},
    ]
    stored = {
        vector["id"]: vector["text"]
        for vector in stores.vectorstore.store.values()
        if vector["metadata"]["rse_version"] == version
    }
    assert {id_: text for c in chunks for id_, text in c["vectors"].items()} == stored
    assert [c["gap"] for c in chunks] == [False] * 3


def test_where_sections_begin(stores: Stores) -> None:
    indexer = RSEIndexer(
        stores.vectorstore, stores.docstore, text_splitter=fakes.Lines(), headers=DocumentHeaders()
    )
    parts = [("one\ntwo", "Numbers"), ("three", "Numbers"), ("a", "Letters")]
    indexer.add_documents(
        [Document(text, metadata={"source": "a", "section": section}) for text, section in parts]
    )
    chunks = stores.inspect("a")["chunks"]
    assert [(chunk["text"].strip(), chunk["at_border"]) for chunk in chunks] == [
        ("one", True),
        ("two", False),
        ("three", False),
        ("a", True),
    ]
    # Where each chunk is a section, that says nothing.
    indexer.add_documents(
        [
            Document(text, metadata={"source": "b", "section": section})
            for text, section in parts[1:]
        ]
    )
    assert [chunk["at_border"] for chunk in stores.inspect("b")["chunks"]] == [False, False]


def test_more_than_one_page_of_spans_and_batch(stores: Stores) -> None:
    lines = [f"line {number}\n" for number in range(1_100)]
    stores.indexer.add_documents([Document("".join(lines), id="long")])
    chunks = stores.inspect("long")["chunks"]
    assert [chunk["text"] for chunk in chunks] == lines
    assert [list(chunk["vectors"].values()) for chunk in chunks] == [[line] for line in lines]


def test_what_is_missing_shows(stores: Stores) -> None:
    stores.indexer.add_documents(pages("one\ntwo\n"))
    version = stores.inspect("a")["version"]
    stores.docstore.mdelete([f"{document_key('a')}/{version}/0"])
    (second,) = (v["id"] for v in stores.vectorstore.store.values() if "two" in v["text"])
    stores.vectorstore.delete([second])
    chunks = stores.inspect("a")["chunks"]
    assert [(chunk["text"], *chunk["vectors"].values()) for chunk in chunks] == [
        (None, "one\n"),
        ("two\n", None),
    ]


def test_a_document_that_was_cut_off_has_leftovers(stores: Stores) -> None:
    writes = fakes.Writes()
    vectorstore = fakes.WatchedVectorStore(fakes.BagOfWords(), writes)
    indexer = RSEIndexer(vectorstore, fakes.WatchedDocStore(stores.docstore, writes))
    writes.fail_at(2, "halfway")
    with pytest.raises(fakes.CrashError):
        indexer.add_documents(pages("one"))
    found = stores.inspect("a")
    assert (found["version"], found["chunks"]) == (None, [])
    assert len(found["leftovers"]) == 1


def test_a_document_without_text(stores: Stores) -> None:
    stores.indexer.add_documents([Document("", id="empty")])
    found = stores.inspect("empty")
    assert (found["length"], found["chunks"]) == (0, [])
    assert found["version"]


def test_an_adopted_document_with_a_gap_and_a_duplicate() -> None:
    vectorstore = InMemoryVectorStore(fakes.BagOfWords())
    docstore = SQLDocStore("sqlite://")
    parts = [("one two", 0, "x"), ("one two", 0, "y"), ("three four", 2, "z")]
    vectorstore.add_documents(
        [Document(text, id=id_, metadata={"source": "a", "n": n}) for text, n, id_ in parts]
    )
    with pytest.warns(UserWarning, match="gap"):
        RSERetriever.from_existing(vectorstore, docstore, doc_id_key="source", chunk_index_key="n")
    found = inspect_document(docstore, vectorstore, "a").to_dict()
    assert found["adopted"] is True
    assert [(c["text"], c["gap"], dict(c["vectors"])) for c in found["chunks"]] == [
        ("one two", False, {"x": "one two", "y": "one two"}),
        (None, True, {}),
        ("three four", False, {"z": "three four"}),
    ]


def test_a_store_that_does_not_find_by_id(stores: Stores) -> None:
    class Blind(InMemoryVectorStore):
        def get_by_ids(self, ids: Any, /) -> list[Document]:
            raise NotImplementedError

    stores.vectorstore = Blind(fakes.BagOfWords())
    RSEIndexer(stores.vectorstore, stores.docstore).add_documents(pages("one"))
    (chunk,) = stores.inspect("a")["chunks"]
    assert list(chunk["vectors"].values()) == [None]
    assert chunk["text"] == "one"


def test_an_unknown_document(stores: Stores) -> None:
    with pytest.raises(LookupError, match="'b'"):
        stores.inspect("b")


# Names


@pytest.fixture
def names() -> DocumentNames:
    docstore = InMemoryByteStore()
    indexer = RSEIndexer(InMemoryVectorStore(fakes.BagOfWords()), docstore)
    ids = ["/docs/report-2023.pdf", "/docs/old/notes.md", "/docs/new/notes.md", "notes", "plain"]
    indexer.add_documents([Document(name, id=name) for name in ids])
    return DocumentNames(docstore)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("/docs/report-2023.pdf", "/docs/report-2023.pdf"),
        ("report-2023.pdf", "/docs/report-2023.pdf"),
        ("report-2023", "/docs/report-2023.pdf"),
        ("notes", "notes"),
        ("plain", "plain"),
        ("report", None),
        ("", None),
    ],
)
def test_documents_are_found_by_id_and_by_the_name_of_the_file(
    names: DocumentNames, name: str, expected: str | None
) -> None:
    assert names.find(name) == expected


def test_a_name_of_several_documents(names: DocumentNames) -> None:
    with pytest.raises(ValueError, match=r"'notes.md' may be any of /docs/new/.*, /docs/old/"):
        names.find("notes.md")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("reprot-2023.pdf", ["/docs/report-2023.pdf"]),
        ("2023", ["/docs/report-2023.pdf"]),
        ("OLD", ["/docs/old/notes.md"]),
        ("zzzzzz", []),
    ],
)
def test_similar_names(names: DocumentNames, name: str, expected: list[str]) -> None:
    assert names.similar(name) == expected
