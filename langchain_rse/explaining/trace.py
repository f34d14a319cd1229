"""RSETrace: what the steps of a query saw, and why each chunk was returned or not."""

from __future__ import annotations

import importlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pydantic import TypeAdapter, ValidationError
from typing_extensions import Self

from langchain_rse._messages import problems_of, visible

BEYOND_K, BEYOND_DOCUMENT = "beyond k", "beyond max_per_document"
# The outcomes of candidates that are left out, those that were nearest to being returned first.
OUTCOMES = (
    *(BEYOND_K, BEYOND_DOCUMENT, "no room", "minimum value", "segment cost", "not the best"),
    *("below the penalty", "missing", "not considered", "below min_relevance", "filtered"),
    *("duplicate", "older version"),
)
# Of segments and of what was left out, how much is printed.
_MOST_PRINTED, _MOST_OF_A_KIND = 8, 3
_MOST_CHARACTERS = 100


class TracedStep(NamedTuple):
    """A step of the query."""

    name: str
    seconds: float


class TracedBudget(NamedTuple):
    """The budget, and how much of it the answer has."""

    limit: float | None
    unit: str  # the name of the length_function
    characters: float | None  # what the solver was given: generous if the unit is another
    spent: float


class TracedSegment(NamedTuple):
    """A segment that was chosen."""

    doc_id: str
    source: str | None
    chunk_start: int
    chunk_end: int
    start_index: int
    end_index: int
    value: float
    returned: bool
    reason: str | None  # why it was not returned
    text: str
    number: int | None  # its place in the answer, from 1


class TracedChunk(NamedTuple):
    """A candidate, or another chunk that the solver saw around candidates."""

    index: int  # type: ignore[assignment]  # a name that tuples have
    start_index: int | None = None  # None, as its length, if its document was not read
    end_index: int | None = None
    length: int | None = None
    rank: int | None = None  # from 0, and its score: by the reranker if there is one
    score: float | None = None
    search_rank: int | None = None  # before the reranker
    search_score: float | None = None
    lexical_rank: int | None = None
    lexical_score: float | None = None
    query: str = ""  # that it fits best, if there are several
    relevance: float = 0.0  # from score, rank and words
    credited: float = 0.0  # with neighbor credit; 0, as the next two, if the solver did not see it
    value: float = 0.0  # weight * (credited - irrelevant_chunk_penalty)
    weight: float = 0.0
    text: str | None = None  # the embedded text of a candidate
    outcome: str = "no candidate"
    duplicate_of: str | None = None  # the doc_id of the document that has the same text

    @property
    def is_candidate(self) -> bool:
        """True if the search found it."""
        return self.rank is not None or self.lexical_rank is not None


class TracedDocument(NamedTuple):
    """A document that has candidates."""

    doc_id: str
    source: str | None
    title: str | None
    length: int | None  # in characters; None, as the number of chunks, if it was not read
    chunk_count: int | None
    reason: str | None  # why none of its chunks was considered
    chunks: tuple[TracedChunk, ...]  # in the order of the text

    @property
    def name(self) -> str:
        """What people know it by: source, else title, else id."""
        return self.source or self.title or self.doc_id


