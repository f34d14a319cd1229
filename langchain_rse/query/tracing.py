"""Makes the trace of a query's steps, and messages that say why it returned nothing.

Nothing is computed a second time: a trace has the numbers by which segments were chosen.
"""

import itertools
import logging
import math
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.stores import BaseStore

from langchain_rse._messages import first_few, warn
from langchain_rse._sync import Steps
from langchain_rse.config import QuerySettings, RSEConfig
from langchain_rse.engine import calibrate
from langchain_rse.errors import CorruptRecordError, MissingRecordError, StoreMismatchError
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
from langchain_rse.query.search_arguments import may_exclude
from langchain_rse.query.searching import Candidate, Place, Sources
from langchain_rse.query.selecting import Selection
from langchain_rse.stores.reading import Layout, Layouts, read_manifests, unreadable
from langchain_rse.stores.records import DOC_ID, SEGMENT, Manifest

logger = logging.getLogger(__name__)

# Fields that a traced chunk takes from its candidate.
_OF_CANDIDATES = TracedChunk.__dataclass_fields__.keys() & set(Candidate._fields)
# The number of documents that are searched for one with text.
_LOOKED_AT = 500


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
        """Note what a step saw when it has ended; a repeated search replaces the one before."""
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
    """Trace the chosen segments: whether each was returned, and why not."""
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
    """The lowest relevance that was chosen: above the setting if the budget is short."""
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
    """Trace the documents that have candidates, the best first."""
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
    """Say why none of a document's chunks was considered, by the first of them."""
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
    """Trace the chunks that the solver saw, with their document's keys; removes from ``found``."""
    selection: Selection = seen["selection"]
    inside = {
        (one.doc_id, index): one.reason
        for one in segments
        for index in range(one.chunk_start, one.chunk_end)
    }
    outcomes = _outcomes(scored, selection, seen["included"], settings)
    for column, (layout, index) in enumerate(scored.places):
        doc_id = layout.manifest.doc_id
        candidate, outcome = scored.candidates.get(column), outcomes[column]
        if (doc_id, index) in inside:
            outcome = inside[doc_id, index] or ("returned" if candidate else "filled")
        elif candidate is None:
            outcome = "no candidate"
        chunk = _chunk(index, candidate, float(scored.relevance[column]), outcome)
        left_out = found.pop((doc_id, layout.version, index), None)
        if left_out and candidate is None and outcome != "filled":
            chunk = _chunk(index, *left_out)
        chunk.start_index, chunk.end_index = layout.span_of(index)
        chunk.length = int(scored.lengths[column])
        chunk.credited = float(scored.credited[column])
        chunk.value = float(selection.values[column])
        chunk.weight = float(selection.weights[column])
        yield layout.manifest.key, chunk


def _chunk(
    index: int, candidate: Candidate | None, relevance: float, outcome: str, of: str | None = None
) -> TracedChunk:
    chunk = TracedChunk(index, relevance=relevance, outcome=outcome, duplicate_of=of)
    if candidate:
        chunk.text = candidate.document.page_content
        for name in _OF_CANDIDATES:
            setattr(chunk, name, getattr(candidate, name))
    return chunk


def _outcomes(
    scored: ScoredChunks, selection: Selection, included: int, settings: QuerySettings
) -> list[str]:
    """Say for each chunk that the solver saw why it is in no segment, if it is in none."""
    config, values, exact = settings.config, selection.values, settings.config.solver == "exact"
    if not values.size:
        return []
    # Chunks not chosen have the reason of the run of chunks around them that are worth the penalty.
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


# Reasons why nothing was returned


def explain_nothing_found(
    sources: Sources, settings: QuerySettings, returned: int, candidates: int
) -> Steps[str]:
    """Say why no candidates are left of the Documents that were found."""
    arguments = settings.search_kwargs
    thresholds = {name: arguments[name] for name in arguments if name.endswith("threshold")}
    limits = may_exclude(arguments) | thresholds
    if candidates:
        reranker = type(sources.reranker).__name__
        return _log(logging.INFO, f"{reranker} kept none of {candidates} candidates")
    if returned:
        known = f"none of {returned} Documents of {sources.name} is a chunk in the docstore"
        return _log(logging.WARNING, f"{known}. If the index was adopted, adopt it again")
    if sources.vectorstore is not None and not limits and (yield from _has_text(sources.docstore)):
        raise StoreMismatchError(
            f"{sources.name} found nothing, but the docstore has documents: the vector store "
            "is empty, or is not the one they were added to. If its vectors are lost, "
            "check(repair=True) or langchain-rse check --repair writes them again"
        )
    under = "".join(f" with {name}={value!r:.200}" for name, value in limits.items())
    return _log(logging.INFO, f"{sources.name} found nothing{under}")


