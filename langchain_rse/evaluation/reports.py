"""Tables of figures: the report of a retriever, the comparison of two, a reliability curve."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from langchain_rse._messages import first_few, load
from langchain_rse.engine import Floats
from langchain_rse.evaluation.questions import Question
from langchain_rse.explaining.trace import PLOTS, RSETrace

_FORMATS = {"points": ".2f", "segments": ".1f", "characters": ",.0f"}  # of others .3f
_RESAMPLES = 2_000
_WITHOUT_INTERVAL = ("segments", "characters")


class Table:
    """A result that prints as a table with a title."""

    def __str__(self) -> str:
        return "\n".join([self._title(), *map("  ".join, self._rows())])

    def to_markdown(self) -> str:
        """Return the table in Markdown."""
        head, *rows = self._rows()
        rule = ["-" * (len(cell) - 1) + ":" for cell in head]
        lines = [f"| {' | '.join(cells)} |" for cells in (head, rule, *rows)]
        return "\n".join([self._title(), "", *lines])

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as values that JSON has."""
        return {
            name: value.tolist() if isinstance(value, np.ndarray) else value
            for name, value in vars(self).items()
        }

    def _rows(self) -> Iterator[tuple[str, ...]]:
        """The header row and the rows; all cells of a column have one width."""
        columns = [[head, *cells] for head, cells in self._columns().items()]
        widths = [max(map(len, cells)) for cells in columns]
        padded = ([c.rjust(n) for c in cells] for cells, n in zip(columns, widths, strict=True))
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
        questions: The questions, with the places of quotations.
        figures: For each metric an array of shape ``(questions, budgets)``.
    """

    name: str
    budgets: tuple[int, ...]
    questions: tuple[Question, ...]
    figures: Mapping[str, Floats]

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of the metrics, the most important first."""
        return tuple(self.figures)

    def mean(self, metric: str) -> Floats:
        """Return the mean over the questions; shape ``(budgets,)``."""
        return np.asarray(_known(self.figures[metric]).mean(axis=0))

    def interval(self, metric: str) -> Floats:
        """Return the ends of the mean's 95 % bootstrap interval; shape ``(budgets, 2)``."""
        return bootstrap(_known(self.figures[metric]))

    def compare(self, other: Report, metric: str | None = None) -> Comparison:
        """Compare one of the ``metrics``, by default the first, question by question.

        Raises:
            ValueError: If ``other`` is not about the same questions, budgets and metrics.
        """
        both = f"{self.name} and {other.name}"
        for name in ("metrics", "budgets", "questions"):
            if getattr(self, name) != getattr(other, name):
                raise ValueError(f"{both} have different {name}, or the same in another order")
        metric = metric or self.metrics[0]
        differences = _known(self.figures[metric] - other.figures[metric])
        if not len(differences):
            raise ValueError(f"{both} have no question with a grade in both")
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
        """Return means and intervals as values that JSON has."""
        return {
            "name": self.name,
            "questions": len(self.questions),
            "budgets": list(self.budgets),
            "metrics": {
                name: {"mean": self.mean(name).tolist(), "interval": self.interval(name).tolist()}
                for name in self.metrics
            },
        }

    def to_pandas(self) -> Any:  # noqa: ANN401 - pandas need not be there
        """Return a DataFrame with a row for each question and budget; needs pandas."""
        rows = []
        for number, question in enumerate(self.questions):
            for place, budget in enumerate(self.budgets or (None,)):
                about = {"number": number + 1, "question": question.question, "budget": budget}
                figures = {name: found[number, place] for name, found in self.figures.items()}
                rows.append({"name": self.name, **about, **figures})
        return importlib.import_module("pandas").DataFrame(rows)

    def plot(self, *others: Report, metric: str | None = None, dark: bool = False) -> Any:  # noqa: ANN401
        """Plot a metric against the budget, with 95 % intervals; needs matplotlib, extra ``plot``.

        Args:
            *others: Reports to draw beside this one.
            metric: One of the ``metrics``, by default the first.
            dark: True for a dark background.

        Raises:
            ValueError: If a report has no budgets, or not this metric.
        """
        metric = metric or self.metrics[0]
        curves = []
        for one in (self, *others):
            if not one.budgets or metric not in one.metrics:
                has = f"budgets {one.budgets} and the metrics {', '.join(one.metrics)}"
                raise ValueError(f"{metric} by budget cannot be plotted: {one.name} has {has}")
            curves.append((one.name, one.budgets, one.mean(metric), one.interval(metric)))
        return load(*PLOTS).plot_curves(curves, metric, dark=dark)

    def _title(self) -> str:
        known = len(_known(self.figures[self.metrics[0]]))
        return f"{self.name}: means of {known} questions [95% interval]"

    def _columns(self) -> dict[str, list[str]]:
        columns = _budgets(self.budgets)
        for metric in self.metrics:
            interval = None if metric in _WITHOUT_INTERVAL else self.interval(metric)
            columns[metric] = _cells(_FORMATS.get(metric, ".3f"), self.mean(metric), interval)
        return columns


