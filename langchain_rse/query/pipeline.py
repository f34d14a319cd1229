"""Answers a query: search, rerank, rank, look up, score, select, read, render.

`answer` runs these steps; all code that answers a query calls it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from langchain_core.callbacks import Callbacks
from langchain_core.documents import Document

from langchain_rse._messages import check_type, warn
from langchain_rse._sync import Steps, compute
from langchain_rse.config import QuerySettings
from langchain_rse.errors import CorruptRecordError, MissingRecordError, StoreMismatchError
from langchain_rse.query.candidates import Candidates, Reason, Sources, best_of_queries
from langchain_rse.query.filters import Filters, filters_of, may_exclude
from langchain_rse.query.floor import check_floor
from langchain_rse.query.lookup import LookedUp, Outdated, look_up
from langchain_rse.query.reading import (
    ReadPassages,
    budget_in_characters,
    check_filters,
    choose,
    read,
    render,
    without_changed,
)
from langchain_rse.query.scoring import score, select
from langchain_rse.query.searching import find_candidates, queries_of, rerank, search
from langchain_rse.query.trace import Trace
from langchain_rse.query.witnesses import rank
from langchain_rse.stores.conditions import describe_fields, describe_missing
from langchain_rse.stores.layouts import VersionKey, every_chunk, read_manifests
from langchain_rse.stores.pairing import Model, check_pair
from langchain_rse.text.quoting import counted, encodable, first_few

logger = logging.getLogger(__name__)

ATTEMPTS = 3
"""Number of attempts to answer a query whose documents are replaced meanwhile."""

# Maximum number of manifests to read when looking for a document with text.
_MOST_READ = 500

# Why documents were excluded although something is wrong, with what to do about it.
_ADVICE: Mapping[Reason, str] = {
    Reason.UNKNOWN: "{names} are not in the docstore: to remove their vectors, use "
    "retriever.indexer.check(repair=True) or langchain-rse check --repair; if the docstore lost "
    "the documents, add them again; if other code added them to an adopted index, adopt it again",
    Reason.CORRUPT: "the records of {names} are corrupt: add them again with "
    "add_documents(..., force=True), or with langchain-rse remove and index ({error})",
    Reason.CHANGED: "text of {names} was changed or deleted in the vector store: adopt the index "
    "again with from_existing_index or RSEIndexer.adopt",
    Reason.REPLACED: "{names} were replaced while they were read: ask again",
}
# Reasons of an empty answer that are logged as warnings: something is wrong.
_WARNED = {*_ADVICE, Reason.TOO_LONG, Reason.NO_ROOM, Reason.STALE, Reason.NO_CHUNKS}


def answer(
    question: str,
    sources: Sources,
    settings: QuerySettings,
    callbacks: Callbacks = None,
    *,
    candidates: Candidates | None = None,
) -> Steps[Trace]:
    """Answer a question; return the trace, which contains the passages.

    If documents are replaced meanwhile, the steps are repeated, without the versions that could
    not be read.

    Args:
        question: The question.
        sources: The stores and retriever of the query.
        settings: The settings of the query.
        callbacks: LangChain callbacks for the calls of retrievers and rerankers.
        candidates: Candidates from an earlier `find_candidates`; None to search.

    Raises:
        MissingRecordError: If the docstore has no documents, and no record of the vector store.
        StoreMismatchError: If the search finds nothing although the docstore has documents.
    """
    given: object = question
    key = next(iter(given), "") if isinstance(given, dict) else "question"
    check_type("the query", question, str, f'a string (in a chain: itemgetter("{key}") | ...)')
    trace = Trace(encodable(question), settings)
    filters = filters_of(settings.search_kwargs, sources.base_retriever)
    if candidates is None:
        with _timed(trace, "queries"):
            trace.queries = yield from queries_of(trace.query, settings, callbacks)
    else:
        trace.queries = list(candidates)
    if not trace.queries:
        _give_reason(trace, Reason.NO_QUERY)
        return trace
    model = yield from check_model(sources)

    outdated: set[Outdated] = set()  # versions that do not make another attempt
    unusable: dict[VersionKey, CorruptRecordError] = {}
    attempts = ATTEMPTS
    while attempts:
        found = candidates
        if found is None:
            found = yield from _find(trace, sources, filters, callbacks)
        if not any(found.values()):
            return trace
        with _timed(trace, "rank"):
            ranked = trace.candidates = rank(found, settings)
        with _timed(trace, "look up"):
            looked_up = yield from look_up(sources, ranked, settings, filters, unusable)
        trace.looked_up = looked_up
        trace.replaced = looked_up.outdated() - outdated
        if trace.replaced and attempts > 1:
            # They were replaced since the search; if they come again, a failed call left them.
            outdated |= trace.replaced
            attempts -= 1
            continue
        accepted = _without_rejected(trace, looked_up, sources, model)
        if not accepted.candidates:
            return trace
        with _timed(trace, "score"):
            scored = trace.scored = score(accepted, settings)
        with _timed(trace, "select"):
            characters = budget_in_characters(settings, accepted.candidates)
            selection = trace.selection = select(scored, settings, characters)
        with _timed(trace, "read"):
            contents = yield from read(sources, selection, characters, settings)
        if not (contents.corrupt or contents.replaced):
            break
        unusable.update(contents.corrupt)
        if contents.replaced:  # corrupt documents are met only once
            attempts -= 1

    yield from _finish(trace, contents, filters, sources, model)
    return trace


def try_settings(
    question: str, sources: Sources, settings: Sequence[QuerySettings]
) -> Steps[list[Sequence[Document]]]:
    """Answer a question with each of the settings; return the passages of each answer.

    The search, ``query_generator`` and the reranker run only once, with the first settings. The
    other settings may differ only in later steps.
    """
    first = settings[0]
    filters = filters_of(first.search_kwargs, sources.base_retriever)
    queries = yield from queries_of(encodable(question), first, None)
    candidates = yield from find_candidates(sources, queries, first, filters)
    answers: list[Sequence[Document]] = []
    for each in settings:
        trace = yield from answer(question, sources, each, candidates=candidates)
        answers.append(trace.documents_returned)
    return answers


@contextmanager
def _timed(trace: Trace, step: str) -> Iterator[None]:
    """Add the time of a block to the seconds of a step."""
    started = time.perf_counter()
    try:
        yield
    finally:
        seconds = time.perf_counter() - started
        trace.seconds[step] = trace.seconds.get(step, 0.0) + seconds


def check_model(sources: Sources) -> Steps[Model]:
    """Check that both stores belong together; return the embedding model, if it is known."""
    if sources.adapter is None:
        return Model()
    return (yield from check_pair(sources.docstore, sources.adapter.store, record=False))


def _find(
    trace: Trace,
    sources: Sources,
    filters: Filters,
    callbacks: Callbacks,
) -> Steps[Candidates]:
    """Search and rerank; without candidates, set the trace's reason.

    Raises:
        StoreMismatchError: If the search finds nothing although the docstore has documents.
    """
    settings = trace.settings
    for _ in range(ATTEMPTS):
        with _timed(trace, "search"):
            searched = yield from search(sources, trace.queries, settings, filters, callbacks)
        trace.searched, trace.full_text, trace.documents_found = searched
        if trace.documents_found:
            break
        if not any(trace.searched.values()):  # else the full-text index found chunks
            is_filtered = sources.vectorstore is None or filters.conditions or filters.others
            if is_filtered:
                break
            if not (yield from _has_text(sources)):
                if not sources.namespace:
                    warn("the retriever has no documents with text: add some first")
                break
        # All documents may have been added since the search: search again.
    else:
        raise StoreMismatchError(
            f"{sources.name} found nothing, but the docstore has documents. The vector store is "
            "empty, or it is not the one that they were added to. If its vectors are lost, restore "
            "them with retriever.indexer.check(repair=True) or langchain-rse check --repair"
        )
    found = trace.searched
    if settings.reranker is not None:
        with _timed(trace, "rerank"):
            found = yield from rerank(found, settings, callbacks)
    if not any(found.values()):
        yield from _explain_nothing_found(trace, sources, filters)
    return found


def _without_rejected(
    trace: Trace,
    looked_up: LookedUp,
    sources: Sources,
    model: Model,
) -> LookedUp:
    """Drop queries that do not reach the score floor; set the reason if all are dropped."""
    floor = trace.settings.score_floor
    if floor is None or (floor == "fitted" and looked_up.floors is None):
        return looked_up
    checks = check_floor(looked_up.candidates, sources, trace.settings, model, looked_up.floors)
    trace.floor_checks = checks
    accepted = dict(looked_up.candidates)
    for check in checks:
        if check.is_rejected:
            del accepted[check.query]
    if not accepted:
        _give_reason(trace, Reason.BELOW_THE_FLOOR, **checks[0]._asdict())
    return looked_up._replace(candidates=accepted)


def _finish(
    trace: Trace,
    contents: ReadPassages,
    filters: Filters,
    sources: Sources,
    model: Model,
) -> Steps[None]:
    """Choose the passages to return, and make their Documents."""
    with _timed(trace, "read"):
        trace.passages = yield from without_changed(sources.adapter, contents.passages)
    trace.steps = contents.steps
    with _timed(trace, "render"):
        readable = [passage for passage in trace.passages if passage.outcome is Reason.BEYOND_K]
        trace.returned = choose(readable, trace.settings)
        shows_query = len(trace.queries) > 1
        for passage in trace.returned:
            document = render(passage, trace.settings, shows_query=shows_query)
            trace.documents_returned.append(document)
            if filters.checked:
                check_filters(passage, filters, sources.name)
    yield from _check_excluded(trace, sources, model)
    _warn_of_other_models(model.id, trace)
    if not trace.returned:
        _explain_nothing_chosen(trace)


# Empty answers


def _give_reason(trace: Trace, reason: Reason, words: str = "", **facts: object) -> None:
    """Set and log the reason of an empty answer, in words or with facts for its sentence."""
    trace.reason = words or trace.sentence(reason, facts)
    level = logging.WARNING if reason in _WARNED else logging.INFO
    logger.log(level, "a query returned nothing: %s", trace.reason)


def _explain_nothing_found(trace: Trace, sources: Sources, filters: Filters) -> Steps[None]:
    """Set the reason why there are no candidates."""
    if any(trace.searched.values()):
        count = counted(len(best_of_queries(trace.searched)), "candidate")
        _give_reason(trace, Reason.DROPPED, dropped=f"all of {count}")
        return
    limits = ""
    for name, value in trace.settings.search_kwargs.items():
        if may_exclude(value):
            limits += f" with {name}={value!r:.200}"
    if filters.conditions:
        documents: Sequence[Document] = ()
        with suppress(CorruptRecordError):
            some_chunks = every_chunk(sources.docstore, _MOST_READ)
            documents = yield from compute(next, some_chunks, ())
        found = [document.metadata for document in documents]
        missing = describe_missing(filters.conditions, found)
        if missing:
            warn(f"{sources.name} found nothing{limits}{missing}")
        limits += describe_fields(filters.conditions, found) + missing
    reason = Reason.NO_CHUNKS if trace.documents_found else Reason.NOTHING_FOUND
    _give_reason(
        trace, reason, searcher=sources.name, documents=trace.documents_found, limits=limits
    )


def _explain_nothing_chosen(trace: Trace) -> None:
    """Set the reason of an answer without passages: the outcome of the best candidate."""
    candidates = [chunk for chunk in trace.chunks if chunk.candidate is not None]
    solved = [chunk for chunk in candidates if chunk.weight]
    best = max(solved or candidates, key=lambda chunk: (chunk.relevance, chunk.credited))
    count = counted(len(candidates), "candidate")
    _give_reason(trace, best.outcome, f"the best of {count}: {trace.why(best)}")


def _has_text(sources: Sources) -> Steps[bool]:
    """True if the docstore has a document with text, or one that cannot be read."""
    try:
        manifests = yield from compute(read_manifests, sources.docstore, _MOST_READ)
    except CorruptRecordError:
        return True
    return any(manifest.chunk_count for manifest in manifests)


# Warnings


def _check_excluded(trace: Trace, sources: Sources, model: Model) -> Steps[None]:
    """Warn about documents that are excluded because something is wrong.

    Raises:
        MissingRecordError: If the docstore has no documents, and no record of the vector store.
    """
    names: dict[Reason, dict[str, None]] = {}  # of documents
    error: str | None = None
    exclusions = {} if trace.looked_up is None else trace.looked_up.exclusions
    for candidate, reason, detail in exclusions.values():
        is_replaced = (candidate.doc_id, candidate.version, reason) in trace.replaced
        shown = Reason.REPLACED if is_replaced else reason
        names.setdefault(shown, {})[repr(candidate.doc_id)] = None
        if reason is Reason.CORRUPT:
            error = error or detail
    for passage in trace.passages:
        names.setdefault(passage.outcome, {})[repr(passage.layout.manifest.doc_id)] = None

    unknown = names.get(Reason.UNKNOWN, ())
    if unknown:
        layouts = trace.looked_up.layouts if trace.looked_up else ()
        # A docstore with a record of the store is the right one: its documents are being replaced.
        may_be_lost = not layouts and not model.store
        if may_be_lost and not (yield from _has_text(sources)):
            raise MissingRecordError(
                f"the docstore has no documents, but the vector store has chunks of "
                f"{first_few(unknown)}. Use the docstore that they were added to; if it lost them, "
                "add the documents again"
            )
    problems = []
    for reason, advice in _ADVICE.items():
        if reason in names:
            problems.append(advice.format(names=first_few(names[reason]), error=error))
    if problems:
        warn(f"some documents are excluded from the answer: {'; '.join(problems)}")


def _warn_of_other_models(model: str, trace: Trace) -> None:
    """Warn if documents have vectors from another embedding model."""
    doc_ids = set()
    for passage in trace.passages:
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
