"""The pictures of the README: their text stays in its place, and can be read on a phone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser_tests.conftest import Open

IMAGES = Path(__file__).parents[2] / "docs" / "images"
PHONE = 358  # pixels that a README has on a screen of 390


@pytest.mark.parametrize("name", ["passages", "passages-dark", "relevance", "relevance-dark"])
def test_text_fits_and_can_be_read_on_a_phone(open_page: Open, name: str) -> None:
    svg = (IMAGES / f"{name}.svg").read_text(encoding="utf-8")
    style = f"body {{ margin: 0; width: {PHONE}px }} svg {{ width: 100%; height: auto }}"
    page = open_page(f"<!DOCTYPE html><style>{style}</style><body>{svg}", width=390)
    texts = page.evaluate(
        """() => {
            const svg = document.querySelector("svg");
            const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
            return [...svg.querySelectorAll("text")].map(text => {
                const box = text.getBoundingClientRect();
                const size = parseFloat(getComputedStyle(text).fontSize) * scale;
                return [text.textContent, box.left, box.right, box.top, size];
            });
        }"""
    )
    assert len(texts) > 10
    for text, _, right, _, size in texts:
        assert right <= PHONE, text
        assert size >= 10, text
    if name.startswith("passages"):
        middle, top = next((x, y) for text, x, _, y, _ in texts if text == "langchain-rse")
        first_column = [each for each in texts if each[1] < PHONE / 3 and each[3] >= top]
        assert len(first_column) > 10
        for text, _, right, _, _ in first_column:
            assert right <= middle, text
