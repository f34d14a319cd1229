"""RSETrace: the trace of a query, with its views as text, JSON values, HTML and plot."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Self

from langchain_core.callbacks import BaseCallbackHandler

from langchain_rse._messages import load
from langchain_rse.explaining import text
from langchain_rse.explaining.by_document import DocumentTrace, TraceByDocument
from langchain_rse.query.scoring import Chunk
from langchain_rse.query.trace import Trace
from langchain_rse.text.quoting import counted, visible

_QUERY = 80  # the most characters of the query in the repr


class RSETrace(TraceByDocument):
    """The trace of a query: why each chunk was returned or not.

    `RSERetriever.explain` and `TraceCollector` make it; print it for an explanation. It has the
    attributes of `langchain_rse.query.trace.Trace`, the records of all steps of the query.
    """

    @classmethod
    def of(cls, trace: Trace) -> Self:
        """Add views to a trace."""
        return cls(**{field.name: getattr(trace, field.name) for field in fields(trace)})

    @property
    def summary(self) -> str:
        """One line: how much was found and returned, and how much of the budget is used."""
        return text.summarize(self)

    @property
    def headline(self) -> str:
        """A sentence on the best passage, without a full stop; empty for an empty answer."""
        return text.headline(self)

    def __repr__(self) -> str:
        return f"<RSETrace of {visible(self.query)[:_QUERY]!r}: {self.summary}>"

    def __str__(self) -> str:
        return text.as_text(self)

    def to_dict(self) -> dict[str, Any]:
        """Return the trace as a dict of JSON values."""
        numbers = {id(passage): number for number, passage in enumerate(self.returned, start=1)}
        passages = []
        for passage in self.passages:
            start, end = passage.span
            fields = {
                "number": numbers.get(id(passage)),
                "doc_id": passage.layout.manifest.doc_id,
                "chunk_start": passage.start,
                "chunk_end": passage.end,
                "start_index": start,
                "end_index": end,
                "value": passage.value,
                "text": passage.text,
            }
            passages.append(fields)
        checks = [check._asdict() for check in self.floor_checks]
        for check in checks:
            del check["best"]
        return {
            "query": self.query,
            "queries": list(self.queries),
            "settings": text.settings_as_values(self.settings),
            "spent": self.spent,
            "seconds": dict(self.seconds),
            "reason": self.reason,
            "full_text": self.full_text,
            "floor_checks": checks,
            "documents": [_document_as_values(self, document) for document in self.documents],
            "passages": passages,
        }

    def to_html(
        self,
        path: str | os.PathLike[str] | None = None,
        pictures: Iterable[Mapping[int, Any]] = (),
    ) -> str:
        """Return the report as an HTML page, and write it to ``path`` if given.

        The page has sliders for the penalty and the budget. It is a single file and loads no
        others. It contains the question, the texts of the candidates and of the answer, and the
        settings. Needs the extra ``report``.

        Args:
            path: The file to write.
            pictures: The pages of each passage, to show them with it: for each Document in
                ``documents_returned`` what `langchain_rse.pages.render` returns, or ``{}``.
        """
        report = load("langchain_rse.explaining.report", "report", "to_html")
        page: str = report.render_report(self, pictures)
        if path is not None:
            Path(path).write_text(page, encoding="utf-8")
        return page

    def plot(
        self,
        document: str | None = None,
        start: int | None = None,
        end: int | None = None,
        *,
        dark: bool = False,
    ) -> Any:  # noqa: ANN401
        """Plot the relevance of a document's chunks; needs the extra ``plot``.

        Bars are the relevance of the candidates, the line is the relevance including neighbors, and
        the returned passages are shaded: runs of chunks around those above the threshold, the
        ``irrelevant_chunk_penalty``.

        Args:
            document: The id of the document. Default: the best document of the answer.
            start: The first chunk number to show. Default: some chunks before the first passage.
            end: The chunk number after the last one to show. Default: some after the last passage.
            dark: True for a dark background.

        Returns:
            A matplotlib Figure, which notebooks show with an alternative text.

        Raises:
            ValueError: If the document has no candidates.
        """
        plots = load("langchain_rse.explaining.plots", "plot", "plot")
        return plots.plot_trace(self, document, start, end, dark=dark)


def _document_as_values(trace: TraceByDocument, document: DocumentTrace) -> dict[str, Any]:
    return {
        "doc_id": document.doc_id,
        "name": document.name,
        "length": document.length,
        "chunk_count": document.chunk_count,
        "reason": document.reason,
        "chunks": [_chunk_as_values(trace, chunk) for chunk in document.chunks],
    }


def _chunk_as_values(trace: TraceByDocument, chunk: Chunk) -> dict[str, Any]:
    start, end = chunk.span or (None, None)
    candidate = None
    if chunk.candidate is not None:
        candidate = {
            "query": chunk.candidate.query,
            "hits": {search: hit._asdict() for search, hit in chunk.candidate.hits.items()},
            "signals": dict(chunk.candidate.signals),
            "name_factor": chunk.candidate.name_factor,
            "found_words": list(chunk.candidate.found_words),
            "text": chunk.candidate.document.page_content,
        }
    return {
        "index": chunk.index,
        "start_index": start,
        "end_index": end,
        "relevance": chunk.relevance,
        "credited": chunk.credited,
        "value": chunk.value,
        "weight": chunk.weight,
        "outcome": chunk.outcome.label,
        "why": trace.why(chunk),
        "candidate": candidate,
    }


class TraceCollector(BaseCallbackHandler):
    """Collects a trace for each query of an `RSERetriever`, alone or in a chain or agent.

    Pass it as a callback: ``config={"callbacks": [collector]}``.

    Attributes:
        traces: The `RSETrace` of each query, in the order of the answers.
    """

    def __init__(self) -> None:
        self.traces: list[RSETrace] = []

    def __repr__(self) -> str:
        return f"<TraceCollector: {counted(len(self.traces), 'trace')}>"
