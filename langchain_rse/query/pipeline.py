"""Answers a query: search, rerank, rank, look up, score, select, read, render.

`answer` runs these steps; all code that answers a query calls it. If the stores change during a
query, it searches again and keeps the facts that earlier attempts found.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.callbacks import Callbacks
from langchain_core.documents import Document

from langchain_rse._messages import warn
from langchain_rse._sync import Steps, compute
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
    Passage,
    budget_in_characters,
    find_changed,
    read,
    without_changed,
)
from langchain_rse.query.rendering import choose, render
from langchain_rse.query.reranking import rerank
from langchain_rse.query.scoring import ScoredChunks, score
from langchain_rse.query.searching import queries_of, search
from langchain_rse.query.selecting import Selection, select
from langchain_rse.query.trace import Trace, sentence
from langchain_rse.query.witnesses import rank
from langchain_rse.stores.layouts import VersionKey, read_manifests
from langchain_rse.stores.pairing import Model, check_pair
from langchain_rse.stores.records import CLOSER_THAN, PASSAGE
from langchain_rse.text.quoting import as_unicode, counted, first_few

logger = logging.getLogger(__name__)

# A document can be replaced between two reads. After the first number of attempts, documents that
# keep being replaced are excluded; after the second, the query fails.
_ATTEMPTS_WITH_ALL = 3
_ATTEMPTS = 10
# Maximum number of manifests to read when looking for a document with text.
_MOST_READ = 500
# Reasons of an empty answer that are logged as warnings: something is wrong.
_WARNED = {
    *(Reason.TOO_LONG, Reason.NO_ROOM, Reason.STALE, Reason.UNKNOWN, Reason.CORRUPT),
    *(Reason.CHANGED, Reason.MISSING, Reason.NO_CHUNKS),
}


_Stale = tuple[str, str, Reason]
"""A stale version: the document's key, the version's name, and the reason."""


class _RepeatSearch(Exception):  # noqa: N818 - control flow, not an error
    """Documents were replaced during an attempt, or cannot be read: search again."""


@dataclass
class _Query:
    """State of one query that survives retries."""

    trace: Trace
    sources: Sources
    settings: QuerySettings
    filters: Filters
    callbacks: Callbacks
    attempts: int = 0
    # Stale versions seen so far; they do not trigger another retry.
    stale: set[_Stale] = field(default_factory=set)
    unreadable: dict[str, CorruptRecordError] = field(default_factory=dict)  # by document key
    # Keys of documents that keep being replaced, and are therefore excluded.
    replaced: set[str] = field(default_factory=set)
    # Adopted chunks that were changed or deleted in the vector store.
    changed: dict[VersionKey, set[int]] = field(default_factory=dict)

    def repeat(self) -> None:
        """Retry, unless there were so many attempts that changing documents are excluded."""
        if self.attempts < _ATTEMPTS_WITH_ALL - 1:
            self.attempts += 1
            raise _RepeatSearch


def answer(
    question: str,
    sources: Sources,
    settings: QuerySettings,
    callbacks: Callbacks = None,
    *,
    candidates: Candidates | None = None,
) -> Steps[Trace]:
    """Answer a question; return the trace, which contains the passages.

    Args:
        question: The question.
        sources: The stores and retriever of the query.
        settings: The settings of the query.
        callbacks: LangChain callbacks for the calls of retrievers and rerankers.
        candidates: Candidates from an earlier `find_candidates`; None to search.

    Raises:
        MissingRecordError: If documents were replaced or deleted during every attempt.
    """
    question = as_unicode(question)
    trace = Trace(question, settings)
    filters = filters_of(settings.search_kwargs, sources.base_retriever)
    if candidates is None:
        started = time.perf_counter()
        trace.queries = yield from queries_of(question, settings, callbacks)
        trace.lap("queries", started)
    else:
        trace.queries = list(candidates)
    if not trace.queries:
        trace.reason = _give_reason(Reason.NO_QUERY, settings, {})
        return trace
    query = _Query(trace, sources, settings, filters, callbacks)
    while query.attempts < _ATTEMPTS:
        try:
            yield from _answer(query, candidates)
        except _RepeatSearch:
            continue
        return trace
    raise MissingRecordError(
        f"documents were replaced or deleted during each of {_ATTEMPTS} attempts to read them. "
        "Ask again when fewer documents are being written"
    )


def _answer(query: _Query, candidates: Candidates | None) -> Steps[None]:
    """Make one attempt to answer a query; raise `_RepeatSearch` if documents changed meanwhile."""
    trace, sources, settings = query.trace, query.sources, query.settings
    model = Model()
    if sources.adapter is not None:
        model = yield from check_pair(sources.docstore, sources.adapter.store, record=False)
    if candidates is None:
        candidates = yield from _find(query)
        if trace.reason:
            return
    started = time.perf_counter()
    trace.candidates = rank(candidates, settings)
    started = trace.lap("rank", started)

    looked_up = yield from look_up(
        sources,
        trace.candidates,
        settings,
        query.filters,
        unreadable=_documents_to_skip(query),
        changed=query.changed,
    )
    trace.looked_up = looked_up
    if looked_up.exclusions:
        _check_current(query, looked_up)
    if settings.score_floor is not None:
        looked_up = _without_refused(query, looked_up, model)
        if trace.reason:
            return
    started = trace.lap("look up", started)

    trace.scored = score(looked_up, settings)
    started = trace.lap("score", started)
    characters = budget_in_characters(settings, looked_up.candidates)
    trace.selection = select(trace.scored, settings, characters)
    started = trace.lap("select", started)
    yield from _read(query, trace.scored, trace.selection, characters)
    started = trace.lap("read", started)

    trace.returned = choose(trace.passages, settings)
    trace.documents_returned = _render(query)
    if not trace.returned:
        _explain_nothing_chosen(trace, sources)
    if looked_up.exclusions or query.replaced:
        yield from _warn_of_excluded(query, looked_up)
    if query.changed:
        _warn_of_changed(query.changed, all_candidates(trace.candidates))
    _warn_of_other_models(model.id, trace.passages)
    trace.lap("render", started)


def _find(query: _Query) -> Steps[Candidates]:
    """Search and rerank; if there are no candidates, set the trace's reason."""
    trace, settings = query.trace, query.settings
    started = time.perf_counter()
    found = yield from search(
        query.sources, trace.queries, settings, query.filters, query.callbacks
    )
    trace.searched, trace.full_text = found.candidates, found.obstacle
    started = trace.lap("search", started)
    candidates = found.candidates
    if settings.reranker is not None:
        candidates = yield from rerank(candidates, settings, query.callbacks)
        trace.lap("rerank", started)
    # If full-text search finds chunks and the vector store returns none, vectors may be lost.
    if not found.documents or not any(candidates.values()):
        trace.reason = yield from _explain_nothing_found(query, found.documents)
    return candidates


