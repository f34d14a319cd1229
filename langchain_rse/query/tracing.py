"""What the steps of a query saw, recorded, and the trace that is made of it.

Nothing is computed a second time: a trace has the numbers that chose the segments.
"""

import itertools
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document

from langchain_rse.config import QuerySettings, RSEConfig
from langchain_rse.errors import CorruptRecordError
from langchain_rse.explaining.trace import (
    OUTCOMES,
    RSETrace,
    TracedChunk,
    TracedDocument,
    TracedSegment,
)
from langchain_rse.query.budget import Budget
from langchain_rse.query.leaving_out import LeftOut
from langchain_rse.query.reading import DocumentSegment
from langchain_rse.query.scoring import ScoredChunks
from langchain_rse.query.searching import Candidate, Place
from langchain_rse.query.selecting import Selection
from langchain_rse.stores.reading import Layout
from langchain_rse.stores.records import DOC_ID, SEGMENT


class TraceCollector(BaseCallbackHandler):
    """Collects the trace of each query of an `RSERetriever`, alone or in a chain or agent.

    Attributes:
        traces: The `RSETrace` of each query that was answered, in the order of the answers.
    """

    def __init__(self) -> None:
        self.traces: list[RSETrace] = []


class Recorder:
    """Records one query, if a handler of its callbacks collects traces."""

    def __init__(self, query: str = "", handlers: Iterable[BaseCallbackHandler] = ()) -> None:
        self._query = query
        self._collectors = [one for one in handlers if isinstance(one, TraceCollector)]
        self._seconds: dict[str, float] = {}
        self._seen: dict[str, Any] = {}
        self._last = time.perf_counter()

    def saw(self, step: str, **seen: Any) -> None:  # noqa: ANN401 - of any step
        """Note what a step saw when it has ended; of a search that begins again, the last one."""
        if self._collectors:
            now = time.perf_counter()
            self._seconds[step] = self._seconds.get(step, 0.0) + now - self._last
            self._last = now
            self._seen = seen if step == "queries" else {**self._seen, **seen}

    def finish(self, documents: Sequence[Document]) -> None:
        """Make the trace of what was returned, and give it to the collectors."""
        if not self._collectors:
            return
        seen = self._seen
        settings: QuerySettings = seen["settings"]
        budget: Budget | None = seen.get("budget")
        segments = list(_segments(seen.get("segments", ()), documents, settings))
        config = settings.config.model_dump()
        if callable(config["calibration"]):
            config["calibration"] = _name(config["calibration"])
        others = {"config", "queries", "query_generator", "search_kwargs", "length_function"}
        own = settings.model_dump(exclude=others | config.keys())
        spent = sum(budget.measure(one.page_content) for one in documents) if budget else 0.0
        trace = RSETrace(
            query=self._query,
            queries=list(seen.get("searched", ())),
            settings={**config, **own, "length_function": _name(settings.length_function)},
            spent=spent,
            penalty=_penalty(seen, settings.config),
            steps=self._seconds,
            documents=list(_documents(seen, segments, settings)),
            segments=segments,
            reason=seen.get("reason"),
        )
        for collector in self._collectors:
            collector.traces.append(trace)


SILENT = Recorder()
"""A recorder that records nothing."""


def _name(function: object) -> str:
    return str(getattr(function, "__name__", None) or type(function).__name__)


def _segments(
    chosen: Sequence[DocumentSegment], documents: Sequence[Document], settings: QuerySettings
) -> Iterator[TracedSegment]:
    """The chosen segments, with what became of them."""
    numbers = {
        (one.metadata[DOC_ID], one.metadata[SEGMENT]["chunk_start"]): number
        for number, one in enumerate(documents, 1)
    }
    most, counts = settings.max_per_document, Counter[str]()
    for one in chosen:
        doc_id = one.document.manifest.doc_id
        number = numbers.get((doc_id, one.start))
        too_many = most is not None and counts[doc_id] >= most
        reason = "beyond max_per_document" if too_many else "beyond k"
        counts[doc_id] += 1
        start_index, end_index = one.span
        yield TracedSegment(
            doc_id=doc_id,
            chunk_start=one.start,
            chunk_end=one.end,
            start_index=start_index,
            end_index=end_index,
            value=one.value,
            returned=number is not None,
            reason=None if number else reason,
            text=one.text,
            number=number,
        )


def _penalty(seen: Mapping[str, Any], config: RSEConfig) -> float | None:
    """The lowest relevance that was worth text: more than the setting if the budget is short."""
    if "segments" not in seen or config.solver != "exact":
        return None
    selection, included = seen["selection"], seen["included"]
    least = config.irrelevant_chunk_penalty
    if included == len(selection.steps):
        return least
    taken = {column for step in selection.steps[:included] for column in range(*step)}
    worth = (value for column, value in selection.thresholds.items() if column in taken)
    return max(least, min(worth, default=0.0))


