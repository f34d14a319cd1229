"""Tables, intervals, and the chart of summary.py."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from langchain_rse.evaluation import Report
from langchain_rse.explaining import plots
from langchain_rse.explaining.colors import DARK, LIGHT
from langchain_rse.explaining.plots import budgets_axis

OURS = "langchain-rse"
TOP_K = "top-k chunks"

RESAMPLES = 2_000
SEED = 0
SMALL: Any = {"font.size": 9, "lines.linewidth": 1.2, "lines.markersize": 3.5}

Cells = list[str]


def write_page(folder: Path, stem: str, lines: Iterable[str]) -> None:
    """Print a page and write it to a folder."""
    text = "\n".join(lines)
    print(text)
    (folder / f"{stem}.md").write_text(text + "\n", encoding="utf-8")


def difference(ours: Sequence[Report], others: Sequence[Report], metric: str) -> str:
    """The mean difference over all cells with its paired bootstrap interval.

    The questions of each dataset are resampled, the same ones for both and for all budgets.
    """
    rng = np.random.default_rng(SEED)
    cells, drawn = [], []
    for our, other in zip(ours, others, strict=True):
        differences = our.figures[metric] - other.figures[metric]
        count = len(differences)
        draws = rng.multinomial(count, np.full(count, 1 / count), RESAMPLES)
        cells.append(differences.mean(axis=0))
        drawn.append(draws @ differences / count)
    low, high = np.quantile(np.concatenate(drawn, axis=1).mean(axis=1), [0.025, 0.975])
    return f"{np.concatenate(cells).mean():+.3f} [{low:+.3f}, {high:+.3f}]"


def table(header: Cells, rows: Sequence[Cells], left: int = 1) -> list[str]:
    """A Markdown table, aligned also as plain text; the first ``left`` columns align left."""
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    rule = ["-" * w if i < left else "-" * (w - 1) + ":" for i, w in enumerate(widths)]
    lines = [
        [
            c.ljust(w) if i < left else c.rjust(w)
            for i, (c, w) in enumerate(zip(r, widths, strict=True))
        ]
        for r in (header, rule, *rows)
    ]
    return [f"| {' | '.join(line)} |" for line in lines] + [""]


# Methods that draw_sets shows, with their labels, styles, and colors on a light and a dark
# background.
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
    """Draw evidence recall by budget: a small panel for each dataset, in two columns.

    Two panels are as wide as a phone's screen, and their text is legible there.

    Args:
        sets: The reports by dataset and method.
        ours: The method to highlight.
        title: The title of the figure.
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
    """Draw the recall of a few methods on one dataset."""
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
        color=plots.colors_of(dark=dark).passage,
        marker="o",
        linewidth=2.2,
        markersize=5,
        zorder=5,
    )
    budgets_axis(panel, report.budgets)
    panel.set_ylim(0, 1.08 * panel.dataLim.y1)
    panel.margins(x=0.12)
