"""Plots of a trace and of reports. Needs matplotlib: the extra ``plot``."""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, fontManager, get_font
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator
from numpy.typing import ArrayLike, NDArray

from langchain_rse._messages import visible
from langchain_rse.engine import Floats
from langchain_rse.explaining.trace import RSETrace, TracedDocument

# Okabe and Ito's colors, which color-blind people can tell apart, and what goes with them.
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#7f7f7f")
_LIGHT = {"back": "#ffffff", "ink": "#1f2937", "grid": "#e5e7eb", "band": "#f0e442"}
_DARK = {"back": "#16181d", "ink": "#e5e7eb", "grid": "#343a46", "band": "#8a7f1d"}
_LINE, _MARK, _PENALTY = {False: COLORS[0], True: COLORS[4]}, COLORS[1], COLORS[3]
_MARKERS = "os^Dv<>"
# Documents that have a panel if nothing is said, and at most; and characters of a title.
_PANELS, _MOST_PANELS, _TITLE = 4, 100, 50
# Up to so many candidates are drawn large.
_LARGE = 60
THOUSANDS = FuncFormatter(lambda value, _: f"{value:,.0f}")


class Picture(Figure):
    """A figure that notebooks show, and that keeps no state anywhere else."""

    def _repr_png_(self) -> bytes:
        file = io.BytesIO()
        self.savefig(file, format="png")
        return file.getvalue()


def style(*, dark: bool = False) -> Any:  # noqa: ANN401 - matplotlib's own type is a Literal
    """What all plots have in common, for ``matplotlib.rc_context``."""
    tone = _DARK if dark else _LIGHT
    return {
        "figure.facecolor": tone["back"],
        "axes.facecolor": tone["back"],
        "savefig.facecolor": "auto",
        **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor"), tone["ink"]),
        **dict.fromkeys(("xtick.color", "ytick.color"), tone["ink"]),
        "grid.color": tone["grid"],
        "axes.grid": True,
        "axes.axisbelow": True,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "font.family": _families()[0],
        "font.size": 10,
        "text.parse_math": False,
    }


def plot_trace(
    trace: RSETrace,
    documents: int | str | Sequence[str] | None,
    start: int | None,
    end: int | None,
    *,
    ax: Axes | None,
    figsize: tuple[float, float] | None,
    dark: bool,
) -> Figure:
    """See `RSETrace.plot`."""
    shown = _chosen(trace, _PANELS if ax is None and documents is None else documents, ax)
    with mpl.rc_context(style(dark=dark)):
        if ax is not None:
            _panel(ax, trace, shown[0], (start, end), dark=dark)
            return ax.get_figure(root=True) or Figure()
        rows = max(len(shown), 1)
        size = figsize or (9.0, 2.1 * rows + 1.3)
        figure = Picture(figsize=size, dpi=110, layout="constrained")
        panels = [row[0] for row in figure.subplots(rows, 1, squeeze=False)]
        for panel, document in zip(panels, shown, strict=False):
            _panel(panel, trace, document, (start, end), dark=dark)
        if not shown:
            panels[0].set_axis_off()
            panels[0].text(0.5, 0.5, drawable(trace.reason or "no candidates"), ha="center")
        figure.suptitle(drawable(trace.query), x=0.01, ha="left", fontweight="bold")
        panels[-1].set_xlabel("chunk")
        handles = {
            h.get_label(): h for panel in panels for h in panel.get_legend_handles_labels()[0]
        }
        rest = len(trace.documents) - len(shown)
        note = f"{rest} more documents with candidates are not shown" if rest else None
        if handles or note:
            figure.legend(
                handles=list(handles.values()),
                loc="outside lower left",
                ncols=4,
                frameon=False,
                title=note,
                alignment="left",
                title_fontsize="small",
            )
    return figure


