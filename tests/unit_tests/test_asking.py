"""Reading a list of objects out of a model's answer, as filters and headers do."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage
from pydantic import BaseModel, TypeAdapter

from langchain_rse._asking import UnusableAnswerError, read_objects


class Bird(BaseModel):
    name: str
    wings: int = 2


BIRDS = TypeAdapter(list[Bird])
HERON: dict[str, Any] = {"name": "heron", "wings": 2}
OWL: dict[str, Any] = {"name": "owl", "wings": 1}
ONE, BOTH = json.dumps([HERON]), json.dumps([HERON, OWL])


def read(answer: object) -> list[dict[str, Any]]:
    found = read_objects(answer, BIRDS, key="name", name="bird")
    return [bird.model_dump() for bird in found]


@pytest.mark.parametrize(
    ("answer", "birds"),
    [
        (BOTH, [HERON, OWL]),
        (f"Here they are:\n```json\n{BOTH}\n```\nThat is [all].", [HERON, OWL]),
        (AIMessage(BOTH), [HERON, OWL]),
        ([HERON, OWL], [HERON, OWL]),
        (Bird(**OWL), [OWL]),
        # Thoughts before the answer, and none that only seem so.
        (f"<think>First {ONE}. [No</think>{BOTH}", [HERON, OWL]),
        (f"{ONE} no\n</think>\nThe birds: {BOTH}", [HERON, OWL]),
        (f"<thinking>{BOTH}</thinking>{ONE}", [HERON]),
        ('[{"name": "</think>"}]', [{"name": "</think>", "wings": 2}]),
        # A draft before the final list.
        (f"Draft: {ONE}\nFinal: {BOTH}", [HERON, OWL]),
        (f"Draft: {BOTH}\nFinal, {ONE}", [HERON]),
        # Nothing is an answer, too.
        ("[]", []),
        ('{"birds": []}', []),
        (f"Draft: {ONE}\nFinal: []", []),
        # In an object, under any name.
        (json.dumps({"birds": [HERON, OWL]}), [HERON, OWL]),
        (json.dumps({"n": 2, "list": [OWL], "why": ["seen", "heard"]}), [OWL]),
        # Alone.
        (f"It is {json.dumps(OWL)}.", [OWL]),
        (OWL, [OWL]),
    ],
)
def test_what_is_read(answer: object, birds: list[dict[str, Any]]) -> None:
    assert read(answer) == birds


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("There are none.", "the answer holds no birds: 'There are none.'"),
        (f"<think>{BOTH}</think>I cannot tell.", "holds no birds"),
        (BOTH[:-1], "holds no birds"),  # cut off: there could be more
        (BOTH[:-5], "holds no birds"),
        (f'{{"birds": {BOTH[:-5]}', "holds no birds"),
        (json.dumps({"birds": [HERON], "others": [OWL]}), "holds no birds"),
        ('["heron", "owl"]', "holds no birds"),
        ("[" * 100_000, "holds no birds"),
        (None, "holds no birds"),
        ('[{"name": "a"}, {"name": 3}]', r"bird 1\.name of the answer: .*string"),
        (f'{ONE} [{{"title": "a"}}]', r"bird 0\.name of the answer: Field required"),
    ],
    ids=range(11),
)
def test_what_is_refused(answer: object, reason: str) -> None:
    with pytest.raises(UnusableAnswerError, match=reason):
        read(answer)


@given(st.text(alphabet='[]{}",: \n\\a</think>', max_size=60))
def test_whatever_stands_before_an_answer_it_is_read(before: str) -> None:
    assert read(f"{before}</think>{BOTH}") == [HERON, OWL]
