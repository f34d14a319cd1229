"""RSETrace: the records that the steps of a query made, and why each chunk was returned or not."""

from __future__ import annotations

import importlib
import itertools
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document

from langchain_rse._messages import load
from langchain_rse.config import BestSegment, Greedy, QuerySettings, RSEConfig
from langchain_rse.engine import matched_words
from langchain_rse.query.candidates import (
    Candidate,
    Candidates,
    ChunkKey,
    Exclusion,
    Reason,
    all_candidates,
    best_of_queries,
)
from langchain_rse.query.floor import FloorCheck
from langchain_rse.query.lookup import LookedUp
from langchain_rse.query.reading import DocumentSegment, chunk_at, measure
from langchain_rse.query.scoring import Chunk, ScoredChunks
from langchain_rse.query.selecting import Selection
from langchain_rse.stores.reading import Layout
from langchain_rse.text.quoting import visible
from langchain_rse.text.titles import shown_name

# Modules with their extras, and what needs them.
PLOTS = ("langchain_rse.explaining.plots", "plot", "plot")
REPORT = ("langchain_rse.explaining.report", "report", "to_html")
_TEXT = "langchain_rse.explaining.text"
_QUERY = 80  # characters of the query in the repr
# Settings that are no numbers or names.
_NOT_SHOWN = {"config", "queries", "query_generator", "reranker", "search_kwargs"}


class TraceCollector(BaseCallbackHandler):
    """Collects the trace of each query of an `RSERetriever`, alone or in a chain or agent.

    Attributes:
        traces: The `RSETrace` of each query that was answered, in the order of the answers.
    """

    def __init__(self) -> None:
        self.traces: list[RSETrace] = []


class DocumentTrace(NamedTuple):
    """A document that has candidates, and its chunks that the steps saw, in the order of the text.

    The length, in characters, and the number of chunks are None if it was not read; the reason says
    why none of its chunks was considered.
    """

    doc_id: str
    metadata: Mapping[str, Any]
    length: int | None
    chunk_count: int | None
    reason: str | None
    chunks: Sequence[Chunk]

    @property
    def name(self) -> str:
        """The name to show to people: source, else title, else id."""
        source = self.metadata.get("source") or self.metadata.get("title")
        return shown_name(self.doc_id, None if source is None else str(source))