def _chosen(
    trace: RSETrace, documents: int | str | Sequence[str] | None, ax: Axes | None
) -> list[TracedDocument]:
    """The documents that get a panel."""
    by_id = {one.doc_id: one for one in trace.documents}
    if documents is None:
        documents = 1
    if isinstance(documents, int):
        chosen = list(trace.documents[:documents])
    else:
        names = [documents] if isinstance(documents, str) else documents
        if unknown := [name for name in names if name not in by_id]:
            raise ValueError(
                f"documents has {unknown[0]!r}, which has no candidate; those that have: "
                f"{', '.join(map(repr, list(by_id)[:5]))}"
            )
        chosen = [by_id[name] for name in names]
    if len(chosen) > _MOST_PANELS or (ax is not None and len(chosen) != 1):
        most = f"at most {_MOST_PANELS}" if ax is None else "exactly 1, with ax"
        raise ValueError(f"documents gives {len(chosen)} documents, of which {most} can be drawn")
    return chosen


def _panel(
    ax: Axes,
    trace: RSETrace,
    document: TracedDocument,
    limits: tuple[int | None, int | None],
    *,
    dark: bool,
) -> None:
    """The chunks of a document along its text."""
    first, last = document.chunks[0].index, document.chunks[-1].index
    low = first if limits[0] is None else limits[0]
    high = last + 1 if limits[1] is None else limits[1]
    if low >= high:
        raise ValueError(f"start must be below end, both numbers of chunks; got {low} and {high}")
    tone = _DARK if dark else _LIGHT
    for segment in trace.segments:
        if segment.returned and segment.doc_id == document.doc_id:
            ax.axvspan(
                segment.chunk_start - 0.5,
                segment.chunk_end - 0.5,
                color=tone["band"],
                alpha=0.55,
                linewidth=0,
                label="returned segment",
            )
            middle = (segment.chunk_start + segment.chunk_end - 1) / 2
            if low <= middle < high:  # seen where a segment is thinner than a line
                ax.plot(middle, 1.05, "v", color=tone["ink"], markersize=5, clip_on=False)
    _draw_chunks(ax, document, low, high, dark=dark)
    penalty = trace.settings["irrelevant_chunk_penalty"]
    ax.axhline(penalty, color=_PENALTY, linestyle="--", label=f"penalty {penalty:g}")
    if trace.penalty is not None and trace.penalty > penalty:
        ax.axhline(trace.penalty, color=_PENALTY, linestyle=":", label="worth the short budget")
    ax.set(xlim=(low - 0.6, high - 0.4), ylim=(0, 1.05), ylabel="relevance")
    ax.xaxis.set_major_locator(MaxNLocator(10, integer=True, min_n_ticks=1))
    ax.xaxis.set_major_formatter(THOUSANDS)
    total = document.chunk_count
    count = f", {total:,} chunk{'s' * (total > 1)}" if total else ""
    why = f": {document.reason}" if document.reason else ""
    name = drawable(document.name, keep_end=True)
    ax.set_title(f"{name}{count}{drawable(why)}", loc="left", fontsize="medium")


def _draw_chunks(ax: Axes, document: TracedDocument, low: int, high: int, *, dark: bool) -> None:
    """Relevance with the credit of neighbors as a line, candidates as points."""
    seen = [chunk for chunk in document.chunks if chunk.weight]
    # The chunks between two windows were not looked at: the line ends there.
    places = np.repeat([float(chunk.index) for chunk in seen], 2)
    places += np.tile([-0.5, 0.5], len(seen))
    gaps = np.flatnonzero(np.diff(places) > 1) + 1
    line = np.insert(np.repeat([chunk.credited for chunk in seen], 2), gaps, np.nan)
    places = np.insert(places, gaps, np.nan)
    ax.plot(places, line, color=_LINE[dark], linewidth=1.6, label="with credit of its neighbors")
    found = [one for one in document.chunks if one.is_candidate and low <= one.index < high]
    size = 30.0 if len(found) <= _LARGE else 12.0
    for some, fill, label in (
        ([chunk for chunk in found if chunk.weight], _MARK, "relevance of a candidate"),
        ([chunk for chunk in found if not chunk.weight], "none", "candidate not considered"),
    ):
        if some:
            x, y = [chunk.index for chunk in some], [chunk.relevance for chunk in some]
            ax.vlines(x, 0, y, color=_MARK, linewidth=1, alpha=0.6)
            ax.scatter(
                x,
                y,
                s=size,
                facecolors=fill,
                edgecolors=_MARK,
                zorder=3,
                label=label,
                clip_on=False,
            )


