"""Plots of a trace and of reports. Needs matplotlib: the extra ``plot``."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import matplotlib.style
import numpy as np
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike

from langchain_rse._messages import counted, first_few, visible
from langchain_rse.explaining.floors import ScoreFloor
from langchain_rse.explaining.trace import RSETrace, TracedDocument

# Okabe and Ito's colors, which color-blind people can tell apart.
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#7f7f7f")
_CANDIDATE = COLORS[1]
_PENALTY = COLORS[3]
_SEGMENT = "#f0e442"
STYLE: Any = {
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.prop_cycle": cycler(color=COLORS),
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": "medium",
    "font.size": 10,
    "grid.alpha": 0.3,
    "legend.frameon": False,
    "text.parse_math": False,
}
THOUSANDS = "{x:,.0f}"
_TITLE = 60  # characters
_BINS = 30

Limits = tuple[int | None, int | None]
"""The first chunk number to show, and the one after the last; None for that of the document."""


class Picture(Figure):
    """A figure that notebooks show, without matplotlib's global state."""

    def __init__(self, width: float, height: float) -> None:
        super().__init__(figsize=(width, height), dpi=110, layout="constrained")

    def _repr_png_(self) -> bytes:
        file = io.BytesIO()
        self.savefig(file, format="png")
        return file.getvalue()


def style(*, dark: bool) -> Any:  # noqa: ANN401 - a context manager
    """The style of all plots."""
    styles = [STYLE]
    if dark:
        styles.append("dark_background")
    return matplotlib.style.context(styles)


def plot_trace(
    trace: RSETrace,
    documents: int | str | Sequence[str],
    limits: Limits,
    *,
    ax: Axes | None,
    dark: bool,
) -> Figure:
    """See `RSETrace.plot`."""
    shown = _find_documents(trace, documents)
    with style(dark=dark):
        if ax is None:
            return _new_figure(trace, shown, limits)
        if shown:
            _draw_document(ax, trace, shown[0], limits)
        return ax.get_figure(root=True) or Figure()


def _find_documents(trace: RSETrace, documents: int | str | Sequence[str]) -> list[TracedDocument]:
    """The first ``documents``, or those with these ids."""
    if isinstance(documents, int):
        return trace.documents[:documents]
    doc_ids = [documents] if isinstance(documents, str) else documents
    by_id = {document.doc_id: document for document in trace.documents}
    for doc_id in doc_ids:
        if doc_id not in by_id:
            examples = first_few(map(repr, by_id))
            raise ValueError(f"documents has {doc_id!r}, without candidates; some with: {examples}")
    return [by_id[doc_id] for doc_id in doc_ids]


def _new_figure(trace: RSETrace, documents: Sequence[TracedDocument], limits: Limits) -> Figure:
    """A figure with a panel for each document."""
    rows = max(len(documents), 1)
    figure = Picture(9.0, 2.1 * rows + 1.3)
    panels = figure.subplots(rows, 1, squeeze=False)[:, 0]
    for panel, document in zip(panels, documents, strict=False):
        _draw_document(panel, trace, document, limits)
    if not documents:
        panels[0].set_title(_in_one_line(trace.reason or "no candidates"))
    figure.suptitle(_in_one_line(trace.query)[:_TITLE], x=0.01, ha="left", fontweight="bold")
    label = "chunk"
    not_shown = len(trace.documents) - len(documents)
    if not_shown:
        label = f"chunk ({counted(not_shown, 'document')} more, not shown)"
    panels[-1].set_xlabel(label)
    handles_by_label: dict[str, Any] = {}
    for panel in panels:
        handles, labels = panel.get_legend_handles_labels()
        handles_by_label.update(zip(labels, handles, strict=True))
    figure.legend(handles=list(handles_by_label.values()), loc="outside lower left", ncols=3)
    return figure


def _in_one_line(text: str) -> str:
    return " ".join(visible(text).split())


def _draw_document(ax: Axes, trace: RSETrace, document: TracedDocument, limits: Limits) -> None:
    """Draw the chunks of a document along its text."""
    _draw_segments(ax, trace, document)
    _draw_credited(ax, document)
    _draw_candidates(ax, document)
    _draw_penalties(ax, trace)
    first, end = limits
    if first is None:
        first = document.chunks[0].index
    if not end:
        end = document.chunks[-1].index + 1
    ax.set(xlim=(first - 0.6, end - 0.4), ylim=(0, 1.05), ylabel="relevance")
    ax.xaxis.set_major_locator(MaxNLocator(10, integer=True, min_n_ticks=1))
    ax.xaxis.set_major_formatter(THOUSANDS)
    title = _in_one_line(document.name)[-_TITLE:]
    if document.reason:
        title += _in_one_line(f": {document.reason}")[:_TITLE]
    ax.set_title(title)


