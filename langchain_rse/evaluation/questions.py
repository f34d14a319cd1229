"""Questions, and the parts of documents that answer them."""

from __future__ import annotations

import codecs
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import (
    AfterValidator,
    Field,
    NonNegativeInt,
    StringConstraints,
    TypeAdapter,
    ValidationError,
    model_validator,
)
from pydantic.dataclasses import dataclass
from typing_extensions import Self

NotBlank = Annotated[str, StringConstraints(pattern=r"\S")]


@dataclass(frozen=True)
class Evidence:
    """A part of a document that answers a question; anything else is a ValueError.

    Attributes:
        doc_id: The document's id, not blank.
        start: The first character in the document's text, at least 0.
        end: The character after the last one, above ``start``.
    """

    doc_id: NotBlank
    start: NonNegativeInt
    end: NonNegativeInt

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if self.end <= self.start:
            raise ValueError(f"end must be above start={self.start}; got end={self.end}")
        return self


@dataclass(frozen=True)
class Question:
    """A question with the evidence for its answer; anything else is a ValueError.

    Attributes:
        question: The question, not blank.
        evidence: The parts of documents that answer it, at least one; kept as a tuple.
            Parts may overlap: each character counts once.
    """

    question: NotBlank
    evidence: Annotated[Sequence[Evidence], Field(min_length=1), AfterValidator(tuple)]


def load_questions(path: str | os.PathLike[str]) -> list[Question]:
    """Read questions from a file of JSON Lines in UTF-8.

    A line is an object such as ``{"question": "Why?", "evidence": [{"doc_id": "a.txt",
    "start": 0, "end": 120}]}``. Other keys and blank lines are ignored.

    Raises:
        ValueError: If a line is not as described; the message names the file and the line.
        OSError: If the file cannot be read.
    """
    read = TypeAdapter(Question).validate_json
    questions = []
    lines = Path(path).read_bytes().removeprefix(codecs.BOM_UTF8).splitlines()
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                questions.append(read(line))
            except ValidationError as error:
                raise ValueError(f"{os.fspath(path)}, line {number}: {error}") from error
    return questions
