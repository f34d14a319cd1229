"""Measures and tunes retrieval on questions with known evidence.

`evaluate` measures how much of the evidence a retriever returns within budgets of characters.
`tune` searches for parameters that return more of it.
"""

from langchain_rse.evaluation.evaluating import aevaluate, evaluate
from langchain_rse.evaluation.questions import Evidence, Question, load_questions
from langchain_rse.evaluation.reports import Comparison, Report
from langchain_rse.evaluation.tuning import Trial, Tuning, atune, tune

__all__ = [
    "Comparison",
    "Evidence",
    "Question",
    "Report",
    "Trial",
    "Tuning",
    "aevaluate",
    "atune",
    "evaluate",
    "load_questions",
    "tune",
]
