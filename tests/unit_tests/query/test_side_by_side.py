"""`compare`: passages and the result of another retriever, in the same amount of text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document

from langchain_rse import RSERetriever
from langchain_rse.explaining import Piece, SideBySide
from langchain_rse.explaining.side_by_side import only_in
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
    assert [piece.place_in(piece.name) for piece in found.other] == [
        "a, characters 6–12",
        "a, characters 18–24",
        "b, characters 6–12",
    ]
    assert "; 12 characters are in both" in found.summary


def test_tabs_are_shown_as_space() -> None:
    assert "\n+ | a       b" in str(SideBySide("q", [Piece("a", "a", 0, "a\tb")], [], "chunks"))


def test_printed(retriever: RSERetriever) -> None:
    assert str(retriever.compare(QUERY)) == (
        "Query: query 0\n"
        "Passages: 1 text, 18 characters; top-k chunks: 3 texts, 18 characters; "
        "12 characters are in both.\n"
        "+ | marks text only in the passages, - | text only in top-k chunks.\n"
        "\n== passages ==\n\nPassage 1: a, characters 6–24\n"
        "    a1 10\n"
        "+ | a2 50\n"
        "    a3 12\n"
        "\n== top-k chunks ==\n\nRank 1: a, characters 6–12\n"
        "    a1 10\n"
        "\nRank 2: a, characters 18–24\n"
        "    a3 12\n"
        "\nRank 3: b, characters 6–12\n"
        "- | b1 15"
    )


def test_another_retriever(retriever: RSERetriever) -> None:
    documents = [
        Document("b1 15\nb2 85\n", metadata={"doc_id": "b", "start_index": 6}),
        Document("a2 50"),  # without a place, and too short to be known by its text
        Document("too little of it would be shown", metadata={"source": "c"}),
    ]
    found = retriever.compare(QUERY, FixedRetriever(documents=documents, name="mine"))
    assert found.other_name == "mine"
    assert [piece.text for piece in found.other] == ["b1 15\nb2 85\n", "a2 50"]
    assert "+ | a1 10\n+ | a2 50\n+ | a3 12\n" in str(found)
    assert found.summary == (
        "Passages: 1 text, 18 characters; mine: 2 texts, 17 characters; 0 characters are in both"
    )


def test_a_page_shows_text_as_text() -> None:
    hostile = "<script>alert(1)</script> 10"
    retriever = make_retriever({'"><img src=x>': f"{hostile}\n"})
    page = retriever.compare("<b>query 0").to_html()
    assert "<script" not in page
    assert "<img" not in page
    assert "<b>" not in page
    assert "&lt;script&gt;" in page


@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(1, 15)), max_size=6),
    st.integers(0, 40),
    st.integers(1, 20),
)
def test_same_place(others: list[tuple[int, int]], start: int, length: int) -> None:
    text = "".join(chr(0x100 + number) for number in range(80))

    def piece(first: int, size: int) -> Piece:
        return Piece("d", "d", first, text[first : first + size])

    shared = {number for first, size in others for number in range(first, first + size)}
    expected = [number not in shared for number in range(start, start + length)]
    assert only_in([piece(start, length)], [piece(*other) for other in others]) == [expected]


def test_text_of_another_document_that_is_the_same_is_no_difference() -> None:
    shared = " ".join(f"word{number}" for number in range(60))
    passage = Piece("a", "a", 100, f"First!\n{shared}\n")
    # In two chunks, with other line breaks, and among other text.
    middle = shared.index("word30")
    chunks = [
        Piece("b", "b", 0, f"Second? {shared[:middle]}"),
        Piece("b", "b", 900, f"{shared[middle:]} and on".replace(" ", "\n")),
    ]
    found = SideBySide("q", [passage], chunks, "chunks")
    assert [*map(sum, only_in([passage], chunks))] == [len("First!\n")]
    assert [*map(sum, only_in(chunks, [passage]))] == [len("Second? "), len("and\non")]
    assert "+ | First!\n    word0 word1" in str(found)
    assert "<mark>First!\n</mark>word0" in found.to_html()
    code = SideBySide("q", [passage._replace(text="How to:\n```\nx = 1\n```")], [], "chunks")
    assert code.to_html().count('class="text code"') > found.to_html().count('class="text code"')
    longer = SideBySide("q", [passage._replace(text=f"\n{'a ' * 500}{shared}")], chunks, "chunks")
    assert "a <mark>word0" in longer.to_html()  # text in both is less
    assert f"\n+ | {'a ' * 500}word0" in str(longer)
