"""A headless Chromium that is installed already, and pages in it that must not complain."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from langchain_rse import RSERetriever, RSETrace

ARGUMENTS = [
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]

playwright = pytest.importorskip("playwright.sync_api")
from playwright.sync_api import Browser, Page, Request, sync_playwright  # noqa: E402

from tests.browser_tests.reports import QUESTION, retriever_of, texts_of  # noqa: E402

Open = Callable[..., Page]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    names = ("chromium", "chromium-browser", "google-chrome")
    paths = [os.environ.get("CHROMIUM"), *map(shutil.which, names)]
    path = next(filter(None, paths), None)
    if path is None:
        message = "no Chromium: apt-get install chromium, or CHROMIUM=/path/to/it"
        pytest.exit(message, returncode=1)
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser: Browser, tmp_path: Path) -> Iterator[Open]:
    """Opens HTML from a file; the page must not log errors or load other files."""
    problems: list[str] = []
    pages: list[Page] = []

    def open_page(
        text: str,
        *,
        width: int = 1280,
        scheme: str = "light",
        motion: bool = True,
        scripts: bool = True,
    ) -> Page:
        path = tmp_path / f"{len(pages)}.html"
        path.write_text(text, encoding="utf-8")

        def note_request(request: Request) -> None:
            if request.url != path.as_uri():
                problems.append(request.url)

        page = browser.new_page(
            viewport={"width": width, "height": 800},
            color_scheme="dark" if scheme == "dark" else "light",
            reduced_motion="no-preference" if motion else "reduce",
            java_script_enabled=scripts,
        )
        pages.append(page)
        page.on("console", lambda message: problems.append(message.text))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", note_request)
        page.goto(path.as_uri())
        return page

    yield open_page
    for page in pages:
        page.close()
    assert not problems


@pytest.fixture(scope="module")
def retriever() -> RSERetriever:
    return retriever_of(texts_of(6, 40), fetch_k=50, max_context_length=4_000)


@pytest.fixture(scope="module")
def trace(retriever: RSERetriever) -> RSETrace:
    return retriever.explain(QUESTION)