class GradedAnswer(NamedTuple):
    """A model's answer to a question, with its grade or the reason why there is none."""

    answer: str = ""
    grade: float | str | None = None  # points from 0 to 10, or "right", "wrong" or "refused"
    explanation: str = ""  # the grader's
    failure: str = ""


@dataclass(frozen=True, eq=False)
class AnswerReport(Report):
    """Grades of the answers to which a retriever's text leads; printed, a table of means.

    The metrics are ``points``, or the shares ``right``, ``wrong`` and ``refused``; and
    ``characters``, the length of the returned text. They are NaN for questions without a grade,
    which means and comparisons leave out. There are no budgets; shapes are those of one budget.

    Attributes:
        answers: The graded answers, by question.
        usage: For ``"answering"`` and ``"grading"``, the number of ``calls`` that were answered,
            of their ``input_tokens`` and ``output_tokens``, and of calls with ``unknown`` tokens.
    """

    answers: tuple[GradedAnswer, ...]
    usage: Mapping[str, Mapping[str, int]]

    @property
    def failures(self) -> dict[int, str]:
        """The reasons why questions have no grade, by their numbers from 1."""
        return {n: one.failure for n, one in enumerate(self.answers, 1) if one.failure}

    def to_dict(self) -> dict[str, Any]:
        """Return means, intervals, failures and usage as values that JSON has."""
        return {**super().to_dict(), "failures": self.failures, "usage": self.usage}

    def _title(self) -> str:
        failed = [f"question {number} at {why}" for number, why in self.failures.items()]
        lines = [super()._title(), *([f"without grade: {first_few(failed, 3)}"] if failed else [])]
        for task, counts in self.usage.items():
            lines.append(f"{task}: {', '.join(f'{n:,} {name}' for name, n in counts.items())}")
        return "\n".join(lines)


@dataclass(frozen=True, eq=False)
class Comparison(Table):
    """The difference between two retrievers on the same questions; printed, a table.

    Attributes:
        budgets: The budgets in characters, ascending; empty for answers, with shapes as for one.
        questions: The number of questions for which both have a figure.
        difference: The mean of the retriever's figures minus the other's; shape ``(budgets,)``.
        interval: Ends of its 95 % bootstrap interval; shape ``(budgets, 2)``.
        better: The number of questions with a greater figure; shape ``(budgets,)``.
        worse: The number with a smaller figure.
        same: The number with the same figure.
    """

    name: str
    other: str  # the name of the other retriever
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
        counts = {"better": self.better, "worse": self.worse, "same": self.same}
        return {
            **_budgets(self.budgets),
            "difference": _cells(form, self.difference, self.interval),
            **{name: list(map(str, count)) for name, count in counts.items()},
        }


