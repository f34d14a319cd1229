"""Measuring and tuning retrieval on questions of which the evidence is known.

`evaluate` measures how much of the evidence any retriever returns within a budget of
characters, so that segments and chunks are compared at the same cost. `tune` searches the
parameters of an `RSERetriever` that return more of it.
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
