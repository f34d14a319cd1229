"""What the steps of a query saw, recorded, and the trace that is made of it.

Nothing is computed a second time: a trace has the numbers that chose the segments.
"""

import itertools
import math
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document

from langchain_rse.config import QuerySettings, RSEConfig
from langchain_rse.engine import Floats
from langchain_rse.explaining.trace import (
    BEYOND_DOCUMENT,
    BEYOND_K,
    RSETrace,
    TracedBudget,
    TracedChunk,
    TracedDocument,
    TracedSegment,
    TracedStep,
)
from langchain_rse.query.budget import Budget
from langchain_rse.query.reading import DocumentSegment
from langchain_rse.query.scoring import ScoredChunks
from langchain_rse.query.searching import Candidate, Sources
from langchain_rse.query.selecting import Selection
from langchain_rse.stores.reading import Layout
from langchain_rse.stores.records import DOC_ID, SEGMENT

# Settings of a query that the trace has beside those of `RSEConfig`.
_SETTINGS = (
    *("k", "fetch_k", "max_context_length", "hybrid", "order", "allow_trim", "include_header"),
    *("candidates_only", "max_per_document", "duplicates", "combine_queries", "on_missing"),
)


class TraceCollector(BaseCallbackHandler):
    """Collects the trace of each query of an `RSERetriever`, alone or in a chain or agent.

    Attributes:
        traces: The `RSETrace` of each query that was answered, in the order of the answers.

    Example:
        .. code-block:: python

            collector = TraceCollector()
            chain.invoke("What drove gross margin?", config={"callbacks": [collector]})
            print(collector.traces[0])
    """

    def __init__(self) -> None:
        self.traces: list[RSETrace] = []


class Silent:
    """A recorder that records nothing."""

    def saw(self, step: str, **seen: Any) -> None:  # noqa: ANN401
        """Note what a step saw when it has ended."""

    def finish(self, documents: Sequence[Document]) -> None:
        """Make the trace, and give it to those who collect it."""


SILENT = Silent()


def recorder_for(query: str, handlers: Iterable[BaseCallbackHandler]) -> Silent:
    """A recorder, if a handler collects traces."""
    collectors = [one for one in handlers if isinstance(one, TraceCollector)]
    return Recorder(query, collectors) if collectors else SILENT


class Recorder(Silent):
    """Records one query."""

    def __init__(self, query: str, collectors: Sequence[TraceCollector]) -> None:
        self._query = query
        self._collectors = collectors
        self._seconds: dict[str, float] = {}
        self._seen: dict[str, Any] = {}
        self._last = time.perf_counter()

    def saw(self, step: str, **seen: Any) -> None:  # noqa: ANN401
        """Note what a step saw when it has ended; of a search that begins again, the last one."""
        now = time.perf_counter()
        self._seconds[step] = self._seconds.get(step, 0.0) + now - self._last
        self._last = now
        self._seen = {**(self._seen if step != "queries" or "reason" in seen else {}), **seen}

    def finish(self, documents: Sequence[Document]) -> None:
        """Make the trace, and give it to those who collect it."""
        trace = self._trace(documents)
        for collector in self._collectors:
            collector.traces.append(trace)

    def _trace(self, documents: Sequence[Document]) -> RSETrace:
        seen = self._seen
        settings: QuerySettings = seen["settings"]
        budget: Budget | None = seen.get("budget")
        segments, penalty = list[TracedSegment](), None
        if "segments" in seen:
            segments = list(_segments(seen["segments"], documents, settings))
            penalty = _penalty(seen["selection"], seen["included"], settings.config)
        return RSETrace(
            query=self._query,
            queries=tuple(seen.get("searched", ())),
            settings=_as_json(settings),
            budget=TracedBudget(
                limit=settings.max_context_length,
                unit=_name(settings.length_function),
                characters=budget.characters if budget else None,
                spent=sum(budget.measure(one.page_content) for one in documents) if budget else 0.0,
            ),
            penalty=penalty,
            steps=tuple(itertools.starmap(TracedStep, self._seconds.items())),
            documents=tuple(_documents(seen, segments, settings)),
            segments=tuple(segments),
            reason=seen.get("reason"),
        )


def _as_json(settings: QuerySettings) -> dict[str, Any]:
    config = settings.config.model_dump()
    if callable(config["calibration"]):
        config["calibration"] = _name(config["calibration"])
    own = {name: getattr(settings, name) for name in _SETTINGS}
    return {**config, **own, "length_function": _name(settings.length_function)}


def _name(function: object) -> str:
    return str(getattr(function, "__name__", None) or type(function).__name__)


