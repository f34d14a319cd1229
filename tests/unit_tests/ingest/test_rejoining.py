"""Chunks given as documents, two files of one name, and one text under several names."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_text_splitters import (
    CharacterTextSplitter,
    MarkdownHeaderTextSplitter,
    RecursiveCharacterTextSplitter,
)

from langchain_rse import RSERetriever, SQLDocStore
from langchain_rse.errors import SplittingError
from tests.unit_tests import fakes

way = fakes.way
Way = fakes.Way

PARAGRAPHS = [
    f"Paragraph {number} tells of herons, and of how many there were in the year {1900 + number}."
    f" It has a second sentence of {number * 7} words, and a third one.\n    An indented line."
    for number in range(12)
]
TEXT = "\n\n".join(PARAGRAPHS)
LINE = " ".join(PARAGRAPHS).replace("\n   ", "")  # without paragraphs, all chunks overlap
PUT_TOGETHER = r"1 document\(s\) \('a'\) were added as chunks and joined again"
PLACE = r"start_index=\d+ \('[^']*'\.\.\.\)"
WHOLE = r"add whole documents.*retriever\.add_documents\(docs\).*text_splitter=splitter"


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

    def add(self, documents: Sequence[Document], **kwargs: Any) -> list[str]:
        return self.way.add(self.retriever, documents, **kwargs)

    def passages(self) -> list[Document]:
        found: list[Document] = self.way.invoke(self.retriever, "herons text")
        return found

    def texts(self) -> dict[str, str]:
        return {one.metadata["doc_id"]: one.page_content for one in self.passages()}


@pytest.fixture
def knowledge(way: Way) -> Knowledge:
    return Knowledge(way)


def recursive(size: int = 200, overlap: int = 0, **settings: Any) -> RecursiveCharacterTextSplitter:
    return RecursiveCharacterTextSplitter(chunk_size=size, chunk_overlap=overlap, **settings)


def chunks_of(splitter: Any, *texts: str, source: str = "a", pages: bool = False) -> list[Document]:
    documents = [
        Document(text, metadata={"source": source, **({"page": page} if pages else {})})
        for page, text in enumerate(texts)
    ]
    found: list[Document] = splitter.split_documents(documents)
    return found


def words_of(text: str) -> list[str]:
    return text.split()


# By start_index


@pytest.mark.parametrize("overlap", [0, 60])
@fakes.both_ways
def test_chunks_with_start_index_become_the_text_again(knowledge: Knowledge, overlap: int) -> None:
    chunks = chunks_of(recursive(200, overlap, add_start_index=True), TEXT)
    with pytest.warns(UserWarning, match=PUT_TOGETHER) as caught:
        assert knowledge.add(chunks) == ["a"]
    assert len(caught) == 1
    (text,) = knowledge.texts().values()
    assert words_of(text) == words_of(TEXT)
    assert len(text) == len(TEXT)
    (passage,) = knowledge.passages()
    assert passage.metadata["source"] == "a"


@pytest.mark.parametrize("overlap", [0, 60])
def test_pages_split_before_are_pages_again(knowledge: Knowledge, overlap: int) -> None:
    pages = [TEXT[:700].strip(), "  One short page.", TEXT[700:].strip()]
    chunks = chunks_of(recursive(200, overlap, add_start_index=True), *pages, pages=True)
    with pytest.warns(UserWarning, match=PUT_TOGETHER):
        knowledge.add(chunks)
    (passage,) = knowledge.passages()
    assert words_of(passage.page_content) == words_of(" ".join(pages))
    assert len(passage.page_content) == len("\n\n".join(pages))
    assert (passage.metadata["page_start"], passage.metadata["page_end"]) == (0, 2)


def test_sections_of_one_heading_are_texts_of_their_own(knowledge: Knowledge) -> None:
    """Their start positions are those in the section."""
    text = "# Notes\n{}\n# Results\n{}\n# Notes\n{}"
    sections = MarkdownHeaderTextSplitter([("#", "heading")]).split_text(
        text.format(LINE[:500], LINE[500:900], LINE[900:])
    )
    for section in sections:
        section.metadata["doc_id"] = "a"
    chunks = recursive(200, 60, add_start_index=True).split_documents(sections)
    with pytest.warns(UserWarning, match=PUT_TOGETHER):
        knowledge.add(chunks)
    assert words_of(knowledge.texts()["a"]) == words_of(
        " ".join(section.page_content for section in sections)
    )


@given(
    st.lists(
        st.sampled_from(["heron ", "lake. ", "\n\n", "\n", " ", "owl"]), min_size=1, max_size=80
    ),
    st.integers(5, 40),
    st.integers(0, 4),
    st.randoms(use_true_random=False),
)
def test_any_order_gives_the_text(pieces: list[str], size: int, overlap: int, random: Any) -> None:
    """What is stripped between chunks is white space of the same length."""
    text = "".join(
        f"{piece}{number}" if piece.strip() else piece for number, piece in enumerate(pieces)
    )
    chunks = chunks_of(recursive(size, overlap, add_start_index=True), text.strip() or "text")
    random.shuffle(chunks)
    knowledge = Knowledge(Way(None))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        knowledge.add(chunks)
    (found,) = knowledge.texts().values()
    assert words_of(found) == words_of(text.strip() or "text")
    assert len(found) == len(text.strip() or "text")


def test_the_same_version_as_of_the_same_chunks_given_again(knowledge: Knowledge) -> None:
    chunks = chunks_of(recursive(200, 60, add_start_index=True), TEXT)
    for some in (chunks, chunks[::-1]):
        with pytest.warns(UserWarning, match=PUT_TOGETHER):
            knowledge.add(some)
        knowledge.docstore.writes.made.clear()
    assert knowledge.docstore.writes.made == []


def moved(chunks: list[Document], number: int, by: int) -> list[Document]:
    chunks[number].metadata["start_index"] += by
    return chunks


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda some: moved(some, 2, 5), "disagree about the text|characters are missing"),
        (
            lambda some: moved(some, 2, -5),
            rf"disagree about the text they share: {PLACE} and {PLACE}",
        ),
        (lambda some: some[:2] + some[4:], r"\d+ characters are missing before .*start_index=\d+"),
        (
            lambda some: some + chunks_of(recursive(90, add_start_index=True), TEXT[31:]),
            "two chunks disagree about the text they share",
        ),
        (
            lambda some: moved(some, 2, -1 - some[2].metadata["start_index"]),
            "the position of a chunk is",
        ),
    ],
    ids=["wrong", "wrong too", "missing", "two texts", "unknown"],
)
def test_what_contradicts_itself_is_refused_with_the_line_to_write(
    knowledge: Knowledge, change: Any, message: str
) -> None:
    chunks = change(chunks_of(recursive(200, add_start_index=True), TEXT))
    with pytest.raises(SplittingError, match=rf"document 'a'.*(?:{message}).*{WHOLE}"):
        knowledge.add(chunks)
    assert fakes.keys_of(knowledge.docstore) == []


# Without positions


@pytest.mark.parametrize(
    "splitter",
    [
        recursive(300, 100),
        RecursiveCharacterTextSplitter(chunk_size=500),
        CharacterTextSplitter(" ", chunk_size=250, chunk_overlap=60),
    ],
    ids=["recursive", "default overlap", "words"],
)
@pytest.mark.parametrize("pages", [False, True])
def test_chunks_that_overlap_are_refused(
    knowledge: Knowledge, splitter: Any, *, pages: bool
) -> None:
    texts = [LINE[:800].strip(), LINE[800:].strip()] if pages else [LINE]
    with pytest.raises(SplittingError, match=rf"'a'.*overlap by \d+ characters.*{WHOLE}.*add_"):
        knowledge.add(chunks_of(splitter, *texts, pages=pages))
    assert fakes.keys_of(knowledge.docstore) == []


FOOTER = "Confidential. Property of the Heron Company, all rights reserved."


def test_repeated_headers_and_footers_of_pages_are_no_overlap(knowledge: Knowledge) -> None:
    pages = [
        Document(f"{FOOTER}\nPage {n}\n{FOOTER}", id="a", metadata={"part": n // 2, "n": n})
        for n in range(4)
    ]
    knowledge.add(pages)
    assert knowledge.texts()["a"].count(FOOTER) == 8
    for page in pages:
        page.metadata = {}
    stored_before = fakes.keys_of(knowledge.docstore)
    with pytest.raises(ValueError, match=r"id 'a'.*same metadata"):
        knowledge.add(pages)  # not as chunks, but since nothing says how they follow
    assert fakes.keys_of(knowledge.docstore) == stored_before


def test_repeated_rows_of_a_log_are_no_overlap(knowledge: Knowledge) -> None:
    row = "ERROR the disk of node a is full"
    for number in range(3):
        piece = f"{row}\n{row}\nevent {number}\n{row}\n{row}"
        knowledge.add([Document(piece, id="a")], append=True)
    assert knowledge.texts()["a"].count(row) == 12


# Given twice


@pytest.mark.parametrize("name", ["source", "doc_id"])
@pytest.mark.parametrize("as_iterator", [False, True])
def test_a_file_that_is_listed_twice_is_added_once(
    knowledge: Knowledge, name: str, *, as_iterator: bool
) -> None:
    pages = [Document(f"text {n}", metadata={name: "a.pdf", "page": n}) for n in range(3)]
    other = Document("other", metadata={name: "b.pdf"})
    files: Any = [*pages, other, *(page.model_copy() for page in pages)]
    with pytest.warns(UserWarning, match=r"3 document\(s\) had the same text.*'a\.pdf'"):
        found = knowledge.add(iter(files) if as_iterator else files)
    assert found == ["a.pdf", "b.pdf"]
    assert knowledge.texts()["a.pdf"] == "text 0\n\ntext 1\n\ntext 2"


# Fragments


def test_a_fragment_does_not_replace_its_document(knowledge: Knowledge) -> None:
    document = Document(TEXT, metadata={"source": "a"})
    knowledge.add([document])
    chunk = chunks_of(recursive(200, add_start_index=True), TEXT)[3]
    with pytest.raises(ValueError, match=rf"'a': its beginning is missing.*append=True.*{WHOLE}"):
        knowledge.add([chunk])
    (passage,) = knowledge.passages()
    found = knowledge.vectorstore.similarity_search("herons", k=1)[0]
    for fragment in (passage, found):
        with pytest.raises(ValueError, match=rf"'a'.*retrieved.*fragment.*{WHOLE}.*ids="):
            knowledge.add([fragment])
    assert knowledge.texts() == {"a": TEXT}
    assert knowledge.add([chunk, found], ids=["b", "c"]) == ["b", "c"]
    assert knowledge.texts().keys() == {"a", "b", "c"}


# Two files of one name


def test_parts_that_nothing_tells_apart(knowledge: Knowledge) -> None:
    files = [Document(f"text of {n}", metadata={"source": "a.txt"}) for n in ("north", "south")]
    message = rf"source 'a\.txt'.*different files.*ids= or metadata\['doc_id'\].*'page'.*{WHOLE}"
    with pytest.raises(ValueError, match=message):
        knowledge.add(files)
    with pytest.raises(ValueError, match=message):
        knowledge.way.add(knowledge.retriever, iter(files))
    assert fakes.keys_of(knowledge.docstore) == []
    assert knowledge.add(files, ids=["north", "south"]) == ["north", "south"]
    with pytest.raises(ValueError, match=r"id 'both'.*same metadata"):
        knowledge.add(files, ids=["both", "both"])


# Documents without an id


@pytest.mark.parametrize(
    "splitter",
    [
        recursive(300, 100),
        recursive(300),
        recursive(300, add_start_index=True),
        CharacterTextSplitter(" ", chunk_size=90, chunk_overlap=0),
    ],
    ids=["overlap", "long", "start", "cut"],
)
def test_chunks_without_an_id_are_documents_of_their_own(
    knowledge: Knowledge, splitter: Any
) -> None:
    chunks = splitter.create_documents([LINE])
    with pytest.warns(UserWarning, match=rf"{len(chunks)} documents without an id.*whole text"):
        assert len(knowledge.add(chunks)) == len(chunks)


@pytest.mark.parametrize(
    "texts",
    [
        ["Office hours: 9 to 5.", "Closed on Sundays."],
        [TEXT],
        [f"note {number:05}" for number in range(50)],
        ["Office hours: 9 to 5.", TEXT * 9, "Closed on Sundays.", "Parking is free."],
    ],
    ids=["notes", "one", "many", "report and notes"],
)
def test_notes_are_no_chunks(knowledge: Knowledge, texts: list[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(knowledge.add([Document(text) for text in texts])) == len(texts)


def test_adding_again_is_one_read(knowledge: Knowledge) -> None:
    knowledge.add([Document(TEXT, metadata={"source": "a.txt"})])
    knowledge.docstore.reads.clear()
    knowledge.docstore.writes.made.clear()
    knowledge.add([Document(TEXT, metadata={"source": "a.txt"})])
    assert len(knowledge.docstore.reads) == 1
    assert knowledge.docstore.writes.made == []


def test_parts_of_many_documents_are_counted_in_one_warning(knowledge: Knowledge) -> None:
    splitter = recursive(200, 60, add_start_index=True)
    chunks = [chunks_of(splitter, f"{n} {TEXT}", source=f"{n}.txt") for n in range(5)]
    with pytest.warns(UserWarning, match=r"5 document\(s\) \('0.txt'.* and 2 more\)") as caught:
        knowledge.add(list(itertools.chain.from_iterable(zip(*chunks, strict=False))))
    assert len(caught) == 1
