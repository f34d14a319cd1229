"""Draws docs/images/report.png: the report of a query, in a Chromium that is installed.

Index and question are those of docs/explaining.md. `python docs/_site/screenshot.py` draws it.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from pydoc_data.topics import topics

from playwright.sync_api import sync_playwright

from langchain_rse import RSERetriever
from langchain_rse.embeddings import WordLlamaEmbeddings

PICTURE = Path(__file__).parents[1] / "images" / "report.png"


def report() -> str:
    """The report, as HTML."""
    sources = [{"source": name} for name in topics]
    retriever = RSERetriever.from_texts(topics.values(), WordLlamaEmbeddings(), sources)
    question = "How does a match statement choose a case?"
    return retriever.explain(question, max_context_length=3_500).to_html()


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
