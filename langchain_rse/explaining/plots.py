"""The plot of a trace. Needs matplotlib: the extra ``plot``."""

from __future__ import annotations

import io
import textwrap
from typing import Any, NamedTuple

import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from langchain_rse.explaining.by_document import DocumentTrace, TraceByDocument
from langchain_rse.text.quoting import first_few, format_range, one_line

# In inches. README shows the figure on phones too, so that letters have to be large in it.
_WIDTH = 4.8
_HEIGHT = 3.6
_LETTERS = 46  # in a line of a title
_LONGEST_TITLE = 120  # characters
_TOP = 1.05  # of the axis
_AROUND = 9  # chunks before and after the passages
_MOST_DESCRIBED = 20  # passages in the alternative text


class Colors(NamedTuple):
    """The colors on a light or a dark background; passage and chunk as in comparisons."""

    background: str
    ink: str
    threshold: str
    passage: str  # behind the bars
    chunk: str


LIGHT = Colors("#ffffff", "#1b1f24", "#b3261e", passage="#cfe8f7", chunk="#d55e00")
DARK = Colors("#121212", "#e6e9ec", "#ff8a80", passage="#124a6b", chunk="#e8853a")


class Picture(Figure):
    """A figure that notebooks show with its alternative text, without matplotlib's global state.

    Attributes:
        alt: The alternative text.
    """

    def __init__(self, alt: str) -> None:
        super().__init__(figsize=(_WIDTH, _HEIGHT), dpi=150, layout="constrained")
        self.alt = alt

    def __repr__(self) -> str:
        return self.alt

    def _repr_png_(self) -> tuple[bytes, dict[str, str]]:
        file = io.BytesIO()
        self.savefig(file, format="png", metadata={"Description": self.alt})
        return file.getvalue(), {"alt": self.alt}


def plot_trace(
    trace: TraceByDocument,
    doc_id: str | None,
    start: int | None,
    end: int | None,
    *,
    dark: bool,
) -> Picture:
    """See `RSETrace.plot`."""
    colors = DARK if dark else LIGHT
    document = _find_document(trace, doc_id)
    with matplotlib.style.context(_style_of(colors)):
        picture = Picture(_describe(trace, document))
        title = picture.suptitle(_title_of(trace.query), ha="left", weight="bold")
        _draw(picture.subplots(), trace, document, (start, end), colors)
        if document is not None:
            picture.legend(loc="outside lower left", ncols=2)
        picture.draw_without_rendering()  # so that the axes have their place
        title.set_x(picture.axes[0].get_position().x0)
        return picture


def _style_of(colors: Colors) -> Any:  # noqa: ANN401 - names and values of matplotlib
    inks = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color")
    backgrounds = ("figure.facecolor", "axes.facecolor")
    return {
        "axes.spines.right": False,
        "axes.spines.top": False,
        "axes.titlelocation": "left",
        "axes.titlesize": "medium",
        "figure.titlesize": "medium",
        "font.size": 10,
        "legend.frameon": False,
        "savefig.facecolor": "auto",
        "text.parse_math": False,
        **dict.fromkeys(inks, colors.ink),
        **dict.fromkeys(backgrounds, colors.background),
    }


def _find_document(trace: TraceByDocument, doc_id: str | None) -> DocumentTrace | None:
    """The document with this id; by default the best one of the answer, or else of all."""
    if doc_id is None:
        return min(trace.documents, key=lambda document: not document.returned, default=None)
    by_id = {document.doc_id: document for document in trace.documents}
    if doc_id not in by_id:
        examples = first_few(map(repr, by_id))
        raise ValueError(
            f"document {doc_id!r} has no candidates. Documents with candidates: {examples}"
        )
    return by_id[doc_id]


def _draw(
    ax: Axes,
    trace: TraceByDocument,
    document: DocumentTrace | None,
    limits: tuple[int | None, int | None],
    colors: Colors,
) -> None:
    """Draw the relevance of chunks in the order of the text."""
    if document is None:
        ax.set_title(_title_of(trace.reason or "no candidates"))
        return
    chunks = document.chunks
    first = chunks[0].index
    count = chunks[-1].index + 1 - first
    alone = np.zeros(count)
    credited = np.full(count, np.nan)
    for chunk in chunks:
        alone[chunk.index - first] = chunk.relevance
        if chunk.weight:  # the solver considered it
            credited[chunk.index - first] = chunk.credited
    returned = np.zeros(count)
    for _, passage in document.returned:
        returned[passage.start - first : passage.end - first] = _TOP
    edges = first + np.arange(count + 1) - 0.5
    ax.stairs(returned, edges, fill=True, color=colors.passage, label="returned passages")
    ax.stairs(alone, edges, fill=True, color=colors.chunk, label="relevance alone")
    label = "relevance with neighbors"
    ax.stairs(credited, edges, baseline=None, color=colors.ink, linewidth=1.5, label=label)
    threshold = trace.settings.penalty
    label = f"threshold {threshold:g}"
    ax.axhline(threshold, color=colors.threshold, linestyle="--", label=label)
    start, end = _shown_range(document, *limits)
    ax.set(xlim=(start - 0.6, end - 0.4), ylim=(0, _TOP))
    ax.set_xlabel("chunk number, in the order of the text")
    ax.xaxis.set_major_locator(MaxNLocator(8, integer=True, min_n_ticks=1))
    ax.xaxis.set_major_formatter("{x:,.0f}")
    title = f"Relevance of the chunks in {trace.short_names[document.doc_id]}"
    if document.reason:
        title += f": {document.reason}"
    ax.set_title(_title_of(title))


def _shown_range(
    document: DocumentTrace, given_first: int | None, given_end: int | None
) -> tuple[int, int]:
    """The first chunk number to show and the one after the last."""
    first, end = document.chunks[0].index, document.chunks[-1].index + 1
    passages = [passage for _, passage in document.returned]
    if passages:
        first = max(first, min(passage.start for passage in passages) - _AROUND)
        end = min(end, max(passage.end for passage in passages) + _AROUND)
    if given_first is not None:
        first = given_first
    return first, end if given_end is None else given_end


def _title_of(text: str) -> str:
    return textwrap.fill(one_line(text, _LONGEST_TITLE), _LETTERS)


def _describe(trace: TraceByDocument, document: DocumentTrace | None) -> str:
    """The alternative text."""
    subject = f"Relevance by chunk for the query {one_line(trace.query)!r}"
    if document is None:
        return f"{subject}: {trace.reason}."
    ranges = [format_range(passage.start, passage.end - 1) for _, passage in document.returned]
    returned = first_few(ranges, _MOST_DESCRIBED) or "none"
    name = one_line(trace.short_names[document.doc_id])
    return f"{subject}. {name}: returned chunks: {returned}. Threshold: {trace.settings.penalty:g}."
