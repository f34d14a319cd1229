"""RSETrace: what the steps of a query saw, and why each chunk was returned or not."""

from __future__ import annotations

import dataclasses
import html
import importlib
import itertools
import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from typing_extensions import Self

from langchain_rse._messages import counted, load, visible

# Modules with their extras, and what needs them.
PLOTS = ("langchain_rse.explaining.plots", "plot", "plot")
REPORT = ("langchain_rse.explaining.report", "report", "to_html")

OUTCOMES = {
    "returned": "it is in a returned segment",
    "filled": "it is between relevant chunks of a returned segment",
    "no candidate": "the search did not find it",
    # From here on, outcomes of candidates left out, those nearest to being returned first.
    "beyond k": "its segment is not among the best k={k}",
    "beyond max_per_document": "max_per_document={max_per_document} segments are better",
    "no room": "chunks that are worth more leave no room in {room}",
    "minimum value": "its segment is below minimum_value={minimum_value}",
    "segment cost": "alone it is not worth segment_cost={segment_cost}",
    "not the best": "another segment of its document is the best",
    "below the penalty": "relevance {chunk.credited:.3g}, with its neighbors, is below "
    "irrelevant_chunk_penalty={irrelevant_chunk_penalty}",
    "missing": "the docstore lacks it, or a chunk beside it",
    "not considered": "it is not part of the text",  # unless its document has a reason
    "below min_relevance": "the relevance of its score is below min_relevance={min_relevance}",
    "filtered": "the reranker or filter dropped it",
    "duplicate": "{chunk.duplicate_of!r} has the same text",
    "older version": "it is of an older version of the document",
}
"""The possible outcomes of a chunk, and how `RSETrace.why` explains them."""

_SHORT = 3  # letters of words such as "the"
# Scripts without spaces between words: Thai, Lao, Burmese, Khmer, Chinese and Japanese.
_SPACELESS = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\ua4cf\uf900-\ufaff]")
# How many segments are printed, and how many candidates left out for one reason.
_MOST_PRINTED, _MOST_OF_A_KIND = 8, 3
_MOST_CHARACTERS = 100


@dataclass
class TracedSegment:
    """A segment that was chosen."""

    doc_id: str
    chunk_start: int
    chunk_end: int
    start_index: int
    end_index: int
    value: float
    returned: bool
    reason: str | None  # why it was not returned
    text: str
    number: int | None  # its number in the answer, from 1


@dataclass
class TracedChunk:
    """A candidate, or another chunk that the solver saw around candidates."""

    index: int
    start_index: int | None = None  # place and length are None if its document was not read
    end_index: int | None = None
    length: int | None = None
    rank: int | None = None  # from 0; rank and score are the reranker's if there is one
    score: float | None = None
    search_rank: int | None = None  # before the reranker
    search_score: float | None = None
    lexical_rank: int | None = None
    lexical_score: float | None = None
    query: str = ""  # the query that it fits best, if there are several
    relevance: float = 0.0  # from score, rank and words
    credited: float = 0.0  # with neighbor credit; this, value and weight are 0 if not solved
    value: float = 0.0  # weight * (credited - irrelevant_chunk_penalty)
    weight: float = 0.0
    text: str | None = None  # the embedded text of a candidate
    outcome: str = "no candidate"
    duplicate_of: str | None = None  # the doc_id of the document that has the same text

    @property
    def is_candidate(self) -> bool:
        """True if the search found it."""
        return self.rank is not None or self.lexical_rank is not None


@dataclass
class TracedDocument:
    """A document that has candidates."""

    doc_id: str
    source: str | None
    title: str | None
    length: int | None  # in characters; length and chunk_count are None if it was not read
    chunk_count: int | None
    reason: str | None  # why none of its chunks was considered
    chunks: list[TracedChunk]  # in the order of the text

    @property
    def name(self) -> str:
        """The name to show to people: source, else title, else id."""
        return self.source or self.title or self.doc_id


