"""Makes the trace of a query from what its steps saw.

Nothing is computed a second time: a trace has the numbers by which segments were chosen.
"""

import itertools
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document

from langchain_rse.config import BestSegment, Greedy, QuerySettings, RSEConfig
from langchain_rse.engine import matched_words
from langchain_rse.errors import CorruptRecordError
from langchain_rse.explaining.trace import (
    OUTCOMES,
    RSETrace,
    TracedChunk,
    TracedDocument,
    TracedReach,
    TracedSegment,
)
from langchain_rse.query.budget import Budget
from langchain_rse.query.candidates import (
    Candidate,
    Candidates,
    ChunkKey,
    RelevanceParts,
    all_candidates,
)
from langchain_rse.query.copies import LeftOut
from langchain_rse.query.floors import Reached
from langchain_rse.query.lookup import LookedUp
from langchain_rse.query.ranking import best_of_queries
from langchain_rse.query.reading import DocumentSegment, ReadSegments
from langchain_rse.query.scoring import ScoredChunks
from langchain_rse.query.selection import Selection
from langchain_rse.stores.reading import Layout, Layouts
from langchain_rse.stores.records import DOC_ID, SEGMENT

# Fields that a traced chunk takes from its candidate.
_OF_CANDIDATES = TracedChunk.__dataclass_fields__.keys() & set(Candidate._fields)
# Fields of the settings that a trace does not have, or has in another form.
_NOT_TRACED = {
    "config",
    "queries",
    "query_generator",
    "reranker",
    "search_kwargs",
    "length_function",
    *RSEConfig.model_fields,
}


class TraceCollector(BaseCallbackHandler):
    """Collects the trace of each query of an `RSERetriever`, alone or in a chain or agent.

    Attributes:
        traces: The `RSETrace` of each query that was answered, in the order of the answers.
    """

    def __init__(self) -> None:
        self.traces: list[RSETrace] = []


class Solved(NamedTuple):
    """What the steps from *look up* to *read* saw."""

    looked_up: LookedUp
    scored: ScoredChunks
    budget: Budget
    selection: Selection
    read_segments: ReadSegments


@dataclass
class QueryLog:
    """What the steps of a query saw. A repeated attempt replaces what the last one saw."""

    settings: QuerySettings  # as they were used
    searched: Candidates = field(default_factory=dict)  # before a reranker
    obstacle: str = ""  # why the full-text index was not searched, where it would be
    solved: Solved | None = None  # None if there were no candidates
    reached: Sequence[Reached] = ()  # of each query, if there is a score floor
    reason: str | None = None  # why nothing was returned
    seconds: dict[str, float] = field(default_factory=dict)  # of each step, in all attempts
    _last: float = field(default_factory=time.perf_counter)

    def ended(self, step: str) -> None:
        """Note that a step has ended."""
        now = time.perf_counter()
        self.seconds[step] = self.seconds.get(step, 0.0) + now - self._last
        self._last = now


def collect_trace(
    query: str,
    log: QueryLog,
    documents: Sequence[Document],
    handlers: Iterable[BaseCallbackHandler],
) -> None:
    """Give the trace of a query that returned ``documents`` to those handlers that collect it."""
    collectors = [handler for handler in handlers if isinstance(handler, TraceCollector)]
    if not collectors:
        return
    trace = _make_trace(query, log, documents)
    for collector in collectors:
        collector.traces.append(trace)


def _make_trace(query: str, log: QueryLog, documents: Sequence[Document]) -> RSETrace:
    settings = log.settings
    traced_segments: list[TracedSegment] = []
    spent = 0.0
    if log.solved is not None:
        segments = log.solved.read_segments.segments
        traced_segments = list(_trace_segments(segments, documents, settings))
        budget = log.solved.budget
        spent = sum(budget.measure(document.page_content) for document in documents)
    return RSETrace(
        query=query,
        queries=list(log.searched),
        settings=_trace_settings(settings),
        spent=spent,
        penalty=_lowest_relevance(log.solved, settings.config),
        steps=log.seconds,
        documents=_trace_documents(log, traced_segments),
        segments=traced_segments,
        reason=log.reason,
        full_text=log.obstacle,
        reached=[_trace_reached(reached) for reached in log.reached],
    )


