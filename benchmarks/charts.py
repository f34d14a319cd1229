"""The plots of quality.py and summary.py."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MultipleLocator

from langchain_rse.evaluation import Report
from langchain_rse.explaining import plots
from langchain_rse.explaining.colors import DARK, LIGHT
from langchain_rse.explaining.plots import THOUSANDS, budgets_axis

Penalties = tuple[Mapping[float, Report], Mapping[str, Report]]

# The alternatives that are drawn; the tables have all of them.
OTHERS: dict[str, dict[str, Any]] = {
    "top-k chunks": {"color": LIGHT.chunk, "marker": "s", "linestyle": "-"},
    "each hit ±1": {"color": "#374151", "marker": "^", "linestyle": "-"},
    "parent of 3 chunks": {"color": "#9ca3af", "marker": "v", "linestyle": "--"},
    "dsrag-balanced, identity": {"color": "#6b7280", "marker": "D", "linestyle": "--"},
    "kadane": {"color": "#a3a3a3", "marker": "x", "linestyle": ":"},
}
_MOST_COLUMNS = 4
SMALL: Any = {"font.size": 9, "lines.linewidth": 1.2, "lines.markersize": 3.5}
STYLE: Any = {**plots.STYLE, "lines.linewidth": 1.4, "lines.markersize": 5}


def draw_recall(
    folders: Mapping[str, Mapping[str, Report]], ours: str, title: str, file: Path
) -> None:
    """Evidence recall against the budget, a panel for each folder.

    Args:
        folders: By folder, the reports by method.
        ours: The method that stands out.
        title: What the figure is of.
        file: The PNG to write.
    """
    with mpl.rc_context(STYLE):
        columns = min(len(folders), _MOST_COLUMNS)
        figure, rows = new_figure(-(-len(folders) // columns), columns)
        panels = [panel for row in rows for panel in row]
        for unused in panels[len(folders) :]:
            unused.set_axis_off()
        for panel, (name, reports) in zip(panels, folders.items(), strict=False):
            for label, style in OTHERS.items():
                if label in reports:
                    report = reports[label]
                    panel.plot(report.budgets, report.mean("recall"), label=label, **style)
            report = reports[ours]
            panel.plot(
                report.budgets,
                report.mean("recall"),
                label=ours,
                color=LIGHT.segment,
                marker="o",
                linewidth=2.6,
                markersize=7,
                zorder=5,
            )
            budgets_axis(panel, report.budgets)
            panel.set_title(f"{name}, {len(report.questions)} questions", loc="left")
            panel.set_ylim(bottom=0)
            panel.set_xlabel("budget, characters (log)")
        for row in rows:
            row[0].set_ylabel("evidence recall")
        finish(figure, panels, f"Evidence recall at equal budgets, {title}", file)


# Of draw_sets: the methods that the picture has room for, their names in it, and their colors on
# light and on dark ground.
SETS_OTHERS: dict[str, tuple[str, dict[str, Any], tuple[str, str]]] = {
    "top-k chunks": ("top-k chunks", {"marker": "s"}, (LIGHT.chunk, DARK.chunk)),
    "words": ("BM25", {"marker": "^"}, ("#374151", "#d1d5db")),
    "ensemble ±1": (
        "BM25 and vectors, ±1 chunk",
        {"marker": "D", "linestyle": "--"},
        ("#6b7280", "#9ca3af"),
    ),
}


def draw_sets(
    sets: Mapping[str, Mapping[str, Report]], ours: str, title: str, file: Path, *, dark: bool
) -> None:
    """Evidence recall against the budget, a small panel for each set, two beside each other.

    Two panels of this size are as wide as a phone's screen, and their text can be read there.

    Args:
        sets: By set, the reports by method.
        ours: The method that stands out.
        title: What the figure is of.
        file: The PNG to write.
        dark: True for a dark background.
    """
    rows = -(-len(sets) // 2)
    with plots.style(dark=dark), mpl.rc_context({**SMALL, "axes.titlelocation": "left"}):
        figure = Figure(figsize=(4.6, 1.55 * rows + 1.0), dpi=200, layout="constrained")
        panels = figure.subplots(rows, 2, squeeze=False).ravel()
        for panel, (name, reports) in zip(panels, sets.items(), strict=False):
            draw_set(panel, reports, ours, dark=dark)
            panel.set_title(name)
        for panel in panels[len(sets) :]:
            panel.set_axis_off()
        plots.add_legend(figure, panels[: len(sets)], title, columns=2)
        figure.savefig(file, metadata={"Software": None})


def draw_set(panel: Axes, reports: Mapping[str, Report], ours: str, *, dark: bool) -> None:
    """The recall of a few methods on one set."""
    for method, (label, style, colors) in SETS_OTHERS.items():
        if method in reports:
            report = reports[method]
            means = report.mean("recall")
            panel.plot(report.budgets, means, label=label, color=colors[dark], **style)
    report = reports[ours]
    panel.plot(
        report.budgets,
        report.mean("recall"),
        label=ours,
        color=plots.colors_of(dark=dark).segment,
        marker="o",
        linewidth=2.2,
        markersize=5,
        zorder=5,
    )
    budgets_axis(panel, report.budgets)
    panel.set_ylim(0, 1.08 * panel.dataLim.y1)
    panel.margins(x=0.12)


def draw_penalties(
    folders: Mapping[str, Penalties], labels: tuple[str, str], title: str, file: Path
) -> None:
    """Recall and IoU against the characters that penalties return, a column for each folder.

    Args:
        folders: By folder, ours by penalty, and what ours and top-k chunks return under the
            ceiling.
        labels: The names of ours and of top-k chunks there.
        title: What the figure is of.
        file: The PNG to write.
    """
    ours, top_k = labels
    with mpl.rc_context(STYLE):
        figure, rows = new_figure(2, len(folders))
        for row, (metric, name) in zip(
            rows, {"recall": "evidence recall", "iou": "IoU"}.items(), strict=True
        ):
            for panel, (folder, (penalties, stopped)) in zip(row, folders.items(), strict=True):
                panel.plot(
                    [mean(report, "characters") for report in penalties.values()],
                    [mean(report, metric) for report in penalties.values()],
                    color=LIGHT.segment,
                    marker="o",
                    linewidth=2.6,
                    label=f"{ours}, by penalty (the numbers)",
                )
                panel.plot(
                    mean(stopped[ours], "characters"),
                    mean(stopped[ours], metric),
                    color=LIGHT.segment,
                    marker="o",
                    markersize=13,
                    markeredgewidth=2,
                    fillstyle="none",
                    linestyle="none",
                    label=f"{ours}, default penalty",
                )
                panel.plot(
                    mean(stopped[top_k], "characters"),
                    mean(stopped[top_k], metric),
                    **{**OTHERS[top_k], "linestyle": "none", "markersize": 8},
                    label=top_k,
                )
                write_penalties(panel, penalties, metric)
                panel.set_xlim(left=0)
                # Room for what is written above the points.
                panel.set_ylim(0, 1.14 * panel.dataLim.y1)
                panel.xaxis.set_major_locator(MultipleLocator(4000))
                panel.xaxis.set_major_formatter(THOUSANDS)
                panel.set_title(folder, loc="left")
                panel.set_xlabel("characters returned, mean")
                panel.set_ylabel(f"{name}, mean")
        finish(figure, rows[0], f"What the penalty returns under a ceiling, {title}", file)


def mean(report: Report, metric: str) -> float:
    """The mean at the only budget."""
    return float(report.mean(metric)[0])


def write_penalties(panel: Axes, penalties: Mapping[float, Report], metric: str) -> None:
    """Write penalties beside the points of the curve, where there is room."""
    spent = [mean(report, "characters") for report in penalties.values()]
    room = 0.07 * max(spent)
    last: float | None = None
    for (penalty, report), place in zip(penalties.items(), spent, strict=True):
        if last is None or abs(last - place) >= room:
            panel.annotate(
                f"{penalty:g}",
                (place, mean(report, metric)),
                # On the side that the curve, rising or falling, leaves free.
                xytext=(-3, 8) if metric == "recall" else (5, 6),
                textcoords="offset points",
                ha="right" if metric == "recall" else "left",
                fontsize=8,
                color=LIGHT.segment,
            )
            last = place


def new_figure(rows: int, columns: int) -> tuple[Figure, list[list[Axes]]]:
    """A figure with rows of panels."""
    width = 5.2 if columns <= 2 else 3.0  # so that many panels stay readable on a page
    figure = Figure(figsize=(width * columns, 3.8 * rows + 1.2), dpi=150, layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False)
    return figure, [list(row) for row in panels]


def finish(figure: Figure, panels: list[Axes], title: str, file: Path) -> None:
    """Title, one legend for all panels above them, and the file."""
    title = plots.wrapped(title, figure.get_figwidth())
    plots.add_legend(figure, panels, title, columns=min(1 + len(panels), 3))
    figure.savefig(file, metadata={"Software": None})
