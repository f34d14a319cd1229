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
from langchain_rse.engine import Floats
from langchain_rse.errors import CorruptRecordError
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
from langchain_rse.query.searching import Candidate
from langchain_rse.query.selecting import Selection
from langchain_rse.stores.reading import Layout
from langchain_rse.stores.records import DOC_ID, SEGMENT

# Settings of a query that the trace has beside those of `RSEConfig`.
_SETTINGS = (
    *("k", "fetch_k", "max_context_length", "hybrid", "order", "allow_trim", "include_header"),
    *("candidates_only", "max_per_document", "duplicates", "combine_queries", "on_missing"),
)

# What the trace has of a candidate under the same name.
_OF_CANDIDATES = (
    *("rank", "score", "search_rank", "search_score", "lexical_rank", "lexical_score", "query"),
)
# And of a chunk that the solver saw, whatever else is known of it.
_OF_WINDOWS = ("start_index", "end_index", "length", "credited", "value", "weight")


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
        if self._collectors:
            trace = self._trace(documents)
            for collector in self._collectors:
                collector.traces.append(trace)

    def _trace(self, documents: Sequence[Document]) -> RSETrace:
        seen = self._seen
        settings: QuerySettings = seen["settings"]
        budget: Budget | None = seen.get("budget")
        segments = tuple(_segments(seen.get("segments", ()), documents, settings))
        unit = _name(settings.length_function)
        config = settings.config.model_dump()
        if callable(config["calibration"]):
            config["calibration"] = _name(config["calibration"])
        own = {name: getattr(settings, name) for name in _SETTINGS}
        return RSETrace(
            query=self._query,
            queries=tuple(seen.get("searched", ())),
            settings={**config, **own, "length_function": unit},
            budget=TracedBudget(
                settings.max_context_length,
                unit,
                characters=budget.characters if budget else None,
                spent=sum(budget.measure(one.page_content) for one in documents) if budget else 0.0,
            ),
            penalty=_penalty(seen, settings.config),
            steps=tuple(itertools.starmap(TracedStep, self._seconds.items())),
            documents=tuple(_documents(seen, segments, settings)),
            segments=segments,
            reason=seen.get("reason"),
        )


SILENT = Recorder()
"""A recorder that records nothing."""


def _name(function: object) -> str:
    return str(getattr(function, "__name__", None) or type(function).__name__)


def _names(metadata: Mapping[str, Any]) -> list[str | None]:
    """Source and title."""
    return [None if (one := metadata.get(n)) is None else str(one) for n in ("source", "title")]


def _segments(
    chosen: Sequence[DocumentSegment], documents: Sequence[Document], settings: QuerySettings
) -> Iterator[TracedSegment]:
    """The chosen segments, with what became of them."""
    returned = {
        (one.metadata[DOC_ID], one.metadata[SEGMENT]["chunk_start"]): number
        for number, one in enumerate(documents, 1)
    }
    counts: Counter[str] = Counter()
    for one in chosen:
        doc_id = one.document.manifest.doc_id
        number, reason = returned.get((doc_id, one.start)), None
        if number is None:
            few = settings.max_per_document
            reason = BEYOND_DOCUMENT if few and counts[doc_id] >= few else BEYOND_K
        counts[doc_id] += 1
        text = "".join(record.page_content for record in one.records if record is not None)
        yield TracedSegment(
            doc_id=doc_id,
            source=_names(one.document.manifest.metadata)[0],
            chunk_start=one.start,
            chunk_end=one.end,
            start_index=one.document.span_of(one.start)[0] + one.skipped,
            end_index=one.document.span_of(one.end - 1)[1] - one.dropped,
            value=one.value,
            returned=number is not None,
            reason=reason,
            text=text[one.skipped : len(text) - one.dropped],
            number=number,
        )


def _penalty(seen: Mapping[str, Any], config: RSEConfig) -> float | None:
    """The lowest relevance that was worth text: more than the setting if the budget is short."""
    if "segments" not in seen or config.solver != "exact":
        return None
    selection, included = seen["selection"], seen["included"]
    taken = [column for step in selection.steps[:included] for column in range(*step)]
    some = [selection.thresholds[column] for column in taken if column in selection.thresholds]
    short = included < len(selection.steps)
    return max(config.irrelevant_chunk_penalty, min(some) if some and short else 0.0)


def _documents(
    seen: Mapping[str, Any], segments: Sequence[TracedSegment], settings: QuerySettings
) -> Iterator[TracedDocument]:
    """The documents that have candidates, the best first."""
    scored: ScoredChunks | None = seen.get("scored")
    layouts: Mapping[str, object] = scored.layouts if scored else {}
    chunks: dict[str, dict[tuple[str, int], TracedChunk]] = {}  # by document, version and number
    if scored and "segments" in seen:
        outcomes = _outcomes(scored, seen["selection"], seen["included"], segments, settings)
        for layout, chunk in _considered(scored, seen["selection"], outcomes):
            chunks.setdefault(layout.manifest.key, {})[layout.version, chunk.index] = chunk
    considered = set(chunks)
    examples: dict[str, Candidate] = {}
    for candidate, other in _not_considered(seen, scored):
        if other:
            some = chunks.setdefault(candidate.key, {})
            place = candidate.version, candidate.chunk_index
            around = some.get(place, other)  # one that candidates around it brought in
            if around.outcome != "filled":
                known = {name: getattr(around, name) for name in _OF_WINDOWS}
                some[place] = other._replace(**known)
        examples.setdefault(candidate.key, candidate)
    for key, some in chunks.items():
        first = next(iter(some.values()))
        found = layouts.get(key, "")
        manifest = found.manifest if isinstance(found, Layout) else None
        source, title = _names(manifest.metadata if manifest else examples[key].document.metadata)
        yield TracedDocument(
            doc_id=examples[key].doc_id,
            source=source,
            title=title,
            length=manifest.length if manifest else None,
            chunk_count=manifest.current.chunks if manifest and manifest.current else None,
            reason=None if key in considered else _why_not(first, found, settings.config),
            chunks=tuple(sorted(some.values(), key=lambda one: one.index)),
        )


