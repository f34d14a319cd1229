"""One text in several documents comes back once, and whole: the budget is not spent on it twice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.stores import InMemoryStore
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_rse import RSERetriever
from langchain_rse.config import PRESETS, RSEConfig
from langchain_rse.query.candidates import Reason
from tests.unit_tests import fakes
from tests.unit_tests.fakes import PLAIN, QUERY, ask, lines, make_retriever, wrap

Chunk = tuple[str, int]


def returned(passages: Sequence[Document]) -> set[Chunk]:
    """The chunks in passages."""
    return set(fakes.chunks_in(passages))


# The same whole text

TEXT = lines(0, 10, 90)


def test_the_same_text_comes_once() -> None:
    retriever = make_retriever({"./a": TEXT, "/folder/a": TEXT, "b": lines(20, name="other")})
    once = ask(retriever)
    assert [passage.page_content for passage in once] == ["c0 0\nc1 10\n", "other0 20\n"]
    assert [chunk["rank"] for s in once for chunk in s.metadata["rse"]["chunks"]] == [0, 2, 4]
    twice = ask(retriever, duplicates="keep")
    assert [s.page_content for s in twice] == ["c0 0\nc1 10\n"] * 2 + ["other0 20\n"]


@given(
    texts=st.lists(
        st.lists(st.integers(0, 90), min_size=1, max_size=5).map(tuple),
        min_size=1,
        max_size=4,
        unique=True,
    ),
    copies=st.lists(st.integers(0, 3), max_size=4),
    preset=st.sampled_from(
        [PLAIN, fakes.EVERYTHING, PRESETS["dsrag-balanced"], PRESETS["kadane"], PRESETS["balanced"]]
    ),
    budget=st.sampled_from([None, 10, 30]),
    data=st.data(),
)
def test_copies_make_no_difference(
    texts: list[tuple[int, ...]], copies: list[int], preset: RSEConfig, budget: Any, data: Any
) -> None:
    """Whatever else there is, and in whatever order the candidates come."""
    # Without words, the best candidate is the first.
    config = preset.replace(lexical_weight=0.0, top_k_for_document_selection=None)
    names = {f"d{number}": lines(*angles) for number, angles in enumerate(texts)}
    more = {
        f"copy {n} of {number}": names[f"d{number}"]
        for n, number in enumerate(copies)
        if number < len(texts)
    }
    source = make_retriever({**names, **more})
    found = data.draw(st.permutations(list(source.indexer.chunks())))
    # The best candidate decides which one of those with the same text counts.
    first: dict[str, str] = {}
    for chunk in found:
        name = chunk.metadata["doc_id"]
        first.setdefault({**names, **more}[name], name)
    alone = [chunk for chunk in found if chunk.metadata["doc_id"] in first.values()]

    def answer(candidates: list[Document], **kwargs: Any) -> list[Document]:
        retriever = wrap(source, candidates, config=config, max_context_length=budget)
        return retriever.invoke(QUERY, **kwargs)

    assert _without_ranks(answer(found)) == _without_ranks(answer(alone, duplicates="keep"))


def _without_ranks(documents: list[Document]) -> list[tuple[str, float, list[dict[str, Any]]]]:
    """What is compared of an answer: the ranks count the copies too."""
    compared = []
    for document in documents:
        chunks = [{**chunk, "rank": None} for chunk in document.metadata["rse"]["chunks"]]
        compared.append((document.id or "", document.metadata["relevance_score"], chunks))
    return compared


# Nearly the same


# Every candidate is relevant, the first one most, whatever its words.
IN_ORDER = fakes.EVERYTHING.replace(lexical_weight=0.0, name_weight=0.0, document_weight=0.0)
ASKED = "what"


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
    chunks = {}
    for chunk in source.indexer.chunks():
        chunks[chunk.metadata["doc_id"], chunk.metadata["chunk_index"]] = chunk
    found = [chunks[chunk] for chunk in order]
    return wrap(source, found, **{"config": IN_ORDER, **kwargs})


def every(name: str, *numbers: int) -> list[Chunk]:
    return [(name, number) for number in numbers]


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
    assert {("a", 0), ("b", 0)} <= returned(ask(retriever, ASKED))


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
    several = ask(retriever, ASKED, queries=["other00", f"{asked} of acme and beta"])
    assert {("acme.txt", 0), ("beta.txt", 0)} <= returned(several)
    only = returned(ask(retriever, f"{asked} of beta"))
    assert ("beta.txt", 0) in only
    assert ("acme.txt", 0) not in only


def in_lines(words: list[str], widths: list[int]) -> list[str]:
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
        lines_of[str(number)] = in_lines(words, widths)
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
        for document in retriever.explain(ASKED).documents
        for chunk in document.chunks
        if chunk.outcome is Reason.RETURNED
    }
    assert relevant == set(chunks) - expected
    assert returned(retriever.invoke(ASKED, duplicates="keep")) == set(chunks)
