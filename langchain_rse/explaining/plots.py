"""Plots of traces, score floors and evaluation reports. Needs matplotlib: the extra ``plot``."""

from __future__ import annotations

import base64
import io
import textwrap
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

import matplotlib as mpl
import matplotlib.style
import numpy as np
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike

from langchain_rse.explaining.colors import DARK, LIGHT, Colors
from langchain_rse.explaining.traces import DocumentTrace, RSETrace
from langchain_rse.text.quoting import counted, first_few, visible
from langchain_rse.text.ranges import format_range

STYLE: Any = {
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": "medium",
    "font.size": 10,
    "grid.alpha": 0.3,
    "grid.color": "#8c8c8c",
    "legend.frameon": False,
    "text.parse_math": False,
}
THOUSANDS = "{x:,.0f}"
_NEAR = 0.5  # of the penalty: the relevance of a document that is shown
_LONGEST_TITLE = 400  # characters
_LETTERS_PER_INCH = 11  # of titles
_LINE_HEIGHT = 0.18  # of a title, in inches
_WIDTH = 9.0  # of a trace's figure, in inches
_CHUNKS = "chunk number"
_MOST_DESCRIBED = 20  # chunk ranges of a document in an alternative text
_DARK_BELOW = 0.5  # brightness of a background
# Labels of metrics that need more than their name.
_UNITS = {
    "recall": "recall (share of the evidence)",
    "whole": "whole evidence (share of its parts)",
    "precision": "precision (share of the text)",
    "iou": "intersection over union (0 to 1)",
    "passages": "number of passages",
}

Limits = tuple[int | None, int | None]
"""The first chunk number to show, and the number after the last; None: those of the document."""


class Picture(Figure):
    """A figure that notebooks show with its alternative text, without matplotlib's global state.

    Attributes:
        alt: The alternative text.
    """

    def __init__(self, width: float, height: float) -> None:
        super().__init__(figsize=(width, height), dpi=110, layout="constrained")
        self.alt = ""

    def _repr_mimebundle_(
        self, include: object = None, exclude: object = None
    ) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
        del include, exclude
        file = io.BytesIO()
        self.savefig(file, format="png", metadata={"Description": self.alt})
        data = {
            "image/png": base64.b64encode(file.getvalue()).decode(),
            "text/plain": self.alt or repr(self),
        }
        return data, {"image/png": {"alt": self.alt}}


def is_dark(color: Any = None) -> bool:  # noqa: ANN401 - any color of matplotlib
    """True for a dark color; by default, the background of matplotlib's style."""
    red, green, blue = to_rgb(mpl.rcParams["figure.facecolor"] if color is None else color)
    return (red + green + blue) / 3 < _DARK_BELOW


def style(*, dark: bool) -> Any:  # noqa: ANN401 - a context manager
    """The style of all plots."""
    colors = colors_of(dark=dark)
    cycle = cycler(color=(colors.passage, colors.chunk, *colors.others))
    styles: list[Any] = [STYLE, {"axes.prop_cycle": cycle}]
    dark_style = matplotlib.style.library["dark_background"]
    if is_dark() and not dark:
        styles = [{name: mpl.rcParamsDefault[name] for name in dark_style}, *styles]
    elif dark:
        places = ("figure.facecolor", "axes.facecolor", "savefig.facecolor")
        styles = [dark_style, *styles, dict.fromkeys(places, colors.background)]
    return matplotlib.style.context(styles)


def colors_of(*, dark: bool) -> Colors:
    """The colors of all plots."""
    return DARK if dark else LIGHT


def plot_trace(
    trace: RSETrace,
    documents: int | str | Sequence[str],
    limits: Limits,
    *,
    ax: Axes | None,
    dark: bool | None,
) -> Figure:
    """See `RSETrace.plot`."""
    if dark is None:
        dark = is_dark(None if ax is None else ax.get_facecolor())
    shown = _find_documents(trace, documents)
    with style(dark=dark):
        colors = colors_of(dark=dark)
        if ax is None:
            return _new_figure(trace, shown, limits, colors)
        if shown:
            _draw_document(ax, trace, shown[0], limits, colors)
        return ax.get_figure(root=True) or Figure()


def _find_documents(trace: RSETrace, documents: int | str | Sequence[str]) -> list[DocumentTrace]:
    """Documents of the answer and others near the penalty; or the documents with these ids."""
    if isinstance(documents, int):
        near = [document for document in trace.documents if _is_near(trace, document)]
        answered = [document for document in trace.documents if document.returned]
        shown = {document.doc_id: document for document in [*answered, *near]}
        return list(shown.values() or trace.documents[:1])[:documents]
    doc_ids = [documents] if isinstance(documents, str) else documents
    by_id = {document.doc_id: document for document in trace.documents}
    for doc_id in doc_ids:
        if doc_id not in by_id:
            examples = first_few(map(repr, by_id))
            raise ValueError(
                f"documents: {doc_id!r} has no candidates. Documents with candidates: {examples}"
            )
    return [by_id[doc_id] for doc_id in doc_ids]


