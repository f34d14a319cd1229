"""Trace: the results of each step of a query, and why each chunk was returned or not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from langchain_core.documents import Document

from langchain_rse._messages import check_type
from langchain_rse.config import Greedy, QuerySettings
from langchain_rse.query.candidates import (
    Candidates,
    ChunkKey,
    Exclusion,
    Reason,
    best_of_queries,
)
from langchain_rse.query.floor import FloorCheck
from langchain_rse.query.lookup import LookedUp, Outdated
from langchain_rse.query.reading import CHARACTERS, Passage
from langchain_rse.query.scoring import Chunk, ScoredChunks, Selection


@dataclass(eq=False, repr=False)
class Trace:
    """The results of each step of a query.

    All numbers are the ones that selected the passages. `langchain_rse.explaining` shows a trace.

    Attributes:
        query: The question.
        settings: The settings of the query.
        queries: The queries that were searched for; usually only the question.
        searched: The candidates of each query, before reranking.
        candidates: The candidates of each query, ranked, best first.
        documents_found: Number of Documents that the vector store or retriever returned.
        full_text: Why the full-text index was not searched although it is enabled.
        looked_up: The layouts of the candidates' documents, and the excluded candidates; None if
            there are no candidates.
        replaced: Versions of documents that were replaced during the last attempt.
        scored: The candidates and the chunks around them, with their relevance; None if there are
            no candidates.
        selection: The chunks in the order in which a growing budget adds them; None if there are
            no candidates.
        steps: Number of steps of the selection that fit the budget.
        passages: The passages that fit the budget, best first, with their outcomes.
        returned: The returned passages, in the order of the answer.
        documents_returned: The returned Documents.
        floor_checks: The comparison of each query with the score floor; empty without a floor.
        reason: Why the answer is empty, in words; None if it is not.
        seconds: Seconds spent in each step, summed over all attempts.
    """

    query: str
    settings: QuerySettings
    queries: Sequence[str] = ()
    searched: Candidates = field(default_factory=dict)
    candidates: Candidates = field(default_factory=dict)
    documents_found: int = 0
    full_text: str = ""
    looked_up: LookedUp | None = None
    replaced: AbstractSet[Outdated] = frozenset()
    scored: ScoredChunks | None = None
    selection: Selection | None = None
    steps: int = 0
    passages: Sequence[Passage] = ()
    returned: Sequence[Passage] = ()
    documents_returned: list[Document] = field(default_factory=list)
    floor_checks: Sequence[FloorCheck] = ()
    reason: str | None = None
    seconds: dict[str, float] = field(default_factory=dict)

    # Outcomes of chunks

    @cached_property
    def exclusions(self) -> dict[ChunkKey, Exclusion]:
        """The candidates that did not reach the solver, with the reason, best first."""
        exclusions: dict[ChunkKey, Exclusion] = {}
        rejected = {check.query for check in self.floor_checks if check.is_rejected}
        for candidate in best_of_queries(self.candidates):
            is_rejected = candidate.query in rejected
            reason = Reason.BELOW_THE_FLOOR if is_rejected else Reason.NOT_CONSIDERED
            exclusions[candidate.chunk_key] = Exclusion(candidate, reason)
        if self.looked_up is not None:
            exclusions |= self.looked_up.exclusions
        for candidate in best_of_queries(self.searched):
            exclusions.setdefault(candidate.chunk_key, Exclusion(candidate, Reason.DROPPED))
        if self.scored is not None:
            for candidate in self.scored.candidates.values():
                del exclusions[candidate.chunk_key]
        return exclusions

    @cached_property
    def chunks(self) -> list[Chunk]:
        """All candidates and the chunks around them, with their outcomes; best documents first."""
        chunks = {chunk.key: chunk for chunk in self._solved_chunks()}
        for key, exclusion in self.exclusions.items():
            chunk = chunks.get(key) or Chunk(None, exclusion.candidate.chunk_index)
            if chunk.outcome is Reason.FILLED:
                chunks[key] = replace(chunk, candidate=exclusion.candidate)
            else:
                chunks[key] = with_exclusion(chunk, exclusion)
        return list(chunks.values())

    def _solved_chunks(self) -> Iterator[Chunk]:
        """Yield the chunks that reached the solver, with their outcomes."""
        if self.selection is None:
            return
        returned = {id(passage) for passage in self.returned}
        outcome_of: dict[ChunkKey, Reason] = {}  # of chunks in passages
        for passage in self.passages:
            outcome = Reason.RETURNED if id(passage) in returned else passage.outcome
            for chunk in passage.chunks:
                outcome_of[chunk.key] = outcome
        step_of: dict[int, int] = {}
        for number, step in enumerate(self.selection.steps):
            step_of.update(dict.fromkeys(range(*step), number))
        for position in range(self.selection.values.size):
            chunk = self.selection.chunk_at(position)
            outcome = outcome_of.get(chunk.key, Reason.NO_CANDIDATE)
            if chunk.candidate is None and outcome is Reason.RETURNED:
                outcome = Reason.FILLED
            elif chunk.candidate is not None and outcome is Reason.NO_CANDIDATE:
                outcome = self._why_not_selected(chunk, step_of.get(position))
            yield replace(chunk, outcome=outcome)

    def _why_not_selected(self, chunk: Chunk, step: int | None) -> Reason:
        """Return the reason why a candidate is in no passage.

        Args:
            chunk: The candidate.
            step: The step of the selection that would add it; None if no step does.
        """
        is_exact = self.settings.config.solver == "exact"
        reaches_penalty = chunk.value > 0 if is_exact else chunk.value >= 0
        limit = self.settings.max_context_length
        is_too_long = step == 0 and self.steps == 0
        if limit is not None and self.settings.length_function is CHARACTERS:
            is_too_long = is_too_long or chunk.length > limit
        if is_too_long and reaches_penalty:
            return Reason.TOO_LONG
        if step is not None:
            return Reason.NO_ROOM
        if not reaches_penalty:
            return Reason.BELOW_THE_PENALTY
        if not is_exact:
            return Reason.NOT_CHOSEN
        has_room = self.selection is not None and self.steps == len(self.selection.steps)
        return Reason.PASSAGE_COST if has_room else Reason.NO_ROOM

    def why(self, chunk: Chunk) -> str:
        """Explain in a sentence why a chunk was returned or not."""
        check_type("chunk", chunk, Chunk, "one of trace.chunks")
        relevances = f"{chunk.relevance:.3f}"
        with_neighbors = f"{chunk.credited or chunk.relevance:.3f}"
        if relevances != with_neighbors:
            relevances += f" alone, {with_neighbors} with neighbors,"
        facts: dict[str, Any] = {
            "relevances": relevances,
            "length": chunk.length,
            "duplicate_of": chunk.duplicate_of,
            "dropped": "it",
        }
        for check in self.floor_checks:
            if chunk.candidate is not None and check.query == chunk.candidate.query:
                facts |= check._asdict()
        return self.sentence(chunk.outcome, facts)

    def sentence(self, reason: Reason, facts: Mapping[str, Any]) -> str:
        """Put a reason into words, with the settings and the facts of a chunk."""
        settings = self.settings
        solver = settings.config.solver
        budget = "max_context_length"
        if settings.max_context_length is not None:
            budget += f"={settings.max_context_length:.10g}"
        if isinstance(solver, Greedy):
            budget += f" or overall_max_length={solver.overall_max_length}"
        return reason.value.format(
            k=settings.k,
            budget=budget,
            solver=getattr(solver, "name", solver),
            minimum_value=getattr(solver, "minimum_value", None),
            passage_cost=settings.config.passage_cost,
            penalty=settings.penalty,
            top_k=settings.config.top_k_for_document_selection,
            **facts,
        )


def with_exclusion(chunk: Chunk, exclusion: Exclusion) -> Chunk:
    """Return a copy of a chunk with its excluded candidate and the reason."""
    return replace(
        chunk,
        candidate=exclusion.candidate,
        relevance=exclusion.candidate.relevance,
        outcome=exclusion.reason,
        duplicate_of=exclusion.detail if exclusion.reason is Reason.DUPLICATE else None,
    )
