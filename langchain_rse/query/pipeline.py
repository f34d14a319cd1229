"""Answers a query: search, rerank, rank, look up, score, select, read, render.

`answer` says these steps in their order, and everything that answers a query calls it. The stores
may change meanwhile: then it searches again, knowing what the attempts before found out.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.callbacks import Callbacks

from langchain_rse._messages import counted, first_few, warn
from langchain_rse._sync import Steps
from langchain_rse.config import QuerySettings
from langchain_rse.errors import CorruptRecordError, MissingRecordError, StoreMismatchError
from langchain_rse.query.candidates import (
    Candidate,
    Candidates,
    Exclusion,
    Reason,
    Sources,
    all_candidates,
)
from langchain_rse.query.filters import FILTER, Filters, filters_of, may_exclude
from langchain_rse.query.floor import check_floor
from langchain_rse.query.lookup import LookedUp, look_up
from langchain_rse.query.reading import (
    budget_in_characters,
    find_changed,
    read,
    without_changed,
)
from langchain_rse.query.rendering import choose, render
from langchain_rse.query.reranking import find_candidates
from langchain_rse.query.scoring import score
from langchain_rse.query.searching import queries_of, search
from langchain_rse.query.selecting import select
from langchain_rse.query.trace import RSETrace, sentence
from langchain_rse.query.witnesses import rank
from langchain_rse.stores.pairing import Model, check_pair
from langchain_rse.stores.reading import VersionKey, read_manifests
from langchain_rse.stores.records import CLOSER_THAN, SEGMENT, Manifest

logger = logging.getLogger(__name__)

# A document can be replaced between two reads. After this many attempts, documents to which that
# happens are excluded; after the second number, there is no answer.
_ATTEMPTS_WITH_ALL = 3
_ATTEMPTS = 10
# The number of documents that are searched for one with text.
_MOST_READ = 500
# Reasons of an empty answer that say that something is wrong.
_WARNED = {
    *(Reason.TOO_LONG, Reason.NO_ROOM, Reason.STALE, Reason.UNKNOWN, Reason.CORRUPT),
    *(Reason.CHANGED, Reason.MISSING, Reason.NO_CHUNKS),
}


@dataclass
class _Known:
    """What the attempts to answer a query found out about documents, which the next ones use."""

    attempts: int = 0
    # Stale versions seen so far; they do not trigger another attempt.
    stale: set[VersionKey] = field(default_factory=set)
    unreadable: dict[str, CorruptRecordError] = field(default_factory=dict)  # by document key
    # Keys of documents to go on without, as they keep being replaced.
    replaced: set[str] = field(default_factory=set)
    # Chunks of adopted documents that the vector store no longer has.
    changed: dict[VersionKey, set[int]] = field(default_factory=dict)

    @property
    def is_last_with_all(self) -> bool:
        """True if documents that change once more are excluded."""
        return self.attempts >= _ATTEMPTS_WITH_ALL - 1

    @property
    def excluded(self) -> dict[str, CorruptRecordError]:
        """The documents to go on without, by their keys."""
        replaced = CorruptRecordError("it was replaced while it was read")
        return {**self.unreadable, **dict.fromkeys(self.replaced, replaced)}


def answer(
    question: str,
    sources: Sources,
    settings: QuerySettings,
    callbacks: Callbacks = None,
    *,
    candidates: Candidates | None = None,
) -> Steps[RSETrace]:
    """Answer a question with segments; return the trace, which has them.

    Args:
        question: The question.
        sources: Where candidates and texts come from.
        settings: The settings of the query.
        callbacks: LangChain's, for the calls of retrievers and rerankers.
        candidates: Those of an earlier `find_candidates`, to choose among; None to search.

    Raises:
        MissingRecordError: If documents were replaced or deleted in each of many attempts.
    """
    trace = RSETrace(question, settings)
    filters = filters_of(settings.search_kwargs, sources.base_retriever)
    if candidates is None:
        trace.queries = yield from queries_of(question, settings, callbacks)
        trace.lap("queries")
    else:
        trace.queries = list(candidates)
    if not trace.queries:
        trace.reason = _give_reason(Reason.NO_QUERY, settings, {})
        return trace
    known = _Known()
    while known.attempts < _ATTEMPTS:
        is_answered = yield from _attempt(
            trace, sources, settings, filters, known, callbacks, candidates
        )
        if is_answered:
            return trace
    raise MissingRecordError(
        f"documents were replaced or deleted during each of {_ATTEMPTS} attempts to read them; "
        "ask again when fewer documents are being written"
    )


def _attempt(
    trace: RSETrace,
    sources: Sources,
    settings: QuerySettings,
    filters: Filters,
    known: _Known,
    callbacks: Callbacks,
    candidates: Candidates | None,
) -> Steps[bool]:
    """Attempt an answer; False if documents changed meanwhile, so that it has to be repeated."""
    # Search, rerank and rank
    model = Model()
    if sources.adapter is not None:
        model = yield from check_pair(sources.docstore, sources.adapter.store, record=False)
    trace.candidates = candidates or {}
    if candidates is None:
        found, reranked = yield from find_candidates(
            sources, trace.queries, settings, filters, callbacks
        )
        trace.searched, trace.full_text = found.candidates, found.obstacle
        trace.lap("search")
        if not any(reranked.values()) or not found.documents:
            known.attempts += 1
            is_last = known.attempts >= _ATTEMPTS_WITH_ALL
            return (yield from _explain_nothing_found(trace, sources, found.documents, is_last))
        trace.candidates = reranked
    trace.candidates = rank(trace.candidates, settings)
    trace.lap("rank")

    # Look up, and is there an answer?
    looked_up = yield from look_up(
        sources,
        trace.candidates,
        settings,
        filters,
        unreadable=known.excluded,
        changed=known.changed,
    )
    trace.looked_up = looked_up
    trace.lap("look up")
    stale = set() if candidates is not None else _stale_versions(trace.candidates, looked_up)
    new_stale = stale - known.stale
    if new_stale and not known.is_last_with_all:
        known.stale |= new_stale
        known.attempts += 1
        return False
    trace.floor_checks = check_floor(
        looked_up.candidates, sources, settings, model, looked_up.floors
    )
    for check in trace.floor_checks:
        if check.is_refused:
            looked_up = looked_up.without(check.query)
    if not looked_up.candidates:
        refused = trace.floor_checks[0]
        facts = {"best": refused.reach, "floor": refused.floor}
        trace.reason = _give_reason(Reason.BELOW_THE_FLOOR, settings, facts)
        return True

    # Score, select and read
    trace.scored = score(looked_up, settings)
    trace.lap("score")
    characters = budget_in_characters(settings, all_candidates(looked_up.candidates))
    trace.selection = select(trace.scored, settings, characters)
    trace.lap("select")
    passages = yield from read(sources, trace.scored, trace.selection, characters, settings)
    if passages.unreadable:
        known.unreadable.update(passages.unreadable)  # which happens once to a document
        return False
    if passages.replaced:
        known.replaced |= set(passages.replaced) if known.is_last_with_all else set()
        known.attempts += 1
        return False
    segments = passages.segments
    changed = yield from find_changed(sources.adapter, segments)
    for version_key, chunks in changed.items():
        known.changed.setdefault(version_key, set()).update(chunks)
    if changed and not known.is_last_with_all:
        known.attempts += 1
        return False
    if changed:
        segments = without_changed(segments, changed)
    trace.steps, trace.segments = passages.steps, segments
    trace.lap("read")

    # Render
    trace.returned = choose(segments, settings)
    shows_query = len(trace.queries) > 1
    documents = []
    for segment in trace.returned:
        documents.append(
            render(segment, settings, filters, searcher=sources.name, shows_query=shows_query)
        )
    nearest = [each.closer_than for each in trace.floor_checks if not each.is_refused]
    closeness = max((each for each in nearest if each is not None), default=None)
    if documents and closeness is not None:
        documents[0].metadata[SEGMENT][CLOSER_THAN] = closeness
    trace.documents_returned = documents
    if not documents:
        _explain_nothing_chosen(trace)
    replaced = known.replaced | {key for key, _ in new_stale}
    yield from _warn_of_excluded(trace, sources, looked_up, replaced)
    _warn_of_changed(known.changed, all_candidates(trace.candidates))
    _warn_of_other_models(model.id, [segment.layout.manifest for segment in segments])
    trace.lap("render")
    return True


def _stale_versions(candidates: Candidates, looked_up: LookedUp) -> set[VersionKey]:
    """The versions that the search finds of documents of which it finds no current one.

    Their documents were replaced since, or the search has not seen the new version yet.
    """
    by_document: dict[str, list[Candidate]] = {}
    for exclusion in looked_up.exclusions.values():
        if exclusion.reason in {Reason.STALE, Reason.UNKNOWN}:
            by_document.setdefault(exclusion.candidate.key, []).append(exclusion.candidate)
    if not by_document:
        return set()
    current = set()
    for candidate in all_candidates(looked_up.candidates):
        if candidate.key in looked_up.layouts:
            current.add(candidate.key)
    stale = set()
    for key, excluded in by_document.items():
        if key not in current:
            stale.update((key, candidate.version) for candidate in excluded)
    return stale


# Empty answers


def _give_reason(reason: Reason, settings: QuerySettings, facts: Mapping[str, Any]) -> str:
    """Log why nothing is returned, and say it."""
    words = sentence(reason, settings, facts)
    # A budget of 0 is set on purpose.
    is_wrong = reason in _WARNED and settings.max_context_length != 0
    level = logging.WARNING if is_wrong else logging.INFO
    logger.log(level, "a query returned nothing: %s", words)
    return words


def _explain_nothing_found(
    trace: RSETrace, sources: Sources, documents: int, is_last_attempt: bool
) -> Steps[bool]:
    """Say why there are no candidates; False if the search should be repeated.

    Raises:
        StoreMismatchError: If the docstore has documents, and the last attempt finds none either.
    """
    settings = trace.settings
    facts: dict[str, Any] = {"searcher": sources.name, "documents": documents}
    if documents and any(trace.searched.values()):
        count = counted(len(all_candidates(trace.searched)), "candidate")
        name = type(settings.reranker).__name__
        trace.reason = f"{name} kept none of {count}"
        logger.info("a query returned nothing: %s", trace.reason)
        return True
    if documents:
        trace.reason = _give_reason(Reason.NO_CHUNKS, settings, facts)
        return True
    filtering = {}
    for name, value in settings.search_kwargs.items():
        if may_exclude(value) or name.endswith("threshold"):
            filtering[name] = value
    # Words were found: then the docstore has documents, and where are their vectors?
    words_found = any(trace.searched.values())
    is_unfiltered = sources.vectorstore is not None and not filtering
    if words_found or (is_unfiltered and (yield from _has_text(sources))):
        if not is_last_attempt:
            return False  # all documents may have been added since the search
        raise StoreMismatchError(
            f"{sources.name} found nothing, but the docstore has documents: the vector store "
            "is empty, or is not the one they were added to. If its vectors are lost, "
            "retriever.indexer.check(repair=True) or langchain-rse check --repair writes them again"
        )
    limits = "".join(f" with {name}={value!r:.200}" for name, value in filtering.items())
    condition = settings.search_kwargs.get(FILTER)
    if isinstance(condition, Mapping) and sources.vectorstore is not None:
        limits += yield from _explain_filter(trace, sources, condition)
    trace.reason = _give_reason(Reason.NOTHING_FOUND, settings, {**facts, "limits": limits})
    return True


def _explain_filter(
    trace: RSETrace, sources: Sources, condition: Mapping[str, Any]
) -> Steps[str]:
    """Say which field or value of a filter no chunk has, by searching with each part of it."""
    query = trace.queries[0]
    alone = []
    for name, value in condition.items():
        part = {name: value}
        if len(condition) > 1:
            found = yield from _search_with(query, sources, trace.settings, {FILTER: part})
            if found:
                continue
        alone.append(part)
    if not alone:
        return "; chunks pass each part of the filter, and none passes all"
    nearest = yield from _search_with(query, sources, trace.settings, {})
    notes = []
    for part in alone:
        fields = [name for name in part if not name.startswith("$")]
        has_field = any(name in candidate.document.metadata for name in fields for candidate in nearest)
        if fields and nearest and not has_field:
            notes.append(f"none of the {len(nearest)} nearest chunks has a field {fields[0]!r}")
        else:
            notes.append(f"no chunk passes {part!r:.200}")
    return f"; {first_few(notes)}"


def _search_with(
    query: str, sources: Sources, settings: QuerySettings, search_kwargs: dict[str, Any]
) -> Steps[list[Candidate]]:
    """Search the vectors for one query with other arguments."""
    changes: dict[str, Any] = {"hybrid": 0.0, "search_kwargs": search_kwargs, "on_missing": "split"}
    if search_kwargs:
        changes["fetch_k"] = 1
    plain = QuerySettings(**changes)
    filters = Filters((), (), ())
    found = yield from search(sources, [query], plain, filters, None)
    return all_candidates(found.candidates)


def _explain_nothing_chosen(trace: RSETrace) -> None:
    """Say why there are candidates, but no segment: by the outcome of the best candidate."""
    candidates = [chunk for chunk in trace.chunks if chunk.candidate is not None]
    solved = [chunk for chunk in candidates if chunk.weight]
    best = max(solved or candidates, key=lambda chunk: (chunk.relevance, chunk.credited))
    count = counted(len(candidates), "candidate")
    words = f"the best of {count} is not returned: {trace.why(best)}"
    is_wrong = best.outcome in _WARNED and trace.settings.max_context_length != 0
    level = logging.WARNING if is_wrong else logging.INFO
    logger.log(level, "a query returned nothing: %s", words)
    trace.reason = words


def _has_text(sources: Sources) -> Steps[bool]:
    """True if the docstore has a document with text, or one that cannot be read."""
    try:
        manifests = yield from read_manifests(sources.docstore, _MOST_READ)
    except CorruptRecordError:
        return True
    for manifest in manifests:
        if manifest.current is not None and manifest.current.chunks:
            return True
    return False


# Warnings


def _warn_of_excluded(
    trace: RSETrace, sources: Sources, looked_up: LookedUp, replaced: Collection[str]
) -> Steps[None]:
    """Warn of documents excluded because they were replaced, are unknown or cannot be read.

    ``replaced`` has the keys of those that were replaced while they were read.
    """
    if replaced:
        warn(f"{len(replaced)} document(s) were replaced while they were read: ask again")
    unknown: list[Exclusion] = []
    corrupt: dict[str, str] = {}  # ids of documents, by their keys
    for exclusion in looked_up.exclusions.values():
        if exclusion.candidate.key in replaced:
            continue
        if exclusion.reason is Reason.UNKNOWN:
            unknown.append(exclusion)
        elif exclusion.reason is Reason.CORRUPT:
            corrupt[exclusion.candidate.key] = repr(exclusion.candidate.doc_id)
    if unknown:
        names = first_few(dict.fromkeys(repr(each.candidate.doc_id) for each in unknown))
        count = len(all_candidates(trace.candidates))
        if len(unknown) == count and trace.settings.on_missing == "raise":
            if not (yield from _has_text(sources)):
                raise MissingRecordError(
                    "the docstore has no documents, but the vector store has chunks of "
                    f"{names}. Are the two stores a pair? If the docstore lost them, add the "
                    "documents again"
                )
        warn(
            f"{len(unknown)} of {count} candidates are excluded, as the docstore does not know "
            f"their document(s) {names}. retriever.indexer.check(repair=True) or langchain-rse "
            "check --repair removes their vectors. If the docstore lost them, add them again; if "
            "other code added them to an adopted index, adopt it again"
        )
    if corrupt:
        errors = [looked_up.layouts[key] for key in corrupt]
        warn(
            f"{len(corrupt)} document(s) are excluded, as the docstore's records of them cannot be "
            f"read: {first_few(corrupt.values())}. Add them again with "
            "add_documents(..., force=True) or langchain-rse remove and index. The first error: "
            f"{errors[0]}"
        )


def _warn_of_changed(
    changed: Mapping[VersionKey, Collection[int]], candidates: Sequence[Candidate]
) -> None:
    """Warn of chunks of adopted documents that are not shown."""
    if not changed:
        return
    doc_ids = {candidate.key: repr(candidate.doc_id) for candidate in candidates}
    names = first_few(dict.fromkeys(doc_ids[key] for key, _ in changed if key in doc_ids))
    warn(
        f"{counted(sum(map(len, changed.values())), 'chunk')} of adopted document(s) {names} are "
        "not shown: since the index was adopted, they were deleted from the vector store, or their "
        "texts were changed. Adopt the index again, with from_existing_index or RSEIndexer.adopt"
    )


def _warn_of_other_models(model: str, manifests: Sequence[Manifest]) -> None:
    """Warn if the vectors of documents are of another embedding model than the given one."""
    doc_ids = set()
    for manifest in manifests:
        if model and manifest.model not in {"", model}:
            doc_ids.add(repr(manifest.doc_id))
    if doc_ids:
        warn(
            f"{len(doc_ids)} document(s) have vectors of another embedding model, so that they are "
            f"found by chance: {first_few(sorted(doc_ids))}. retriever.indexer.check(repair=True) "
            "or langchain-rse check --repair embeds them again, as does adding them"
        )
