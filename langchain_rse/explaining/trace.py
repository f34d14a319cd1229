"""RSETrace: what the steps of a query saw, and why each chunk was returned or not."""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from typing_extensions import Self

from langchain_rse._messages import load
from langchain_rse.explaining.notebook import as_html
from langchain_rse.explaining.records import (
    OUTCOMES,
    TracedChunk,
    TracedDocument,
    TracedQuery,
    TracedReach,
    TracedSegment,
)
from langchain_rse.explaining.text import (
    as_text,
    closeness_of,
    explain_outcome,
    headline,
    summarize,
)
from langchain_rse.text.quoting import visible

__all__ = [
    "OUTCOMES",
    "RSETrace",
    "TracedChunk",
    "TracedDocument",
    "TracedQuery",
    "TracedReach",
    "TracedSegment",
]

# Modules with their extras, and what needs them.
PLOTS = ("langchain_rse.explaining.plots", "plot", "plot")
REPORT = ("langchain_rse.explaining.report", "report", "to_html")
_QUERY = 80  # characters of the query in the repr


@dataclass(frozen=True)
class RSETrace(TracedQuery):
    """What the steps of a query saw: why each chunk was returned, or was not.

    Made by `RSERetriever.explain` and `TraceCollector`. Print it for an explanation. All numbers
    are those by which the segments were chosen.
    """

    @property
    def summary(self) -> str:
        """One line on how much was found, returned and spent."""
        return summarize(self)

    @property
    def headline(self) -> str:
        """One sentence on what the best segment is; empty if nothing was returned."""
        return headline(self)

    @property
    def closeness(self) -> str:
        """How near the best passage is, in a sentence; empty if there is no calibrated floor."""
        return closeness_of(self)

    def why(self, document: TracedDocument, chunk: TracedChunk) -> str:
        """Say in a few words why a chunk was returned or not."""
        return explain_outcome(self, document, chunk)

    def __repr__(self) -> str:
        return f"<RSETrace of {visible(self.query)[:_QUERY]!r}: {self.summary}>"

    def __str__(self) -> str:
        return as_text(self)

    def _repr_html_(self) -> str:
        return as_html(self)

    def to_dict(self) -> dict[str, Any]:
        """Return the trace as values that JSON has."""
        return dataclasses.asdict(self)

    def to_json(self) -> str:
        """Return the trace as JSON."""
        return json.dumps(self.to_dict())

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Make a trace of values from `to_dict`; a ValueError for others."""
        return TypeAdapter(cls).validate_python(values)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Make a trace of JSON from `to_json`; a ValueError for other text."""
        return cls.from_dict(json.loads(text))

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """Make an HTML page in which settings can be tried, and write it to ``path`` if given.

        The page is one file that loads nothing else. It contains the question, the texts of the
        candidates and of the answer, and the settings. Needs the extra ``report``.
        """
        text: str = load(*REPORT).render_report(self)
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    def to_pandas(self) -> Any:  # noqa: ANN401 - pandas need not be there
        """Return a DataFrame with a row for each chunk; needs pandas."""
        rows = []
        for document in self.documents:
            for chunk in document.chunks:
                why = self.why(document, chunk)
                rows.append((document.doc_id, document.source, *vars(chunk).values(), why))
        columns = ["doc_id", "source", *TracedChunk.__dataclass_fields__, "why"]
        return importlib.import_module("pandas").DataFrame(rows, columns=columns)

    def plot(
        self,
        documents: int | str | Sequence[str] = 4,
        start: int | None = None,
        end: int | None = None,
        *,
        ax: Any = None,  # noqa: ANN401 - matplotlib need not be there
        dark: bool = False,
    ) -> Any:  # noqa: ANN401
        """Plot relevance along documents as a matplotlib Figure; needs the extra ``plot``.

        Each panel shows a document: the relevance of its candidates by chunk number, relevance with
        the credit of neighbors, the returned segments shaded, and the penalty.

        Args:
            documents: The number of best documents to show, or the ids of documents.
            start: The first chunk number to show, by default the first in the trace.
            end: The chunk number after the last one to show.
            ax: Axes of matplotlib to draw the first of these documents into.
            dark: True for a dark background.

        Raises:
            ValueError: If a document has no candidates.
        """
        return load(*PLOTS).plot_trace(self, documents, (start, end), ax=ax, dark=dark)
