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
from numpy.typing import ArrayLike, NDArray

from langchain_rse._messages import counted, first_few, visible
from langchain_rse.engine import Floats
from langchain_rse.explaining.trace import RSETrace, TracedDocument

# Okabe and Ito's colors, which color-blind people can tell apart.
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#7f7f7f")
_MARK, _PENALTY, _SEGMENT = COLORS[1], COLORS[3], "#f0e442"
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
    return matplotlib.style.context([STYLE, *["dark_background"] * dark])


def plot_trace(
    trace: RSETrace,
    documents: int | str | Sequence[str],
    limits: tuple[int | None, int | None],
    *,
    ax: Axes | None,
    dark: bool,
) -> Figure:
    """See `RSETrace.plot`."""
    by_id = {one.doc_id: one for one in trace.documents}
    if isinstance(documents, int):
        documents = list(by_id)[:documents]
    names = [documents] if isinstance(documents, str) else documents
    if unknown := [name for name in names if name not in by_id]:
        some = first_few(map(repr, by_id))
        raise ValueError(f"documents has {unknown[0]!r}, without candidates; some with: {some}")
    shown = [by_id[name] for name in names]
    with style(dark=dark):
        if ax is not None:
            for document in shown[:1]:
                _panel(ax, trace, document, limits)
            return ax.get_figure(root=True) or Figure()
        rows = max(len(shown), 1)
        figure = Picture(9.0, 2.1 * rows + 1.3)
        panels = figure.subplots(rows, 1, squeeze=False)[:, 0]
        for panel, document in zip(panels, shown, strict=False):
            _panel(panel, trace, document, limits)
        if not shown:
            panels[0].set_title(_line(trace.reason or "no candidates"))
        figure.suptitle(_line(trace.query)[:_TITLE], x=0.01, ha="left", fontweight="bold")
        rest = len(trace.documents) - len(shown)
        panels[-1].set_xlabel(
            f"chunk ({counted(rest, 'document')} more, not shown)" if rest else "chunk"
        )
        handles = {h.get_label(): h for ax in panels for h in ax.get_legend_handles_labels()[0]}
        figure.legend(handles=list(handles.values()), loc="outside lower left", ncols=3)
    return figure


def _line(text: str) -> str:
    return " ".join(visible(text).split())


def _panel(
    ax: Axes, trace: RSETrace, document: TracedDocument, limits: tuple[int | None, int | None]
) -> None:
    """The chunks of a document along its text."""
    first, last = document.chunks[0].index, document.chunks[-1].index
    for segment in trace.segments:
        if segment.returned and segment.doc_id == document.doc_id:
            # With an edge, since the area can be thinner than a line.
            edges = segment.chunk_start - 0.5, segment.chunk_end - 0.5
            ax.axvspan(*edges, color=_SEGMENT, alpha=0.4, linewidth=1, label="returned segment")
    credited = np.full(last + 1 - first, np.nan)  # not between two windows
    for chunk in document.chunks:
        if chunk.weight:
            credited[chunk.index - first] = chunk.credited
    places = np.arange(first, last + 2) - 0.5
    ax.stairs(credited, places, baseline=None, color="C0", label="with credit of its neighbors")
    found = [one for one in document.chunks if one.is_candidate]
    x, y = [one.index for one in found], [one.relevance for one in found]
    fill = [_MARK if one.weight else "none" for one in found]
    label = "relevance of a candidate (hollow: not considered)"
    ax.vlines(x, 0, y, color=_MARK, linewidth=1, alpha=0.6)
    ax.scatter(x, y, s=20, facecolors=fill, edgecolors=_MARK, zorder=3, label=label)
    penalty = trace.settings["irrelevant_chunk_penalty"]
    ax.axhline(penalty, color=_PENALTY, linestyle="--", label=f"penalty {penalty:g}")
    if trace.penalty is not None and trace.penalty > penalty:
        ax.axhline(trace.penalty, color=_PENALTY, linestyle=":", label="worth the short budget")
    low, high = (first if limits[0] is None else limits[0]), limits[1] or last + 1
    ax.set(xlim=(low - 0.6, high - 0.4), ylim=(0, 1.05), ylabel="relevance")
    ax.xaxis.set_major_locator(MaxNLocator(10, integer=True, min_n_ticks=1))
    ax.xaxis.set_major_formatter(THOUSANDS)
    why = _line(f": {document.reason}")[:_TITLE] if document.reason else ""
    ax.set_title(f"{_line(document.name)[-_TITLE:]}{why}")


def plot_curves(
    curves: Sequence[tuple[str, Sequence[float], ArrayLike, ArrayLike]], metric: str, *, dark: bool
) -> Figure:
    """See `Report.plot`: for each report its name, budgets, means and their intervals."""
    with style(dark=dark):
        figure = Picture(6.4, 4.2)
        panel = figure.subplots()
        for name, budgets, means, intervals in curves:
            (line,) = panel.plot(budgets, means, marker="o", label=_line(name)[:_TITLE])
            ends = np.transpose(intervals)
            panel.fill_between(budgets, *ends, color=line.get_color(), alpha=0.15, linewidth=0)
        budgets_axis(panel, sorted({budget for curve in curves for budget in curve[1]}))
        panel.set(xlabel="budget, characters (log)", ylabel=f"{metric}, mean and 95 % interval")
        figure.legend(loc="outside lower left")
    return figure


def plot_shares(edges: Floats, shares: Floats, counts: NDArray[np.int64], *, dark: bool) -> Figure:
    """See `Reliability.plot`: the share of relevant candidates in each range, and their number."""
    with style(dark=dark):
        figure = Picture(6.4, 4.6)
        panel, below = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
        panel.plot([0, 1], [0, 1], color=COLORS[-1], linestyle=":", label="as relevance says")
        panel.plot((edges[:-1] + edges[1:]) / 2, shares, color=_MARK, marker="o", label="measured")
        panel.set(ylim=(0, 1.03), xlim=(0, 1), ylabel="share that holds evidence")
        panel.legend(loc="upper left")
        below.stairs(counts, edges, fill=True)
        below.set(xlabel="relevance of candidates", ylabel="candidates", yscale="symlog")
        below.yaxis.set_major_formatter(THOUSANDS)
    return figure


def budgets_axis(panel: Axes, budgets: Sequence[float]) -> None:
    """Make the horizontal axis logarithmic, with the budgets as ticks."""
    panel.set(xscale="log", xticks=budgets)
    panel.xaxis.set_major_formatter(THOUSANDS)
    panel.minorticks_off()