def _is_near(trace: RSETrace, document: DocumentTrace) -> bool:
    """True if the relevance of a chunk that the solver considered is near the penalty."""
    highest = max((chunk.credited for chunk in document.chunks if chunk.weight), default=-1.0)
    return highest >= _NEAR * trace.settings.penalty


def _new_figure(
    trace: RSETrace, documents: Sequence[DocumentTrace], limits: Limits, colors: Colors
) -> Figure:
    """A figure with a panel for each document."""
    rows = max(len(documents), 1)
    title = wrapped(trace.query, _WIDTH)
    figure = Picture(_WIDTH, 2.2 * rows + 1.1 + _LINE_HEIGHT * title.count("\n"))
    panels = figure.subplots(rows, 1, squeeze=False)[:, 0]
    for panel, document in zip(panels, documents, strict=False):
        _draw_document(panel, trace, document, limits, colors)
    if not documents:
        panels[0].set_title(wrapped(trace.reason or "no candidates", _WIDTH - 1))
    not_shown = len(trace.documents) - len(documents)
    if not_shown:
        panels[-1].set_xlabel(f"{_CHUNKS} ({counted(not_shown, 'more document')} not shown)")
    add_legend(figure, panels, title, columns=2)
    figure.alt = _describe(trace, documents)
    return figure


def _describe(trace: RSETrace, documents: Sequence[DocumentTrace]) -> str:
    """The alternative text of a trace's figure."""
    lines = [f"Relevance by chunk for the query {_in_one_line(trace.query)!r}."]
    for document in documents:
        ranges = [format_range(passage.start, passage.end - 1) for _, passage in document.returned]
        returned = first_few(ranges, _MOST_DESCRIBED) or "none"
        name = _in_one_line(trace.short_names[document.name])
        lines.append(f"{name}: returned chunks: {returned}.")
    lines.append(f"Penalty: {trace.settings.penalty:g}.")
    return " ".join(lines)


def add_legend(figure: Figure, panels: Iterable[Axes], title: str, columns: int) -> None:
    """Put a title and one legend for all panels above the panels."""
    handles_by_label: dict[str, Any] = {}
    for panel in panels:
        handles, labels = panel.get_legend_handles_labels()
        handles_by_label.update(zip(labels, handles, strict=True))
    figure.legend(
        handles=list(handles_by_label.values()),
        loc="outside upper left",
        ncols=columns,
        title=title,
        title_fontproperties={"weight": "bold"},
        alignment="left",
    )


def wrapped(text: str, inches: float) -> str:
    """A title, broken into lines of at most this width."""
    line = _in_one_line(text[:_LONGEST_TITLE])
    if len(text) > _LONGEST_TITLE:
        line += "…"
    letters = int(inches * _LETTERS_PER_INCH)
    if any(unicodedata.east_asian_width(letter) in "WF" for letter in line):
        letters //= 2
    return textwrap.fill(line, letters)


def _in_one_line(text: str) -> str:
    return " ".join(visible(text).split())


def _draw_document(
    ax: Axes, trace: RSETrace, document: DocumentTrace, limits: Limits, colors: Colors
) -> None:
    """Draw the chunks of a document in the order of the text."""
    _draw_passages(ax, document, colors)
    _draw_credited(ax, document, colors)
    _draw_signals(ax, document, colors)
    _draw_candidates(ax, document, colors)
    _draw_penalties(ax, trace, colors)
    first, end = limits
    if first is None:
        first = document.chunks[0].index
    if not end:
        end = document.chunks[-1].index + 1
    ax.set(xlim=(first - 0.6, end - 0.4), ylim=(0, 1.05))
    ax.set(xlabel=_CHUNKS, ylabel="relevance (0 to 1)")
    ax.xaxis.set_major_locator(MaxNLocator(10, integer=True, min_n_ticks=1))
    ax.xaxis.set_major_formatter(THOUSANDS)
    title = trace.short_names[document.name]
    if document.reason:
        title += f": {document.reason}"
    ax.set_title(wrapped(title, _WIDTH - 1))


def _draw_passages(ax: Axes, document: DocumentTrace, colors: Colors) -> None:
    for _, passage in document.returned:
        # The edge keeps thin areas visible.
        ax.axvspan(
            passage.start - 0.5,
            passage.end - 0.5,
            color=colors.passage,
            alpha=0.3,
            linewidth=1,
            label="returned passage",
        )


