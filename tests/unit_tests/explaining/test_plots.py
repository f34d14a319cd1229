"""The plot shows the relevance of a document and stays legible."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from langchain_rse import RSEConfig
from tests.unit_tests.fakes import PLAIN, QUERY, lines, make_retriever


def draw(figure: Figure) -> None:
    """Write it: missing characters and crowded layouts warn, and warnings are errors."""
    file = io.BytesIO()
    figure.savefig(file, format="png")
    assert file.getvalue().startswith(b"\x89PNG")


def values_of(panel: Any, label: str) -> np.ndarray[Any, Any]:
    """The values of a line of steps, by its label."""
    handles, labels = panel.get_legend_handles_labels()
    drawn = dict(zip(labels, handles, strict=True))[label]
    values: np.ndarray[Any, Any] = drawn.get_data().values
    return values


def test_it_has_relevance_passages_and_threshold() -> None:
    config = RSEConfig(irrelevant_chunk_penalty=0.5)
    retriever = make_retriever({"a": lines(0, 90, 20, 80)}, config=config)
    trace = retriever.explain(QUERY, fetch_k=3)
    figure = trace.plot()
    (panel,) = figure.axes
    assert panel.get_title(loc="left") == "Relevance of the chunks in a"
    chunks = trace.documents[0].chunks
    alone = values_of(panel, "relevance alone")
    assert alone.tolist() == pytest.approx([chunk.relevance for chunk in chunks])
    credited = values_of(panel, "relevance with neighbors")
    assert credited.tolist() == pytest.approx([chunk.credited for chunk in chunks])
    shaded = values_of(panel, "returned passages").nonzero()[0].tolist()
    assert shaded == [index for each in trace.returned for index in range(each.start, each.end)]
    assert "threshold 0.5" in panel.get_legend_handles_labels()[1]
    draw(figure)
    assert figure.get_suptitle() == QUERY
    assert figure.texts[0].get_position()[0] == pytest.approx(panel.get_position().x0)


def test_the_document_can_be_chosen() -> None:
    texts = {"a": lines(20, name="a"), "b": lines(0, name="b"), "c": lines(85, name="c")}
    trace = make_retriever(texts, config=PLAIN).explain(QUERY)
    assert trace.plot().axes[0].get_title(loc="left").endswith(" b")
    assert trace.plot("a").axes[0].get_title(loc="left").endswith(" a")
    with pytest.raises(ValueError, match="document 'x' has no candidates"):
        trace.plot("x")


def test_zoom() -> None:
    trace = make_retriever({"a": lines(*range(0, 90, 3))}).explain(QUERY)
    assert trace.plot(start=4, end=9).axes[0].get_xlim() == (3.4, 8.6)


@pytest.mark.filterwarnings("ignore:the retriever has no documents")
def test_nothing_found_and_documents_not_considered() -> None:
    figure = make_retriever({}).explain(QUERY).plot()
    assert "nothing" in figure.axes[0].get_title(loc="left")
    draw(figure)
    retriever = make_retriever({"a": lines(0), "b": lines(10, name="d")})
    config = PLAIN.replace(top_k_for_document_selection=1)
    figure = retriever.explain(QUERY, rse_config=config).plot("b")
    assert "its document has none" in figure.axes[0].get_title(loc="left").replace("\n", " ")
    draw(figure)
