"""The figures that README and docs quote, from benchmarks/results; draws docs/images/recall.svg.

`python docs/_site/figures.py` draws the chart, light and dark, and updates the figures in the
pages.
"""

from __future__ import annotations

import re
from html import escape
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
IMAGES = ROOT / "docs" / "images"
PAGES = ("README.md", "docs/index.md", "benchmarks/README.md")

# What result pages call the best simple alternative, and what readers do.
ALTERNATIVE_NAMES = {"ensemble ±1": "ensemble + neighbors", "words ±1": "BM25 + neighbors"}

WIDTH, NAME_WIDTH, FIGURE_WIDTH = 440, 160, 60  # in pixels
BAR, ROW, MARGIN = 16, 22, 8


class Colors(NamedTuple):
    """The colors of the chart."""

    ink: str
    passage: str
    chunk: str
    other: str


LIGHT = Colors("#1b1f24", passage="#0072b2", chunk="#d55e00", other="#7f7f7f")
DARK = Colors("#e6e9ec", passage="#56b4e9", chunk="#e8853a", other="#a6a6a6")


class Recall(NamedTuple):
    """Mean evidence recall of three methods, with the vectors of one model."""

    ours: float
    alternative: float
    alternative_name: str
    top_k: float


def table_of_means(page: Path, heading: str) -> dict[str, float]:
    """The first column of the first table below the heading, by method."""
    means: dict[str, float] = {}
    for line in page.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if means and not line.startswith("|"):
            break
        if means or cells[0] == heading:
            means[cells[0]] = float(cells[1]) if re.fullmatch(r"\d\.\d+", cells[1]) else 0.0
    return means


def recall(page_name: str, heading: str = "means, without a reranker") -> Recall:
    """The recall of ours, of the best alternative and of top-k chunks on a page of results."""
    means = table_of_means(RESULTS / page_name, heading)
    ours = means.pop("langchain-rse")
    best = max(means, key=means.__getitem__)
    return Recall(ours, means[best], ALTERNATIVE_NAMES[best], means["top-k chunks"])


def all_recalls() -> dict[str, Recall]:
    """The figures that README quotes, by embedding model and language."""
    return {
        "MiniLM": recall("summary-minilm.md"),
        "bge-small": recall("summary-bge.md"),
        "other languages": recall("summary-minilm.md", "means, other languages"),
    }


def quotations() -> list[tuple[str, list[str]]]:
    """The sentences and rows of pages that quote recalls, and their figures."""
    recalls = all_recalls()
    minilm, bge, others = (recalls[name] for name in ("MiniLM", "bge-small", "other languages"))
    quoted = [
        (
            "you get {} more of the evidence than from top-k chunks**, and {} more than",
            [gain(bge.ours, bge.top_k), gain(bge.ours, bge.alternative)],
        ),
        (
            "| **langchain-rse** | **{}** | **{}** |",
            [f"{minilm.ours:.3f}", f"{bge.ours:.3f}"],
        ),
        (
            "each hit with its neighbors | {} | {} |",
            [f"{each.alternative:.3f}" for each in (minilm, bge)],
        ),
        (
            "| top-k chunks | {} | {} |",
            [f"{each.top_k:.3f}" for each in (minilm, bge)],
        ),
        (
            "| langchain-rse returns more than the alternative | +{} | +{} |",
            [gain(each.ours, each.alternative) for each in (minilm, bge)],
        ),
        (
            "| langchain-rse returns more than top-k chunks | +{} | +{} |",
            [gain(each.ours, each.top_k) for each in (minilm, bge)],
        ),
    ]
    for template, each in (
        (
            "MiniLM embeddings: langchain-rse {}, ensemble with neighbors {}, top-k chunks {}",
            minilm,
        ),
        ("bge-small embeddings: {}, {}, {}", bge),
        ("1,244 questions, MiniLM | **{}** | {} (BM25 and vectors, ±1) | {} |", minilm),
        ("bge-small (never used for tuning) | **{}** | {} (BM25 and vectors, ±1) | {} |", bge),
        ("360 questions, wordllama | **{}** | {} (BM25 ±1) | {} |", others),
    ):
        shares = (each.ours, each.alternative, each.top_k)
        quoted.append((template, [f"{share:.3f}" for share in shares]))
    return quoted