def _documents_to_skip(query: _Query) -> dict[str, CorruptRecordError]:
    """Return the errors of documents to exclude, by document key."""
    if not query.replaced:
        return query.unreadable
    error = CorruptRecordError("the document was replaced while it was read")
    return {**query.unreadable, **dict.fromkeys(query.replaced, error)}


def _check_current(query: _Query, looked_up: LookedUp) -> None:
    """Search again if only stale versions of a document were found.

    The document was replaced during the query, and the next search may find its new version. If
    not, the stale vectors were left behind by an interrupted call.
    """
    stale: set[_Stale] = set()
    current = {candidate.key for candidate in all_candidates(looked_up.candidates)}
    for exclusion in looked_up.exclusions.values():
        candidate = exclusion.candidate
        if exclusion.reason in {Reason.STALE, Reason.UNKNOWN}:
            stale.add((candidate.key, candidate.version, exclusion.reason))
        else:
            current.add(candidate.key)
    stale = {each for each in stale if each[0] not in current}
    if stale <= query.stale:
        return
    was_searched = bool(query.trace.searched)
    if was_searched and query.attempts >= _ATTEMPTS_WITH_ALL - 1:
        query.replaced |= {key for key, _, _ in stale - query.stale}
    query.stale |= stale
    if was_searched:
        query.repeat()


def _without_refused(query: _Query, looked_up: LookedUp, model: Model) -> LookedUp:
    """Drop queries that do not reach the score floor; set the trace's reason if all are dropped."""
    trace, settings = query.trace, query.settings
    if settings.score_floor == "fitted" and looked_up.floors is None:
        return looked_up
    trace.floor_checks = check_floor(
        looked_up.candidates, query.sources, settings, model, looked_up.floors
    )
    for check in trace.floor_checks:
        if check.is_refused:
            looked_up = looked_up.without(check.query)
    if not looked_up.candidates:
        facts = trace.floor_checks[0].facts
        trace.reason = _give_reason(Reason.BELOW_THE_FLOOR, settings, facts)
    return looked_up


