"""Reliability: how often candidates of a relevance hold evidence."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from langchain_rse.engine import Floats
from langchain_rse.evaluation.questions import Question
from langchain_rse.evaluation.reports import Table
from langchain_rse.explaining.trace import RSETrace, load_extra


@dataclass(frozen=True, eq=False)
class Reliability(Table):
    """Shares of candidates that hold evidence, by relevance; printed, a table."""

    edges: Floats  # of the ranges of relevance, one more than there are ranges
    candidates: NDArray[np.int64]  # in each range
    relevant: NDArray[np.int64]  # those of them that overlap evidence

    @property
    def share(self) -> Floats:
        """The share of relevant candidates, NaN in a range without any; shape ``(ranges,)``."""
        some = np.where(self.candidates, self.candidates, np.nan)
        return np.asarray(self.relevant / some)

    def plot(self, *, dark: bool = False) -> Any:  # noqa: ANN401 - matplotlib need not be there
        """Plot the shares against relevance; needs matplotlib, the extra ``plot``."""
        return load_extra("plots").plot_shares(self.edges, self.share, self.candidates, dark=dark)

    def _title(self) -> str:
        return f"candidates that hold evidence, of {self.candidates.sum():,}"

    def _columns(self) -> dict[str, list[str]]:
        ranges = zip(self.edges[:-1], self.edges[1:], strict=True)
        return {
            "relevance": [f"{low:.2f} to {high:.2f}" for low, high in ranges],
            "candidates": [f"{count:,}" for count in self.candidates],
            "relevant": [f"{count:,}" for count in self.relevant],
            "share": [f"{share:.3f}" for share in self.share],
        }


def measure_reliability(
    questions: Iterable[Question], traces: Iterable[RSETrace], *, ranges: int = 10
) -> Reliability:
    """Count how many candidates of each range of relevance overlap the evidence of their question.

    Args:
        questions: The questions with the places of their evidence, as in ``report.questions``.
        traces: The trace of each. Candidates of documents that were not considered are left out, as
            their places are unknown: explain with ``top_k_for_document_selection=None``.
        ranges: The number of ranges from 0 to 1, at least 1.

    Raises:
        ValueError: If there are not as many traces as questions, or ``ranges`` is below 1.
    """
    found: list[tuple[float, bool]] = []
    for question, trace in zip(questions, traces, strict=True):
        for document, chunk in trace.candidates:
            start, end = chunk.start_index, chunk.end_index
            if start is not None and end is not None:
                parts = (one for one in question.evidence if one.doc_id == document.doc_id)
                holds = any(part.start < end and start < part.end for part in parts)
                found.append((chunk.relevance, holds))
    candidates, edges = np.histogram([one for one, _ in found], ranges, (0, 1))
    relevant, _ = np.histogram([one for one, holds in found if holds], edges)
    return Reliability(edges, candidates, relevant)
