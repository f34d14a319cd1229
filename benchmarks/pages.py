"""Tables and intervals of pages of results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from langchain_rse.evaluation import Report

OURS = "langchain-rse"
OURS_ALONE = "langchain-rse, not reranked"
TOP_K = "top-k chunks"

RESAMPLES = 2_000
SEED = 0

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
    lines = []
    for row in (header, rule, *rows):
        cells = zip(row, widths, strict=True)
        aligned = [c.ljust(w) if i < left else c.rjust(w) for i, (c, w) in enumerate(cells)]
        lines.append(f"| {' | '.join(aligned)} |")
    return [*lines, ""]
