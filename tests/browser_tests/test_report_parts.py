"""Parts of a report: numbers, folds, the budget that plays, prints, pages without scripts."""

from __future__ import annotations

import pytest
from playwright.sync_api import FloatRect, Locator

from langchain_rse import RSERetriever, RSETrace
from langchain_rse.explaining.text import name_of_passage
from tests.browser_tests.conftest import Open
from tests.browser_tests.reports import (
    QUESTION,
    SLIDERS,
    retriever_of,
    shown_in,
    slide,
    texts_of,
)


@pytest.mark.parametrize("order", ["document", "relevance"])
def test_a_passage_has_one_number(open_page: Open, retriever: RSERetriever, order: str) -> None:
    trace = retriever.explain(QUESTION, irrelevant_chunk_penalty=0.2, order=order)
    assert len(trace.returned) > 3
    page = open_page(trace.to_html())
    for number, passage in enumerate(trace.returned, start=1):
        first = passage.start
        shown = page.locator(f"#passage-{number}")
        assert shown.locator("strong").text_content() == f"Passage {number}"
        assert f"chunk {first} " in (shown.locator("small").first.text_content() or "")
        bars = page.get_by_role("listbox", name=f"Chunks of {name_of_passage(passage)}")
        bar = bars.get_by_role("option", name=f"Chunk {first}:")
        assert bar.get_attribute("data-passage") == str(number)
        assert f"in passage {number}," in (bar.get_attribute("aria-label") or "")
    sections = page.locator("#documents h3").all_text_contents()
    assert sections == list(dict.fromkeys(map(name_of_passage, trace.returned)))
    for penalty in (0.3, 0.2, 0.5):
        slide(page, "Penalty", penalty)
        numbers = page.locator("[data-passage]").evaluate_all(
            "(all) => all.map((one) => one.dataset.passage)"
        )
        assert sorted(map(int, numbers)) == list(range(1, len(shown_in(page)) + 1))


def test_weak_parts_are_folded(open_page: Open, retriever: RSERetriever) -> None:
    texts = texts_of(6, 40) | {"other.txt": "a late word\nmore words"}
    retriever = retriever_of(texts, fetch_k=120, max_context_length=4_000)
    trace = retriever.explain(QUESTION, irrelevant_chunk_penalty=0.2, k=5)
    page = open_page(trace.to_html())
    numbered = enumerate(trace.returned, start=1)
    strongest = sorted(numbered, key=lambda pair: -pair[1].value)[:3]
    opened = page.locator(".passage[open] strong").all_text_contents()
    assert sorted(opened) == sorted(f"Passage {number}" for number, _ in strongest)
    returned = set(map(name_of_passage, trace.returned))
    assert set(page.locator("#documents h3").all_text_contents()) == returned
    others = [document for document in trace.documents if document.name not in returned]
    line = page.locator("#others > summary").inner_text()
    assert line.startswith(f"{len(others)} document")
    assert page.locator("#folded .bar").first.is_hidden()
    page.locator("#others > summary").click()
    assert page.locator("#folded .bar").first.is_visible()
    page.locator("#chosen a").last.click()  # a link unfolds its passage
    assert page.locator(f"#passage-{len(trace.returned)} .text").first.is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_answer_is_there_without_scripts(
    open_page: Open, retriever: RSERetriever, scheme: str
) -> None:
    trace = retriever.explain(QUESTION, irrelevant_chunk_penalty=0.2)
    page = open_page(trace.to_html(), width=390, scheme=scheme, scripts=False)
    assert page.get_by_text(trace.headline).is_visible()
    for control in page.locator("button, input, summary").all():
        assert control.is_hidden()
    for number in range(1, len(trace.returned) + 1):
        assert page.get_by_text(f"Passage {number} ·").is_visible()
    passages = page.locator(".unscripted .text").all_text_contents()
    assert passages == [passage.text for passage in trace.returned]
    widths = [box_of(bar)["width"] for bar in page.locator("svg .returned").all()]
    assert len(widths) == len(trace.returned)
    assert min(widths) > 1
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    fill = style_of(page.locator("svg .returned").first, "fill")
    assert fill == ("rgb(125, 180, 245)" if scheme == "dark" else "rgb(26, 95, 180)")


def style_of(locator: Locator, name: str) -> str:
    return str(locator.evaluate(f"(one) => getComputedStyle(one).{name}"))


def box_of(locator: Locator) -> FloatRect:
    box = locator.bounding_box()
    assert box
    return box


def test_the_scripted_page_does_not_show_the_answer_twice(open_page: Open, trace: RSETrace) -> None:
    assert open_page(trace.to_html()).locator(".unscripted").is_hidden()


def test_a_print_has_colors_and_no_controls(open_page: Open, retriever: RSERetriever) -> None:
    page = open_page(retriever.explain(QUESTION, irrelevant_chunk_penalty=0.2).to_html())
    folded = page.locator("#documents .passage:not([open])")
    assert folded.count()
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    assert folded.count() == 0
    for control in page.locator("button, input").all():
        assert control.is_hidden()
    assert page.locator(".used table").first.is_visible()
    for drawn in (".bar.in", "mark", ".key"):
        style = page.locator(drawn).first.evaluate(
            "(one) => getComputedStyle(one).printColorAdjust"
        )
        assert style == "exact"
    assert len(page.pdf()) > 10_000


def test_texts_have_their_direction(open_page: Open) -> None:
    texts = {"ar.txt": "دفع الإيجار rent متأخر", "en.txt": "A late rent costs a fee."}
    trace = retriever_of(texts).explain("late rent fee الإيجار", irrelevant_chunk_penalty=0.0)
    for scripts in (True, False):
        page = open_page(trace.to_html(), scripts=scripts)
        part = ".passage .text" if scripts else ".unscripted .text"
        arabic, english = (page.locator(part, has_text=words) for words in ("متأخر", "costs a"))
        assert style_of(arabic, "direction") == "rtl"
        assert style_of(english, "direction") == "ltr"


def test_each_slider_says_what_it_does(open_page: Open, trace: RSETrace) -> None:
    page = open_page(trace.to_html())
    for name in SLIDERS:
        described = page.get_by_role("slider", name=name, exact=True).get_attribute(
            "aria-describedby"
        )
        assert len(page.locator(f"#{described}").inner_text()) > 20
    values = page.locator("#sliders output").all_inner_texts()
    assert values == ["relevance 0.35", "4,000 characters"]


def test_all_passages_are_listed_and_numbers_are_in_one_line(open_page: Open) -> None:
    retriever = retriever_of(texts_of(1, 1_200), fetch_k=1_200, max_context_length=None)
    trace = retriever.explain(QUESTION)
    assert len(trace.returned) > 10
    for width in (360, 1280):
        page = open_page(trace.to_html(), width=width)
        listed = page.locator("#chosen")
        assert listed.evaluate("(list) => list.scrollHeight <= list.clientHeight")
        last = page.locator("[data-index='1000']")
        height = last.evaluate("(bar) => getComputedStyle(bar, '::after').height")
        assert height == "14px"
