"""Questions with evidence: the parts of documents that answer them."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

from pydantic import AfterValidator, NonNegativeInt, StringConstraints, model_validator
from pydantic.dataclasses import dataclass
from pydantic_core import ArgsKwargs
from typing_extensions import Self

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


def locate_evidence(evidence: Evidence, length: int, read_text: Callable[[str], str]) -> Evidence:
    """Return evidence with its position, which must be in its document.

    Args:
        evidence: The evidence.
        length: The number of characters of its document, 0 if there is no such document.
        read_text: Returns the text of a document by its id; called for quotations only.

    Raises:
        ValueError: If the position is beyond the document, or the quotation is not there once.
    """
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
