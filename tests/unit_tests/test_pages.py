"""Where passages stand on the pages of their PDF: what is under the boxes is the passage."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pypdfium2
import pytest
from fpdf import FPDF
from langchain_core.documents import Document

from langchain_rse.cli.files import Files
from langchain_rse.ingest.alignment import fold
from langchain_rse.pages import Box, boxes, render

HEAD = "Annual Report 2023 Confidential"


def prose(sentences: int) -> str:
    words = "steel margin pump seal price office flow first harbor quiet river stone".split()  # noqa: SIM905
    said = [" ".join(words[n * k % 12] for k in range(3, 12)) for n in range(sentences)]
    return " ".join(f"No {number} says {text}." for number, text in enumerate(said))


def one_column(writer: FPDF) -> None:
    writer.header = lambda: writer.cell(text=HEAD, new_x="LMARGIN", new_y="NEXT")
    writer.header()
    writer.multi_cell(0, text=prose(220))


def two_columns(writer: FPDF) -> None:
    with writer.text_columns(ncols=2, gutter=8, text_align="JUSTIFY") as columns:
        columns.write(prose(90))


def sideways(writer: FPDF) -> None:
    with writer.rotation(90, 105, 148):
        writer.multi_cell(0, text=prose(30))


def divided(writer: FPDF) -> None:
    syllables = [f"{word[:3]}\u00ad{word[3:]}" for word in prose(60).split()]
    writer.multi_cell(45, text=" ".join(syllables))


def ligatures(writer: FPDF) -> None:
    writer.add_font(fname=Path(mpl.get_data_path(), "fonts/ttf/DejaVuSans.ttf"))
    writer.set_font("DejaVuSans", size=12)
    text = prose(30).replace("fi", "\ufb01").replace("fl", "\ufb02")
    writer.multi_cell(0, text=text.replace("No", "\U0001d538"))


@cache
def drawn(draw: Any) -> bytes:
    writer = FPDF()
    writer.set_font("Helvetica", size=12)
    writer.add_page()
    draw(writer)
    return bytes(writer.output())


def written(path: Path, draw: Any, rotation: int = 0) -> tuple[Path, list[Document]]:
    with pypdfium2.PdfDocument(drawn(draw)) as pdf:
        for page in pdf:
            page.set_rotation(rotation)
        pdf.save(path)
    return path, list(Files().read([path]))


def under(path: Path, found: list[Box]) -> Counter[str]:
    """The letters and digits that PDFium extracts from the boxes."""
    with pypdfium2.PdfDocument(path) as pdf:
        texts = [pdf[page].get_textpage().get_text_bounded(*rect) for page, rect in found]
    return Counter(fold("".join(texts)))


@pytest.mark.parametrize("rotation", [0, 90])
@pytest.mark.parametrize("draw", [one_column, two_columns, sideways, divided, ligatures])
def test_text_under_the_boxes_is_the_passage(tmp_path: Path, draw: Any, rotation: int) -> None:
    path, pages = written(tmp_path / "a.pdf", draw, rotation)
    text = pages[0].page_content
    part = text[text.index(" says") + 6 :][:500]  # begins and ends inside of lines
    for passage in (Document(part, metadata={"page_start": 0, "page_end": 0}), pages[0]):
        found = boxes(passage, path)
        assert under(path, found) == Counter(fold(passage.page_content))
    with pypdfium2.PdfDocument(path) as pdf:
        page_text = pdf[0].get_textpage().get_text_range()
    lines = page_text.replace("\ufffe", "\n").splitlines()  # it stands in a divided word
    assert len(found) == len([line for line in lines if fold(line) and line != HEAD])


@pytest.mark.parametrize("numbers", [(0, 2), (1, 3), ("i", "iii"), (None, None)])
def test_lines_that_the_reader_left_out_are_not_marked(tmp_path: Path, numbers: Any) -> None:
    path, pages = written(tmp_path / "a.pdf", one_column)
    first, second, third = (page.page_content for page in pages[:3])
    assert HEAD not in first + second + third
    source = f"{first[-150:]}\n{second}\n{third[:300]}"
    metadata = {"start_index": 50, "end_index": 50 + len(source)}
    metadata |= {"page_start": numbers[0], "page_end": numbers[1]}
    passage = Document(f"A header in front of it\n\n{source}", metadata=metadata)
    found = boxes(passage, path)
    assert {box.page for box in found} == {0, 1, 2}
    assert under(path, found) == Counter(fold(source))


def test_a_picture_marks_the_passage_alone(tmp_path: Path) -> None:
    path, pages = written(tmp_path / "a.pdf", one_column, rotation=90)
    passage = pages[1].model_copy(update={"page_content": pages[1].page_content[700:1100]})
    ((number, picture),) = render(passage, path).items()
    assert (number, picture.size) == (1, (1684, 1191))
    red, _, blue = np.moveaxis(np.asarray(picture), 2, 0)
    rows, columns = np.nonzero((red > 200) & (blue < 200))
    rects = [box.rect for box in boxes(passage, path)]
    # A page turned by a quarter: rows are PDF's x, and columns its y. Two pixels are a point.
    expected = [*np.min(rects, axis=0)[:2], *np.max(rects, axis=0)[2:]]
    marked = np.array([rows.min(), columns.min(), rows.max(), columns.max()])
    assert np.abs(marked / 2 - expected).max() < 1


@pytest.mark.parametrize("text", ["Nothing of this is there. " * 20, "---"])
def test_text_of_another_file_is_refused(tmp_path: Path, text: str) -> None:
    path, _ = written(tmp_path / "a.pdf", two_columns)
    with pytest.raises(ValueError, match="The text is not in the PDF; give the file"):
        boxes(Document(text, metadata={"page": 0}), path)
