"""Files as their readers give them: what comes back is their text, and says where it is."""

from __future__ import annotations

import bisect
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pypdf
import pytest
from fpdf import FPDF
from langchain_core.documents import Document
from langchain_text_splitters import RecursiveCharacterTextSplitter

from langchain_rse import RSERetriever, SQLDocStore
from langchain_rse.cli.files import Files
from langchain_rse.embeddings import WordLlamaEmbeddings
from tests.integration_tests.stores import open_chroma
from tests.unit_tests import fakes
from tests.unit_tests.fakes import Way

way = fakes.way

# What the files are about, section by section; the table of piers stands between the last two.
SECTIONS = {
    "Weather": "Rain fell on most days of March. Fog kept the lighthouse lit until noon. ",
    "Kitchen": "The cook baked bread with rye flour. Soup was served with parsley and butter. ",
    "Harbor": "Ferries and freighters called at the harbor through the year. ",
    "Music": "The choir sang two motets. A violin accompanied the organ on Sunday evenings. ",
}
PIERS = {f"Pier {number}": f"{7 * number + 11} ships" for number in range(1, 25)}
EMBEDDINGS = WordLlamaEmbeddings()
QUESTION = "how many ships were at each pier"


def make_retriever(folder: Path, **settings: Any) -> RSERetriever:
    return RSERetriever(
        vectorstore=open_chroma(folder, EMBEDDINGS),
        docstore=SQLDocStore(f"sqlite:///{folder / 'chunks.db'}"),
        text_splitter=RecursiveCharacterTextSplitter(chunk_size=200, chunk_overlap=0),
        **settings,
    )


def ask(
    way: Way, retriever: RSERetriever, parts: Sequence[Document], question: str, **kwargs: Any
) -> Document:
    """The best passage, which is a slice of the parts' text."""
    way.add(retriever, parts)
    (passage,) = way.invoke(retriever, question, k=1, **kwargs)
    assert isinstance(passage, Document)
    text = "\n\n".join(part.page_content for part in parts)
    start, end = passage.metadata["start_index"], passage.metadata["end_index"]
    assert passage.page_content == text[start:end]
    return passage


def pages_of(passage: Document, pages: Sequence[Document]) -> tuple[int, int]:
    """The pages on which a passage begins and ends, by its text."""
    ends = list(itertools.accumulate(len(page.page_content) + 2 for page in pages))
    last = passage.metadata["start_index"] + len(passage.page_content.rstrip()) - 1
    return bisect.bisect(ends, passage.metadata["start_index"]), bisect.bisect(ends, last)


# A PDF, a Document a page


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sections of a page each; a table begins at the foot of the third page."""
    path = tmp_path_factory.mktemp("pdf") / "report.pdf"
    pdf = FPDF()
    pdf.set_font("Helvetica", size=11)
    for title, text in SECTIONS.items():
        pdf.add_page()
        pdf.multi_cell(0, 6, title, new_x="LMARGIN", new_y="NEXT")
        pdf.multi_cell(0, 6, text * 6, new_x="LMARGIN", new_y="NEXT")
        if title == "Harbor":
            pdf.set_y(200)
            with pdf.table(first_row_as_headings=False) as table:
                for cells in PIERS.items():
                    row = table.row()
                    for cell in cells:
                        row.cell(cell)
    pdf.output(str(path))
    return path


def by_pdfium(path: Path) -> Iterator[Document]:
    return Files().read([path])


def by_pypdf(path: Path) -> Iterator[Document]:
    reader = pypdf.PdfReader(path)
    for number, page in enumerate(reader.pages):
        metadata = {"source": str(path), "page": number, "page_label": reader.page_labels[number]}
        yield Document(page.extract_text(), metadata=metadata)


@pytest.mark.parametrize("reader", [by_pdfium, by_pypdf])
def test_a_table_across_a_page_border(
    way: Way,
    tmp_path: Path,
    report: Path,
    reader: Callable[[Path], Iterator[Document]],
) -> None:
    pages = list(reader(report))
    assert len(pages) == 5
    border = [
        any(f"{pier}\n" in p.page_content + "\n" or f"{pier} " in p.page_content for pier in PIERS)
        for p in pages
    ]
    assert border == [False, False, True, True, False]

    retriever = make_retriever(tmp_path)
    passage = ask(way, retriever, pages, QUESTION)
    rows = re.findall(r"(Pier \d+)\s+(\d+ ships)", passage.page_content)
    assert dict(rows) == PIERS
    metadata = passage.metadata
    first, last = metadata["page_start"], metadata["page_end"]
    assert (first, last) == pages_of(passage, pages)
    assert first <= 2
    assert last >= 3
    assert metadata["source"] == str(report)
    if reader is by_pypdf:
        assert (metadata["page_label_start"], metadata["page_label_end"]) == (
            str(first + 1),
            str(last + 1),
        )
    assert "page" not in metadata

    # A filter by page lets through what begins there.
    (found,) = way.invoke(retriever, QUESTION, k=1, filter={"page": 3})
    assert (found.metadata["page_start"], found.metadata["page_end"]) == (3, 3)
    assert "Pier 24" in found.page_content


# One Document a file


def as_html(path: Path) -> Iterator[Document]:
    rows = "".join(f"<tr><td>{name}</td><td>{ships}</td></tr>" for name, ships in PIERS.items())
    body = "".join(
        f"<h2>{title}</h2><p>{text * 6}</p>"
        + (f"<table>{rows}</table>" if title == "Harbor" else "")
        for title, text in SECTIONS.items()
    )
    path = path / "report.html"
    path.write_text(
        f"<html><head><title>Piers &amp; ships</title></head><body>{body}</body></html>",
        encoding="utf-8",
    )
    return Files().read([path])


def as_markdown(path: Path) -> Iterator[Document]:
    rows = "\n".join(f"| {name} | {ships} |" for name, ships in PIERS.items())
    text = "\n\n".join(
        f"## {title}\n\n{text * 6}" + (f"\n\n{rows}" if title == "Harbor" else "")
        for title, text in SECTIONS.items()
    )
    path = path / "report.md"
    yield Document(text, metadata={"source": str(path)})


@pytest.mark.parametrize(
    ("load", "metadata"),
    [(as_html, {"title": "Piers & ships"}), (as_markdown, {})],
)
def test_a_table_in_a_file(
    way: Way,
    tmp_path: Path,
    load: Callable[[Path], Iterator[Document]],
    metadata: dict[str, Any],
) -> None:
    parts = list(load(tmp_path))
    passage = ask(way, make_retriever(tmp_path), parts, QUESTION)
    rows = re.findall(r"(Pier \d+)[\s|]+(\d+ ships)", passage.page_content)
    assert dict(rows) == PIERS
    assert passage.metadata["source"].startswith(str(tmp_path / "report."))
    assert passage.metadata.items() >= metadata.items()
    assert not [name for name in passage.metadata if "page" in name]
