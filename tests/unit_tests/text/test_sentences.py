"""Ends of sentences in any script."""

# ruff: noqa: RUF001 - other scripts

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_rse.text.sentences import (
    SPACED_ENDS,
    UNSPACED_ENDS,
    sentence_ends,
)


def sentences_of(text: str) -> list[str]:
    bounds = [0, *sentence_ends(text), len(text)]
    parts = [text[start:end].strip() for start, end in pairwise(bounds)]
    return [part for part in parts if part]


@pytest.mark.parametrize(
    "sentences",
    [
        ["Herons fish at dawn.", "Otters sleep!", "Do they?", "Well…", "Yes."],
        ["It was J. Smith, e.g. this or 3.5 of it.", "Nobody else."],
        ["Э. Рязанов снял фильм.", "Да."],
        ["“Is it so?”", "He left (at last.)", "«Oui !»", "So did I."],
        ["他来了。", "「好吗？」", "（是。）", "完了！", "ｶﾅ｡", "はい。"],
        ["यह एक घर है।", "वह एक पेड़ है॥", "हाँ।"],
        ["هل أنت هنا؟", "نعم أنا هنا.", "یہ گھر ہے۔", "وہ درخت ہے۔"],
        ["Ես այստեղ եմ։", "Այո։"],
        ["မြန်မာစာ။", "ကျွန်တော်။"],
        ["ភាសាខ្មែរ។", "ខ្ញុំ៕"],
        ["ሰላም ነው።", "አዎ።"],
        ["བོད་ཡིག།", "ཡིན།"],
    ],
)
def test_sentences_by_hand(sentences: list[str]) -> None:
    assert sentences_of(" ".join(sentences)) == sentences
    assert sentences_of("\n".join(sentences)) == sentences
    if all(set(sentence) & set(UNSPACED_ENDS) for sentence in sentences):
        assert sentences_of("".join(sentences)) == sentences


@given(st.text(st.sampled_from(" \n\"')」aAé北" + SPACED_ENDS + UNSPACED_ENDS)))
def test_ends_ascend_within_the_text(text: str) -> None:
    ends = list(sentence_ends(text))
    assert ends == sorted(set(ends))
    assert all(0 < end <= len(text) for end in ends)
