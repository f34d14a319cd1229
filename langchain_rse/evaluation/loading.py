"""Reads questions with their evidence from files."""

import csv
import os
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from langchain_rse._messages import in_a_sentence
from langchain_rse._sync import during
from langchain_rse.evaluation.questions import Question

_QUESTION = TypeAdapter(Question)
_EVIDENCE_COLUMNS = ("doc_id", "text", "start", "end")


def load_questions(source: str | os.PathLike[str]) -> list[Question]:
    """Read questions from a file in UTF-8.

    A file ending in ``.csv`` is CSV, any other file JSON Lines, such as ``{"question": "Why?",
    "evidence": [{"doc_id": "a.txt", "text": "Rain fell"}]}``, with ``"evidence": []`` if the
    documents do not answer the question. CSV has a column ``question`` and any of ``doc_id``,
    ``text``, ``start`` and ``end``. Rows with the same question are parts of its evidence; a row
    without evidence is a question that the documents do not answer. Other fields and blank lines
    are ignored.

    Raises:
        ValueError: If a question is invalid. The message names the line of JSON or the question.
        csv.Error: If a file is not CSV.
        OSError: If the file cannot be read.
    """
    path = Path(source)
    questions = []
    if path.suffix.lower() == ".csv":
        with during(f"reading {path}"):
            evidence_of = _read_csv(path)
        for text, evidence in evidence_of.items():
            with in_a_sentence(f"{path}, question {text!r}"):
                fields = {"question": text, "evidence": evidence}
                questions.append(_QUESTION.validate_python(fields))
        return questions
    content = path.read_text(encoding="utf-8-sig")
    for number, line in enumerate(content.split("\n"), 1):
        if line.strip():
            with in_a_sentence(f"{path}, line {number}"):
                questions.append(_QUESTION.validate_json(line))
    return questions


def _read_csv(path: Path) -> dict[str, list[Any]]:
    """Read the evidence of each question."""
    evidence_of: dict[str, list[Any]] = {}
    with path.open(encoding="utf-8-sig", newline="") as file:
        # Without strict, an unclosed quotation mark would merge all later rows into one cell.
        for row in csv.DictReader(file, restkey="", strict=True):
            # A text with commas and without quotation marks has cells beyond the last column.
            if "" in row or "question" not in row:
                raise ValueError(
                    "CSV needs a column named question, commas between cells, and quotes around "
                    f"cells with commas; got {row}"
                )
            cells = {column: cell.strip() for column, cell in row.items() if cell}
            question = cells.pop("question", "")
            evidence = {column: cells[column] for column in _EVIDENCE_COLUMNS if cells.get(column)}
            if question or evidence:
                evidence_of.setdefault(question, [])
            if evidence:
                evidence_of[question].append(evidence)
    return evidence_of