def _trace_reached(reached: Reached) -> TracedReach:
    best = reached.best
    source = None
    if best is not None:
        metadata = best.document.metadata
        source = _as_text(metadata.get("source") or metadata.get("title"))
    return TracedReach(
        query=reached.query,
        doc_id=best.doc_id if best is not None else None,
        source=source,
        text=best.document.page_content if best is not None else None,
        score=best.score if best is not None else None,
        word_share=reached.word_share,
        reach=reached.reach,
        floor=reached.floor,
        closer_than=reached.closer_than,
        compared_with=reached.compared_with,
        refused=reached.is_refused,
    )


def _trace_settings(settings: QuerySettings) -> dict[str, Any]:
    traced = settings.config.model_dump()
    if callable(traced["calibration"]):
        traced["calibration"] = _name_of(traced["calibration"])
    traced |= settings.model_dump(exclude=_NOT_TRACED)
    traced["length_function"] = _name_of(settings.length_function)
    return traced


def _name_of(function: object) -> str:
    return str(getattr(function, "__name__", None) or type(function).__name__)


def _lowest_relevance(solved: Solved | None, config: RSEConfig) -> float | None:
    """The lowest relevance that was chosen: above the penalty if the budget is short."""
    if solved is None or config.solver != "exact":
        return None
    steps = solved.selection.steps
    included = solved.read_segments.steps
    if included == len(steps):
        return config.irrelevant_chunk_penalty
    taken: set[int] = set()
    for step in steps[:included]:
        taken.update(range(*step))
    thresholds = [
        threshold for column, threshold in solved.selection.thresholds.items() if column in taken
    ]
    return max([config.irrelevant_chunk_penalty, min(thresholds, default=0.0)])


# Segments


def _trace_segments(
    segments: Sequence[DocumentSegment], documents: Sequence[Document], settings: QuerySettings
) -> Iterator[TracedSegment]:
    """Trace the chosen segments: whether each was returned, and why not."""
    number_of: dict[tuple[str, int], int] = {}
    for position, document in enumerate(documents, 1):
        chunk_start = document.metadata[SEGMENT]["chunk_start"]
        number_of[document.metadata[DOC_ID], chunk_start] = position
    counts: Counter[str] = Counter()  # of segments, by document
    for segment in segments:
        doc_id = segment.document.manifest.doc_id
        number = number_of.get((doc_id, segment.start))
        reason: str | None = None
        if number is None:
            reason = "beyond k"
            most = settings.max_per_document
            if most is not None and counts[doc_id] >= most:
                reason = "beyond max_per_document"
        counts[doc_id] += 1
        start_index, end_index = segment.span
        yield TracedSegment(
            doc_id=doc_id,
            chunk_start=segment.start,
            chunk_end=segment.end,
            start_index=start_index,
            end_index=end_index,
            value=segment.value,
            returned=number is not None,
            reason=reason,
            text=segment.text,
            number=number,
        )


# Documents and chunks


def _trace_documents(log: QueryLog, segments: Sequence[TracedSegment]) -> list[TracedDocument]:
    """Trace the documents that have candidates, the best first."""
    candidates = _candidates_with_outcomes(log)
    candidate_of_document: dict[str, Candidate] = {}
    for left_out in candidates.values():
        candidate_of_document[left_out.candidate.key] = left_out.candidate
    chunks: dict[str, list[TracedChunk]] = {}  # by document
    ranked_candidates = [left_out.candidate for left_out in candidates.values()]
    layouts: Layouts = {}
    if log.solved is not None:
        layouts = log.solved.looked_up.layouts
        for key, chunk in _trace_solved(log.solved, candidates, segments, log.settings):
            chunks.setdefault(key, []).append(chunk)
    considered = set(chunks)
    for left_out in candidates.values():  # those that the solver did not see
        chunk = _trace_candidate(left_out)
        chunks.setdefault(left_out.candidate.key, []).append(chunk)
    _trace_words(itertools.chain.from_iterable(chunks.values()), ranked_candidates)
    documents = []
    for key, document_chunks in chunks.items():
        candidate = candidate_of_document[key]
        document = _trace_document(candidate, layouts.get(key), document_chunks)
        if key not in considered:
            is_unknown = key in layouts and layouts[key] is None
            document.reason = _why_not_considered(
                document_chunks[0], layouts.get(key), log.settings, is_unknown=is_unknown
            )
        documents.append(document)
    return documents


