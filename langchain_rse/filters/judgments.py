"""What a language model says of chunks, and how it is read from its answer."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from langchain_rse._asking import UnusableAnswerError, json_values, text_of
from langchain_rse.schema import IS_RELEVANT

__all__ = ["Judgment", "Judgments", "read_judgments"]


class Judgment(BaseModel):
    """What the model says of one chunk."""

    explanation: str = Field(description="In a sentence: what the chunk has to do with the query.")
    is_relevant: bool = Field(description="Whether the chunk helps to answer the query.")


class Judgments(BaseModel):
    """What the model says of a batch of chunks."""

    judgments: list[Judgment] = Field(
        description="One judgment for each chunk, in the order of the chunks."
    )


_LIST = TypeAdapter(list[Judgment])


def read_judgments(answer: object, count: int) -> list[Judgment]:
    """The judgments in an answer.

    Args:
        answer: A message or string that holds JSON, or what JSON stands for: a model, a dict
            or a list. The judgments may stand in a list, in an object under any name, or, if
            it is one, alone.
        count: How many there should be.

    Raises:
        UnusableAnswerError: If there are not so many, or none that can be read.
    """
    answer = text_of(answer)
    if isinstance(answer, BaseModel):
        answer = answer.model_dump()
    values = json_values(answer) if isinstance(answer, str) else [answer]
    listed = [entries for value in values if (entries := _entries(value)) is not None]
    if not listed:
        raise UnusableAnswerError(f"the answer holds no judgments: {answer!r}")
    try:
        judgments = _LIST.validate_python(listed[-1])  # what comes before may be a draft
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise UnusableAnswerError(f"judgment {place} of the answer: {first['msg']}") from error
    if len(judgments) != count:
        raise UnusableAnswerError(f"the answer has {len(judgments)} judgments, not {count}")
    return judgments


def _entries(value: object) -> list[Any] | None:
    """The list of judgments that a JSON value is, or holds under any one name."""
    if isinstance(value, dict):
        if IS_RELEVANT in value:
            return [value]
        lists = [item for item in value.values() if isinstance(item, list)]
        value = lists[0] if len(lists) == 1 else None
    if isinstance(value, list) and all(isinstance(item, dict) for item in value):
        return value
    return None
