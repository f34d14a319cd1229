"""`compare`: passages and the result of another retriever, in the same amount of text."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda

from langchain_rse import DocumentHeaders, RSERetriever
from langchain_rse.explaining import Piece, SideBySide
from langchain_rse.explaining.side_by_side import parts_of
from tests.unit_tests import fakes
from tests.unit_tests.fakes import PLAIN, QUERY, FixedRetriever, lines, make_retriever

way = fakes.way
Way = fakes.Way

# The passage has chunks 1 to 3; of the two best chunks, one is in another document.
TEXTS = {"a": lines(90, 10, 50, 12, 90, name="a"), "b": lines(80, 15, 85, name="b")}


@pytest.fixture
def retriever() -> RSERetriever:
    return make_retriever(TEXTS, config=PLAIN.replace(passage_cost=0.2), k=1)


@fakes.both_ways
def test_the_best_chunks_have_the_same_length(way: Way, retriever: RSERetriever) -> None:
    found = way.call(retriever.compare, retriever.acompare, QUERY)
    [passage] = retriever.invoke(QUERY)
    assert [piece.text for piece in found.passages] == [passage.page_content]
    assert sum(len(piece.text) for piece in found.other) == len(passage.page_content)
    assert [piece.place for piece in found.other] == [
        "a, characters 6–12",
        "a, characters 18–24",
        "b, characters 6–12",
    ]
    assert found.only_in_passages == 6
    assert found.only_in_other == 6


def test_printed(retriever: RSERetriever) -> None:
    assert str(retriever.compare(QUERY)) == (
        "query 0\n"
        "passages: 1 text, 18 characters, 6 only here; "
        "top-k chunks: 3 texts, 18 characters, 6 only here.\n"
        f"a                top-k chunks {'·' * 10}{'█' * 10}{'·' * 10}{'█' * 10}{'·' * 10}\n"
        f"                     passages {'·' * 10}{'█' * 30}{'·' * 10}\n"
        f"b                top-k chunks {'·' * 16}{'█' * 18}{'·' * 16}\n"
        "+ marks text only in the passages, - text only in top-k chunks.\n"
        "Passage 1: a, characters 6–24\n"
        "  a1 10\n"
        "+ a2 50\n"
        "  a3 12\n"
        "Rank 1: a, characters 6–12\n"
        "  a1 10\n"
        "Rank 2: a, characters 18–24\n"
        "  a3 12\n"
        "Rank 3: b, characters 6–12\n"
        "- b1 15"
    )


def test_a_line_for_logs_and_lists(retriever: RSERetriever) -> None:
    line = repr(retriever.compare(QUERY))
    assert line.startswith("<SideBySide of 'query 0': passages: 1 text, 18 characters, 6 only")
    assert "a2 50" not in line


def test_another_retriever(retriever: RSERetriever) -> None:
    documents = [
        Document("b1 15\nb2 85\n", metadata={"doc_id": "b", "start_index": 6}),
        Document("a2 50"),  # without a place: known by its text
        Document("too little of it would be shown", metadata={"source": "c"}),
    ]
    found = retriever.compare(QUERY, FixedRetriever(documents=documents, name="mine"))
    assert found.other_name == "mine"
    assert [piece.text for piece in found.other] == ["b1 15\nb2 85\n", "a2 50"]
    assert "+ a1 10\n  a2 50\n+ a3 12\n" in str(found)
    assert found.summary == (
        "passages: 1 text, 18 characters, 13 only here; mine: 2 texts, 17 characters, 12 only here"
    )


def test_headers_are_no_text_of_the_document() -> None:
    retriever = make_retriever(TEXTS, headers=DocumentHeaders(), include_header=True)
    found = retriever.compare(QUERY)
    assert retriever.invoke(QUERY)[0].page_content.startswith("a\n\n")
    assert all(piece.text[1].isdigit() for piece in [*found.passages, *found.other])


def test_nothing_returned() -> None:
    found = make_retriever(TEXTS, score_floor=0.999).compare(QUERY)
    assert not found.passages
    assert found.other
    assert f"No passages: {found.reason}" in str(found)
    assert f"No passages: {found.reason}" in found._repr_html_()


def test_several_queries_and_arguments(retriever: RSERetriever) -> None:
    broken: Any = RunnableLambda(lambda _: ["no document"])
    found = retriever.compare(QUERY, queries=["query 0", "query 80"], k=2)
    assert found.passages
    with pytest.raises(ValueError, match="unknown argument"):
        retriever.compare(QUERY, budget=3)
    with pytest.raises(TypeError, match="must return Documents"):
        retriever.compare(QUERY, broken)


def test_a_page_shows_text_as_text() -> None:
    hostile = "<script>alert(1)</script> 10"
    retriever = make_retriever({'"><img src=x>': f"{hostile}\n"})
    page = retriever.compare("<b>query 0").to_html()
    assert "<script" not in page
    assert "<img" not in page
    assert "<b>" not in page
    assert "&lt;script&gt;" in page


def test_a_page_is_written(retriever: RSERetriever, tmp_path: Any) -> None:
    page = retriever.compare(QUERY).to_html(tmp_path / "both.html")
    assert (tmp_path / "both.html").read_text(encoding="utf-8") == page
    assert "<mark>a2 50\n</mark>a3 12</div>" in page
    assert "http" not in page


def test_a_strip_is_drawn_only_for_a_side_with_text(retriever: RSERetriever) -> None:
    page = retriever.compare(QUERY).to_html()
    other, passages = page.split("<section")[1:]
    assert other.count('class="strip"') == 2
    assert passages.count('class="strip"') == 1
    assert '<div class="place">Rank 3: b, characters 6–12</div>' in other
    assert '<div class="place">Passage 1: a, characters 6–24</div>' in passages


def test_sides_of_different_length() -> None:
    same = Piece("a", "a", 0, "one two")
    other = SideBySide("q", [same], [same._replace(text="one")], "mine", {})
    assert other.summary == (
        "passages: 1 text, 7 characters, 4 only here; mine: 1 text, 3 characters, 0 only here"
    )


def test_a_cut_piece_is_marked() -> None:
    texts = {"a": lines(0, name="a" * 60), "b": lines(10, name="b" * 90)}
    retriever = make_retriever(texts, config=PLAIN, k=1)
    other = FixedRetriever(documents=[Document("long " * 40, metadata={"source": "c"})])
    found = retriever.compare(QUERY, other)
    [cut] = found.other
    assert len(cut.text) == len(found.passages[0].text)
    assert cut.place == "c (cut to equal length)"
    assert "Rank 1: c (cut to equal length)\n- long" in str(found)


def test_paths_are_shortened_to_what_tells_them_apart() -> None:
    pieces = [
        Piece(name, name, 0, f"text of {name}")
        for name in ("/home/docs/birds/README.md", "/home/docs/fish/README.md", "/home/docs/a.md")
    ]
    found = SideBySide("q", pieces, pieces[:1], "mine", {})
    assert "Passage 1: birds/README.md, characters 0–" in str(found)
    assert "Passage 3: a.md, characters 0–" in str(found)
    page = found.to_html()
    assert '<div class="place" title="/home/docs/a.md">Passage 3: a.md, characters' in page
    assert found.passages[2].place.startswith("/home/docs/a.md, characters")


def test_documents_without_a_strip_are_counted() -> None:
    pieces = [Piece(f"a rather long name, number {n}", str(n), 0, f"text {n}") for n in range(9)]
    found = SideBySide("q", pieces, [], "mine", {})
    assert "\na rather long name, n... passages █" in str(found)
    assert "\nand 3 more documents\n" in str(found)


@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(1, 15)), max_size=6),
    st.integers(0, 40),
    st.integers(1, 20),
)
def test_parts(others: list[tuple[int, int]], start: int, length: int) -> None:
    text = "".join(chr(0x100 + number) for number in range(80))

    def piece(first: int, size: int) -> Piece:
        return Piece("d", "d", first, text[first : first + size])

    parts = parts_of(piece(start, length), [piece(*other) for other in others])
    assert "".join(part.text for part in parts) == text[start : start + length]
    shared = {number for first, size in others for number in range(first, first + size)}
    position = start
    for part in parts:
        for _ in part.text:
            assert (position not in shared) == part.is_only_here
            position += 1


def test_text_of_another_document_that_is_the_same_is_no_difference() -> None:
    shared = " ".join(f"word{number}" for number in range(60))
    passage = Piece("a", "a", 100, f"First!\n{shared}\n")
    # In two chunks, with other line breaks, and among other text.
    middle = shared.index("word30")
    chunks = [
        Piece("b", "b", 0, f"Second? {shared[:middle]}"),
        Piece("b", "b", 900, f"{shared[middle:]} and on".replace(" ", "\n")),
    ]
    found = SideBySide("q", [passage], chunks, "chunks", {})
    assert found.only_in_passages == len("First!\n")
    assert found.only_in_other == len("Second? ") + len("and\non")
    assert "+ First!\n  word0 word1" in str(found)
    assert "<mark>First!\n</mark>word0" in found.to_html()


def test_a_word_in_the_middle_is_a_difference() -> None:
    clause = " ".join(f"word{number}" for number in range(60))
    other = clause.replace("word30", "Acme")
    parts = parts_of(Piece("a", "a", 0, clause), [Piece("b", "b", 0, other)])
    assert [part.text for part in parts if part.is_only_here] == ["word30 "]


def test_without_places() -> None:
    found = SideBySide("q", [Piece("a", None, None, "one two")], [], "none", {})
    assert str(found).endswith("Passage 1: a\n+ one two")
