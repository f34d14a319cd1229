"""Reads questions with their evidence from files."""

import codecs
import csv
import io
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from langchain_rse.evaluation.questions import Question

_QUESTION = TypeAdapter(Question)
_EVIDENCE_COLUMNS = ("doc_id", "text", "start", "end")


def load_questions(source: str | os.PathLike[str]) -> list[Question]:
    """Read questions from a file in UTF-8.

    A file ending in ``.csv`` is CSV, any other file JSON Lines, such as ``{"question": "Why?",
    "answer": "It rained.", "evidence": [{"doc_id": "a.txt", "text": "Rain fell"}]}``, with
    ``"evidence": []`` if the documents do not answer the question. CSV has a column ``question``
    and any of ``answer``, ``doc_id``, ``text``, ``start`` and ``end``. Rows with the same question
    are parts of its evidence, and each question needs evidence or an answer. Other fields and blank
    lines are ignored.

    Raises:
        ValueError: If a question is invalid. The message names the line of JSON or the question.
        OSError: If the file cannot be read.
    """
    path = Path(source)
    content = path.read_bytes().removeprefix(codecs.BOM_UTF8)
    questions = []
    if path.suffix.lower() == ".csv":
        for question, fields in _read_csv(path, content).items():
            questions.append(_parse(fields, f"{path}, question {question!r}"))
        return questions
    for number, line in enumerate(content.splitlines(), 1):
        if line.strip():
            questions.append(_parse(line, f"{path}, line {number}"))
    return questions


def _parse(fields: bytes | Mapping[str, Any], position: str) -> Question:
    """Make a question from JSON or a dict; errors begin with its position in the file."""
    try:
        if isinstance(fields, bytes):
            return _QUESTION.validate_json(fields)
        return _QUESTION.validate_python(fields)
    except ValueError as error:
        raise ValueError(f"{position}: {error}") from error


def _read_csv(path: Path, content: bytes) -> dict[str, dict[str, Any]]:
    """Read the fields of each question; rows with the same question are one question."""
    fields_of: dict[str, dict[str, Any]] = {}
    try:
        # Without strict, an unclosed quotation mark would merge all later rows into one cell.
        rows = csv.DictReader(io.StringIO(content.decode(), newline=""), strict=True)
        for row in rows:
            cells = _cells_of(row)
            if cells:
                question = cells.get("question", "")
                fields = fields_of.setdefault(question, {"question": question, "answer": ""})
                _add_cells(fields, cells)
    except (csv.Error, ValueError) as error:
        raise ValueError(f"{path}: {error}") from error
    return fields_of


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
        if cell and cell.strip():
            cells[column] = cell.strip()
    return cells


def _add_cells(fields: dict[str, Any], cells: Mapping[str, str]) -> None:
    """Add the answer and the evidence of a row to the fields of its question."""
    answer = cells.get("answer", fields["answer"])
    if fields["answer"] not in {"", answer}:
        raise ValueError(
            f"{fields['question']!r} has two answers: {fields['answer']!r}, {answer!r}"
        )
    fields["answer"] = answer
    evidence = {column: cells[column] for column in _EVIDENCE_COLUMNS if column in cells}
    if evidence:
        fields.setdefault("evidence", []).append(evidence)
