"""Draws docs/images/report.png: the report of a query, in a Chromium that is installed.

The text is the reference that ships with Python; `python docs/_site/screenshot.py` asks it.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from pydoc_data.topics import topics

from langchain_core.documents import Document
from langchain_core.stores import InMemoryByteStore
from langchain_core.vectorstores import InMemoryVectorStore
from playwright.sync_api import sync_playwright

from langchain_rse import RSERetriever
from langchain_rse.embeddings import WordLlamaEmbeddings

PICTURE = Path(__file__).parents[1] / "images" / "report.png"


def report() -> str:
    """The report, as HTML."""
    retriever = RSERetriever(
        vectorstore=InMemoryVectorStore(WordLlamaEmbeddings()), docstore=InMemoryByteStore()
    )
    retriever.add_documents(
        Document(text, id=name, metadata={"source": name}) for name, text in sorted(topics.items())
    )
    return retriever.explain("How does a metaclass create a class?").to_html()


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