def updated(text: str) -> str:
    """The text of a page with the figures of today."""
    for template, figures in quotations():
        pattern = re.escape(template).replace(r"\{\}", r"\d+(?:\.\d+)?%?")
        text = re.sub(pattern, template.format(*figures), text)
    return text


def gain(ours: float, other: float) -> str:
    """How much more we find, in percent."""
    return f"{ours / other - 1:.0%}"


def refused() -> list[float]:
    """For each embedding model, the share of off-topic questions that a fitted floor refuses."""
    shares = []
    for model in ("minilm", "wordllama", "bge"):
        page = (RESULTS / f"nothing-{model}.md").read_text(encoding="utf-8")
        header, *rows = [line for line in page.splitlines() if line.startswith("|")]
        column = [cell.strip() for cell in header.split("|")].index("of other sets refused")
        mean = next(row for row in rows if row.startswith("| mean"))
        shares.append(float(mean.split("|")[column]))
    return shares


def draw(recalls: dict[str, Recall], colors: Colors) -> str:
    """A bar for each method, in groups by embedding model."""
    elements: list[str] = []
    y = MARGIN

    def text(x: float, content: str, size: float = 13, *, bold: bool = False) -> None:
        weight = ' font-weight="bold"' if bold else ""
        elements.append(
            f'<text x="{x:g}" y="{y + 13:g}" font-size="{size:g}"{weight}>{escape(content)}</text>'
        )

    text(MARGIN, "Share of the evidence found in the same amount of text", 13, bold=True)
    y += 26
    room = WIDTH - 2 * MARGIN - NAME_WIDTH - FIGURE_WIDTH
    for model, each in recalls.items():
        more = [gain(each.ours, other) for other in (each.alternative, each.top_k)]
        text(MARGIN, f"{model} embeddings: langchain-rse finds {more[0]} and {more[1]} more", 12)
        y += 20
        bars = [
            ("langchain-rse", each.ours, colors.passage),
            (each.alternative_name, each.alternative, colors.chunk),
            ("top-k chunks", each.top_k, colors.other),
        ]
        for name, share, color in bars:
            is_ours = name == "langchain-rse"
            text(MARGIN, name, bold=is_ours)
            x = MARGIN + NAME_WIDTH
            # The axis ends at 0.6; it begins at 0, so that lengths can be compared.
            width = room * share / 0.6
            elements.append(
                f'<rect x="{x}" y="{y}" width="{width:.1f}" height="{BAR}" fill="{color}"/>'
            )
            text(x + width + 6, f"{share:.3f}", bold=is_ours)
            y += ROW
        y += 6
    height = y + MARGIN - 6
    title = "Evidence recall: " + "; ".join(
        f"{model} {each.ours:.3f}, {each.alternative_name} {each.alternative:.3f}, "
        f"top-k chunks {each.top_k:.3f}"
        for model, each in recalls.items()
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}" fill="{colors.ink}" '
        'font-family="system-ui, Segoe UI, Roboto, Noto Sans, sans-serif" role="img">'
        f"<title>{escape(title)}</title>\n" + "\n".join(elements) + "\n</svg>\n"
    )


def main(folder: Path) -> None:
    """Draw both variants, and update the pages."""
    for page in PAGES:
        path = ROOT / page
        path.write_text(updated(path.read_text(encoding="utf-8")), encoding="utf-8")
    recalls = all_recalls()
    del recalls["other languages"]  # of a third model, and hardly comparable
    for name, colors in (("recall.svg", LIGHT), ("recall-dark.svg", DARK)):
        (folder / name).write_text(draw(recalls, colors), encoding="utf-8")


if __name__ == "__main__":
    main(IMAGES)
