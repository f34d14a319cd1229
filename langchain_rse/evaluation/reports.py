"""Tables of figures: the report of a retriever, and the comparison of two."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from langchain_rse.engine import Floats
from langchain_rse.evaluation.questions import Question
from langchain_rse.explaining import load_plots
from langchain_rse.text.quoting import as_html

_FORMATS = {"segments": ".1f", "characters": ",.0f"}  # by metric; of the others .3f
_WITHOUT_INTERVAL = ("precision", "segments", "characters")
_RESAMPLES = 2_000


class Table:
    """A result that prints as a table with a title."""

    def __str__(self) -> str:
        return "\n".join([self._title(), *("  ".join(row) for row in self._rows())])

    def to_text(self, width: int) -> str:
        """Return the printed table; if it is wider than ``width``, with columns as lines.

        If that is too wide as well, the last column is not aligned, so that lines are shorter.
        """
        rows = ["  ".join(row) for row in self._rows()]
        columns = self._columns_as_lines()
        if max(map(len, rows)) <= width:
            lines = rows
        elif max(map(len, columns)) <= width:
            lines = columns
        else:
            lines = []
            for *cells, last_cell in self._rows():
                lines.append("  ".join([*cells, last_cell.strip()]))
        return "\n".join([self._title(), *lines])

    def _columns_as_lines(self) -> list[str]:
        """A line for each column: its head, and the cells of each row in a column."""
        columns = [(head, *cells) for head, cells in self._columns().items()]
        widths = [max(map(len, cells)) for cells in zip(*columns, strict=True)]
        lines = []
        for head, *cells in columns:
            aligned = [head.ljust(widths[0])]
            for cell, cell_width in zip(cells, widths[1:], strict=True):
                aligned.append(cell.rjust(cell_width))
            lines.append("  ".join(aligned))
        return lines

    def _repr_html_(self) -> str:
        head, *rows = self._rows()
        lines = [f"<p>{as_html(self._title())}</p><table>"]
        for tag, cells in [("th", head), *(("td", cells) for cells in rows)]:
            texts = [as_html(cell.strip()) for cell in cells]
            row = "".join(f"<{tag}>{text}</{tag}>" for text in texts)
            lines.append(f"<tr>{row}</tr>")
        return "".join([*lines, "</table>"])

    def to_markdown(self) -> str:
        """Return the table in Markdown."""
        head, *rows = self._rows()
        rule = ["-" * (len(cell) - 1) + ":" for cell in head]
        lines = [f"| {' | '.join(row)} |" for row in (head, rule, *rows)]
        return "\n".join([self._title(), "", *lines])

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as values that JSON has."""
        values = dict(vars(self))
        for name, value in values.items():
            if isinstance(value, np.ndarray):
                values[name] = value.tolist()
        return values

    def _rows(self) -> list[tuple[str, ...]]:
        """Return the header row and the rows; all cells of a column have one width."""
        columns = []
        for head, cells in self._columns().items():
            width = max(len(cell) for cell in (head, *cells))
            columns.append([cell.rjust(width) for cell in (head, *cells)])
        return list(zip(*columns, strict=True))

    def _title(self) -> str:
        raise NotImplementedError

    def _columns(self) -> dict[str, list[str]]:
        """Return the cells of each column, by its head."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class Report(Table):
    """Figures of a retriever for each question and budget; printed, a table of means.

    The metrics of questions with evidence, all 0 if nothing was returned:

    - ``recall``: the share of the evidence's characters that were returned.
    - ``whole``: the share of the parts of evidence that stand whole in one passage: a returned
      text, or several that follow one another in a document. What a reader of the texts needs; a
      better predictor of right answers than recall (arXiv 2607.00725).
    - ``precision``: the share of the returned characters that are evidence.
    - ``iou``: intersection over union of the evidence and the returned text, in characters.
    - ``segments``: the number of texts returned.
    - ``characters``: the number of characters returned. Text that is returned twice counts
      twice, here and in ``precision``, and so do headers.

    Attributes:
        name: The retriever's name.
        budgets: The budgets in characters, ascending.
        questions: All questions, with the places of quotations.
        figures: For each metric an array of shape ``(questions, budgets)``, of the questions that
            are `answerable`.
        refusals: True where nothing was returned for a question without an answer; shape
            ``(questions, budgets)``, of the questions that are `unanswerable`.
    """

    name: str
    budgets: tuple[int, ...]
    questions: tuple[Question, ...]
    figures: Mapping[str, Floats]
    refusals: NDArray[np.bool_] = field(default_factory=lambda: np.zeros((0, 0), dtype=bool))

    @property
    def answerable(self) -> tuple[Question, ...]:
        """The questions with evidence."""
        return tuple(question for question in self.questions if not question.is_unanswerable)

    @property
    def unanswerable(self) -> tuple[Question, ...]:
        """The questions that the documents do not answer; they are in no metric."""
        return tuple(question for question in self.questions if question.is_unanswerable)

    @property
    def refused(self) -> Floats:
        """The share of the `unanswerable` for which nothing was returned; shape ``(budgets,)``.

        NaN if there are no such questions.
        """
        if not len(self.refusals):
            return np.full(len(self.budgets), np.nan)
        return np.asarray(self.refusals.mean(axis=0))

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of the metrics, the most important first."""
        return tuple(self.figures)

    def mean(self, metric: str) -> Floats:
        """Return the mean over the questions; shape ``(budgets,)``."""
        return np.asarray(self.figures[metric].mean(axis=0))

    def interval(self, metric: str) -> Floats:
        """Return the ends of the mean's 95 % bootstrap interval; shape ``(budgets, 2)``."""
        return bootstrap(self.figures[metric])

    def compare(self, other: Report, metric: str | None = None) -> Comparison:
        """Compare one of the ``metrics``, by default the first, question by question.

        Raises:
            ValueError: If ``other`` is not about the same questions, budgets and metrics.
        """
        for attribute in ("metrics", "budgets", "questions"):
            if getattr(self, attribute) != getattr(other, attribute):
                raise ValueError(
                    f"{self.name} and {other.name} have different {attribute}, or the same in "
                    "another order"
                )
        if metric is None:
            metric = self.metrics[0]
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

    def to_dict(self) -> dict[str, Any]:
        """Return means and intervals as values that JSON has.

        With questions without an answer, also their number and the share that was refused.
        """
        metrics = {}
        for metric in self.metrics:
            metrics[metric] = {
                "mean": self.mean(metric).tolist(),
                "interval": self.interval(metric).tolist(),
            }
        values = {
            "name": self.name,
            "questions": len(self.answerable),
            "budgets": list(self.budgets),
            "metrics": metrics,
        }
        if self.unanswerable:
            values["unanswerable"] = len(self.unanswerable)
            values["refused"] = self.refused.tolist()
        return values

    def to_pandas(self) -> Any:  # noqa: ANN401 - pandas need not be there
        """Return a DataFrame with a row for each question and budget; needs pandas.

        Rows of questions without an answer have a value in the column ``refused`` and no metrics.
        """
        measured = iter(
            {metric: figures[index] for metric, figures in self.figures.items()}
            for index in range(len(self.answerable))
        )
        refused = iter({"refused": refusals} for refusals in self.refusals)
        rows = []
        for number, question in enumerate(self.questions, 1):
            columns: Mapping[str, Any] = next(refused if question.is_unanswerable else measured)
            for budget_index, budget in enumerate(self.budgets):
                row: dict[str, Any] = {
                    "name": self.name,
                    "number": number,
                    "question": question.question,
                    "budget": budget,
                }
                for column, values in columns.items():
                    row[column] = values[budget_index]
                rows.append(row)
        return importlib.import_module("pandas").DataFrame(rows)

    def plot(self, *others: Report, metric: str | None = None, dark: bool = False) -> Any:  # noqa: ANN401
        """Plot a metric against the budget, with 95 % intervals; needs matplotlib, extra ``plot``.

        Args:
            *others: Reports to draw beside this one.
            metric: One of the ``metrics``, by default the first.
            dark: True for a dark background.

        Raises:
            ValueError: If a report has not this metric.
        """
        if metric is None:
            metric = self.metrics[0]
        curves = []
        for report in (self, *others):
            if metric not in report.metrics:
                raise ValueError(
                    f"{metric} by budget cannot be plotted: {report.name} has the metrics "
                    f"{', '.join(report.metrics)}"
                )
            mean = report.mean(metric)
            curves.append((report.name, report.budgets, mean, report.interval(metric)))
        questions = len(self.answerable)
        return load_plots().plot_curves(curves, metric, questions, dark=dark)

    def _title(self) -> str:
        title = f"{self.name}: means of {len(self.answerable)} questions [95% interval]"
        if self.unanswerable:
            title += "; refused: questions without an answer for which nothing was returned"
        return title

    def _columns(self) -> dict[str, list[str]]:
        columns = {"budget": _format(",", self.budgets)}
        for metric in self.metrics:
            form = _FORMATS.get(metric, ".3f")
            means = self.mean(metric)
            if metric in _WITHOUT_INTERVAL:
                columns[metric] = _format(form, means)
            else:
                columns[metric] = _format_with_intervals(form, means, self.interval(metric))
        if self.unanswerable:
            counts = self.refusals.sum(axis=0)
            columns["refused"] = [f"{count} of {len(self.refusals)}" for count in counts]
        return columns


