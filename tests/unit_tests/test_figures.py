"""The figures that README and docs quote are those of benchmarks/results."""

import re
import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def figures() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "docs" / "_site" / "figures.py"))


def read(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


@pytest.mark.parametrize("path", ["README.md", "docs/index.md"])
def test_quoted_recalls_are_measured(figures: dict[str, Any], path: str) -> None:
    measured = set()
    for recall in figures["all_recalls"]().values():
        for share in (recall.ours, recall.alternative, recall.top_k):
            measured |= {f"{share:.3f}", f"{recall.ours / share - 1:.0%}"}
    quoted = set(re.findall(r"\b0\.\d{2,3}\b|\d+%(?= more)|(?<=\+)\d+%", read(path)))
    assert quoted
    assert quoted <= measured


def test_pages_quote_the_results_of_today(figures: dict[str, Any]) -> None:
    pages = "".join(map(read, figures["PAGES"]))
    assert figures["updated"](pages) == pages
    for sentence, shares in figures["quotations"]():
        assert sentence.format(*shares) in pages


def test_quoted_shares_of_refused_questions_are_measured(figures: dict[str, Any]) -> None:
    shares = figures["refused"]()
    quoted = re.findall(r"\b(\d\d) to (\d\d)% of", read("benchmarks/README.md"))
    assert quoted
    for lowest, highest in quoted:
        assert int(lowest) == round(100 * min(shares))
        assert int(highest) == round(100 * max(shares))


def test_the_table_of_refused_questions_is_measured(figures: dict[str, Any]) -> None:
    page = read("docs/nothing.md")
    for share in figures["refused"]():
        assert f"{round(100 * share)}%" in page
