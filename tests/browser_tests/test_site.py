"""The documentation's site in a browser: each page can be read, wide and narrow, light and dark."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urldefrag, urlsplit

import pytest
from playwright.sync_api import Browser, Page, Request

pytest.importorskip("mkdocs")

ROOT = Path(__file__).parents[2]
IMAGES = sorted((ROOT / "docs" / "images").glob("*.*"))
NARROW, WIDE = 390, 1280
NORMAL_TEXT, LARGE_TEXT = 4.5, 3.0  # the contrast that WCAG's level AA asks for


class Visit(NamedTuple):
    """What was seen of a page."""

    path: Path
    problems: list[str]
    """Messages of the console, errors and requests to elsewhere."""
    widths: dict[int, dict[str, Any]]
    """By the width of the window: the page's, and what is wider than the window."""
    contrast: dict[str, dict[str, Any]]
    ids: set[str]
    links: list[str]
    images: list[dict[str, Any]]
    examples: list[str]
    """What the copy buttons of examples copy."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as ``make docs`` builds it."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(folder)]
    environment = {
        **os.environ,
        "NO_MKDOCS_2_WARNING": "1",
        "REPO_URL": "",
        "PYTHONPATH": str(ROOT),
    }
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def visits(browser: Browser, site: Path) -> Iterator[list[Visit]]:
    """A visit to each page of the site."""
    page = browser.new_page(viewport={"width": NARROW, "height": 800})
    problems: list[str] = []

    def note_request(request: Request) -> None:
        if not request.url.startswith("file:"):
            problems.append(request.url)

    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", note_request)
    found = []
    for path in sorted(site.rglob("*.html")):
        problems.clear()
        found.append(visit(page, path, problems))
    yield found
    page.close()


def visit(page: Page, path: Path, problems: list[str]) -> Visit:
    page.set_viewport_size({"width": NARROW, "height": 800})
    page.goto(path.as_uri())
    page.add_style_tag(content="* { transition: none !important; }")
    page.locator("details").evaluate_all("all => all.forEach((one) => { one.open = true; })")
    seen = page.evaluate(LOOK)
    widths = {NARROW: page.evaluate(MEASURE)}
    contrast = {"light": page.evaluate(CONTRAST)}
    page.evaluate("document.body.dataset.mdColorScheme = 'slate'")
    contrast["dark"] = page.evaluate(CONTRAST)
    page.set_viewport_size({"width": WIDE, "height": 800})
    widths[WIDE] = page.evaluate(MEASURE)
    return Visit(path, list(problems), widths, contrast, set(seen.pop("ids")), **seen)


LOOK = """() => ({
  ids: [...document.querySelectorAll("[id], a[name]")].map((one) => one.id || one.name),
  links: [
    ...[...document.querySelectorAll("a[href]")].map((one) => one.href),
    ...[...document.querySelectorAll("source[srcset]")]
      .map((one) => new URL(one.srcset, location).href),
  ],
  images: [...document.images].map((one) => ({
    source: one.src, alt: one.alt, width: one.complete ? one.naturalWidth : 0,
  })),
  examples: [...document.querySelectorAll("[data-copy]")].map((one) => one.dataset.copy),
})"""

# Boxes that scroll, and menus outside of the window, are not wider than the page.
MEASURE = """() => ({
  page: document.documentElement.scrollWidth,
  scrolling: [...document.querySelectorAll(".md-content pre > code")]
    .filter((one) => one.scrollWidth > one.clientWidth)
    .map((one) => one.innerText.split("\\n").sort((a, b) => b.length - a.length)[0]),
})"""

CONTRAST = """() => {
  const parsed = (color) => {
    const match = color.match(/^(rgba?\\(|color\\(srgb )([^)]+)\\)$/);
    if (!match) throw new Error(`what color is ${color}?`);
    const [red, green, blue, alpha = 1] = match[2].split(/[ ,/]+/).map(Number);
    const most = match[1] === "color(srgb " ? 1 : 255; // as color-mix has it
    return [...[red, green, blue].map((part) => (part / most) * 255), alpha];
  };
  const over = (front, back) =>
    [0, 1, 2].map((part) => front[part] * front[3] + back[part] * (1 - front[3]));
  const behind = (element) => {
    const layers = [];
    for (let one = element; one; one = one.parentElement) {
      const layer = parsed(getComputedStyle(one).backgroundColor);
      layers.push(layer);
      if (layer[3] === 1) break;
    }
    return layers.reduceRight((back, layer) => over(layer, back), [255, 255, 255]);
  };
  const luminance = (color) => {
    const parts = color.map((value) => value / 255)
      .map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
  };
  const weak = {};
  let looked = 0;
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = texts.nextNode(); node; node = texts.nextNode()) {
    const element = node.parentElement;
    if (!node.data.trim() || element.closest("script, noscript, .headerlink")) continue;
    if (!element.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue;
    looked += 1;
    const style = getComputedStyle(element);
    const back = behind(element);
    const [a, b] = [over(parsed(style.color), back), back].map(luminance);
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const size = parseFloat(style.fontSize);
    const isLarge = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    if (ratio < (isLarge ? LARGE : NORMAL)) {
      weak[`${style.color} on ${back.map(Math.round)}`] =
        `${ratio.toFixed(2)}: ${node.data.trim().slice(0, 40)} (${element.className})`;
    }
  }
  return { looked, weak };
}""".replace("LARGE", str(LARGE_TEXT)).replace("NORMAL", str(NORMAL_TEXT))


def name_of(visit: Visit, site: Path) -> str:
    return visit.path.relative_to(site).as_posix()


def test_every_page_is_there(visits: list[Visit], site: Path) -> None:
    names = {name_of(visit, site) for visit in visits}
    pages = {path.with_suffix(".html").name for path in (ROOT / "docs").glob("*.md")}
    assert pages <= names
    assert len(names) > 50


def test_nothing_is_loaded_from_elsewhere_and_nothing_fails(
    visits: list[Visit], site: Path
) -> None:
    assert {name_of(visit, site): visit.problems for visit in visits if visit.problems} == {}


@pytest.mark.parametrize("width", [NARROW, WIDE])
def test_no_page_scrolls_sideways(visits: list[Visit], site: Path, width: int) -> None:
    widths = {name_of(visit, site): visit.widths[width]["page"] for visit in visits}
    assert {name: found for name, found in widths.items() if found > width} == {}


def test_lines_of_code_fit_on_a_wide_screen(visits: list[Visit], site: Path) -> None:
    clipped = {name_of(visit, site): visit.widths[WIDE]["scrolling"] for visit in visits}
    assert {name: texts for name, texts in clipped.items() if texts} == {}
    # On a phone they scroll in their own box.
    assert any(visit.widths[NARROW]["scrolling"] for visit in visits)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_contrast(visits: list[Visit], site: Path, scheme: str) -> None:
    assert all(visit.contrast[scheme]["looked"] > 40 for visit in visits)
    weak: dict[str, str] = {}  # by the colors, with the first place
    for visit in visits:
        for colors, text in visit.contrast[scheme]["weak"].items():
            weak.setdefault(colors, f"{name_of(visit, site)}: {text}")
    assert weak == {}


def test_images_are_shown_and_described(visits: list[Visit], site: Path) -> None:
    images = [(name_of(visit, site), image) for visit in visits for image in visit.images]
    assert [(name, image) for name, image in images if not image["width"]] == []
    in_docs = [image for name, image in images if not name.startswith("notebooks/")]
    assert [image for image in in_docs if not image["alt"]] == []


# Some pictures have no background: theirs is that of a white page, or of a dark one.
PICTURE_TEXTS = """(isDark) => {
  const parsed = (color) => color.match(/[\\d.]+/g).map(Number);
  const luminance = (color) => {
    const parts = color.slice(0, 3).map((value) => value / 255)
      .map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
  };
  return [...document.querySelectorAll("text")].map((text) => {
    const box = text.getBoundingClientRect();
    const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
    const back = document.elementsFromPoint(x, y).find(
      (one) => !one.closest("text") && parsed(getComputedStyle(one).fill).length === 3
        && getComputedStyle(one).fillOpacity === "1" && one.matches("rect, path, polygon"));
    const [a, b] = [getComputedStyle(text).fill, back ? getComputedStyle(back).fill : "0"]
      .map((color) => (color === "0" ? (isDark ? 0.01 : 1) : luminance(parsed(color))));
    return {
      text: text.textContent, ratio: (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05),
      inside: box.left >= 0 && box.right <= innerWidth && box.bottom <= innerHeight,
    };
  });
}"""


@pytest.mark.parametrize("image", IMAGES, ids=lambda path: path.name)
def test_pictures_can_be_read(browser: Browser, image: Path) -> None:
    page = browser.new_page(viewport={"width": WIDE, "height": WIDE})
    page.goto(image.as_uri())
    if image.suffix == ".svg":
        texts = page.evaluate(PICTURE_TEXTS, image.stem.endswith("-dark"))
        assert len(texts) > 5
        unclear = [one for one in texts if one["ratio"] < NORMAL_TEXT or not one["inside"]]
        assert unclear == []
    else:
        assert page.evaluate("document.images[0].naturalWidth") >= 2 * NARROW
    page.close()


def test_links_lead_to_pages_and_headings(visits: list[Visit], site: Path) -> None:
    ids = {visit.path: visit.ids for visit in visits}
    broken = []
    for visit in visits:
        for link in visit.links:
            address, anchor = urldefrag(link)
            if urlsplit(address).scheme != "file":
                continue
            path = Path(unquote(urlsplit(address).path))
            if not path.is_file() or (anchor and anchor not in ids.get(path, set())):
                broken.append((name_of(visit, site), link))
    assert broken == []


def test_a_folded_example_is_copied_whole(visits: list[Visit], site: Path) -> None:
    folded = 0
    for visit in visits:
        source = ROOT / "docs" / visit.path.relative_to(site).with_suffix(".md")
        if visit.examples:
            text = source.read_text(encoding="utf-8")
            blocks = re.findall(r"(?ms)^```python\n(.*?)\n^```$", text)
            assert set(visit.examples) <= set(blocks), source.name
            folded += len(visit.examples)
    assert folded > 30


def test_the_site_is_as_dark_as_the_reader_wants(browser: Browser, site: Path) -> None:
    page = browser.new_page(color_scheme="dark")
    page.goto((site / "index.html").as_uri())
    page.wait_for_function("document.body.dataset.mdColorScheme === 'slate'")
    page.close()


def test_a_set_up_opens(browser: Browser, site: Path) -> None:
    page = browser.new_page()
    page.goto((site / "search.html").as_uri())
    imports = page.get_by_text("import CohereReranker")
    assert not imports.is_visible()
    assert page.get_by_text("reranker=CohereReranker(").is_visible()
    page.locator("details.setup", has=imports).locator("summary").click()
    assert imports.is_visible()
    page.close()
