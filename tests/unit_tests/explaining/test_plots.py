"""Plots show the trace and stay legible."""

from __future__ import annotations

import base64
import io
import itertools
from typing import Any

import matplotlib.style
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from langchain_rse import RSEConfig
from langchain_rse.explaining.colors import DARK, LIGHT
from langchain_rse.explaining.plots import Picture, plot_curves
from tests.unit_tests.fakes import PLAIN, QUERY, lines, make_retriever


def draw(figure: Figure) -> None:
    """Write it: missing characters and crowded layouts warn, and warnings are errors."""
    file = io.BytesIO()
    figure.savefig(file, format="png")
    assert file.getvalue().startswith(b"\x89PNG")


def labels_of(panel: Any) -> set[str]:
    return set(panel.get_legend_handles_labels()[1])


def test_a_panel_shows_relevance_evidence_passages_and_penalty() -> None:
    config = RSEConfig(irrelevant_chunk_penalty=0.5)
    retriever = make_retriever({"a": lines(0, 90, 20, 80)}, config=config)
    trace = retriever.explain(QUERY, fetch_k=3)
    figure = trace.plot()
    (panel,) = figure.axes
    assert panel.get_title(loc="left") == "a"
    assert labels_of(panel) == {
        *("returned passage", "relevance including neighbors", "penalty 0.5"),
        *("relevance of a candidate (hollow: not considered)", "from vectors", "from words"),
    }
    points = [tuple(point) for point in panel.collections[-1].get_offsets()]
    found = [chunk for chunk in trace.documents[0].chunks if chunk.candidate is not None]
    assert dict(points) == pytest.approx({chunk.index: chunk.relevance for chunk in found})
    # The parts of the signals are stacked up to the relevance.
    highest = {index: 0.0 for index, _ in points}
    for stems in panel.collections[:-1]:
        for (x, low), (_, high) in stems.get_segments():
            assert low == pytest.approx(highest[x])
            highest[x] = high
    assert highest == pytest.approx(dict(points))
    draw(figure)


def test_titles_are_whole_and_above_legend_and_panels() -> None:
    name = "reports/" + "of a very long name, " * 9
    question = "what else is there to know " * 8 + "0"
    retriever = make_retriever({name: lines(0, 90), "b": lines(10, name="b")})
    trace = retriever.explain(question, rse_config=PLAIN.replace(top_k_for_document_selection=1))
    curve = plot_curves([(name, (5, 20), (0.2, 0.4), ((0, 1), (0, 1)))], "recall", 1, dark=False)
    for figure, text in (
        (trace.plot(), question),
        (curve, "recall"),
    ):
        draw(figure)
        [legend] = figure.legends
        assert legend.get_title().get_text().replace("\n", " ").startswith(text.strip())
        box = legend.get_window_extent()
        assert box.x0 >= 0
        assert box.x1 <= figure.bbox.width
        assert box.y1 <= figure.bbox.height + 1
        for panel in figure.axes:
            tight: Any = panel.get_tightbbox()
            assert tight.y1 <= box.y0 + 1
            assert tight.x1 <= figure.bbox.width + 1
    titles = " ".join(panel.get_title(loc="left") for panel in trace.plot().axes)
    assert titles.replace("\n", " ").count("of a very long name") == 9


@pytest.mark.filterwarnings("ignore:Glyph")  # which font has it is set in matplotlib
@pytest.mark.parametrize(("count", "dark"), [(1, True), (1, False), (15, False)])
def test_documents_of_any_name_have_panels_that_do_not_overlap(count: int, dark: bool) -> None:  # noqa: FBT001
    texts = {
        f"$a_{n}$ \\frac{{ \x1b 年次報告 отчёт تقرير 🙂 {'x' * 9 * n}": lines(
            0, 90, 10, name=f"n{n}"
        )
        for n in range(count)
    }
    figure = make_retriever(texts).explain(QUERY + " $x_1$ 0").plot(count, dark=dark)
    draw(figure)
    assert len(figure.axes) == count
    boxes: list[Any] = [panel.get_tightbbox() for panel in figure.axes]
    assert all(above.y0 >= below.y1 for above, below in itertools.pairwise(boxes))
    width = figure.bbox.width
    assert all(box.x0 >= 0 and box.x1 <= width + 1 for box in boxes)


