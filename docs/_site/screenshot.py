"""Draws docs/images/report.png: the report of a query, in a Chromium that is installed.

Question and text are those of ``langchain-rse demo``. `python docs/_site/screenshot.py` draws it.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from playwright.sync_api import sync_playwright

from langchain_rse import RSERetriever
from langchain_rse.cli.demo import QUESTION, language_reference
from langchain_rse.embeddings import WordLlamaEmbeddings

PICTURE = Path(__file__).parents[1] / "images" / "report.png"


def report() -> str:
    """The report, as HTML."""
    reference = language_reference()
    retriever = RSERetriever.from_texts(
        reference.values(), WordLlamaEmbeddings(), [{"source": title} for title in reference]
    )
    return retriever.explain(QUESTION).to_html()


if __name__ == "__main__":
    with sync_playwright() as started:
        browser = started.chromium.launch(
            executable_path=os.environ.get("CHROMIUM") or shutil.which("chromium"),
            args=["--no-sandbox", "--disable-gpu"],
        )
        page = browser.new_page(viewport={"width": 1000, "height": 760})
        page.set_content(report())
        page.screenshot(path=PICTURE)
        browser.close()