def _candidates_with_outcomes(log: QueryLog) -> dict[ChunkKey, LeftOut]:
    """All candidates, with the outcome of those that the solver did not see."""
    candidates: dict[ChunkKey, LeftOut] = {}
    known_left_out: Mapping[ChunkKey, LeftOut] = {}
    if log.solved is not None:
        looked_up = log.solved.looked_up
        known_left_out = looked_up.left_out
        for candidate, relevance in best_of_queries(looked_up.ranked, looked_up.queries):
            candidates[candidate.chunk_key] = LeftOut(candidate, relevance, "not considered")
    outcome = "filtered"
    if any(reached.is_refused for reached in log.reached):
        outcome = "below the floor"
    for candidate in all_candidates(log.searched):
        left_out = known_left_out.get(candidate.chunk_key, LeftOut(candidate, 0.0, outcome))
        candidates.setdefault(candidate.chunk_key, left_out)
    return candidates


def _trace_document(
    candidate: Candidate,
    layout: Layout | CorruptRecordError | None,
    chunks: Sequence[TracedChunk],
) -> TracedDocument:
    metadata: Mapping[str, Any] = candidate.document.metadata
    length = None
    chunk_count = None
    if isinstance(layout, Layout):
        metadata = layout.manifest.metadata
        length = layout.manifest.length
        if layout.manifest.current is not None:
            chunk_count = layout.manifest.current.chunks
    return TracedDocument(
        doc_id=candidate.doc_id,
        source=_as_text(metadata.get("source")),
        title=_as_text(metadata.get("title")),
        length=length,
        chunk_count=chunk_count,
        reason=None,
        chunks=sorted(chunks, key=lambda chunk: chunk.index),
    )


def _as_text(value: object) -> str | None:
    return None if value is None else str(value)


def _why_not_considered(
    chunk: TracedChunk, layout: object, settings: QuerySettings, *, is_unknown: bool
) -> str:
    """Say why none of a document's chunks was considered, by the first of them."""
    if is_unknown:
        return "the docstore does not know it"
    if isinstance(layout, CorruptRecordError):
        return "the docstore's records of it cannot be read"
    if chunk.outcome == "not considered":
        most = settings.config.top_k_for_document_selection
        return f"none of its chunks is among the {most} best candidates"
    return OUTCOMES[chunk.outcome].format(chunk=chunk)


def _trace_solved(
    solved: Solved,
    candidates: dict[ChunkKey, LeftOut],
    segments: Sequence[TracedSegment],
    settings: QuerySettings,
) -> Iterator[tuple[str, TracedChunk]]:
    """Trace the chunks that the solver saw, with the keys of their documents.

    They are removed from ``candidates``.
    """
    scored = solved.scored
    selection = solved.selection
    segment_of: dict[tuple[str, int], TracedSegment] = {}
    for segment in segments:
        for index in range(segment.chunk_start, segment.chunk_end):
            segment_of[segment.doc_id, index] = segment
    outcomes = _outcomes(solved, settings)
    for column, (layout, index) in enumerate(scored.chunks):
        doc_id = layout.manifest.doc_id
        candidate = scored.candidates.get(column)
        outcome = outcomes[column] if candidate is not None else "no candidate"
        if (doc_id, index) in segment_of:
            reason = segment_of[doc_id, index].reason
            if reason is not None:
                outcome = reason
            elif candidate is None:
                outcome = "filled"
            else:
                outcome = "returned"
        left_out = candidates.pop((doc_id, layout.version, index), None)
        if left_out is not None and candidate is None and outcome != "filled":
            chunk = _trace_candidate(left_out)
        else:
            chunk = _trace_chunk(index, candidate, float(scored.relevance[column]), outcome)
        chunk.start_index, chunk.end_index = layout.span_of(index)
        chunk.length = int(scored.lengths[column])
        chunk.credited = float(scored.credited[column])
        chunk.value = float(selection.values[column])
        chunk.weight = float(selection.weights[column])
        yield layout.manifest.key, chunk


