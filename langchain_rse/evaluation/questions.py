"""Questions with evidence, the parts of documents that answer them; reads them from files."""

import codecs
import csv
import io
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, NonNegativeInt, StringConstraints, TypeAdapter, model_validator
from pydantic.dataclasses import dataclass
from pydantic_core import ArgsKwargs
from typing_extensions import Self

NotBlank = Annotated[str, StringConstraints(pattern=r"\S")]

_FIELDS = ("question", "evidence", "answer")  # of `Question`, in the order of its arguments


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
            raise ValueError(
                f"end must be above start={self.start}; got end={self.end}. Give both, or a "
                "quotation in text"
            )
        return self

    @property
    def is_quoted(self) -> bool:
        """True if only a quotation is given, whose place has to be found."""
        return not self.end and bool(self.text.strip())


@dataclass(frozen=True)
class Question:
    """A question with evidence, a reference answer, or both; or one that has no answer.

    A question without evidence and reference answer is a ValueError, unless ``evidence=[]`` is
    given, which means: the documents do not answer it.

    Attributes:
        question: The question, not blank.
        evidence: The parts of documents that answer it, which `evaluate` and `tune` need; kept as
            a tuple. Parts may overlap: each character counts once. Empty if it is unknown, beside
            a reference answer, or if there is none.
        answer: The reference answer, for evaluators that grade answers. Not read by `evaluate`.
    """

    question: NotBlank
    evidence: Annotated[Sequence[Evidence], AfterValidator(tuple)] = ()
    answer: str = ""

    @model_validator(mode="before")
    @classmethod
    def _check_use(cls, given: Any) -> Any:  # noqa: ANN401 - anything may be given
        """Tell evidence that is not given from evidence that is empty."""
        fields = given
        if isinstance(given, ArgsKwargs):  # the arguments of a call
            fields = {**dict(zip(_FIELDS, given.args, strict=False)), **(given.kwargs or {})}
        if not isinstance(fields, Mapping) or fields.get("evidence") is not None:
            return given
        answer = fields.get("answer")
        if answer is None or not str(answer).strip():
            raise ValueError(
                "give evidence, a reference answer, or both; or evidence=[] if the documents do "
                "not answer the question"
            )
        if "evidence" in fields:  # it is None
            return {name: value for name, value in fields.items() if name != "evidence"}
        return given

    @property
    def is_unanswerable(self) -> bool:
        """True if the documents do not answer it: ``evidence=[]`` is given, and no answer."""
        return not self.evidence and not self.answer.strip()


_QUESTION = TypeAdapter(Question)
_EVIDENCE_COLUMNS = ("doc_id", "text", "start", "end")


def load_questions(source: str | os.PathLike[str] | Iterable[Any]) -> list[Question]:
    """Read questions from a file in UTF-8, or from the examples of a LangSmith dataset.

    A file is CSV if its name ends in ``.csv``, else JSON Lines, such as ``{"question": "Why?",
    "answer": "It rained.", "evidence": [{"doc_id": "a.txt", "text": "Rain fell"}]}``, with
    ``"evidence": []`` if the documents do not answer the question. CSV has a column ``question``
    and any of ``answer``, ``doc_id``, ``text``, ``start`` and ``end``; rows with the same question
    are parts of its evidence, and each question needs evidence or an answer. Examples, as from
    ``Client.list_examples``, have these fields in ``inputs`` and ``outputs``. Other fields and
    blank lines are ignored.

    Raises:
        ValueError: If a question is not as described; the message names its line or example.
        OSError: If the file cannot be read.
    """
    if not isinstance(source, str | os.PathLike):
        return _read_examples(source)
    name = os.fspath(source)
    path = Path(source)
    content = path.read_bytes().removeprefix(codecs.BOM_UTF8)
    if path.suffix.lower() == ".csv":
        return _read_csv(name, content)
    return _read_json_lines(name, content)


def _read_examples(examples: Iterable[Any]) -> list[Question]:
    questions = []
    for number, example in enumerate(examples, 1):
        fields = {**(example.outputs or {}), **(example.inputs or {})}
        questions.append(parse_question(fields, f"example {number}"))
    return questions


def _read_json_lines(name: str, content: bytes) -> list[Question]:
    questions = []
    for number, line in enumerate(content.splitlines(), 1):
        if line.strip():
            questions.append(parse_question(line, f"{name}, line {number}"))
    return questions


def parse_question(fields: bytes | Mapping[str, Any], position: str) -> Question:
    """Make a question from JSON or from a dict; errors begin with its position in the source."""
    try:
        if isinstance(fields, bytes):
            return _QUESTION.validate_json(fields)
        return _QUESTION.validate_python(fields)
    except ValueError as error:
        raise ValueError(f"{position}: {error}") from error


def _read_csv(name: str, content: bytes) -> list[Question]:
    """Read questions from rows; rows with the same question are one question."""
    fields_of: dict[str, dict[str, Any]] = {}  # by the text of the question
    position_of: dict[str, str] = {}  # of its first row
    for position, cells in _read_rows(name, content):
        question = cells.get("question", "")
        answer = cells.get("answer", "")
        if question not in fields_of:
            fields_of[question] = {"question": question, "answer": answer}
            position_of[question] = position
        fields = fields_of[question]
        if answer and answer != fields["answer"]:
            raise ValueError(
                f"{position}: the question has another answer above: {fields['answer']!r}"
            )
        evidence = {column: cells[column] for column in _EVIDENCE_COLUMNS if column in cells}
        if evidence:
            fields.setdefault("evidence", []).append(evidence)
    return [parse_question(fields, position_of[question]) for question, fields in fields_of.items()]


def _read_rows(name: str, content: bytes) -> Iterator[tuple[str, dict[str, str]]]:
    """Read the position of each row that is not blank, and its cells by column."""
    position = name
    try:
        # Without strict, an unclosed quotation mark would make one cell of all rows after it.
        rows = csv.DictReader(io.StringIO(content.decode(), newline=""), strict=True)
        for row in rows:
            position = f"{name}, line {rows.line_num}"
            cells = _cells_of(row)
            if cells:
                yield position, cells
    except (csv.Error, ValueError) as error:
        raise ValueError(f"{position}: {error}") from error


def _cells_of(row: Mapping[str | Any, str | Any]) -> dict[str, str]:
    """Return the cells of a row that are not blank, by column."""
    # DictReader puts cells without a column under None.
    if None in row or "question" not in row:
        raise ValueError(
            "there must be a column question, commas between cells, texts with commas in quotes; "
            f"got {row}"
        )
    cells = {}
    for column, cell in row.items():
        text = (cell or "").strip()
        if text:
            cells[column] = text
    return cells
