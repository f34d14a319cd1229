"""Questions and their evidence: the parts of documents that answer them."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Annotated, Any, Self

from pydantic import NonNegativeInt, StringConstraints, WrapValidator, model_validator
from pydantic.dataclasses import dataclass

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


_UNKNOWN: Any = None

# Missing evidence differs from an empty list; only the first needs an answer.
_Parts = Annotated[
    Sequence[Evidence],
    WrapValidator(lambda parts, check: _UNKNOWN if parts is None else tuple(check(parts))),
]


@dataclass(frozen=True)
class Question:
    """A question with evidence, a reference answer, or both.

    ``evidence=[]`` without a reference answer marks a question that the documents do not answer.

    Attributes:
        question: The question, not blank.
        evidence: The parts of documents that answer the question, as a tuple. `evaluate` and `tune`
            need them. Parts may overlap: each character counts once. Empty if the evidence is
            unknown (then ``answer`` is needed) or if the documents do not answer the question.
        answer: The reference answer, for evaluators that grade answers. `evaluate` ignores it.

    Raises:
        ValueError: If neither ``evidence`` nor ``answer`` is given, or a value is out of range.
    """

    question: NotBlank
    evidence: _Parts = _UNKNOWN
    answer: str = ""

    @model_validator(mode="after")
    def _check_use(self) -> Self:
        if self.evidence is _UNKNOWN:
            if not self.answer.strip():
                raise ValueError(
                    "pass evidence, answer, or both; or evidence=[] if the documents do not answer "
                    "the question"
                )
            object.__setattr__(self, "evidence", ())
        return self

    @property
    def is_unanswerable(self) -> bool:
        """True if the question has neither evidence nor a reference answer."""
        return not self.evidence and not self.answer.strip()


def check_questions(questions: Iterable[Any]) -> list[Question]:
    """List the questions; raise a TypeError if one is not a `Question`."""
    if isinstance(questions, (str, Question)):
        raise TypeError(f"questions must be a list of Question objects; got {questions!r:.80}")
    listed = list(questions)
    for question in listed:
        if not isinstance(question, Question):
            raise TypeError(
                f"questions must be of type Question; got {question!r:.80}. Each needs evidence: "
                "Question('How do herons fish?', [Evidence('birds.txt', text='a quotation')]). To "
                "read questions from a file, use load_questions"
            )
    return listed


def locate_evidence(
    questions: Iterable[Question],
    lengths: Mapping[str, int],
    read_text: Callable[[str], str],
    name: str = "the index",
) -> tuple[Question, ...]:
    """Find the positions of quoted evidence, and check that all evidence is in its document.

    Args:
        questions: The questions.
        lengths: The length of each document in characters, by id.
        read_text: Returns the text of a document by id; called only for quotations.
        name: Name of the set of documents, for messages.

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
            f"exactly once (ignoring white space); in {name}, {first_few(problems)}. Copy the "
            "quotation from the document, quote more, or pass start and end"
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
    if match is None:
        raise ValueError(f"{evidence.text!r:.80} is nowhere in document {doc_id!r}")
    second = pattern.search(text, match.start() + 1)
    if second is not None:
        raise ValueError(
            f"{evidence.text!r:.80} is at {match.start()} and at {second.start()} in document "
            f"{doc_id!r}"
        )
    return replace(evidence, start=match.start(), end=match.end())
