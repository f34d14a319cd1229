"""Which words of a query are highlighted in a text."""

import pytest

from langchain_rse.text.highlighting import query_words


@pytest.mark.parametrize(
    ("query", "text", "matches"),
    [
        (
            "What drives margins?",
            "A margin, MARGINAL drive; at what cost",
            ["margin", "MARGINAL", "drive"],
        ),
        ("the US or UN in 7A", "the US, us, thus: UN 7a 77a", ["US", "us", "UN", "7a"]),
        ("is it a [b] (c*?", "a b c [b] is it", []),
        ("賃料を支払う", "賃借人は賃料を払う", ["賃料", "払う"]),
        ("دفع الإيجار", "غرامة دفع الإيجار", ["دفع", "الإيجار"]),
        ("", "anything", []),
    ],
)
def test_words_of_the_query(query: str, text: str, matches: list[str]) -> None:
    pattern = query_words([query])
    assert (pattern.findall(text) if pattern else []) == matches