@dataclass(frozen=True, eq=False)
class Comparison(Table):
    """The difference between two retrievers on the same questions; printed, a table.

    Attributes:
        name: The name of the retriever.
        other: The name of the other retriever.
        metric: The compared metric, see `Report`.
        budgets: The budgets in characters, ascending.
        questions: The number of questions.
        difference: The mean of the retriever's figures minus the other's; shape ``(budgets,)``.
        interval: Ends of its 95 % bootstrap interval; shape ``(budgets, 2)``.
        better: The number of questions with a greater figure; shape ``(budgets,)``.
        worse: The number with a smaller figure.
        same: The number with the same figure.
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
        names = f"{self.name} minus {self.other}"
        return f"{self.metric}: {names}, {self.questions} questions [95% interval]"

    def _columns(self) -> dict[str, list[str]]:
        form = f"+{_FORMATS.get(self.metric, '.3f')}"
        return {
            "budget": _format(",", self.budgets),
            "difference": _format_with_intervals(form, self.difference, self.interval),
            "better": _format("", self.better),
            "worse": _format("", self.worse),
            "same": _format("", self.same),
        }


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


def _format(form: str, values: Iterable[float]) -> list[str]:
    return [format(value, form) for value in values]


def _format_with_intervals(form: str, values: Floats, intervals: Floats) -> list[str]:
    cells = []
    for value, (low, high) in zip(values, intervals, strict=True):
        cells.append(f"{value:{form}} [{low:{form}}, {high:{form}}]")
    return cells