def _read(
    query: _Query, scored: ScoredChunks, selection: Selection, characters: float
) -> Steps[None]:
    """Read the passages that fit the budget, and check that they are still current."""
    trace = query.trace
    read_passages = yield from read(query.sources, scored, selection, characters, query.settings)
    if read_passages.unreadable:
        query.unreadable.update(read_passages.unreadable)
        raise _RepeatSearch  # at most once per document
    if read_passages.replaced:
        query.repeat()
        query.replaced.update(read_passages.replaced)
        query.attempts += 1
        raise _RepeatSearch
    trace.steps, trace.passages = read_passages.steps, read_passages.passages
    changed = yield from find_changed(query.sources.adapter, trace.passages)
    if changed:
        for version_key, chunks in changed.items():
            query.changed.setdefault(version_key, set()).update(chunks)
        query.repeat()
        trace.passages = without_changed(trace.passages, changed)


def _render(query: _Query) -> list[Document]:
    """Make the Documents of the returned passages."""
    trace = query.trace
    documents = []
    for passage in trace.returned:
        documents.append(
            render(
                passage,
                query.settings,
                query.filters,
                searcher=query.sources.name,
                shows_query=len(trace.queries) > 1,
            )
        )
    shares = []
    for check in trace.floor_checks:
        if check.closer_than is not None and not check.is_refused:
            shares.append(check.closer_than)
    if documents and shares:
        documents[0].metadata[PASSAGE][CLOSER_THAN] = max(shares)
    return documents


# Empty answers


def _give_reason(reason: Reason, settings: QuerySettings, facts: Mapping[str, Any]) -> str:
    """Log the reason of an empty answer, and return it in words."""
    words = sentence(reason, settings, facts)
    # Not a warning for a budget of 0: it was set on purpose.
    is_wrong = reason in _WARNED and settings.max_context_length != 0
    level = logging.WARNING if is_wrong else logging.INFO
    logger.log(level, "a query returned nothing: %s", words)
    return words


def _explain_nothing_found(query: _Query, documents: int) -> Steps[str]:
    """Return the reason why there are no candidates.

    Raises:
        StoreMismatchError: If the docstore has documents but the search finds nothing, even after
            retries.
    """
    trace, sources, settings = query.trace, query.sources, query.settings
    facts: dict[str, Any] = {"searcher": sources.name, "documents": documents}
    if documents and any(trace.searched.values()):
        count = counted(len(all_candidates(trace.searched)), "candidate")
        name = type(settings.reranker).__name__
        reason = f"{name} dropped all of {count}"
        logger.info("a query returned nothing: %s", reason)
        return reason
    if documents:
        return _give_reason(Reason.NO_CHUNKS, settings, facts)
    filtering = {}
    for name, value in settings.search_kwargs.items():
        if may_exclude(value) or name.endswith("threshold"):
            filtering[name] = value
    # If full-text search found chunks, the docstore has documents, but their vectors are missing.
    words_found = any(trace.searched.values())
    is_unfiltered = sources.vectorstore is not None and not filtering
    if words_found or (is_unfiltered and (yield from _has_text(sources))):
        query.repeat()  # all documents may have been added since the search
        raise StoreMismatchError(
            f"{sources.name} found nothing, but the docstore has documents. The vector store is "
            "empty, or it is not the one that they were added to. If its vectors are lost, restore "
            "them with retriever.indexer.check(repair=True) or langchain-rse check --repair"
        )
    limits = "".join(f" with {name}={value!r:.200}" for name, value in filtering.items())
    condition = settings.search_kwargs.get(FILTER)
    if isinstance(condition, Mapping) and sources.vectorstore is not None:
        limits += yield from _explain_filter(trace, sources, condition)
    return _give_reason(Reason.NOTHING_FOUND, settings, {**facts, "limits": limits})


def _explain_filter(trace: Trace, sources: Sources, condition: Mapping[str, Any]) -> Steps[str]:
    """Search with each part of a filter, and return a note on the parts that no chunk passes."""
    query = trace.queries[0]
    alone = []
    for name, value in condition.items():
        part = {name: value}
        if len(condition) > 1:
            found = yield from _search_with(query, sources, trace.settings, part)
            if found:
                continue
        alone.append(part)
    if not alone:
        return "; each part of the filter matches chunks, but no chunk matches all parts"
    nearest = yield from _search_with(query, sources, trace.settings, None)
    notes = []
    for part in alone:
        [name] = part
        with_field = [each for each in nearest if name in each.document.metadata]
        if nearest and not with_field and not name.startswith("$"):
            notes.append(f"none of the {len(nearest)} nearest chunks has a field {name!r}")
        else:
            notes.append(f"no chunk matches {part!r:.200}")
    return f"; {first_few(notes)}"