def _draw_segments(ax: Axes, trace: RSETrace, document: TracedDocument) -> None:
    for segment in trace.segments:
        if segment.returned and segment.doc_id == document.doc_id:
            # With an edge, since the area can be thinner than a line.
            ax.axvspan(
                segment.chunk_start - 0.5,
                segment.chunk_end - 0.5,
                color=_SEGMENT,
                alpha=0.4,
                linewidth=1,
                label="returned segment",
            )


def _draw_credited(ax: Axes, document: TracedDocument) -> None:
    """Draw relevance with the credit of neighbors, where the solver saw chunks."""
    first = document.chunks[0].index
    last = document.chunks[-1].index
    credited = np.full(last + 1 - first, np.nan)
    for chunk in document.chunks:
        if chunk.weight:
            credited[chunk.index - first] = chunk.credited
    edges = np.arange(first, last + 2) - 0.5
    ax.stairs(credited, edges, baseline=None, color="C0", label="with credit of its neighbors")


def _draw_candidates(ax: Axes, document: TracedDocument) -> None:
    x = []
    y = []
    fill = []
    for chunk in document.chunks:
        if chunk.is_candidate:
            x.append(chunk.index)
            y.append(chunk.relevance)
            fill.append(_CANDIDATE if chunk.weight else "none")
    label = "relevance of a candidate (hollow: not considered)"
    ax.vlines(x, 0, y, color=_CANDIDATE, linewidth=1, alpha=0.6)
    ax.scatter(x, y, s=20, facecolors=fill, edgecolors=_CANDIDATE, zorder=3, label=label)


def _draw_penalties(ax: Axes, trace: RSETrace) -> None:
    penalty = trace.settings["irrelevant_chunk_penalty"]
    ax.axhline(penalty, color=_PENALTY, linestyle="--", label=f"penalty {penalty:g}")
    if trace.penalty is not None and trace.penalty > penalty:
        ax.axhline(trace.penalty, color=_PENALTY, linestyle=":", label="worth the short budget")


def plot_curves(
    curves: Sequence[tuple[str, Sequence[float], ArrayLike, ArrayLike]], metric: str, *, dark: bool
) -> Figure:
    """See `Report.plot`: for each report its name, budgets, means and their intervals."""
    with style(dark=dark):
        figure = Picture(6.4, 4.2)
        panel = figure.subplots()
        all_budgets: set[float] = set()
        for name, budgets, means, intervals in curves:
            label = _in_one_line(name)[:_TITLE]
            (line,) = panel.plot(budgets, means, marker="o", label=label)
            low, high = np.transpose(intervals)
            panel.fill_between(budgets, low, high, color=line.get_color(), alpha=0.15, linewidth=0)
            all_budgets.update(budgets)
        budgets_axis(panel, sorted(all_budgets))
        panel.set(xlabel="budget, characters (log)", ylabel=f"{metric}, mean and 95 % interval")
        figure.legend(loc="outside lower left")
    return figure


def budgets_axis(panel: Axes, budgets: Sequence[float]) -> None:
    """Make the horizontal axis logarithmic, with the budgets as ticks."""
    panel.set(xscale="log", xticks=budgets)
    panel.xaxis.set_major_formatter(THOUSANDS)
    panel.minorticks_off()


def plot_floor(floor: ScoreFloor, *, dark: bool) -> Figure:
    """See `ScoreFloor.plot`."""
    with style(dark=dark):
        figure = Picture(7.5, 3.6)
        axes = figure.subplots()
        distributions = floor.distributions()
        values = [value for percentiles in distributions.values() for value in percentiles]
        bins = np.linspace(min(values), max(values), _BINS).tolist()
        colors = (COLORS[6], COLORS[0])
        for (name, percentiles), color in zip(distributions.items(), colors, strict=True):
            weights = np.full(len(percentiles), 100 / len(percentiles))
            axes.hist(list(percentiles), bins, weights=weights, alpha=0.65, label=name, color=color)
        axes.axvline(floor.floor, color=_PENALTY, label=f"floor {floor.floor:.3g}")
        axes.set_xlabel("score of the best candidate, with the bonus for words")
        axes.set_ylabel("share of questions, %")
        axes.set_title(_in_one_line(f"{floor.reranker or floor.searcher}: the floor of scores"))
        figure.legend(loc="outside upper left", ncols=3)
    return figure
