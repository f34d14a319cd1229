"""Which quotations of an answer are in the passages."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document

from langchain_rse.tools import Quote, verify_quotes
from tests.unit_tests.fakes import make_retriever

TEXT = (
    "Revenue grew by 12% in 2023, driven by higher margins.\nCosts fell  because\n"
    "freight got cheaper; the board doesn\u2019t expect “more of the same”.\n\n"
    "今天天气很好\uff0c我们去公园。Herons fish at dawn ... and cranes dance in spring."
)


def passage(text: str = TEXT, start: int = 100, **metadata: object) -> Document:
    position = {"doc_id": "report", "start_index": start, "end_index": start + len(text)}
    return Document(text, metadata={**position, **metadata})


def check(answer: str, *passages: Document) -> list[Quote]:
    return verify_quotes(answer, passages or [passage()])


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        ('It says "Revenue grew by 12% in 2023".', "exact"),
        ("It says “Costs fell because freight got cheaper.”", "exact"),
        ("Es heißt »Revenue grew by 12% in 2023«.", "exact"),
        ("It says \u2018the board doesn\u2019t expect\u2019.", "exact"),
        ("他说“今天天气很好”的。", "exact"),
        ("彼は「我们去公园」と言った。", "exact"),
        ("- > Revenue grew by 12% in 2023", "exact"),
        ("* > - > Revenue grew by 12%\n  > in 2023", "exact"),
        ("\u201athe board doesn\u2019t expect\u2019", "exact"),
        ('"Revenue grew ... margins. Costs fell [...] freight"', "shortened"),
        ('"Herons fish at dawn ... and cranes dance"', "shortened"),  # also if the source has it
        ("“Costs fell ... because freight got more cheap”", "similar"),
        ("“Revenue rose by 12% in 2023, driven by higher margins”", "similar"),
        ("“REVENUE GREW by 12 % in 2023”", "similar"),
        ("“Revenue grew by 21% in 2023, driven by higher margins”", "missing"),
        ("“Costs fell because freight ... Revenue grew by 12%”", "missing"),
        ("“Profits were lost to bad weather and strikes”", "missing"),
        ("> “Revenue grew by\n> 12% in 2023” (report, page 3)", "exact"),
    ],
)
def test_one_quotation(answer: str, verdict: str) -> None:
    (quote,) = check(answer)
    assert quote.verdict == verdict
    if ">" not in answer:
        assert answer[quote.start : quote.end] == quote.text
    if verdict in {"exact", "shortened", "similar"}:
        assert (quote.number, quote.doc_id) == (1, "report")
        assert quote.found == TEXT[quote.start_index - 100 : quote.end_index - 100]
        assert quote.similarity == 1.0 if verdict == "exact" else quote.similarity >= 0.85
    else:
        assert (quote.number, quote.found) == (None, "")


@pytest.mark.parametrize(
    "answer",
    [
        'דובר צה"ל אמר שהמנכ"ל והיו"ר קנו ב-100 ש"ח, 5 מ"מ ודו"חות',
        'A man of 5\'6 and one of 6\'2 don\'t wear 5"x7" or 6"x8" shirts',
        'He said no such thing at all" and left.',
        "",
        "No quotation, but the dogs' tails, '90s and a 5\" pipe of 6\" length.",
        "Open Settings \u203a Privacy and security \u203a Location",
        '```json\n{"a": "Costs rose because freight"}\n```',
        '“” "" «...» “higher margins” “margins [1, 2]”',
    ],
)
def test_what_is_no_quotation(answer: str) -> None:
    assert check(answer) == []


WITH_NUMBERS = (
    "CO₂ rose 2½ times in 2019\u20132021. COVID-19 hit pages 3-4.\nThe pump weighs 2.5 kg, costs "
    "$1,234.50 and lost \u22123% of its value [12]. THE PUMP HAD 25 KG.\n"
    "1,000 \u20ac were lost.\n\u2014 The owner"
)


@pytest.mark.parametrize(
    ("answer", "texts", "verdict"),
    [
        ("“lost \u22123% of its value [12]”", ["lost \u22123% of its value [12]"], "exact"),
        ("“The pump weighed 2.5 kg [1].”", ["The pump weighed 2.5 kg [1]."], "similar"),
        ('> "The pump weighs 2.5 kg," [1]', ["The pump weighs 2.5 kg,"], "exact"),
        ("> “The pump weighs 2.5 kg”\n>\n> — source [1]", ["The pump weighs 2.5 kg"], "exact"),
        ("> The pump weighs 2.5 kg\n> -- source, p. 3", ["The pump weighs 2.5 kg"], "exact"),
        (
            "> “The pump weighs 2.5 kg” and “lost −3% of its value”",  # noqa: RUF001
            ["The pump weighs 2.5 kg", "lost −3% of its value"],  # noqa: RUF001
            "exact",
        ),
        # Quotation marks inside a block may be the source's.
        (
            "> They lied when they said that “The pump weighs 2.5 kg”",
            ["They lied when they said that “The pump weighs 2.5 kg"],
            "missing",
        ),
    ],
)
def test_citations_and_words_around_a_quotation(
    answer: str, texts: list[str], verdict: str
) -> None:
    quotes = check(answer, passage(WITH_NUMBERS))
    assert [quote.text for quote in quotes] == texts
    assert {quote.verdict for quote in quotes} == {verdict}


@pytest.mark.parametrize(
    ("passage", "number", "doc_id", "start"),
    [
        (Document("It is said: One two three."), 1, None, 12),
        (Document("One two three.", metadata={"start_index": 271}), 1, None, 271),
        (passage("One two three.", rse={"number": 7}), 7, "report", 100),
        (passage("One two three.", rse={"number": 7}).model_dump(), 7, "report", 100),
    ],
    ids=["another retriever's", "a splitter's", "the tool's", "a checkpointer's"],
)
def test_passages_of_any_origin(passage: Any, number: int, doc_id: str, start: int) -> None:
    (quote,) = verify_quotes("“One two three”", [passage])
    assert (quote.verdict, quote.number, quote.doc_id) == ("exact", number, doc_id)
    assert (quote.start_index, quote.end_index) == (start, start + 13)


def test_places_do_not_count_the_header_of_a_passage() -> None:
    retriever = make_retriever({"a": "b 0\nherons fish at dawn 5\n"}, include_header=True)
    (passage,) = retriever.invoke("query 0")
    above = passage.model_copy(update={"page_content": "Title\n\n" + passage.page_content})
    (quote,) = verify_quotes("“herons fish at dawn”", [above])
    assert (quote.start_index, quote.end_index) == (4, 23)


@given(st.lists(st.text("abcdefghij", min_size=1, max_size=6), min_size=12, max_size=60), st.data())
def test_any_run_of_words_is_found_and_its_place_is_its_text(
    words: list[str], data: st.DataObject
) -> None:
    text = " ".join(words)
    start = data.draw(st.integers(0, len(words) - 3))
    end = data.draw(st.integers(start + 3, len(words)))
    (quote,) = check(f"It says “{'  '.join(words[start:end])}” there", passage(text))
    assert quote.verdict == "exact"
    assert "".join(quote.found.split()) == "".join(words[start:end])


@given(st.text("\"“”«»„\u2018\u2019'>`.… \nab1", max_size=60))
def test_any_answer_is_read_to_its_end(answer: str) -> None:
    spans = [(quote.start, quote.end) for quote in check(answer)]
    assert all(0 <= start <= end <= len(answer) for start, end in spans)
    assert spans == sorted(spans)


def test_an_ellipsis_is_no_exact_quotation() -> None:
    text = "The vaccine does not cause autism. The patient must never take two pills."
    for answer, omitted in (
        ("“The vaccine does [...] cause autism”", [" not "]),
        ("“The patient must ... take two pills”", [" never "]),
        ("“The patient must never take…”", []),
    ):
        (quote,) = check(answer, passage(text))
        assert (quote.verdict, list(quote.omitted)) == ("shortened", omitted)