@dataclass(frozen=True, eq=False)
class Reliability(Table):
    """Shares of candidates that hold evidence, by relevance; printed, a table."""

    edges: Floats  # of the ranges of relevance, one more than there are ranges
    candidates: NDArray[np.int64]  # in each range
    relevant: NDArray[np.int64]  # those of them that overlap evidence

    @property
    def share(self) -> Floats:
        """The share of relevant candidates, NaN in a range without any; shape ``(ranges,)``."""
        return np.asarray(self.relevant / np.where(self.candidates, self.candidates, np.nan))

    def plot(self, *, dark: bool = False) -> Any:  # noqa: ANN401 - matplotlib need not be there
        """Plot the shares against relevance; needs matplotlib, the extra ``plot``."""
        return load(*PLOTS).plot_shares(self.edges, self.share, self.candidates, dark=dark)

    def _title(self) -> str:
        return f"candidates that hold evidence, of {self.candidates.sum():,}"

    def _columns(self) -> dict[str, list[str]]:
        ranges = zip(self.edges[:-1], self.edges[1:], strict=True)
        return {
            "relevance": [f"{low:.2f} to {high:.2f}" for low, high in ranges],
            "candidates": _cells(",", self.candidates),
            "relevant": _cells(",", self.relevant),
            "share": _cells(".3f", self.share),
        }


def measure_reliability(
    questions: Iterable[Question], traces: Iterable[RSETrace], *, ranges: int = 10
) -> Reliability:
    """Count how many candidates in each range of relevance overlap their question's evidence.

    Args:
        questions: The questions with the places of their evidence, as in ``report.questions``.
        traces: The trace of each question. Candidates of documents that were not considered are
            left out, as their places are unknown: call ``explain`` with
            ``top_k_for_document_selection`` as large as ``fetch_k``.
        ranges: The number of ranges from 0 to 1, at least 1.

    Raises:
        ValueError: If the traces are of other questions, evidence is quoted and has no place yet,
            or ``ranges`` is below 1.
    """
    relevances, relevant = list[float](), list[float]()
    for question, trace in zip(questions, traces, strict=True):
        if trace.query != question.question:
            raise ValueError(f"a trace is of {trace.query!r}, not of {question.question!r}")
        if any(part.is_quoted for part in question.evidence):
            raise ValueError(
                f"evidence for {question.question!r} is quoted: use the questions of a report of "
                "evaluate, report.questions, where it has its place"
            )
        for document, chunk in trace.candidates:
            start, end = chunk.start_index, chunk.end_index
            if start is None or end is None:
                continue
            relevances.append(chunk.relevance)
            parts = (one for one in question.evidence if one.doc_id == document.doc_id)
            if any(part.start < end and start < part.end for part in parts):
                relevant.append(chunk.relevance)
    candidates, edges = np.histogram(relevances, ranges, (0, 1))
    return Reliability(edges, candidates, np.histogram(relevant, edges)[0])


def bootstrap(values: Floats) -> Floats:
    """95 % percentile bootstrap intervals of the means over the rows; shape ``(columns, 2)``."""
    count = len(values)
    # A resampled mean depends only on how often each question was drawn.
    drawn = np.random.default_rng(0).multinomial(count, np.full(count, 1 / count), _RESAMPLES)
    return np.asarray(np.quantile(drawn @ values / count, [0.025, 0.975], axis=0).T)


def _known(figures: Floats) -> Floats:
    """The rows of questions that have figures."""
    return np.asarray(figures[~np.isnan(figures).any(axis=1)])


def _budgets(budgets: Sequence[int]) -> dict[str, list[str]]:
    return {"budget": [f"{budget:,}" for budget in budgets]} if budgets else {}


def _cells(form: str, values: NDArray[Any], intervals: Floats | None = None) -> list[str]:
    if intervals is None:
        return [format(value, form) for value in values]
    return [
        f"{value:{form}} [{low:{form}}, {high:{form}}]"
        for value, (low, high) in zip(values, intervals, strict=True)
    ]