def test_documents_that_are_not_shown_are_counted() -> None:
    texts = {f"d{n}": lines(0, name=f"n{n}") for n in range(6)}
    trace = make_retriever(texts).explain(QUERY)
    figure = trace.plot()
    assert len(figure.axes) == 4
    assert figure.axes[-1].get_xlabel() == "chunk number (2 more documents not shown)"
    chosen = trace.plot(["d3", "d1"])
    assert [panel.get_title(loc="left") for panel in chosen.axes] == ["d3", "d1"]
    with pytest.raises(ValueError, match="documents: 'x' has no candidates"):
        trace.plot("x")


def test_documents_of_the_answer_come_first_and_flat_ones_are_not_shown() -> None:
    texts = {"flat": lines(85), "a": lines(20, name="a"), "b": lines(0, name="b")}
    trace = make_retriever(texts, config=PLAIN).explain(QUERY)
    titles = [panel.get_title(loc="left") for panel in trace.plot().axes]
    assert titles == ["b", "a"]
    refused = make_retriever({"flat": lines(85), "low": lines(86, name="a")}, config=PLAIN)
    assert len(refused.explain(QUERY).plot().axes) == 1


def test_zoom_and_axes_of_the_caller() -> None:
    trace = make_retriever({"a": lines(*range(0, 90, 3))}).explain(QUERY)
    (panel,) = trace.plot(start=4, end=9).axes
    assert panel.get_xlim() == (3.4, 8.6)
    own = Figure().subplots()
    assert trace.plot(ax=own, start=2) is own.figure
    assert own.get_title(loc="left") == "a"


def test_nothing_found_and_documents_not_considered() -> None:
    draw(make_retriever({}).explain(QUERY).plot())
    retriever = make_retriever({"a": lines(0), "b": lines(10, name="d")})
    config = PLAIN.replace(top_k_for_document_selection=1)
    trace = retriever.explain(QUERY, rse_config=config)
    assert len(trace.plot().axes) == 1
    figure = trace.plot(["a", "b"])
    assert figure.axes[1].collections[-1].get_facecolors()[0, 3] == 0  # hollow
    assert figure.axes[1].get_title(loc="left").startswith("b: ")
    draw(figure)


def test_ten_thousand_chunks() -> None:
    angles = [0 if n % 1000 in {5, 6} else 89 for n in range(10_000)]
    trace = make_retriever({"a": lines(*angles)}, config=PLAIN).explain(QUERY, fetch_k=10_000)
    assert len(trace.passages) == 10
    figure = trace.plot()
    assert isinstance(figure, Picture)
    data, _ = figure._repr_mimebundle_()
    assert base64.b64decode(data["image/png"]).startswith(b"\x89PNG")


def test_reports_have_a_curve_each() -> None:
    curves = []
    for name, means in (("one", (0.2, 0.6)), ("$1 two", (0.1, 0.5))):
        curves.append((name, (5, 20), means, [(mean - 0.1, mean + 0.1) for mean in means]))
    figure = plot_curves(curves, "recall", 3, dark=True)
    draw(figure)
    first, _ = figure.axes[0].lines
    assert first.get_ydata() == pytest.approx([0.2, 0.6])
    assert figure.axes[0].get_ylim()[0] == 0


# Notebooks and dark styles


def test_notebooks_show_an_alternative_text() -> None:
    formatters = pytest.importorskip("IPython.core.formatters")
    trace = make_retriever({"a": lines(0, 90, 20)}, config=PLAIN).explain(QUERY)
    shown, metadata = formatters.DisplayFormatter().format(trace.plot())
    alt = metadata["image/png"]["alt"]
    assert alt == (
        "Relevance by chunk for the query 'query 0'. a: returned chunks: 0, 2. Penalty: 0.5."
    )
    assert shown["text/plain"] == alt
    assert b"Relevance by chunk" in base64.b64decode(shown["image/png"])
    curve = plot_curves([("one", (5, 2000), (0.2, 0.6), [(0, 1)] * 2)], "recall", 3, dark=None)
    assert isinstance(curve, Picture)
    assert curve.alt.endswith("one: 0.2 at 5, 0.6 at 2,000 characters.")


def test_a_dark_style_makes_dark_plots() -> None:
    trace = make_retriever({"a": lines(0)}).explain(QUERY)

    def background(**arguments: Any) -> str:
        return to_hex(trace.plot(**arguments).get_facecolor())

    assert background() == LIGHT.background
    assert background(dark=True) == DARK.background
    with matplotlib.style.context("dark_background"):
        assert background() == DARK.background
        assert background(dark=False) == LIGHT.background
        panel = trace.plot(dark=False).axes[0]
        assert to_hex(panel.xaxis.label.get_color()) == "#000000"
