"""Passages on the pages of their PDF: where their lines are, and pictures with them marked.

A passage and its pages are compared by their letters and digits: readers join words that line ends
divide, and leave out lines that most pages have.
"""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from langchain_core.documents import Document

from langchain_rse._messages import check_type, load
from langchain_rse.ingest.alignment import fold, folded_form
from langchain_rse.stores.records import END_INDEX, START_INDEX

# Letters that a line and those after it are found by, where the reader has left out others.
_ANCHOR = 40
_LARGEST_LOSS = 0.02  # the share of a passage's letters that its pages may lack
_MARGIN = 5  # characters of a line overlap without this part of their height, others do not
_SIDEWAYS = 0.7  # at least the sine of the angle of text that runs up or down
_SCALE = 2  # pixels a point
_COLOR = (255, 215, 0, 80)  # red, green, blue and opacity

Rect = tuple[float, float, float, float]


class Box(NamedTuple):
    """A line of a passage, or the part of a line that belongs to it, on a page."""

    page: int
    """Number of the page, from 0."""
    rect: Rect
    """Left, bottom, right and top in points, from the lower left corner of the unrotated page."""


def boxes(passage: Document, path: str | Path) -> list[Box]:
    """Find the lines of a passage on the pages of its PDF.

    Args:
        passage: A passage, or any Document, with text as PDFium reads it: by the command line, or
            by ``PyPDFium2Loader``. Text of other readers is found if it has the same letters in
            the same order.
        path: The PDF. It must open without a password.

    Returns:
        A box for each line.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If the text is not in the file, or the file is no PDF.
    """
    with _open(passage, path) as pdf:
        return _boxes(passage, pdf)


def render(passage: Document, path: str | Path) -> dict[int, Any]:
    """Draw the pages of a passage, with its lines marked.

    Args:
        passage: As for `boxes`.
        path: The PDF.

    Returns:
        PIL images by the numbers of their pages, from 0.

    Raises:
        ValueError: If the text is not in the file.
    """
    drawing = load("PIL.ImageDraw", "pages", "langchain_rse.pages")
    pictures = {}
    with _open(passage, path) as pdf:
        for number, (left, bottom, right, top) in _boxes(passage, pdf):  # page by page
            if number not in pictures:
                page = pdf[number]
                bitmap = page.render(scale=_SCALE)
                to_pixel = bitmap.get_posconv(page).to_bitmap
                pictures[number] = bitmap.to_pil().convert("RGB")
                drawn = drawing.Draw(pictures[number], "RGBA")
            corners = zip(to_pixel(left, bottom), to_pixel(right, top), strict=True)
            columns, rows = map(sorted, corners)
            drawn.rectangle([*zip(columns, rows, strict=True)], fill=_COLOR)
    return pictures


def _open(passage: Document, path: str | Path) -> Any:  # noqa: ANN401 - a PdfDocument
    check_type("passage", passage, Document, "a Document of the retriever")
    pdfium = load("pypdfium2", "pages", "langchain_rse.pages")
    if not Path(path).is_file():
        raise FileNotFoundError(f"there is no file {path}")
    try:
        return pdfium.PdfDocument(path)
    except pdfium.PdfiumError as error:
        raise ValueError(f"{path} is no PDF, or needs a password") from error


def _boxes(passage: Document, pdf: Any) -> list[Box]:  # noqa: ANN401 - a PdfDocument
    metadata = passage.metadata
    text = passage.page_content
    if END_INDEX in metadata:
        # Headers may stand above the slice of the source.
        text = text[metadata[START_INDEX] - metadata[END_INDEX] :]
    lines = [fold(line) for line in text.splitlines()]
    first = metadata.get("page_start", metadata.get("page"))
    last = metadata.get("page_end", first)
    numbers = range(len(pdf))
    stated = numbers[first : last + 1] if isinstance(last, int) else numbers
    # The numbers may not count from 0.
    found = _find(lines, pdf, stated) or _find(lines, pdf, numbers)
    if not found:
        raise ValueError(
            "The text is not in the PDF; give the file that it was read from, by PDFium (as the "
            "command line and PyPDFium2Loader do)"
        )
    return found


def _find(lines: Sequence[str], pdf: Any, numbers: Iterable[int]) -> list[Box]:  # noqa: ANN401
    """Find folded lines on pages; no boxes if too much is missing."""
    text = ""
    characters = []  # of the text, with their pages
    for number in numbers:
        page = pdf[number].get_textpage()
        page_text = page.get_text_range()
        text += page_text
        unit = 0
        for character in page_text:
            characters.append((number, page, unit))
            unit += 1 + (character > "\uffff")  # PDFium counts in UTF-16
    form = folded_form(text)
    found: list[Box] = []
    line_low = line_high = 0.0
    for start, end in _align(lines, form.text):
        for number, page, unit in characters[form.places[start] : form.places[end - 1] + 1]:
            rect, low, high = _measure(page, unit)
            if rect[0] == rect[2]:
                continue  # white space
            is_same_line = low < line_high and line_low < high
            if is_same_line and found and found[-1].page == number:
                line = found.pop().rect
                left, bottom = map(min, line[:2], rect[:2])
                right, top = map(max, line[2:], rect[2:])
                rect = (left, bottom, right, top)
            found.append(Box(number, rect))
            line_low, line_high = low, high
    return found


def _align(lines: Sequence[str], text: str) -> list[tuple[int, int]]:
    """Find folded lines in a folded text in their order; nothing if too much is missing."""
    letters = "".join(lines)
    start = text.find(letters)
    if start >= 0:
        return [(start, start + len(letters))] if letters else []
    spans: list[tuple[int, int]] = []
    reached = 0  # in the text
    position = 0  # in the letters
    missing = 0
    for line in filter(None, lines):
        following = position + len(line)
        start = reached
        if not spans or not text.startswith(line, reached):
            start = text.find(letters[position : max(following, position + _ANCHOR)], reached)
        if start < 0 and len(line) < _ANCHOR:
            # The page may end after the line.
            next_line = text.find(letters[following : following + _ANCHOR], reached)
            start = text.rfind(line, reached, max(next_line, reached))
        if start >= 0:
            reached = start + len(line)
            spans.append((start, reached))
        else:
            missing += len(line)
            if missing > _LARGEST_LOSS * len(letters):
                return []
        position = following
    return spans


def _measure(page: Any, unit: int) -> tuple[Rect, float, float]:  # noqa: ANN401 - a PdfTextPage
    """Return the rectangle of a character of a page's text, and the middle of its line."""
    from pypdfium2 import raw  # noqa: PLC0415 - of an extra

    index = raw.FPDFText_GetCharIndexFromTextIndex(page, unit)
    left, bottom, right, top = page.get_charbox(index, loose=True)
    if abs(math.sin(raw.FPDFText_GetCharAngle(page, index))) > _SIDEWAYS:
        bottom, top = left, right
    margin = (top - bottom) / _MARGIN
    return page.get_charbox(index), bottom + margin, top - margin
