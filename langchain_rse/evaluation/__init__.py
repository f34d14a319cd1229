"""Measures and tunes retrieval on questions whose evidence is known.

`evaluate` measures how much of the evidence a retriever returns within budgets of characters.
`tune` searches for parameters that return more of it, or promises a recall with little text.
`evidence_evaluator` measures evidence in the experiments of LangSmith.
"""

from langchain_rse.evaluation.evaluating import aevaluate, evaluate
from langchain_rse.evaluation.experiments import evidence_evaluator
from langchain_rse.evaluation.guaranteeing import RecallGuarantee, Rung
from langchain_rse.evaluation.questions import Evidence, Question, load_questions
from langchain_rse.evaluation.reports import Comparison, Report
from langchain_rse.evaluation.tuning import Trial, Tuning, atune, tune

__all__ = [
    "Comparison",
    "Evidence",
    "Question",
    "RecallGuarantee",
    "Report",
    "Rung",
    "Trial",
    "Tuning",
    "aevaluate",
    "atune",
    "evaluate",
    "evidence_evaluator",
    "load_questions",
    "tune",
]