@dataclass(frozen=True)
class RSETrace:
    """What the steps of a query saw: why each chunk was returned, or was not.

    Made by `RSERetriever.explain` and `TraceCollector`. Printed, it is an explanation. All numbers
    are those that chose the segments.

    Attributes:
        query: The question.
        queries: The queries that were searched for; usually the question alone.
        settings: The fields of `RSEConfig` and of the query as they were used.
        budget: The budget, and how much of it was spent.
        penalty: The lowest relevance that was worth text: ``irrelevant_chunk_penalty``, or more if
            the budget was short. None if a published solver chose.
        steps: The steps with their time.
        documents: The documents that have candidates, the best first, with all candidates and the
            chunks around them that the solver saw.
        segments: The segments that were chosen, the best first.
        reason: Why nothing was returned; None if something was, or if it was left out by ``k``.
    """

    query: str
    queries: tuple[str, ...]
    settings: dict[str, Any]
    budget: TracedBudget
    penalty: float | None
    steps: tuple[TracedStep, ...]
    documents: tuple[TracedDocument, ...]
    segments: tuple[TracedSegment, ...]
    reason: str | None = None

    @property
    def candidates(self) -> list[tuple[TracedDocument, TracedChunk]]:
        """All candidates with their documents, the best documents first."""
        pairs = ((document, chunk) for document in self.documents for chunk in document.chunks)
        return [(document, chunk) for document, chunk in pairs if chunk.is_candidate]

    @property
    def left_out(self) -> list[tuple[TracedDocument, TracedChunk]]:
        """The candidates that were not returned, the runners-up first: see `why`."""
        some = [pair for pair in self.candidates if pair[1].outcome != "returned"]
        order = {outcome: number for number, outcome in enumerate(OUTCOMES)}
        return sorted(
            some, key=lambda one: (order[one[1].outcome], -one[1].credited, -one[1].relevance)
        )

    def why(self, document: TracedDocument, chunk: TracedChunk) -> str:
        """Why a chunk was returned or not, in a few words."""
        named = self.settings
        penalty = named["irrelevant_chunk_penalty"]
        room = f"max_context_length={self.budget.limit:,g}" if self.budget.limit is not None else ""
        if named["solver"] == "greedy":
            chunks = f"overall_max_length={named['overall_max_length']} chunks"
            room = f"{room} or {chunks}" if room else chunks
        return {
            "returned": "it is in a returned segment",
            "filled": "it is between relevant chunks of a returned segment",
            "no candidate": "the search did not find it",
            BEYOND_K: f"its segment is not among the best k={named['k']}",
            BEYOND_DOCUMENT: f"max_per_document={named['max_per_document']} segments are better",
            "no room": f"what is worth more leaves no room in {room}",
            "minimum value": f"its segment is below minimum_value={named['minimum_value']:g}",
            "segment cost": f"alone it is not worth segment_cost={named['segment_cost'] or 0:g}",
            "not the best": "another segment of its document is the best",
            "below the penalty": (
                f"relevance {chunk.credited:.3g}, with its neighbors, is below "
                f"irrelevant_chunk_penalty={penalty:g}"
            ),
            "missing": "the docstore lacks it, or a chunk beside it",
            "not considered": document.reason or "it is not part of the text",
            "below min_relevance": f"its score is below min_relevance={named['min_relevance']:g}",
            "filtered": "the reranker or filter dropped it",
            "duplicate": f"{chunk.duplicate_of!r} has the same text",
            "older version": "it is of an older version of the document",
        }[chunk.outcome]

    def to_dict(self) -> dict[str, Any]:
        """The trace as values that JSON has."""
        return {
            **vars(self),
            "queries": list(self.queries),
            "budget": self.budget._asdict(),
            "steps": [step._asdict() for step in self.steps],
            "documents": [
                {**one._asdict(), "chunks": [chunk._asdict() for chunk in one.chunks]}
                for one in self.documents
            ],
            "segments": [segment._asdict() for segment in self.segments],
        }

    def to_json(self) -> str:
        """The trace as JSON."""
        return json.dumps(self.to_dict())

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The trace that `to_dict` made these values of; a ValueError if it did not."""
        try:
            return TypeAdapter(cls).validate_python(values)
        except ValidationError as error:
            raise ValueError(f"not what RSETrace.to_dict returned: {problems_of(error)}") from error

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """The trace that `to_json` wrote; a ValueError if it did not."""
        return cls.from_dict(json.loads(text))

    def to_pandas(self) -> Any:  # noqa: ANN401 - pandas need not be there
        """Return a DataFrame with a row for each chunk; needs pandas."""
        try:
            pandas = importlib.import_module("pandas")
        except ImportError as error:
            raise ImportError("to_pandas needs pandas: pip install pandas") from error
        columns = ["doc_id", "source", *TracedChunk._fields, "why"]
        rows = [
            (document.doc_id, document.source, *chunk, self.why(document, chunk))
            for document in self.documents
            for chunk in document.chunks
        ]
        return pandas.DataFrame(rows, columns=columns)

    def plot(
        self,
        documents: int | str | Sequence[str] | None = None,
        start: int | None = None,
        end: int | None = None,
        *,
        ax: Any = None,  # noqa: ANN401 - matplotlib need not be there
        figsize: tuple[float, float] | None = None,
        dark: bool = False,
    ) -> Any:  # noqa: ANN401
        """Plot relevance along the documents; needs matplotlib, the extra ``plot``.

        Each panel shows a document: the relevance of its candidates by chunk number, relevance with
        the credit of neighbors, the returned segments shaded, and the penalty.

        Args:
            documents: How many of the best documents, or which, by their ids; by default 4.
            start: The first chunk number to show, by default the first that the solver saw.
            end: The one after the last.
            ax: Axes of matplotlib to draw one document into, by default the best.
            figsize: Width and height in inches; by default as many panels need.
            dark: True for a dark background.

        Returns:
            The `matplotlib.figure.Figure`, which notebooks show and ``savefig`` writes.

        Raises:
            ImportError: If matplotlib is missing.
            ValueError: If a document has no candidate, there are more than 100, or ``start`` is
                not below ``end``.
        """
        plots = load_plots()
        return plots.plot_trace(self, documents, start, end, ax=ax, figsize=figsize, dark=dark)

    def __str__(self) -> str:
        return "\n".join(visible(line) for line in self._lines())

    def _lines(self) -> Iterator[str]:
        returned = sorted(
            (one for one in self.segments if one.returned), key=lambda one: one.number or 0
        )
        candidates, left_out = self.candidates, self.left_out
        yield f"Query: {_short(self.query)}"
        if self.queries not in {(self.query,), ()}:
            yield f"Searched for: {'; '.join(map(_short, self.queries[:_MOST_PRINTED]))}"
        yield (
            f"{_of(len(returned), 'segment')} from {_of(len(candidates), 'candidate')} in "
            f"{_of(len(self.documents), 'document')}"
        )
        if self.reason:
            yield f"Nothing was returned: {self.reason}"
        for segment in returned[:_MOST_PRINTED]:
            yield from self._lines_of(segment)
        if len(returned) > _MOST_PRINTED:
            yield f"  and {len(returned) - _MOST_PRINTED} more segments"
        if left_out:
            yield f"Left out: {_of(len(left_out), 'candidate')}, the nearest first"
        rest = Counter[str]()
        printed = Counter[str]()
        for document, chunk in left_out:
            printed[chunk.outcome] += 1
            if printed[chunk.outcome] > _MOST_OF_A_KIND:
                rest[chunk.outcome] += 1
                continue
            rank = "by words" if chunk.rank is None else f"rank {chunk.rank}"
            numbers = f"{rank}, relevance {chunk.relevance:.2f}"
            if chunk.credited > chunk.relevance:
                numbers += f", with its neighbors {chunk.credited:.2f}"
            why = self.why(document, chunk)
            yield f"  {_short(document.name)}, chunk {chunk.index} ({numbers}): {why}"
        if rest:
            yield f"  and {', '.join(f'{n} {outcome}' for outcome, n in rest.items())}"
        yield from self._lines_of_budget()
        total = sum(step.seconds for step in self.steps)
        parts = ", ".join(f"{step.name} {1e3 * step.seconds:.1f}" for step in self.steps)
        yield f"Time: {1e3 * total:.1f} ms ({parts})"

    def _lines_of(self, segment: TracedSegment) -> Iterator[str]:
        """A segment that was returned, with what made it."""
        inside = range(segment.chunk_start, segment.chunk_end)
        document = next(one for one in self.documents if one.doc_id == segment.doc_id)
        chunks = [one for one in document.chunks if one.index in inside]
        found = [one for one in chunks if one.is_candidate]
        best = max(found, key=lambda one: one.relevance)
        filled = f", {len(chunks) - len(found)} filled in" if len(chunks) > len(found) else ""
        last = f" to {inside[-1]}" if len(inside) > 1 else ""
        yield (
            f"  {segment.number}. {_short(document.name)}, chunk {inside[0]}{last}, characters "
            f"{segment.start_index:,} to {segment.end_index:,}, value {segment.value:.3g}: "
            f"{_of(len(found), 'candidate')} (the best is chunk {best.index}, relevance "
            f"{best.relevance:.2f}){filled}"
        )
        yield f"     {_short(segment.text)}"

    def _lines_of_budget(self) -> Iterator[str]:
        limit, least = self.budget.limit, self.settings["irrelevant_chunk_penalty"]
        of = "no limit" if limit is None else f"{limit:,g}"
        share = f", {self.budget.spent / limit:.0%}" if limit else ""
        yield f"Budget: {self.budget.spent:,g} of {of} ({self.budget.unit}{share})"
        if self.penalty is not None and self.penalty > least:
            yield (
                f"  It was short: text was worth its room from a relevance of {self.penalty:.3g}, "
                f"not from irrelevant_chunk_penalty={least:g}"
            )


def load_plots() -> Any:  # noqa: ANN401 - a module that needs matplotlib
    """The module that draws; an ImportError says what to install."""
    try:
        return importlib.import_module("langchain_rse.explaining.plots")
    except ImportError as error:
        raise ImportError('plots need matplotlib: pip install "langchain-rse[plot]"') from error


def _of(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _short(text: str) -> str:
    """The beginning of a text, in one line."""
    line = " ".join(text[: 4 * _MOST_CHARACTERS].split())
    return line if len(line) <= _MOST_CHARACTERS else f"{line[:_MOST_CHARACTERS]}..."
