"""Trace: the records that the steps of a query made, and why each chunk was returned or not."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from langchain_core.documents import Document

from langchain_rse.config import BestSegment, Greedy, QuerySettings
from langchain_rse.query.candidates import (
    Candidates,
    ChunkKey,
    Exclusion,
    Reason,
    all_candidates,
    best_of_queries,
)
from langchain_rse.query.floor import FloorCheck
from langchain_rse.query.lookup import LookedUp
from langchain_rse.query.reading import CHARACTERS, DocumentSegment, chunk_at
from langchain_rse.query.scoring import Chunk, ScoredChunks
from langchain_rse.query.selecting import Selection


@dataclass(eq=False, repr=False)
class Trace:
    """What the steps of a query saw: why each chunk was returned, or was not.

    All numbers are those by which the segments were chosen. `langchain_rse.explaining` shows it.

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

    # What became of the chunks

    @cached_property
    def exclusions(self) -> dict[ChunkKey, Exclusion]:
        """Why each candidate does not count that the solver did not see; the best come first."""
        exclusions: dict[ChunkKey, Exclusion] = {}
        candidates = self.candidates if self.looked_up is None else self.looked_up.candidates
        refused = {check.query for check in self.floor_checks if check.is_refused}
        for candidate in best_of_queries(candidates):
            is_refused = candidate.query in refused
            reason = Reason.BELOW_THE_FLOOR if is_refused else Reason.NOT_CONSIDERED
            exclusions[candidate.chunk_key] = Exclusion(candidate, reason)
        if self.looked_up is not None:
            for key, exclusion in self.looked_up.exclusions.items():
                exclusions.setdefault(key, exclusion)
        for candidate in all_candidates(self.searched):
            exclusion = Exclusion(candidate, Reason.DROPPED)
            exclusions.setdefault(candidate.chunk_key, exclusion)
        if self.scored is not None:
            for candidate in self.scored.candidates.values():
                exclusions.pop(candidate.chunk_key, None)
        return exclusions

    @cached_property
    def chunks(self) -> list[Chunk]:
        """The chunks that the steps saw, with their outcomes; the best documents first."""
        chunks = list(self._solved_chunks())
        solved: set[ChunkKey] = set()
        for chunk in chunks:
            if chunk.layout is not None:
                solved.add((chunk.layout.manifest.doc_id, chunk.layout.version, chunk.index))
        for key, exclusion in self.exclusions.items():
            if key not in solved:
                chunks.append(
                    with_exclusion(Chunk(None, exclusion.candidate.chunk_index), exclusion)
                )
        return chunks

    def _solved_chunks(self) -> Iterator[Chunk]:
        """The chunks that the solver saw, with their outcomes."""
        if self.scored is None or self.selection is None:
            return
        outcome_of: dict[tuple[str, int], Reason] = {}  # of chunks in segments
        returned = {id(segment) for segment in self.returned}
        for segment in self.segments:
            is_returned = id(segment) in returned
            for index in range(segment.start, segment.end):
                key = segment.layout.manifest.key, index
                outcome_of[key] = Reason.RETURNED if is_returned else Reason.BEYOND_K
        outcomes = self._outcomes(self.scored, self.selection)
        for position, (layout, index) in enumerate(self.scored.chunks):
            chunk = chunk_at(position, self.scored, self.selection)
            outcome = outcome_of.get((layout.manifest.key, index))
            exclusion = self.exclusions.get((layout.manifest.doc_id, layout.version, index))
            if chunk.candidate is not None:
                yield replace(chunk, outcome=outcome or outcomes[position])
            elif outcome is Reason.RETURNED:
                candidate = None if exclusion is None else exclusion.candidate
                yield replace(chunk, outcome=Reason.FILLED, candidate=candidate)
            elif exclusion is not None:
                yield with_exclusion(chunk, exclusion)
            else:
                yield replace(chunk, outcome=outcome or Reason.NO_CANDIDATE)

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
        step_of = np.full(values.size, -1)
        for number, step in enumerate(selection.steps):
            step_of[slice(*step)] = number
        costs = np.zeros(values.size)
        minimum = 0.0
        if isinstance(config.solver, (Greedy, BestSegment)):
            minimum = config.solver.minimum_value
        else:
            document_weights = scored.document_lengths * selection.weights / scored.lengths
            segment_cost = self.settings.penalty * config.segment_cost
            costs = segment_cost * np.minimum(document_weights, 1.0)
        limit = self.settings.max_context_length
        is_too_long = np.zeros(values.size, np.bool_)
        if limit is not None and self.settings.length_function is CHARACTERS:
            is_too_long = scored.lengths > limit
        elif self.steps == 0 and not self.segments:
            is_too_long = step_of == 0  # not even the first step fits
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

    def why(self, chunk: Chunk) -> str:
        """Say in a sentence why a chunk was returned or not."""
        facts: dict[str, Any] = {
            "credited": chunk.credited or chunk.relevance,
            "length": chunk.span[1] - chunk.span[0] if chunk.span else 0,
            "duplicate_of": chunk.duplicate_of,
        }
        for check in self.floor_checks:
            if chunk.candidate is not None and check.query == chunk.candidate.query:
                facts |= {"best": check.reach, "floor": check.floor}
        return sentence(chunk.outcome, self.settings, facts)


def sentence(reason: Reason, settings: QuerySettings, facts: Mapping[str, Any]) -> str:
    """Say a reason in words, with the settings that decided it and the facts of a chunk."""
    solver = settings.config.solver
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
        segment_cost=settings.config.segment_cost,
        penalty=settings.penalty,
        top_k=settings.config.top_k_for_document_selection,
        **facts,
    )


def with_exclusion(chunk: Chunk, exclusion: Exclusion) -> Chunk:
    """The chunk with the candidate that does not count, and why."""
    return replace(
        chunk,
        candidate=exclusion.candidate,
        relevance=exclusion.candidate.relevance,
        outcome=exclusion.reason,
        duplicate_of=exclusion.duplicate_of,
    )