def _documents(
    seen: Mapping[str, Any], segments: Sequence[TracedSegment], settings: QuerySettings
) -> Iterator[TracedDocument]:
    """The documents that have candidates, the best first."""
    scored: ScoredChunks | None = seen.get("scored")
    found: dict[Place, LeftOut] = {}
    if scored:
        found = {c.place: LeftOut(c, value, "not considered") for c, value in scored.others}
    for candidate in itertools.chain(*seen.get("searched", {}).values()):
        known = scored.left_out.get(candidate.place) if scored else None
        known = known or LeftOut(candidate, 0.0, "filtered")
        found.setdefault(candidate.place, known._replace(candidate=candidate))
    examples = {one.candidate.key: one.candidate for one in found.values()}
    chunks: dict[str, list[TracedChunk]] = {}
    if scored:
        for key, chunk in _considered(seen, scored, found, segments, settings):
            chunks.setdefault(key, []).append(chunk)
    considered = set(chunks)
    for one in found.values():
        chunks.setdefault(one.candidate.key, []).append(_chunk(one.candidate.chunk_index, *one))
    for key, some in chunks.items():
        layout = scored.layouts.get(key, "") if scored else ""
        manifest = layout.manifest if isinstance(layout, Layout) else None
        metadata = manifest.metadata if manifest else examples[key].document.metadata
        names = {n: str(metadata[n]) for n in ("source", "title") if metadata.get(n) is not None}
        yield TracedDocument(
            doc_id=examples[key].doc_id,
            source=names.get("source"),
            title=names.get("title"),
            length=manifest.length if manifest else None,
            chunk_count=manifest.current.chunks if manifest and manifest.current else None,
            reason=None if key in considered else _why_not(some[0], layout, settings.config),
            chunks=sorted(some, key=lambda one: one.index),
        )


def _why_not(chunk: TracedChunk, layout: object, config: RSEConfig) -> str:
    """Why none of a document's chunks was considered, by the first of them."""
    if layout is None:
        return "the docstore does not know it"
    if isinstance(layout, CorruptRecordError):
        return "the docstore's records of it cannot be read"
    if chunk.outcome == "not considered":
        most = config.top_k_for_document_selection
        return f"none of its chunks is among the {most} best candidates"
    return OUTCOMES[chunk.outcome].format(chunk=chunk)


def _considered(
    seen: Mapping[str, Any],
    scored: ScoredChunks,
    found: dict[Place, LeftOut],
    segments: Sequence[TracedSegment],
    settings: QuerySettings,
) -> Iterator[tuple[str, TracedChunk]]:
    """The chunks that the solver saw, each with its document's key; takes them out of ``found``."""
    selection: Selection = seen["selection"]
    inside = {
        (one.doc_id, index): one.reason
        for one in segments
        for index in range(one.chunk_start, one.chunk_end)
    }
    outcomes = _outcomes(scored, selection, seen["included"], settings)
    lengths = scored.lengths.tolist()
    for (number, window), first in zip(scored.windows, scored.starts.tolist(), strict=True):
        layout = scored.documents[number]
        start, doc_id = layout.span_of(window.start)[0], layout.manifest.doc_id
        for column, index in enumerate(window, first):
            candidate, outcome = scored.candidates.get(column), outcomes[column]
            chosen = (doc_id, index) in inside
            if chosen:
                outcome = inside[doc_id, index] or ("returned" if candidate else "filled")
            elif candidate is None:
                outcome = "no candidate"
            chunk = _chunk(index, candidate, float(scored.relevance[column]), outcome)
            left_out = found.pop((doc_id, layout.version, index), None)
            if left_out and candidate is None and outcome != "filled":
                chunk = _chunk(index, *left_out)
            chunk.start_index, chunk.end_index = start, start + lengths[column]
            chunk.length = lengths[column]
            chunk.credited = float(scored.credited[column])
            chunk.value = float(selection.values[column])
            chunk.weight = float(selection.weights[column])
            yield layout.manifest.key, chunk
            start += lengths[column]


def _chunk(
    index: int, candidate: Candidate | None, relevance: float, outcome: str, of: str | None = None
) -> TracedChunk:
    chunk = TracedChunk(index, relevance=relevance, outcome=outcome, duplicate_of=of)
    if candidate:
        chunk.text = candidate.document.page_content
        for name in ("query", "rank", "score", "search_rank", "search_score"):
            setattr(chunk, name, getattr(candidate, name))
        chunk.lexical_rank, chunk.lexical_score = candidate.lexical_rank, candidate.lexical_score
    return chunk


def _outcomes(
    scored: ScoredChunks, selection: Selection, included: int, settings: QuerySettings
) -> list[str]:
    """Why each chunk that the solver saw is in no segment, if it is in none."""
    config, values, exact = settings.config, selection.values, settings.config.solver == "exact"
    if not values.size:
        return []
    # What the solver did not choose, by the run of chunks worth their text around each.
    good = values > 0 if exact else values >= 0
    bounds = np.union1d(scored.starts, np.flatnonzero(np.diff(good)) + 1)
    runs = np.repeat(np.add.reduceat(values, bounds), np.diff([*bounds, values.size]))
    shares = np.minimum(scored.document_lengths * selection.weights / scored.lengths, 1.0)
    cost = config.irrelevant_chunk_penalty * (config.segment_cost or 0.0) if exact else 0.0
    taken = np.full(values.size, -1)  # by which step
    for number, step in enumerate(selection.steps):
        taken[slice(*step)] = number
    rest = "segment cost"
    if config.solver == "best":
        rest = "not the best"
    elif exact and settings.max_per_document:
        rest = "beyond max_per_document"
    elif config.solver == "greedy" or included < len(selection.steps):
        rest = "no room"
    reasons = {
        "no room": taken >= included,
        "missing": taken >= 0,
        "below min_relevance": (scored.relevance == 0) & (config.min_relevance > 0),
        "below the penalty": ~good,
        "segment cost": exact & (runs <= cost * shares),
        "minimum value": runs - cost * shares < config.minimum_value,
    }
    return list(np.select(list(reasons.values()), list(reasons), rest).tolist())
