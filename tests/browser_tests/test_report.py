"""Reports in a browser: they show, compute and bear what they should."""

# ruff: noqa: RUF001, S311 - text of other scripts; dice

from __future__ import annotations

import json
import random
import re
import statistics
from typing import Any

import pytest

from langchain_rse import RSEConfig, RSERetriever, RSETrace
from langchain_rse.config import Greedy
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


def test_published_solvers_are_shown_as_they_were(open_page: Open) -> None:
    retriever = retriever_of(texts_of(2, 25), fetch_k=30)
    arguments: dict[str, Any] = {"rse_config": RSEConfig(solver=Greedy(max_length=5))}
    page = open_page(retriever.explain(QUESTION, **arguments).to_html())
    assert page.get_by_role("slider").count() == 0
    assert page.get_by_text("No sliders:").is_visible()
    assert shown_in(page) == names_of(retriever.invoke(QUESTION, **arguments))


def test_hostile_text_stays_text(open_page: Open) -> None:
    texts = {f"{HOSTILE}.txt": f"{HOSTILE} rent\n\u202erent\u2028late \u0000fee"}
    trace = retriever_of(texts).explain(f"rent {HOSTILE}", irrelevant_chunk_penalty=0.0)
    page = open_page(trace.to_html())
    assert page.evaluate("typeof hacked") == "undefined"
    assert page.locator("img").count() == 0
    assert HOSTILE in page.locator("body").inner_text().replace("\n", "")


def test_a_report_works_with_the_keyboard(open_page: Open, trace: RSETrace) -> None:
    page = open_page(trace.to_html())
    page.get_by_role("slider", name="Penalty").focus()
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


def test_the_pointer_shows_a_chunk(open_page: Open, trace: RSETrace) -> None:
    page = open_page(trace.to_html())
    bar = page.locator(".bar.in").first
    bar.hover()
    label = bar.get_attribute("aria-label") or ""
    number = re.findall(r"\d+", label)[0]
    assert f"Chunk {number} of" in page.locator("#chunk").inner_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_contrast(open_page: Open, trace: RSETrace, scheme: str) -> None:
    page = open_page(trace.to_html(), scheme=scheme)
    slide(page, "Penalty", 0.2)
    weak = page.evaluate(CONTRAST)
    assert weak["looked"] > 100
    assert weak["weak"] == []


CONTRAST = """() => {
  const luminance = (color) => {
    const part = color.match(/[\\d.]+/g).slice(0, 3).map((value) => value / 255)
      .map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
    return 0.2126 * part[0] + 0.7152 * part[1] + 0.0722 * part[2];
  };
  const behind = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const color = getComputedStyle(one).backgroundColor;
      if (!color.endsWith(", 0)")) return color;
    }
  };
  const weak = [];
  let looked = 0;
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = texts.nextNode(); node; node = texts.nextNode()) {
    const element = node.parentElement;
    if (!node.data.trim() || !element.checkVisibility()) continue;
    if (element.closest("script,noscript")) continue;
    looked += 1;
    const [a, b] = [getComputedStyle(element).color, behind(element)].map(luminance);
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) weak.push([node.data.slice(0, 40), element.className, ratio]);
  }
  return { looked, weak };
}"""


def test_a_phone_needs_no_sideways_scrolling(open_page: Open, trace: RSETrace) -> None:
    long = {"x" * 300: f"{'y' * 500} rent\nالإيجار المتأخر rent\n{'賃料' * 200}"}
    for text in (trace.to_html(), retriever_of(long).explain("z" * 300 + " rent").to_html()):
        page = open_page(text, width=360)
        page.locator("details").evaluate_all("some => some.forEach((one) => { one.open = true; })")
        page.locator(".bar").first.click()
        page.get_by_role("button", name="Close").click()
        assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_an_empty_answer_has_a_page(open_page: Open) -> None:
    retriever = retriever_of({"a.txt": "rent"})
    page = open_page(retriever.explain("nothing of this", max_context_length=1).to_html())
    assert page.get_by_text("Nothing returned").is_visible()
    assert page.locator("#folded .bar").first.is_visible()
    slide(page, "Penalty", 0.1)


@pytest.mark.parametrize("query", ["", "something else"])
def test_if_no_candidate_was_considered_there_are_no_sliders(open_page: Open, query: str) -> None:
    retriever = retriever_of({"a.txt": "rent", "b.txt": "a lease"})
    page = open_page(retriever.explain(query, score_floor=2.0).to_html())
    assert page.get_by_text("Nothing returned").is_visible()
    assert page.get_by_role("slider").count() == 0
    assert page.locator("#folded .bar").count() == 2 * bool(query)
    assert page.locator("#folded .bar:visible").count() == 0


def test_many_chunks(open_page: Open) -> None:
    trace = retriever_of({"long.txt": texts_of(1, 3_000)["contract 0.txt"]}, fetch_k=3_000)
    page = open_page(trace.explain(QUESTION, max_context_length=None).to_html())
    assert page.locator(".bar").count() == 3_000
    slide(page, "Penalty", 0.2)
    assert shown_in(page)


def test_size_and_times(open_page: Open) -> None:
    """Prints them; what they may be is for people to judge, since machines differ."""
    config = RSEConfig(top_k_for_document_selection=None)
    retriever = retriever_of(texts_of(40, 25), config=config)
    trace = retriever.explain(QUESTION)
    text = trace.to_html()
    assert len(trace.documents) == 40
    assert len([chunk for chunk in trace.chunks if chunk.candidate is not None]) == 200
    assert len(text.encode()) <= 300_000
    paints, times = [], list[float]()
    for _ in range(5):
        page = open_page(text)
        page.wait_for_timeout(200)
        paints += page.evaluate(
            "performance.getEntriesByName('first-contentful-paint').map((one) => one.startTime)"
        )
        for number in range(20):
            slider = page.get_by_role("slider", name=SLIDERS[number % 2], exact=True)
            times.append(slider.evaluate(TIMED, number * 7 % 20 / 20))
    figures = {
        "KB": len(text.encode()) // 1_000,
        "first paint, ms": round(statistics.median(paints or [0])),
        "slider, ms": round(statistics.median(times), 1),
        "slowest slider, ms": round(max(times), 1),
    }
    print(json.dumps(figures))


TIMED = """(input, share) => {
  const before = performance.now();
  input.value = share * input.max;
  input.dispatchEvent(new Event("input"));
  document.body.offsetHeight; // lays out
  return performance.now() - before;
}"""
