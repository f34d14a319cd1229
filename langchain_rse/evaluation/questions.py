"""Questions and where in the documents their answers stand."""

from __future__ import annotations

import json
import operator
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Evidence", "Question", "load_questions", "whole_number"]


@dataclass(frozen=True)
class Evidence:
    """A part of a document that answers a question.

    Attributes:
        doc_id: The document's id, not blank.
        start: Its first character in the document's text, at least 0.
        end: The character after its last one, above ``start``.

    Raises:
        ValueError: If a field is not as described; the message names it and its value.
    """

    doc_id: str
    start: int
    end: int

    def __post_init__(self) -> None:
        _check_text("doc_id", self.doc_id)
        object.__setattr__(self, "start", whole_number("start", self.start, 0))
        object.__setattr__(self, "end", whole_number("end", self.end, self.start + 1))


@dataclass(frozen=True)
class Question:
    """A question and where its answer stands.

    Attributes:
        question: The question, not blank.
        evidence: The parts of documents that answer it, at least one; kept as a tuple.
            Parts may overlap: each character counts once.

    Raises:
        ValueError: If a field is not as described.
    """

    question: str
    evidence: Sequence[Evidence]

    def __post_init__(self) -> None:
        _check_text("question", self.question)
        given: Any = self.evidence
        evidence = tuple(given) if isinstance(given, Iterable) else ()
        if not evidence or not all(isinstance(part, Evidence) for part in evidence):
            raise ValueError(f"evidence must be a sequence of at least one Evidence; got {given!r}")
        object.__setattr__(self, "evidence", evidence)


def load_questions(path: str | os.PathLike[str]) -> list[Question]:
    """Read questions from a file of JSON Lines in UTF-8.

    A line is an object such as ``{"question": "Why?", "evidence": [{"doc_id": "a.txt",
    "start": 0, "end": 120}]}``. Evidence without a ``doc_id`` takes the one of the line.
    Other keys and blank lines are passed over.

    Args:
        path: The file.

    Returns:
        The questions in the order of the file.

    Raises:
        ValueError: If a line is not as described; the message names the file and the line.
        OSError: If the file cannot be read.
    """
    questions = []
    lines = Path(path).read_bytes().removeprefix(b"\xef\xbb\xbf").split(b"\n")
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                questions.append(_parse_question(line))
            except ValueError as error:
                raise ValueError(f"{os.fspath(path)}, line {number}: {error}") from error
    return questions


def _parse_question(line: bytes) -> Question:
    fields: Any = json.loads(line.decode("utf-8"))
    if not isinstance(fields, dict):
        raise ValueError(f"must be an object; got {fields!r}")  # noqa: TRY004
    parts = fields.get("evidence")
    if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
        raise ValueError(f"'evidence' must be a list of objects; got {parts!r}")
    evidence = []
    for number, part in enumerate(parts, 1):
        doc_id = part.get("doc_id", fields.get("doc_id"))
        try:
            evidence.append(Evidence(doc_id, part.get("start"), part.get("end")))
        except ValueError as error:
            raise ValueError(f"evidence {number}: {error}") from error
    question: Any = fields.get("question")
    return Question(question, evidence)


def _check_text(name: str, value: Any) -> None:  # noqa: ANN401 - what a user gave
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{name} must be a string that is not blank; got {value!r}")


def whole_number(name: str, value: Any, least: int) -> int:  # noqa: ANN401 - what a user gave
    """The value, if it is a whole number of at least so much.

    Raises:
        ValueError: If it is not, with its name.
    """
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if number < least or isinstance(value, bool):
        raise ValueError(f"{name} must be a whole number of at least {least}; got {value!r}")
    return number
