"""Figures, intervals, comparisons, and how they are printed."""

# ruff: noqa: E501 - tables

from __future__ import annotations

import json
import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from langchain_rse.evaluation import Comparison, Question, Report, evaluate
from tests.unit_tests.evaluation.helpers import Canned, ask_for, canned, text_at


def many(*recalls: int, name: str | None = None) -> Report:
    """A report of questions of which these numbers of 10 characters were returned."""
    questions = [ask_for((0, 10), question=f"{n}?") for n in range(len(recalls))]
    documents = {f"{n}?": [text_at(0, recall)] for n, recall in enumerate(recalls)}
    return evaluate(Canned(documents=documents), questions, [5, 10], name=name)


def test_means_are_over_questions() -> None:
    report = many(0, 5, 10)
    assert report.mean("recall") == pytest.approx([1 / 3, 0.5])
    assert report.mean("characters") == pytest.approx([10 / 3, 5])
    assert report.figures["recall"].shape == (3, 2)


def test_intervals_are_the_same_each_time() -> None:
    recalls = [number % 11 for number in range(40)]
    assert str(many(*recalls)) == str(many(*recalls))


def test_intervals_are_those_of_resampled_means() -> None:
    report = many(*[0, 10] * 50)
    low, high = report.interval("recall")[1]
    # A mean of 100 draws of 0 or 1: 1.96 standard errors are 0.098.
    assert low == pytest.approx(0.402, abs=0.02)
    assert high == pytest.approx(0.598, abs=0.02)


def test_questions_that_are_all_alike_leave_no_doubt() -> None:
    assert many(4, 4, 4).interval("recall") == pytest.approx(np.array([[0.4] * 2] * 2))


def test_a_comparison_is_by_question() -> None:
    better, worse = many(10, 8, 2, 6), many(0, 5, 5, 6)
    comparison = better.compare(worse)
    assert comparison.difference == pytest.approx([(5 - 3) / 40, (10 + 3 - 3) / 40])
    assert comparison.better.tolist() == [1, 2]
    assert comparison.worse.tolist() == [1, 1]
    assert comparison.same.tolist() == [2, 1]
    back = worse.compare(better)
    assert back.difference == pytest.approx(-comparison.difference)
    assert back.better.tolist() == comparison.worse.tolist()


def test_a_difference_all_questions_share_is_sure_though_each_report_is_not() -> None:
    first, second = many(1, 3, 5, 7), many(2, 4, 6, 8)
    low, high = first.interval("recall")[1]
    assert high - low > 0.2
    assert second.compare(first).interval[1] == pytest.approx([0.1, 0.1])


def test_only_what_was_asked_the_same_is_compared() -> None:
    report = many(1, 2)
    with pytest.raises(ValueError, match="Canned and Canned have different questions"):
        report.compare(many(1, 2, 3))
    budgets = evaluate(canned(text_at(0, 1)), [ask_for((0, 10))], [5])
    with pytest.raises(ValueError, match="have different budgets"):
        report.compare(budgets)


def test_the_name_is_the_given_one_or_the_retrievers() -> None:
    questions = [ask_for((0, 1))]
    named = Canned(documents={"Why?": []}, name="mine")
    assert evaluate(canned(), questions).name == "Canned"
    assert evaluate(named, questions).name == "mine"
    assert evaluate(named, questions, name="given").name == "given"


def sure(name: str) -> Report:
    """A report without doubt: one question, 1,000 of 2,000 characters found."""
    question = ask_for((0, 2_000))
    return evaluate(canned(text_at(0, 1_000)), [question], [500, 4_000], name=name)


def test_a_report_is_printed_as_a_table() -> None:
    expected = """
plain: means of 1 questions [95% interval]
budget                recall                 whole  precision                   iou  segments  characters
   500  0.250 [0.250, 0.250]  0.000 [0.000, 0.000]      1.000  0.250 [0.250, 0.250]       1.0         500
 4,000  0.500 [0.500, 0.500]  0.000 [0.000, 0.000]      1.000  0.500 [0.500, 0.500]       1.0       1,000
"""
    assert str(sure("plain")) == expected.strip()


def partly_refused(name: str) -> Report:
    """A report with three questions without an answer, of which two were refused."""
    unanswerable = [Question(f"{number}?", []) for number in range(3)]
    documents = {"Why?": [text_at(0, 10)], "0?": [], "1?": [text_at(0, 10)], "2?": []}
    questions = [unanswerable[0], ask_for((0, 10)), *unanswerable[1:]]
    return evaluate(Canned(documents=documents), questions, [10], name=name)


