"""Parts of a report: numbers, folds, the budget that plays, prints, pages without scripts."""

from __future__ import annotations

import pytest
from playwright.sync_api import FloatRect, Locator

from langchain_rse import RSERetriever
from langchain_rse.query.reading import Passage
from langchain_rse.text.names import name_of
from tests.browser_tests.conftest import Open
from tests.browser_tests.reports import QUESTION, retriever_of, shown_in, slide, texts_of


def name_of_passage(passage: Passage) -> str:
    manifest = passage.layout.manifest
    return name_of(manifest.doc_id, manifest.metadata)


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
        slide(page, "Threshold", penalty)
        numbers = page.locator("[data-passage]").evaluate_all(
            "(all) => all.map((one) => one.dataset.passage)"
        )
        assert sorted(map(int, numbers)) == list(range(1, len(shown_in(page)) + 1))


def test_no_bar_stands_alone_on_a_phone(open_page: Open) -> None:
    trace = retriever_of(texts_of(2, 29), fetch_k=58).explain(QUESTION)
    page = open_page(trace.to_html(), width=390)
    bars = page.locator(".strip").first.locator(".bar")
    rows = bars.evaluate_all("(all) => all.map((bar) => bar.getBoundingClientRect().top)")
    assert sorted(map(rows.count, set(rows))) == [3, 12, 14]


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
