"""The picture of the README: its text stays in its columns, and can be read on a phone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser_tests.conftest import Open

IMAGES = Path(__file__).parents[2] / "docs" / "images"
PHONE = 358  # pixels that a README has on a screen of 390


@pytest.mark.parametrize("name", ["passages.svg", "passages-dark.svg"])
def test_text_fits_and_can_be_read_on_a_phone(open_page: Open, name: str) -> None:
    svg = (IMAGES / name).read_text(encoding="utf-8")
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
    assert len(texts) > 20
    middle = max(left for _, left, _, _, _ in texts)  # where the second column begins
    heading = next(top for text, _, _, top, _ in texts if text == "segments")
    for text, left, right, top, size in texts:
        is_in_first_column = left < PHONE / 3 and top >= heading
        assert right <= (middle if is_in_first_column else PHONE), text
        assert size >= 10, text
