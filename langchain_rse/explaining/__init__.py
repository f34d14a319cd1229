"""Explains an answer: a trace as text, in notebooks, as plots, as a page; answers side by side."""

from langchain_rse.explaining.comparing import compare_answers
from langchain_rse.explaining.side_by_side import PREFIXES, Kind, Piece, SideBySide
from langchain_rse.explaining.traces import (
    DocumentTrace,
    RSETrace,
    TraceCollector,
    load_plots,
    load_report,
)

__all__ = [
    "PREFIXES",
    "DocumentTrace",
    "Kind",
    "Piece",
    "RSETrace",
    "SideBySide",
    "TraceCollector",
    "compare_answers",
    "load_plots",
    "load_report",
]
