"""Explains an answer: a trace as text, in notebooks, as plots, as a page; answers side by side.

The core and users take these names from here. Each is loaded when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from langchain_rse._messages import load

if TYPE_CHECKING:
    from langchain_rse.explaining.bars import BLOCKS as BLOCKS
    from langchain_rse.explaining.bars import NOTHING as NOTHING
    from langchain_rse.explaining.bars import strip_of as strip_of
    from langchain_rse.explaining.comparing import compare_answers as compare_answers
    from langchain_rse.explaining.floor_text import distributions_of as distributions_of
    from langchain_rse.explaining.floor_text import floor_as_html as floor_as_html
    from langchain_rse.explaining.floor_text import floor_as_text as floor_as_text
    from langchain_rse.explaining.floor_text import summarize_floor as summarize_floor
    from langchain_rse.explaining.highlighting import query_words as query_words
    from langchain_rse.explaining.notebook import as_html as as_html
    from langchain_rse.explaining.side_by_side import PREFIXES as PREFIXES
    from langchain_rse.explaining.side_by_side import Kind as Kind
    from langchain_rse.explaining.side_by_side import Piece as Piece
    from langchain_rse.explaining.side_by_side import SideBySide as SideBySide
    from langchain_rse.explaining.text import as_text as as_text
    from langchain_rse.explaining.text import closeness_of as closeness_of
    from langchain_rse.explaining.text import headline as headline
    from langchain_rse.explaining.text import summarize as summarize
    from langchain_rse.explaining.values import as_table as as_table
    from langchain_rse.explaining.values import as_values as as_values
    from langchain_rse.explaining.views import DocumentTrace as DocumentTrace
    from langchain_rse.explaining.views import documents_of as documents_of
    from langchain_rse.explaining.views import left_out as left_out
    from langchain_rse.explaining.views import lowest_relevance as lowest_relevance
    from langchain_rse.explaining.views import name_of as name_of
    from langchain_rse.explaining.views import name_of_segment as name_of_segment
    from langchain_rse.explaining.views import spent_by as spent_by

_MODULES = {
    "bars": ("BLOCKS", "NOTHING", "strip_of"),
    "comparing": ("compare_answers",),
    "floor_text": ("distributions_of", "floor_as_html", "floor_as_text", "summarize_floor"),
    "notebook": ("as_html",),
    "side_by_side": ("PREFIXES", "Kind", "Piece", "SideBySide"),
    "text": ("as_text", "closeness_of", "headline", "summarize"),
    "values": ("as_table", "as_values"),
    "views": (
        *("DocumentTrace", "documents_of", "left_out", "lowest_relevance", "name_of"),
        *("name_of_segment", "spent_by"),
    ),
    "highlighting": ("query_words",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = sorted([*_MODULE_OF, "load_plots", "load_report"])  # noqa: PLE0605


def load_plots() -> Any:  # noqa: ANN401 - a module
    """The module of plots; an ImportError that names the extra if matplotlib is missing."""
    return load("langchain_rse.explaining.plots", "plot", "plot")


def load_report() -> Any:  # noqa: ANN401 - a module
    """The module of the report; an ImportError that names the extra if jinja2 is missing."""
    return load("langchain_rse.explaining.report", "report", "to_html")


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any public name
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
