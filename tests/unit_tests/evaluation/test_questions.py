"""Questions with evidence, and the files they are read from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from langchain_rse.evaluation import Evidence, Question, load_questions


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"doc_id": " "}, "doc_id"),
        ({"doc_id": None}, "doc_id"),
        ({"start": -1}, "start"),
        ({"start": 1.5}, "start"),
        ({"end": None}, "end"),
        ({"start": 9}, "end must be above start=9; got end=9"),
    ],
)
def test_evidence_must_be_characters_of_a_document(fields: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Evidence(**{"doc_id": "a", "start": 0, "end": 9, **fields})


@pytest.mark.parametrize(
    "fields", [{"question": "  "}, {"evidence": []}, {"evidence": Evidence("a", 0, 1)}]
)
def test_a_question_needs_words_and_evidence(fields: Any) -> None:
    with pytest.raises(ValueError, match=next(iter(fields))):
        Question(**{"question": "Why?", "evidence": [Evidence("a", 0, 1)], **fields})


def test_questions_can_be_compared_and_are_dictionary_keys() -> None:
    question = Question("Why?", [Evidence("a", np.int64(1), np.int64(2))])
    assert question == Question("Why?", (Evidence("a", 1, 2),))
    assert {question: 1}[Question("Why?", [Evidence("a", 1, 2)])] == 1
    assert type(question.evidence[0].start) is int


def test_questions_are_read_from_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "questions.jsonl"
    parts = '{"doc_id": "b", "start": 1, "end": 2}, {"doc_id": "c", "start": 3, "end": 4, "y": 2}'
    lines = [
        '\ufeff{"question": "Où?", "evidence": [{"doc_id": "a", "start": 0, "end": 9}], "x": 1}',
        "",
        f'{{"question": "A\u2028B", "evidence": [{parts}]}}\r',
    ]
    path.write_bytes("\n".join(lines).encode())
    expected = [
        Question("Où?", [Evidence("a", 0, 9)]),
        Question("A\u2028B", [Evidence("b", 1, 2), Evidence("c", 3, 4)]),
    ]
    assert load_questions(path) == load_questions(str(path)) == expected


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{", "Invalid JSON"),
        (b"\xff", "Invalid JSON"),
        (b'{"question": "Why?"}', r"evidence\s+Field required"),
        (
            b'{"question": "Why?", "evidence": [{"doc_id": "a", "start": -1, "end": 2}]}',
            r"evidence\.0\.start\s.* greater than or equal to 0 .*input_value=-1",
        ),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: bytes, message: str) -> None:
    path = tmp_path / "questions.jsonl"
    path.write_bytes(
        b'{"question": "Why?", "evidence": [{"doc_id": "a", "start": 0, "end": 9}]}\n\n' + line
    )
    with pytest.raises(ValueError, match=rf"questions\.jsonl, line 3: (.|\s)*{message}"):
        load_questions(path)
