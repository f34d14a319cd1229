"""Words of texts in any script, in the form in which they are compared."""

# ruff: noqa: RUF001 - other scripts

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_rse.text.words import HAN, UNSPACED, TextWords, find_words, fold_case, split_words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("Red, red FOX!", ["red", "red", "fox"]),
        ("foo_bar.baz-7A", ["foo", "bar", "baz", "7a"]),
        ("Straße STRASSE", ["strasse", "strasse"]),
        ("ΜΈΓΑΣ μέγας ΜΕΓΑΣ", ["μεγασ", "μεγασ", "μεγασ"]),
        ("ＡＢＣ１ ﬁne", ["abc1", "fine"]),
        ("\u2121 \u2116 5", ["tel", "no", "5"]),
        ("cafe\u0301 café", ["café", "café"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("北京是首都", ["北京", "京是", "是首", "首都"]),
        ("人", ["人"]),
        ("Paris2024年の夏", ["paris2024", "年の", "の夏"]),
        ("カタカナ", ["カタ", "タカ", "カナ"]),
        ("ไทย", ["ไท", "ทย"]),
        ("ខ្មែរ", ["ខ្", "្ម", "មែ", "ែរ"]),
        ("\u2764\ufe0f x", ["x"]),
        ("Donau\u00addampf\u00adschiff", ["donaudampfschiff"]),
        ("می\u200cخواهم", ["ميخواهم"]),  # with a joiner
        ("کتاب كتاب كِتَاب كتـاب", ["كتاب"] * 4),
        ("أحمد احمد", ["احمد", "احمد"]),
        ("שָׁלוֹם שלום", ["שלום", "שלום"]),
        ("ёж ЁЖ еж", ["еж", "еж", "еж"]),
        ("٢٠٢٣ ۲۰۲۳ २०२३ 2023", ["2023"] * 4),
        ("C++, C# and F# on .NET", ["cpp", "csharp", "and", "fsharp", "on", "dotnet"]),
        ("é: c++ a.net ab++ #c", ["é", "cpp", "a", "net", "ab", "c"]),
        ("葛\U000e0100城", ["葛城"]),  # with a selector of its form
        ("한국어 문서", ["한국어", "문서"]),
        ("𠮷野家", ["𠮷野", "野家"]),
        ("a\ud800b", ["a", "b"]),
    ],
)
def test_words_by_hand(text: str, expected: list[str]) -> None:
    assert find_words(text) == expected


def has_no_marks(text: str) -> bool:
    """Pairs of Thai characters may begin with a mark, which begins no word of its own."""
    return all(unicodedata.category(character)[0] != "M" for character in fold_case(text))


@given(st.text().filter(has_no_marks))
def test_the_words_of_words_are_the_same(text: str) -> None:
    words = find_words(text)
    assert find_words(" ".join(words)) == words


@given(st.text(st.characters(max_codepoint=127)))
def test_ascii_goes_another_way_to_the_same_words(text: str) -> None:
    assert find_words(f"{text} é")[:-1] == find_words(text)


def single_characters(text: str) -> list[str]:
    """Chinese characters beside others are words of texts."""
    runs = re.findall(f"[{UNSPACED}]{{2,}}", fold_case(text))
    return re.findall(f"[{HAN}]", "".join(runs))


MIXED = st.text(st.sampled_from("abAB 1_.\n\u00a0\u0301\u200déß东京ไท\u0e31한글\ud800"))


@given(st.lists(st.text() | MIXED, max_size=5), st.text() | MIXED)
def test_words_are_counted_in_each_text(texts: list[str], more: str) -> None:
    words = list(dict.fromkeys(find_words(" ".join([*texts, more]))))
    found = [[*find_words(text), *single_characters(text)] for text in texts]
    text_words = TextWords(texts)
    numbers = [text_words.numbers[text] for text in texts]
    assert text_words.sizes[numbers].tolist() == [len(words_of_text) for words_of_text in found]
    expected = [[words_of_text.count(word) for word in words] for words_of_text in found]
    assert text_words.counts(words)[numbers].tolist() == expected


def test_words_are_split_as_they_are_written() -> None:
    assert split_words("Die STRASSE in 北京市") == ["Die", "STRASSE", "in", "北京", "京市"]


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("首都在哪里？", "北京是中国的首都。"),
        ("STRASSE", "die Straße"),
        ("เมืองหลวง", "กรุงเทพเป็นเมืองหลวง"),
        ("猫", "黒猫は寝る"),
        ("税", "所得税"),
        ("ёлка", "у елки елка"),
        ("C#", "written in c#."),
    ],
)
def test_words_of_a_query_are_found(query: str, text: str) -> None:
    text_words = TextWords([text, "something else"])
    match, other = text_words.counts(find_words(query)).sum(axis=1)
    assert match > other == 0