def _draw_credited(ax: Axes, document: DocumentTrace, colors: Colors) -> None:
    """Draw the relevance including neighbors, for chunks that the solver considered."""
    first = document.chunks[0].index
    last = document.chunks[-1].index
    credited = np.full(last + 1 - first, np.nan)
    for chunk in document.chunks:
        if chunk.weight:
            credited[chunk.index - first] = chunk.credited
    edges = np.arange(first, last + 2) - 0.5
    label = "relevance including neighbors"
    ax.stairs(credited, edges, baseline=None, color=colors.ink, label=label)


def _draw_signals(ax: Axes, document: DocumentTrace, colors: Colors) -> None:
    """Draw the parts of each candidate's relevance as a stack of lines, one for each witness."""
    names: dict[str, None] = {}
    for chunk in document.chunks:
        if chunk.candidate is not None:
            names.update(dict.fromkeys(chunk.candidate.signals))
    bottoms: dict[int, float] = {}
    for number, name in enumerate(names):
        x = []
        y = []
        for chunk in document.chunks:
            signals = {} if chunk.candidate is None else chunk.candidate.signals
            if signals.get(name):
                # The parts add up to the relevance, which the document weight may lower.
                share = signals[name] / sum(signals.values())
                x.append(chunk.index)
                y.append(share * chunk.relevance)
        if x:
            low = [bottoms.get(index, 0.0) for index in x]
            high = [bottom + height for bottom, height in zip(low, y, strict=True)]
            color = colors.others[number % len(colors.others)]
            ax.vlines(x, low, high, color=color, linewidth=3, label=f"from {name}")
            bottoms.update(zip(x, high, strict=True))


def _draw_candidates(ax: Axes, document: DocumentTrace, colors: Colors) -> None:
    x = []
    y = []
    fill = []
    for chunk in document.chunks:
        if chunk.candidate is not None:
            x.append(chunk.index)
            y.append(chunk.relevance)
            fill.append(colors.chunk if chunk.weight else "none")
    label = "relevance of a candidate (hollow: not considered)"
    ax.scatter(x, y, s=20, facecolors=fill, edgecolors=colors.chunk, zorder=3, label=label)


def _draw_penalties(ax: Axes, trace: RSETrace, colors: Colors) -> None:
    penalty = trace.settings.penalty
    ax.axhline(penalty, color=colors.line, linestyle="--", label=f"penalty {penalty:g}")
    if trace.penalty is not None and trace.penalty > penalty:
        label = f"penalty {trace.penalty:.2g}, raised by the budget"
        ax.axhline(trace.penalty, color=colors.line, linestyle=":", label=label)


def plot_curves(
    curves: Sequence[tuple[str, Sequence[float], ArrayLike, ArrayLike]],
    metric: str,
    questions: int,
    *,
    dark: bool | None,
) -> Figure:
    """See `Report.plot`. A curve has a name, budgets, means and intervals of the means."""
    dark = is_dark() if dark is None else dark
    width = 6.4
    names = [wrapped(name, width - 1) for name, *_ in curves]
    lines = sum(1 + name.count("\n") for name in names)
    with style(dark=dark):
        figure = Picture(width, 4.0 + _LINE_HEIGHT * lines)
        panel = figure.subplots()
        all_budgets: set[float] = set()
        for name, (_, budgets, means, intervals) in zip(names, curves, strict=True):
            (line,) = panel.plot(budgets, means, marker="o", label=name)
            low, high = np.transpose(intervals)
            panel.fill_between(budgets, low, high, color=line.get_color(), alpha=0.15, linewidth=0)
            all_budgets.update(budgets)
        budgets_axis(panel, sorted(all_budgets))
        panel.set(xlabel="budget, characters (log)", ylabel=_UNITS.get(metric, metric))
        panel.set_ylim(bottom=0)
        title = f"{metric}: mean of {counted(questions, 'question')}, with 95% interval"
        add_legend(figure, [panel], wrapped(title, width), columns=1)
        descriptions = [f"{title}."]
        for name, budgets, means, _ in curves:
            points = []
            for budget, mean in zip(budgets, np.asarray(means).tolist(), strict=True):
                points.append(f"{mean:.2g} at {budget:,.10g}")
            descriptions.append(f"{_in_one_line(name)}: {', '.join(points)} characters.")
        figure.alt = " ".join(descriptions)
    return figure


def budgets_axis(panel: Axes, budgets: Sequence[float]) -> None:
    """Make the horizontal axis logarithmic, with a tick for each budget."""
    panel.set(xscale="log", xticks=budgets)
    panel.xaxis.set_major_formatter(THOUSANDS)
    panel.minorticks_off()
