from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from langchain_text_splitters import (
    CharacterTextSplitter,
    RecursiveCharacterTextSplitter,
    TextSplitter,
)

from langchain_rse.errors import SplittingError
from langchain_rse.ingest.splitting import Span, check_splitter, find_spans

ALPHABETS = [
    ["a", "b", " "],
    ["a", "ab", "the", "a b", " ", "\n", "\n\n", ". ", "--"],
    ["Hello", "world", "x_y", "42", ", ", ". ", "! ", "? ", " ", "\t", "\r\n", "\r\n\r\n"],
    ["e\u0301", "a\u0308\u0323", "é", "\u0301", "\u00ad", "ﬁ", "ß", " ", "\n", "."],
    ["שלום", "עולם", "مرحبا", "\u202e", "\u200f", " ", "\n", "."],
    ["😀", "👩\u200d👩\u200d👧", "🇩🇪", "\ufe0f", "a", " ", "\n\n"],
    ["\x00", "\ufeff", "\ud800", "\udfff", "\u2028", "\x85", "\xa0", "\x1c", "z", " ", "\r", "\n"],
    ["。", "漢", "字", "\u3000", "한국어", "ไทย", "हिन्दी", " ", "\n"],
]
TEXTS = st.one_of(
    *(st.lists(st.sampled_from(alphabet), max_size=60).map("".join) for alphabet in ALPHABETS),
    st.text(st.characters(), max_size=60),
)
LENGTHS: dict[str, Callable[[str], int]] = {
    "characters": len,
    "words": lambda text: len(text.split()),
    "bytes": lambda text: len(text.encode("utf-8", "surrogatepass")),
    "tokens": lambda text: -(-len(text) // 3),
}
# Without letters or digits: nothing is lost for the search when a splitter drops these.
SEPARATORS = ["", " ", "\n", "\n\n", "\r\n", ".", ". ", "--", "\x00", "😀", "\u00ad", "\u0301"]
HIERARCHIES = [
    ["\n\n", "\n", " ", ""],
    ["\n\n", "\n", ". ", " ", ""],
    [" "],
    ["\n", "--"],
    ["", " "],
]
# With keep_separator: letters and regular expressions, too.
KEPT_SEPARATORS = ["a", "ab", "the", "שלום", "42"]
KEPT_HIERARCHIES = [["ab", "a", ""], ["the", " ", "a"], ["z", "\n"]]
PATTERNS = [
    r"\s+",
    r"[,.;!?]\s*",
    r"(?<=[.!?])\s+",
    r"\r?\n",
    r"[ab]",
    r"(?=\s)",
    r"(?<=\s)",
    r"\W",
]
KEEP_FORMS: list[Any] = [True, "start", "end"]

_CONTENT = re.compile(r"[\W_]+")


def _content(text: str) -> str:
    """The letters and digits of a text."""
    return _CONTENT.sub("", text)


@st.composite
def splitters(draw: st.DrawFn, *, keep: bool | None = None) -> TextSplitter:
    """A splitter of LangChain's in any of its settings that keep letters and digits."""
    chunk_size = draw(st.integers(1, 30))
    keep = draw(st.booleans()) if keep is None else keep
    settings: dict[str, Any] = {
        "chunk_size": chunk_size,
        "chunk_overlap": draw(st.integers(0, chunk_size - 1)),
        "length_function": LENGTHS[draw(st.sampled_from(sorted(LENGTHS)))],
        "strip_whitespace": draw(st.booleans()),
        "keep_separator": draw(st.sampled_from(KEEP_FORMS)) if keep else False,
    }
    regex = keep and draw(st.booleans())
    if draw(st.booleans()):
        separators = SEPARATORS + KEPT_SEPARATORS if keep else SEPARATORS
        separator = draw(st.sampled_from(PATTERNS if regex else separators))
        return CharacterTextSplitter(separator, is_separator_regex=regex, **settings)
    patterns = st.lists(st.sampled_from([*PATTERNS, ""]), min_size=1, max_size=3)
    hierarchies = st.sampled_from(HIERARCHIES + KEPT_HIERARCHIES if keep else HIERARCHIES)
    separators = draw(patterns if regex else hierarchies)
    return RecursiveCharacterTextSplitter(separators, is_separator_regex=regex, **settings)


@pytest.fixture(autouse=True, scope="module")
def _quiet_splitters() -> Iterator[None]:
    """LangChain logs a warning for each chunk that is longer than wanted."""
    logger = logging.getLogger("langchain_text_splitters")
    before = logger.level
    logger.setLevel(logging.ERROR)
    yield
    logger.setLevel(before)


@example(  # "a  a" becomes "a a", which the text has elsewhere
    text="aa a  a",
    splitter=RecursiveCharacterTextSplitter(chunk_size=3, chunk_overlap=0, keep_separator=False),
)
@given(TEXTS.filter(bool), splitters())
def test_the_embedded_text_is_the_chunk_and_has_every_letter_of_the_span(
    text: str, splitter: TextSplitter
) -> None:
    spans = find_spans(text, splitter)

    chunks = iter(splitter.split_text(text))
    whole = [Span(0, len(text), text)]
    assert spans == whole or all(span.embedded_text in chunks for span in spans)
    for span in spans:
        embedded = _content(span.embedded_text)
        assert embedded.startswith(_content(text[span.start : span.end]))
        assert _content(text[span.start :]).startswith(embedded)


@given(TEXTS.filter(bool), splitters(keep=True))
def test_an_exact_chunk_stands_in_the_text_where_its_span_starts(
    text: str, splitter: TextSplitter
) -> None:
    spans = find_spans(text, splitter)

    # In front of the first chunk there may be stripped white space.
    assert spans[0].embedded_text in text
    for span in spans[1:]:
        assert text.startswith(span.embedded_text, span.start)


class Altering(RecursiveCharacterTextSplitter):
    """Does something to its chunks before it returns them."""

    def __init__(self, alter: Callable[[list[str]], list[Any]]) -> None:
        super().__init__(chunk_size=12, chunk_overlap=0)
        self._alter = alter

    def split_text(self, text: str) -> list[str]:
        return self._alter(super().split_text(text))


UNIQUE = "Alpha beta gamma.  Delta epsilon zeta. Eta theta iota."


@pytest.mark.parametrize(
    ("alter", "number", "excerpt"),
    [
        (lambda chunks: ["Alfa beta", *chunks[1:]], 0, "Alfa beta"),
        (lambda chunks: [*chunks[:2], "daleth", *chunks[3:]], 2, "daleth"),
        (lambda chunks: [*chunks[:4], "zeta. Eta theta", "Omega"], 5, "Omega"),
        (lambda chunks: [*chunks[:3], "an invention", *chunks[3:]], 3, "an invention"),
        (lambda chunks: [*chunks[:3], chunks[4], chunks[3], chunks[5]], 4, "zeta. Eta"),
        (lambda chunks: [*chunks, "x" * 100], 6, "x" * 60),
        (lambda chunks: [chunks[0], " ", chunks[1], "daleth", *chunks[3:]], 3, "daleth"),
    ],
)
@pytest.mark.parametrize("also_merged", [False, True])
def test_a_splitter_that_changes_the_text_is_refused(
    alter: Callable[[list[str]], list[str]],
    number: int,
    excerpt: str,
    also_merged: bool,  # noqa: FBT001
) -> None:
    text = UNIQUE
    if also_merged:
        # Harmless: only separators differ in the last chunk but one that is right.
        text = text.replace("Alpha beta", "Alpha   beta").replace("theta iota", "theta   iota")

    class Faulty(Altering):
        def split_text(self, _: str) -> list[str]:
            return super().split_text(UNIQUE)

    # Where two chunks changed places, either may be named.
    numbers = f"(?:{number}|{number - 1})" if "Eta" in excerpt else str(number)
    with pytest.raises(SplittingError, match=rf"^chunk {numbers} of \d+ from Faulty,") as error:
        find_spans(text, Faulty(alter))

    assert isinstance(error.value, ValueError)
    if "Eta" not in excerpt:
        assert f"{excerpt!r}" in str(error.value)
    assert "RecursiveCharacterTextSplitter" in str(error.value)


@pytest.mark.parametrize(
    ("splitter", "message"),
    [
        (
            RecursiveCharacterTextSplitter,
            r"got the class RecursiveCharacterTextSplitter: pass an object",
        ),
        ("\n\n", r"object with a method split_text\(text\).*got '\\n\\n'"),
        (None, r"object with a method split_text\(text\).*got None"),
    ],
)
def test_what_is_no_splitter_is_refused(splitter: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        check_splitter(splitter)