def _segments(
    chosen: Sequence[DocumentSegment], documents: Sequence[Document], settings: QuerySettings
) -> Iterator[TracedSegment]:
    """The chosen segments, with what became of them."""
    returned = {
        (one.metadata[DOC_ID], one.metadata[SEGMENT]["chunk_start"]): (number, one)
        for number, one in enumerate(documents, 1)
    }
    counts: Counter[str] = Counter()
    for segment in chosen:
        manifest = segment.document.manifest
        start = segment.document.span_of(segment.start)[0] + segment.skipped
        end = segment.document.span_of(segment.end - 1)[1] - segment.dropped
        number, found = returned.get((manifest.doc_id, segment.start), (None, None))
        text, reason = found.page_content if found else "", None
        if found is None:
            text = "".join(one.page_content for one in segment.records if one is not None)
            text = text[segment.skipped : len(text) - segment.dropped]
            few = settings.max_per_document
            reason = BEYOND_DOCUMENT if few and counts[manifest.key] >= few else BEYOND_K
        counts[manifest.key] += 1
        yield TracedSegment(
            doc_id=manifest.doc_id,
            source=_text(manifest.metadata.get("source")),
            chunk_start=segment.start,
            chunk_end=segment.end,
            start_index=start,
            end_index=end,
            value=segment.value,
            returned=found is not None,
            reason=reason,
            text=text,
            number=number,
        )


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _penalty(selection: Selection, included: int, config: RSEConfig) -> float | None:
    """The lowest relevance that was worth text: more than the setting if the budget is short."""
    if config.solver != "exact":
        return None
    taken = [column for step in selection.steps[:included] for column in range(*step)]
    least = min((selection.thresholds.get(column, math.inf) for column in taken), default=math.inf)
    short = included < len(selection.steps) and least < math.inf
    return max(config.irrelevant_chunk_penalty, least if short else 0.0)


def _documents(
    seen: Mapping[str, Any], segments: Sequence[TracedSegment], settings: QuerySettings
) -> Iterator[TracedDocument]:
    """The documents that have candidates, the best first."""
    scored: ScoredChunks | None = seen.get("scored")
    layouts: Mapping[str, object] = scored.layouts if scored else {}
    left_out = scored.left_out if scored else {}
    others = {one.place: (one, relevance) for one, relevance in scored.others} if scored else {}
    chunks: dict[str, list[TracedChunk]] = {}
    known: dict[str, Candidate] = {}
    if scored and "segments" in seen:
        outcomes = _outcomes(scored, seen["selection"], seen["included"], segments, settings)
        for layout, chunk in _considered(scored, seen["selection"], outcomes):
            chunks.setdefault(layout.manifest.key, []).append(chunk)
        known = {one.key: one for one in scored.candidates.values()}
    considered = set(chunks)
    done = {one.place for one in scored.candidates.values()} if known and scored else set()
    searched = itertools.chain(*seen.get("searched", {}).values())
    for candidate in itertools.chain((one for one, _ in others.values()), searched):
        if candidate.place in done:
            continue
        done.add(candidate.place)
        known.setdefault(candidate.key, candidate)
        left, relevance = left_out.get(candidate.place), others.get(candidate.place, (0, 0.0))[1]
        outcome = left.outcome if left else "filtered"
        if candidate.place in others:
            outcome = "not considered"
        chunk = _chunk(candidate, left.relevance if left else relevance, outcome)
        chunk = chunk._replace(duplicate_of=(left.of or None) if left else None)
        chunks.setdefault(candidate.key, []).append(chunk)
    for key, some in chunks.items():
        found = layouts.get(key)
        manifest = found.manifest if isinstance(found, Layout) else None
        metadata = manifest.metadata if manifest is not None else known[key].document.metadata
        reason = None
        if key not in considered:
            reason = _why_not(some[0], key, layouts, seen["sources"], settings)
        yield TracedDocument(
            doc_id=known[key].doc_id,
            source=_text(metadata.get("source")),
            title=_text(metadata.get("title")),
            length=None if manifest is None else manifest.length,
            chunk_count=None
            if manifest is None or not manifest.current
            else manifest.current.chunks,
            reason=reason,
            chunks=tuple(sorted(some, key=lambda chunk: chunk.index)),
        )


