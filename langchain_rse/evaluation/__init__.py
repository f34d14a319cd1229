"""Measures and tunes retrieval on questions whose evidence or answer is known.

`evaluate` measures how much of the evidence a retriever returns within budgets of characters,
`tune` searches for parameters that return more of it, and `evaluate_answers` grades the answers
that a model gives from the returned text.
"""

from langchain_rse.evaluation.answers import aevaluate_answers, evaluate_answers
from langchain_rse.evaluation.evaluating import aevaluate, evaluate
from langchain_rse.evaluation.questions import Evidence, Question, load_questions
from langchain_rse.evaluation.reports import (
    AnswerReport,
    Comparison,
    GradedAnswer,
    Reliability,
    Report,
    measure_reliability,
)
from langchain_rse.evaluation.tuning import Trial, Tuning, atune, tune

__all__ = [
    "AnswerReport",
    "Comparison",
    "Evidence",
    "GradedAnswer",
    "Question",
    "Reliability",
    "Report",
    "Trial",
    "Tuning",
    "aevaluate",
    "aevaluate_answers",
    "atune",
    "evaluate",
    "evaluate_answers",
    "load_questions",
    "measure_reliability",
    "tune",
]
