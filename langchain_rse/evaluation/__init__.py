"""Measuring and tuning retrieval on questions of which the evidence or the answer is known.

`evaluate` measures how much of the evidence any retriever returns within a budget of
characters, so that segments and chunks are compared at the same cost. `tune` searches the
parameters of an `RSERetriever` that return more of it. `evaluate_answers` has a model answer from
what a retriever returns, and grades the answers.
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
