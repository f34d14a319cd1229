"""RSETrace: the trace of a query, with its views as text, HTML, table and plot."""

from __future__ import annotations

import itertools
import json
import math
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Self

from langchain_core.callbacks import BaseCallbackHandler

from langchain_rse._messages import load
from langchain_rse.explaining import notebook, text, values
from langchain_rse.query.candidates import ChunkKey, Reason
from langchain_rse.query.reading import Passage, measure
from langchain_rse.query.scoring import Chunk
from langchain_rse.query.trace import Trace
from langchain_rse.stores.layouts import Layout
from langchain_rse.text.quoting import visible
from langchain_rse.text.titles import name_of, short_names
from langchain_rse.text.words import find_words

_QUERY = 80  # the most characters of the query in the repr
_SHOWN = frozenset({Reason.RETURNED, Reason.FILLED})  # outcomes of chunks of the answer


class DocumentTrace(NamedTuple):
    """A document with candidates.

    Attributes:
        doc_id: The id of the document.
        metadata: The metadata of the document.
        length: The length in characters; None if the query did not look the document up.
        chunk_count: The number of chunks; None like the length.
        reason: Why none of its chunks was considered; None if one was.
        chunks: The chunks that the query dealt with, in the order of the text.
        returned: The returned passages, each with its number in the answer, from 1.
    """

    doc_id: str
    metadata: Mapping[str, Any]
    length: int | None
    chunk_count: int | None
    reason: str | None
    chunks: Sequence[Chunk]
    returned: Sequence[tuple[int, Passage]]

    @property
    def name(self) -> str:
        """The name for people: source, else title, else id."""
        return name_of(self.doc_id, self.metadata)