def test_a_report_says_how_many_questions_without_an_answer_were_refused() -> None:
    expected = """
plain: means of 1 questions [95% interval]; refused: questions without an answer for which nothing was returned
budget                recall                 whole  precision                   iou  segments  characters  refused
    10  1.000 [1.000, 1.000]  1.000 [1.000, 1.000]      1.000  1.000 [1.000, 1.000]       1.0          10   2 of 3
"""
    report = partly_refused("plain")
    assert str(report) == expected.strip()
    assert " 2 of 3 |" in report.to_markdown()
    summary = json.loads(json.dumps(report.to_dict()))
    assert (summary["questions"], summary["unanswerable"]) == (1, 3)
    assert summary["refused"] == pytest.approx([2 / 3])
    assert not {"unanswerable", "refused"} & sure("plain").to_dict().keys()


def test_reports_with_the_same_questions_without_an_answer_are_compared() -> None:
    report = partly_refused("one")
    comparison = report.compare(partly_refused("two"))
    assert comparison.questions == 1
    assert comparison.same.tolist() == [1]
    others = evaluate(canned(text_at(0, 10)), report.answerable, [10])
    with pytest.raises(ValueError, match="have different questions"):
        report.compare(others)


def test_a_comparison_is_printed_as_a_table() -> None:
    expected = """
recall: one minus two, 1 questions [95% interval]
budget               difference  better  worse  same
     5  +0.000 [+0.000, +0.000]       0      0     1
    10  +0.500 [+0.500, +0.500]       1      0     0
"""
    comparison = many(10, name="one").compare(many(5, name="two"))
    assert str(comparison) == expected.strip()


def test_markdown_has_the_cells_of_the_printed_table() -> None:
    tables: list[Report | Comparison] = [sure("a"), sure("a").compare(sure("b"), "characters")]
    for table in tables:
        title, *rows = str(table).splitlines()
        marked_title, blank, head, rule, *marked = table.to_markdown().splitlines()
        assert (marked_title, blank) == (title, "")
        assert set(rule) == set("| -:")
        cells = [[cell.strip() for cell in row.split("|")[1:-1]] for row in [head, *marked]]
        assert [" ".join(row).split() for row in cells] == [row.split() for row in rows]
        assert rule.count("|") == head.count("|") == len(cells[0]) + 1


def test_a_table_for_narrow_terminals() -> None:
    report = sure("plain")
    assert report.to_text(200) == str(report)
    title, *lines = report.to_text(60).splitlines()
    assert title == str(report).splitlines()[0]
    assert max(map(len, lines)) <= 60
    assert [line.split()[0] for line in lines] == ["budget", *report.metrics]
    rows = [row.split() for row in str(report).splitlines()[1:]]
    assert lines[-1].split() == [row[-1] for row in rows]
    # If no form fits, rows stay rows.
    assert len(report.to_text(10).splitlines()) == len(rows) + 1


def test_the_summary_is_json() -> None:
    report = sure("plain")
    summary = json.loads(json.dumps(report.to_dict()))
    assert summary["name"] == "plain"
    assert (summary["questions"], summary["budgets"]) == (1, [500, 4_000])
    assert list(summary["metrics"]) == list(report.metrics)
    assert summary["metrics"]["recall"] == {
        "mean": [0.25, 0.5],
        "interval": [[0.25, 0.25], [0.5, 0.5]],
    }


def test_the_summary_of_a_comparison_is_json() -> None:
    summary = json.loads(json.dumps(many(10, name="one").compare(many(5, name="two")).to_dict()))
    assert summary == {
        "name": "one",
        "other": "two",
        "metric": "recall",
        "budgets": [5, 10],
        "questions": 1,
        "difference": [0.0, 0.5],
        "interval": [[0.0, 0.0], [0.5, 0.5]],
        "better": [0, 1],
        "worse": [0, 0],
        "same": [1, 0],
    }


def test_pandas_gets_a_row_for_each_question_and_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    # A stand-in: pandas is not a dependency.
    pandas: Any = ModuleType("pandas")
    pandas.DataFrame = list
    monkeypatch.setitem(sys.modules, "pandas", pandas)
    first, *_, last = many(2, 10, name="r").to_pandas()
    assert (first["name"], first["number"], first["question"], first["budget"]) == ("r", 1, "0?", 5)
    assert (first["recall"], first["characters"]) == (0.2, 2)
    assert (last["number"], last["recall"], last["characters"]) == (2, 1, 10)
    assert "refused" not in first

    rows = partly_refused("r").to_pandas()
    assert [(row["number"], row["question"]) for row in rows] == [
        (1, "0?"),
        (2, "Why?"),
        (3, "1?"),
        (4, "2?"),
    ]
    assert [row.get("refused") for row in rows] == [True, None, False, True]
    assert [row.get("recall") for row in rows] == [None, 1, None, None]


def test_in_a_notebook() -> None:
    shown = many(10, 0, name="<b>mine")._repr_html_()
    assert shown.startswith("<p>&lt;b&gt;mine: means of 2 questions")
    assert "<th>recall</th>" in shown
    assert "<td>0.500 [0.000, 1.000]</td>" in shown