def plot_curves(
    curves: Sequence[tuple[str, Sequence[float], ArrayLike, ArrayLike]], metric: str, *, dark: bool
) -> Figure:
    """See `Report.plot`: by report its name, budgets, means and their intervals."""
    with mpl.rc_context(style(dark=dark)):
        figure = Picture(figsize=(6.4, 4.2), dpi=110, layout="constrained")
        panel = figure.subplots()
        for number, (name, budgets, means, intervals) in enumerate(curves):
            color = COLORS[number % len(COLORS)]
            marker = _MARKERS[number % len(_MARKERS)]
            panel.plot(budgets, means, color=color, marker=marker, label=drawable(name))
            panel.fill_between(
                budgets, *np.transpose(intervals), color=color, alpha=0.15, linewidth=0
            )
        budgets_axis(panel, sorted({budget for curve in curves for budget in curve[1]}))
        panel.set(xlabel="budget, characters (log)", ylabel=f"{metric}, mean and 95 % interval")
        columns = 2 if max(len(curve[0]) for curve in curves) <= _TITLE // 2 else 1
        figure.legend(loc="outside lower left", ncols=columns, frameon=False)
    return figure


def plot_shares(edges: Floats, shares: Floats, counts: NDArray[np.int64], *, dark: bool) -> Figure:
    """See `Reliability.plot`: the share of relevant candidates in each range, and their number."""
    with mpl.rc_context(style(dark=dark)):
        figure = Picture(figsize=(6.4, 4.6), dpi=110, layout="constrained")
        panel, below = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
        middle = (edges[:-1] + edges[1:]) / 2
        panel.plot([0, 1], [0, 1], color=COLORS[-1], linestyle=":", label="as relevance says")
        panel.plot(middle, shares, color=_MARK, marker="o", label="measured")
        panel.set(ylim=(0, 1.03), xlim=(0, 1), ylabel="share that holds evidence")
        panel.legend(loc="upper left", frameon=False)
        below.bar(middle, counts, width=0.9 * np.diff(edges), color=_LINE[dark])
        below.set(xlabel="relevance of candidates", ylabel="candidates")
        if counts.any():
            below.set_yscale("log")
            below.set_ylim(0.8, 2 * counts.max() + 1)
        below.yaxis.set_major_formatter(THOUSANDS)
    return figure


def budgets_axis(panel: Axes, budgets: Sequence[float]) -> None:
    """A logarithmic axis with the budgets on it."""
    panel.set_xscale("log")
    panel.xaxis.set_major_locator(FixedLocator(list(budgets)))
    panel.xaxis.set_minor_locator(NullLocator())
    panel.xaxis.set_major_formatter(THOUSANDS)


# Fonts that have what matplotlib's own lacks, where they are installed.
_FONTS = (
    *("Noto Sans CJK SC", "Noto Sans CJK JP", "Microsoft YaHei", "PingFang SC", "Hiragino Sans"),
    *("WenQuanYi Micro Hei", "Arial Unicode MS", "Noto Sans", "Noto Sans Devanagari", "Unifont"),
)


@lru_cache(maxsize=1)
def _families() -> tuple[list[str], frozenset[int]]:
    """The fonts that text is written in, and the characters that they have."""
    installed = {font.name for font in fontManager.ttflist}
    families = ["DejaVu Sans", *(name for name in _FONTS if name in installed)]
    codes = (get_font(findfont(FontProperties(family=[name]))).get_charmap() for name in families)
    return families, frozenset().union(*codes)


def drawable(text: str, *, keep_end: bool = False) -> str:
    """The beginning or end of a text, with boxes for characters that no font has."""
    known = _families()[1]
    line = " ".join(visible(text).split())
    if len(line) > _TITLE:
        line = f"...{line[-_TITLE:]}" if keep_end else f"{line[:_TITLE]}..."
    return "".join(one if ord(one) in known else "\u25a1" for one in line)
