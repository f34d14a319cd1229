"""Questions and their evidence, the parts of documents that answer them: read, and located."""

import csv
import io
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from inspect import signature
from pathlib import Path
from typing import Any, Self, TypeVar

from pydantic import Field, TypeAdapter, ValidationError, model_validator
from pydantic.dataclasses import dataclass

from langchain_rse._messages import check_type, in_a_sentence, problems_of, shown
from langchain_rse.access import DocumentAccess
from langchain_rse.errors import MissingRecordError
from langchain_rse.retriever import RSERetriever
from langchain_rse.stores.document_names import find_document
from langchain_rse.text.quoting import first_few

_EVIDENCE_COLUMNS = ("doc_id", "text", "start", "end")

Kind = TypeVar("Kind")


def _explained(kind: type[Kind]) -> type[Kind]:
    """Say in a sentence what is wrong with the fields of a pydantic dataclass."""
    create = in_a_sentence(kind.__name__)(kind.__init__)
    parameters = signature(kind)

    def initialize(self: Kind, *values: object, **fields: object) -> None:
        create(self, **parameters.bind_partial(*values, **fields).arguments)

    kind.__init__ = initialize  # type: ignore[assignment, method-assign]
    return kind


@_explained
@dataclass(frozen=True)
class Evidence:
    """A part of a document that answers a question.

    Attributes:
        doc_id: Id of the document, not blank; for an index, its path or file name is enough.
        start: Position of the first character in the document's text, at least 0.
        end: Position after the last character, above ``start``.
        text: A quotation, instead of ``start`` and ``end``. It must occur exactly once in the
            document, ignoring white space. Its position is looked up when the question is used.

    Raises:
        ValueError: If a value is out of range, or neither a range nor a quotation is given.
    """

    doc_id: str = Field(pattern=r"\S")
    start: int = Field(default=0, ge=0)
    end: int = Field(default=0, ge=0)
    text: str = ""

    @model_validator(mode="after")
    def _check_position(self) -> Self:
        if self.end <= self.start and (self.start or not self.is_quoted):
            problem = f"end must be above start={self.start}; got end={self.end}"
            if not self.start and not self.end:
                problem = "neither a text nor a range is given"
            raise ValueError(f"{problem}. Pass start and end, or a quotation as text")
        return self

    def __repr__(self) -> str:
        """Omit a range that is not known, and a text that is not given."""
        place = "" if self.is_quoted else f", {self.start}, {self.end}"
        quotation = f", text={self.text!r}" if self.text else ""
        return f"Evidence({self.doc_id!r}{place}{quotation})"

    @property
    def is_quoted(self) -> bool:
        """True if only a quotation is given, without its position."""
        return not self.end and bool(self.text.strip())


@_explained
@dataclass(frozen=True)
class Question:
    """A question with its evidence.

    Attributes:
        question: The question, not blank.
        evidence: The parts of documents that answer the question, as a tuple. Parts may overlap:
            each character counts once. Empty if the documents do not answer the question.

    Raises:
        ValueError: If a value is missing or out of range.
    """

    question: str = Field(pattern=r"\S")
    evidence: Sequence[Evidence] = Field()

    def __post_init__(self) -> None:
        object.__setattr__(self, "evidence", tuple(self.evidence))

    @property
    def is_unanswerable(self) -> bool:
        """True if the documents do not answer the question."""
        return not self.evidence


_QUESTION = TypeAdapter(Question)
_EXAMPLE = '{"question": "Why?", "evidence": [{"doc_id": "a.txt", "text": "Rain fell"}]}'


def load_questions(source: str | os.PathLike[str]) -> list[Question]:
    """Read questions from a file in UTF-8.

    A file ending in ``.csv`` is CSV, any other file JSON Lines, such as ``{"question": "Why?",
    "evidence": [{"doc_id": "a.txt", "text": "Rain fell"}]}``, with ``"evidence": []`` if the
    documents do not answer the question. CSV has the columns ``question``, ``doc_id`` and any of
    ``text``, ``start`` and ``end``. Rows with the same question are parts of its evidence; a row
    without evidence is a question that the documents do not answer. Other fields and blank lines
    are ignored.

    Args:
        source: The path of the file.

    Returns:
        The questions, for `evaluate` and `tune`.

    Raises:
        ValueError: If a question is invalid, or the file is not CSV or not in UTF-8. The message
            names the line of JSON or the question.
        OSError: If the file cannot be read.
    """
    path = Path(source)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            content = file.read()
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not text in UTF-8: save it as UTF-8") from None
    questions = []
    if path.suffix.lower() == ".csv":
        for text, evidence in _read_csv(path, content).items():
            with in_a_sentence(f"{path}, question {text!r}"):
                fields = {"question": text, "evidence": evidence}
                questions.append(_QUESTION.validate_python(fields))
        return questions
    for number, line in enumerate(content.split("\n"), 1):
        if line.strip():
            try:
                questions.append(_QUESTION.validate_json(line))
            except ValidationError as error:
                raise ValueError(
                    f"{path}, line {number}: {problems_of(error)}. Each line must be {_EXAMPLE}"
                ) from None
    return questions