def _search_with(
    query: str, sources: Sources, settings: QuerySettings, condition: Mapping[str, Any] | None
) -> Steps[list[Candidate]]:
    """Search the vector store for one query, with another filter."""
    search_kwargs = {**settings.search_kwargs, FILTER: condition}
    if condition is None:
        del search_kwargs[FILTER]
    changes: dict[str, Any] = {"hybrid": 0.0, "search_kwargs": search_kwargs, "on_missing": "split"}
    if condition is not None:
        changes["fetch_k"] = 1
    plain = QuerySettings(**changes)
    filters = Filters((), (), ())
    found = yield from search(sources, [query], plain, filters, None)
    return all_candidates(found.candidates)


def _explain_nothing_chosen(trace: Trace, sources: Sources) -> None:
    """Set the reason of an answer without passages: the outcome of the best candidate."""
    candidates = [chunk for chunk in trace.chunks if chunk.candidate is not None]
    if not candidates:  # the caller passed no candidates for any query
        facts = {"searcher": sources.name, "limits": ""}
        trace.reason = _give_reason(Reason.NOTHING_FOUND, trace.settings, facts)
        return
    solved = [chunk for chunk in candidates if chunk.weight]
    best = max(solved or candidates, key=lambda chunk: (chunk.relevance, chunk.credited))
    count = counted(len(candidates), "candidate")
    words = f"the best of {count}: {trace.why(best)}"
    is_wrong = best.outcome in _WARNED and trace.settings.max_context_length != 0
    level = logging.WARNING if is_wrong else logging.INFO
    logger.log(level, "a query returned nothing: %s", words)
    trace.reason = words


def _has_text(sources: Sources) -> Steps[bool]:
    """True if the docstore has a document with text, or one that cannot be read."""
    try:
        manifests = yield from compute(read_manifests, sources.docstore, _MOST_READ)
    except CorruptRecordError:
        return True
    for manifest in manifests:
        if manifest.current is not None and manifest.current.chunks:
            return True
    return False


# Warnings


def _warn_of_excluded(query: _Query, looked_up: LookedUp) -> Steps[None]:
    """Warn about documents that are excluded as replaced, unknown or corrupt."""
    trace, replaced = query.trace, query.replaced
    if replaced:
        warn(
            f"{len(replaced)} document(s) were replaced while they were read and are excluded. "
            "Ask again"
        )
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
            if not (yield from _has_text(query.sources)):
                raise MissingRecordError(
                    "the docstore has no documents, but the vector store has chunks of "
                    f"{names}. Use the docstore that they were added to; if it lost them, add the "
                    "documents again"
                )
        warn(
            f"{len(unknown)} of {count} candidates are excluded because their document(s) {names} "
            "are not in the docstore. To remove their vectors, use "
            "retriever.indexer.check(repair=True) or langchain-rse check --repair. If the docstore "
            "lost the documents, add them again; if other code added them to an adopted index, "
            "adopt it again"
        )
    if corrupt:
        errors = [looked_up.layouts[key] for key in corrupt]
        warn(
            f"{len(corrupt)} document(s) are excluded because their records in the docstore are "
            f"corrupt: {first_few(corrupt.values())}. Add them again with "
            "add_documents(..., force=True), or with langchain-rse remove and index. The first "
            f"error: {errors[0]}"
        )


def _warn_of_changed(
    changed: Mapping[VersionKey, Collection[int]], candidates: Sequence[Candidate]
) -> None:
    """Warn about adopted chunks that are excluded because the vector store changed."""
    if not changed:
        return
    doc_ids = {candidate.key: repr(candidate.doc_id) for candidate in candidates}
    names = first_few(dict.fromkeys(doc_ids[key] for key, _ in changed if key in doc_ids))
    warn(
        f"{counted(sum(map(len, changed.values())), 'chunk')} of adopted document(s) {names} are "
        "excluded because they were changed or deleted in the vector store after the index was "
        "adopted. Adopt the index again with from_existing_index or RSEIndexer.adopt"
    )


def _warn_of_other_models(model: str, passages: Sequence[Passage]) -> None:
    """Warn if documents have vectors from another embedding model."""
    doc_ids = set()
    for passage in passages:
        manifest = passage.layout.manifest
        if model and manifest.model not in {"", model}:
            doc_ids.add(repr(manifest.doc_id))
    if doc_ids:
        warn(
            f"{len(doc_ids)} document(s) have vectors from another embedding model, so their "
            f"scores are meaningless: {first_few(sorted(doc_ids))}. Add them again, or use "
            "retriever.indexer.check(repair=True) or langchain-rse check --repair to embed them "
            "again"
        )
