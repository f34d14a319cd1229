"""Passages that stand word for word in several documents come back once, and whole."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.stores import InMemoryStore
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_text_splitters import RecursiveCharacterTextSplitter

from langchain_rse import DocumentHeaders, RSERetriever
from tests.unit_tests import fakes
from tests.unit_tests.fakes import FixedRetriever, Way

way = fakes.way

# Every candidate is relevant, the first one most, whatever its words.
IN_ORDER = fakes.EVERYTHING.replace(lexical_weight=0.0, name_weight=0.0, document_weight=0.0)
QUERY = "what"

Chunk = tuple[str, int]


def line(name: str, first: int = 0, count: int = 40) -> str:
    """A line of words that no other line has: 200 characters or more, without the spaces."""
    return " ".join(f"{name}{number:02}" for number in range(first, first + count)) + "\n"


PASSAGE = [line("apple"), line("peach"), line("grape"), line("melon")]


def indexed(texts: dict[str, str], **kwargs: Any) -> RSERetriever:
    """A retriever over texts of which each line is a chunk."""
    retriever = RSERetriever(
        vectorstore=InMemoryVectorStore(fakes.BagOfWords()),
        docstore=InMemoryStore(),
        **{"text_splitter": fakes.Lines(), "config": IN_ORDER, **kwargs},
    )
    documents = [Document(text, metadata={"source": name}) for name, text in texts.items()]
    retriever.add_documents(documents, ids=texts)
    return retriever


def in_order(texts: dict[str, str], order: Sequence[Chunk], **kwargs: Any) -> RSERetriever:
    """A retriever that finds these chunks, the best first."""
    source = indexed(texts)
    chunks = {(c.metadata["doc_id"], c.metadata["chunk_index"]): c for c in source.chunks()}
    return RSERetriever(
        base_retriever=FixedRetriever(documents=[chunks[chunk] for chunk in order]),
        candidates_only=False,
        docstore=source.docstore,
        **{"config": IN_ORDER, **kwargs},
    )


def returned(segments: Sequence[Document]) -> set[Chunk]:
    """The chunks in segments."""
    return {
        (segment.metadata["doc_id"], chunk["index"])
        for segment in segments
        for chunk in segment.metadata["rse"]["chunks"]
    }


def every(name: str, *numbers: int) -> list[Chunk]:
    return [(name, number) for number in numbers]


def test_the_better_document_keeps_the_whole_passage() -> None:
    texts = {
        "a": "".join([line("red"), *PASSAGE]),
        "b": "".join([*PASSAGE, line("blue")]),
    }
    # The documents take turns in having the better chunk.
    order = [("a", 1), ("b", 1), ("b", 0), ("a", 2), ("a", 3), ("b", 2), ("b", 3), ("a", 4)]
    retriever = in_order(texts, [*order, ("b", 4), ("a", 0)])
    assert returned(ask(retriever, QUERY)) == {*every("a", 0, 1, 2, 3, 4), ("b", 4)}
    kept = ask(retriever, QUERY, duplicates="keep")
    assert returned(kept) == {*every("a", 0, 1, 2, 3, 4), *every("b", 0, 1, 2, 3, 4)}


def test_the_room_goes_to_other_text() -> None:
    texts = {"a": f"{PASSAGE[0]}red\n", "b": f"{PASSAGE[0]}blue\n", "c": f"{line('green')}more\n"}
    order = [("a", 0), ("b", 0), ("c", 0), ("a", 1), ("b", 1)]
    config = IN_ORDER.replace(neighbor_weight=0.0, segment_cost=0.0)
    retriever = in_order(texts, order, config=config, max_context_length=2 * len(PASSAGE[0]))
    assert returned(ask(retriever, QUERY)) == {("a", 0), ("c", 0)}
    kept = ask(retriever, QUERY, duplicates="keep")
    assert returned(kept) == {("a", 0), ("b", 0)}


def test_chunks_may_end_elsewhere() -> None:
    words = "".join(PASSAGE).split()  # 160
    own = line("blue", count=20).split()
    # The second and third line of b are all of the passage; the first and the last have more.
    shifted = [own + words[:25], words[25:70], words[70:120], words[120:] + own]
    texts = {
        "a": "".join(PASSAGE),
        "b": "".join(f"{' '.join(of_line)}\n" for of_line in shifted),
    }
    order = [*every("a", 2, 0, 1, 3), *every("b", 0, 1, 2, 3)]
    retriever = in_order(texts, order)
    trace = retriever.explain(QUERY, segment_cost=0.0, irrelevant_chunk_penalty=0.2)
    [b] = [document for document in trace.documents if document.doc_id == "b"]
    assert [chunk.outcome for chunk in b.chunks] == [
        "returned",
        "duplicate",
        "duplicate",
        "returned",
    ]
    # Between relevant chunks they may fill the gap.
    found = returned(ask(retriever, QUERY, segment_cost=3.0))
    assert found == {*every("a", 0, 1, 2, 3), *every("b", 0, 1, 2, 3)}
    # If b is better, a has nothing of its own.
    order = [*every("b", 2, 1, 0, 3), *every("a", 0, 1, 2, 3)]
    assert returned(ask(in_order(texts, order), QUERY)) == set(every("b", 0, 1, 2, 3))


def test_text_that_is_not_known_to_be_the_same_stays() -> None:
    words = "".join(PASSAGE).split()
    texts = {
        "a": "".join(PASSAGE),
        "b": f"{' '.join(words[:60])}\n{' '.join(words[60:100])}\n{line('blue')}",
    }
    # The middle of the passage is in b, chunk 1, and in a, chunk 2, which was not found.
    found = ask(in_order(texts, [*every("a", 0, 1), *every("b", 0, 1)]), QUERY)
    assert {("a", 0), ("a", 1), ("b", 1)} <= returned(found)
    every_chunk = [*every("a", 0, 1, 2), *every("b", 0, 1, 2)]
    assert ("b", 1) not in returned(ask(in_order(texts, every_chunk), QUERY, k=1))


def test_three_documents() -> None:
    texts = {
        "a": f"{PASSAGE[0]}{PASSAGE[1]}red\n",
        "b": f"{PASSAGE[1]}{PASSAGE[2]}blue\n",
        "c": f"{PASSAGE[2]}{PASSAGE[0]}green\n",
    }
    order = [*every("a", 0, 1, 2), *every("b", 0, 1, 2), *every("c", 0, 1, 2)]
    retriever = in_order(texts, order)
    assert returned(ask(retriever, QUERY)) == {
        *every("a", 0, 1, 2),
        *every("b", 1, 2),
        ("c", 2),
    }
    trace = retriever.explain(QUERY)
    copies = {(d.doc_id, c.index): c for d in trace.documents for c in d.chunks if c.duplicate_of}
    assert {chunk: copy.duplicate_of for chunk, copy in copies.items()} == {
        ("b", 0): "a",
        ("c", 0): "b",
        ("c", 1): "a",
    }
    assert {copy.outcome for copy in copies.values()} == {"duplicate"}
    [c] = [document for document in trace.documents if document.doc_id == "c"]
    assert trace.why(c, c.chunks[0]) == "'b' has the same text"


@pytest.mark.parametrize(
    "change",
    [
        ("apple20", "apple21"),  # a number
        ("apple00", "Acme"),  # a name, at the beginning
        ("apple39", "Beta"),  # and at the end
        ("apple10 ", ""),
        ("apple10", "apple10, not"),
        ("apple10", "APPLE10"),
    ],
)
def test_clauses_that_differ_in_a_word_are_no_copies(change: tuple[str, str]) -> None:
    texts = {"a": f"{PASSAGE[0]}red\n", "b": f"{PASSAGE[0].replace(*change)}blue\n"}
    retriever = in_order(texts, [*every("a", 0, 1), *every("b", 0, 1)])
    assert {("a", 0), ("b", 0)} <= returned(ask(retriever, QUERY))


def test_line_breaks_and_rules_below_headings_make_no_other_text() -> None:
    splitter = RecursiveCharacterTextSplitter(chunk_size=500, chunk_overlap=0)
    body = PASSAGE[0].strip()
    texts = {
        "a": f"Apples\n======\n\n{body}",
        "b": f"Apples\n-----\n\n{textwrap.fill(body, 40)}\n\n\n{'blue ' * 99}",
    }
    retriever = indexed(texts, text_splitter=splitter)
    found = ask(retriever, "apple00")
    assert sum("apple00" in segment.page_content for segment in found) == 1


def test_short_texts_are_no_copies() -> None:
    turn = "Yes, that works for me. See you on Monday at the station, then.\n"
    texts = {"a": f"{turn}{PASSAGE[0]}", "b": f"{turn}{PASSAGE[1]}"}
    retriever = in_order(texts, [*every("a", 0, 1), *every("b", 0, 1)])
    assert returned(ask(retriever, QUERY)) == {*every("a", 0, 1), *every("b", 0, 1)}


def test_what_a_document_says_twice_stays() -> None:
    texts = {"a": f"{PASSAGE[0]}red\n{PASSAGE[0]}", "b": f"{PASSAGE[1]}blue\n"}
    order = [*every("a", 0, 1, 2), *every("b", 0, 1)]
    assert returned(ask(in_order(texts, order), QUERY)) == set(order)


def test_documents_that_the_question_names_keep_their_text() -> None:
    clause = line("termination")
    texts = {
        "acme.txt": f"{clause}red\n",
        "beta.txt": f"{clause}blue\n",
        "gamma.txt": f"{clause}green\n",
        "delta.txt": line("other"),
    }
    config = fakes.EVERYTHING
    retriever = indexed(texts, config=config, irrelevant_chunk_penalty=0.05)
    asked = "termination00 termination01"
    with_clause = {chunk for chunk in returned(ask(retriever, asked)) if chunk[1] == 0}
    assert len(with_clause - {("delta.txt", 0)}) == 1
    both = returned(ask(retriever, f"{asked} of acme and beta"))
    assert {("acme.txt", 0), ("beta.txt", 0)} <= both
    assert ("gamma.txt", 0) not in both
    # As one of several queries as well.
    several = ask(retriever, QUERY, queries=["other00", f"{asked} of acme and beta"])
    assert {("acme.txt", 0), ("beta.txt", 0)} <= returned(several)
    only = returned(ask(retriever, f"{asked} of beta"))
    assert ("beta.txt", 0) in only
    assert ("acme.txt", 0) not in only


@pytest.mark.parametrize("combine_queries", ["joint", "turns"])
def test_several_queries(combine_queries: str) -> None:
    texts = {"a": "".join([*PASSAGE, line("red")]), "b": "".join([*PASSAGE, line("blue")])}
    retriever = indexed(texts, config=fakes.EVERYTHING, combine_queries=combine_queries)
    # Each query has another best document.
    queries = [f"{' '.join(PASSAGE)} {line(color)}" for color in ("red", "blue")]
    found = returned(ask(retriever, QUERY, queries=queries))
    whole = [name for name in texts if found.issuperset(every(name, 0, 1, 2, 3))]
    assert len(whole) == 1
    assert {("a", 4), ("b", 4)} <= found
    assert len(found) == 6


def test_headers_and_overlap_are_not_compared() -> None:
    splitter = RecursiveCharacterTextSplitter(chunk_size=300, chunk_overlap=80, separators=[" "])
    passage = "".join(PASSAGE).replace("\n", " ")
    texts = {"a": passage, "b": f"{line('blue', count=17).strip()} {passage}"}
    retriever = indexed(
        texts, text_splitter=splitter, headers=DocumentHeaders(), config=fakes.EVERYTHING
    )
    trace = retriever.explain(line("apple"))  # in the words of a, and of b
    copies = [c for d in trace.documents for c in d.chunks if c.outcome == "duplicate"]
    assert len(copies) >= 2
    found = ask(retriever, line("apple"), duplicates="drop")
    assert found[0].metadata["doc_id"] == "a"
    assert found[0].page_content == passage


def wrapped(words: list[str], widths: list[int]) -> list[str]:
    """Words in lines of so many words, the widths one after the other again and again."""
    lines = []
    start = number = 0
    while start < len(words):
        width = widths[number % len(widths)]
        lines.append(" ".join(words[start : start + width]))
        start += width
        number += 1
    return lines


@given(
    documents=st.lists(
        st.tuples(
            st.lists(st.integers(0, 3), max_size=5),  # passages
            # Words of each line: shorter ones may be missed by the estimate.
            st.lists(st.integers(32, 60), min_size=1, max_size=3),
            st.integers(1, 30),  # words of its own before the passages
        ),
        min_size=2,
        max_size=4,
    ),
    data=st.data(),
)
def test_chunks_are_copies_if_a_better_document_has_all_of_them(
    documents: list[tuple[list[int], list[int], int]], data: st.DataObject
) -> None:
    lines_of = {}
    for number, (passages, widths, own) in enumerate(documents):
        words = [f"own{number}{n}" for n in range(own)]
        for passage in passages:
            words += PASSAGE[passage].split()
        lines_of[str(number)] = wrapped(words, widths)
    chunks = [(name, n) for name, lines in lines_of.items() for n in range(len(lines))]
    order = data.draw(st.permutations(chunks))
    better: dict[str, str] = {}  # texts of documents, the best first
    expected = set()
    for name in dict.fromkeys(name for name, _ in order):
        for number, text in enumerate(lines_of[name]):
            packed = text.replace(" ", "")
            if len(packed) >= 150 and any(packed in other for other in better.values()):
                expected.add((name, number))
        better[name] = "".join(lines_of[name]).replace(" ", "")
    texts = {name: "".join(f"{text}\n" for text in lines) for name, lines in lines_of.items()}
    retriever = in_order(texts, order)
    relevant = {
        (document.doc_id, chunk.index)
        for document in retriever.explain(QUERY).documents
        for chunk in document.chunks
        if chunk.outcome == "returned"
    }
    assert relevant == set(chunks) - expected
    assert returned(retriever.invoke(QUERY, duplicates="keep")) == set(chunks)