def _read_csv(path: Path, content: str) -> dict[str, list[Any]]:
    """Read the evidence of each question."""
    evidence_of: dict[str, list[Any]] = {}
    # Without strict, an unclosed quotation mark would merge all later rows into one cell.
    try:
        rows = list(csv.DictReader(io.StringIO(content, newline=""), restkey="", strict=True))
    except csv.Error as error:
        raise ValueError(
            f"{path} is not CSV: {error}. Put cells with commas or quotation marks in quotation "
            "marks, and double those within"
        ) from None
    for row in rows:
        # A text with commas and without quotation marks has cells beyond the last column.
        if "" in row or not {"question", "doc_id"} <= row.keys():
            raise ValueError(
                f"{path}: CSV needs the columns question, doc_id and text (or start and end), "
                f"commas between cells, and quotes around cells with commas; got {row}"
            )
        cells = {column: cell.strip() for column, cell in row.items() if cell}
        question = cells.pop("question", "")
        evidence = {column: cells[column] for column in _EVIDENCE_COLUMNS if cells.get(column)}
        if question or evidence:
            evidence_of.setdefault(question, [])
        if evidence:
            evidence_of[question].append(evidence)
    return evidence_of


# In the texts of documents


def find_evidence(
    questions: Iterable[Question], retriever: object, sources: Mapping[str, str] | None = None
) -> tuple[Question, ...]:
    """Return the questions with the positions of quotations; check that all evidence exists.

    Evidence must be in ``sources``, or, without ``sources``, in the index of an `RSERetriever`,
    whose documents are found by id, path or file name. For other retrievers without ``sources``,
    evidence is not checked, and cannot be quoted.

    Raises:
        TypeError: If one is no `Question`.
        ValueError: If evidence is not in its document, or a quotation does not occur there exactly
            once.
    """
    checked = _check(questions)
    names = {evidence.doc_id for question in checked for evidence in question.evidence}
    access = access_of(retriever)
    find_id: Callable[[str], str]
    read_text: Callable[[str], str]
    if sources is not None:
        check_type("sources", sources, Mapping, "a dict of texts by document id")
        for text in sources.values():
            check_type("each of sources", text, str, "a text, such as document.page_content")
        lengths = {doc_id: len(text) for doc_id, text in sources.items()}
        find_id = partial(_check_source, sources)
        read_text = sources.__getitem__
    elif access is not None:
        manifests = access.manifests_of(names)
        if len(manifests) < len(names):  # some are names of files
            manifests = {manifest.doc_id: manifest for manifest in access.manifests()}
        lengths = {doc_id: manifest.length for doc_id, manifest in manifests.items()}
        find_id = cache(partial(find_document, manifests=manifests.values()))
        read_text = cache(access.text)
    elif any(evidence.is_quoted for question in checked for evidence in question.evidence):
        raise ValueError(
            "quoted evidence needs sources, the texts of the documents by id. Or pass questions "
            "with located quotations: report.questions of an RSERetriever's report"
        )
    else:
        return checked
    found = []
    problems = []
    for number, question in enumerate(checked, 1):
        located = []
        for evidence in question.evidence:
            try:
                doc_id = find_id(evidence.doc_id)
                start, end = _locate(evidence, lengths[doc_id], partial(read_text, doc_id))
                located.append(replace(evidence, doc_id=doc_id, start=start, end=end))
            except (ValueError, MissingRecordError) as error:
                problems.append(f"question {number}: {error}")
        found.append(replace(question, evidence=located))
    if problems:
        raise ValueError(first_few(problems, 10, separator="\n"))
    return tuple(found)


def _check(questions: Iterable[Question]) -> tuple[Question, ...]:
    given: object = questions
    if isinstance(given, str):  # whose items are characters
        raise TypeError(f"questions must be a list; to read a file: load_questions({given!r})")
    check_type("questions", questions, Iterable, "a list, such as load_questions(path)")
    checked = tuple(questions)
    for number, question in enumerate(checked, 1):
        check_type(f"question {number}", question, Question, "a Question")
    return checked


def _check_source(sources: Mapping[str, str], doc_id: str) -> str:
    if doc_id not in sources:
        raise ValueError(f"there is no document {doc_id!r} in sources; it has {first_few(sources)}")
    return doc_id


def _locate(evidence: Evidence, length: int, read: Callable[[], str]) -> tuple[int, int]:
    """Return the position of evidence; raise a ValueError if it cannot be located."""
    name = evidence.doc_id
    if not evidence.is_quoted:
        if evidence.end > length:
            raise ValueError(
                f"{evidence.start} to {evidence.end} is not in document {name!r}, which has "
                f"{length or 'no'} characters"
            )
        return evidence.start, evidence.end
    characters = "".join(evidence.text.split())
    pattern = r"\s*".join(map(re.escape, characters))
    matches = list(re.finditer(f"(?=({pattern}))", read()))  # also those that overlap
    quotation = shown(evidence.text)
    if not matches:
        raise ValueError(f"{quotation} is nowhere in document {name!r}: copy it from there")
    if len(matches) > 1:
        positions = first_few(f"{match.start():,}" for match in matches)
        raise ValueError(
            f"{quotation} is {len(matches):,} times in document {name!r} (at characters "
            f"{positions}): quote more, or give start and end"
        )
    return matches[0].span(1)


def access_of(retriever: object) -> DocumentAccess | None:
    """Return access to all documents of an `RSERetriever`, without its filters; None for others."""
    if isinstance(retriever, RSERetriever):
        return DocumentAccess(retriever.docstore)
    return None