def _why_not(chunk: TracedChunk, layout: object, config: RSEConfig) -> str:
    """Why none of a document's chunks was considered, by the first of them."""
    most = config.top_k_for_document_selection
    reasons = {
        "older version": "an older version",
        "duplicate": f"the same text as {chunk.duplicate_of!r}",
        "filtered": "the reranker dropped its chunks",
        "not considered": f"none of its chunks is among the {most} best candidates",
    }
    if layout is None:
        return "the docstore does not know it"
    unreadable = isinstance(layout, CorruptRecordError)
    return "the docstore's records of it cannot be read" if unreadable else reasons[chunk.outcome]


def _considered(
    scored: ScoredChunks, selection: Selection, outcomes: Sequence[str]
) -> Iterator[tuple[Layout, TracedChunk]]:
    """The chunks that the solver saw, each with its document."""
    arrays = (scored.lengths, scored.relevance, scored.credited, selection.values)
    numbers = zip(*(one.tolist() for one in (*arrays, selection.weights)), outcomes, strict=True)
    for (number, window), first in zip(scored.windows, scored.starts.tolist(), strict=True):
        layout = scored.documents[number]
        start = layout.span_of(window.start)[0]
        for column, index in enumerate(window, first):
            length, relevance, credited, value, weight, outcome = next(numbers)
            yield (
                layout,
                TracedChunk(
                    index=index,
                    start_index=start,
                    end_index=start + length,
                    length=length,
                    relevance=relevance,
                    credited=credited,
                    value=value,
                    weight=weight,
                    outcome=outcome,
                    **_found(scored.candidates.get(column)),
                ),
            )
            start += length


def _not_considered(
    seen: Mapping[str, Any], scored: ScoredChunks | None
) -> Iterator[tuple[Candidate, TracedChunk | None]]:
    """All candidates, each with its chunk if the solver did not see it."""
    searched = itertools.chain(*seen.get("searched", {}).values())
    others = {c.place: (c, relevance) for c, relevance in scored.others} if scored else {}
    done = {c.place for c in scored.candidates.values()} if scored else set()
    for candidate in itertools.chain((c for c, _ in others.values()), searched):
        chunk, place = None, candidate.place
        if place not in done:
            outcome, of, relevance = "filtered", "", 0.0
            if place in others:
                outcome, relevance = "not considered", others[place][1]
            elif scored and place in scored.left_out:
                outcome, of, relevance = scored.left_out[place]
            chunk = TracedChunk(
                candidate.chunk_index,
                relevance=relevance,
                outcome=outcome,
                duplicate_of=of or None,
                **_found(candidate),
            )
        done.add(place)
        yield candidate, chunk


def _found(candidate: Candidate | None) -> dict[str, Any]:
    """What the trace has of a candidate."""
    if candidate is None:
        return {}
    found = {name: getattr(candidate, name) for name in _OF_CANDIDATES}
    return {**found, "text": candidate.document.page_content}


def _outcomes(
    scored: ScoredChunks,
    selection: Selection,
    included: int,
    segments: Sequence[TracedSegment],
    settings: QuerySettings,
) -> list[str]:
    """What became of each chunk that the solver saw."""
    config, values, steps = settings.config, selection.values, selection.steps
    exact = config.solver == "exact"
    if not values.size:
        return []
    # What the solver did not choose, by the run of chunks worth their text around each.
    good = values > 0 if exact else values >= 0
    bounds = np.union1d(scored.starts, np.flatnonzero(np.diff(good)) + 1)
    runs = np.repeat(np.add.reduceat(values, bounds), np.diff([*bounds, values.size]))
    costs: Floats = np.zeros(values.size)
    if exact:
        documents = scored.document_lengths * selection.weights / scored.lengths
        costs += (config.segment_cost or 0.0) * np.minimum(documents, 1.0)
        costs *= config.irrelevant_chunk_penalty
    short = included < len(steps) or config.solver == "greedy"
    outcomes = np.full(values.size, "no room" if short else "segment cost", object)
    if config.solver == "best":
        outcomes[:] = "not the best"
    elif exact and settings.max_per_document:
        outcomes[:] = BEYOND_DOCUMENT
    outcomes[runs - costs < config.minimum_value] = "minimum value"
    if exact:
        outcomes[runs <= costs] = "segment cost"
    outcomes[~good] = "below the penalty"
    outcomes[(scored.relevance == 0) & (config.min_relevance > 0)] = "below min_relevance"
    for number, step in enumerate(steps):
        outcomes[slice(*step)] = "missing" if number < included else "no room"
    found = np.isin(np.arange(values.size), list(scored.candidates))
    outcomes[~found] = "no candidate"
    firsts = {}
    for (document, window), start in zip(scored.windows, scored.starts.tolist(), strict=True):
        firsts[scored.documents[document].manifest.doc_id, window] = start - window.start
    for segment in segments:
        (first,) = (
            column
            for (doc_id, window), column in firsts.items()
            if doc_id == segment.doc_id and segment.chunk_start in window
        )
        here = slice(first + segment.chunk_start, first + segment.chunk_end)
        outcomes[here] = segment.reason or np.where(found[here], "returned", "filled")
    return list(outcomes)
