"""Questions and their evidence: the parts of documents that answer them."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Annotated, Self

from pydantic import AfterValidator, NonNegativeInt, StringConstraints, model_validator
from pydantic.dataclasses import dataclass

from langchain_rse._messages import in_a_sentence
from langchain_rse.errors import MissingRecordError
from langchain_rse.text.quoting import first_few

__all__ = ["Evidence", "Question"]

NotBlank = Annotated[str, StringConstraints(pattern=r"\S")]


@dataclass(frozen=True)
class Evidence:
    """A part of a document that answers a question.

    Attributes:
        doc_id: Id of the document, not blank.
        start: Position of the first character in the document's text, at least 0.
        end: Position after the last character, above ``start``.
        text: A quotation, instead of ``start`` and ``end``. It must occur exactly once in the
            document, ignoring white space. Its position is looked up when the question is used.

    Raises:
        ValueError: If a value is out of range, or neither a range nor a quotation is given.
    """

    doc_id: NotBlank
    start: NonNegativeInt = 0
    end: NonNegativeInt = 0
    text: str = ""

    @model_validator(mode="after")
    def _check_position(self) -> Self:
        if self.end <= self.start and (self.start or not self.is_quoted):
            raise ValueError(
                f"end must be above start={self.start}; got end={self.end}. Pass start and end, or "
                "a quotation as text"
            )
        return self

    @property
    def is_quoted(self) -> bool:
        """True if only a quotation is given, without its position."""
        return not self.end and bool(self.text.strip())


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

    question: NotBlank
    evidence: Annotated[Sequence[Evidence], AfterValidator(tuple)]

    @property
    def is_unanswerable(self) -> bool:
        """True if the documents do not answer the question."""
        return not self.evidence


for _kind in (Evidence, Question):
    _kind.__init__ = in_a_sentence(_kind.__name__)(_kind.__init__)  # type: ignore[method-assign]


def locate_evidence(
    questions: Iterable[Question], lengths: Mapping[str, int], read_text: Callable[[str], str]
) -> tuple[Question, ...]:
    """Find the positions of quoted evidence, and check that all evidence is in its document.

    Args:
        questions: The questions.
        lengths: The length of each document in characters, by id.
        read_text: Returns the text of a document by id; called only for quotations.

    Raises:
        ValueError: If a range is outside its document, or a quotation does not occur exactly once.
    """
    read_once = cache(read_text)
    found = []
    problems = []
    for number, question in enumerate(questions, 1):
        located = []
        for evidence in question.evidence:
            try:
                located.append(_locate(evidence, lengths.get(evidence.doc_id, 0), read_once))
            except (ValueError, MissingRecordError) as error:
                problems.append(f"question {number}: {error}")
        found.append(replace(question, evidence=located))
    if problems:
        raise ValueError(
            "evidence must be a range within its document, or a quotation that occurs there "
            f"exactly once (ignoring white space); {first_few(problems)}. Copy the quotation from "
            "the document, quote more, or pass start and end"
        )
    return tuple(found)


def _locate(evidence: Evidence, length: int, read_text: Callable[[str], str]) -> Evidence:
    """Return evidence with its position; raise a ValueError if it cannot be located."""
    doc_id = evidence.doc_id
    if not evidence.is_quoted:
        if evidence.end > length:
            raise ValueError(
                f"{evidence.start} to {evidence.end} is not in document {doc_id!r}, which has "
                f"{length or 'no'} characters"
            )
        return evidence
    text = read_text(doc_id) if length else ""
    characters = "".join(evidence.text.split())
    pattern = re.compile(r"\s*".join(map(re.escape, characters)))
    match = pattern.search(text)
    if match is None or pattern.search(text, match.start() + 1):
        count = "nowhere" if match is None else "more than once"
        raise ValueError(f"{evidence.text!r:.80} is {count} in document {doc_id!r}")
    return replace(evidence, start=match.start(), end=match.end())
