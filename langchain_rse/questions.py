"""Questions with evidence: the parts of documents that answer them."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Annotated, Any

from pydantic import AfterValidator, NonNegativeInt, StringConstraints, model_validator
from pydantic.dataclasses import dataclass
from pydantic_core import ArgsKwargs
from typing_extensions import Self

from langchain_rse.errors import MissingRecordError
from langchain_rse.text.quoting import first_few

__all__ = ["Evidence", "Question"]

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
            white space may differ. Its position is found when the question is used.
    """

    doc_id: NotBlank
    start: NonNegativeInt = 0
    end: NonNegativeInt = 0
    text: str = ""

    @model_validator(mode="after")
    def _check_position(self) -> Self:
        if self.end <= self.start and (self.start or not self.is_quoted):
            raise ValueError(
                f"end must be above start={self.start}; got end={self.end}. Give both, or a "
                "quotation in text"
            )
        return self

    @property
    def is_quoted(self) -> bool:
        """True if only a quotation is given, whose position has to be found."""
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
        if not str(fields.get("answer") or "").strip():
            raise ValueError(
                "give evidence, a reference answer, or both; or evidence=[] if the documents do "
                "not answer the question"
            )
        return {name: value for name, value in fields.items() if name != "evidence"}

    @property
    def is_unanswerable(self) -> bool:
        """True if the documents do not answer it: ``evidence=[]`` is given, and no answer."""
        return not self.evidence and not self.answer.strip()


def locate_evidence(
    questions: Iterable[Question],
    lengths: Mapping[str, int],
    read_text: Callable[[str], str],
    name: str = "the index",
) -> tuple[Question, ...]:
    """Return questions with the positions of their evidence, which must be in its document.

    Args:
        questions: The questions.
        lengths: The numbers of characters of the documents, by their ids.
        read_text: Returns the text of a document by its id; called for quotations only.
        name: What messages call the documents.

    Raises:
        ValueError: If evidence is not in its document, or a quotation is not there exactly once.
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
            "evidence must be in its document, and a quotation in it once, whatever the white "
            f"space; in {name}, {first_few(problems)}. Copy it, quote more, or give start and end"
        )
    return tuple(found)


def _locate(evidence: Evidence, length: int, read_text: Callable[[str], str]) -> Evidence:
    """Return evidence with its position; a ValueError says why it has none."""
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
