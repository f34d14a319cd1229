"""Ends of sentences in any script."""

# ruff: noqa: RUF001 - other scripts

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_rse.text.sentences import SPACED_ENDS, UNSPACED_ENDS, character_ends, sentence_ends


def sentences_of(text: str) -> list[str]:
    bounds = [0, *sentence_ends(text), len(text)]
    parts = [text[start:end].strip() for start, end in pairwise(bounds)]
    return [part for part in parts if part]


@pytest.mark.parametrize(
    "sentences",
    [
        ["Herons fish at dawn.", "Otters sleep!", "Do they?", "Well…", "Yes."],
        ["It was J. Smith, e.g. this or 3.5 of it.", "Nobody else."],
        ["See Fig. 3 and No. 7 of vol. II.", "Next."],
        ["Nach Abs. 2 und Art. IV gilt am 18. März nichts.", "Oder am 3. Mai."],
        ["Dr. Smith met Mrs. Jones.", "It cost approx. 3 € per St. James."],
        ["It ends.", "1.88. “Event” means that.", "1.89. “Law” means this.", "2.1.3. End."],
        ["« Oui ! »", "Il part."],
        ["«\xa0Non.\xa0»", "Elle reste."],
        ["»Ja.«", "Er ging.", "„Nein.“", "Sie blieb."],
        ["It ended in 2019.", "Nobody knew.", "Is it A?", "No!", "Yes."],
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


@pytest.mark.parametrize(
    "characters",
    [
        ["e\u0301", "a", "\r\n", "x\u0323\u0302"],
        ["\U0001f1e9\U0001f1ea", "\U0001f1eb\U0001f1f7", "\U0001f1ea", "a"],  # flags
        ["\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f44d\U0001f3fd", "\u2764\ufe0f"],
        ["हि", "न्", "दी", "กำ", "\u1100\u1161\u11a8", "한"],
        ["\U0001f3f4\U000e0067\U000e0062\U000e007f", "1\ufe0f\u20e3", "漢", "葛\U000e0100"],
    ],
)
def test_characters_as_a_reader_sees_them(characters: list[str]) -> None:
    text = "".join(characters)
    bounds = [0, *character_ends(text)]
    assert [text[start:end] for start, end in pairwise(bounds)] == characters


@given(st.text(st.sampled_from(" \n\"')」aAé北" + SPACED_ENDS + UNSPACED_ENDS)))
def test_ends_ascend_within_the_text(text: str) -> None:
    ends = list(sentence_ends(text))
    assert ends == sorted(set(ends))
    assert all(0 < end <= len(text) for end in ends)