@dataclass(frozen=True)
class RSETrace:
    """What the steps of a query saw: why each chunk was returned, or was not.

    Made by `RSERetriever.explain` and `TraceCollector`. Print it for an explanation. All numbers
    are those by which the segments were chosen.
    """

    query: str
    queries: list[str]  # the queries that were searched for; usually only the query
    settings: dict[str, Any]  # of `RSEConfig` and of the query, as they were used
    spent: float  # of max_context_length, in the units of length_function
    # The lowest relevance that was worth its text: irrelevant_chunk_penalty, or more if the budget
    # was short; None with a published solver.
    penalty: float | None
    steps: dict[str, float]  # the seconds of each step
    documents: list[TracedDocument]  # the best first
    segments: list[TracedSegment]  # the best first
    reason: str | None = None  # why nothing was chosen

    @property
    def answer(self) -> list[tuple[TracedDocument, TracedSegment]]:
        """The returned segments with their documents, in the order of the answer."""
        documents = {one.doc_id: one for one in self.documents}
        returned = [(documents[one.doc_id], one) for one in self.segments if one.returned]
        return sorted(returned, key=lambda pair: pair[1].number or 0)

    @property
    def candidates(self) -> list[tuple[TracedDocument, TracedChunk]]:
        """All candidates with their documents, the best documents first."""
        pairs = ((document, chunk) for document in self.documents for chunk in document.chunks)
        return [(document, chunk) for document, chunk in pairs if chunk.is_candidate]

    @property
    def left_out(self) -> list[tuple[TracedDocument, TracedChunk]]:
        """The candidates that were not returned, those nearest to it first; see `why`."""
        order = list(OUTCOMES)
        return sorted(
            (pair for pair in self.candidates if pair[1].outcome != "returned"),
            key=lambda one: (
                order.index(one[1].outcome),
                *(-one[1].credited, -one[1].relevance),
                math.inf if one[1].rank is None else one[1].rank,
            ),
        )

    @property
    def summary(self) -> str:
        """One line on how much was found, returned and spent."""
        limit, unit = (self.settings[name] for name in ("max_context_length", "length_function"))
        of = "" if limit is None else f" of {limit:,.10g}"
        return (
            f"{counted(len(self.answer), 'segment')} of "
            f"{counted(len(self.candidates), 'candidate')} in "
            f"{counted(len(self.documents), 'document')}, {self.spent:,.10g}{of} "
            + ("characters" if unit == "len" else f"({unit})")
        )

    def why(self, document: TracedDocument, chunk: TracedChunk) -> str:
        """Say in a few words why a chunk was returned or not."""
        if chunk.outcome == "not considered" and document.reason:
            return document.reason
        limit = self.settings["max_context_length"]
        room = "max_context_length" + ("" if limit is None else f"={limit:.10g}")
        if self.settings["solver"] == "greedy":
            room += " or overall_max_length={overall_max_length}"
        text = OUTCOMES[chunk.outcome].replace("{room}", room)
        return text.format(**self.settings, chunk=chunk)

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

    def _repr_html_(self) -> str:
        text = "\n".join(visible(line, "\t\n") for line in self._lines(full=True))
        return f'<pre dir="auto" style="white-space: pre-wrap">{html.escape(text)}</pre>'

    def to_pandas(self) -> Any:  # noqa: ANN401 - pandas need not be there
        """Return a DataFrame with a row for each chunk; needs pandas."""
        columns = ["doc_id", "source", *TracedChunk.__dataclass_fields__, "why"]
        rows = [
            (document.doc_id, document.source, *vars(chunk).values(), self.why(document, chunk))
            for document in self.documents
            for chunk in document.chunks
        ]
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
        """
        return load(*PLOTS).plot_trace(self, documents, (start, end), ax=ax, dark=dark)

    def __str__(self) -> str:
        return "\n".join(visible(line) for line in self._lines())

    def _lines(self, *, full: bool = False) -> Iterator[str]:
        yield f"Query: {_short(self.query)}"
        if self.queries not in ([self.query], []):
            yield f"Searched for: {'; '.join(map(_short, self.queries[:_MOST_PRINTED]))}"
        yield self.summary
        if self.reason:
            yield f"Nothing was returned: {self.reason}"
        shown = self.answer if full else self.answer[:_MOST_PRINTED]
        for document, segment in shown:
            inside = range(segment.chunk_start, segment.chunk_end)
            chunks = [one for one in document.chunks if one.index in inside]
            best = max(chunks, key=lambda one: one.relevance)
            filled = sum(not one.is_candidate for one in chunks)
            run = (
                f"chunks {inside[0]} to {inside[-1]} (the best is {best.index}, {filled} filled in)"
            )
            yield (
                f"  {segment.number}. {_short(document.name)}, "
                f"{run if len(inside) > 1 else f'chunk {inside[0]}'}, characters "
                f"{segment.start_index:,} to {segment.end_index:,}, value {segment.value:.3g}"
            )
            yield segment.text if full else f"     {_short(segment.text)}"
        if more := len(self.answer) - len(shown):
            yield f"  and {more} more"
        for outcome, pairs in itertools.groupby(self.left_out, lambda pair: pair[1].outcome):
            some = list(pairs)
            yield f"Left out, {outcome}: {len(some):,}"
            for document, chunk in some[:_MOST_OF_A_KIND]:
                rank = "by words" if chunk.rank is None else f"rank {chunk.rank + 1}"
                place = f"{_short(document.name)}, chunk {chunk.index} ({rank}, relevance"
                yield f"  {place} {chunk.relevance:.2f}): {self.why(document, chunk)}"
        if self.penalty is not None and self.penalty > self.settings["irrelevant_chunk_penalty"]:
            yield f"It was short of room: text was returned from a relevance of {self.penalty:.3g}"
        times = (f"{name} {1e3 * seconds:.1f}" for name, seconds in self.steps.items())
        yield f"Time: {1e3 * sum(self.steps.values()):.1f} ms ({', '.join(times)})"


def query_words(queries: Iterable[str]) -> re.Pattern[str] | None:
    """Make a pattern of the words of queries; short words only if they are names or numbers."""
    parts: dict[str, None] = {}
    for word in re.findall(r"\w+", " ".join(queries)):
        if _SPACELESS.search(word):  # any two characters of it
            parts |= dict.fromkeys(word[n : n + 2] for n in range(max(len(word) - 1, 1)))
        elif len(word) > _SHORT:
            parts[rf"\b{word.removesuffix('s')}\w*"] = None
        elif word.isdigit() or (len(word) > 1 and not word.islower()):
            parts[rf"\b{word}\b"] = None
    return re.compile(f"({'|'.join(parts)})", re.IGNORECASE) if parts else None


def _short(text: str) -> str:
    """The beginning of a text, in one line."""
    line = " ".join(text[: 4 * _MOST_CHARACTERS].split())
    return line if len(line) <= _MOST_CHARACTERS else f"{line[:_MOST_CHARACTERS]}..."
