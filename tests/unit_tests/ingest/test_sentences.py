"""The default splitter: chunks end with sentences, in any script."""

# ruff: noqa: RUF001 - other scripts

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_rse.indexer import RSEIndexer, default_text_splitter
from langchain_rse.ingest.splitting import find_spans


def pieces(text: str, size: int) -> list[str]:
    return default_text_splitter(size).split_text(text)


@pytest.mark.parametrize(
    ("text", "size", "expected"),
    [
        ("One is here. Two is there! Three?", 20, ["One is here.", "Two is there! Three?"]),
        ("He said “Stop.” Then he left.", 20, ["He said “Stop.”", "Then he left."]),
        ("It was made by J. Smith. We saw it.", 26, ["It was made by J. Smith.", "We saw it."]),
        ("Pears, e.g. green ones. And plums.", 26, ["Pears, e.g. green ones.", "And plums."]),
        ("It costs 3.5 dollars. That is all.", 22, ["It costs 3.5 dollars.", "That is all."]),
        ("首都是北京。人口很多！真的吗？", 8, ["首都是北京。", "人口很多！", "真的吗？"]),
        ("他说：「走吧。」然后离开。", 9, ["他说：「走吧。」", "然后离开。"]),
        ("यह पहला है। यह दूसरा है।", 14, ["यह पहला है।", "यह दूसरा है।"]),
        ("هل هذا هو؟ نعم هو.", 12, ["هل هذا هو؟", "نعم هو."]),
        ("ខ្ញុំទៅ។ គាត់មក។", 10, ["ខ្ញុំទៅ។", "គាត់មក។"]),
        ("One.\n\nTwo.\nThree.", 12, ["One.", "Two.\nThree."]),
        ("word " * 5, 10, ["word word", "word word", "word"]),
        ("abcdefghij", 4, ["abcd", "efgh", "ij"]),
    ],
)
def test_where_chunks_end(text: str, size: int, expected: list[str]) -> None:
    assert pieces(text, size) == expected


def test_it_is_the_default() -> None:
    from langchain_core.stores import InMemoryStore
    from langchain_core.vectorstores import InMemoryVectorStore

    from tests.unit_tests.fakes import BagOfWords

    indexer = RSEIndexer(InMemoryVectorStore(BagOfWords()), InMemoryStore())
    sentence = "A sentence of some forty characters is here. "
    chunks = indexer.text_splitter.split_text(sentence * 40)
    assert {str(chunk)[-6:] for chunk in chunks} == {" here."}
    assert max(len(str(chunk)) for chunk in chunks) <= 800


@given(
    st.text(st.sampled_from("ab .?!\n\"')。！？।؟ \u3000”"), max_size=300),
    st.integers(1, 40),
)
def test_chunks_are_not_longer_than_allowed_and_their_spans_tile_the_text(
    text: str, size: int
) -> None:
    splitter = default_text_splitter(size)
    assert all(len(chunk) <= size for chunk in splitter.split_text(text))
    spans, _ = find_spans(text, splitter)
    assert "".join(text[span.start : span.end] for span in spans) == text


@pytest.mark.parametrize("pattern", ["a", "a ", ".", '."', "。", "A. ", "\n", " "])
def test_a_long_text_is_split_to_its_end(pattern: str) -> None:
    """In proportion to its length; in its square, this would not end."""
    text = pattern * (1_000_000 // len(pattern))
    assert all(len(chunk) <= 800 for chunk in pieces(text, 800))
