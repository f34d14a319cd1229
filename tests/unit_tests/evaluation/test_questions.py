"""Questions with evidence and answers, and what they are read from."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_rse.evaluation import Evidence, Question, evaluate, load_questions
from tests.unit_tests.evaluation.helpers import canned


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"doc_id": " "}, "doc_id"),
        ({"start": -1}, "start"),
        ({"start": 9}, "end must be above start=9; got end=9"),
        ({"end": 0}, "neither a text nor a range is given"),
        ({"end": 0, "text": " "}, "a quotation as text"),
        ({"start": 3, "end": 0, "text": "x"}, "end must be above start=3"),
    ],
)
def test_evidence_must_be_characters_of_a_document(fields: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Evidence(**{"doc_id": "a", "start": 0, "end": 9, **fields})


@pytest.mark.parametrize(
    "fields",
    [{"question": "  "}, {"evidence": None}, {"evidence": Evidence("a", 0, 1)}],
)
def test_a_question_needs_words_and_evidence(fields: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=[*fields][-1]):
        Question(**{"question": "Why?", "evidence": [Evidence("a", 0, 1)], **fields})


def test_evidence_that_is_given_empty_says_there_is_no_answer() -> None:
    question = Question("Why?", [])
    assert question.evidence == ()
    for same in (question, dataclasses.replace(question)):
        assert same.is_unanswerable
    assert not Question("Why?", [Evidence("a", 0, 1)]).is_unanswerable


def test_questions_are_read_from_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "questions.jsonl"
    parts = '{"doc_id": "b", "start": 1, "end": 2}, {"doc_id": "c", "start": 3, "end": 4, "y": 2}'
    lines = [
        '\ufeff{"question": "Où?", "evidence": [{"doc_id": "a", "start": 0, "end": 9}], "x": 1}',
        "",
        f'{{"question": "A\u2028B", "evidence": [{parts}]}}\r',
        '{"question": "Who?", "evidence": []}',
    ]
    path.write_bytes("\n".join(lines).encode())
    expected = [
        Question("Où?", [Evidence("a", 0, 9)]),
        Question("A\u2028B", [Evidence("b", 1, 2), Evidence("c", 3, 4)]),
        Question("Who?", []),
    ]
    assert load_questions(path) == load_questions(str(path)) == expected


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{", "it is not JSON; got '{'"),
        (b'{"question": "Why?", "evidence": null}', "evidence"),
        (b'{"question": "Why?", "evidence": [{"doc_id": "a"}]}', r"evidence\.0: .* quotation"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: bytes, message: str) -> None:
    path = tmp_path / "questions.jsonl"
    path.write_bytes(
        b'{"question": "Why?", "evidence": [{"doc_id": "a", "start": 0, "end": 9}]}\n\n' + line
    )
    with pytest.raises(
        ValueError, match=rf"{re.escape(str(path))}, line 3: .*{message}.* Each line must be {{"
    ):
        load_questions(path)


# CSV


def csv_file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "questions.CSV"
    path.write_bytes(text.encode())
    return path


def test_rows_of_one_question_are_its_evidence(tmp_path: Path) -> None:
    text = """\ufeffquestion,doc_id,text,start,end,remark
Why?,a.txt,"It rained, and
then it snowed.",,,x
How?,b.txt,,3,9,
,,,,,
Why?, a.txt ,"He said ""no"".",,,
Who?,,,,,nobody
"""
    assert load_questions(csv_file(tmp_path, text.replace("\n", "\r\n"))) == [
        Question(
            "Why?",
            [
                Evidence("a.txt", text="It rained, and\r\nthen it snowed."),
                Evidence("a.txt", text='He said "no".'),
            ],
        ),
        Question("How?", [Evidence("b.txt", 3, 9)]),
        Question("Who?", []),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("question,answer\nWhy?,a\n", r"CSV needs the columns question, doc_id .*'answer'"),
        ("question,doc_id,text\nWhy?,a,one, two\n", r".*cells with commas.*\[' two'\]"),
        ('question,doc_id\nWhy?,"It\nrained\n', r"is not CSV: unexpected end of data"),
        ("question,doc_id,end\nWhy?,a,1\n ,a,1\n", r"question must not be blank"),
        (
            "question,doc_id,start,end\nWhy?,a,1,x\n",
            r"question 'Why\?': evidence\.0\.end must .*'x'",
        ),
        ("question,doc_id\nWhy?,\udcff\n", r"is not text in UTF-8: save it"),
    ],
)
def test_a_bad_row_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "questions.CSV"
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(ValueError, match=rf"(?s){message}") as caught:
        load_questions(path)
    assert str(path) in str(caught.value)


# Quotations


def quoting(text: str, doc_id: str = "a") -> Question:
    return Question("Why?", [Evidence(doc_id, text=text)])


def located(questions: list[Question], texts: dict[str, str]) -> tuple[Question, ...]:
    """The questions with the positions of their quotations, as a report has them."""
    return evaluate(canned(), questions, sources=texts).questions


spaces = st.text(" \n\t\u00a0", max_size=3)


@given(data=st.data(), words=st.lists(st.text("ab.(", min_size=1, max_size=4), min_size=1))
def test_a_quotation_is_found_where_its_characters_are(
    data: st.DataObject, words: list[str]
) -> None:
    text = "".join(word + data.draw(spaces) for word in words)
    bare = "".join(text.split())
    start = data.draw(st.integers(0, len(bare) - 1))
    quotation = bare[start : data.draw(st.integers(start + 1, len(bare)))]
    spaced = "".join(character + data.draw(spaces) for character in quotation)
    once = bare.find(quotation) == bare.rfind(quotation)
    try:
        (result,) = located([quoting(spaced)], {"a": text})
    except ValueError:
        assert not once
    else:
        assert once
        (evidence,) = result.evidence
        assert "".join(text[evidence.start : evidence.end].split()) == quotation
        assert not text[evidence.start].isspace()
        assert not text[evidence.end - 1].isspace()
