"""Questions with evidence, the parts of documents that answer them; reads them from files."""

import codecs
import csv
import io
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, NonNegativeInt, StringConstraints, TypeAdapter, model_validator
from pydantic.dataclasses import dataclass
from typing_extensions import Self

from langchain_rse._messages import first_few
from langchain_rse.ingest.alignment import quotation_pattern

NotBlank = Annotated[str, StringConstraints(pattern=r"\S")]


@dataclass(frozen=True)
class Evidence:
    """A part of a document that answers a question.

    Attributes:
        doc_id: The document's id, not blank.
        start: The first character in the document's text, at least 0.
        end: The character after the last one, above ``start``. Other values are a ValueError.
        text: Instead of ``start`` and ``end``, a quotation, which must occur once in the document;
            white space may differ. `evaluate` and `tune` find its place.
    """

    doc_id: NotBlank
    start: NonNegativeInt = 0
    end: NonNegativeInt = 0
    text: str = ""

    @model_validator(mode="after")
    def _check_place(self) -> Self:
        if self.end <= self.start and (self.start or not self.is_quoted):
            wrong = f"end must be above start={self.start}; got end={self.end}"
            raise ValueError(f"{wrong}. Give both, or a quotation in text")
        return self

    @property
    def is_quoted(self) -> bool:
        """True if only a quotation is given, whose place has to be found."""
        return not self.end and bool(self.text.strip())


@dataclass(frozen=True)
class Question:
    """A question with evidence, a reference answer, or both; neither is a ValueError.

    Attributes:
        question: The question, not blank.
        evidence: The parts of documents that answer it, which `evaluate` and `tune` need; kept as
            a tuple. Parts may overlap: each character counts once.
        answer: The reference answer, by which `evaluate_answers` has other answers graded.
    """

    question: NotBlank
    evidence: Annotated[Sequence[Evidence], AfterValidator(tuple)] = ()
    answer: str = ""

    @model_validator(mode="after")
    def _check_use(self) -> Self:
        if not (self.evidence or self.answer.strip()):
            raise ValueError("give evidence, a reference answer, or both")
        return self


_QUESTION = TypeAdapter(Question)
_OF_EVIDENCE = ("doc_id", "text", "start", "end")


def load_questions(source: str | os.PathLike[str] | Iterable[Any]) -> list[Question]:
    """Read questions from a file in UTF-8, or from the examples of a LangSmith dataset.

    A file is CSV if its name ends in ``.csv``, else JSON Lines, such as ``{"question": "Why?",
    "answer": "It rained.", "evidence": [{"doc_id": "a.txt", "text": "Rain fell"}]}``. CSV has a
    column ``question`` and any of ``answer``, ``doc_id``, ``text``, ``start`` and ``end``; rows
    with the same question are parts of its evidence. Examples, as from ``Client.list_examples``,
    have these fields in ``inputs`` and ``outputs``. Other fields and blank lines are ignored.

    Raises:
        ValueError: If a question is not as described; the message names its line or example.
        OSError: If the file cannot be read.
    """
    if not isinstance(source, str | os.PathLike):
        examples: Iterable[Any] = source
        fields = ({**(one.outputs or {}), **(one.inputs or {})} for one in examples)
        return [_read(f"example {number}", one) for number, one in enumerate(fields, 1)]
    name, content = os.fspath(source), Path(source).read_bytes().removeprefix(codecs.BOM_UTF8)
    if Path(source).suffix.lower() == ".csv":
        return [_read(*one) for one in _read_csv(name, content)]
    lines = enumerate(content.splitlines(), 1)
    return [_read(f"{name}, line {number}", line) for number, line in lines if line.strip()]


def _read(place: str, fields: bytes | Mapping[str, Any]) -> Question:
    try:
        if isinstance(fields, bytes):
            return _QUESTION.validate_json(fields)
        return _QUESTION.validate_python(fields)
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from error


def _read_csv(name: str, content: bytes) -> Iterable[tuple[str, dict[str, Any]]]:
    """Read the fields of each question, with the line where it begins."""
    found: dict[str, tuple[str, dict[str, Any]]] = {}
    place = name
    try:
        # Without strict, an unclosed quotation mark would make one cell of the whole rest.
        rows = csv.DictReader(io.StringIO(content.decode(), newline=""), strict=True)
        for row in rows:
            place = f"{name}, line {rows.line_num}"
            if None in row or "question" not in row:
                wanted = "a column question, commas between cells, texts with commas in quotes"
                raise ValueError(f"there must be {wanted}; got {row}")  # noqa: TRY301
            cells = {column: text for column, cell in row.items() if (text := (cell or "").strip())}
            if not cells:
                continue
            question, answer = cells.get("question", ""), cells.get("answer", "")
            new: dict[str, Any] = {"question": question, "answer": answer, "evidence": []}
            fields = found.setdefault(question, (place, new))[1]
            if answer not in {"", fields["answer"]}:
                raise ValueError(f"the question has another answer above: {fields['answer']!r}")  # noqa: TRY301
            if part := {column: cells[column] for column in _OF_EVIDENCE if column in cells}:
                fields["evidence"].append(part)
    except (csv.Error, ValueError) as error:
        raise ValueError(f"{place}: {error}") from error
    return found.values()


def locate_evidence(
    questions: Iterable[Question], texts: Mapping[str, str], lengths: Mapping[str, int], place: str
) -> tuple[Question, ...]:
    """Return the questions with ``start`` and ``end`` of quotations in texts by document id.

    A ValueError names quotations that do not occur exactly once, and evidence beyond the lengths of
    documents; its message calls the documents ``place``.
    """
    problems: list[str] = []

    def locate(number: int, part: Evidence) -> Evidence:
        if part.is_quoted:
            pattern, text = quotation_pattern(part.text), texts.get(part.doc_id, "")
            first = pattern.search(text)
            second = first and pattern.search(text, first.start() + 1)
            if first and not second:
                return replace(part, start=first.start(), end=first.end())
            there = f"at {first.start()} and at {second.start()}" if first and second else "nowhere"
            problem = f"{part.text!r:.80} is {there} in document {part.doc_id!r}"
        elif lengths.get(part.doc_id, 0) >= part.end:
            return part
        else:
            has = f"which has {lengths.get(part.doc_id, 'no')} characters"
            problem = f"{part.start} to {part.end} is not in document {part.doc_id!r}, {has}"
        problems.append(f"question {number}: {problem}")
        return part

    located = tuple(
        replace(question, evidence=[locate(number, part) for part in question.evidence])
        for number, question in enumerate(questions, 1)
    )
    if problems:
        raise ValueError(
            "evidence must be in its document, and a quotation in it once, whatever the white "
            f"space; in {place}, {first_few(problems)}. Copy it, quote more, or give start and end"
        )
    return located
