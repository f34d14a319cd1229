"""The page of a comparison: readable on narrow screens, in the dark, and with hostile text."""

from __future__ import annotations

import pytest

from langchain_rse.explaining import Piece, SideBySide
from tests.browser_tests.conftest import Open

HOSTILE = "<script>document.title = 'run'</script><img src=x onerror=alert(1)>"
LONG = "x" * 500


def page() -> str:
    text = f"{HOSTILE}\nA passage of several lines,\nof which one is missing: {LONG}"
    segments = [Piece("a.txt", "a", 100, text)]
    other = [Piece("a.txt", "a", 100, text[:80]), Piece(LONG, "b", 0, "מימין לשמאל")]
    return SideBySide("What?", segments, other, "top-k chunks", {"a": 9_000}).to_html()


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_and_can_be_read(open_page: Open, width: int, scheme: str) -> None:
    shown = open_page(page(), width=width, scheme=scheme)
    assert shown.evaluate("document.documentElement.scrollWidth") <= width
    assert shown.title() == "What?"
    assert shown.locator("script, img").count() == 0
    background, ink = shown.evaluate(
        """() => {
            const style = getComputedStyle(document.querySelector("h2").parentElement);
            return [style.backgroundColor, style.color];
        }"""
    )
    assert background != ink
    is_dark = background == "rgb(18, 18, 18)"
    assert is_dark == (scheme == "dark")
    assert shown.locator("mark").count() >= 2
