"""Figures of retrievers, their tables and comparisons."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from langchain_rse.evaluation.places import METRICS
from langchain_rse.evaluation.questions import Question

__all__ = ["Comparison", "Report", "Table", "bootstrap"]

Floats = NDArray[np.float64]

# The formats of means.
_FORMATS = dict(zip(METRICS, (".3f", ".3f", ".3f", ".1f", ",.0f"), strict=True))
_WITH_INTERVAL = ("recall", "precision", "iou")
_LEVEL = 0.95


class Table:
    """Prints itself as a table."""

    def __str__(self) -> str:
        lines = ["  ".join(cells) for cells in self._lines()]
        return "\n".join([self._title(), *lines])

    def to_markdown(self) -> str:
        """The table in Markdown."""
        head, *lines = self._lines()
        rule = tuple("-" * (len(cell) - 1) + ":" for cell in head)
        rows = (f"| {' | '.join(cells)} |" for cells in (head, rule, *lines))
        return "\n".join([self._title(), "", *rows])

    def _lines(self) -> Iterator[tuple[str, ...]]:
        """Heads, then cells, all of a column as wide as the widest."""
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
    """How a retriever did on each question within each budget.

    The metrics:

    - ``recall``: the share of the evidence's characters that were returned.
    - ``precision``: the share of the characters returned that are evidence.
    - ``iou``: characters of evidence returned, over those of either.
    - ``segments``: the number of texts returned.
    - ``characters``: the number of characters returned; text that comes twice counts twice,
      here and in ``precision``.

    Where nothing was returned, all of them are 0. Printed, a report is a table.

    Attributes:
        name: The retriever's name.
        budgets: Characters that could be returned, ascending.
        questions: The questions.
        figures: For each metric an array of shape ``(questions, budgets)``, read-only.
        resamples: Resamples of the questions for intervals.
        seed: Seed of the resamples.
    """

    metrics: ClassVar[tuple[str, ...]] = METRICS

    name: str
    budgets: tuple[int, ...]
    questions: tuple[Question, ...]
    figures: Mapping[str, Floats]
    resamples: int = 1_000
    seed: int = 0

    def mean(self, metric: str) -> Floats:
        """The mean over the questions; shape ``(budgets,)``.

        Raises:
            ValueError: If there is no such metric.
        """
        means: Floats = self._values(metric).mean(axis=0)
        return means

    def interval(self, metric: str, level: float = _LEVEL) -> Floats:
        """Where the mean lies for other questions of the kind: a percentile bootstrap.

        Args:
            metric: One of ``metrics``.
            level: The share of resampled means that are inside, above 0 and below 1.

        Returns:
            The lower and the upper end for each budget; shape ``(budgets, 2)``.

        Raises:
            ValueError: If there is no such metric, or ``level`` is out of its range.
        """
        return bootstrap(self._values(metric), level, self.resamples, self.seed)

    def compare(self, other: Report, metric: str = "recall", level: float = _LEVEL) -> Comparison:
        """Compare with another retriever, question by question.

        Args:
            other: A report on the same questions and budgets.
            metric: One of ``metrics``.
            level: The share of resampled differences that are inside the interval, above 0
                and below 1.

        Raises:
            ValueError: If questions or budgets are not the same, there is no such metric,
                or ``level`` is out of its range.
        """
        if self.budgets != other.budgets:
            raise ValueError(f"the budgets differ: {self.budgets} and {other.budgets}")
        if self.questions != other.questions:
            raise ValueError(
                f"{self.name} and {other.name} were not asked the same questions in the same order"
            )
        differences = self._values(metric) - other._values(metric)
        return Comparison(
            name=self.name,
            other=other.name,
            metric=metric,
            budgets=self.budgets,
            questions=len(self.questions),
            level=level,
            difference=differences.mean(axis=0),
            interval=bootstrap(differences, level, self.resamples, self.seed),
            better=(differences > 0).sum(axis=0),
            worse=(differences < 0).sum(axis=0),
            same=(differences == 0).sum(axis=0),
        )

    def to_dict(self) -> dict[str, Any]:
        """Means and intervals, ready for JSON."""
        return {
            "name": self.name,
            "questions": len(self.questions),
            "budgets": list(self.budgets),
            "level": _LEVEL,
            "metrics": {
                metric: {
                    "mean": self.mean(metric).tolist(),
                    "interval": self.interval(metric).tolist(),
                }
                for metric in self.metrics
            },
        }

    def to_pandas(self) -> Any:  # noqa: ANN401 - pandas need not be there
        """A DataFrame with a row for each question and budget.

        Its columns are ``name``, ``number`` (of the question, from 1), ``question``,
        ``budget`` and the metrics.

        Raises:
            ImportError: If pandas is not installed.
        """
        try:
            pandas: Any = importlib.import_module("pandas")
        except ImportError as error:
            raise ImportError("to_pandas needs pandas: pip install pandas") from error
        asked = [
            (self.name, number, question.question, budget)
            for number, question in enumerate(self.questions, 1)
            for budget in self.budgets
        ]
        keys = zip(("name", "number", "question", "budget"), zip(*asked, strict=True), strict=True)
        figures = {metric: self.figures[metric].ravel() for metric in self.metrics}
        return pandas.DataFrame({**{key: list(column) for key, column in keys}, **figures})

    def _values(self, metric: str) -> Floats:
        if metric not in self.metrics:
            raise ValueError(f"metric must be one of {', '.join(self.metrics)}; got {metric!r}")
        return self.figures[metric]

    def _title(self) -> str:
        return f"{self.name}: means of {len(self.questions)} questions [{_LEVEL:.0%} interval]"

    def _columns(self) -> dict[str, list[str]]:
        columns = {"budget": [f"{budget:,}" for budget in self.budgets]}
        for metric in self.metrics:
            interval = self.interval(metric) if metric in _WITH_INTERVAL else None
            columns[metric] = _cells(_FORMATS[metric], self.mean(metric), interval)
        return columns


@dataclass(frozen=True, eq=False)
class Comparison(Table):
    """How one retriever differs from another on the same questions.

    Printed, it is a table.

    Attributes:
        name: The retriever's name.
        other: The name of the one it is compared with.
        metric: What is compared.
        budgets: Characters that could be returned, ascending.
        questions: The number of questions.
        level: The share of resampled differences inside ``interval``.
        difference: The mean over the questions of the retriever's figure less the other's;
            shape ``(budgets,)``.
        interval: Lower and upper end of its percentile bootstrap; shape ``(budgets, 2)``.
        better: Questions with a greater figure than the other's; shape ``(budgets,)``.
        worse: Questions with a smaller one; shape ``(budgets,)``.
        same: Questions with the same one; shape ``(budgets,)``.
    """

    name: str
    other: str
    metric: str
    budgets: tuple[int, ...]
    questions: int
    level: float
    difference: Floats
    interval: Floats
    better: NDArray[np.int64]
    worse: NDArray[np.int64]
    same: NDArray[np.int64]

    def to_dict(self) -> dict[str, Any]:
        """All fields, ready for JSON."""
        return {
            name: value.tolist() if isinstance(value, np.ndarray) else value
            for name, value in {**vars(self), "budgets": list(self.budgets)}.items()
        }

    def _title(self) -> str:
        return (
            f"{self.metric}: {self.name} less {self.other}, {self.questions} questions "
            f"[{self.level:.0%} interval]"
        )

    def _columns(self) -> dict[str, list[str]]:
        return {
            "budget": [f"{budget:,}" for budget in self.budgets],
            "difference": _cells("+" + _FORMATS[self.metric], self.difference, self.interval),
            "better": [str(count) for count in self.better],
            "worse": [str(count) for count in self.worse],
            "same": [str(count) for count in self.same],
        }


def bootstrap(values: Floats, level: float, resamples: int, seed: int) -> Floats:
    """Percentile intervals of the means over the first axis; shape ``(columns, 2)``."""
    if not 0 < level < 1:
        raise ValueError(f"level must be above 0 and below 1; got {level!r}")
    count = len(values)
    # How often each question is drawn is all that its means depend on.
    drawn = np.random.default_rng(seed).multinomial(count, np.full(count, 1 / count), resamples)
    tail = (1 - level) / 2
    ends: Floats = np.quantile(drawn @ values / count, [tail, 1 - tail], axis=0).T
    return ends


def _cells(form: str, means: Floats, intervals: Floats | None) -> list[str]:
    if intervals is None:
        return [format(mean, form) for mean in means]
    return [
        f"{mean:{form}} [{low:{form}}, {high:{form}}]"
        for mean, (low, high) in zip(means, intervals, strict=True)
    ]
