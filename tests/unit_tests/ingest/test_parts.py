"""Chunks given as documents, two files of one name, and one text under several names."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_text_splitters import CharacterTextSplitter, RecursiveCharacterTextSplitter

from langchain_rse import RSERetriever, SQLDocStore
from tests.unit_tests import fakes

way = fakes.way
Way = fakes.Way

TEXT = "\n\n".join(
    f"Paragraph {number} tells of herons, and of how many there were in the year {1900 + number}."
    for number in range(12)
)
WHOLE = r"add whole documents: retriever\.add_documents\(docs\).*text_splitter=splitter"


class Knowledge:
    """A retriever that returns all it has."""

    def __init__(self, way: Way) -> None:
        self.way = way
        self.vectorstore = InMemoryVectorStore(fakes.BagOfWords())
        self.docstore = fakes.WatchedDocStore(SQLDocStore("sqlite://"), fakes.Writes())
        self.retriever = RSERetriever(
            vectorstore=self.vectorstore,
            docstore=self.docstore,
            config=fakes.EVERYTHING,
            max_context_length=None,
            text_splitter=RecursiveCharacterTextSplitter(chunk_size=100, chunk_overlap=0),
        )

    def add(self, documents: Any, **kwargs: Any) -> list[str]:
        return self.way.add(self.retriever, documents, **kwargs)

    def passages(self) -> list[Document]:
        found: list[Document] = self.way.invoke(self.retriever, "herons text")
        return found

    def texts(self) -> dict[str, str]:
        return {one.metadata["doc_id"]: one.page_content for one in self.passages()}

    @property
    def is_empty(self) -> bool:
        return fakes.keys_of(self.docstore) == []


@pytest.fixture
def knowledge(way: Way) -> Knowledge:
    return Knowledge(way)


def whole(**metadata: Any) -> Document:
    return Document(TEXT, metadata=metadata)


def recursive(size: int = 200, overlap: int = 0, **settings: Any) -> RecursiveCharacterTextSplitter:
    return RecursiveCharacterTextSplitter(chunk_size=size, chunk_overlap=overlap, **settings)


# Chunks


@pytest.mark.parametrize("metadata", [{}, {"source": "a"}, {"source": "a", "page": 3}], ids=str)
@pytest.mark.parametrize("ids", [False, True])
@fakes.both_ways
def test_chunks_with_positions_are_refused(
    knowledge: Knowledge, metadata: dict[str, Any], *, ids: bool
) -> None:
    chunks = recursive(add_start_index=True).split_documents([whole(**metadata)])
    given = [str(number) for number in range(len(chunks))] if ids else None
    message = rf"begins 'Paragraph.*start_index=\d+ in its metadata.*{WHOLE}.*remove 'start_index'"
    with pytest.raises(ValueError, match=message):
        knowledge.add(chunks, ids=given)
    assert knowledge.is_empty


@pytest.mark.parametrize(
    "splitter",
    [recursive(300), CharacterTextSplitter(" ", chunk_size=250, chunk_overlap=60)],
    ids=["no overlap", "overlap"],
)
@pytest.mark.parametrize("as_iterator", [False, True])
def test_chunks_of_one_source_are_refused(
    knowledge: Knowledge, splitter: Any, *, as_iterator: bool
) -> None:
    chunks = splitter.split_documents([whole(source="a", page=1), whole(source="a", page=2)])
    with pytest.raises(ValueError, match=rf"source 'a'.*same metadata.*chunks, {WHOLE}"):
        knowledge.add(iter(chunks) if as_iterator else chunks)
    assert knowledge.is_empty


def test_documents_that_share_words_as_chunks_do_are_a_warning(knowledge: Knowledge) -> None:
    texts = CharacterTextSplitter(" ", chunk_size=150, chunk_overlap=60).split_text(TEXT)
    message = rf"^\d+ of \d+ documents begin .*{WHOLE}.*separate=True"
    for fields in ({}, {"source": "a"}):
        chunks = []
        for number, text in enumerate(texts):
            chunks.append(Document(text, metadata={**fields, "chunk": number}))
        with pytest.warns(UserWarning, match=message):
            knowledge.add(chunks)
        knowledge.add(chunks, separate=True)  # without a warning
    line = "Herons of the northern lakes"
    knowledge.add([Document(f"{line}, part {number}. {line}") for number in range(9)])


def test_what_was_retrieved_is_refused(knowledge: Knowledge) -> None:
    knowledge.add([whole(source="a")])
    passage = knowledge.passages()[0]
    (chunk,) = knowledge.vectorstore.similarity_search("herons in 1900", k=1)
    for fragment, field in [(passage, "rse"), (chunk, "rse_version")]:
        fragment.metadata.pop("start_index")
        for ids in (None, ["b"]):
            with pytest.raises(ValueError, match=rf"{field}=.*{WHOLE}.*remove '{field}'"):
                knowledge.add([fragment], ids=ids)
    assert knowledge.texts() == {"a": TEXT}


# Parts of a document, or several documents


def test_parts_that_nothing_tells_apart(knowledge: Knowledge) -> None:
    files = [Document(f"text of {n}", metadata={"source": "a.txt"}) for n in ("north", "south")]
    message = rf"source 'a\.txt'.*{WHOLE}.*different files.*ids= or metadata\['doc_id'\].*'page'"
    with pytest.raises(ValueError, match=message):
        knowledge.add(files)
    with pytest.raises(ValueError, match=message):
        knowledge.add(iter(files))
    assert knowledge.is_empty
    assert knowledge.add(files, ids=["north", "south"]) == ["north", "south"]
    with pytest.raises(ValueError, match=r"id 'both'.*same metadata"):
        knowledge.add(files, ids=["both", "both"])


@pytest.mark.parametrize("name", ["source", "doc_id"])
@pytest.mark.parametrize("as_iterator", [False, True])
def test_a_file_that_is_listed_twice_is_added_once(
    knowledge: Knowledge, name: str, *, as_iterator: bool
) -> None:
    pages = [Document(f"text {n}", metadata={name: "a.pdf", "page": n}) for n in range(3)]
    other = Document("other", metadata={name: "b.pdf"})
    files: Any = [*pages, other, *(page.model_copy() for page in pages)]
    with pytest.warns(UserWarning, match=r"3 documents had the same text.*'a\.pdf'"):
        found = knowledge.add(iter(files) if as_iterator else files)
    assert found == ["a.pdf", "b.pdf"]
    assert knowledge.texts()["a.pdf"] == "text 0\n\ntext 1\n\ntext 2"