class RSETrace(Trace):
    """The trace of a query: why each chunk was returned or not.

    `RSERetriever.explain` and `TraceCollector` make it; print it for an explanation. It has the
    attributes of `langchain_rse.query.trace.Trace`, the records of all steps of the query.
    """

    @classmethod
    def of(cls, trace: Trace) -> Self:
        """Add views to a trace."""
        return cls(**{field.name: getattr(trace, field.name) for field in fields(trace)})

    @cached_property
    def documents(self) -> list[DocumentTrace]:
        """The documents with candidates, best first."""
        returned_of: dict[str, list[tuple[int, Passage]]] = {}
        for number, passage in enumerate(self.returned, start=1):
            returned_of.setdefault(passage.layout.manifest.key, []).append((number, passage))
        return [
            self._document(key, sorted(chunks, key=_index), returned_of.get(key, ()))
            for key, chunks in self._chunks_by_document.items()
        ]

    @cached_property
    def _chunks_by_document(self) -> dict[str, list[Chunk]]:
        """The chunks of each document, by its key; the best document first."""
        chunks_of: dict[str, list[Chunk]] = {}
        for chunk in self.chunks:
            if chunk.layout is not None:
                chunks_of.setdefault(chunk.layout.manifest.key, []).append(chunk)
            elif chunk.candidate is not None:
                chunks_of.setdefault(chunk.candidate.key, []).append(chunk)
        return chunks_of

    def _document(
        self, key: str, chunks: Sequence[Chunk], returned: Sequence[tuple[int, Passage]]
    ) -> DocumentTrace:
        doc_id, metadata = self._identity_of(key, chunks)
        is_considered = any(chunk.weight for chunk in chunks)
        layout = self._layout_of(key)
        length = chunk_count = None
        if layout is not None:
            length = layout.manifest.length
            chunk_count = layout.chunk_count
        reason = None if is_considered else self.why(chunks[0])
        return DocumentTrace(doc_id, metadata, length, chunk_count, reason, chunks, returned)

    def _layout_of(self, key: str) -> Layout | None:
        """The layout of a document; None if the query did not read it."""
        return None if self.looked_up is None else self.looked_up.layouts.get(key)

    def _identity_of(self, key: str, chunks: Sequence[Chunk]) -> tuple[str, Mapping[str, Any]]:
        """The id and the metadata of a document."""
        found = next(chunk.candidate for chunk in chunks if chunk.candidate is not None)
        layout = self._layout_of(key)
        if layout is None:
            return found.doc_id, found.document.metadata
        return found.doc_id, layout.manifest.metadata

    @cached_property
    def short_names(self) -> dict[str, str]:
        """The printed names of documents, by their names: paths without common folders."""
        names = []
        for key, chunks in self._chunks_by_document.items():
            names.append(name_of(*self._identity_of(key, chunks)))
        return short_names(names)

    def why(self, chunk: Chunk) -> str:
        """Explain in a sentence why a chunk was returned or not."""
        original = chunk.duplicate_of
        if original is not None:
            chunk = replace(chunk, duplicate_of=self.short_names.get(original, original))
        return super().why(chunk)

    @property
    def answered(self) -> list[DocumentTrace]:
        """The documents of the answer, in the order of the answer."""
        answered = [document for document in self.documents if document.returned]
        return sorted(answered, key=lambda document: document.returned[0][0])

    @property
    def left_out(self) -> list[tuple[DocumentTrace, Chunk]]:
        """The candidates that were not returned, the closest to being returned first; see `why`."""
        order = {reason: number for number, reason in enumerate(Reason)}

        def distance(pair: tuple[DocumentTrace, Chunk]) -> tuple[float, ...]:
            _, chunk = pair
            hit = None if chunk.candidate is None else chunk.candidate.hit
            rank = math.inf if hit is None else hit.rank
            return order[chunk.outcome], -chunk.credited, -chunk.relevance, rank

        pairs = []
        for document in self.documents:
            for chunk in document.chunks:
                if chunk.candidate is not None and chunk.outcome not in _SHOWN:
                    pairs.append((document, chunk))
        return sorted(pairs, key=distance)

    @cached_property
    def matched_words(self) -> dict[ChunkKey, list[str]]:
        """The query words in each candidate, the rarest first."""
        found: dict[ChunkKey, list[tuple[str, str]]] = {}  # with the query that they are from
        for chunk in self.chunks:
            candidate = chunk.candidate
            if candidate is not None:
                compared = set(find_words(candidate.words)).intersection(candidate.found_words)
                words = [word for word in candidate.found_words if word in compared]
                found[candidate.chunk_key] = [(candidate.query, word) for word in words]
        counts = Counter(itertools.chain.from_iterable(found.values()))
        matched = {}
        for chunk_key, pairs in found.items():
            matched[chunk_key] = [word for _, word in sorted(pairs, key=counts.__getitem__)]
        return matched

    @property
    def spent(self) -> float:
        """The length of the answer, in the units of ``length_function``."""
        function = self.settings.length_function
        return sum(measure(each.page_content, function) for each in self.documents_returned)

    @property
    def penalty(self) -> float | None:
        """The relevance that text needed: the penalty, or more if the budget was tight.

        None with a published solver.
        """
        selection = self.selection
        if selection is None or selection.ranking is None:
            return None
        penalty = self.settings.penalty
        if self.steps == len(selection.steps):
            return penalty
        taken = set(selection.positions_after(self.steps))
        ranked = selection.ranking.thresholds.items()
        thresholds = [threshold for chunk, threshold in ranked if chunk in taken]
        return max(penalty, min(thresholds, default=0.0))

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

    def _repr_html_(self) -> str:
        return notebook.as_html(self)

    def to_dict(self) -> dict[str, Any]:
        """Return the trace as a dict of JSON values."""
        return values.as_values(self)

    def to_json(self) -> str:
        """Return the trace as JSON."""
        return json.dumps(self.to_dict())

    def to_pandas(self) -> Any:  # noqa: ANN401 - pandas need not be there
        """Return a pandas DataFrame with a row for each chunk."""
        return values.as_table(self)

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return the report as an HTML page, and write it to ``path`` if given.

        The page has sliders for the penalty and the budget. It is a single file and loads no
        others. It contains the question, the texts of the candidates and of the answer, and the
        settings. Needs the extra ``report``.
        """
        page: str = load_report().render_report(self)
        if path is not None:
            Path(path).write_text(page, encoding="utf-8")
        return page

    def plot(
        self,
        document: str | None = None,
        start: int | None = None,
        end: int | None = None,
        *,
        ax: Any = None,  # noqa: ANN401 - matplotlib need not be there
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
            ax: The matplotlib Axes to draw into; ``ax.legend()`` adds the legend.
            dark: True for a dark background.

        Returns:
            A matplotlib Figure, which notebooks show with an alternative text.

        Raises:
            ValueError: If the document has no candidates.
        """
        return load_plots().plot_trace(self, document, start, end, ax=ax, dark=dark)


class TraceCollector(BaseCallbackHandler):
    """Collects a trace for each query of an `RSERetriever`, alone or in a chain or agent.

    Pass it as a callback: ``config={"callbacks": [collector]}``.

    Attributes:
        traces: The `RSETrace` of each query, in the order of the answers.
    """

    def __init__(self) -> None:
        self.traces: list[RSETrace] = []


def load_plots() -> Any:  # noqa: ANN401 - a module
    """Load the module of plots; without matplotlib, the ImportError names the extra."""
    return load("langchain_rse.explaining.plots", "plot", "plot")


def load_report() -> Any:  # noqa: ANN401 - a module
    """Load the module of the report; without jinja2, the ImportError names the extra."""
    return load("langchain_rse.explaining.report", "report", "to_html")


def _index(chunk: Chunk) -> int:
    return chunk.index
