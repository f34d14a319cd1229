"""Splitters that change the text: whatever they do to it, spans lie where it was cut."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_rse.ingest.splitting import Span, find_spans

ALPHABETS = [
    ["0", "1", "0 ", "00 0", ".", "\n"],
    ["a", "A", "ab", "Ab", "the", "The ", " ", "\n", "\n\n", ". ", "--"],
    ["Hello", "world", "x_y", "42", ", ", ". ", "! ", " ", "\t", "\r\n", "\r\n\r\n"],
    ["e\u0301", "a\u0308\u0323", "é", "e", "\u0301", "\u00ad", "ﬁ", "fi", "ß", "ss", "İ", "½", " "],
    ["שלום", "עולם", "ם", "مرحبا", "\u202e", "\u200f", "ﷺ", " ", "\n", "."],
    ["😀", "👩\u200d👩\u200d👧", "🇩🇪", "\ufe0f", "a", "b", " ", "\n\n"],
    ["\x00", "\ufeff", "\ud800", "\udfff", "\u2028", "\x85", "\xa0", "z", "Z", " ", "\r", "\n"],
    ["。", "漢", "字", "\u3000", "한국어", "가", "ไทย", "हिन्दी", " ", "\n"],
]
TEXTS = st.one_of(
    *(
        st.lists(st.sampled_from(alphabet), min_size=1, max_size=60).map("".join)
        for alphabet in ALPHABETS
    ),
    st.text(st.characters(), min_size=1, max_size=60),
)


def _content(text: str) -> str:
    """What survives: letters and digits without case, accents and ligatures."""
    plain = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    return "".join(character for character in plain if character.isalnum())


def _without_accents(text: str) -> str:
    decomposed = unicodedata.normalize("NFD", text)
    return "".join(c for c in decomposed if unicodedata.category(c) != "Mn")


CHANGES: dict[str, Callable[[str], str]] = {
    "nothing": lambda text: text,
    "lower case": str.lower,
    "no accents": lambda text: _without_accents(text.lower()),
    "composed": lambda text: unicodedata.normalize("NFKC", text),
    "spaces around punctuation": lambda text: re.sub(r"([^\w\s])", r" \1 ", text),
    # Some symbols become letters, such as Ⓣ.
    "punctuation dropped": lambda text: re.sub(
        r"[^\w\s]", lambda symbol: symbol[0] if _content(symbol[0]) else "", text
    ),
    "one space": lambda text: " ".join(text.split()),
    "no space": lambda text: "".join(text.split()),
    "no soft hyphens": lambda text: text.replace("\u00ad", ""),
    "blank lines": lambda text: "\n\n".join(text.split()),
    "all of it": lambda text: " ".join(
        re.sub(r"([^\w\s])", r" \1 ", _without_accents(text.lower()).replace("\u00ad", "")).split()
    ),
}


class Cut(NamedTuple):
    """A text, and where a splitter cuts it: chunks that cover it, in order, with overlap."""

    text: str
    places: Sequence[tuple[int, int]]


@st.composite
def cuts(draw: st.DrawFn) -> Cut:
    text = draw(TEXTS)
    starts = sorted({0, *draw(st.lists(st.integers(0, len(text) - 1), max_size=8))})
    overlap = draw(st.sampled_from([0, 0, 1, 3, 10]))
    ends = [min(start + overlap, len(text)) for start in starts[1:]] + [len(text)]
    return Cut(text, list(zip(starts, ends, strict=True)))


class Changing:
    """Cuts a text at given places and does something to each chunk."""

    def __init__(self, places: Sequence[tuple[int, int]], change: Callable[[str], str]) -> None:
        self.places = places
        self.change = change

    def split_text(self, text: str) -> list[str]:
        return [self.change(text[start:end]) for start, end in self.places]


def _assert_tiled(text: str, spans: Sequence[Span]) -> None:
    assert spans[0].start == 0
    assert spans[-1].end == len(text)
    assert all(before.end == after.start for before, after in pairwise(spans))
    assert all(span.start < span.end for span in spans)
    assert "".join(text[span.start : span.end] for span in spans) == text


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@given(cut=cuts())
def test_spans_lie_where_the_text_was_cut(change: Callable[[str], str], cut: Cut) -> None:
    spans = find_spans(cut.text, Changing(cut.places, change))

    text = cut.text
    _assert_tiled(text, spans)
    # A chunk that adds no letter to those before it may be found ahead of its place.
    reached = [len(_content(text[:end])) for _, end in cut.places]
    if reached[0] == 0 or any(before == after for before, after in pairwise(reached)):
        return
    whole = _content(text)
    true: dict[str, list[int]] = {}
    for start, end in cut.places:
        true.setdefault(change(text[start:end]), []).append(len(_content(text[:start])))
    for span in spans:
        embedded = _content(span.embedded_text)
        if not embedded:
            continue
        # All of the chunk is there, and its span has nothing that is not embedded.
        found = len(_content(text[: span.start]))
        assert whole.startswith(embedded, found)
        assert embedded.startswith(_content(text[span.start : span.end]))
        if whole.count(embedded) == 1 and whole.find(embedded) == whole.rfind(embedded):
            assert found in true[span.embedded_text]


@pytest.mark.parametrize("unit", ["Ab ", "0 ", "| 0.00 | É |\n", "ﬁ\u00ad"])
@pytest.mark.parametrize("overlap", [0, 100])
def test_long_repetitive_text(unit: str, overlap: int) -> None:
    text = unit * (100_000 // len(unit))
    step = 800 - overlap
    places = [(start, min(start + 800, len(text))) for start in range(0, len(text), step)]

    _assert_tiled(text, find_spans(text, Changing(places, CHANGES["lower case"])))
