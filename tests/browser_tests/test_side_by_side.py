"""The page of a comparison: readable on narrow screens, in the dark, and with hostile text."""

from __future__ import annotations

import pytest

from langchain_rse.explaining import Piece, SideBySide
from tests.browser_tests.conftest import Open

HOSTILE = "<script>document.title = 'run'</script><img src=x onerror=alert(1)>"
LONG = "x" * 500


BACKGROUND = "getComputedStyle(document.querySelector('.rse-compare')).backgroundColor"
LIGHT, DARK = "rgb(255, 255, 255)", "rgb(18, 18, 18)"


def comparison() -> SideBySide:
    text = f"{HOSTILE}\nA passage of several lines,\none of them missing: {LONG}"
    passages = [Piece("a.txt", "a", 100, text)]
    other = [Piece("a.txt", "a", 100, text[:80]), Piece(LONG, "b", 0, "מימין לשמאל")]
    return SideBySide("What?", passages, other, "top-k chunks", {"a": 9_000})


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_and_can_be_read(open_page: Open, width: int, scheme: str) -> None:
    shown = open_page(comparison().to_html(), width=width, scheme=scheme)
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
    assert background == (DARK if scheme == "dark" else LIGHT)
    assert shown.locator("mark").count() >= 2


@pytest.mark.parametrize(("width", "columns"), [(390, 1), (1280, 2)])
def test_sides_are_columns_if_there_is_room(open_page: Open, width: int, columns: int) -> None:
    page = open_page(comparison().to_html(), width=width)
    lefts = page.locator("section").evaluate_all(
        "(all) => all.map((one) => one.getBoundingClientRect().left)"
    )
    assert len(set(lefts)) == columns


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    ("attribute", "background"),
    [
        ("data-md-color-scheme=default", LIGHT),
        ("data-md-color-scheme=slate", DARK),
        ("data-jp-theme-light=true", LIGHT),
        ("data-jp-theme-light=false", DARK),
        ("class=vscode-dark", DARK),
    ],
)
def test_a_page_with_a_theme_decides(
    open_page: Open, scheme: str, attribute: str, background: str
) -> None:
    html = f"<!doctype html><meta charset=utf-8><body {attribute}>{comparison()._repr_html_()}"
    assert open_page(html, scheme=scheme).evaluate(BACKGROUND) == background
