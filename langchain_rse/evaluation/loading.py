"""Reads questions with their evidence from files and datasets."""

import codecs
import csv
import io
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from langchain_rse.questions import Question

_QUESTION = TypeAdapter(Question)
_EVIDENCE_COLUMNS = ("doc_id", "text", "start", "end")


def load_questions(source: str | os.PathLike[str] | Iterable[Any]) -> list[Question]:
    """Read questions from a file in UTF-8, or from the examples of a LangSmith dataset.

    A file ending in ``.csv`` is CSV, any other file JSON Lines, such as ``{"question": "Why?",
    "answer": "It rained.", "evidence": [{"doc_id": "a.txt", "text": "Rain fell"}]}``, with
    ``"evidence": []`` if the documents do not answer the question. CSV has a column ``question``
    and any of ``answer``, ``doc_id``, ``text``, ``start`` and ``end``. Rows with the same question
    are parts of its evidence, and each question needs evidence or an answer. Examples, as from
    ``Client.list_examples``, have these fields in ``inputs`` and ``outputs``. Other fields and
    blank lines are ignored.

    Raises:
        ValueError: If a question is invalid. The message names its line or example.
        OSError: If the file cannot be read.
    """
    questions = []
    if not isinstance(source, str | os.PathLike):
        for number, example in enumerate(source, 1):
            fields = {**(example.outputs or {}), **(example.inputs or {})}
            questions.append(parse_question(fields, f"example {number}"))
        return questions
    name = os.fspath(source)
    path = Path(source)
    content = path.read_bytes().removeprefix(codecs.BOM_UTF8)
    if path.suffix.lower() == ".csv":
        return _read_csv(name, content)
    for number, line in enumerate(content.splitlines(), 1):
        if line.strip():
            questions.append(parse_question(line, f"{name}, line {number}"))
    return questions


def parse_question(fields: bytes | Mapping[str, Any], position: str) -> Question:
    """Make a question from JSON or a dict; errors begin with its position in the source."""
    try:
        if isinstance(fields, bytes):
            return _QUESTION.validate_json(fields)
        return _QUESTION.validate_python(fields)
    except ValueError as error:
        raise ValueError(f"{position}: {error}") from error


def _read_csv(name: str, content: bytes) -> list[Question]:
    """Read questions from rows; rows with the same question are one question."""
    fields_of: dict[str, dict[str, Any]] = {}  # by the text of the question
    position_of: dict[str, str] = {}  # the position of its first row
    position = name
    try:
        # Without strict, an unclosed quotation mark would merge all later rows into one cell.
        rows = csv.DictReader(io.StringIO(content.decode(), newline=""), strict=True)
        for row in rows:
            position = f"{name}, line {rows.line_num}"
            cells = _cells_of(row)
            if not cells:
                continue
            question = cells.get("question", "")
            position_of.setdefault(question, position)
            fields = fields_of.setdefault(question, {"question": question, "answer": ""})
            _add_cells(fields, cells)
    except (csv.Error, ValueError) as error:
        raise ValueError(f"{position}: {error}") from error
    return [parse_question(fields, position_of[question]) for question, fields in fields_of.items()]


def _add_cells(fields: dict[str, Any], cells: Mapping[str, str]) -> None:
    """Add the answer and the evidence of a row to the fields of its question."""
    answer = cells.get("answer", "")
    if answer and fields["answer"] not in {"", answer}:
        raise ValueError(f"the question has a different answer above: {fields['answer']!r}")
    fields["answer"] = answer or fields["answer"]
    evidence = {column: cells[column] for column in _EVIDENCE_COLUMNS if column in cells}
    if evidence:
        fields.setdefault("evidence", []).append(evidence)


def _cells_of(row: Mapping[str | Any, str | Any]) -> dict[str, str]:
    """Return the cells of a row that are not blank, by column."""
    # DictReader puts cells without a column under None.
    if None in row or "question" not in row:
        raise ValueError(
            "CSV needs a column named question, commas between cells, and quotes around cells with "
            f"commas; got {row}"
        )
    cells = {}
    for column, cell in row.items():
        text = (cell or "").strip()
        if text:
            cells[column] = text
    return cells
