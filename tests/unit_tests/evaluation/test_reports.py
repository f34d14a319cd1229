"""Figures, intervals, comparisons, and how they are printed."""

from __future__ import annotations

import numpy as np
import pytest

from langchain_rse.evaluation import Question, Report, evaluate
from tests.unit_tests.evaluation.helpers import Canned, ask_for, canned, text_at


def many(*recalls: int, name: str | None = None) -> Report:
    """A report of questions of which these numbers of 10 characters were returned."""
    questions = [ask_for((0, 10), question=f"{n}?") for n in range(len(recalls))]
    documents = {f"{n}?": [text_at(0, recall)] for n, recall in enumerate(recalls)}
    return evaluate(Canned(documents=documents), questions, [5, 10], name=name)


def test_intervals_are_those_of_resampled_means() -> None:
    report = many(*[0, 10] * 50)
    low, high = report.interval("recall")[1]
    # A mean of 100 draws of 0 or 1: 1.96 standard errors are 0.098.
    assert low == pytest.approx(0.402, abs=0.02)
    assert high == pytest.approx(0.598, abs=0.02)
    assert (report.interval("recall")[1] == (low, high)).all()  # the same each time
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


def test_only_what_was_asked_the_same_is_compared() -> None:
    report = many(1, 2)
    with pytest.raises(ValueError, match="Canned and Canned have different questions"):
        report.compare(many(1, 2, 3))
    budgets = evaluate(canned(text_at(0, 1)), [ask_for((0, 10))], [5])
    with pytest.raises(ValueError, match="have different budgets"):
        report.compare(budgets)
    for ask in (report.mean, report.interval, lambda metric: report.compare(report, metric)):
        with pytest.raises(ValueError, match=r"one of recall, whole, .*; got 'size'"):
            ask("size")


def partly_refused(name: str) -> Report:
    """A report with three questions without an answer, of which two were refused."""
    unanswerable = [Question(f"{number}?", []) for number in range(3)]
    documents = {"Why?": [text_at(0, 10)], "0?": [], "1?": [text_at(0, 10)], "2?": []}
    questions = [unanswerable[0], ask_for((0, 10)), *unanswerable[1:]]
    return evaluate(Canned(documents=documents), questions, [10], name=name)


def test_a_report_says_how_many_questions_without_an_answer_were_refused() -> None:
    report = partly_refused("plain")
    title, *_, refused = str(report).splitlines()
    assert title.endswith("; 3 unanswerable questions")
    assert refused.split() == ["refused", "2", "of", "3"]
    assert repr(report) == "<Report of 'plain': 1 question, 3 unanswerable, recall 1.000 at 10>"
    assert repr(report.compare(report)).endswith("'plain': 1 question, recall +0.000 at 10>")


@pytest.mark.parametrize("count", [1, 2, 4])
def test_few_questions_are_printed_without_intervals(count: int) -> None:
    report = many(*[10] * count)
    for printed in (str(report), str(report.compare(report))):
        assert "[" not in printed
        assert "interval" not in printed
