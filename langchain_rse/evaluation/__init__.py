"""Measuring retrieval on your own documents: how much evidence a budget of text brings.

Any retriever can be measured, so that passages and plain chunks are compared at the same
cost: the number of characters that the reader gets.
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
