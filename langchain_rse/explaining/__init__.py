"""Explains an answer: a trace as text, as a plot, as a page; answers side by side."""

from langchain_rse.explaining.by_document import DocumentTrace
from langchain_rse.explaining.comparing import compare_answers
from langchain_rse.explaining.side_by_side import Piece, SideBySide
from langchain_rse.explaining.traces import RSETrace, TraceCollector

__all__ = [
    "DocumentTrace",
    "Piece",
    "RSETrace",
    "SideBySide",
    "TraceCollector",
    "compare_answers",
]
