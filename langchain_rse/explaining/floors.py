"""ScoreFloor: the score below which the best candidate of a query is no answer."""

from __future__ import annotations

import dataclasses
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from pydantic import TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from langchain_rse._messages import load
from langchain_rse.text.quoting import as_html

_PLOTS = ("langchain_rse.explaining.plots", "plot", "plot")
_PERCENTILES = (2, 25, 50, 75, 98)  # that are printed


@dataclass(frozen=True)
class ScoreFloor:
    """The score below which the best candidate of a query is no answer; printed, a table.

    `RSERetriever.calibrate` makes it and keeps it in the docstore. The *reach* of a query is the
    score of its best candidate, brought nearer by ``word_bonus`` times the share of its words that
    stand in one candidate. A query is refused if its reach is below the floor, or above it if the
    scores are distances.

    Attributes:
        searcher: The class that finds the candidates.
        reranker: The reranker whose scores these are; empty for those of the search.
        floor: The floor, in the units of the scores.
        word_bonus: What the words of a query count at most, in the same units; at least 0.
        higher_is_better: False if the scores are distances.
        lost: The share of answered questions that may be refused.
        with_questions: True if the answered questions were given; else they are sentences of the
            documents, asked of all other chunks.
        answered: Percentiles 0 to 100 of the reach of answered questions, ascending.
        unrelated: The same of general questions, which have nothing to do with most documents.
        answered_count: The number of answered questions.
        unrelated_count: The number of general questions.
        chunks: The number of chunks that the documents had, and ``added_before`` how many had been
            added since the docstore counts them.
        store: The vector store, and ``model`` its embedding model; empty if unknown.
    """

    searcher: str
    reranker: str
    floor: float
    word_bonus: float
    higher_is_better: bool
    lost: float
    with_questions: bool
    answered: tuple[float, ...]
    unrelated: tuple[float, ...]
    answered_count: int
    unrelated_count: int
    chunks: int
    added_before: int = 0
    store: str = ""
    model: str = ""

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> ScoreFloor | None:
        """Read what `to_fields` gave; None if it is something else."""
        try:
            return _ADAPTER.validate_python(fields)
        except ValidationError:
            return None

    def to_fields(self) -> dict[str, Any]:
        """All fields as values that JSON has."""
        fields = dataclasses.asdict(self)
        return {**fields, "answered": list(self.answered), "unrelated": list(self.unrelated)}

    def reach(self, score: float, word_share: float) -> float:
        """The score, brought nearer by the share of the query's words in one candidate."""
        bonus = self.word_bonus * word_share
        return score + bonus if self.higher_is_better else score - bonus

    def refuses(self, reach: float) -> bool:
        """True if a query with this reach has no answer."""
        return reach < self.floor if self.higher_is_better else reach > self.floor

    def closer_than(self, reach: float) -> float:
        """The share of the answered questions whose reach is worse than this one."""
        if self.higher_is_better:
            worse = bisect_left(self.answered, reach)
        else:
            worse = bisect_left([-value for value in reversed(self.answered)], -reach)
        return worse / len(self.answered)

    @property
    def answered_name(self) -> str:
        """What the answered questions are called in messages."""
        return "answered questions" if self.with_questions else "sentences of the documents"

    def has_doubled(self, added_chunks: int) -> bool:
        """True if as many chunks were added as there were, by the docstore's count of them."""
        return added_chunks - self.added_before >= max(self.chunks, 1)

    def refused(self, percentiles: Sequence[float]) -> float:
        """The share of questions, given by percentiles of their reach, that the floor refuses."""
        return sum(map(self.refuses, percentiles)) / len(percentiles)

    def __str__(self) -> str:
        head = ["", *(f"{percentile}%" for percentile in _PERCENTILES), "refused"]
        rows = [head]
        for name, percentiles in self.distributions().items():
            values = [f"{percentiles[percentile]:.3g}" for percentile in _PERCENTILES]
            rows.append([name, *values, f"{self.refused(percentiles):.0%}"])
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [self.summary, ""]
        for first, *others in rows:
            cells = [first.ljust(widths[0])]
            cells += [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
            lines.append("  ".join(cells))
        return "\n".join(lines)

    def distributions(self) -> dict[str, tuple[float, ...]]:
        """The percentiles of both kinds of questions, by what they are called."""
        return {
            f"{self.unrelated_count} general questions": self.unrelated,
            f"{self.answered_count} {self.answered_name}": self.answered,
        }

    @property
    def summary(self) -> str:
        """One sentence on what is refused."""
        names = f"{self.reranker or self.searcher}'s best score"
        sign = "plus" if self.higher_is_better else "minus"
        side = "below" if self.higher_is_better else "above"
        return (
            f"A question has no answer if {names}, {sign} {self.word_bonus:.3g} times the share of "
            f"its words that stand in one candidate, is {side} {self.floor:.3g}: that refuses "
            f"{self.refused(self.unrelated):.0%} of general questions and "
            f"{self.refused(self.answered):.0%} of the {self.answered_name}."
        )

    def _repr_html_(self) -> str:
        text = as_html(str(self), "\n")
        return f"<pre>{text}</pre>"

    def plot(self, *, dark: bool = False) -> Any:  # noqa: ANN401 - matplotlib need not be there
        """Plot the reach of both kinds of questions, and the floor; needs the extra ``plot``."""
        return load(*_PLOTS).plot_floor(self, dark=dark)


_ADAPTER = TypeAdapter(ScoreFloor)


def percentiles_of(values: ArrayLike) -> tuple[float, ...]:
    """Percentiles 0 to 100 of some values, rounded to six digits."""
    percentiles = np.percentile(np.asarray(values, dtype=np.float64), np.arange(101))
    return tuple(float(f"{value:.6g}") for value in percentiles)
