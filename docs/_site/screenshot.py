"""Draws reports of queries in docs/images, in a Chromium that is installed.

``report.png`` and ``report-dark.png`` have the question of docs/explaining.md,
``report-notebook.png`` that of the notebook "See and tune". `python docs/_site/screenshot.py` draws
all.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

from langchain_rse import RSERetriever
from langchain_rse.embeddings import WordLlamaEmbeddings

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs" / "images"
NOTEBOOK = ROOT / "notebooks" / "02_see_and_tune.ipynb"
# A page goes on below its picture, which would end inside of a line if it did not fade out.
FADING = """<body style="margin: 0">
<iframe src="report.html" style="border: 0; width: 100%; height: 100vh"></iframe>
<div style="position: fixed; bottom: 0; width: 100%; height: 6rem;
    background: linear-gradient(transparent, Canvas); color-scheme: light dark"></div>
"""


def report() -> str:
    """The report of the page, as HTML."""
    sources = [{"source": name} for name in topics]
    retriever = RSERetriever.from_texts(topics.values(), WordLlamaEmbeddings(), sources)
    question = "How does a match statement choose a case?"
    return retriever.explain(question, max_context_length=3_500).to_html()


def report_of_notebook() -> str:
    """The report that the notebook writes, from the index and the question of its first code."""
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    first = next(cell for cell in cells if cell["cell_type"] == "code")
    names: dict[str, Any] = {}
    exec("".join(first["source"]), names)  # noqa: S102
    html: str = names["retriever"].explain(names["question"]).to_html()
    return html


def draw(html: str, picture: Path, *, dark: bool = False) -> None:
    """Write a picture of the first screen of a page."""
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or "chromium"
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    if dark:
        options.append("--blink-settings=preferredColorScheme=0")
    options += ["--window-size=1000,1080", f"--screenshot={picture}"]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "report.html").write_text(html, encoding="utf-8")
        page = Path(folder, "fading.html")
        page.write_text(FADING, encoding="utf-8")
        subprocess.run([chromium, *options, page.as_uri()], check=True)  # noqa: S603


if __name__ == "__main__":
    page = report()
    draw(page, IMAGES / "report.png")
    draw(page, IMAGES / "report-dark.png", dark=True)
    draw(report_of_notebook(), IMAGES / "report-notebook.png")