@dataclass(eq=False, repr=False)
class RSETrace:
    """What the steps of a query saw: why each chunk was returned, or was not.

    Made by `RSERetriever.explain` and `TraceCollector`. Print it for an explanation. All numbers
    are those by which the segments were chosen.

    Attributes:
        query: The question.
        settings: The settings as they were used.
        queries: The queries that were searched for; usually only the query.
        searched: The candidates that the search found for each query, before a reranker.
        candidates: The candidates that were ranked, best first.
        full_text: Why the full-text index was not searched, where it would be.
        looked_up: Where the candidates' documents lie, and which candidates do not count; None if
            there were no candidates. So are the next two.
        scored: The chunks around the candidates, with their relevance.
        selection: The chunks in the order in which a growing budget takes them.
        steps: The number of steps of the selection that fit the budget.
        segments: The segments that fit, best first.
        returned: Those that were returned, in the order of the answer.
        documents_returned: The Documents of these.
        floor_checks: How near the documents come to each query, if there is a score floor.
        reason: Why nothing was returned, in words; None if something was.
        seconds: The seconds of each step, in all attempts.
    """

    query: str
    settings: QuerySettings
    queries: Sequence[str] = ()
    searched: Candidates = field(default_factory=dict)
    candidates: Candidates = field(default_factory=dict)
    full_text: str = ""
    looked_up: LookedUp | None = None
    scored: ScoredChunks | None = None
    selection: Selection | None = None
    steps: int = 0
    segments: Sequence[DocumentSegment] = ()
    returned: Sequence[DocumentSegment] = ()
    documents_returned: Sequence[Document] = ()
    floor_checks: Sequence[FloorCheck] = ()
    reason: str | None = None
    seconds: dict[str, float] = field(default_factory=dict)

    def lap(self, step: str, started: float) -> float:
        """Add the time since a step has started to its seconds; return the time now."""
        now = time.perf_counter()
        self.seconds[step] = self.seconds.get(step, 0.0) + now - started
        return now

    # Numbers

    @property
    def spent(self) -> float:
        """How much of ``max_context_length`` is spent, in the units of ``length_function``."""
        function = self.settings.length_function
        return sum(measure(each.page_content, function) for each in self.documents_returned)

    @property
    def penalty(self) -> float | None:
        """The lowest relevance that was returned: the penalty, or more if the budget was short.

        None with a published solver.
        """
        if self.selection is None or self.selection.ranking is None:
            return None
        steps = self.selection.steps
        if self.steps == len(steps):
            return self.settings.penalty
        taken = set(itertools.chain.from_iterable(range(*step) for step in steps[: self.steps]))
        thresholds = self.selection.thresholds
        lowest = min((thresholds[each] for each in thresholds if each in taken), default=0.0)
        return max(self.settings.penalty, lowest)

    @property
    def parameters(self) -> dict[str, Any]:
        """The settings as values that JSON has."""
        parameters = self.settings.config.model_dump()
        if callable(parameters["calibration"]):
            parameters["calibration"] = _name_of(parameters["calibration"])
        for name in QuerySettings.model_fields:
            if name not in _NOT_SHOWN:
                parameters[name] = getattr(self.settings, name)
        parameters["irrelevant_chunk_penalty"] = self.settings.penalty
        parameters["length_function"] = _name_of(self.settings.length_function)
        return parameters

    # Documents and chunks

    @cached_property
    def documents(self) -> list[DocumentTrace]:
        """The documents that have candidates, the best first."""
        chunks_of: dict[str, list[Chunk]] = {}  # by the key of the document
        solved: set[ChunkKey] = set()
        for chunk in self._solved_chunks():
            layout = chunk.layout
            if layout is not None:
                manifest = layout.manifest
                chunks_of.setdefault(manifest.key, []).append(chunk)
                solved.add((manifest.doc_id, layout.version, chunk.index))
        considered = set(chunks_of)
        exclusions = self._exclusions()
        for key, exclusion in exclusions.items():
            if key not in solved:
                candidate = exclusion.candidate
                chunk = self._excluded_chunk(exclusion)
                chunks_of.setdefault(candidate.key, []).append(chunk)
        documents = []
        for key, chunks in chunks_of.items():
            found = next(chunk.candidate for chunk in chunks if chunk.candidate is not None)
            chunks.sort(key=lambda chunk: chunk.index)
            reason = None if key in considered else self.why(chunks[0])
            documents.append(self._document(found, chunks, reason))
        return documents

    def _document(
        self, candidate: Candidate, chunks: Sequence[Chunk], reason: str | None
    ) -> DocumentTrace:
        layout = None
        if self.looked_up is not None:
            layout = self.looked_up.layouts.get(candidate.key)
        if not isinstance(layout, Layout):
            metadata = candidate.document.metadata
            return DocumentTrace(candidate.doc_id, metadata, None, None, reason, chunks)
        manifest = layout.manifest
        count = manifest.current.chunks if manifest.current is not None else None
        return DocumentTrace(
            candidate.doc_id, manifest.metadata, manifest.length, count, reason, chunks
        )

    def _solved_chunks(self) -> Iterator[Chunk]:
        """The chunks that the solver saw, with their outcomes."""
        if self.scored is None or self.selection is None or self.looked_up is None:
            return
        outcome_of: dict[tuple[str, int], Reason] = {}  # of chunks in segments
        returned = {id(segment) for segment in self.returned}
        for segment in self.segments:
            is_returned = id(segment) in returned
            outcome = Reason.RETURNED if is_returned else Reason.BEYOND_K
            for index in range(segment.start, segment.end):
                outcome_of[segment.layout.manifest.key, index] = outcome
        outcomes = self._outcomes(self.scored, self.selection)
        for position, (layout, index) in enumerate(self.scored.chunks):
            chunk = chunk_at(position, self.scored, self.selection)
            outcome = outcome_of.get((layout.manifest.key, index))
            key = (layout.manifest.doc_id, layout.version, index)
            exclusion = self.looked_up.exclusions.get(key)
            if chunk.candidate is not None:
                yield replace(chunk, outcome=outcome or outcomes[position])
            elif outcome is Reason.RETURNED:
                candidate = None if exclusion is None else exclusion.candidate
                yield replace(chunk, outcome=Reason.FILLED, candidate=candidate)
            elif exclusion is not None:
                yield replace(
                    chunk,
                    candidate=exclusion.candidate,
                    relevance=exclusion.candidate.relevance,
                    outcome=exclusion.reason,
                    duplicate_of=exclusion.duplicate_of,
                )
            else:
                yield replace(chunk, outcome=outcome or Reason.NO_CANDIDATE)

    def _exclusions(self) -> dict[ChunkKey, Exclusion]:
        """Why each candidate that the solver did not see is not returned; the best come first."""
        exclusions: dict[ChunkKey, Exclusion] = {}
        candidates = self.candidates if self.looked_up is None else self.looked_up.candidates
        refused = {check.query for check in self.floor_checks if check.is_refused}
        for candidate in best_of_queries(candidates):
            reason = Reason.NOT_CONSIDERED
            if candidate.query in refused:
                reason = Reason.BELOW_THE_FLOOR
            exclusions[candidate.chunk_key] = Exclusion(candidate, reason)
        if self.looked_up is not None:
            for key, exclusion in self.looked_up.exclusions.items():
                exclusions.setdefault(key, exclusion)
        for candidate in all_candidates(self.searched):
            exclusion = Exclusion(candidate, Reason.DROPPED)
            exclusions.setdefault(candidate.chunk_key, exclusion)
        return exclusions

    def _excluded_chunk(self, exclusion: Exclusion) -> Chunk:
        candidate = exclusion.candidate
        return Chunk(
            None,
            candidate.chunk_index,
            candidate,
            candidate.relevance,
            outcome=exclusion.reason,
            duplicate_of=exclusion.duplicate_of,
        )

    def _outcomes(self, scored: ScoredChunks, selection: Selection) -> list[Reason]:
        """Say for each chunk that the solver saw why it is in no segment, if it is in none."""
        config = self.settings.config
        values = selection.values
        if not values.size:
            return []
        is_exact = config.solver == "exact"
        # Chunks have the reason of the run of chunks around them that are worth the penalty.
        is_worth = values > 0 if is_exact else values >= 0
        changes = np.flatnonzero(np.diff(is_worth)) + 1
        run_starts = np.union1d(scored.window_starts, changes)
        run_lengths = np.diff([*run_starts, values.size])
        run_values = np.repeat(np.add.reduceat(values, run_starts), run_lengths)
        costs = np.zeros(values.size)
        minimum = 0.0
        limit = self.settings.max_context_length
        is_too_long = np.zeros(values.size, np.bool_)
        if isinstance(config.solver, (Greedy, BestSegment)):
            minimum = config.solver.minimum_value
        else:
            document_weights = scored.document_lengths * selection.weights / scored.lengths
            segment_cost = self.settings.penalty * config.segment_cost
            costs = segment_cost * np.minimum(document_weights, 1.0)
            if limit is not None and self.settings.length_function is len:
                is_too_long = scored.lengths > limit
        step_of = np.full(values.size, -1)
        for number, step in enumerate(selection.steps):
            step_of[slice(*step)] = number
        conditions = {
            Reason.TOO_LONG: is_too_long & is_worth,
            Reason.NO_ROOM: step_of >= self.steps,
            Reason.MISSING: step_of >= 0,
            Reason.BELOW_THE_PENALTY: ~is_worth,
            Reason.SEGMENT_COST: np.full(values.size, is_exact) & (run_values <= costs),
            Reason.MINIMUM_VALUE: run_values - costs < minimum,
        }
        otherwise = Reason.SEGMENT_COST
        if isinstance(config.solver, BestSegment):
            otherwise = Reason.NOT_THE_BEST
        elif isinstance(config.solver, Greedy) or self.steps < len(selection.steps):
            otherwise = Reason.NO_ROOM
        reasons = [*conditions, otherwise]
        numbers = np.select(
            list(conditions.values()), list(range(len(conditions))), len(conditions)
        )
        return [reasons[number] for number in numbers.tolist()]

    @property
    def left_out(self) -> list[tuple[DocumentTrace, Chunk]]:
        """The candidates that were not returned, those nearest to it first; see `why`."""
        order = {reason: number for number, reason in enumerate(Reason)}
        left_out = []
        for document in self.documents:
            for chunk in document.chunks:
                if chunk.candidate is not None and chunk.outcome is not Reason.RETURNED:
                    left_out.append((document, chunk))
        return sorted(
            left_out,
            key=lambda pair: (order[pair[1].outcome], -pair[1].credited, -pair[1].relevance),
        )

    def document_of(self, segment: DocumentSegment) -> DocumentTrace:
        """The document of a segment."""
        doc_id = segment.layout.manifest.doc_id
        return next(document for document in self.documents if document.doc_id == doc_id)

    def why(self, chunk: Chunk) -> str:
        """Say in a sentence why a chunk was returned or not."""
        check = next((each for each in self.floor_checks if each.is_refused), None)
        facts: dict[str, Any] = {
            "best": None if check is None else check.reach,
            "floor": None if check is None else check.floor,
            "credited": chunk.credited or chunk.relevance,
            "length": chunk.span[1] - chunk.span[0] if chunk.span else 0,
            "duplicate_of": chunk.duplicate_of,
        }
        return sentence(chunk.outcome, self.settings, facts)

    @cached_property
    def _words_of(self) -> dict[tuple[str, str], list[str]]:
        """The words of queries that texts have, by the query and the text."""
        texts_of: dict[tuple[str, str], list[str]] = {}
        for document in self.documents:
            for chunk in document.chunks:
                found = chunk.candidate
                if found is not None and found.words:
                    key = (found.query, found.words)
                    texts_of.setdefault(key, []).append(found.document.page_content)
        words_of: dict[tuple[str, str], list[str]] = {}
        for (query, words), texts in texts_of.items():
            for text, matched in zip(texts, matched_words(words, texts), strict=True):
                words_of[query, text] = matched
        return words_of

    def matched_words(self, chunk: Chunk) -> list[str]:
        """The content words of the query that a candidate has, the rarest first."""
        if chunk.candidate is None:
            return []
        text = chunk.candidate.document.page_content
        return self._words_of.get((chunk.candidate.query, text), [])

    # Showing

    @property
    def summary(self) -> str:
        """One line on how much was found, returned and spent."""
        text: str = importlib.import_module(_TEXT).summarize(self)
        return text

    @property
    def headline(self) -> str:
        """One sentence on what the best segment is; empty if nothing was returned."""
        text: str = importlib.import_module(_TEXT).headline(self)
        return text

    @property
    def closeness(self) -> str:
        """How near the best passage is, in a sentence; empty if there is no fitted floor."""
        text: str = importlib.import_module(_TEXT).closeness_of(self)
        return text

    def __repr__(self) -> str:
        return f"<RSETrace of {visible(self.query)[:_QUERY]!r}: {self.summary}>"

    def __str__(self) -> str:
        text: str = importlib.import_module(_TEXT).as_text(self)
        return text

    def _repr_html_(self) -> str:
        text: str = importlib.import_module("langchain_rse.explaining.notebook").as_html(self)
        return text

    def to_dict(self) -> dict[str, Any]:
        """Return the trace as values that JSON has."""
        values: dict[str, Any] = importlib.import_module(
            "langchain_rse.explaining.values"
        ).as_values(self)
        return values

    def to_json(self) -> str:
        """Return the trace as JSON."""
        return json.dumps(self.to_dict())

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
        for document in self.to_dict()["documents"]:
            for chunk in document.pop("chunks"):
                rows.append({"doc_id": document["doc_id"], "source": document["source"], **chunk})
        return importlib.import_module("pandas").json_normalize(rows, sep="_")

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


def sentence(reason: Reason, settings: QuerySettings, facts: Mapping[str, Any]) -> str:
    """Say a reason in words, with the settings that decided it and the facts of a chunk."""
    config: RSEConfig = settings.config
    solver = config.solver
    budget = "max_context_length"
    if settings.max_context_length is not None:
        budget += f"={settings.max_context_length:.10g}"
    minimum_value = 0.0
    if not isinstance(solver, str):
        minimum_value = solver.minimum_value
        if isinstance(solver, Greedy):
            budget += f" or overall_max_length={solver.overall_max_length}"
    return reason.value.format(
        k=settings.k,
        budget=budget,
        minimum_value=minimum_value,
        segment_cost=config.segment_cost,
        penalty=settings.penalty,
        top_k=config.top_k_for_document_selection,
        **facts,
    )


def _name_of(function: object) -> str:
    return str(getattr(function, "__name__", None) or type(function).__name__)
