"""Reports in a browser: they show, compute and bear what they should."""

# ruff: noqa: S311 - text of other scripts; dice

from __future__ import annotations

import random
import re
from typing import Any

import pytest

from langchain_rse import RSEConfig, RSERetriever, RSETrace
from tests.browser_tests.conftest import Open
from tests.browser_tests.reports import (
    HOSTILE,
    QUESTION,
    SLIDERS,
    copied_settings,
    names_of,
    retriever_of,
    shown_in,
    slide,
    texts_of,
)


def test_a_report_shows_the_answer(
    open_page: Open, retriever: RSERetriever, trace: RSETrace
) -> None:
    page = open_page(trace.to_html())
    assert shown_in(page) == names_of(retriever.invoke(QUESTION))
    outcomes = [chunk.outcome.label for chunk in trace.chunks]
    assert {"returned", "filled", "no candidate"} <= set(outcomes)
    assert page.locator(".bar.in").count() == outcomes.count("returned")
    assert page.locator(".bar.fill").count() == outcomes.count("filled")
    shown = page.locator(".passage .text").all_text_contents()
    texts = [line for passage in trace.returned for line in passage.text.splitlines()]
    assert sorted(shown) == sorted(texts)
    marked = set(page.locator(".passage mark").all_text_contents())
    assert {"rent", "late"} <= marked <= {"rent", "late", "fee"}


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"k": 2, "order": "relevance"},
        {"max_context_length": None, "queries": [QUESTION, "word7"]},
    ],
)
def test_sliders_choose_what_the_retriever_chooses(
    open_page: Open, settings: dict[str, Any]
) -> None:
    texts = texts_of(4, 25) | {"alone.txt": "rent rent late fee"}
    texts["copy.txt"] = texts["contract 0.txt"].replace("0.3 ", "0.3 new ")
    retriever = retriever_of(texts, fetch_k=60, **{"max_context_length": 4_000, **settings})
    page = open_page(retriever.explain(QUESTION).to_html())
    dice = random.Random(11)
    answers = set()
    for _ in range(12):
        for name in SLIDERS:
            slide(page, name, dice.random())
        trace = retriever.explain(QUESTION, **copied_settings(page))
        expected = names_of(trace.documents_returned)
        assert shown_in(page) == expected
        answers.add(tuple(expected))
        labels = page.locator(".bar").evaluate_all("(all) => all.map((bar) => bar.ariaLabel)")
        shown = sum(bool(re.search(r": (returned|filled) in passage", label)) for label in labels)
        assert shown == sum(len(passage.chunks) for passage in trace.returned)
    assert len(answers) > 4
    page.get_by_role("button", name="Reset").click()
    assert shown_in(page) == names_of(retriever.invoke(QUESTION))


def test_the_reasons_are_the_traces_own(open_page: Open) -> None:
    texts = {"a.txt": "rent late fee", "b.txt": "rent late fee", "c.txt": "word\nlate"}
    config = RSEConfig(top_k_for_document_selection=1)
    trace = retriever_of(texts, config=config).explain(QUESTION)
    page = open_page(trace.to_html())
    page.locator("#others > summary").click()
    for document, chunk in trace.left_out:
        page.get_by_role("listbox", name=f"Chunks of {document.name}").get_by_role(
            "option", name=f"Chunk {chunk.index}:"
        ).click()
        assert trace.why(chunk) in page.locator("#chunk").inner_text()
    assert trace.left_out


def test_hostile_text_stays_text(open_page: Open) -> None:
    texts = {f"{HOSTILE}.txt": f"{HOSTILE} rent\n\u202erent\u2028late \u0000fee"}
    trace = retriever_of(texts).explain(f"rent {HOSTILE}", irrelevant_chunk_penalty=0.0)
    page = open_page(trace.to_html())
    assert page.evaluate("typeof hacked") == "undefined"
    assert page.locator("img").count() == 0
    assert HOSTILE in page.locator("body").inner_text().replace("\n", "")


def test_a_report_works_with_the_keyboard(open_page: Open, trace: RSETrace) -> None:
    page = open_page(trace.to_html())
    page.get_by_role("slider", name="Threshold").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("output").first.inner_text() == "relevance 0.36"
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.role") == "option":
            break
    focused = "document.activeElement.ariaLabel"
    doc_id = trace.returned[0].layout.manifest.doc_id
    document = next(each for each in trace.documents if each.doc_id == doc_id)
    first = document.chunks
    assert page.evaluate(focused).startswith(f"Chunk {first[0].index}:")
    page.keyboard.press("End")
    assert page.evaluate(focused).startswith(f"Chunk {first[-1].index}:")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    assert page.evaluate(focused).startswith(f"Chunk {first[1].index}:")
    chosen = page.get_by_role("region", name="Selected chunk")
    assert f"Chunk {first[1].index} of {document.name}" in chosen.inner_text()
    assert "Relevance" in chosen.inner_text()
    page.keyboard.press("Escape")
    assert page.locator("#chunk").is_hidden()
    page.keyboard.press("Tab")  # each strip is one stop
    assert page.evaluate("document.activeElement.role") != "option"


@pytest.mark.parametrize("query", ["", "something else"])
def test_if_no_candidate_was_considered_there_are_no_sliders(open_page: Open, query: str) -> None:
    retriever = retriever_of({"a.txt": "rent", "b.txt": "a lease"})
    page = open_page(retriever.explain(query, score_floor=2.0).to_html())
    assert page.get_by_text("Nothing returned").is_visible()
    assert page.get_by_role("slider").count() == 0
    assert page.locator("#folded .bar").count() == 2 * bool(query)
    assert page.locator("#folded .bar:visible").count() == 0