def _has_text(docstore: BaseStore[str, Document]) -> Steps[bool]:
    """True if the docstore has a document with text, or one that cannot be read."""
    try:
        stored = yield from read_manifests(docstore, _LOOKED_AT)
    except CorruptRecordError:
        return True
    return any(manifest.current and manifest.current.chunks for manifest in stored)


def explain_left_out(
    docstore: BaseStore[str, Document],
    candidates: Sequence[Candidate],
    layouts: Layouts,
    replaced: Collection[object],
    settings: QuerySettings,
) -> Steps[None]:
    """Warn of documents left out because they were replaced, are unknown or cannot be read."""
    if replaced:
        warn(f"{len(replaced)} document(s) were replaced while they were read: ask again")
    unknown = [c.doc_id for c in candidates if layouts.get(c.key, c) is None]
    names = first_few(map(repr, dict.fromkeys(unknown)))
    all_unknown = len(unknown) == len(candidates) and settings.on_missing == "raise"
    if all_unknown and not (yield from _has_text(docstore)):
        raise MissingRecordError(
            f"the docstore has no documents, but the vector store has chunks of {names}. Are the "
            "two stores a pair? If the docstore lost them, add the documents again"
        )
    if unknown:
        warn(
            f"{len(unknown)} of {len(candidates)} candidates are left out, as the docstore does "
            f"not know their document(s) {names}. check(repair=True), or langchain-rse check "
            "--repair, removes their vectors. If the docstore lost them, add them again; if other "
            "code added them to an adopted index, adopt it again"
        )
    if errors := unreadable(layouts):
        named = dict.fromkeys(repr(c.doc_id) for c in candidates if c.key in errors)
        warn(
            f"{len(errors)} document(s) are left out, as the docstore's records of them cannot be "
            f"read: {first_few(named)}. Add them again with force=True. The first error: "
            f"{next(iter(errors.values()))}"
        )


def explain_nothing_chosen(
    candidates: Sequence[Candidate],
    scored: ScoredChunks,
    selection: Selection,
    budget: Budget,
    settings: QuerySettings,
) -> str:
    """Say why there are candidates, but no segment."""
    config, count, level = settings.config, len(candidates), logging.INFO
    minimum, penalty = config.minimum_value, config.irrelevant_chunk_penalty
    best = max((float(scored.relevance[column]) for column in scored.candidates), default=0.0)
    room = math.inf if budget.characters is None else budget.characters
    worth = [column for column in scored.candidates if scored.relevance[column] >= penalty]
    fitting = [column for column in worth if scored.lengths[column] <= room]
    value = max((float(selection.values[column]) for column in fitting), default=0.0)
    if not scored.candidates:
        level = logging.WARNING
        reason = (
            f"all {count} candidates are of versions of documents that are no longer current, or "
            "of documents that the docstore does not know or cannot read. Delete their vectors, or "
            "add these documents again"
        )
    elif config.min_relevance and not best:
        scores = [candidate.score for candidate in candidates if candidate.rank is not None]
        best = max(calibrate(scores, config.calibration), default=0.0)
        limit = f"min_relevance={config.min_relevance:g}"
        reason = f"all {count} candidates are below {limit}: the best has {best:.3g}"
    elif not best or best < penalty:
        limit = f"irrelevant_chunk_penalty={penalty:g}"
        reason = f"the best relevance of {count} candidates is {best:.3g}, not worth {limit}"
    elif fitting and value < minimum:
        reason = f"all segments are below minimum_value={minimum:g}: the best chunk has {value:.3g}"
    elif fitting and settings.on_missing == "split":
        level = logging.WARNING
        reason = "the docstore lacks the chunks. Add their documents again"
    else:
        level = logging.WARNING if budget.limit else logging.INFO
        shortest = min(scored.lengths[column] for column in worth)
        reason = (
            "none of the candidates that are worth the penalty fits max_context_length="
            f"{budget.limit:g}: the shortest has {shortest} characters. Make chunks smaller, or "
            f"raise the budget{'' if settings.allow_trim else '; allow_trim=True returns a part'}"
        )
    return _log(level, reason)


def warn_of_other_models(model: str, manifests: Iterable[Manifest]) -> None:
    """Warn if the vectors of documents are of another embedding model."""
    if others := {one.doc_id for one in manifests if model and one.model not in {"", model}}:
        warn(
            f"{len(others)} document(s) have vectors of another embedding model, so that they are "
            f"found by chance: {first_few(map(repr, sorted(others)))}. check(repair=True) embeds "
            "them again, as does adding them"
        )


def _log(level: int, reason: str) -> str:
    logger.log(level, "a query returned nothing: %s", reason)
    return reason
