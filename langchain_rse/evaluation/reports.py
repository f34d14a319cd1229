"""The report of a retriever, and the comparison of two reports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from langchain_rse._messages import check_type
from langchain_rse.engine import Floats
from langchain_rse.evaluation.questions import Question
from langchain_rse.text.quoting import counted, first_few

_FORMATS = {"passages": ".1f", "characters": ",.0f"}  # by metric; .3f for all others
_WITHOUT_INTERVAL = ("precision", "passages", "characters")
_RESAMPLES = 2_000
FEWEST_QUESTIONS = 5  # for printed intervals: fewer vary too little


def as_text(title: str, rows: Mapping[str, Iterable[str]]) -> str:
    """Lay out a table: a line for each row, with its name and aligned cells."""
    table = [[name, *cells] for name, cells in rows.items()]
    widths = []
    for column in zip(*table, strict=True):
        widths.append(max(map(len, column)))
    lines = [title]
    for row in table:
        aligned = list(map(str.rjust, row, widths))
        aligned[0] = row[0].ljust(widths[0])
        lines.append("  ".join(aligned))
    return "\n".join(lines)


def check_metric(metric: str, metrics: Iterable[str]) -> None:
    """Raise a ValueError that names the metrics if this is none of them."""
    if metric not in metrics:
        raise ValueError(f"metric must be one of {', '.join(metrics)}; got {metric!r}")


@dataclass(frozen=True, eq=False, repr=False)
class Report:
    """The metrics of a retriever for each question and budget. `print` shows a table of means.

    The metrics of questions with evidence (all are 0 if nothing is returned):

    - ``recall``: the share of the evidence that is returned, in characters.
    - ``whole``: the share of evidence parts that one passage contains completely. A passage is one
      returned text, or several adjacent ones. This predicts right answers better than recall (arXiv
      2607.00725).
    - ``precision``: the share of the returned text that is evidence, in characters.
    - ``iou``: intersection over union of the evidence and the returned text, in characters.
    - ``passages``: the number of returned texts.
    - ``characters``: the number of returned characters. Headers count, and text that is returned
      twice counts twice; likewise for ``precision``.

    Attributes:
        name: The retriever's name.
        budgets: The budgets in characters, ascending.
        questions: All questions, with the positions of quotations.
        figures: An array for each metric, of shape ``(questions, budgets)``, for the questions with
            evidence.
        refusals: True where nothing was returned; shape ``(questions, budgets)``, for the
            questions that the documents do not answer.
    """

    name: str
    budgets: tuple[int, ...]
    questions: tuple[Question, ...]
    figures: Mapping[str, Floats]
    refusals: NDArray[np.bool_]

    def __repr__(self) -> str:
        figures = _by_budget("recall", "", self.mean("recall"), self.budgets)
        count = counted(len(self.questions) - len(self.refusals), "question")
        if len(self.refusals):
            count += f", {len(self.refusals)} unanswerable"
        return f"<Report of {self.name!r}: {count}, {figures}>"

    def mean(self, metric: str) -> Floats:
        """Return the mean over the questions; shape ``(budgets,)``."""
        check_metric(metric, self.figures)
        return np.asarray(self.figures[metric].mean(axis=0))

    def interval(self, metric: str) -> Floats:
        """Return the ends of the mean's 95 % bootstrap interval; shape ``(budgets, 2)``."""
        check_metric(metric, self.figures)
        return bootstrap(self.figures[metric])

    def compare(self, other: Report, metric: str = "recall") -> Comparison:
        """Compare a metric, question by question.

        Raises:
            ValueError: If the reports have different questions or budgets, or lack the metric.
        """
        check_type("other", other, Report, "a Report of evaluate")
        for attribute in ("budgets", "questions"):
            if getattr(self, attribute) != getattr(other, attribute):
                raise ValueError(
                    f"{self.name} and {other.name} have different {attribute}, or a different "
                    f"order of them: evaluate both with the same, such as report.{attribute}"
                )
        check_metric(metric, self.figures)
        differences = self.figures[metric] - other.figures[metric]
        return Comparison(
            name=self.name,
            other=other.name,
            metric=metric,
            budgets=self.budgets,
            questions=len(differences),
            difference=differences.mean(axis=0),
            interval=bootstrap(differences),
            better=(differences > 0).sum(axis=0),
            worse=(differences < 0).sum(axis=0),
            same=(differences == 0).sum(axis=0),
        )

    def __str__(self) -> str:
        count = len(self.questions) - len(self.refusals)
        has_intervals = count >= FEWEST_QUESTIONS
        title = f"{self.name}: means over {_counted(count)}"
        rows = {"budget": _format(",", self.budgets)}
        for metric in self.figures:
            form = _FORMATS.get(metric, ".3f")
            if has_intervals and metric not in _WITHOUT_INTERVAL:
                rows[metric] = _format(form, self.mean(metric), self.interval(metric))
            else:
                rows[metric] = _format(form, self.mean(metric))
        if len(self.refusals):
            title += f"; {counted(len(self.refusals), 'unanswerable question')}"
            counts = self.refusals.sum(axis=0)
            rows["refused"] = [f"{count} of {len(self.refusals)}" for count in counts]
        return as_text(title, rows)


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """The difference between two retrievers on the same questions. `print` shows a table.

    Attributes:
        name: The name of the retriever.
        other: The name of the other retriever.
        metric: The compared metric, see `Report`.
        budgets: The budgets in characters, ascending.
        questions: The number of questions.
        difference: The retriever's mean minus the other's; shape ``(budgets,)``.
        interval: The ends of its 95 % bootstrap interval; shape ``(budgets, 2)``.
        better: The number of questions with a higher value; shape ``(budgets,)``.
        worse: The number of questions with a lower value; shape ``(budgets,)``.
        same: The number of questions with an equal value; shape ``(budgets,)``.
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

    def __repr__(self) -> str:
        figures = _by_budget(self.metric, "+z", self.difference, self.budgets)
        names = f"{self.name!r} minus {self.other!r}"
        return f"<Comparison of {names}: {counted(self.questions, 'question')}, {figures}>"

    @property
    def conclusion(self) -> str:
        """What the intervals say, in a sentence without a full stop."""
        if self.questions < FEWEST_QUESTIONS:
            return f"only {counted(self.questions, 'question')}, too few to compare"
        low, high = self.interval.T
        return (
            f"{self.name} have a higher {self.metric} than {self.other} at {(low > 0).sum()} of "
            f"{len(low)} budgets, and a lower one at {(high < 0).sum()}; other differences may be "
            "chance"
        )

    def __str__(self) -> str:
        intervals = self.interval if self.questions >= FEWEST_QUESTIONS else ()
        form = f"+z{_FORMATS.get(self.metric, '.3f')}"
        rows = {
            "budget": _format(",", self.budgets),
            "difference": _format(form, self.difference, intervals),
            "better": _format("", self.better),
            "worse": _format("", self.worse),
            "same": _format("", self.same),
        }
        title = f"{self.metric}: {self.name} minus {self.other}, {_counted(self.questions)}"
        return as_text(title, rows)


def bootstrap(values: Floats) -> Floats:
    """Compute 95 % percentile bootstrap intervals of the means over the rows.

    Args:
        values: Shape ``(questions, columns)``.

    Returns:
        The ends of the intervals; shape ``(columns, 2)``.
    """
    count = len(values)
    # A resampled mean depends only on how often each question was drawn.
    draws = np.random.default_rng(0).multinomial(count, np.full(count, 1 / count), _RESAMPLES)
    means = draws @ values / count
    return np.asarray(np.quantile(means, [0.025, 0.975], axis=0).T)


def _counted(questions: int) -> str:
    """Return the number of questions, and a note if intervals are printed."""
    note = " [95% interval]" if questions >= FEWEST_QUESTIONS else ""
    return counted(questions, "question") + note


def _by_budget(metric: str, sign: str, values: Floats, budgets: Iterable[int]) -> str:
    """List the values of a metric: "recall 0.500 at 1,000, 1.000 at 2,000"."""
    form = sign + _FORMATS.get(metric, ".3f")
    pairs = zip(values, budgets, strict=True)
    return f"{metric} {first_few(f'{value:{form}} at {budget:,}' for value, budget in pairs)}"


def _format(form: str, values: Iterable[float], intervals: Iterable[Floats] = ()) -> list[str]:
    """Format numbers, with their intervals if given."""
    cells = [format(value, form) for value in values]
    for index, (low, high) in enumerate(intervals):
        cells[index] += f" [{low:{form}}, {high:{form}}]"
    return cells