def _why_not(
    chunk: TracedChunk,
    key: str,
    layouts: Mapping[str, object],
    sources: Sources,
    settings: QuerySettings,
) -> str:
    """Why none of a document's chunks was considered, by the first of them."""
    if chunk.outcome == "older version":
        return "an older version"
    if chunk.outcome == "duplicate":
        return f"the same text as {chunk.duplicate_of!r}"
    if chunk.outcome == "filtered":
        return f"{type(sources.reranker).__name__} dropped its chunks"
    if key in layouts and layouts[key] is None:
        return "the docstore does not know it"
    if key in layouts and not isinstance(layouts[key], Layout):
        return "its records in the docstore cannot be read"
    most = settings.config.top_k_for_document_selection
    return f"none of its chunks is among the {most} best candidates"


def _considered(
    scored: ScoredChunks, selection: Selection, outcomes: Sequence[str]
) -> Iterator[tuple[Layout, TracedChunk]]:
    """The chunks that the solver saw, each with its document."""
    numbers = zip(
        scored.lengths.tolist(),
        scored.relevance.tolist(),
        scored.credited.tolist(),
        selection.values.tolist(),
        selection.weights.tolist(),
        outcomes,
        strict=True,
    )
    for (number, window), first in zip(scored.windows, scored.starts.tolist(), strict=True):
        layout = scored.documents[number]
        start = layout.span_of(window.start)[0]
        for column, index in enumerate(window, first):
            length, relevance, credited, value, weight, outcome = next(numbers)
            candidate = scored.candidates.get(column)
            chunk = (
                TracedChunk(index=index, outcome=outcome)
                if candidate is None
                else _chunk(candidate, relevance, outcome)
            )
            yield (
                layout,
                chunk._replace(
                    start_index=start,
                    end_index=start + length,
                    length=length,
                    credited=credited,
                    value=value,
                    weight=weight,
                ),
            )
            start += length


def _chunk(candidate: Candidate, relevance: float, outcome: str) -> TracedChunk:
    """What is known of a candidate without its document."""
    return TracedChunk(
        index=candidate.chunk_index,
        rank=candidate.rank,
        score=candidate.score,
        search_rank=candidate.search_rank,
        search_score=candidate.search_score,
        lexical_rank=candidate.lexical_rank,
        lexical_score=candidate.lexical_score,
        query=candidate.query,
        relevance=relevance,
        text=candidate.document.page_content,
        outcome=outcome,
    )


def _outcomes(
    scored: ScoredChunks,
    selection: Selection,
    included: int,
    segments: Sequence[TracedSegment],
    settings: QuerySettings,
) -> list[str]:
    """What became of each chunk that the solver saw."""
    chosen = {
        (one.doc_id, n): one for one in segments for n in range(one.chunk_start, one.chunk_end)
    }
    fitting = {column for step in selection.steps[:included] for column in range(*step)}
    beyond = {column for step in selection.steps[included:] for column in range(*step)}
    refused = _refused(scored, selection, settings, short=bool(beyond))
    places = [
        (scored.documents[number].manifest.doc_id, index)
        for number, window in scored.windows
        for index in window
    ]
    outcomes = []
    for column, place in enumerate(places):
        is_candidate, segment = column in scored.candidates, chosen.get(place)
        if segment is not None:
            outcome = segment.reason or ("returned" if is_candidate else "filled")
        elif not is_candidate:
            outcome = "no candidate"
        elif column in fitting:
            outcome = "missing"
        elif column in beyond:
            outcome = "no room"
        else:
            outcome = refused[column]
        outcomes.append(outcome)
    return outcomes


def _refused(
    scored: ScoredChunks, selection: Selection, settings: QuerySettings, *, short: bool
) -> list[str]:
    """Why the solver did not choose chunks: by the run of chunks worth their text around each."""
    config, values = settings.config, selection.values
    exact = config.solver == "exact"
    good = values > 0 if exact else values >= 0
    bounds = np.union1d(scored.starts, np.flatnonzero(np.diff(good)) + 1)
    sums = np.add.reduceat(values, bounds)
    runs = np.repeat(sums, np.diff([*bounds, values.size]))
    costs: Floats = np.zeros(values.size)
    if exact:
        documents = scored.document_lengths * selection.weights / scored.lengths
        costs += (config.segment_cost or 0.0) * np.minimum(documents, 1.0)
        costs *= config.irrelevant_chunk_penalty
    outcomes = np.full(values.size, "no room" if short or not exact else "segment cost", object)
    if config.solver == "best":
        outcomes[:] = "not the best"
    elif exact and settings.max_per_document:
        outcomes[:] = BEYOND_DOCUMENT
    outcomes[runs - costs < config.minimum_value] = "minimum value"
    outcomes[runs <= costs] = "segment cost" if exact else "minimum value"
    outcomes[~good] = "below the penalty"
    outcomes[(scored.relevance == 0) & (config.min_relevance > 0)] = "below min_relevance"
    return list(outcomes)
