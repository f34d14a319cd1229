"""Tables of figures: a retriever's report, and the comparison of two."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from langchain_rse.evaluation.measuring import METRICS
from langchain_rse.evaluation.questions import Question

Floats = NDArray[np.float64]

_FORMATS = dict(zip(METRICS, (".3f", ".3f", ".3f", ".1f", ",.0f"), strict=True))
_RESAMPLES = 2_000
_WITH_INTERVAL = ("recall", "precision", "iou")


class Table:
    """A result that prints as a title and columns."""

    def __str__(self) -> str:
        lines = ["  ".join(cells) for cells in self._lines()]
        return "\n".join([self._title(), *lines])

    def to_markdown(self) -> str:
        """The table in Markdown."""
        head, *lines = self._lines()
        rule = tuple("-" * (len(cell) - 1) + ":" for cell in head)
        rows = (f"| {' | '.join(cells)} |" for cells in (head, rule, *lines))
        return "\n".join([self._title(), "", *rows])

    def to_dict(self) -> dict[str, Any]:
        """All fields as values that JSON has."""
        return {
            name: value.tolist() if isinstance(value, np.ndarray) else value
            for name, value in vars(self).items()
        }

    def _lines(self) -> Iterator[tuple[str, ...]]:
        """The header row and the rows; all cells of a column have one width."""
        padded = []
        for head, cells in self._columns().items():
            width = max(map(len, [head, *cells]))
            padded.append([cell.rjust(width) for cell in (head, *cells)])
        return zip(*padded, strict=True)

    def _title(self) -> str:
        raise NotImplementedError

    def _columns(self) -> dict[str, list[str]]:
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class Report(Table):
    """Figures of a retriever for each question and budget; printed, a table of means.

    The metrics, all 0 if nothing was returned:

    - ``recall``: the share of the evidence's characters that were returned.
    - ``precision``: the share of the returned characters that are evidence.
    - ``iou``: intersection over union of the evidence and the returned text, in characters.
    - ``segments``: the number of texts returned.
    - ``characters``: the number of characters returned. Text that is returned twice counts
      twice, here and in ``precision``, and so do headers.

    Attributes:
        name: The retriever's name.
        budgets: The budgets in characters, ascending.
        questions: The questions.
        figures: For each metric an array of shape ``(questions, budgets)``.
    """

    metrics: ClassVar[tuple[str, ...]] = METRICS

    name: str
    budgets: tuple[int, ...]
    questions: tuple[Question, ...]
    figures: Mapping[str, Floats]

    def mean(self, metric: str) -> Floats:
        """Return the mean over the questions; shape ``(budgets,)``."""
        means: Floats = self.figures[metric].mean(axis=0)
        return means

    def interval(self, metric: str) -> Floats:
        """Return the ends of the mean's 95 % bootstrap interval; shape ``(budgets, 2)``."""
        return bootstrap(self.figures[metric])

    def compare(self, other: Report, metric: str = "recall") -> Comparison:
        """Compare one of the ``metrics`` with another retriever's, question by question.

        Raises:
            ValueError: If ``other`` is not about the same questions and budgets.
        """
        if self.budgets != other.budgets:
            raise ValueError(f"the budgets differ: {self.budgets} and {other.budgets}")
        if self.questions != other.questions:
            raise ValueError(
                f"{self.name} and {other.name} were not asked the same questions in the same order"
            )
        differences = self.figures[metric] - other.figures[metric]
        return Comparison(
            name=self.name,
            other=other.name,
            metric=metric,
            budgets=self.budgets,
            questions=len(self.questions),
            difference=differences.mean(axis=0),
            interval=bootstrap(differences),
            better=(differences > 0).sum(axis=0),
            worse=(differences < 0).sum(axis=0),
            same=(differences == 0).sum(axis=0),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return means and intervals as values that JSON has."""
        return {
            "name": self.name,
            "questions": len(self.questions),
            "budgets": list(self.budgets),
            "metrics": {
                metric: {
                    "mean": self.mean(metric).tolist(),
                    "interval": self.interval(metric).tolist(),
                }
                for metric in self.metrics
            },
        }

    def to_pandas(self) -> Any:  # noqa: ANN401 - pandas need not be there
        """Return a DataFrame with a row for each question and budget; needs pandas."""
        return importlib.import_module("pandas").DataFrame(
            [
                {
                    "name": self.name,
                    "number": number,
                    "question": question.question,
                    "budget": budget,
                    **{metric: self.figures[metric][number - 1, place] for metric in self.metrics},
                }
                for number, question in enumerate(self.questions, 1)
                for place, budget in enumerate(self.budgets)
            ]
        )

    def _title(self) -> str:
        return f"{self.name}: means of {len(self.questions)} questions [95% interval]"

    def _columns(self) -> dict[str, list[str]]:
        columns = {"budget": [f"{budget:,}" for budget in self.budgets]}
        for metric in self.metrics:
            interval = self.interval(metric) if metric in _WITH_INTERVAL else None
            columns[metric] = _cells(_FORMATS[metric], self.mean(metric), interval)
        return columns


@dataclass(frozen=True, eq=False)
class Comparison(Table):
    """The difference between two retrievers on the same questions; printed, a table.

    Attributes:
        name: The retriever's name.
        other: The name of the other retriever.
        metric: The metric that is compared.
        budgets: The budgets in characters, ascending.
        questions: The number of questions.
        difference: The mean over the questions of the retriever's figure minus the other's;
            shape ``(budgets,)``.
        interval: Ends of the difference's 95 % bootstrap interval; shape ``(budgets, 2)``.
        better: The number of questions with a greater figure; shape ``(budgets,)``.
        worse: The number of questions with a smaller figure; shape ``(budgets,)``.
        same: The number of questions with the same figure; shape ``(budgets,)``.
    """

    name: str
    other: str
    metric: str
    budgets: tuple[int, ...]
    questions: int
    difference: Floats
    interval: Floats
    better: NDArray[np.int64]
    worse: NDArray[np.int64]
    same: NDArray[np.int64]

    def _title(self) -> str:
        return (
            f"{self.metric}: {self.name} minus {self.other}, {self.questions} questions "
            "[95% interval]"
        )

    def _columns(self) -> dict[str, list[str]]:
        return {
            "budget": [f"{budget:,}" for budget in self.budgets],
            "difference": _cells("+" + _FORMATS[self.metric], self.difference, self.interval),
            "better": [str(count) for count in self.better],
            "worse": [str(count) for count in self.worse],
            "same": [str(count) for count in self.same],
        }


def bootstrap(values: Floats) -> Floats:
    """95 % percentile bootstrap intervals of the means over the rows; shape ``(columns, 2)``."""
    count = len(values)
    # A resampled mean depends only on how often each question was drawn.
    drawn = np.random.default_rng(0).multinomial(count, np.full(count, 1 / count), _RESAMPLES)
    ends: Floats = np.quantile(drawn @ values / count, [0.025, 0.975], axis=0).T
    return ends


def _cells(form: str, means: Floats, intervals: Floats | None) -> list[str]:
    if intervals is None:
        return [format(mean, form) for mean in means]
    return [
        f"{mean:{form}} [{low:{form}}, {high:{form}}]"
        for mean, (low, high) in zip(means, intervals, strict=True)
    ]