def _trace_candidate(left_out: LeftOut) -> TracedChunk:
    """Trace a candidate that the solver did not see."""
    candidate = left_out.candidate
    chunk = _trace_chunk(candidate.chunk_index, candidate, left_out.relevance, left_out.outcome)
    chunk.duplicate_of = left_out.duplicate_of
    return chunk


def _trace_chunk(
    index: int, candidate: Candidate | None, relevance: float, outcome: str
) -> TracedChunk:
    chunk = TracedChunk(index, relevance=relevance, outcome=outcome)
    if candidate is not None:
        chunk.text = candidate.document.page_content
        for name in _OF_CANDIDATES:
            setattr(chunk, name, getattr(candidate, name))
        if candidate.parts is not None:
            _trace_parts(chunk, candidate.parts)
    return chunk


def _trace_parts(chunk: TracedChunk, parts: RelevanceParts) -> None:
    """Note what a chunk's relevance was made of."""
    chunk.by_vectors = parts.vectors
    chunk.by_words = parts.words
    chunk.by_full_text = parts.full_text
    chunk.by_reranker = parts.reranker
    chunk.name_factor = parts.name_factor


def _trace_words(chunks: Iterable[TracedChunk], candidates: Iterable[Candidate]) -> None:
    """Note which words of its query each chunk has that they made more relevant."""
    texts_of: dict[tuple[str, str], list[str]] = {}  # by query, and by the words that were compared
    for candidate in candidates:
        if candidate.parts is not None:
            compared = (candidate.query, candidate.parts.matched_query)
            texts_of.setdefault(compared, []).append(candidate.document.page_content)
    words_of: dict[tuple[str, str], list[str]] = {}  # by query and text
    for (query, matched_query), texts in texts_of.items():
        for text, words in zip(texts, matched_words(matched_query, texts), strict=True):
            words_of[query, text] = words
    for chunk in chunks:
        if chunk.by_words or chunk.by_full_text:
            chunk.matched_words = words_of.get((chunk.query, chunk.text or ""), [])


def _outcomes(solved: Solved, settings: QuerySettings) -> list[str]:
    """Say for each chunk that the solver saw why it is in no segment, if it is in none."""
    config = settings.config
    scored = solved.scored
    selection = solved.selection
    values = selection.values
    if not values.size:
        return []
    is_exact = config.solver == "exact"
    # Chunks not chosen have the reason of the run of chunks around them that are worth the penalty.
    is_worth = values > 0 if is_exact else values >= 0
    changes = np.flatnonzero(np.diff(is_worth)) + 1
    run_starts = np.union1d(scored.window_starts, changes)
    run_lengths = np.diff([*run_starts, values.size])
    run_values = np.repeat(np.add.reduceat(values, run_starts), run_lengths)
    costs = np.zeros(values.size)
    if is_exact:
        document_weights = scored.document_lengths * selection.weights / scored.lengths
        segment_cost = config.irrelevant_chunk_penalty * config.segment_cost
        costs = segment_cost * np.minimum(document_weights, 1.0)
    step_of = np.full(values.size, -1)
    for number, step in enumerate(selection.steps):
        step_of[slice(*step)] = number
    included = solved.read_segments.steps
    is_below_minimum = np.full(values.size, config.min_relevance > 0)
    conditions = {
        "no room": step_of >= included,
        "missing": step_of >= 0,
        "below min_relevance": is_below_minimum & (scored.relevance == 0),
        "below the penalty": ~is_worth,
        "segment cost": np.full(values.size, is_exact) & (run_values <= costs),
        "minimum value": run_values - costs < config.minimum_value,
    }
    otherwise = _outcome_of_others(solved, settings)
    return list(np.select(list(conditions.values()), list(conditions), otherwise).tolist())


def _outcome_of_others(solved: Solved, settings: QuerySettings) -> str:
    """The outcome of chunks that are worth more than they cost, and were not chosen."""
    solver = settings.config.solver
    if isinstance(solver, BestSegment):
        return "not the best"
    if solver == "exact" and settings.max_per_document:
        return "beyond max_per_document"
    all_included = solved.read_segments.steps == len(solved.selection.steps)
    if isinstance(solver, Greedy) or not all_included:
        return "no room"
    return "segment cost"
