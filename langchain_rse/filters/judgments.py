"""What a language model says of chunks, and how it is read from its answer."""

from __future__ import annotations

from pydantic import BaseModel, Field, TypeAdapter

from langchain_rse._asking import UnusableAnswerError, read_objects
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
        answer: A list of them in any form that `langchain_rse._asking.read_objects` reads.
        count: How many there should be.

    Raises:
        UnusableAnswerError: If there are not so many, or none that can be read.
    """
    judgments = read_objects(answer, _LIST, key=IS_RELEVANT, name="judgment")
    if len(judgments) != count:
        raise UnusableAnswerError(f"the answer has {len(judgments)} judgments, not {count}")
    return judgments
